"""One request to the stand-in and its answer, held against GitHub's description of its REST API."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from deploy.standin import Exchange
from github_contract.description import Api, Operation
from github_contract.violation import Violation

GENERAL_ERRORS = frozenset({400, 401, 403, 404, 422, 429})
"""Errors that any operation may answer, whether its own description lists them or not: no JSON, no credential, no
permission or too many requests, hidden from this credential, a body that does not fit. From 500 on any may come.

https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api and
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
"""
REDIRECTS = frozenset({301, 302, 307})
"""Redirects that any operation may answer.

https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
"""
BY_NUMBER = re.compile(r"^/repositories/[0-9]+(?=/|$)")
"""A repository by its number, to which GitHub's links and redirects lead; it stands for ``/repos/{owner}/{repo}``.

https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api#using-link-headers
"""
ERROR_SCHEMAS = ("basic-error", "validation-error", "validation-error-simple")
ERROR = {
    "required": ["message"],
    "anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ERROR_SCHEMAS],
}
"""The body of an error that an operation's own description does not list, or lists without a body."""


@functools.cache
def api() -> Api:
    """Return the description, read once in a process."""
    return Api()


def violations(exchange: Exchange) -> list[Violation]:
    """Return all that is wrong with an exchange. One that was never answered is judged as a request alone."""
    target = urlsplit(exchange.target)
    where = f"{exchange.method} {target.path}"
    found = api().find(exchange.method, BY_NUMBER.sub("/repos/owner/name", target.path))
    if found is None:
        asked = ["GitHub describes no such operation"]
        operation = None
    else:
        operation, values = found
        where = f"{where} ({operation.id})"
        asked = [*_parameters(operation, values, target.query), *_body(operation, exchange)]
    return [
        *(Violation("request", where, each) for each in asked),
        *(Violation("answer", where, f"{exchange.status}: {each}") for each in _answer(operation, exchange)),
    ]


# ---- The request ----------------------------------------------------------------------------------------------------


def _parameters(operation: Operation, values: dict[str, str], query: str) -> Iterator[str]:
    described = {(each["in"], each["name"]): each for each in operation.parameters}
    asked = parse_qsl(query, keep_blank_values=True)
    given = [("path", name, value) for name, value in values.items()] + [("query", *each) for each in asked]
    for place, name, value in given:
        if (parameter := described.get((place, name))) is None:
            yield f"the {place} parameter {name!r} is not described"
            continue
        for _, wrong in api().faults(parameter["schema"], _typed(value, parameter["schema"])):
            yield f"the {place} parameter {name!r}: {wrong}"
    for (place, name), parameter in described.items():
        if place == "query" and parameter.get("required") and name not in dict(asked):
            yield f"the query parameter {name!r} is missing"


def _typed(value: str, schema: dict[str, Any]) -> Any:
    """Return a parameter as the type that it has to have, or as the text that it is where it cannot be read so."""
    kind = api().resolved(schema).get("type")
    if kind == "integer" and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if kind == "boolean" and value in {"true", "false"}:
        return value == "true"
    return value.split(",") if kind == "array" else value


def _body(operation: Operation, exchange: Exchange) -> Iterator[str]:
    described = operation.spec.get("requestBody")
    if described is None:
        if exchange.body:
            yield "a body is sent where none is described"
        return
    if not exchange.body:
        if described.get("required"):
            yield "the body is missing"
        return
    if exchange.content_type not in described["content"]:
        yield f"the body is sent as {exchange.content_type}"
    yield from _misfits("body", described["content"]["application/json"]["schema"], exchange.body, closed=True)


# ---- The answer -----------------------------------------------------------------------------------------------------


def _answer(operation: Operation | None, exchange: Exchange) -> Iterator[str]:
    if exchange.status is None:
        return
    if exchange.fault is not None:
        # It may have been garbled or cut on purpose; what is left of an answer is an error's.
        yield from _error(exchange) if _legible(exchange.answer) else ()
        return
    described = None if operation is None else operation.spec["responses"].get(str(exchange.status))
    if described is None:
        yield from _error(exchange)
        return
    content = api().resolved(described).get("content")
    if content is not None:
        yield from _misfits("answer", content["application/json"]["schema"], exchange.answer)
    elif exchange.answer and exchange.status >= 400:
        # Of some errors it is described when they come, and not that they hold a message like all others.
        yield from _misfits("answer", ERROR, exchange.answer, closed=True)
    elif exchange.answer:
        yield "a body is answered where none is described"


def _legible(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True


def _error(exchange: Exchange) -> Iterator[str]:
    """Judge an answer that the operation's own description does not list."""
    status = exchange.status or 0
    if status not in GENERAL_ERRORS | REDIRECTS and status < 500:
        yield "this status is described neither for the operation nor for all of them"
    elif exchange.answer:
        yield from _misfits("answer", ERROR, exchange.answer, closed=True)


def _misfits(what: str, schema: dict[str, Any], raw: bytes, *, closed: bool = False) -> Iterator[str]:
    try:
        value = json.loads(raw)
    except ValueError:
        yield f"the {what} is no JSON"
        return
    for place, wrong in api().faults(schema, value, "closed" if closed else "open"):
        yield f"{what}{place}: {wrong}"
