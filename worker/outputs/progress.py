"""How a run stands, as JSON for whoever watches it here: the rounds, the findings, who is at work. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import groupby

from bot.redact import whole
from worker.debate.findings import LedgerEntry, Round, State, Turn, ledger
from worker.outputs.report import Report
from worker.outputs.story import AUTHOR, REVIEWER, agent, author_line, review_line
from worker.outputs.terms import count, lower_first, short
from worker.outputs.words import badge_line, outcome_word

SEVERITIES = ("blocking", "major", "minor", "nit")


@dataclass(frozen=True, slots=True)
class SeatLine:
    """One turn of one seat."""

    agent: str
    seat: str
    text: str
    seconds: float = 0.0
    usd: float = 0.0
    working: bool = False
    began: float = 0.0
    """Seconds since 1970, while it works."""
    activity: str = ""
    """What it does just now, in its own words."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AtWork:
    """Whose turn it is, and since when (seconds since 1970)."""

    round: int
    seat: str
    doing: str
    began: float
    activity: str = ""
    """What it does just now, in its own words."""
    usd: float = 0.0
    """What the turn has cost by now."""


def progress(report: Report, at_work: AtWork | None) -> str:
    """Return how a run stands; `at_work` is None where nobody is."""
    task = report.task
    # At the end the turn that was under way stands in the record.
    under_way = at_work.usd if at_work and report.status is None else 0.0
    shown = json.dumps(
        {
            "run": task.run,
            "head_ref": task.head_ref,
            "base_ref": task.base_ref,
            "files": len(task.files),
            "added": sum(each.added for each in task.files),
            "removed": sum(each.removed for each in task.files),
            "started": task.created_at.timestamp(),
            "round": at_work.round if at_work else len(report.record.rounds),
            "limit_seconds": task.limits.run_seconds,
            "limit_usd": task.limits.usd,
            "rounds": _rounds(report, at_work),
            "findings": [
                {
                    "id": entry.id,
                    "severity": entry.severity,
                    "title": entry.title,
                    "place": entry.location,
                    "state": "conceded"
                    if _conceded(entry.state, outcome_word(entry, report))
                    else outcome_word(entry, report),
                }
                for entry in ledger(report.record)
            ],
            "usd": sum(turn.used.usd for turn in report.record.turns) + under_way,
            "finished": report.status is not None,
            "badge": badge_line(report) if report.status is not None else "",
            "outside": [
                f"{entry.id}, {lower_first(entry.title)}" for entry in ledger(report.record) if _outside(entry)
            ],
        },
        ensure_ascii=False,
    )
    # What an agent does may hold half a pair of surrogates, which no store takes.
    return whole(shown)


def _rounds(report: Report, at_work: AtWork | None) -> list[dict[str, object]]:
    """Return the rounds with their turns, the one that is under way last."""
    rounds: list[dict[str, object]] = [
        {"number": each.number, "lines": _lines(each, report)} for each in report.record.rounds
    ]
    if at_work is None or report.status is not None:
        return rounds
    line = SeatLine(
        agent(report, at_work.seat),
        at_work.seat,
        at_work.doing,
        usd=at_work.usd,
        working=True,
        began=at_work.began,
        activity=at_work.activity,
    )
    if not rounds or rounds[-1]["number"] != at_work.round:
        rounds.append({"number": at_work.round, "lines": []})
    rounds[-1]["lines"] = [*_lines_of(rounds[-1]), asdict(line)]
    return rounds


def _outside(entry: LedgerEntry) -> bool:
    return entry.state is State.DEFERRED


def _conceded(state: State, word: str) -> bool:
    """Return whether a finding was simply conceded: the table's column has no room for by whom."""
    return state is State.CONCEDED and word.startswith("conceded by")


def _lines_of(shown: dict[str, object]) -> list[object]:
    lines = shown["lines"]
    return list(lines) if isinstance(lines, list) else []


def _lines(each: Round, report: Report) -> list[dict[str, object]]:
    """Return the turns of a round that are done."""
    found = []
    if each.verdict is not None:
        found.append(_line(REVIEWER, each.review, report, text=_reviewed(each, report), detail=_raised(each)))
    if each.section is not None:
        commit = each.edited.commit if each.edited else None
        detail = f"commit {short(commit)}" if commit else ""
        found.append(_line(AUTHOR, each.author, report, text=author_line(each), detail=detail))
    return [asdict(line) for line in found]


def _line(seat: str, turn: Turn | None, report: Report, *, text: str, detail: str) -> SeatLine:
    seconds, usd = (turn.seconds, turn.used.usd) if turn else (0.0, 0.0)
    return SeatLine(agent(report, seat), seat, text, seconds=seconds, usd=usd, detail=detail)


def _reviewed(each: Round, report: Report) -> str:
    """Return what the reviewer did: in the first round the number of findings, later what became of each."""
    if each.number > 1 or each.verdict is None or not each.verdict.findings:
        return review_line(each, report)
    return f"raised {count(len(each.verdict.findings), 'finding')}"


def _raised(each: Round) -> str:
    """Return the findings of the first round by their severity: ``F1 blocking; F2, F3 major``."""
    if each.number > 1 or each.verdict is None:
        return ""
    findings = sorted(each.verdict.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    groups = groupby(findings, key=lambda finding: finding.severity)
    return "; ".join(f"{', '.join(finding.id for finding in group)} {severity}" for severity, group in groups)
