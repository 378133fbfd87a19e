"""What a scripted model does when it is asked: a turn, and short ways to write one.

``says("Hello.")``, ``calls("Bash", command="ls")``, ``answers({"approved": True})``; ``says("I look.") +
calls("Read", file_path="/a") + calls("Read", file_path="/b")`` is one turn of three parts. A fault is a turn too:
`scripted_models.faults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scripted_models.usage import Usage

CHUNK = 16
"""Characters of a streamed piece, where a turn does not say otherwise."""


@dataclass(frozen=True)
class Call:
    """A call of one of the program's tools. A free-form tool (codex's apply_patch, exec) takes the argument `input`."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """An object where a schema was asked for: text to codex, a call of StructuredOutput to claude."""

    value: Any


@dataclass(frozen=True)
class Refusal:
    """An answer without a stream: a status and an error. Where `kind` is empty the API's own for the status stands."""

    status: int
    message: str = "This was scripted."
    kind: str = ""
    retry_after: float | None = None
    """Seconds, in the header of that name."""


@dataclass(frozen=True)
class Broken:
    """The stream tells an error, after the turn's text."""

    kind: str
    message: str


@dataclass(frozen=True)
class Cut:
    """The stream ends after the turn's text; where `clean`, as if it were complete."""

    clean: bool = False


@dataclass(frozen=True)
class Silence:
    """Nothing comes any more after the turn's text; with `pings`, only a sign of life, each so many seconds."""

    pings: float = 0.0


@dataclass(frozen=True)
class Hang:
    """Not even the headers of an answer come."""


@dataclass(frozen=True)
class Garbage:
    """Status 200 and a body that is none of the API's."""

    body: bytes
    content_type: str = "text/event-stream"


@dataclass(frozen=True)
class Endless:
    """Text without end, or, where `line`, one event of the stream without end."""

    line: bool = False


@dataclass(frozen=True)
class Redirect:
    """The API is said to be elsewhere."""

    location: str
    status: int = 307


Fault = Refusal | Broken | Cut | Silence | Hang | Garbage | Endless | Redirect


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer of a model."""

    parts: tuple[str | Call | Answer, ...] = ()
    """Text and calls, in their order."""
    fault: Fault | None = None
    wait: float = 0.0
    """Seconds before the answer begins."""
    pause: float = 0.0
    """Seconds before each streamed piece."""
    chunk: int = CHUNK
    """Characters of a streamed piece."""
    usage: Usage | None = None
    """What is told instead of what was counted."""
    stop: str = ""
    """Why the model stopped, where it is not the usual: "max_tokens" or "refusal"."""

    def __add__(self, other: Turn) -> Turn:
        return replace(self, parts=self.parts + other.parts, fault=other.fault or self.fault)

    def slowly(self, *, wait: float = 0.0, pause: float = 0.0, chunk: int = CHUNK) -> Turn:
        """Return the same turn, slower: seconds before it begins and before each piece of `chunk` characters."""
        return replace(self, wait=wait, pause=pause, chunk=chunk)

    def costing(self, usage: Usage) -> Turn:
        """Return the same turn, telling this usage."""
        return replace(self, usage=usage)

    def stopped(self, stop: str) -> Turn:
        """Return the same turn, broken off by the model: "max_tokens" or "refusal"."""
        return replace(self, stop=stop)


def says(text: str) -> Turn:
    """Say a text."""
    return Turn(parts=(text,))


def calls(name: str, /, **arguments: Any) -> Turn:
    """Call a tool."""
    return Turn(parts=(Call(name, arguments),))


def answers(value: Any) -> Turn:
    """Give an object where a schema was asked for."""
    return Turn(parts=(Answer(value),))


@dataclass(frozen=True)
class Event:
    """One event of a stream; `piece` where the turn's pause goes before it."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    piece: bool = False


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into streamed pieces; an empty text is one."""
    return [text[start : start + size] for start in range(0, len(text), max(1, size))] or [""]
