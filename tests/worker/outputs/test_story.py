"""What happened in a round, told in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.statuses import Status
from worker.debate.findings import Finding, Position, Record, Round, Section, Verdict, Word
from worker.debate.flow import Edited
from worker.outputs.report import Report
from worker.outputs.story import agent, author_line, round_line, rounds


def lines(report: Report) -> list[str]:
    return [round_line(each, report) for each in rounds(report)]


def test_the_rounds_of_a_consensus(consensus: Report) -> None:
    assert lines(consensus) == [
        "codex raised F1 to F5. claude fixed F1, fixed F5 in part, disputed F2, F3 and F4.",
        "codex accepted F1, conceded F2, deferred F4, kept F3 and F5. claude fixed F3 and F5.",
        "codex accepted F3 and F5, found nothing new.",
    ]


def test_the_rounds_of_a_debate_without_agreement(unresolved: Report) -> None:
    assert lines(unresolved) == [
        "codex raised F1, F2 and F3. claude fixed F1, disputed F2 and F3.",
        "codex accepted F1, conceded F3, kept F2, raised F4. claude disputed F2 and F4.",
        "codex kept F2 and F4. claude disputed both.",
        "codex kept F2 and F4. Limit of rounds.",
    ]


def test_a_reviewer_that_fell_silent(stopped: Report) -> None:
    assert lines(stopped)[-1] == "codex did not answer (3 attempts, 5 s and 10 s apart)."
    assert lines(replace(stopped, attempts=2))[-1] == "codex did not answer (2 attempts, 5 s apart)."
    assert lines(replace(stopped, attempts=1))[-1] == "codex did not answer."


def test_the_round_that_a_reviewer_never_began_is_told_too(stopped: Report) -> None:
    short = replace(stopped, record=Record(stopped.record.rounds[:1]))
    assert lines(short) == lines(stopped)


def small(*answers: tuple[str, Word], statuses: str = "open") -> tuple[Verdict, Section]:
    findings = tuple(
        Finding.model_validate(
            {
                "id": each,
                "title": "t",
                "severity": "minor",
                "location": "a.py:1",
                "issue": "i",
                "suggestion": "",
                "status": statuses,
            }
        )
        for each, _ in answers
    )
    section = Section("", "", tuple(Position(each, word, "") for each, word in answers))
    return Verdict(approved=statuses != "open", summary="", findings=findings, response_to_rebuttal=""), section


@pytest.mark.parametrize(
    ("ids", "first", "second"),
    [
        (["F1"], "codex raised F1. claude fixed F1.", "codex accepted F1, found nothing new."),
        (["F1", "F2"], "codex raised F1 and F2. claude fixed both.", "codex accepted both, found nothing new."),
        (
            ["F1", "F2", "F3"],
            "codex raised F1, F2 and F3. claude fixed all three.",
            "codex accepted all three, found nothing new.",
        ),
        (
            ["F1", "F2", "F3", "F4"],
            "codex raised F1 to F4. claude fixed all four.",
            "codex accepted all four, found nothing new.",
        ),
    ],
)
def test_all_of_them_are_not_counted_up_twice(consensus: Report, ids: list[str], first: str, second: str) -> None:
    answers = [(each, Word.FIXED) for each in ids]
    verdict, section = small(*answers)
    approval, _ = small(*answers, statuses="resolved")
    edited = Edited(("a.py",), "tree")
    record = Record((Round(1, verdict, None, section, edited), Round(2, approval)))
    assert lines(replace(consensus, record=record)) == [first, second]


def test_nothing_to_fix(clean: Report) -> None:
    assert lines(clean) == ["codex found nothing to fix."]


def test_an_author_without_an_answer(consensus: Report) -> None:
    half = replace(consensus.record.rounds[0], section=None, edited=None)
    report = replace(consensus, record=Record((half,)), status=Status.AGENT_ERROR, failed_seat="author", attempts=1)
    assert lines(report) == ["codex raised F1 to F5. claude did not answer."]


def test_what_an_author_left_out_is_said() -> None:
    section = Section("", "", (Position("F1", Word.FIXED, ""),), missing=("F2", "F3"))
    assert author_line(Round(1, section=section)) == "fixed F1, left F2 and F3 unanswered"
    assert author_line(Round(1, section=Section("", "", ()))) == "had nothing to answer"
    assert author_line(Round(1)) == ""


def test_an_agents_argument_is_not_its_name(consensus: Report) -> None:
    seats = {"reviewer": consensus.task.seats["reviewer"].model_copy(update={"agent": "scripted:/srv/a.json"})}
    report = replace(consensus, task=consensus.task.model_copy(update={"seats": seats}))
    assert agent(report, "reviewer") == "scripted"
    assert agent(report, "author") == "author"
