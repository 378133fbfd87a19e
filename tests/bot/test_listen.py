"""A connection must say what it wants in time."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from bot import listen as module
from bot.listen import listen


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/", hello)
    return app


async def test_a_free_port_is_taken_and_given_back() -> None:
    listener = await listen(application(), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{listener.port}/") as response:
        assert await response.text() == "hello"
    await listener.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)


async def test_a_port_that_is_taken_is_an_error() -> None:
    listener = await listen(application(), "127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await listen(application(), "127.0.0.1", listener.port)
    await listener.close()


async def test_slow_headers_are_cut_and_others_are_answered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEADER_SECONDS", 0.2)
    listener = await listen(application(), "127.0.0.1", 0)
    slow = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(50)]
    for _, writer in slow:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{listener.port}/") as response:
        assert await response.text() == "hello"
    for reader, writer in slow:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    await listener.close()


async def test_a_request_under_way_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEADER_SECONDS", 0.05)
    cut = asyncio.Event()
    asyncio.get_running_loop().call_later(0.15, cut.set)

    async def long(_request: web.Request) -> web.Response:
        await cut.wait()
        return web.Response(text="done")

    app = web.Application()
    app.router.add_get("/", long)
    listener = await listen(app, "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{listener.port}/") as response:
        assert await response.text() == "done"
    await listener.close()
