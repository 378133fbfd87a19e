"""Turns: so many in a window whoever asks, in the order of asking, and none taken that is not kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.store import Store
from bot.store.connection import key

FEW = ((3, 60.0), (5, 3600.0))


async def places(redis: Redis, name: str = "a") -> list[int]:
    found = await cast("Awaitable[list[bytes]]", redis.lrange(key("pace", name), 0, -1))
    return [int(each) for each in found]


async def settle(redis: Redis, ago: list[float], name: str = "a") -> None:
    """Let turns have been taken so many seconds ago, oldest first."""
    seconds, micro = await redis.time()
    now = seconds * 1000 + micro // 1000
    await redis.delete(key("pace", name))
    times = [str(now - round(each * 1000)) for each in ago]
    await cast("Awaitable[int]", redis.rpush(key("pace", name), *times))


async def test_turns_come_at_once_up_to_the_windows_count(store: Store) -> None:
    turns = [await store.pace.turn("a", FEW, most=10) for _ in range(4)]
    assert [(turn.taken, turn.wait) for turn in turns[:3]] == [(True, 0.0)] * 3
    assert not turns[3].taken
    assert 0 < turns[3].wait <= 60


async def test_a_place_that_is_near_is_kept_and_the_next_stands_behind_it(store: Store, redis: Redis) -> None:
    await settle(redis, [35, 34, 33])
    old = await places(redis)
    near = [await store.pace.turn("a", FEW, most=30) for _ in range(2)]
    assert [turn.taken for turn in near] == [True, True]
    assert 0 < near[0].wait <= 25
    assert await places(redis) == [*old, old[0] + 60_000, old[1] + 60_000]


async def test_a_place_that_is_not_taken_costs_nobody_anything(store: Store, redis: Redis) -> None:
    await settle(redis, [30, 30, 30])
    before = await places(redis)
    waits = [(await store.pace.turn("a", FEW, most=10)).wait for _ in range(3)]
    assert 10 < max(waits) <= 30
    assert await places(redis) == before
    assert (await store.pace.turn("a", FEW, most=30)).taken


async def test_the_longer_window_counts_too(store: Store, redis: Redis) -> None:
    await settle(redis, [3570, 3000, 2000, 1000, 500])
    old = await places(redis)
    assert (await store.pace.turn("a", FEW, most=30)).taken
    assert (await places(redis))[-1] == old[0] + 3_600_000
    turn = await store.pace.turn("a", FEW, most=30)
    assert not turn.taken
    assert 500 < turn.wait <= 600


async def test_names_do_not_wait_for_each_other(store: Store, redis: Redis) -> None:
    await settle(redis, [1, 1, 1])
    assert not (await store.pace.turn("a", FEW, most=10)).taken
    assert (await store.pace.turn("b", FEW, most=10)).wait == 0


async def test_a_hold_moves_the_next_turn_and_the_longer_one_stands(store: Store) -> None:
    await store.pace.hold("a", 40.0)
    await store.pace.hold("a", 2.0)
    turn = await store.pace.turn("a", FEW, most=60)
    assert turn.taken
    assert 2 < turn.wait <= 40
    await store.pace.hold("a", 100.0)
    turn = await store.pace.turn("a", FEW, most=60)
    assert not turn.taken
    assert 60 < turn.wait <= 100


async def test_a_clock_of_the_store_that_was_set_back_stops_nobody(store: Store, redis: Redis) -> None:
    await settle(redis, [-3600, -3600, -3600])
    turn = await store.pace.turn("a", FEW, most=10)
    assert (turn.taken, turn.wait) == (True, 0.0)


async def test_nothing_is_kept_longer_than_it_is_of_use(store: Store, redis: Redis) -> None:
    for _ in range(3):
        await store.pace.turn("a", FEW, most=10)
    await store.pace.hold("a", 5.0)
    assert 0 < await redis.pttl(key("pace", "a")) <= 3_660_000
    assert 0 < await redis.pttl(key("pace", "a", "hold")) <= 5000
    await settle(redis, [4000.0 + each for each in range(20, 0, -1)])
    await store.pace.turn("a", ((30, 1.0), (5, 60.0)), most=10)
    assert len(await places(redis)) == 1
    await store.pace.turn("a", FEW, most=10)
    assert len(await places(redis)) == 2


async def test_many_who_ask_at_once_from_several_connections_share_one_window(
    store: Store, valkey_url: str, redis: Redis
) -> None:
    twin = await Store.connect(valkey_url)
    both = [store, twin]
    asked = (both[number % 2].pace.turn("a", ((60, 60.0), (400, 3600.0)), most=10) for number in range(200))
    turns = await asyncio.gather(*asked)
    assert sum(turn.taken for turn in turns) == 60
    assert len(await places(redis)) == 60
    await twin.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ago=st.lists(st.floats(0, 4000), max_size=8), asks=st.integers(1, 8), most=st.sampled_from([0.0, 10.0, 4000.0]))
def test_no_window_ever_holds_more_than_it_may(valkey_url: str, ago: list[float], asks: int, most: float) -> None:
    asyncio.run(_never_more(valkey_url, sorted(ago, reverse=True), asks, most))


async def _never_more(url: str, ago: list[float], asks: int, most: float) -> None:
    windows = ((3, 60.0), (5, 3600.0))
    store, redis = await Store.connect(url), Redis.from_url(url)
    try:
        await redis.flushall()
        if ago:
            await settle(redis, ago)
        made: list[Any] = [await store.pace.turn("a", windows, most=most) for _ in range(asks)]
        kept = await places(redis)
        assert kept == sorted(kept)
        new = kept[len(kept) - sum(turn.taken for turn in made) :]
        for place in new:
            for count, seconds in windows:
                in_window = [each for each in kept if place - seconds * 1000 < each <= place]
                assert len(in_window) <= count
    finally:
        await redis.aclose()
        await store.close()


async def test_who_asks_with_smaller_counts_leaves_room_for_the_others(store: Store) -> None:
    """Workers tell how debates stand; what people wait for comes first (decisions.md 9)."""
    small, large = ((2, 60.0),), ((3, 60.0),)
    taken = [(await store.pace.turn("a", small, most=1.0)).taken for _ in range(4)]
    assert taken == [True, True, False, False]
    assert [(await store.pace.turn("a", large, most=1.0)).taken for _ in range(2)] == [True, False]
    assert not (await store.pace.turn("a", small, most=1.0)).taken


async def test_places_are_kept_as_long_as_the_longest_window(store: Store, redis: Redis) -> None:
    windows = ((3, 0.05), (1000, 0.2))
    for _ in range(3):
        await store.pace.turn("a", windows, most=1.0)
    await asyncio.sleep(0.3)
    await store.pace.turn("a", windows, most=1.0)
    assert len(await places(redis)) == 1
