"""One API's model: its script, everything that it was asked, and what that came to."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scripted_models.request import Request
from scripted_models.turns import Event, Refusal, Turn
from scripted_models.usage import NOTHING, Cache, Segment, Usage, tokens

Deciding = Callable[[Request], Turn | Awaitable[Turn]]
"""Decides by what is asked. What it raises the program hears as 400, and the test at the end of the server."""
Script = Deciding | Sequence[Turn | Deciding]
"""What a model does: each request takes the next turn of a list, or one function decides for all."""


class Api(Protocol):
    """What the server has to know of an API. A module is one."""

    PATH: str
    NUMBERED: bool

    def session(self, body: dict[str, Any]) -> str: ...
    def segments(self, body: dict[str, Any]) -> tuple[Segment, ...]: ...
    def written(self, request: Request, turn: Turn) -> bytes: ...
    def whole(self, request: Request, turn: Turn, usage: Usage) -> dict[str, Any]: ...
    def opening(self, request: Request, usage: Usage) -> Iterator[Event]: ...
    def saying(self, request: Request, turn: Turn) -> Iterator[Event]: ...
    def closing(self, request: Request, turn: Turn, usage: Usage) -> Iterator[Event]: ...
    def broken(self, request: Request, kind: str, message: str) -> Event: ...
    def ping(self) -> Event: ...
    def refusal(self, status: int, kind: str, message: str) -> dict[str, Any]: ...


class NotInTheScriptError(Exception):
    """The script does not say what to do now."""


@dataclass
class Playing:
    """A script and how far it is played."""

    script: Script = ()
    again: bool = False
    """At its end it begins anew."""
    played: int = 0

    async def next(self, request: Request) -> Turn:
        """Return the turn for a request. Raises `NotInTheScriptError`."""
        entry = self._entry()
        self.played += 1
        if isinstance(entry, Turn):
            return entry
        decided = entry(request)
        return await decided if inspect.isawaitable(decided) else decided

    def _entry(self) -> Turn | Deciding:
        if callable(self.script):
            return self.script
        place = self.played % len(self.script) if self.again and self.script else self.played
        if place >= len(self.script):
            raise NotInTheScriptError(f"the script has {len(self.script)} turns, and they are played")
        return self.script[place]


def by_prompt(scripts: Mapping[str, Script], *, again: bool = False) -> Deciding:
    """Tell runs apart: each request takes its turn from the first script whose text stands in what the model sees."""
    playing = {text: Playing(script, again) for text, script in scripts.items()}

    async def decide(request: Request) -> Turn:
        prompt = request.prompt_text()
        for text, script in playing.items():
            if text in prompt:
                return await script.next(request)
        raise NotInTheScriptError(f"none of {list(scripts)} stands in the prompt")

    return decide


@dataclass
class Model:
    """A model behind one API."""

    api: Api
    requests: list[Request] = field(default_factory=list)
    """Everything asked, in the order of arrival."""
    failures: list[Exception] = field(default_factory=list)
    """What deciding functions raised, and what went wrong in the server itself."""
    _playing: Playing = field(default_factory=Playing)
    _cache: Cache = field(default_factory=Cache)
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def plays(self, script: Script, *, again: bool = False) -> None:
        """Play this from now on; where `again`, from its beginning when it is at its end."""
        self._playing = Playing(script, again)

    @property
    def unplayed(self) -> int:
        """How many turns of the script nobody asked for."""
        script = self._playing.script
        return 0 if callable(script) else max(0, len(script) - self._playing.played)

    @property
    def usage(self) -> Usage:
        """What all requests came to."""
        return sum((request.usage for request in self.requests), NOTHING)

    @property
    def sessions(self) -> dict[str, list[Request]]:
        """The requests of each session, in the order of their first."""
        found: dict[str, list[Request]] = {}
        for request in self.requests:
            found.setdefault(request.session, []).append(request)
        return found

    @property
    def keys(self) -> set[str]:
        """All keys that were shown."""
        return {request.key for request in self.requests}

    def arrived(self, request: Request) -> Request:
        """Keep a request; return it with what is known of its session."""
        session = self.api.session(request.body)
        turn = 1 + sum(1 for each in self.requests if each.session == session)
        kept = replace(request, id=f"{self._mark}{len(self.requests) + 1:04}", session=session, turn=turn)
        self.requests.append(kept)
        return kept

    async def decide(self, request: Request) -> Turn:
        """Return what the script says."""
        try:
            return await self._playing.next(request)
        except NotInTheScriptError as error:
            return Turn(fault=Refusal(400, f"Not in the script: {error}."))
        except Exception as error:  # noqa: BLE001 - a test's own function may raise anything; it hears of it at the end
            self.failures.append(error)
            return Turn(fault=Refusal(400, f"The script failed: {error!r}."))

    def count(self, request: Request, turn: Turn) -> Usage:
        """Count a request that the model reads and what it writes; return what the program is told."""
        read = self._cache.read(request.session, self.api.segments(request.body))
        request.usage = turn.usage or replace(read, output=tokens(self.api.written(request, turn)))
        return request.usage
