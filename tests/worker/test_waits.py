"""Waiting: no longer than told, or to the end."""

from __future__ import annotations

import asyncio

import pytest

from worker.waits import to_the_end, within


async def test_an_event_that_comes_in_time_is_told() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    assert await within(event, 5)
    assert not await within(asyncio.Event(), 0.01)


async def test_work_is_awaited_through_every_cancellation_which_then_goes_on() -> None:
    going, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await going.wait()
        done.set()

    waiting = asyncio.create_task(to_the_end(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done.is_set()


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        await to_the_end(work())


async def test_work_that_is_cancelled_itself_says_so() -> None:
    work = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(to_the_end(work))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
