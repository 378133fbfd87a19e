"""How an ordered fault shows on the wire: in the place of an answer, or instead of any."""

from __future__ import annotations

import asyncio

from aiohttp import web

from deploy.standin.answers import Answer
from deploy.standin.record import Fault, Request
from deploy.standin.rest import respond

GARBAGE = b'{"id": 1, "body": \xff'
"""Neither UTF-8 nor whole."""
POLL_SECONDS = 0.02


async def spoil(
    request: web.Request, entry: Request, fault: Fault, *, answer: web.StreamResponse | None
) -> web.StreamResponse:
    """Answer a request as a fault has it. `answer` is what was to be answered; None: nothing was done yet."""
    spoilt = _spoilt(fault, answer)
    if fault.hang:
        while not _gone(request):  # noqa: ASYNC110 - aiohttp tells a handler of nobody's going
            await asyncio.sleep(POLL_SECONDS)
    elif fault.drop and request.transport is not None:
        request.transport.abort()
    else:
        entry.status = spoilt.status
        if fault.cut:
            return await _cut(request, spoilt)
    return spoilt


def _spoilt(fault: Fault, answer: web.StreamResponse | None) -> web.Response:
    whole = answer if isinstance(answer, web.Response) else None
    if fault.cut or fault.garbage:
        status = fault.status or (200 if whole is None else whole.status)
        body = whole.body if whole is not None else None
        raw = bytes(body) if isinstance(body, bytes) and body else f'{{"message": "{fault.message}"}}'.encode()
        return web.Response(
            status=status,
            body=GARBAGE if fault.garbage else raw,
            headers={"Content-Type": "application/json; charset=utf-8", **fault.headers},
        )
    place = {"Location": fault.redirect} if fault.redirect else {}
    status = fault.status or (302 if fault.redirect else 500)
    return respond(Answer(status, {"message": fault.message}, place | fault.headers))


async def _cut(request: web.Request, whole: web.Response) -> web.StreamResponse:
    """Send an answer up to the middle of its body."""
    body = whole.body if isinstance(whole.body, bytes) else b""
    half = web.StreamResponse(status=whole.status, headers={**whole.headers, "Content-Length": str(len(body))})
    await half.prepare(request)
    await half.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()  # what was written goes out first
    return half


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
