"""The sentences of a report in plain words: what became of each finding, what happened in each round, how it ended.

Shared ground of comment, check run and terminal. It makes no layout; where a sentence needs Markdown (a badge, a
branch), it uses only marks that a terminal can take out again. Pure: the same report gives the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bot.commands import available
from bot.statuses import Status
from worker.debate.findings import LedgerEntry, State, Word, ledger
from worker.ended import RETARGETED
from worker.outputs.markdown import code, inline
from worker.outputs.report import Report
from worker.outputs.story import AUTHOR, REVIEWER, agent, author_line, round_line, rounds
from worker.outputs.terms import count, in_words, join_ids, join_words, money, natural, short

__all__ = [
    "AUTHOR",
    "REVIEWER",
    "agent",
    "author_line",
    "badge_line",
    "join_ids",
    "outcome_word",
    "round_line",
    "rounds",
    "tally",
]

FOR_A_PERSON = "no automatic fix"
"""How an author says that a finding is nothing for it: conceded then means left to a person (decisions.md 4)."""


# ---- Who ----------------------------------------------------------------------------------------------------------


def same_agent(report: Report) -> str:
    """Return the sentence that says that one agent sits in both seats; empty where two do (protocols.md 0.2, 11)."""
    if agent(report, REVIEWER) != agent(report, AUTHOR):
        return ""
    return (
        f"Both seats are {agent(report, REVIEWER)}: agreement between two different providers is the stronger signal."
    )


# ---- What became of the findings ------------------------------------------------------------------------------------


def entries(report: Report) -> tuple[LedgerEntry, ...]:
    """Return the ledger, in the order of ids."""
    return tuple(sorted(ledger(report.record), key=lambda entry: natural(entry.id)))


def open_ids(report: Report) -> list[str]:
    """Return the ids that are open now."""
    return [entry.id for entry in entries(report) if entry.state is State.OPEN]


def left_to_a_person(entry: LedgerEntry, report: Report) -> bool:
    """Return whether a finding was conceded only because no agent here has a fix for it."""
    said = [
        position.text
        for each in report.record.rounds
        if each.section
        for position in each.section.positions
        if position.id == entry.id
    ]
    return entry.state is State.CONCEDED and bool(said) and said[-1].lower().startswith(FOR_A_PERSON)


class Counts(NamedTuple):
    """How many findings ended how."""

    fixed: int
    conceded: int
    deferred: int
    left: int
    open: int

    @property
    def total(self) -> int:
        """All findings."""
        return sum(self)


def counts(report: Report) -> Counts:
    """Return how many findings ended how."""
    found = entries(report)
    left = sum(left_to_a_person(entry, report) for entry in found)
    states = Counter(entry.state for entry in found)
    return Counts(states[State.FIXED], states[State.CONCEDED] - left, states[State.DEFERRED], left, states[State.OPEN])


def tally(report: Report) -> str:
    """Return ``3 findings fixed, 1 conceded, 1 deferred``, or ``2 findings, both conceded``."""
    told = counts(report)
    ways = {
        "fixed": told.fixed,
        "conceded": told.conceded,
        "deferred": told.deferred,
        "left to a person": told.left,
        "open": told.open,
    }
    said = [(number, way) for way, number in ways.items() if number]
    match said:
        case []:
            return ""
        case [(number, way)] if way in {"conceded", "deferred"}:
            every = {1: "", 2: "both "}.get(number, "all ")
            return f"{count(number, 'finding')}, {every}{way}"
        case [(number, way), *rest]:
            return ", ".join([f"{count(number, 'finding')} {way}", *(f"{other} {what}" for other, what in rest)])
    return ""


def unjudged(entry: LedgerEntry, report: Report) -> bool:
    """Return whether the author's last word about an open finding has not been looked at by the reviewer."""
    judged = [each.number for each in report.record.rounds if each.verdict is not None]
    return entry.state is State.OPEN and bool(entry.words) and entry.words[-1][0] >= max(judged, default=0)


