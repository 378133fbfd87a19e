"""What was spent: counted once, for the run and for the installation's day, and never less than before."""

from __future__ import annotations

import asyncio
import datetime as dt

from redis.asyncio import Redis

from bot.store import Store
from bot.store.connection import key
from bot.store.spending import CALL_MS, Spending

DAY = dt.date(2026, 12, 1)
CALL = Spending(calls=1, input=1000, cached=400, output=50, micro=12_345)


async def add(store: Store, call: str, run: str = "run1", *, spent: Spending = CALL) -> tuple[Spending, Spending]:
    """Count a call, and return what its run and its day have come to."""
    await store.spending.add(call, run, installation_id=7, day=DAY, spent=spent)
    return await store.spending.of_run(run), await store.spending.of_day(7, DAY)


async def test_a_call_counts_for_its_run_and_for_the_day(store: Store) -> None:
    assert await add(store, "a") == (CALL, CALL)
    run, day = await add(store, "b", "run2")
    assert run == CALL
    assert day == Spending(calls=2, input=2000, cached=800, output=100, micro=24_690)
    assert await store.spending.of_run("run1") == CALL
    assert await store.spending.of_day(7, DAY) == day
    assert round(day.usd, 6) == 0.02469


async def test_what_nobody_spent_is_nothing(store: Store) -> None:
    assert await store.spending.of_run("run1") == Spending()
    assert await store.spending.of_day(7, DAY) == Spending()


async def test_other_days_and_installations_have_counts_of_their_own(store: Store) -> None:
    await add(store, "a")
    assert await store.spending.of_day(8, DAY) == Spending()
    assert await store.spending.of_day(7, DAY + dt.timedelta(days=1)) == Spending()


async def test_a_call_that_is_told_again_adds_nothing(store: Store) -> None:
    await add(store, "a")
    assert await add(store, "a") == (CALL, CALL)
    assert (await store.spending.of_run("run1")).calls == 1


async def test_many_at_once_from_several_connections_lose_nothing(store: Store, valkey_url: str) -> None:
    twin = await Store.connect(valkey_url)
    both = (store, twin)
    await asyncio.gather(*(add(both[number % 2], f"c{number}") for number in range(200)))
    await twin.close()
    assert (await store.spending.of_run("run1")).calls == 200
    assert (await store.spending.of_day(7, DAY)).micro == 200 * CALL.micro


async def test_sums_stay_exact_where_they_are_large(store: Store) -> None:
    large = Spending(calls=1, input=2**53, cached=0, output=0, micro=2**53)
    await add(store, "a", spent=large)
    run, _ = await add(store, "b", spent=Spending(calls=1, input=1, micro=1))
    assert (run.input, run.micro) == (2**53 + 1, 2**53 + 1)


async def test_counts_are_kept_as_long_as_other_records(store: Store, redis: Redis) -> None:
    await add(store, "a")
    month = 30 * 86_400_000
    for name in (key("spent", "run1"), key("spent-on", 7, "2026-12-01")):
        assert month - 60_000 < await redis.pttl(name) <= month
    assert 0 < await redis.pttl(key("spent-call", "a")) <= CALL_MS
