"""The title of each state that a run can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.statuses import Status
from worker.debate.findings import Record
from worker.debate.flow import Edited
from worker.debate.task import ChangedFile
from worker.outputs.headline import LONGEST, title
from worker.outputs.report import Live, Patch, Report


def test_titles_of_agreement(consensus: Report, clean: Report) -> None:
    assert title(consensus) == "Consensus: 3 fixes wait to be pushed; not read: uv.lock"
    assert title(clean) == "Consensus: nothing to fix"
    offered = replace(consensus, pushed=False, patch=Patch("x", 1, 1, ("F1",)))
    assert title(offered) == "Consensus: 3 fixes are offered in the comment; not read: uv.lock"
    silent = replace(offered, task=offered.task.model_copy(update={"comment": False}))
    assert title(silent) == "Consensus: 3 fixes are offered here; not read: uv.lock"


def test_a_commit_without_a_fix_waits_too(consensus: Report) -> None:
    first = consensus.record.rounds[0]
    assert first.verdict is not None
    quiet = first.verdict.model_copy(update={"findings": (), "approved": True})
    report = replace(consensus, record=Record((replace(first, verdict=quiet),)))
    assert title(report) == "Consensus: 1 commit waits to be pushed; not read: uv.lock"


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
    assert title(gap) == "Consensus, but round 2 could not be committed; not read: uv.lock"
    quiet = replace(second, section=replace(second.section, missing=("F3",)))
    rounds = (consensus.record.rounds[0], quiet, consensus.record.rounds[2])
    left = replace(consensus, status=Status.SECTION_INCOMPLETE, record=Record(rounds))
    assert title(left) == "Consensus, but round 2 left F3 unanswered; not read: uv.lock"


@pytest.mark.threat(97)
@pytest.mark.parametrize(
    ("skipped", "said"),
    [
        ([], "Consensus: nothing to fix"),
        (["uv.lock"], "Consensus: nothing to fix; not read: uv.lock"),
        (["uv.lock", "a.png"], "Consensus: nothing to fix; not read: uv.lock and a.png"),
        (["a" * 60 + "/x.bin"], f"Consensus: nothing to fix; not read: …{'a' * 33}/x.bin"),
        (
            [f"vendor/library-{n}.min.js" for n in range(9)],
            "Consensus: nothing to fix; not read: vendor/library-0.min.js, vendor/library-1.min.js and 7 more",
        ),
        (["\x1b[31m`@you`\u202e.bin"], "Consensus: nothing to fix; not read: `@\u200byou`\ufffd.bin"),
        (["a/__init__.py"], "Consensus: nothing to fix; not read: a/__init__.py"),
    ],
)
def test_a_title_never_speaks_of_agreement_about_what_nobody_read(clean: Report, skipped: list[str], said: str) -> None:
    files = [ChangedFile(status="M", path=path, size=1, coverage="skipped", why="w") for path in skipped]
    task = clean.task.model_copy(update={"files": (ChangedFile(status="M", path="app.py", size=1), *files)})
    assert title(replace(clean, task=task)) == said


@pytest.mark.threat(97)
@pytest.mark.parametrize(
    ("coverage", "said"),
    [
        (["cut"], "read in part: 0.py"),
        (["cut", "cut", "read"], "read in part: 0.py and 1.py"),
        (["cut", "skipped", "read"], "not all read: 1.py and 0.py"),
    ],
)
def test_a_title_names_what_was_read_in_part(clean: Report, coverage: list[Any], said: str) -> None:
    files = [ChangedFile(status="M", path=f"{n}.py", size=1, coverage=each) for n, each in enumerate(coverage)]
    task = clean.task.model_copy(update={"files": tuple(files)})
    assert title(replace(clean, task=task)) == f"Consensus: nothing to fix; {said}"


def test_where_no_name_finds_room_the_files_are_counted(consensus: Report) -> None:
    names = [f"{n}{'x' * 90}" for n in range(30)]
    files = tuple(ChangedFile(status="M", path=name, size=1, coverage="skipped", why="w") for name in names)
    first, second, third = consensus.record.rounds
    lost = [replace(each, edited=Edited((), "0" * 40, gap="no")) for each in (first, second)]
    rounds = tuple(replace(lost[n % 2], number=2 * n + 1) for n in range(16))
    report = replace(
        consensus,
        status=Status.COMMIT_INCOMPLETE,
        record=Record((*rounds, third)),
        task=consensus.task.model_copy(update={"files": files}),
    )
    assert len(title(report)) <= LONGEST
    assert title(report).startswith("Consensus, but rounds 1, 3, ")
    assert title(report).endswith("…; not read: 30 files")


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
