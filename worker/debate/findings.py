"""Findings, verdicts, dispositions and the ledger that the host keeps of them over all rounds.

Shared ground of the debates that edit. It turns a record of rounds into the state of every finding (the ledger) and
decides nothing about when a debate ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot.statuses import Status
from worker.debate.flow import Edited, Failure, Reply, Used
from worker.debate.task import Coverage

FINDING_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}\Z")
TITLE_LIMIT = 60
"""Characters of a finding's title (protocols.md 0.2, 12). A longer one is cut by the host, not refused."""

LEAP = 1_000
"""Numbers that an id may be ahead of the last one for the next id to count on from it."""


class Severity(StrEnum):
    """How much a finding matters."""

    BLOCKING = "blocking"
    MAJOR = "major"
    MINOR = "minor"
    NIT = "nit"


# ---- What the reviewer says -----------------------------------------------------------------------------------------


class Finding(BaseModel):
    """A finding as one verdict states it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    title: str
    severity: Literal["blocking", "major", "minor", "nit"]
    location: str
    """``path:line``, ``path:first-last`` or a path."""
    issue: str
    suggestion: str
    status: Literal["open", "resolved", "deferred"]


class Verdict(BaseModel):
    """The reviewer's reply of one round."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    approved: bool
    summary: str
    findings: tuple[Finding, ...]
    response_to_rebuttal: str


# ---- What the author says -------------------------------------------------------------------------------------------


class Word(StrEnum):
    """An author's disposition of a finding."""

    FIXED = "fixed"
    DISPUTED = "disputed"
    GATE = "disputed (gate)"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class Position:
    """The author's stand on one finding in one round."""

    id: str
    word: Word
    text: str
    """The bullet after its word, as the author wrote it."""


@dataclass(frozen=True, slots=True)
class Section:
    """The author's final message of one round, taken apart."""

    text: str
    """The message as a whole."""
    intro: str
    """What stands before the first bullet."""
    positions: tuple[Position, ...]
    missing: tuple[str, ...] = ()
    """Open ids without a disposition, after the re-ask."""


# ---- The record -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn took, for the record, whether it brought forth anything or not."""

    seconds: float = 0.0
    used: Used = Used()

    @classmethod
    def of(cls, result: Reply | Failure) -> Turn:
        """Return what a turn took that ended so."""
        return cls(result.seconds, result.used)


@dataclass(frozen=True, slots=True)
class Round:
    """One full exchange of the seats. The last round of a debate may hold the reviewer's half alone."""

    number: int
    verdict: Verdict | None = None
    review: Turn | None = None
    section: Section | None = None
    edited: Edited | None = None
    author: Turn | None = None


@dataclass(frozen=True, slots=True)
class Crux:
    """What an open finding turns on, said by the reviewer at a backstop, naming no winner."""

    id: str
    crux: str
    fact: str
    question: str


@dataclass(frozen=True, slots=True)
class Record:
    """All rounds so far, and what the open findings turn on."""

    rounds: tuple[Round, ...] = ()
    cruxes: tuple[Crux, ...] = ()
    closing: Turn | None = None
    """The turn in which the reviewer said them, or failed to."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn that was taken, and what it took."""
        found = [turn for each in self.rounds for turn in (each.review, each.author)]
        return tuple(turn for turn in (*found, self.closing) if turn is not None)

    @property
    def commit_gaps(self) -> tuple[int, ...]:
        """The rounds whose changes could not be made a durable commit."""
        return tuple(each.number for each in self.rounds if each.edited and each.edited.gap)

    @property
    def coverage(self) -> Coverage | None:
        """What the agents were shown of the change at last; None where no round changed it."""
        found = [each.edited.coverage for each in self.rounds if each.edited and each.edited.coverage]
        return found[-1] if found else None

    @property
    def section_gaps(self) -> tuple[int, ...]:
        """The rounds whose author left a finding without a disposition."""
        return tuple(each.number for each in self.rounds if each.section and each.section.missing)


