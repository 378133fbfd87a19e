"""How much of a model a reply used, read from its bytes while they pass. Pure.

Both APIs tell it in their own way, in a stream of events or in one JSON body. What a reply does not tell is estimated
from its length, and said to be. Nothing here raises, and nothing grows with the reply: the bytes may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.debate.flow import Tokens
from worker.stream import json_object

BYTES_PER_TOKEN = 4
"""What a token is taken for where nobody counted (decisions.md 7)."""
LINE_BYTES = 8 * 1024 * 1024
"""Bytes of the longest event, or of the longest JSON body, that is read. The last event of OpenAI's stream repeats the
whole reply, and the longest reply of a model is 128,000 tokens (both providers' pages of models)."""
LARGEST_COUNT = 1_000_000_000
"""Tokens above which a count is no count."""

_ENDS = {"response.completed", "response.incomplete", "response.failed", "message_stop"}
_FAILURES = {"response.failed", "error"}
_NAME = re.compile(r"[A-Za-z0-9._:/@\[\]-]{1,100}")
_WORDS = ("text", "thinking", "partial_json")
"""The fields of a delta of Anthropic's stream that hold what the model wrote."""
_WRITTEN_LONG = "ephemeral_1h_input_tokens"
_FIELDS = {
    "responses": (
        ("input_tokens",),
        ("output_tokens",),
        ("input_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cache_write_tokens"),
    ),
    "messages": (
        ("input_tokens",),
        ("output_tokens",),
        ("cache_read_input_tokens",),
        ("cache_creation_input_tokens",),
        ("cache_creation", _WRITTEN_LONG),
    ),
}
"""Where each API's usage object holds its counts. OpenAI's input contains what was cached; Anthropic's does not."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one call used."""

    model: str = ""
    """The model that replied; empty where the reply does not say."""
    tokens: Tokens = Tokens()
    cache_write: int = 0
    """Of the input, what was put in the provider's cache."""
    cache_write_long: int = 0
    """Of the input, what was put there for an hour or longer."""
    estimated: bool = False
    """The reply did not tell all of it."""


def model_name(value: object) -> str:
    """Return a model's name as it may be shown, or nothing where it is not like one."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


class Meter:
    """Reads one reply. Feed it every byte in order; ask for the reading at any time."""

    def __init__(self, api: str, *, asked: int) -> None:
        """`api` is ``responses`` or ``messages``; `asked` is the bytes of the request."""
        self.done = False
        """The reply's last word on its usage was read."""
        self._api = api
        self._asked = asked
        self._model = ""
        self._counts: dict[str, int] = {}
        self._written = 0  # bytes that the model wrote, as far as they were seen
        self._failed = False
        self._whole: bool | None = None  # one JSON body, and no stream of events; None: nothing came yet
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        if self._whole is None:
            data = data.lstrip()
            if not data:
                return
            self._whole = data[:1] == b"{"
        if self._whole:
            self._written += len(data)
            self._keep(data)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            self._end_line()
        self._keep(rest)

    def reading(self) -> Reading:
        """Return what was used, as far as it is known by now."""
        if self._whole and not self.done:
            self._body(json_object(bytes(self._rest)))
        read, told = self._counts, "output_tokens" in self._counts
        cached, write = read.get("cached", 0), read.get("write", 0)
        long = min(read.get("long", 0), write)
        whole = read.get("input_tokens", 0) + (cached + write if self._api == "messages" else 0)
        output = read.get("output_tokens", 0)
        estimated = not (told and self.done)
        if self._failed and not told and not self._written:
            return Reading(self._model)  # it was refused before it began
        if estimated:
            whole = whole if told else _tokens(self._asked)
            output = max(output, _tokens(self._written + (0 if self._whole else len(self._rest))))
        # Cached is a part of the input, whatever a reply says.
        return Reading(self._model, Tokens(whole, min(cached, whole), output), write - long, long, estimated)

    def _keep(self, data: bytes) -> None:
        if self._skipping or len(self._rest) + len(data) > LINE_BYTES:
            self._skipping = True
            if not self._whole:
                self._written += len(self._rest) + len(data)
            self._rest.clear()
            return
        self._rest += data

    def _end_line(self) -> None:
        line, skipped = bytes(self._rest), self._skipping
        self._rest.clear()
        self._skipping = False
        if skipped or not line.startswith(b"data:"):
            return
        event = json_object(line[len(b"data:") :])
        if event is None:
            self._written += len(line)
        else:
            self._event(event)

    def _event(self, event: Mapping[str, Any]) -> None:
        told = event.get("type")
        kind = told if isinstance(told, str) else ""
        match kind:
            case "message_delta":
                self._usage(event.get("usage"))
            case "message_start":
                self._reply(event.get("message"))
            case _ if kind.startswith("response.") and "response" in event:
                self._reply(event["response"])
            case _:
                self._written += _length(event.get("delta"))
        self._failed = self._failed or kind in _FAILURES
        self.done = self.done or kind in _ENDS

    def _body(self, body: Mapping[str, Any] | None) -> None:
        """Take one JSON body: it is whole where it can be read."""
        if body is None:
            return
        self._reply(body)
        self._failed = body.get("type") == "error" or bool(body.get("error"))
        self.done = "output_tokens" in self._counts

    def _reply(self, reply: object) -> None:
        if isinstance(reply, dict):
            self._model = model_name(reply.get("model")) or self._model
            self._usage(reply.get("usage"))

    def _usage(self, usage: object) -> None:
        """Take the counts of a usage object: later ones win, and what one does not tell stands."""
        if not isinstance(usage, dict):
            return
        found = dict(_counts(usage, _FIELDS[self._api]))
        # Where the provider answered in several steps (it compacted what it was given, say), the object's own counts
        # may leave some out, and the bill is the sum of the steps.
        steps = usage.get("iterations")
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, dict):
                for name, count in _counts(step, _FIELDS[self._api]):
                    found[f"sum {name}"] = found.get(f"sum {name}", 0) + count
        names = ("input_tokens", "output_tokens", "cached", "write", "long")
        for name in names:
            counts = [found[each] for each in (name, f"sum {name}") if each in found]
            if counts:
                self._counts[name] = max(counts)


def _counts(usage: Mapping[str, Any], fields: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, int]]:
    """Yield the counts of a usage object under names that both APIs share."""
    shared = {"cached_tokens": "cached", "cache_read_input_tokens": "cached", "cache_write_tokens": "write"}
    shared |= {"cache_creation_input_tokens": "write", _WRITTEN_LONG: "long"}
    for path in fields:
        value: Any = usage
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
            yield shared.get(path[-1], path[-1]), value


def _length(delta: object) -> int:
    """Return how many bytes a piece of a stream adds to what the model wrote."""
    if isinstance(delta, dict):
        return sum(_length(delta.get(word)) for word in _WORDS)
    return len(delta.encode("utf-8", "replace")) if isinstance(delta, str) else 0


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
