"""The lease: renewed as long as its worker lives, and lost at the moment when it may be another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from redis.asyncio import Redis

from bot.store.lease import Keeper, Lease


@asynccontextmanager
async def keeping(url: str, *, seconds: float, lost: Callable[[Lease], None]) -> AsyncIterator[Keeper]:
    keeper = Keeper(url, seconds=seconds, lost=lost)
    keeper.start()
    yield keeper
    await keeper.stop()


async def held(redis: Redis, keeper: Keeper, name: str) -> Lease:
    lease = Lease(name, f"lease:{name}")
    asked = monotonic()
    await redis.set(lease.key, lease.token, px=int(keeper.seconds * 1000))
    keeper.hold(lease, asked=asked)
    return lease


async def test_it_is_renewed_beyond_its_life_and_runs_out_when_dropped(redis: Redis, valkey_url: str) -> None:
    lost: list[Lease] = []
    async with keeping(valkey_url, seconds=0.3, lost=lost.append) as keeper:
        kept, dropped = await held(redis, keeper, "kept"), await held(redis, keeper, "dropped")
        keeper.drop(dropped)
        while await redis.exists(dropped.key):
            await asyncio.sleep(0.01)
        first = kept.until
        while kept.until < first + 0.3:
            await asyncio.sleep(0.01)
        assert await redis.get(kept.key) == kept.token.encode()
    assert lost == []


async def test_one_that_another_holds_is_lost_and_left_alone(redis: Redis, valkey_url: str) -> None:
    lost: asyncio.Queue[Lease] = asyncio.Queue()
    async with keeping(valkey_url, seconds=0.5, lost=lost.put_nowait) as keeper:
        mine, other = await held(redis, keeper, "mine"), await held(redis, keeper, "other")
        await redis.set(mine.key, "another's", px=60_000)
        assert await lost.get() is mine
        assert await redis.pttl(mine.key) > 1000
        await redis.delete(other.key)
        assert await lost.get() is other
        assert not await redis.exists(other.key)


async def test_one_that_cannot_be_renewed_is_lost_when_it_may_have_run_out() -> None:
    lost: asyncio.Queue[Lease] = asyncio.Queue()
    async with keeping("unix:///nowhere/store.sock", seconds=0.3, lost=lost.put_nowait) as keeper:
        lease = Lease("a", "lease:a")
        keeper.hold(lease, asked=monotonic())
        assert await lost.get() is lease
        assert monotonic() >= lease.until


async def test_a_process_that_stood_still_is_told_from_a_store_that_was_away(redis: Redis, valkey_url: str) -> None:
    """decisions.md 1.6: a run is to blame for the one alone."""
    lost: asyncio.Queue[Lease] = asyncio.Queue()
    async with keeping(valkey_url, seconds=0.5, lost=lost.put_nowait) as keeper:
        stood_still, unheard = await held(redis, keeper, "still"), await held(redis, keeper, "away")
        unheard.unheard = True  # the store did not answer, and keys run out meanwhile
        await redis.delete(stood_still.key, unheard.key)
        gone = {(await lost.get()).job for _ in range(2)}
    assert gone == {"still", "away"}
    assert (stood_still.stalled, unheard.stalled) == (True, False)


async def test_a_store_that_answers_again_is_heard(redis: Redis, valkey_url: str) -> None:
    async with keeping(valkey_url, seconds=0.5, lost=lambda _: None) as keeper:
        lease = await held(redis, keeper, "back")
        lease.unheard = True
        while lease.unheard:
            await asyncio.sleep(0.01)
    async with keeping("unix:///nowhere/store.sock", seconds=0.3, lost=lambda _: None) as keeper:
        lease = Lease("a", "lease:a")
        keeper.hold(lease, asked=monotonic())
        while not lease.unheard:
            await asyncio.sleep(0.01)
    assert not lease.stalled
