"""The report: all that the outputs publish about a run, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from bot.statuses import Status
from worker.debate.findings import Record
from worker.debate.task import Coverage, Task


@dataclass(frozen=True, slots=True)
class Patch:
    """The whole agreed change as text for `git apply`, where commits are not offered as a branch."""

    text: str
    files: int
    """Files that it changes."""
    lines: int
    """Lines that it adds and removes."""
    ids: tuple[str, ...]
    """The findings whose fixes it holds."""
    whole: bool = True
    """False: its text would be longer than any place for it, and is not here."""


@dataclass(frozen=True, slots=True)
class Live:
    """How a run that is under way stands at one moment."""

    round: int
    seat: str
    agent: str
    doing: str
    """``reviewing``, ``answering`` or ``reading the answers``."""
    minute: int
    """Whole minutes since the run began."""
    turn_minutes: int
    """Whole minutes since the present turn began."""
    written: str
    """The time of writing, ``HH:MM``, UTC."""
    seen: str
    """The time of the agent's last sign of life, ``HH:MM``, UTC."""
    usd: float


@dataclass(frozen=True, slots=True)
class Report:
    """What is published about a run. The same report renders to the same bytes."""

    task: Task
    record: Record
    status: Status | None = None
    """None while the debate is under way."""
    reason: str = ""
    """Why it ended, for statuses that need a reason: one sentence without a full stop. It may hold words between
    backticks; a title shows them without."""
    hint: str = ""
    """What to do next, where the reason has a repair: one sentence."""
    failed_seat: str = ""
    """The seat that gave no reply, under reviewer-error and agent-error."""
    attempts: int = 0
    """Attempts of the turn that gave no reply."""
    tip: str | None = None
    """The run's last durable commit, or None."""
    pushed: bool = False
    """The tip stands on the run's proposal branch on the remote."""
    merged: bool = False
    """The pull request's branch has taken in its base since, so that it cannot be fast-forwarded to the tip."""
    patch: Patch | None = None
    check_url: str = ""
    """Where the run's check run is shown; empty where there is none yet."""
    comment_url: str = ""
    live: Live | None = None
    log: str = ""
    """The tail of what a failed turn's attempts printed."""
    diff_lines: frozenset[tuple[str, int]] = frozenset()
    """Lines of the change's own diff, new side: path and line. Annotations stand on these only."""

    @property
    def coverage(self) -> Coverage:
        """What the agents were shown of the change, with all that the debate did to it."""
        return self.record.coverage or Coverage.of(self.task.files)
