"""Anthropic's Messages API, as far as claude speaks it: what a request holds, and the events that tell a turn.

The order of the events and their fields are those of the API's public reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scripted_models.request import Request
from scripted_models.turns import Answer, Call, Event, Turn, pieces
from scripted_models.usage import Segment, Usage

PATH = "/v1/messages"
NUMBERED = False
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
STRUCTURED = "StructuredOutput"
"""The tool by which claude lets a model give an object (agents.md 4.2)."""


def session(body: dict[str, Any]) -> str:
    """Return the session: claude sends JSON with its id as the user's id."""
    user = (body.get("metadata") or {}).get("user_id") or ""
    try:
        told = json.loads(user)
    except ValueError:
        return str(user)
    return str(told.get("session_id") or user) if isinstance(told, dict) else str(user)


def segments(body: dict[str, Any]) -> tuple[Segment, ...]:
    """Return what the model reads, in the order in which it is cached: tools, system, each block of each message.

    Marks for the cache wander from request to request and are not read. A text stands for a list of one text block.
    """
    found = [Segment(_serialised(tool), "cache_control" in tool) for tool in body.get("tools") or ()]
    found += [_segment("system", block) for block in _blocks(body.get("system"))]
    for message in body.get("messages") or ():
        found += [_segment(message.get("role"), block) for block in _blocks(message.get("content"))]
    return tuple(found)


def written(request: Request, turn: Turn) -> bytes:
    """Return what the model writes in a turn, to be counted."""
    return b"".join(
        part.encode() if isinstance(part, str) else part.name.encode() + _input(part).encode()
        for part in _parts(request, turn)
    )


def whole(request: Request, turn: Turn, usage: Usage) -> dict[str, Any]:
    """Return the answer to a request that wants no stream."""
    content = [_block(request, place, part, done=True) for place, part in enumerate(_parts(request, turn))]
    return _message(request, usage) | {
        "content": content,
        "stop_reason": _stop(request, turn),
        "usage": _told(usage),
    }


def opening(request: Request, usage: Usage) -> Iterator[Event]:
    """Yield what stands before a turn. The output is told at its end; until then it is 1, as the API does."""
    yield _event("message_start", message=_message(request, usage))
    yield ping()


def saying(request: Request, turn: Turn) -> Iterator[Event]:
    """Yield the parts of a turn."""
    for place, part in enumerate(_parts(request, turn)):
        yield _event("content_block_start", index=place, content_block=_block(request, place, part, done=False))
        text, kind, name = (
            (part, "text_delta", "text")
            if isinstance(part, str)
            else (_input(part), "input_json_delta", "partial_json")
        )
        for piece in pieces(text, turn.chunk):
            yield _event("content_block_delta", piece=True, index=place, delta={"type": kind, name: piece})
        yield _event("content_block_stop", index=place)


def closing(request: Request, turn: Turn, usage: Usage) -> Iterator[Event]:
    """Yield what stands after a turn."""
    delta = {"stop_reason": _stop(request, turn), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=_told(usage))
    yield _event("message_stop")


def broken(request: Request, kind: str, message: str) -> Event:
    """Return the event that tells an error."""
    return Event("error", {"type": "error", "error": {"type": kind, "message": message}})


def ping() -> Event:
    """Return a sign of life."""
    return _event("ping")


def refusal(status: int, kind: str, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"type": "error", "error": {"type": kind or KINDS.get(status, "api_error"), "message": message}}


def _parts(request: Request, turn: Turn) -> list[str | Call]:
    """Return the parts of a turn; an object goes through the tool for it, or is a text where there is none."""
    found: list[str | Call] = []
    for part in turn.parts:
        if not isinstance(part, Answer):
            found.append(part)
        elif STRUCTURED in request.tools:
            found.append(Call(STRUCTURED, part.value))
        else:
            found.append(json.dumps(part.value, ensure_ascii=False))
    return found


def _stop(request: Request, turn: Turn) -> str:
    called = any(isinstance(part, Call) for part in _parts(request, turn))
    return turn.stop or ("tool_use" if called else "end_turn")


def _block(request: Request, place: int, part: str | Call, *, done: bool) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part if done else ""}
    id_ = f"toolu_{request.id}{place}"
    return {"type": "tool_use", "id": id_, "name": part.name, "input": dict(part.arguments) if done else {}}


def _input(call: Call) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _message(request: Request, usage: Usage) -> dict[str, Any]:
    return {
        "id": f"msg_{request.id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _told(usage) | {"output_tokens": 1},
    }


def _told(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.written, "ephemeral_1h_input_tokens": 0},
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def _segment(role: Any, block: dict[str, Any]) -> Segment:
    return Segment(_serialised([role, block]), "cache_control" in block)


def _event(name: str, *, piece: bool = False, **data: Any) -> Event:
    return Event(name, {"type": name, **data}, piece)


def _serialised(value: Any) -> bytes:
    return json.dumps(_unmarked(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _unmarked(value: Any) -> Any:
    """Return a JSON value without its marks for the cache."""
    match value:
        case dict():
            return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
        case list():
            return [_unmarked(each) for each in value]
        case _:
            return value
