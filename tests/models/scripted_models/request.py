"""What a program asked: one request as it arrived, and what a test wants to know of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scripted_models.usage import NOTHING, Usage

SEEN = ("tools", "instructions", "system", "text", "input", "messages")
"""The parts of a body that the model reads; the others steer the API."""


@dataclass
class Request:
    """One request. What the server adds while it answers: `usage`, `finished` and `left`."""

    id: str
    """Part of every id in the answer: no two requests share one, not even at two servers."""
    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """The names in lower case."""
    raw: bytes
    body: dict[str, Any]
    """Empty where the raw body is no JSON object."""
    session: str = ""
    """What the program calls its session; empty where it does not say."""
    turn: int = 0
    """Among the requests of its session, from 1."""
    usage: Usage = NOTHING
    """Tokens as told to the program."""
    finished: bool = False
    """The whole answer was sent."""
    left: bool = False
    """The program went away before."""

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.body.get("model", ""))

    @property
    def key(self) -> str:
        """The key: `x-api-key`, or what follows Bearer."""
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools that the model may call, by name. In codex's code mode they stand in the input, in namespaces."""
        asked = self.body.get("input")
        items = asked if isinstance(asked, list) else []
        more = [item for item in items if isinstance(item, dict) and item.get("type") == "additional_tools"]
        found: dict[str, dict[str, Any]] = {}
        for each in (self.body, *more):
            for tool in each.get("tools") or ():
                within = {"namespace": tool["name"]} if tool.get("type") == "namespace" else {}
                found |= {nested["name"]: nested | within for nested in tool.get("tools", [tool]) if "name" in nested}
        return found

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema that the answer must fit, if one was given."""
        if "StructuredOutput" in self.tools:
            return dict(self.tools["StructuredOutput"]["input_schema"])
        asked = (self.body.get("text") or {}).get("format") or {}
        return asked.get("schema")

    def prompt_text(self) -> str:
        """Return all text that the model sees: tools, system, schema, the whole history."""
        return "\n".join(text for part in SEEN for text in _strings(self.body.get(part)))

    def new_text(self) -> str:
        """Return the text that came after the model's last words: the newest prompt, or the results of its calls."""
        history = self.body.get("input") or self.body.get("messages") or []
        return "\n".join(_strings(history[_after_the_model(history) :]))


def parsed(raw: bytes) -> dict[str, Any]:
    """Return a body's JSON object, or an empty one."""
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _after_the_model(history: list[dict[str, Any]]) -> int:
    for place in range(len(history), 0, -1):
        item = history[place - 1]
        said = item.get("role") == "assistant" or item.get("type") in {"function_call", "custom_tool_call", "reasoning"}
        if said:
            return place
    return 0


def _strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, depth first."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case dict():
            for each in value.values():
                yield from _strings(each)
