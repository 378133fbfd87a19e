"""The check run: what it says in each state, and that no success stands where a fix is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.statuses import GATE, TABLE, Status
from worker.debate.findings import Finding, Record, Round, Verdict
from worker.debate.flow import Edited
from worker.debate.task import Seat
from worker.outputs import check
from worker.outputs.check import LIMIT, conclusion, render_check
from worker.outputs.markdown import holds
from worker.outputs.report import Live, Patch, Report

SUMMARY = """\
**Consensus after 3 rounds: 3 findings fixed, 1 conceded, 1 deferred.** The fixes are not in this commit. `git fetch origin codex-debate/pr-412/7h2kq9xw` and `git merge --ff-only FETCH_HEAD` add exactly these [2 commits](https://github.com/tidemark-coop/tidebook/compare/db511f0cf3faf43060bd7350425e61c3742d0665...6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a) to `retry-renewals`.

**Outside this pull request:** F4, production has no `renewals` queue.

| | Finding | Outcome |
|:--|:--|:--|
| F1 | A retry after a timeout charges the card twice<br>blocking, [`retry.py:118`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L118) | fixed<br>[5d4463e4d4](https://github.com/tidemark-coop/tidebook/commit/5d4463e4d4f1501e8d93e1be5f4ac721224aab11) |
| F2 | The row lock is held while the bank answers<br>major, [`retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L97) | conceded by codex |
| F3 | Retries go on after the berth was given away<br>major, [`schedule.py:64`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/schedule.py#L64) | fixed after a dispute<br>[6c414d9ad1](https://github.com/tidemark-coop/tidebook/commit/6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a) |
| F4 | Production has no `renewals` queue<br>major, [`settings.py:31`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/settings.py#L31) | deferred |
| F5 | The wait that the bank asks for is ignored<br>minor, [`retry.py:140`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L140) | fixed in two steps<br>[6c414d9ad1](https://github.com/tidemark-coop/tidebook/commit/6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a) |

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex raised F1 to F5. claude fixed F1, fixed F5 in part, disputed F2, F3 and F4. | [5d4463e4d4](https://github.com/tidemark-coop/tidebook/commit/5d4463e4d4f1501e8d93e1be5f4ac721224aab11) |
| 2 | codex accepted F1, conceded F2, deferred F4, kept F3 and F5. claude fixed F3 and F5. | [6c414d9ad1](https://github.com/tidemark-coop/tidebook/commit/6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a) |
| 3 | codex accepted F3 and F5, found nothing new. | none |

Cost: 11 min, $1.42 (codex $0.79, claude $0.63), of at most $5.00.
Coverage: 14 of 15 changed files read. Skipped: `uv.lock` (generated).
Seats: codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) wrote. Base [3b79ba38d6](https://github.com/tidemark-coop/tidebook/commit/3b79ba38d6029cae00cfe92997f7f877a6129405), run `7h2kq9xw`.
"""  # noqa: E501 - a summary as it is posted

PROGRESS = """\
**codex reviews, claude answers.** 3 of 5 findings are settled, F3 and F5 are open.

Minute 8 of at most 180 · $1.03 of at most $5.00 · written 14:07 UTC, renewed every minute. claude has been at work for 1 min (a turn may take 30), and showed its last sign of life at 14:06. If this line grows older than 5 minutes, the worker is gone and another one takes over by itself.

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex raised F1 to F5. claude fixed F1, fixed F5 in part, disputed F2, F3 and F4. | [5d4463e4d4](https://github.com/tidemark-coop/tidebook/commit/5d4463e4d4f1501e8d93e1be5f4ac721224aab11) |
| 2 | codex accepted F1, conceded F2, deferred F4, kept F3 and F5. | |
"""  # noqa: E501 - a summary as it is posted


def test_a_consensus_whose_fixes_wait(consensus: Report) -> None:
    shown = render_check(consensus)
    assert (shown.status, shown.conclusion) == ("completed", "action_required")
    assert shown.title == "Consensus: 3 fixes wait to be pushed; not read: uv.lock"
    assert shown.summary == SUMMARY
    assert shown.text.startswith("### Round 1\n\n**codex** did not approve. The worker retries what it should")
    assert shown.text.count("\n### Round ") == 2
    assert "Commit [5d4463e4d4](https://github.com/tidemark-coop/tidebook/commit/5d4463e4d4f1501e" in shown.text
    assert "<details>" not in shown.text
    assert render_check(consensus) == shown


def test_annotations_tell_what_this_commit_lacks(consensus: Report) -> None:
    notes = render_check(consensus).annotations
    assert [(note["path"], note["start_line"], note["annotation_level"]) for note in notes] == [
        ("src/tidebook/renewals/retry.py", 118, "warning"),
        ("src/tidebook/renewals/schedule.py", 64, "warning"),
        ("src/tidebook/renewals/retry.py", 140, "notice"),
    ]
    assert dict(notes[0]) == {
        "path": "src/tidebook/renewals/retry.py",
        "start_line": 118,
        "end_line": 118,
        "annotation_level": "warning",
        "title": "F1 blocking: fixed in 5d4463e4d4, not in this commit",
        "message": "A retry after a timeout charges the card twice.",
    }


def test_annotations_stand_only_on_lines_of_the_diff(consensus: Report) -> None:
    assert render_check(replace(consensus, diff_lines=frozenset())).annotations == ()


def test_open_findings_are_annotated_by_their_weight(unresolved: Report) -> None:
    lines = frozenset({("src/tidebook/availability.py", 86), ("src/tidebook/office/board.py", 40)})
    more = frozenset({("src/tidebook/office/board.py", 44)})
    notes = render_check(replace(unresolved, diff_lines=lines | more)).annotations
    assert [(note["title"], note["annotation_level"]) for note in notes] == [
        ("F2 major: open", "failure"),
        ("F4 minor: open", "notice"),
    ]
    assert [(note["start_line"], note["end_line"]) for note in notes] == [(86, 86), (40, 44)]


def test_a_fix_in_a_patch_is_annotated_so(consensus: Report) -> None:
    report = replace(consensus, pushed=False, patch=Patch("x", 1, 1, ("F1",)))
    assert render_check(report).annotations[0]["title"] == "F1 blocking: fixed in the patch, not in this commit"


def test_under_way(consensus: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _ = consensus.record.rounds
    half = replace(second, section=None, edited=None, author=None)
    live = Live(2, "author", "claude", "answering", 8, 1, "14:07", "14:06", 1.03)
    report = replace(consensus, record=Record((first, half)), status=None, live=live)
    shown = render_check(report)
    assert (shown.status, shown.conclusion, shown.text, shown.annotations) == ("in_progress", None, "", ())
    assert shown.title == "Round 2: claude is answering F3 and F5"
    assert shown.summary == PROGRESS
    monkeypatch.setattr(check, "available", lambda verb: True)
    assert render_check(report).summary == f"{PROGRESS}\nTo end it: `/codex-debate stop`.\n"


def test_at_the_very_start(consensus: Report) -> None:
    shown = render_check(Report(consensus.task, Record()))
    assert shown.title == "Round 1: codex is reviewing"
    assert shown.summary == "**codex reviews, claude answers.** No findings yet.\n"


def test_one_agent_in_both_seats_is_said(consensus: Report) -> None:
    lint = Seat(agent="lint")
    task = consensus.task.model_copy(update={"seats": {"reviewer": lint, "author": lint}})
    assert render_check(Report(task, Record())).summary.startswith("**lint reviews and answers.**")
    shown = render_check(replace(consensus, task=task)).summary
    assert "\n\nBoth seats are lint: agreement between two different providers" in shown
    assert "Cost: 11 min, $1.42, of at most $5.00." in shown


def test_nothing_to_fix(clean: Report) -> None:
    shown = render_check(clean)
    assert (shown.conclusion, shown.title, shown.text) == ("success", "Consensus: nothing to fix", "")
    assert shown.summary.startswith("**Consensus after 1 round: codex found nothing to fix.**\n\nCost: 2 min, $0.21 (")


def test_without_agreement_the_summary_says_what_to_decide(unresolved: Report) -> None:
    shown = render_check(unresolved)
    assert (shown.conclusion, shown.title) == ("action_required", "Not agreed: F2 and F4 need a person")
    assert shown.summary.startswith("**Unresolved** on 2b16cb61e5 after 4 rounds, the limit: F2 and F4 are open")
    assert "### F2 · The list of free berths may be 60 s old" in shown.summary
    assert '/codex-debate --rationale "F2 no, F4 yes"' in shown.summary


def test_a_failure_says_whose_it_is(stopped: Report) -> None:
    shown = render_check(stopped)
    assert shown.conclusion == "failure"
    assert shown.title.startswith("No verdict: the provider of codex says: 429 insufficient_quota")
    assert shown.summary.startswith(
        "**Stopped** in round 2: codex gave no verdict in 3 attempts. No agreement.\n\n"
        "**The cause is not in this pull request.** The provider of codex says: `429"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            Status.NOTHING_TO_REVIEW,
            "`retry-renewals` holds no change against `main`; nothing was reviewed.\n\nFor another base write",
        ),
        (
            Status.MERGE_BASE_ERROR,
            "`retry-renewals` and `main` have no common commit; nothing was started. Git says so.\n\nFor another base",
        ),
        (Status.GIT_REFUSED, "Git refuses an object of this pull request; nothing was started. Git says so.\n\nWrite"),
        (Status.ISOLATION_UNAVAILABLE, "Nothing was started. Git says so.\n"),
    ],
)
def test_a_debate_that_did_not_begin_says_why(consensus: Report, status: Status, said: str) -> None:
    reason = "" if status is Status.NOTHING_TO_REVIEW else "git says so"
    shown = render_check(Report(consensus.task, Record(), status, reason=reason))
    assert shown.summary.startswith(said)
    assert "Cost:" not in shown.summary
    hinted = render_check(Report(consensus.task, Record(), status, reason=reason, hint="do this"))
    assert hinted.summary.endswith("\n\nDo this.\n")