class State(StrEnum):
    """Where a finding stands, seen from outside."""

    OPEN = "open"
    FIXED = "fixed"
    CONCEDED = "conceded"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A finding over all rounds."""

    id: str
    title: str
    severity: str
    location: str
    issue: str
    suggestion: str
    raised: int
    """The round in which it first appeared."""
    state: State
    words: tuple[tuple[int, Word], ...] = ()
    """The author's dispositions: round and word."""
    commits: tuple[tuple[int, str], ...] = ()
    """Commits of rounds in which the author fixed it, in full or in part: round and SHA."""
    edited: bool = False
    """A round in which the author called it fixed, in full or in part, changed files."""
    settled: int | None = None
    """The round whose verdict closed it; None while open."""
    reopened: tuple[int, ...] = field(default=())
    """Rounds whose verdict opened it again."""

    @property
    def last_word(self) -> Word | None:
        """The author's last disposition, if there is one."""
        return self.words[-1][1] if self.words else None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a debate stands, as a flow notes it: the record so far, and whose turn comes next."""

    record: Record
    round: int
    seat: str = ""
    """The seat whose turn begins now; empty where none does."""
    round_ended: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a debate ended."""

    status: Status
    record: Record
    reason: str = ""
    """Which backstop was reached: ``rounds``, ``same state``, ``time`` or a `worker.debate.flow.Ceiling`; or what a
    failed turn said, as one sentence."""
    hint: str = ""
    """What a person does about a failed turn, where there is more to it than to write the command again."""
    failed_seat: str = ""
    attempts: int = 0
    log: str = ""
    """The tail of what a failed turn's attempts printed."""


# ---- The ledger -----------------------------------------------------------------------------------------------------


def ledger(record: Record) -> tuple[LedgerEntry, ...]:
    """Return every finding of the record with its state, in the order of their ids."""
    entries: dict[str, LedgerEntry] = {}
    for each in record.rounds:
        if each.verdict is not None:
            for finding in each.verdict.findings:
                entries[finding.id] = _judged(entries.get(finding.id), finding, each)
        if each.section is not None:
            for position in each.section.positions:
                if position.id in entries:
                    entries[position.id] = _answered(entries[position.id], position, each)
    return tuple(sorted(entries.values(), key=lambda entry: _natural(entry.id)))


def open_entries(record: Record) -> tuple[LedgerEntry, ...]:
    """Return the findings that are open now."""
    return tuple(entry for entry in ledger(record) if entry.state is State.OPEN)


def next_id(record: Record, first: int) -> str:
    """Return the next free id: ``F`` and a number, at least `first`. A number far above all others moves it nowhere."""
    numbers = [int(match[1]) for entry in ledger(record) if (match := _NUMBERED.fullmatch(entry.id))]
    last = first - 1
    for number in sorted(numbers):
        if number <= last + LEAP:
            last = max(last, number)
    return f"F{last + 1}"


def gate_claimed(entry: LedgerEntry) -> bool:
    """Return whether the author has claimed, in some turn, that a finding is a step outside this change."""
    return any(word is Word.GATE for _, word in entry.words)


def _judged(entry: LedgerEntry | None, finding: Finding, each: Round) -> LedgerEntry:
    """Return an entry after a verdict spoke of it."""
    if entry is None:
        entry = LedgerEntry(
            finding.id,
            finding.title,
            finding.severity,
            finding.location,
            finding.issue,
            finding.suggestion,
            raised=each.number,
            state=State.OPEN,
        )
    entry = replace(entry, severity=finding.severity)
    # A deferral that the author never asked for does not close a finding.
    if finding.status == "open" or (finding.status == "deferred" and not gate_claimed(entry)):
        if entry.state is State.OPEN:
            return entry
        return replace(entry, state=State.OPEN, settled=None, reopened=(*entry.reopened, each.number))
    if entry.state is not State.OPEN:
        return entry
    if finding.status == "deferred" or entry.last_word is Word.GATE:
        return replace(entry, state=State.DEFERRED, settled=each.number)
    # "Fixed" without a change that was admitted is no fix, whatever both sides say (threats.md, input 135).
    conceded = entry.last_word is Word.DISPUTED or not entry.edited
    return replace(entry, state=State.CONCEDED if conceded else State.FIXED, settled=each.number)


def _answered(entry: LedgerEntry, position: Position, each: Round) -> LedgerEntry:
    """Return an entry after the author answered it."""
    entry = replace(entry, words=(*entry.words, (each.number, position.word)))
    if each.edited is None or position.word not in {Word.FIXED, Word.PARTIAL}:
        return entry
    if each.edited.changed and not each.edited.gap:
        entry = replace(entry, edited=True)
    if each.edited.commit is not None:
        entry = replace(entry, commits=(*entry.commits, (each.number, each.edited.commit)))
    return entry


_NUMBERED = re.compile(r"F([0-9]{1,9})")


def _natural(finding_id: str) -> tuple[str, int, str]:
    """Return the key that puts F2 before F10."""
    match = re.fullmatch(r"([A-Za-z_-]+)([0-9]{1,9})(.*)", finding_id)
    return (match[1], int(match[2]), match[3]) if match else (finding_id, -1, "")
