"""One turn of an agent, as the worker's hands ask for it: the words that every agent shares.

It owns the shape of a request and of a reply, and knows none of the agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from worker.debate.flow import Used
from worker.process import Finished, Program

Run: TypeAlias = Callable[[Program], Awaitable[Finished]]
"""Runs one program to its end: `worker.process.run`, or the same inside a sandbox."""


@dataclass(frozen=True, slots=True)
class Box:
    """What an agent needs that starts only in a sandbox, and finds there."""

    tool: str
    """The pinned program, by its name in `worker.tools`."""
    sessions: str
    """Where below HOME its session files lie; nothing else of HOME is kept."""
    api: str
    """What it may ask the gateway for, by its name in `worker.gateway`."""


@dataclass(frozen=True, slots=True)
class Lodging:
    """Where an agent in a sandbox finds what it needs, in the sandbox's own paths."""

    program: Path
    """Its own program."""
    home: Path
    """HOME: empty but for the session files, and gone when the turn ends."""
    tmp: Path
    """A folder for throw-away files."""
    api: str
    """The address of its model API, scheme, host and port: ``http://127.0.0.1:8080``."""
    schema: Path | None = None
    """The reply's JSON schema as a file, where one is asked for."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn that a seat is asked for."""

    run: str
    seat: str
    round: int
    turn: int
    """The how-manieth turn of this seat in this run, from 1. A re-ask and a retry carry the number of their turn."""
    brief: str
    schema: dict[str, Any] | None
    """The JSON schema of the reply, or None where free text is asked for."""
    editing: bool
    """The agent may change files below `tree`. Else it changes nothing."""
    tree: Path
    """The change's files as they stand now, without a git folder. This and the other paths are as the agent sees them:
    those of its sandbox, where it has one."""
    base: Path
    """The merge base's files."""
    notes: Path
    """The folder of change.diff, round.diff, files.txt and log.txt."""
    session: str | None
    """The id of the conversation to go on with, or None to start one."""
    session_dir: Path
    """This seat's own folder for session files; it ends with the run."""
    seconds: float
    """Time that the turn may take."""
    argument: str = ""
    """What stands after the colon in the agent's name."""
    model: str | None = None
    effort: str | None = None
    lodging: Lodging | None = None
    """For an agent in a sandbox alone."""
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)
    """Called with what the agent does just now, in a few words, as far as it shows."""

    @property
    def lodged(self) -> Lodging:
        """Return the lodging. Raises LookupError where there is none: such an agent is not to be asked."""
        if self.lodging is None:
            raise LookupError("the agent starts only in a sandbox")
        return self.lodging


@dataclass(frozen=True, slots=True)
class TurnReply:
    """What an agent came back with, unparsed."""

    text: str
    session: str | None = None
    """The id with which the seat's next turn can resume."""
    used: Used = Used()
    """What the agent knows of it itself. For one in a sandbox the gateway counts."""


class SessionGone(Exception):  # noqa: N818 - it is answered by a cold start and is no error
    """The session of the request cannot be resumed: the seat starts a new one with its whole brief."""


TakeTurn: TypeAlias = Callable[[TurnRequest, Run], Awaitable[TurnReply]]
"""Takes one turn. Raises `worker.debate.flow.TurnFailed`, or `SessionGone` where the session cannot be resumed."""
