"""The web application: takes deliveries, and tells how the process does.

Owns HTTP: sizes, types, time limits, signatures, answers. It hands a delivery on and answers. It makes no call to
GitHub, decides nothing, and believes nothing of a request before its signature is checked.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, TypeVar

from aiohttp import web

from bot import events, payload
from bot.body import BODY_LIMIT, TOO_LARGE, Bodies, Refused
from bot.settings import WEBHOOK_SECRET_LENGTH
from bot.store import StoreAway
from bot.telemetry import Metrics, log

ANSWER_SECONDS = 9.0
"""From a request's head to its answer, a slow sender and a slow store together. GitHub gives up after 10 s
(docs.github.com, "Best practices for using webhooks")."""
AT_THE_STORE = 64
"""Deliveries that are handed on at once, and so connections to the store; others wait for their turn."""
THREAD_BYTES = 256 * 1024
"""A larger body is checked and read in a thread, so that others are answered meanwhile."""

_JSON = re.compile(r'application/json(?:\s*;\s*charset="?utf-8"?)?\s*', re.IGNORECASE)
_EVENT = re.compile(r"[a-z0-9_]{1,64}")
_DELIVERY = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


class Queue(Protocol):
    """Where deliveries go."""

    async def enqueue_event(self, delivery_id: str, event_name: str, body: str) -> bool:
        """Hand a delivery on; False where it was handed on before. Raises `StoreAway`."""


Missing = Callable[[], Awaitable[Sequence[str]]]
"""Returns what this process lacks to do its work, a sentence each; nothing where it is healthy."""


@dataclass(frozen=True, slots=True)
class _Door:
    """What the routes need."""

    secret: str
    queue: Queue
    missing: Missing
    metrics: Metrics
    bodies: Bodies = field(default_factory=Bodies)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_THE_STORE))


DOOR: web.AppKey[_Door] = web.AppKey("door", _Door)


def create_app(secret: str, queue: Queue, *, missing: Missing, metrics: Metrics) -> web.Application:
    """Return the application. Raises ValueError where the webhook secret is too short to be one."""
    if len(secret) < WEBHOOK_SECRET_LENGTH:
        raise ValueError(f"the webhook secret has fewer than {WEBHOOK_SECRET_LENGTH} characters")
    app = web.Application()
    app[DOOR] = _Door(secret, queue, missing, metrics)
    app.router.add_post("/webhook", webhook)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", metrics_page)
    return app


async def webhook(request: web.Request) -> web.Response:
    """Take a delivery: 202 where it is signed and readable, whether it is of use or not."""
    door = request.app[DOOR]
    began = time.monotonic()
    fields: dict[str, object] = {}
    status = 500  # unless something better is known: the listener answers a fault of ours
    try:
        sentence = await _take(request, door, fields=fields)
        status = 202
    except Refused as refused:
        status, sentence = refused.status, refused.sentence
    finally:
        door.metrics.deliveries.labels(str(status)).inc()
    took = round((time.monotonic() - began) * 1000, 1)
    level = logging.WARNING if status >= 500 else logging.INFO
    log(__name__).log(level, "delivery", status=status, answer=sentence, ms=took, **fields)
    response = web.Response(status=status, text=f"{sentence}\n")
    if not request.content.is_eof():
        # The rest of a refused body is not waited for, and nothing else is read from this connection.
        response.force_close()
    return response


async def _take(request: web.Request, door: _Door, *, fields: dict[str, object]) -> str:
    """Hand a delivery on and return what to say. Raises `Refused`.

    The order of the checks is part of the promise: what is wrong first is answered, and nobody learns what is behind
    the signature who cannot sign. `fields` is what the log line says besides.
    """
    until = asyncio.get_running_loop().time() + ANSWER_SECONDS
    if (request.content_length or 0) > BODY_LIMIT:
        raise Refused(413, TOO_LARGE)
    _check_type(request)
    body = await _read(request, door, fields=fields, until=until)
    if body is None:
        return "Accepted: nothing to do."
    try:
        async with asyncio.timeout_at(until), door.turns:
            fresh = await door.queue.enqueue_event(str(fields["delivery"]), str(fields["name"]), body)
    except (StoreAway, TimeoutError):
        raise Refused(503, "The store is away; deliver it again later.") from None
    return "Accepted." if fresh else "Accepted: a repetition."


def _check_type(request: web.Request) -> None:
    kinds = request.headers.getall("Content-Type", [])
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise Refused(415, "Set the App's content type to application/json.")
    coded = request.headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked"
    if coded or "Content-Encoding" in request.headers:
        raise Refused(415, "An encoded body is not read; send it as it is.")


async def _read(request: web.Request, door: _Door, *, fields: dict[str, object], until: float) -> str | None:
    """Return what is queued of a delivery, or None where it tells of no event. Raises `Refused`.

    The payload itself, which may be large, is let go before anything else is waited for.
    """
    async with door.bodies.reading(request, until=until) as raw:
        fields["bytes"] = len(raw)
        signatures = request.headers.getall("X-Hub-Signature-256", [])
        if not await _aside(len(raw), payload.signed, raw, signatures, door.secret):
            raise Refused(401, "The signature is missing or does not match.")
        try:
            found = await _aside(len(raw), payload.read, raw)
        except payload.Unreadable:
            raise Refused(400, "The body is not JSON as GitHub writes it.") from None
    name = _header(request, "X-GitHub-Event", shape=_EVENT, what="an event's name")
    delivery = _header(request, "X-GitHub-Delivery", shape=_DELIVERY, what="a UUID").lower()
    fields.update(name=name, delivery=delivery)
    return events.slim(name, found)


async def _aside(
    size: int, work: Callable[_Arguments, _Answer], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> _Answer:
    """Return what `work` returns, which takes long for a large body."""
    if size <= THREAD_BYTES:
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)


def _header(request: web.Request, name: str, *, shape: re.Pattern[str], what: str) -> str:
    """Return the only header of a name. Raises `Refused`."""
    found = request.headers.getall(name, [])
    if len(found) != 1 or not shape.fullmatch(found[0]):
        raise Refused(400, f"The header {name} is missing or not {what}.")
    return found[0]


async def healthz(request: web.Request) -> web.Response:
    """Answer 200, or 503 with what is missing, a line each."""
    missing = await request.app[DOOR].missing()
    if missing:
        return web.Response(status=503, text="".join(f"{line}\n" for line in missing))
    return web.Response(text="ok\n")


async def metrics_page(request: web.Request) -> web.Response:
    """Answer with the metrics."""
    body, kind = request.app[DOOR].metrics.render()
    return web.Response(body=body, headers={"Content-Type": kind})
