"""The frozen Task: all that a debate knows when it starts, and its flow's only input."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A stored value: unknown keys are refused, and nothing changes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Seat(Frozen):
    """Who sits in a seat."""

    agent: str
    model: str | None = None
    effort: str | None = None


class ChangedFile(Frozen):
    """One line of `/brief/files.txt`: what the change does to a path, and whether the agents could read it."""

    status: str
    """A, M, D, R (renamed, exact) or T, as git says."""
    path: str
    """Escaped where it is not printable UTF-8."""
    size: int
    """Bytes at the head; 0 where deleted."""
    coverage: str = "read"
    """``read``, ``cut`` or ``skipped``."""
    why: str = ""
    """Why it was cut or skipped, in a few words."""
    added: int = 0
    removed: int = 0
    absent: str = ""
    """Why it stands in the diff alone and not in the tree; empty where it stands in both."""


class Coverage(Frozen):
    """How much of the whole change the agents are shown at one time."""

    total: int
    """Files of the change."""
    lacking: tuple[ChangedFile, ...] = ()
    """Those that are not, or not wholly, in the diff."""

    @classmethod
    def of(cls, files: Sequence[ChangedFile]) -> Self:
        """Return the coverage of a change."""
        return cls(total=len(files), lacking=tuple(each for each in files if each.coverage != "read"))


class Guidance(Frozen):
    """What the project says to whoever works on it, in one file of the base branch."""

    path: str
    text: str
    whole: bool = True
    """False: what is missing found no room."""


class Limits(Frozen):
    """Ceilings of one run: rounds, seconds of a turn and of the run, US dollars."""

    rounds: int
    turn_seconds: int
    run_seconds: int
    usd: float


class Task(Frozen):
    """What is debated, by whom, under which limits. Stored before the first step."""

    run: str
    kind: str
    created_at: datetime
    repository: str
    """``owner/name``."""
    server_url: str
    number: int
    title: str
    body: str
    head_sha: str
    head_ref: str
    base_ref: str
    merge_base: str
    head_tree: str
    seats: dict[str, Seat]
    limits: Limits
    files: tuple[ChangedFile, ...]
    narrowed: bool = False
    """The tree is too large: only the folders of changed files were given to the agents."""
    reads: tuple[str, ...] = ()
    """Endings of the files that the reviewing seat can read; empty: every file."""
    twins: tuple[str, ...] = ()
    """Paths that differ from another's only in case or composition."""
    guidance: tuple[Guidance, ...] = ()
    """From the root of the base branch to the folders of the changed files."""
    protect: tuple[str, ...] = ()
    """Globs of paths that the author may not change, besides the built-in list."""
    rationale: str = ""
    context: str = ""
    commit: bool = True
    comment: bool = True
    fork: bool = False
    """The head is in another repository: nothing of it is pushed to this one."""
    push: str = "proposal"
    """Where commits go: ``proposal``, ``head`` or ``never``."""
    next_finding: int = 1
    """The first free number of a finding on this pull request."""

    @property
    def branch(self) -> str:
        """The run's own proposal branch, without ``refs/heads/``."""
        return f"codex-debate/pr-{self.number}/{self.run}"