def outcome_word(entry: LedgerEntry, report: Report) -> str:
    """Return what became of a finding, in a few plain words."""
    said = [word for _, word in entry.words]
    match entry.state:
        case State.OPEN if unjudged(entry, report):
            word = _unjudged_word(said[-1], report)
        case State.OPEN:
            word = "open"
        case State.CONCEDED if left_to_a_person(entry, report):
            word = "left to a person"
        case State.CONCEDED if said and said[-1] in {Word.FIXED, Word.PARTIAL}:
            word = "resolved without a change"
        case State.CONCEDED:
            word = f"conceded by {agent(report, REVIEWER)}"
        case State.DEFERRED:
            word = "deferred"
        case State.FIXED:
            word = _fixed_word(said)
    if entry.reopened:
        word += f", reopened in round {entry.reopened[-1]}"
    return word


def _unjudged_word(last: Word, report: Report) -> str:
    match last:
        case Word.FIXED:
            return "fixed, unreviewed"
        case Word.PARTIAL:
            return "fixed in part, unreviewed"
        case _:
            return f"disputed by {agent(report, AUTHOR)}"


def _fixed_word(said: Sequence[Word]) -> str:
    steps = sum(word in {Word.FIXED, Word.PARTIAL} for word in said)
    if said and said[-1] is Word.PARTIAL:
        return "fixed in part"
    if any(word in {Word.DISPUTED, Word.GATE} for word in said):
        return "fixed after a dispute"
    if Word.PARTIAL in said:
        return f"fixed in {in_words(steps)} steps"
    return "fixed"


def changed(report: Report) -> bool:
    """Return whether the debate changed anything that the debated commit does not hold."""
    edits = any(each.edited and each.edited.changed for each in report.record.rounds)
    return edits or report.patch is not None or report.tip not in {None, report.task.head_sha}


def commits(report: Report) -> list[str]:
    """Return the run's durable commits, oldest first."""
    found = [each.edited.commit for each in report.record.rounds if each.edited and each.edited.commit]
    return list(dict.fromkeys(found))


# ---- How it ended ---------------------------------------------------------------------------------------------------


def again() -> str:
    """Return the command that starts a debate anew, of those that this version has."""
    return "`/codex-debate retry`" if available("retry") else "`/codex-debate review`"


def standing(report: Report) -> str:
    """Return how many findings are settled and which are open: ``3 of 5 findings are settled, F3 and F5 are open``."""
    told, still = counts(report), open_ids(report)
    if not told.total:
        return "no findings yet"
    is_are = "is" if told.total == 1 else "are"
    settled = f"{told.total - told.open} of {count(told.total, 'finding')} {is_are} settled"
    return f"{settled}, {join_ids(still)} {'is' if len(still) == 1 else 'are'} open" if still else settled


def present_round(report: Report) -> int:
    """Return the round that is under way, or the last one that began."""
    if report.live is not None:
        return report.live.round
    found = rounds(report)
    if report.status is None and found and found[-1].section is not None:
        return found[-1].number + 1
    return found[-1].number if found else 1


def limit_words(report: Report) -> str:
    """Return which backstop ended an unresolved debate, to follow the number of rounds."""
    return {
        "rounds": "the limit",
        "same state": "the last three alike",
        "time": "out of time",
        "money": f"ceiling reached, {money(report.task.limits.usd)} may be spent",
        "day": "ceiling reached, the money for today is spent",
        "calls": "ceiling reached, one turn called its model too often",
    }.get(report.reason, "")


