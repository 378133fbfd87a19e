"""Inputs 14 to 18 of threats.md 2.A over real sockets: large bodies, slow senders, and too many of them.

How long a good delivery takes beside them is measured in tests/bench/bench_receiver.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot import app, listen
from bot.body import BODY_LIMIT

ROOT = Path(__file__).parents[2]
ACCEPTED = (202, "Accepted.")


@contextlib.asynccontextmanager
async def dripping(receiver: Any, start: bytes, count: int = 1) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Hold connections open that send `start` and then a byte now and then, for ever; without a start, nothing."""
    ends = [await receiver.connect() for _ in range(count)]

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        with contextlib.suppress(ConnectionError):
            while True:
                await writer.drain()
                await asyncio.sleep(0.02)
                writer.write(b"x" if start else b"")

    drips = [asyncio.create_task(drip(writer)) for _, writer in ends]
    try:
        yield [reader for reader, _ in ends]
    finally:
        for task in drips:
            task.cancel()
        await asyncio.gather(*drips, return_exceptions=True)
        for _, writer in ends:
            await receiver.hang_up(writer)


async def the_end(reader: asyncio.StreamReader) -> bytes:
    """Return what came until the other side ended the connection, with a word or without one."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65_536):
            answer += part
    return answer


@pytest.mark.threat("T3", 14)
async def test_input_14_a_body_of_24_9_mb(receiver: Any) -> None:
    raw = json.dumps({**json.loads(receiver.body), "noise": "x" * 24_900_000}).encode()
    assert len(raw) < BODY_LIMIT
    assert await receiver.post(raw) == ACCEPTED


@pytest.mark.threat("T3", 15)
async def test_input_15_an_endless_body_is_cut(receiver: Any) -> None:
    """It is wrong in every other way too: how much there is of it is looked at first."""
    head = receiver.head(Transfer_Encoding="chunked", Content_Length=None, X_Hub_Signature_256=None)
    reader, writer = await receiver.connect()
    part = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    sent = 0
    writer.write(head)
    with contextlib.suppress(ConnectionError):
        # Without an end on the other side this would go on for ever.
        while sent < 100 * BODY_LIMIT and not reader.at_eof():
            writer.write(part)
            await writer.drain()
            sent += len(part)
    assert sent < 100 * BODY_LIMIT
    # The answer is only lost where the system throws away what came in before the connection was reset.
    assert receiver.answer(await the_end(reader) or b"HTTP/1.1 413 -\r\n\r\n")[0] == 413
    await receiver.hang_up(writer)
    assert receiver.queue.jobs == {}


@pytest.mark.threat("T3", 16)
@pytest.mark.parametrize("start", [b"POST /webh", b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_input_16_slow_headers_are_cut(receiver: Any, monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    monkeypatch.setattr(listen, "HEADER_SECONDS", 0.2)
    async with dripping(receiver, start) as (reader,):
        assert await the_end(reader) == b""


@pytest.mark.threat("T3", 16)
async def test_input_16_a_second_requests_slow_headers_are_cut(receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "HEADER_SECONDS", 0.2)
    first = receiver.head(Connection="keep-alive") + receiver.body
    async with dripping(receiver, first + b"POST /webhook HTTP/1.1\r\nHost: ") as (reader,):
        assert receiver.answer(await the_end(reader)) == ACCEPTED


@pytest.mark.threat("T3", 17)
@pytest.mark.parametrize("signed", [True, False])
async def test_input_17_a_slow_body_is_cut(receiver: Any, monkeypatch: pytest.MonkeyPatch, *, signed: bool) -> None:
    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.2)
    changes = {} if signed else {"X_Hub_Signature_256": None}
    async with dripping(receiver, receiver.head(Content_Length="1000000", **changes) + b"{") as (reader,):
        assert receiver.answer(await the_end(reader)) == (400, "The body did not arrive in time.")


async def test_a_body_that_ends_too_early(receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    _, writer = await receiver.connect()
    writer.write(receiver.head() + receiver.body[:-1])
    await writer.drain()
    await receiver.hang_up(writer)
    while "The body did not arrive whole." not in caplog.text:
        await asyncio.sleep(0.01)
    assert receiver.queue.jobs == {}


@contextlib.asynccontextmanager
async def slow_senders(receiver: Any) -> AsyncIterator[list[asyncio.Task[bytes]]]:
    """Hold 200 slow connections of several kinds open; yield what waits for the end of each."""
    line, header = b"POST /web", b"POST /webhook HTTP/1.1\r\nHost: "
    body = receiver.head(Content_Length="1000000") + b"{"
    async with contextlib.AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(dripping(receiver, start, 50)) for start in (b"", line, header, body)]
        ends = [asyncio.create_task(the_end(reader)) for group in groups for reader in group]
        yield ends
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


@pytest.mark.threat("T3", 18)
async def test_slowloris_200(receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good deliveries are answered while every slow sender still waits for its own end, and that end comes."""
    async with slow_senders(receiver) as ends:
        for _ in range(20):
            assert await receiver.post() == ACCEPTED
        assert len(ends) == 200
        assert not any(end.done() for end in ends)
    monkeypatch.setattr(listen, "HEADER_SECONDS", 2.0)
    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.2)
    async with slow_senders(receiver) as ends, asyncio.timeout(30):
        answers = await asyncio.gather(*ends)
    assert {answer.partition(b"\r\n")[0] for answer in answers} == {b"", b"HTTP/1.1 400 Bad Request"}
    assert await receiver.post() == ACCEPTED


@pytest.mark.threat("T3", 18)
async def test_what_floods_the_connections_displaces_itself(receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "CONNECTIONS", 20)
    async with dripping(receiver, receiver.head(Content_Length="1000") + b"{", 100) as slow:
        assert await receiver.post() == ACCEPTED
        ends = [asyncio.create_task(the_end(reader)) for reader in slow]
        while sum(end.done() for end in ends) < 80:
            await asyncio.sleep(0.01)
        assert not all(end.done() for end in ends)


FEW_FILES = """
import asyncio, resource, sys
from bot.app import create_app
from bot.listen import listen
from bot.telemetry import Metrics

class Queued:
    async def enqueue_event(self, *words):
        return True

async def missing():
    return ()

async def main():
    app = create_app(sys.argv[1], Queued(), missing=missing, metrics=Metrics())
    listener = await listen(app, "127.0.0.1", 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    print(listener.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_process_without_free_files_lives_on(receiver: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FEW_FILES, receiver.secret), cwd=ROOT, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    receiver.port = int(await process.stdout.readline())
    ends = [await receiver.connect() for _ in range(80)]
    for _, writer in ends:
        writer.write(b"POST /web")
    ends[0][1].write(receiver.head()[len(b"POST /web") :] + receiver.body)
    assert receiver.answer(await the_end(ends[0][0])) == ACCEPTED
    for _, writer in ends:
        await receiver.hang_up(writer)
    assert await receiver.post() == ACCEPTED
    process.kill()
    await process.communicate()
    assert "out of system resource" in (tmp_path / "log").read_text()
