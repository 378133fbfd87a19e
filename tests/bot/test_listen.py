"""A connection must say what it wants in time, is one of not too many, and gives nothing away."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from bot import listen as module
from bot.listen import Listener, listen


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
    # Newer versions of aiohttp do this by themselves, too; not all that pyproject.toml allows.
    monkeypatch.setattr(web.RequestHandler, "_process_keepalive", lambda _connection: None)
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


class Teapot(web.HTTPClientError):
    status_code = 418


async def ask(listener: Listener, raw: bytes) -> bytes:
    """Send bytes and return all that comes back until the other side ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(raw)
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def test_the_connection_that_was_silent_for_the_longest_makes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 3)
    listener = await listen(application(), "127.0.0.1", 0)
    ends = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(3)]
    # The first to come is the last to have spoken.
    ends[0][1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await ends[0][0].readuntil(b"hello")
    assert b"hello" in await ask(listener, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        assert await ends[1][0].read() == b""
    ends[0][1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await ends[0][0].readuntil(b"hello")
    assert not ends[2][0].at_eof()
    for _, writer in ends:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    await listener.close()


async def test_connections_that_have_ended_displace_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 3)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n"
    listener = await listen(application(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(request + b"\r\n")
    assert await reader.readuntil(b"hello")
    for _ in range(10):
        assert b"hello" in await ask(listener, request + b"Connection: close\r\n\r\n")
    writer.write(request + b"\r\n")
    assert await reader.readuntil(b"hello")
    writer.close()
    await writer.wait_closed()
    await listener.close()


async def test_requests_without_end_ahead_of_the_answer_are_cut() -> None:
    asked = 0

    async def count(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", count)
    listener = await listen(app, "127.0.0.1", 0)
    await ask(listener, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    assert asked <= module.AHEAD + 1
    await listener.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing", 404),
        (b"DELETE /", 405),
        (b"GET /faulty", 500),
        (b"GET /teapot", 418),
        (b"GET /late", 504),
        (b"nonsense", 400),
    ],
)
async def test_what_no_route_answers_is_answered_with_a_fixed_sentence(request_line: bytes, status: int) -> None:
    async def faulty(_request: web.Request) -> web.Response:
        raise RuntimeError("inside")

    async def teapot(_request: web.Request) -> web.Response:
        raise Teapot(text="inside")

    async def late(_request: web.Request) -> web.Response:
        raise TimeoutError("inside")

    app = application()
    app.router.add_get("/faulty", faulty)
    app.router.add_get("/teapot", teapot)
    app.router.add_get("/late", late)
    listener = await listen(app, "127.0.0.1", 0)
    answer = await ask(listener, request_line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await listener.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert body.decode().strip() in module.SENTENCES.values()
    assert b"\r\nServer: codex-debate\r\n" in head + b"\r\n"
    assert (b"\r\nAllow: " in head) == (status == 405)
