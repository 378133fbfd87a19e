"""What happened in each round, in one line of plain words. Pure: the same report tells the same story."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from bot.statuses import Status
from worker.debate.findings import LedgerEntry, Record, Round, State, Word, ledger
from worker.outputs.report import Report
from worker.outputs.terms import count, in_words, join_ids, join_words, natural

REVIEWER, AUTHOR = "reviewer", "author"
PAUSES = ("5 s", "10 s")
"""Pauses between the attempts of a turn (decisions.md 1.6)."""


def agent(report: Report, seat: str) -> str:
    """Return the name of the agent in a seat, without its argument."""
    chosen = report.task.seats.get(seat)
    return chosen.agent.partition(":")[0] if chosen else seat


def rounds(report: Report) -> tuple[Round, ...]:
    """Return the rounds to show: those of the record, and one that ended before its first reply."""
    found = report.record.rounds
    if report.status is Status.REVIEWER_ERROR and (not found or found[-1].verdict is not None):
        return (*found, Round(len(found) + 1))
    return found


class _Clause(NamedTuple):
    verb: str
    ids: tuple[str, ...]
    end: str = ""


def round_line(each: Round, report: Report) -> str:
    """Return a round in a line: ``codex raised F1 to F5. claude fixed F1, disputed F2, F3, F4 and F5.``."""
    review = _review_clauses(each, report)
    sentences = []
    if each.verdict is None:
        sentences.append(_silent(agent(report, REVIEWER), report) if _failed(report, REVIEWER) else "")
    else:
        sentences.append(f"{agent(report, REVIEWER)} {review_line(each, report)}.")
    if each.section is not None:
        same = set(review[0].ids) if len(review) == 1 else set()
        sentences.append(f"{agent(report, AUTHOR)} {author_line(each, same)}.")
    if each is rounds(report)[-1]:
        sentences.append(_end(each, report))
    return " ".join(filter(None, sentences))


def review_line(each: Round, report: Report) -> str:
    """Return what the reviewer did in a round: ``accepted F1, conceded F2, kept F3``."""
    review = _review_clauses(each, report)
    known = {entry.id for entry in ledger(_until(report, each.number))}
    told = _told(review, known if each.number > 1 else set())
    if not review and each.number == 1:
        return "found nothing to fix"
    if not any(clause.verb in {"kept", "raised", "reopened"} for clause in review):
        return f"{told}, found nothing new" if told else "found nothing new"
    return told


def author_line(each: Round, same: Iterable[str] = ()) -> str:
    """Return what the author did in a round; `same` are ids that the words before have just named together."""
    if each.section is None:
        return ""
    ids = {word: tuple(sorted((p.id for p in each.section.positions if p.word is word), key=natural)) for word in Word}
    disputed = tuple(sorted((*ids[Word.DISPUTED], *ids[Word.GATE]), key=natural))
    clauses = [
        _Clause("fixed", ids[Word.FIXED]),
        _Clause("fixed", ids[Word.PARTIAL], " in part"),
        _Clause("disputed", disputed),
        _Clause("left", each.section.missing, " unanswered"),
    ]
    return _told([clause for clause in clauses if clause.ids], set(same)) or "had nothing to answer"


def _review_clauses(each: Round, report: Report) -> list[_Clause]:
    before = {entry.id: entry for entry in ledger(_until(report, each.number))}
    half = replace(each, section=None)
    after = ledger(replace(report.record, rounds=(*_until(report, each.number).rounds, half)))
    named = {finding.id for finding in each.verdict.findings} if each.verdict else set()
    found: dict[str, list[str]] = {}
    for entry in after:
        if entry.id in named and (verb := _verb(before.get(entry.id), entry)):
            found.setdefault(verb, []).append(entry.id)
    order = ("accepted", "conceded", "deferred", "kept", "reopened", "raised")
    return [_Clause(verb, tuple(sorted(found[verb], key=natural))) for verb in order if verb in found]


def _verb(before: LedgerEntry | None, after: LedgerEntry) -> str:
    if before is None:
        return "raised"
    if before.state is not State.OPEN:
        return "reopened" if after.state is State.OPEN else ""
    return {State.FIXED: "accepted", State.CONCEDED: "conceded", State.DEFERRED: "deferred", State.OPEN: "kept"}[
        after.state
    ]


def _told(clauses: Sequence[_Clause], same: set[str]) -> str:
    """Return clauses in a row. One about exactly the ids that are meant anyway says ``both`` or ``all three``."""
    if len(clauses) == 1 and len(same) > 1 and set(clauses[0].ids) == same:
        every = "both" if len(same) == 2 else f"all {in_words(len(same))}"
        return f"{clauses[0].verb} {every}{clauses[0].end}"
    return ", ".join(f"{clause.verb} {join_ids(clause.ids)}{clause.end}" for clause in clauses)


def _until(report: Report, number: int) -> Record:
    return replace(report.record, rounds=tuple(each for each in report.record.rounds if each.number < number))


def _failed(report: Report, seat: str) -> bool:
    return report.failed_seat == seat or report.status is {
        REVIEWER: Status.REVIEWER_ERROR,
        AUTHOR: Status.AGENT_ERROR,
    }.get(seat)


def _silent(name: str, report: Report) -> str:
    pauses = PAUSES[: max(report.attempts - 1, 0)]
    tries = f" ({count(report.attempts, 'attempt')}, {join_words(pauses)} apart)" if pauses else ""
    return f"{name} did not answer{tries}."


BACKSTOPS = {
    "rounds": "Limit of rounds.",
    "same state": "Three rounds alike.",
    "time": "Out of time.",
    "money": "Ceiling reached: out of money.",
    "day": "Ceiling reached: out of money for today.",
    "calls": "Ceiling reached: too many calls.",
}
"""What a round's line says when it was the last one (`worker.debate.findings.Outcome`)."""


def _end(each: Round, report: Report) -> str:
    if report.status is Status.UNRESOLVED:
        return BACKSTOPS.get(report.reason, "")
    if report.status is Status.AGENT_ERROR and each.section is None:
        return _silent(agent(report, AUTHOR), report)
    return ""
