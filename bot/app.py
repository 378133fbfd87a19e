"""The web application: takes deliveries, and tells how the process does.

Owns HTTP: sizes, types, time limits, signatures, answers. It hands a delivery on and answers. It makes no call to
GitHub, decides nothing, and believes nothing of a request before its signature is checked.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from bot import events, payload
from bot.settings import WEBHOOK_SECRET_LENGTH
from bot.store import StoreAway
from bot.telemetry import Metrics, log

BODY_LIMIT = 25 * 1024 * 1024
"""Bytes of the largest delivery: GitHub sends none that is larger (docs.github.com, "Webhook events and payloads")."""
BODY_SECONDS = 10.0
"""Limit for reading a body. GitHub itself gives up after 10 s."""
THREAD_BYTES = 256 * 1024
"""A larger body is read in a thread, so that others are answered meanwhile."""

_JSON = re.compile(r'application/json(?:\s*;\s*charset="?utf-8"?)?\s*', re.IGNORECASE)
_EVENT = re.compile(r"[a-z_]{1,64}")
_DELIVERY = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


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


DOOR: web.AppKey[_Door] = web.AppKey("door", _Door)


def create_app(secret: str, queue: Queue, *, missing: Missing, metrics: Metrics) -> web.Application:
    """Return the application. Raises ValueError where the webhook secret is too short to be one."""
    if len(secret) < WEBHOOK_SECRET_LENGTH:
        raise ValueError(f"the webhook secret has fewer than {WEBHOOK_SECRET_LENGTH} characters")
    app = web.Application(middlewares=[_guarded])
    app[DOOR] = _Door(secret, queue, missing, metrics)
    app.router.add_post("/webhook", webhook)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", metrics_page)
    return app


class _Refused(Exception):  # noqa: N818 - a delivery that is not taken
    """A delivery that is answered without being handed on. It holds our own words alone."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a fault of ours with a fixed sentence; nothing of it is shown outside."""
    try:
        return await handler(request)
    except (web.HTTPException, asyncio.CancelledError):
        raise
    except Exception:  # noqa: BLE001 - the one place in front of the outside
        log(__name__).exception("request failed", path=request.path)
        return web.Response(status=500, text="Something went wrong here; the operator's log has it.\n")


async def webhook(request: web.Request) -> web.Response:
    """Take a delivery: 202 where it is signed and readable, whether it is of use or not."""
    door = request.app[DOOR]
    began = time.monotonic()
    fields: dict[str, object] = {}
    try:
        sentence = await _take(request, door, fields)
        status = 202
    except _Refused as refused:
        status, sentence = refused.status, refused.sentence
    door.metrics.deliveries.labels(str(status)).inc()
    took = round((time.monotonic() - began) * 1000, 1)
    log(__name__).info("delivery", status=status, answer=sentence, ms=took, **fields)
    response = web.Response(status=status, text=f"{sentence}\n")
    if not request.content.is_eof():
        # The rest of a refused body is not waited for, and nothing else is read from this connection.
        response.force_close()
    return response


async def _take(request: web.Request, door: _Door, fields: dict[str, object]) -> str:
    """Hand a delivery on and return what to say. Raises `_Refused`."""
    _check_type(request)
    raw = await _body(request)
    fields["bytes"] = len(raw)
    if not payload.signed(raw, request.headers.getall("X-Hub-Signature-256", []), door.secret):
        raise _Refused(401, "The signature is missing or does not match.")
    name, delivery = _names(request)
    fields.update(name=name, delivery=delivery)
    try:
        body = await _slim(name, raw)
    except payload.Unreadable:
        raise _Refused(400, "The body is not JSON as GitHub writes it.") from None
    if body is None:
        return "Accepted: nothing to do."
    try:
        fresh = await door.queue.enqueue_event(delivery.lower(), name, body)
    except StoreAway:
        raise _Refused(503, "The store is away; deliver it again later.") from None
    return "Accepted." if fresh else "Accepted: a repetition."


async def _slim(name: str, raw: bytes) -> str | None:
    """Return what is read of a payload, or None where it tells of no event."""

    def work() -> str | None:
        return events.slim(name, payload.read(raw))

    return work() if len(raw) <= THREAD_BYTES else await asyncio.to_thread(work)


def _check_type(request: web.Request) -> None:
    kinds = request.headers.getall("Content-Type", [])
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise _Refused(415, "Set the App's content type to application/json.")
    if any(each.strip().lower() != "identity" for each in request.headers.getall("Content-Encoding", [])):
        raise _Refused(415, "An encoded body is not read.")


async def _body(request: web.Request) -> bytes:
    """Return the body as it came. Stops at the limit, in bytes and in time."""
    if (request.content_length or 0) > BODY_LIMIT:
        raise _Refused(413, "The body is too large.")
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.content.iter_any():
                raw += part
                if len(raw) > BODY_LIMIT:
                    raise _Refused(413, "The body is too large.")
    except TimeoutError:
        raise _Refused(400, "The body did not arrive in time.") from None
    except (web.RequestPayloadError, web.PayloadAccessError, HttpProcessingError, OSError):
        raise _Refused(400, "The body did not arrive whole.") from None
    return bytes(raw)


def _names(request: web.Request) -> tuple[str, str]:
    names = request.headers.getall("X-GitHub-Event", [])
    deliveries = request.headers.getall("X-GitHub-Delivery", [])
    if len(names) != 1 or not _EVENT.fullmatch(names[0]):
        raise _Refused(400, "The header X-GitHub-Event is missing or not an event's name.")
    if len(deliveries) != 1 or not _DELIVERY.fullmatch(deliveries[0]):
        raise _Refused(400, "The header X-GitHub-Delivery is missing or not a UUID.")
    return names[0], deliveries[0]


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
