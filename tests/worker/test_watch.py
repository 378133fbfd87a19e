"""The heartbeat of a debate, and how one that is asked to end ends in the middle of a turn."""

from __future__ import annotations

import asyncio

import pytest

from bot.github import NotInstalled, Unavailable
from bot.statuses import Status
from bot.store import LostFence, StoreAway
from worker.ended import Ended
from worker.runner import Cancelled
from worker.watch import AWAY_SECONDS, BEAT_SECONDS, WATCH_SECONDS, watched


class Clock:
    """Time that passes only while everybody sleeps: each sleep is noted and gives way once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def nobody() -> None:
    return None


async def no_beat() -> None:
    return None


async def turn() -> None:
    """A turn that would go on for an hour."""
    await asyncio.sleep(3600)


async def until(beats: list[int], count: int) -> None:
    async with asyncio.timeout(5):
        while len(beats) < count:
            await asyncio.sleep(0)


def test_how_often() -> None:
    assert (BEAT_SECONDS, WATCH_SECONDS) == (60.0, 0.5)


@pytest.mark.parametrize("fault", [None, Unavailable(503, "away"), StoreAway("away")])
async def test_the_check_run_is_renewed_even_after_a_fault(fault: Exception | None) -> None:
    clock, beats = Clock(), list[int]()

    async def beat() -> None:
        beats.append(1)
        if fault is not None:
            raise fault

    async with watched(beat, nobody, pulse=no_beat, sleep=clock):
        await until(beats, 3)
    assert clock.slept.count(BEAT_SECONDS) >= 3


@pytest.mark.parametrize("reason", [Cancelled("stopped"), Ended(Status.SUPERSEDED), NotInstalled(404, "gone")])
async def test_a_reason_ends_a_turn_that_goes_on(reason: Exception) -> None:
    answers: list[Exception | None] = [None, StoreAway("away"), Unavailable(503, "away"), reason]
    clock = Clock()

    async def look() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    with pytest.raises(type(reason)) as ended:
        async with asyncio.timeout(5), watched(no_beat, look, pulse=no_beat, sleep=clock):
            await turn()
    assert ended.value is reason
    assert clock.slept.count(AWAY_SECONDS) == 1, "GitHub is not asked twice a second while it is away"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_shutdown_is_not_mistaken_for_somebody_who_asked() -> None:
    async def debate() -> None:
        async with watched(no_beat, nobody, pulse=no_beat):
            await turn()

    task = asyncio.create_task(debate())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_when_the_block_ends_nothing_goes_on() -> None:
    before = asyncio.all_tasks()
    with pytest.raises(KeyError):
        async with watched(no_beat, nobody, pulse=no_beat):
            raise KeyError("the block's own")
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(("fault", "told"), [(RuntimeError("a slip"), 1), (LostFence("overtaken"), 0)])
async def test_a_heart_that_stopped_is_told_to_the_log(
    fault: Exception, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    beats = list[int]()

    async def beat() -> None:
        beats.append(1)
        raise fault

    async with watched(beat, nobody, pulse=no_beat, sleep=Clock()):
        await until(beats, 1)
        await asyncio.sleep(0)
    assert len([line for line in caplog.records if line.levelname == "ERROR"]) == told


async def test_a_shutdown_beside_a_reason_is_one() -> None:
    """Who stops the server is not kept waiting for the report of a debate that somebody stopped."""

    async def debate() -> None:
        async with watched(no_beat, stopped, pulse=no_beat, sleep=Clock()):
            await turn()

    async def stopped() -> None:
        asyncio.get_running_loop().call_soon(task.cancel)  # before the debate hears of the reason
        raise Cancelled("stopped")

    task = asyncio.create_task(debate())
    with pytest.raises(asyncio.CancelledError):
        await task
