"""OpenAI's Responses API, as far as codex speaks it: what a request holds, and the events that tell a turn.

The order of the events and their fields are those of the API's public reference; codex 0.163.0 reads
``response.created``, ``output_item.added``, ``output_text.delta``, ``output_item.done``, ``response.completed``,
``response.incomplete`` and ``response.failed``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scripted_models.request import Request
from scripted_models.turns import Answer, Call, Event, Turn, pieces
from scripted_models.usage import Segment, Usage

PATH = "/v1/responses"
NUMBERED = True
KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "model_not_allowed"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "service_unavailable"),
}
STOPPED = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def session(body: dict[str, Any]) -> str:
    """Return the session: codex sends its thread's id as the key of the cache (agents.md 2.2)."""
    return str(body.get("prompt_cache_key") or "")


def segments(body: dict[str, Any]) -> tuple[Segment, ...]:
    """Return what the model reads, in the order in which it is cached.

    Tools and the answer's schema stand before everything else ("the structured output schema serves as a prefix to the
    system message", the guide to prompt caching): a change of one of them makes all new. The ids of the input's items
    are for the API and are not read.
    """
    leading = [body.get("tools"), (body.get("text") or {}).get("format"), body.get("instructions")]
    asked = body.get("input") or []
    items = [_unnamed(item) for item in asked] if isinstance(asked, list) else [asked]
    return tuple(Segment(_serialised(each)) for each in [*leading, *items] if each)


def written(request: Request, turn: Turn) -> bytes:
    """Return what the model writes in a turn, to be counted."""
    return b"".join(
        part.encode() if isinstance(part, str) else part.name.encode() + _input(request, part).encode()
        for part in _parts(turn)
    )


def whole(request: Request, turn: Turn, usage: Usage) -> dict[str, Any]:
    """Return the answer to a request that wants no stream."""
    output = [_item(request, place, part, done=True) for place, part in enumerate(_parts(turn))]
    return _response(request, turn, output=output, usage=usage)


def opening(request: Request, usage: Usage) -> Iterator[Event]:
    """Yield what stands before a turn."""
    for kind in ("created", "in_progress"):
        yield _event(f"response.{kind}", response=_bare(request, "in_progress"))


def saying(request: Request, turn: Turn) -> Iterator[Event]:
    """Yield the parts of a turn."""
    for place, part in enumerate(_parts(turn)):
        item = _item(request, place, part, done=True)
        begun = _item(request, place, part, done=False)
        at = {"item_id": item["id"], "output_index": place}
        yield _event("response.output_item.added", output_index=place, item=begun)
        yield from _text(at, part, turn) if isinstance(part, str) else _arguments(at, _input(request, part), item, turn)
        yield _event("response.output_item.done", output_index=place, item=item)


def closing(request: Request, turn: Turn, usage: Usage) -> Iterator[Event]:
    """Yield what stands after a turn."""
    response = whole(request, turn, usage)
    yield _event(f"response.{response['status']}", response=response)


def broken(request: Request, kind: str, message: str) -> Event:
    """Return the event that tells an error."""
    return _event("response.failed", response=_bare(request, "failed") | {"error": {"code": kind, "message": message}})


def ping() -> Event:
    """Return a sign of life."""
    return _event("keepalive")


def refusal(status: int, kind: str, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    type_, code = (kind, kind) if kind else KINDS.get(status, ("server_error", None))
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def _parts(turn: Turn) -> list[str | Call]:
    return [json.dumps(part.value, ensure_ascii=False) if isinstance(part, Answer) else part for part in turn.parts]


def _text(at: dict[str, Any], text: str, turn: Turn) -> Iterator[Event]:
    at = at | {"content_index": 0}
    whole_part = {"type": "output_text", "text": text, "annotations": []}
    yield _event("response.content_part.added", **at, part=whole_part | {"text": ""})
    for piece in pieces(text, turn.chunk):
        yield _event("response.output_text.delta", piece=True, **at, delta=piece)
    yield _event("response.output_text.done", **at, text=text)
    yield _event("response.content_part.done", **at, part=whole_part)


def _arguments(at: dict[str, Any], text: str, item: dict[str, Any], turn: Turn) -> Iterator[Event]:
    free = item["type"] == "custom_tool_call"
    name = "response.custom_tool_call_input" if free else "response.function_call_arguments"
    for piece in pieces(text, turn.chunk):
        yield _event(f"{name}.delta", piece=True, **at, delta=piece)
    yield Event(f"{name}.done", {"type": f"{name}.done", **at, "input" if free else "arguments": text})


def _item(request: Request, place: int, part: str | Call, *, done: bool) -> dict[str, Any]:
    """Return an item of the output, empty as long as it is not done."""
    status = "completed" if done else "in_progress"
    if isinstance(part, str):
        content = [{"type": "output_text", "text": part, "annotations": []}] if done else []
        id_ = f"msg_{request.id}{place}"
        return {"id": id_, "type": "message", "role": "assistant", "status": status, "content": content}
    free = _is_free(request, part)
    namespace = request.tools.get(part.name, {}).get("namespace")
    return ({"namespace": namespace} if namespace else {}) | {
        "id": f"{'ctc' if free else 'fc'}_{request.id}{place}",
        "type": "custom_tool_call" if free else "function_call",
        "status": status,
        "call_id": f"call_{request.id}{place}",
        "name": part.name,
        "input" if free else "arguments": _input(request, part) if done else "",
    }


def _is_free(request: Request, call: Call) -> bool:
    """Return whether a tool takes free text instead of JSON, as the request says."""
    return request.tools.get(call.name, {}).get("type") == "custom"


def _input(request: Request, call: Call) -> str:
    if _is_free(request, call):
        return str(call.arguments["input"])
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _bare(request: Request, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{request.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
    }


def _response(request: Request, turn: Turn, *, output: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
    stopped = {"reason": STOPPED[turn.stop]} if turn.stop else None
    told = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }
    status = "incomplete" if stopped else "completed"
    return _bare(request, status) | {"output": output, "incomplete_details": stopped, "usage": told}


def _event(name: str, *, piece: bool = False, **data: Any) -> Event:
    return Event(name, {"type": name, **data}, piece)


def _unnamed(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: each for name, each in item.items() if name not in {"id", "status"}}


def _serialised(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