def test_an_end_before_the_checkout_tells_no_facts(consensus: Report) -> None:
    task = consensus.task.model_copy(update={"merge_base": "", "files": ()})
    shown = render_check(Report(task, Record(), Status.CLOSED))
    assert "Cost:" not in shown.summary
    assert "[](" not in shown.summary


# ---- Conclusions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.CONSENSUS])
@pytest.mark.parametrize("gate", ["action_required", "neutral", "failure"])
def test_a_conclusion_follows_the_table_and_the_gate(consensus: Report, status: Status, gate: str) -> None:
    word = TABLE[status].conclusion
    assert conclusion(replace(consensus, status=status), gate) == (gate if word == GATE else word)


@pytest.mark.parametrize(
    ("gate", "word"), [("action_required", "action_required"), ("neutral", "neutral"), ("failure", "action_required")]
)
def test_fixes_that_wait_are_never_a_success(consensus: Report, gate: str, word: str) -> None:
    assert conclusion(consensus, gate) == word


edits = st.builds(
    Edited,
    changed=st.sampled_from([(), ("a.py",)]),
    tree=st.just("1" * 40),
    commit=st.sampled_from([None, "c" * 40]),
    gap=st.sampled_from([None, "too large"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    made=st.lists(st.none() | edits, max_size=3),
    tip=st.sampled_from([None, "c" * 40]),
    pushed=st.booleans(),
    patched=st.booleans(),
    gate=st.sampled_from(["action_required", "neutral", "failure"]),
    status=st.sampled_from([None, *Status]),
)
def test_no_success_stands_where_a_fix_is_missing(
    clean: Report,
    made: list[Edited | None],
    tip: str | None,
    pushed: bool,
    patched: bool,
    gate: str,
    status: Status | None,
) -> None:
    rounds = tuple(Round(number, edited=each) for number, each in enumerate(made, 1))
    report = replace(
        clean,
        record=Record(rounds),
        tip=tip,
        pushed=pushed,
        patch=Patch("x", 1, 1, ()) if patched else None,
        status=status,
    )
    elsewhere = patched or tip is not None or any(each is not None and each.changed for each in made)
    word = conclusion(report, gate)
    assert (word == "success") == (status is Status.CONSENSUS and not elsewhere)
    assert (word is None) == (status is None)


# ---- Sizes ----------------------------------------------------------------------------------------------------------


def long_debate(report: Report, rounds: int, words: int, findings: int = 1) -> Report:
    told = [
        Round(
            number,
            Verdict(
                approved=False,
                summary="word " * words,
                findings=tuple(
                    Finding(
                        id=f"F{each}",
                        title="t" * 60,
                        severity="major",
                        location=f"{'p' * 120}.py:{each}",
                        issue="i",
                        suggestion="",
                        status="open",
                    )
                    for each in range(1, findings + 1)
                ),
                response_to_rebuttal="",
            ),
        )
        for number in range(1, rounds + 1)
    ]
    return replace(report, record=Record(tuple(told)), status=Status.UNRESOLVED, reason="time", tip=None, pushed=False)


def test_a_long_text_ends_where_a_round_ends_and_says_so(consensus: Report) -> None:
    report = replace(long_debate(consensus, 9, 2_500), comment_url="https://github.com/o/r/pull/1#issuecomment-2")
    text = render_check(report).text
    assert len(text.encode()) <= LIMIT
    assert text.endswith(
        "\n\nLeft out here, since the text may not be longer: rounds 6, 7, 8 and 9. See the "
        "[comment](https://github.com/o/r/pull/1#issuecomment-2)."
    )


def test_a_first_round_that_is_too_long_is_shortened_in_its_place(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    assert first.verdict is not None
    long = [each.model_copy(update={"issue": "word " * 6_000}) for each in first.verdict.findings]
    said = first.verdict.model_copy(update={"findings": tuple(long)})
    text = render_check(replace(consensus, record=Record((replace(first, verdict=said),)))).text
    assert len(text.encode()) <= LIMIT
    assert text.startswith("### Round 1\n\n```text\n**codex** did not approve.")
    assert text.endswith("word …\n```")


def test_a_long_summary_loses_rows_and_says_how_many(consensus: Report) -> None:
    shown = render_check(long_debate(consensus, 1, 1, findings=400)).summary
    assert len(shown.encode()) <= LIMIT
    assert "200 more findings: left out here, since the summary may not be longer." in shown
    assert holds(shown, {"table": 2})


def test_a_patch_without_another_place_stands_first_in_the_text(consensus: Report) -> None:
    patch = Patch("+x\n" * 8_000, files=1, lines=8_000, ids=("F1",))
    shown = render_check(replace(consensus, pushed=False, patch=patch))
    assert shown.text.startswith(
        "<details open>\n<summary>Patch for F1 (1 file, 8000 lines)</summary>\n\n```diff\n+x\n"
    )
    assert "The patch below holds them." in shown.summary
    assert len(shown.text.encode()) <= LIMIT
    small = render_check(replace(consensus, pushed=False, patch=replace(patch, text="+x\n")))
    assert "The patch in the comment holds them." in small.summary
    assert "<details" not in small.text
    hidden = render_check(replace(consensus, pushed=False, patch=replace(patch, text="+\u202e\n")))
    assert "The patch is not shown: it holds characters that would not survive." in hidden.summary


def test_a_body_that_is_read_otherwise_is_sent_in_fences(consensus: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "holds", lambda body, skeleton: False)
    shown = render_check(consensus)
    assert "**codex** did not approve.\n\n```text\nThe worker retries" in shown.text
    assert len(render_check(long_debate(consensus, 1, 30_000)).text.encode()) <= LIMIT
