"""A listening socket for a web application, with limits that aiohttp does not set by itself.

Owns how long a connection may take to say what it wants (threats.md T3: aiohttp waits for headers without end), how
many there may be and which one goes, how one is closed, and what is said where no route answers. It knows nothing of
what the application does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler
from typing_extensions import override

from bot.telemetry import log

HEADER_SECONDS = 10.0
"""Limit from a connection's first moment to the end of its first request's headers, and between two requests."""
LINGER_SECONDS = 0.5
"""For so long the rest of a body is read and thrown away after an early answer, so that the answer arrives."""
SHUTDOWN_SECONDS = 5.0
"""For so long requests under way may end when the process ends."""
CONNECTIONS = 512
"""Open at once. Systems allow a process 1,024 files at the least, and each delivery may need one more to the store."""
HEADERS = 64
"""Lines of the longest head. GitHub sends about 15, a proxy adds a few."""
AHEAD = 2
"""Requests that may wait on one connection for the answer to an earlier one. GitHub and proxies send none ahead."""

NAME = "codex-debate"
"""What the header ``Server`` says: no versions."""
SENTENCES = {
    400: "The request is malformed; send it as HTTP/1.1 has it.",
    404: "There is nothing here; check the webhook's URL.",
    405: "This method is not taken here; deliveries are sent by POST.",
    417: "The header Expect is not understood; leave it out.",
    500: "Something went wrong here; the operator's log has it.",
}
"""What is said by status where no route answers. It holds nothing of the request."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An application that is being served."""

    port: int
    runner: web.AppRunner
    server: asyncio.Server

    async def close(self) -> None:
        """Take no more connections, let requests under way end, and close the rest."""
        self.server.close()
        await self.runner.cleanup()


async def listen(app: web.Application, host: str, port: int) -> Listener:
    """Serve an application. `port` 0 takes a free one. Raises OSError where the address cannot be had."""

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.protocol, _Connection):
            request.protocol.spoke()
        return await handler(request)

    app.middlewares.insert(0, watch)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    loop = asyncio.get_running_loop()
    manager = runner.server
    present: OrderedDict[_Connection, None] = OrderedDict()

    def connection() -> asyncio.Protocol:
        if manager is None:  # pragma: no cover - setup() made it
            raise RuntimeError("the runner is not set up")
        return _Connection(manager, present, loop=loop)

    try:
        # As many may come at one moment: the system drops what is beyond, and its sender tries again after a second.
        server = await loop.create_server(connection, host, port, backlog=CONNECTIONS)
    except BaseException:
        await runner.cleanup()
        raise
    return Listener(server.sockets[0].getsockname()[1], runner, server)


class _Connection(web.RequestHandler):
    """A connection that must speak in time, makes place where there are too many, and gives nothing away."""

    __slots__ = ("_cut", "_present")

    def __init__(
        self, manager: web.Server, present: OrderedDict[_Connection, None], *, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`present` are the open connections, the one that has said nothing for the longest first."""
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to say that there is none
            auto_decompress=False,
            keepalive_timeout=HEADER_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_headers=HEADERS,
        )
        self._present = present
        self._cut: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._cut = self._loop.call_later(HEADER_SECONDS, self._abort)
        self._present[self] = None
        if len(self._present) > CONNECTIONS:
            # A sender who floods displaces his own older ones; a delivery is through before it is the oldest.
            next(iter(self._present))._abort()  # noqa: SLF001 - of the same class

    def spoke(self) -> None:
        """Note that a request's head has come."""
        if self in self._present:
            self._present.move_to_end(self)
        if self._cut is not None:
            self._cut.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) > AHEAD:
            self._abort()

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def _abort(self) -> None:
        self._leave()
        if self.transport is not None:
            self.transport.abort()

    def _leave(self) -> None:
        self._present.pop(self, None)
        if self._cut is not None:
            self._cut.cancel()

    # ---- What is said where no route answers ------------------------------------------------------------------------

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be read, or a fault of ours, with a fixed sentence; the log has more."""
        if status < 500:
            log(__name__).info("request not read", status=status, error=type(exc).__name__)
        else:
            log(__name__).error("request failed", path=request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        response = _sentence(status)
        response.force_close()
        return response

    @override
    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPException):
            allowed = resp.headers.getall("Allow", [])
            resp = _sentence(resp.status)
            resp.headers.extend(("Allow", each) for each in allowed)
        resp.headers["Server"] = NAME
        return await super().finish_response(request, resp, start_time)


def _sentence(status: int) -> web.Response:
    known = SENTENCES.get(status) or SENTENCES[500 if status >= 500 else 400]
    return web.Response(status=status, text=f"{known}\n")