def badge_line(report: Report) -> str:
    """Return the line under the title: badge, commit, rounds, what became of the findings, where the fixes are."""
    sha = short(report.task.head_sha)
    after = f"on {sha} after {count(len(report.record.rounds), 'round')}"
    match report.status:
        case None:
            stop = "; to end it, write `/codex-debate stop`" if available("stop") else ""
            limit = f"round {present_round(report)} of at most {report.task.limits.rounds}"
            return f"**Under way** on {sha}, {limit}: {standing(report)}. Nothing to do yet{stop}."
        case Status.CONSENSUS:
            found = tally(report) or f"{agent(report, REVIEWER)} found nothing to fix"
            return f"✅ **Consensus** {after}: {found}.{_whereabouts(report)}"
        case Status.COMMIT_INCOMPLETE:
            gaps = join_rounds(report.record.commit_gaps)
            found = f"both sides agree, but {gaps} could not be committed"
            return f"⚠️ **Commit incomplete** {after}: {found}.{_whereabouts(report)}"
        case Status.SECTION_INCOMPLETE:
            found = f"both sides agree, but {unanswered(report)}"
            return f"⚠️ **Section incomplete** {after}: {found}.{_whereabouts(report)}"
        case Status.UNRESOLVED:
            return f"⚠️ **Unresolved** {after}{_unresolved(report)}. **A person decides.**"
        case _:
            return _ended(report, report.status)


def join_rounds(numbers: Sequence[int]) -> str:
    """Return ``round 2``, ``rounds 2 and 4``."""
    shown = [str(number) for number in sorted(set(numbers))]
    return f"round{'s' if len(shown) > 1 else ''} {join_words(shown)}"


def unanswered(report: Report) -> str:
    """Return which rounds left which findings without an answer: ``round 2 left F3 unanswered``."""
    gaps = [each for each in report.record.rounds if each.section is not None and each.section.missing]
    said = [f"round {each.number} left {join_ids(each.section.missing)} unanswered" for each in gaps if each.section]
    return join_words(said) or f"{join_rounds(report.record.section_gaps)} left a finding unanswered"


def _whereabouts(report: Report) -> str:
    """Return where the fixes are, where there are any."""
    if not changed(report):
        return ""
    fixes = "The fix is" if counts(report).fixed == 1 else "The fixes are"
    if report.pushed and commits(report):
        return f" **{fixes} not on {code(report.task.head_ref)} yet.**"
    if report.patch is not None:
        offered = f" **{fixes} offered here; nothing was pushed"
        return f"{offered}**, because the pull request comes from a fork." if report.task.fork else f"{offered}.**"
    return " **Nothing was pushed.**"


def _unresolved(report: Report) -> str:
    why, still = limit_words(report), open_ids(report)
    settled = counts(report).total - len(still)
    parts = [f"{join_ids(still)} {'is' if len(still) == 1 else 'are'} open"] if still else ["nothing was settled"]
    if settled:
        parts.append(f"{settled} other {'finding is' if settled == 1 else 'findings are'} settled")
    return f"{f', {why}' if why else ''}: {', '.join(parts)}"


def _ended(report: Report, status: Status) -> str:
    """Return the badge of a debate that came to no end of its own: what happened, and what to write to go on."""
    tries = f" in {count(report.attempts, 'attempt')}" if report.attempts > 1 else ""
    moved = f"{code(report.task.head_ref)} moved on"
    over, fresh = f"To start over, write {again()}.", "To have the new head reviewed, write `/codex-debate review`."
    reason = inline(report.reason, cell=False).rstrip(".")
    told: dict[Status, tuple[str, str, str]] = {
        Status.REVIEWER_ERROR: ("Stopped", f"{agent(report, REVIEWER)} gave no verdict{tries}", ""),
        Status.AGENT_ERROR: ("Stopped", f"{agent(report, AUTHOR)} gave no answer{tries}", ""),
        Status.SUPERSEDED: ("Ended", reason or moved, "" if reason and reason != RETARGETED else fresh),
        Status.STOPPED: ("Stopped", "a maintainer ended it", over),
        Status.CLOSED: ("Ended", reason or "the pull request was closed", ""),
        Status.AUTHORISATION_WITHDRAWN: (
            "Ended",
            reason or "the person who started this debate can no longer write here",
            "" if reason else f"To go on, somebody who can writes {again()}.",
        ),
        Status.STATE_LOST: ("Lost", "the store forgot this debate", over),
        Status.TIMED_OUT: ("Lost", "the worker went away", over),
    }
    word, why, to_go_on = told.get(status, ("Stopped", reason or status.value, ""))
    return f"⚠️ **{word}** in round {present_round(report)}: {why}. No agreement. {to_go_on}".rstrip()
