"""A server that answers as it is told, and clients that talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from bot.github import Clock, GitHub, open_session

Answering = Callable[[web.Request, bytes], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass
class Heard:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A web server whose answers are a list: the last one is given for ever."""

    url: str = ""
    answers: list[Answering] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    @staticmethod
    def says(status: int, data: Any = None, **headers: str) -> Answering:
        """Answer so; an underscore in a header's name stands for a dash."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return lambda _request, _body: web.json_response({} if data is None else data, status=status, headers=named)

    @staticmethod
    def drops(request: web.Request, _body: bytes) -> web.StreamResponse:
        """Close the connection without an answer."""
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.heard.append(Heard(request.method, request.path_qs, dict(request.headers), body))
        answering = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = answering(request, body)
        return answer if isinstance(answer, web.StreamResponse) else await answer


@dataclass
class Pauses:
    """A clock that notes how long it was asked to sleep, and moves on by it."""

    slept: list[float] = field(default_factory=list)
    time: float = 1_800_000_000.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep, jitter=lambda: 0.0)


@asynccontextmanager
async def listening() -> AsyncIterator[Server]:
    found = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as found:
        yield found


@pytest_asyncio.fixture
async def stranger() -> AsyncIterator[Server]:
    """Another server, which nobody should ask."""
    async with listening() as found:
        found.answers = [found.says(200, [])]
        yield found


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session("http://127.0.0.1") as opened:
        yield opened


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def github(server: Server, session: aiohttp.ClientSession, pauses: Pauses) -> GitHub:
    """A client whose first token is replaced by a second when it is refused."""

    async def credential(refused: str | None) -> str:
        return "first" if refused is None else "second"

    return GitHub(session, f"{server.url}/api/v3", credential, clock=pauses.clock())
