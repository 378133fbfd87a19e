"""Pipes of a program, and the thread that works with them."""

from __future__ import annotations

import asyncio

import pytest

from tests.worker.test_process import sh
from worker.pipe import Pipe, pipe


async def test_a_pipe_streams_both_ways() -> None:
    def use(cat: Pipe) -> tuple[bytes, int]:
        cat.stdin.write(b"one\n")
        cat.stdin.flush()
        first = cat.stdout.readline()
        return first, cat.finish()

    assert await pipe(sh("cat"), use) == (b"one\n", 0)


async def test_a_pipe_keeps_the_words_of_a_failure() -> None:
    def use(program: Pipe) -> tuple[int, bytes]:
        return program.finish(), program.errors()

    assert await pipe(sh("echo why >&2; exit 4"), use) == (4, b"why\n")


async def test_a_pipe_may_be_left_early() -> None:
    assert await pipe(sh("echo $$; exec yes"), lambda yes: len(yes.stdout.readline())) > 1


async def test_what_a_pipes_user_raises_is_raised() -> None:
    def use(_: Pipe) -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        await pipe(sh("exec sleep 60"), use)


async def test_a_pipe_ends_at_its_limit() -> None:
    with pytest.raises(TimeoutError, match=r"sh took longer than 0\.2 s"):
        await pipe(sh("exec sleep 60", seconds=0.2), lambda sleep: sleep.stdout.read())


async def test_a_cancelled_pipe_ends_its_thread() -> None:
    loop = asyncio.get_running_loop()
    began = asyncio.Event()
    ended: list[bool] = []

    def use(sleep: Pipe) -> None:
        loop.call_soon_threadsafe(began.set)
        sleep.stdout.read()
        ended.append(True)

    call = asyncio.create_task(pipe(sh("exec sleep 60"), use))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended == [True]
