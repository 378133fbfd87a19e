"""What a person can do now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.statuses import Status
from worker.debate.findings import Record, Word
from worker.outputs.advice import action, after_failure, gaps, open_findings, outside, to_go_on, to_take
from worker.outputs.parts import Page
from worker.outputs.report import Report


def test_where_nothing_changed_there_is_nothing_to_take(clean: Report) -> None:
    assert action(Page(clean)) == []


def test_a_debate_under_way_asks_for_nothing(consensus: Report) -> None:
    assert action(Page(replace(consensus, status=None))) == []


def test_one_commit_is_told_in_the_singular(stopped: Report) -> None:
    lines = to_take(Page(replace(stopped, status=Status.CONSENSUS)))
    assert "which holds exactly this [1 commit](" in lines[0]
    assert lines[1] == "```\ngit fetch origin codex-debate/pr-412/w5j1r6kd\ngit merge --ff-only FETCH_HEAD\n```"


def test_what_was_neither_pushed_nor_made_a_patch_is_not_offered(consensus: Report) -> None:
    assert to_take(Page(replace(consensus, pushed=False))) == []


def test_steps_outside_are_told_in_one_line(consensus: Report, clean: Report) -> None:
    assert outside(consensus) == "**Outside this pull request:** F4, production has no `renewals` queue."
    assert outside(clean) == ""


def test_only_commits_before_the_first_open_one_can_be_taken(unresolved: Report) -> None:
    first, second, *rest = unresolved.record.rounds
    assert second.section is not None
    assert second.edited is not None
    mixed = replace(
        second,
        section=replace(second.section, positions=(replace(second.section.positions[0], word=Word.PARTIAL),)),
        edited=replace(second.edited, changed=("a.py",), commit="f" * 40),
    )
    page = Page(replace(unresolved, record=replace(unresolved.record, rounds=(first, mixed, *rest)), tip="f" * 40))
    assert "1. Take the fix of F1 ([1 commit](" in to_go_on(page)[1]
    assert "ffffffffff" not in to_go_on(page)[1]
    turned = Page(replace(page.report, record=replace(page.report.record, rounds=(mixed, first, *rest))))
    assert "Take the" not in "".join(to_go_on(turned))


def test_one_question_is_told_in_the_singular(unresolved: Report) -> None:
    record = replace(unresolved.record, cruxes=unresolved.record.cruxes[:1])
    lines = to_go_on(Page(replace(unresolved, record=record, pushed=False)))
    assert lines[0].endswith("answer the question below in a word, and a new debate starts from your answer:")
    assert '"F2 no, F4 …"' in lines[1]


def test_a_question_that_offers_no_words_leaves_a_place(unresolved: Report) -> None:
    cruxes = tuple(replace(each, question="how many?") for each in unresolved.record.cruxes)
    lines = to_go_on(Page(replace(unresolved, record=replace(unresolved.record, cruxes=cruxes), pushed=False)))
    assert '"F2 …, F4 …"' in lines[1]


def test_a_debate_that_found_nothing_in_time_is_started_again(unresolved: Report) -> None:
    page = Page(replace(unresolved, record=Record(), pushed=False, tip=None))
    assert to_go_on(page) == ["**To go on:** write `/codex-debate review`."]


def test_the_place_of_an_open_finding_is_shown_with_its_lines(unresolved: Report) -> None:
    parts = open_findings(Page(unresolved))
    assert parts[0] == "### F2 · The list of free berths may be 60 s old"
    assert parts[1].endswith("/src/tidebook/availability.py#L86-L91")


@pytest.mark.parametrize(
    ("hint", "line"),
    [
        ("", "**To go on:** write `/codex-debate review`."),
        ("add credit", "**To go on:** add credit. Then write `/codex-debate review`."),
        ("write the command again.", "**To go on:** write the command again."),
    ],
)
def test_a_failure_says_how_to_go_on(stopped: Report, hint: str, line: str) -> None:
    assert after_failure(Page(replace(stopped, hint=hint)))[1].split("\n")[0] == line


def test_an_unreviewed_commit_is_named_only_where_it_was_pushed(stopped: Report) -> None:
    warning = "**Do not push yet:** round 1's commit 5d4463e4d4 is kept, but codex has not looked at it."
    assert after_failure(Page(stopped))[1].endswith(f"\n{warning}")
    assert "Do not push" not in "".join(after_failure(Page(replace(stopped, pushed=False))))
    assert "Do not push" not in "".join(after_failure(Page(replace(stopped, status=Status.CLOSED, hint=""))))


def test_a_reason_that_an_agent_worded_is_inert(stopped: Report) -> None:
    shown = after_failure(Page(replace(stopped, reason="@user ![x](https://e.example) </details>")))[0]
    assert shown.endswith("@\u200buser x (`https://e.example`) `</details>`.")


def test_gaps_name_their_reason(consensus: Report) -> None:
    assert gaps(consensus) == []
    first, second, third = consensus.record.rounds
    assert first.edited is not None
    assert second.edited is not None
    lost = replace(first, edited=replace(first.edited, gap="no"))
    large = replace(second, edited=replace(second.edited, gap="The pack is too large"))
    told = gaps(replace(consensus, record=Record((lost, large, third))))
    assert told == ["**Not committed:** round 1, no.\n**Not committed:** round 2, the pack is too large."]


def test_a_ceiling_of_money_names_its_setting(unresolved: Report) -> None:
    for reason, setting in (("money", "CODEX_DEBATE_RUN_BUDGET_USD"), ("day", "CODEX_DEBATE_DAY_BUDGET_USD")):
        *_, last = to_go_on(Page(replace(unresolved, reason=reason)))
        assert last.startswith(f"**For a longer debate:** the operator of this server raises `{setting}`")
    assert "For a longer debate" not in "".join(to_go_on(Page(unresolved)))
