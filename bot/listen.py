"""A listening socket for a web application, with limits that aiohttp does not set by itself.

Owns how long a connection may take to say what it wants (threats.md T3: aiohttp waits for headers without end), and how
it is closed. It knows nothing of what the application does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

HEADER_SECONDS = 10.0
"""Limit from a connection's first moment to the end of its first request's headers, and between two requests."""
LINGER_SECONDS = 0.5
"""For so long the rest of a body is read and thrown away after an early answer, so that the answer arrives."""
SHUTDOWN_SECONDS = 5.0
"""For so long requests under way may end when the process ends."""


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
    silent: set[asyncio.BaseProtocol] = set()

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        silent.discard(request.protocol)
        return await handler(request)

    app.middlewares.insert(0, watch)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        auto_decompress=False,
        keepalive_timeout=HEADER_SECONDS,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    loop = asyncio.get_running_loop()
    make = runner.server

    def connection() -> asyncio.Protocol:
        if make is None:  # pragma: no cover - setup() made it
            raise RuntimeError("the runner is not set up")
        protocol = make()
        silent.add(protocol)
        loop.call_later(HEADER_SECONDS, _close_if_silent, protocol, silent)
        return protocol

    try:
        server = await loop.create_server(connection, host, port)
    except BaseException:
        await runner.cleanup()
        raise
    return Listener(server.sockets[0].getsockname()[1], runner, server)


def _close_if_silent(protocol: web.RequestHandler, silent: set[asyncio.BaseProtocol]) -> None:
    """Cut a connection on which no whole request head has come."""
    if protocol in silent:
        silent.discard(protocol)
        if protocol.transport is not None:
            protocol.transport.abort()
