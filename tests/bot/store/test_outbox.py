"""The outbox: stored before, recorded after, pending in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from bot.store import LostFence, Store, Writer
from bot.store.connection import key
from bot.store.outbox import Stored
from bot.store.runs import Run, run_key

MakeRun = Callable[..., Run]


async def test_what_is_meant_once_is_stored_once(store: Store) -> None:
    assert await store.outbox.put("a", b"first") == Stored(b"first", first=True)
    assert await store.outbox.put("a", b"second") == Stored(b"first", first=False)
    assert await store.outbox.get("a") == b"first"
    assert await store.outbox.get("b") is None


async def test_what_shall_be_is_what_was_said_last(store: Store) -> None:
    await store.outbox.replace("a", b"first")
    await store.outbox.replace("a", b"second")
    assert await store.outbox.get("a") == b"second"


async def test_intents_are_pending_in_their_order_until_they_are_done(store: Store) -> None:
    by = Writer("run")
    for name in ("c", "a", "b"):
        await store.outbox.put(name, b"", by)
    await store.outbox.replace("a", b"again", by)
    await store.outbox.put("own", b"")
    assert await store.outbox.pending("run") == ("c", "a", "b")
    assert await store.outbox.pending(None) == ("own",)
    await store.outbox.partly("c", b"half", by)
    assert (await store.outbox.result("c"), await store.outbox.pending("run")) == (b"half", ("c", "a", "b"))
    await store.outbox.done("c", b"whole", by)
    assert (await store.outbox.result("c"), await store.outbox.pending("run")) == (b"whole", ("a", "b"))
    assert await store.outbox.result("a") is None


async def test_what_is_done_is_pending_again_when_it_shall_look_otherwise(store: Store) -> None:
    by = Writer("run")
    await store.outbox.replace("a", b"one", by)
    await store.outbox.done("a", b"there", by)
    assert await store.outbox.pending("run") == ()
    await store.outbox.replace("a", b"two", by)
    assert await store.outbox.pending("run") == ("a",)
    assert await store.outbox.result("a") == b"there"


async def test_an_older_attempt_neither_means_nor_records(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    old = Writer(run.id, await store.runs.begin_attempt(run.id))
    new = Writer(run.id, await store.runs.begin_attempt(run.id))
    await store.outbox.put("a", b"new", new)
    for write in (
        store.outbox.put("b", b"", old),
        store.outbox.replace("a", b"old", old),
        store.outbox.partly("a", b"old", old),
        store.outbox.done("a", b"old", old),
        store.outbox.guard(old),
    ):
        with pytest.raises(LostFence, match=f"attempt 1 at run {run.id} is not the newest"):
            await write
    await store.outbox.guard(new)
    assert (await store.outbox.get("a"), await store.outbox.result("a")) == (b"new", None)
    assert await store.outbox.pending(run.id) == ("a",)


async def test_what_is_tried_again_is_kept_no_longer_for_it(store: Store, make_run: MakeRun, redis: Redis) -> None:
    """What GitHub refuses for good ends with its records (decisions.md 1.8)."""
    run = make_run()
    await store.runs.claim(run, "a")
    by = Writer(run.id, await store.runs.begin_attempt(run.id))
    await store.outbox.replace("a", b"words", by)
    await store.runs.finish(run.id, by.fence or 0, "consensus")
    names = (key("intent", "a"), key("pending", run.id), run_key(run.id))
    for name in names:
        await redis.pexpire(name, 60_000)
    again = Writer(run.id, await store.runs.begin_attempt(run.id))
    await store.outbox.replace("a", b"words", again)
    assert [0 < await redis.pttl(name) <= 60_000 for name in names] == [True] * 3
    await store.outbox.replace("a", b"other words", again)
    assert [await redis.pttl(name) > 60_000 for name in names] == [True, True, False]
