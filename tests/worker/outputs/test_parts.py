"""The parts that comment and check run share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from worker.debate.findings import Record, Round, Turn
from worker.debate.flow import Edited, Failure, Refusal, Tokens, Used
from worker.debate.task import ChangedFile
from worker.outputs.check import render_check
from worker.outputs.comment import render_comment
from worker.outputs.parts import (
    Page,
    cost_of,
    finding_table,
    read_files,
    round_table,
    seats,
    section,
    time_of,
    told_rounds,
    tree_notes,
    unpriced,
    unread,
    used_by,
)
from worker.outputs.report import Report

HOME = "https://github.com/tidemark-coop/tidebook"


def test_commits_are_links_in_check_runs_and_bare_in_comments(consensus: Report) -> None:
    sha = consensus.tip or ""
    assert Page(consensus).commit(sha) == "6c414d9ad1"
    assert Page(consensus, linked=True).commit(sha) == f"[6c414d9ad1]({HOME}/commit/{sha})"
    assert Page(consensus).compare(sha, 2) == f"[2 commits]({HOME}/compare/{consensus.task.head_sha}...{sha})"


def test_a_table_has_one_row_for_each_finding_and_can_be_cut(consensus: Report) -> None:
    assert finding_table(Page(consensus)).count("\n| F") == 5
    assert finding_table(Page(consensus), 2).count("\n| F") == 2
    assert round_table(Page(consensus)).count("\n| ") == 3


def test_a_title_cannot_leave_its_cell(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    assert first.verdict is not None
    bad = first.verdict.findings[0].model_copy(update={"title": "a | b\n\n# c <b> @user", "location": "x|y.py:3"})
    report = replace(
        consensus,
        record=Record((replace(first, verdict=first.verdict.model_copy(update={"findings": (bad,)})),)),
    )
    row = finding_table(Page(report)).split("\n")[2]
    assert row.startswith("| F1 | a \\| b # c `<b>` @\u200buser<br>blocking, `x\\|y.py:3` | ")


def test_the_path_of_a_deleted_or_escaped_file_is_no_link(consensus: Report) -> None:
    files = (
        ChangedFile(status="D", path="gone.py", size=0),
        ChangedFile(status="M", path="odd\\377.py", size=1),
        ChangedFile(status="A", path="here.py", size=1),
    )
    page = Page(replace(consensus, task=consensus.task.model_copy(update={"files": files})))
    assert page.head.paths == {"here.py"}


def test_a_reviewer_links_to_the_tree_that_it_read(consensus: Report) -> None:
    second = section(consensus.record.rounds[1], Page(consensus))
    assert "/blob/5d4463e4d4f1501e8d93e1be5f4ac721224aab11/src/tidebook/berths.py#L203" in second
    unpushed = section(consensus.record.rounds[1], Page(replace(consensus, pushed=False)))
    assert f"/blob/{consensus.task.head_sha}/src/tidebook/berths.py#L203" in unpushed
    assert "Commit" not in unpushed


def test_a_file_that_the_author_added_can_be_linked_later(consensus: Report) -> None:
    page = Page(consensus)
    third = replace(consensus.record.rounds[2], number=3)
    assert third.verdict is not None
    said = third.verdict.model_copy(update={"summary": "see tests/renewals/test_retry.py:3"})
    shown = section(replace(third, verdict=said), page)
    assert "[`tests/renewals/test_retry.py:3`](" in shown


def test_an_unchanged_finding_that_stays_is_named_without_words(consensus: Report) -> None:
    first, second, _ = consensus.record.rounds
    assert first.verdict is not None
    same = replace(second, verdict=first.verdict, section=None, edited=None)
    shown = section(same, Page(replace(consensus, record=Record((first, same)))))
    assert "- `F2` open.\n" in shown


def test_a_deferral_that_nobody_claimed_stays_open(consensus: Report) -> None:
    first, second, _ = consensus.record.rounds
    assert second.verdict is not None
    late = second.verdict.findings[4].model_copy(update={"status": "deferred"})
    said = second.verdict.model_copy(update={"findings": (*second.verdict.findings[:4], late)})
    half = replace(second, verdict=said, section=None, edited=None)
    shown = section(half, Page(replace(consensus, record=Record((first, half)))))
    assert "- `F5` open, since claude named no step outside this change: `client.py:55` passes" in shown


def test_an_author_that_begins_with_a_capital_gets_a_colon(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    assert first.section is not None
    page = Page(consensus)
    assert "\n**claude**: I fixed it.\n" in section(
        replace(first, section=replace(first.section, intro="I fixed it.")), page
    )
    silent = section(replace(first, section=replace(first.section, intro="")), page)
    assert "\n**claude** fixed F1, fixed F5 in part, disputed F2, F3 and F4.\n" in silent


def test_facts_of_a_run(consensus: Report, clean: Report) -> None:
    assert seats(consensus) == "codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) wrote"
    assert seats(clean).endswith("claude (claude-sonnet-5) had nothing to do")
    assert time_of(consensus) == "11 min"
    assert round(cost_of(consensus), 2) == 1.42
    assert round(cost_of(consensus, "author"), 2) == 0.63
    assert len(told_rounds(consensus)) == 3


def test_a_seat_that_gave_nothing_is_not_said_to_have_worked(clean: Report, consensus: Report) -> None:
    failed = replace(clean, record=Record((Round(1, review=Turn(9, Used("gpt-6.1-sol"))),)))
    assert seats(failed) == (
        "codex (gpt-6.1-sol, effort `xhigh`) gave no verdict, claude (claude-sonnet-5) had nothing to do"
    )
    assert seats(replace(clean, record=Record())) == seats(failed)
    first = replace(consensus.record.rounds[0], section=None, edited=None)
    silent = seats(replace(consensus, record=Record((first,))))
    assert silent.endswith(" reviewed, claude (claude-sonnet-5) gave no answer")


@pytest.mark.threat(92)
def test_what_is_odd_about_the_tree_is_noted(consensus: Report) -> None:
    assert tree_notes(consensus) == ()
    task = consensus.task.model_copy(update={"narrowed": True, "twins": ("README", "a/@you", "readme", "z")})
    large, twins = tree_notes(replace(consensus, task=task))
    assert large == "The tree is too large: only the folders of changed files were read"
    assert twins.startswith("Names differ in case or composition alone: `README`, ")
    assert twins in render_check(replace(consensus, task=task)).summary
    assert f"names{twins[5:]}" in render_comment(replace(consensus, task=task))


def test_files_that_were_put_back_are_named_up_to_twenty(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    refused = tuple(Refusal(f"{n}.yml", "is protected: it was put back") for n in range(25))
    told = section(replace(first, edited=Edited(("a.py",), "0" * 40, refused=refused)), Page(consensus))
    assert "`19.yml` (is protected), 5 more." in told
    assert "`20.yml`" not in told


def test_files_that_were_not_read_are_named_up_to_three(consensus: Report) -> None:
    files = tuple(ChangedFile(status="M", path=f"{n}.bin", size=9, coverage="skipped", why="binary") for n in range(5))
    report = replace(consensus, task=consensus.task.model_copy(update={"files": files}))
    assert unread(report, "skipped") == "`0.bin` (binary), `1.bin` (binary), `2.bin` (binary) and 2 more"
    assert unread(report, "cut") == ""


def with_turns(report: Report, **over: Any) -> Report:
    """Return a report in which each turn of a reviewer used what is said."""
    record = report.record
    turns = [each.review or Turn() for each in record.rounds]
    rounds = (
        replace(each, review=replace(turn, used=replace(turn.used, **over)))
        for each, turn in zip(record.rounds, turns, strict=True)
    )
    return replace(report, record=replace(record, rounds=tuple(rounds)))


def test_tokens_stand_beside_the_money(consensus: Report) -> None:
    assert used_by(consensus) == "", "where nobody counted, nothing is told"
    report = with_turns(consensus, tokens=Tokens(20_000, 15_000, 1_000))
    assert used_by(report) == "63,000 tokens, 75% of the input cached"
    assert " · $1.42 · 63,000 tokens, 75% of the input cached · read 14 of 15 files" in render_comment(report)
    cost = (
        "Cost: 11 min, $1.42 (codex $0.79, claude $0.63), of at most $5.00. 63,000 tokens, 75% of the input cached.\n"
    )
    assert cost in render_check(report).summary


def test_a_model_without_a_price_is_named(consensus: Report) -> None:
    """decisions.md 7: an unknown model counts at the dearest row and says so."""
    assert unpriced(consensus) == ""
    report = with_turns(consensus, unpriced=True)
    said = "no price is known for gpt-6.1-sol, counted as the dearest"
    assert f"$1.42 ({said})" in render_comment(report)
    assert f" {said[:1].upper()}{said[1:]}.\n" in render_check(report).summary


def test_the_turn_that_asked_what_is_left_is_paid_for_too(unresolved: Report) -> None:
    before = cost_of(unresolved)
    closing = Turn(60, Used("gpt-6.1-sol", 0.5, Tokens(100, 0, 10)))
    report = replace(unresolved, record=replace(unresolved.record, closing=closing))
    assert round(cost_of(report) - before, 2) == 0.5
    assert used_by(report) == "110 tokens"


def test_what_a_turn_took_that_failed_is_told(consensus: Report) -> None:
    used = Used("m", 0.25, Tokens(9, 0, 1))
    lost = Turn.of(Failure("refused", "out of credit", seconds=3.0, used=used, attempts=2))
    assert lost == Turn(3.0, used)
    report = replace(
        consensus, record=replace(consensus.record, rounds=(*consensus.record.rounds, Round(4, review=lost)))
    )
    assert round(cost_of(report), 2) == 1.67


def test_nothing_is_said_to_be_read_where_there_is_no_verdict(consensus: Report) -> None:
    assert read_files(consensus) == (14, 15)
    assert read_files(replace(consensus, record=Record((Round(1),)))) == (0, 15)
