"""The title of each state that a run can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.statuses import Status
from worker.debate.findings import Record
from worker.outputs.headline import LONGEST, title
from worker.outputs.report import Live, Patch, Report


def test_titles_of_agreement(consensus: Report, clean: Report) -> None:
    assert title(consensus) == "Consensus: 3 fixes wait to be pushed"
    assert title(clean) == "Consensus: nothing to fix"
    offered = replace(consensus, pushed=False, patch=Patch("x", 1, 1, ("F1",)))
    assert title(offered) == "Consensus: 3 fixes are offered in the comment"
    silent = replace(offered, task=offered.task.model_copy(update={"comment": False}))
    assert title(silent) == "Consensus: 3 fixes are offered here"


def test_a_commit_without_a_fix_waits_too(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    assert first.verdict is not None
    quiet = first.verdict.model_copy(update={"findings": (), "approved": True})
    report = replace(consensus, record=Record((replace(first, verdict=quiet),)))
    assert title(report) == "Consensus: 1 commit waits to be pushed"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.NOTHING_TO_REVIEW, "Nothing to review: no change against main"),
        (Status.SUPERSEDED, "Superseded: the branch moved on"),
        (Status.STOPPED, "Stopped by a maintainer in round 2"),
        (Status.CLOSED, "Ended: the pull request was closed"),
        (Status.AUTHORISATION_WITHDRAWN, "Ended: its starter may no longer write here"),
        (Status.REVIEWER_ERROR, "No verdict: codex ended without one, 3 times"),
        (Status.AGENT_ERROR, "No answer: claude ended without one, 3 times"),
        (Status.MERGE_BASE_ERROR, "Not started: no common commit with main"),
        (Status.GIT_REFUSED, "Not started: git refuses an object"),
        (Status.ISOLATION_UNAVAILABLE, "Not started: this worker cannot isolate agents"),
        (Status.STATE_LOST, "Lost: the store forgot this debate, run it again"),
        (Status.TIMED_OUT, "Lost: the worker went away, run it again"),
    ],
)
def test_titles_of_other_ends(stopped: Report, status: Status, said: str) -> None:
    assert title(replace(stopped, status=status, reason="")) == said


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("rounds", "Not agreed: F2 and F4 need a person"),
        ("same state", "Not agreed: F2 and F4 need a person"),
        ("money", "Not agreed: $10.00 spent, F2 and F4 are open"),
        ("time", "Not agreed: out of time, F2 and F4 are open"),
    ],
)
def test_titles_without_agreement(unresolved: Report, reason: str, said: str) -> None:
    assert title(replace(unresolved, reason=reason)) == said


def test_a_debate_that_ran_out_before_its_first_finding(unresolved: Report) -> None:
    assert title(replace(unresolved, reason="time", record=Record())) == "Not agreed: out of time, nothing was settled"
    assert title(replace(unresolved, record=Record())) == "Not agreed: nothing was settled"


def test_titles_of_gaps(consensus: Report) -> None:
    first, second, third = consensus.record.rounds
    assert second.section is not None
    assert second.edited is not None
    lost = replace(second, edited=replace(second.edited, commit=None, gap="no"))
    gap = replace(consensus, status=Status.COMMIT_INCOMPLETE, record=Record((first, lost, third)))
    assert title(gap) == "Consensus, but round 2 could not be committed"
    quiet = replace(second, section=replace(second.section, missing=("F3",)))
    rounds = (consensus.record.rounds[0], quiet, consensus.record.rounds[2])
    left = replace(consensus, status=Status.SECTION_INCOMPLETE, record=Record(rounds))
    assert title(left) == "Consensus, but round 2 left F3 unanswered"


def test_titles_under_way(consensus: Report) -> None:
    first, second, _ = consensus.record.rounds
    half = replace(second, section=None, edited=None)
    begun = replace(consensus, status=None, record=Record())
    assert title(begun) == "Round 1: codex is reviewing"
    answering = Live(2, "author", "claude", "answering", 8, 1, "14:07", "14:06", 1.03)
    assert title(replace(begun, record=Record((first, half)), live=answering)) == (
        "Round 2: claude is answering F3 and F5"
    )
    reading = replace(answering, seat="reviewer", agent="codex", doing="reading the answers")
    assert title(replace(begun, record=Record((first,)), live=reading)) == "Round 2: codex is reading the answers"


def test_a_reason_is_plain_and_short(stopped: Report) -> None:
    assert title(replace(stopped, reason="The account of codex is out of credit.")) == (
        "No verdict: the account of codex is out of credit"
    )
    assert title(replace(stopped, reason="`@user` <b>\nFixes #1 " + "x" * 200)).startswith(
        "No verdict: @\u200buser <b> Fixes #\u200b1 xxx"
    )
    assert len(title(replace(stopped, reason="x" * 200))) == LONGEST
