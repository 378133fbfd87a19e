"""What workers lack is known while they live, and no longer."""

from __future__ import annotations

from bot.store import Store
from bot.store.connection import key


async def test_each_sentence_is_told_once(store: Store) -> None:
    assert await store.health.lacks() == ()
    await store.health.report("one", ("It lacks a key.", "It lacks bubblewrap."))
    await store.health.report("two", ("It lacks a key.",))
    assert await store.health.lacks() == ("It lacks a key.", "It lacks bubblewrap.")


async def test_the_newest_word_of_a_worker_counts(store: Store) -> None:
    await store.health.report("one", ("It lacks a key.",))
    await store.health.report("one", ())
    assert await store.health.lacks() == ()


async def test_a_worker_that_ended_lacks_nothing(store: Store) -> None:
    await store.health.report("one", ("It lacks a key.",))
    await store.health.forget("one")
    assert await store.health.lacks() == ()


async def test_a_worker_that_fell_silent_is_forgotten(store: Store) -> None:
    await store.health.report("one", ("It lacks a key.",))
    gate = store.health._gate
    assert 0 < await gate.do("TTL", key("worker", "one")) <= 180
    await gate.do("DEL", key("worker", "one"))
    assert await store.health.lacks() == ()
    assert await gate.do("SMEMBERS", key("workers")) in ([], set())
