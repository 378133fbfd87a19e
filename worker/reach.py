"""What a request may have a model's provider do: answer it, and nothing else. Pure.

Both APIs can be told to search the web, to fetch an address, to call a server that the request names, to run code, to
look up what was stored before, or to work on in the background. Each would be a way out of the sandbox, or past the
meter, that no closed network stops (threats.md T19): a request with one of them is refused. What the agents' programs
ask for themselves is let through; `tests/worker/test_reach.py` holds both against the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.metering import model_name

PIECES = 1_000_000
"""Brackets and commas of the largest request that is read: each may become a value of some 100 bytes of memory. What
fills a model's context of a million tokens has a few hundred thousand."""

TOOLS = {"responses": frozenset({"function", "custom", "namespace"}), "messages": frozenset({None, "custom"})}
"""The types of tools that the program itself carries out. codex 0.163 and claude 2.1.332 offer no others."""

Allowed = frozenset[str | bool | None]
_STANDARD: Allowed = frozenset({None, "auto", "default", "standard_only", "standard"})
_NONE: Allowed = frozenset({None})
FIELDS: dict[str, dict[str, Allowed]] = {
    "responses": {
        "background": frozenset({None, False}),  # it would go on unmetered
        "service_tier": _STANDARD,  # another one costs another price
        "previous_response_id": _NONE,  # what others of the account stored
        "conversation": _NONE,
        "prompt": _NONE,
    },
    "messages": {
        "service_tier": _STANDARD,
        "speed": _STANDARD,
        "container": _NONE,  # runs code
        "mcp_servers": _NONE,  # names servers to call
    },
}
"""Fields of a request that may hold these values alone."""

_LISTS = {"responses": ("input",), "messages": ("messages", "system")}
"""Where a request holds what the model is to read."""
_OWN = {"responses": frozenset({"tools"}), "messages": frozenset({"input", "input_schema"})}
"""Fields in there that hold the program's own data, of any shape."""
_STORED = ("file_id", "file_url")
_INLINE = ("base64", "text", "content")
"""The types of sources of Anthropic's images and documents that hold what they show."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for."""

    model: str = ""
    fault: str = ""
    """Why it is refused: what follows "the request"; empty where it is not."""


def asked(api: str, body: bytes) -> Asked:
    """Return what a request asks for. Never raises: the bytes may be anything."""
    if sum(body.count(mark) for mark in (b"[", b"{", b",")) > PIECES:
        return Asked(fault="is made of too many pieces")
    try:
        request = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
        if isinstance(request, dict):
            return Asked(model_name(request.get("model")), next(_faults(api, request), ""))
    except (ValueError, RecursionError):
        pass
    return Asked(fault="is not one JSON object in UTF-8 with each field once")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose fields stand once: of two, the provider may read the other one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice")
    return found


def _faults(api: str, request: Mapping[str, Any]) -> Iterator[str]:
    for name, allowed in FIELDS[api].items():
        value = request.get(name)
        # An empty list asks for nothing; an unhashable value is none of those allowed.
        if value not in ([], {}) and (isinstance(value, list | dict) or value not in allowed):
            yield f"sets {name}"
    yield from _tools(api, request.get("tools"))
    for name in _LISTS[api]:
        yield from _read(api, request.get(name))


def _tools(api: str, tools: object) -> Iterator[str]:
    """Find fault with a list of tools, and with those inside them."""
    if tools is None:
        return
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict):
            yield "offers a tool that is none"
            return
        kind = tool.get("type")
        if not isinstance(kind, str | None) or kind not in TOOLS[api]:
            yield f"offers a tool of the type {model_name(kind) or 'unknown'}"
        yield from _tools(api, tool.get("tools"))


def _read(api: str, part: object) -> Iterator[str]:
    """Find fault with what the model is to read."""
    if isinstance(part, list):
        for each in part:
            yield from _read(api, each)
    if not isinstance(part, dict):
        return
    if part.get("type") == "item_reference" or any(part.get(name) is not None for name in _STORED):
        yield "points to something stored"
    image = part.get("image_url")
    source = part.get("source")
    if image is not None and not (isinstance(image, str) and image.startswith("data:")):
        yield "has an address fetched"
    if isinstance(source, dict) and source.get("type") not in _INLINE:
        yield "has an address fetched"
    if api == "responses":
        yield from _tools(api, part.get("tools"))
    for name, value in part.items():
        if name not in _OWN[api]:
            yield from _read(api, value)
