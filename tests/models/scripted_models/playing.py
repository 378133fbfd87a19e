"""A turn as an answer over HTTP: whole, as a stream, or gone wrong in the way that the script says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from aiohttp import web

from scripted_models.model import Model
from scripted_models.request import Request
from scripted_models.turns import Broken, Cut, Endless, Event, Garbage, Hang, Redirect, Refusal, Silence, Turn
from scripted_models.usage import Usage, tokens

ENDLESS = "and so on, " * 100
"""What is said without end."""


@dataclass
class Answering:
    """The answer to one request."""

    http: web.Request
    request: Request
    model: Model
    ending: asyncio.Event
    """Set when the server ends: who waits for ever waits for this."""

    async def play(self, turn: Turn) -> web.StreamResponse:
        """Answer."""
        await asyncio.sleep(turn.wait)
        match turn.fault:
            case Refusal() as refusal:
                return self._refuse(refusal)
            case Hang():
                return await self._hang()
            case Garbage(body=body, content_type=content_type):
                return web.Response(body=body, headers={"Content-Type": content_type})
            case Redirect(location=location, status=status):
                return web.Response(status=status, headers={"Location": location})
            case Endless():
                turn = replace(turn, parts=(*turn.parts, ENDLESS), chunk=len(ENDLESS))
        self.model.count(self.request, turn)
        if self.request.body.get("stream") is not True:
            return await self._whole(turn)
        response = web.StreamResponse(headers=self._headers("text/event-stream; charset=utf-8"))
        await response.prepare(self.http)
        await self._stream(turn, _Writer(response, pause=turn.pause, numbered=self.model.api.NUMBERED))
        return response

    async def _whole(self, turn: Turn) -> web.StreamResponse:
        """Answer without a stream; what goes wrong inside one goes wrong here in the nearest way."""
        match turn.fault:
            case Broken(kind=kind, message=message):
                return self._refuse(Refusal(529 if kind == "overloaded_error" else 500, message, kind))
            case Cut():
                self._break_off()
                return web.Response()
            case Silence() | Endless():
                return await self._hang()
        body = self.model.api.whole(self.request, turn, self.request.usage)
        return web.Response(body=json.dumps(body).encode(), headers=self._headers("application/json"))

    async def _stream(self, turn: Turn, writer: _Writer) -> None:
        api = self.model.api
        await writer.send(api.opening(self.request, self.request.usage))
        if turn.fault is None:
            await writer.send(api.saying(self.request, turn))
            await writer.send(api.closing(self.request, turn, self.request.usage))
            return
        said = _unfinished(api.saying(self.request, turn))
        await writer.send(said)
        match turn.fault:
            case Broken(kind=kind, message=message):
                await writer.send([api.broken(self.request, kind, message)])
            case Cut(clean=False):
                self._break_off()
            case Silence(pings=seconds):
                await self._say_nothing(writer, seconds)
            case Endless(line=True):
                await self._never_end_a_line(writer)
            case Endless():
                await self._never_end(writer, said[-1])

    async def _say_nothing(self, writer: _Writer, seconds: float) -> None:
        """Wait until the program leaves, with a sign of life each so many seconds, or none."""
        while not self.ending.is_set():
            try:
                await asyncio.wait_for(self.ending.wait(), seconds or None)
            except TimeoutError:
                await writer.send([self.model.api.ping()])

    async def _never_end(self, writer: _Writer, piece: Event) -> None:
        """Say the same until the program leaves, as fast as it is read."""
        more = Usage(output=tokens(ENDLESS.encode()), calls=0)
        while not self.ending.is_set():
            await writer.send([piece])
            self.request.usage += more
            await asyncio.sleep(0)

    async def _never_end_a_line(self, writer: _Writer) -> None:
        await writer.response.write(b'event: message\ndata: {"type": "')
        while not self.ending.is_set():
            await writer.response.write(ENDLESS.encode())
            await asyncio.sleep(0)

    def _refuse(self, refusal: Refusal) -> web.StreamResponse:
        headers = self._headers("application/json; charset=utf-8")
        if refusal.retry_after is not None:
            headers["Retry-After"] = f"{refusal.retry_after:g}"
        body = self.model.api.refusal(refusal.status, refusal.kind, refusal.message)
        return web.Response(status=refusal.status, body=json.dumps(body).encode(), headers=headers)

    async def _hang(self) -> web.StreamResponse:
        await self.ending.wait()
        return web.Response(status=503)

    def _break_off(self) -> None:
        """Close the connection in the middle; what was written before arrives."""
        if self.http.transport is not None:
            self.http.transport.close()

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Content-Type": content_type, "Cache-Control": "no-cache", "Request-Id": f"req_{self.request.id}"}


@dataclass
class _Writer:
    """A stream of server-sent events."""

    response: web.StreamResponse
    pause: float
    numbered: bool
    _sent: int = field(default=0)

    async def send(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.piece:
                await asyncio.sleep(self.pause)
            data = event.data | ({"sequence_number": self._sent} if self.numbered else {})
            self._sent += 1
            told = json.dumps(data, ensure_ascii=False)
            await self.response.write(f"event: {event.name}\ndata: {told}\n\n".encode("utf-8", "surrogatepass"))


def _unfinished(events: Iterable[Event]) -> list[Event]:
    """Return the events of a turn up to its last piece: what stands there when a stream breaks."""
    found = list(events)
    while found and not found[-1].piece:
        found.pop()
    return found
