"""Runs: who may start, who waits, what an attempt may write, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from bot.store import LostFence, Store, runs
from bot.store.connection import PREFIX
from bot.store.runs import RUN_ID_ALPHABET, Full, Repeat, Repository, Run, RunState, Started, Waiting, new_run_id

MakeRun = Callable[..., Run]


async def test_a_run_comes_back_as_it_was_stored(store: Store, make_run: MakeRun) -> None:
    run = make_run(title="Ünïcode \N{WATER WAVE} and \x1b", source=None, requester=None)
    assert await store.runs.claim(run, "text") == Started(run)
    assert await store.runs.get(run.id) == run
    assert await store.runs.state(run.id) == RunState()
    assert await store.runs.get("another") is None
    assert await store.runs.state("another") == RunState()


async def test_an_editing_debate_holds_its_pull_request_and_one_waits(store: Store, make_run: MakeRun) -> None:
    running, waiting, third = make_run(), make_run(), make_run()
    assert await store.runs.claim(running, "a") == Started(running)
    assert await store.runs.claim(waiting, "b") == Waiting(waiting, behind=running)
    assert [(await store.runs.state(run.id)).waited for run in (running, waiting)] == [False, True]
    assert await store.runs.claim(third, "c") == Full(running)
    assert await store.runs.get(third.id) is None
    elsewhere = make_run(number=13)
    assert await store.runs.claim(elsewhere, "a") == Started(elsewhere)
    other = make_run(repository=Repository(id=101, full_name="harbour/tide"))
    assert await store.runs.claim(other, "a") == Started(other)


async def test_two_read_only_debates_run_beside_it(store: Store, make_run: MakeRun) -> None:
    editing = make_run()
    await store.runs.claim(editing, "a")
    readers = [make_run(kind="answer", editing=False) for _ in range(3)]
    claims = [await store.runs.claim(run, f"read {n}") for n, run in enumerate(readers)]
    assert claims == [Started(readers[0]), Started(readers[1]), Full(readers[0])]
    holders = await store.runs.holders(100, 12)
    assert (holders.running, holders.waiting, holders.beside) == (editing, None, (readers[0], readers[1]))
    assert await store.runs.finish(readers[0].id, 0, "agreed") is None
    again = make_run(kind="answer", editing=False)
    assert await store.runs.claim(again, "read 4") == Started(again)


async def test_the_same_comment_gets_its_first_answer_again(store: Store, make_run: MakeRun) -> None:
    first, second, third = make_run(), make_run(), make_run()
    answers = [await store.runs.claim(run, text) for run, text in ((first, "a"), (second, "b"), (third, "c"))]
    await store.runs.finish(first.id, 0, "stopped")
    # The event is worked at again after a crash, and the new run object has another id.
    retold = [run.model_copy(update={"id": f"again-{run.id}"}) for run in (first, second, third)]
    again = [await store.runs.claim(run, text) for run, text in zip(retold, "abc", strict=True)]
    assert again == answers


async def test_the_same_text_by_the_same_person_is_a_repeat_until_the_head_moves(
    store: Store, make_run: MakeRun
) -> None:
    first = make_run()
    await store.runs.claim(first, "mara: review")
    assert await store.runs.claim(make_run(), "mara: review") == Repeat(first)
    await store.runs.finish(first.id, 0, "consensus")
    assert await store.runs.claim(make_run(), "mara: review") == Repeat(first)
    moved = make_run(head_sha="b" * 40)
    assert await store.runs.claim(moved, "mara: review") == Started(moved)
    other = make_run(number=13)
    assert await store.runs.claim(other, "mara: review") == Started(other)


async def test_a_repeat_is_one_for_ten_minutes(store: Store, make_run: MakeRun, redis: Redis) -> None:
    await store.runs.claim(make_run(), "mara: review")
    (key,) = await redis.keys(f"{PREFIX}:text:*")
    assert 590 < await redis.ttl(key) <= 600
    await redis.delete(key)  # ten minutes later
    assert isinstance(await store.runs.claim(make_run(), "mara: review"), Waiting)


async def test_a_holder_whose_record_is_gone_holds_nothing(store: Store, make_run: MakeRun, redis: Redis) -> None:
    lost = make_run()
    await store.runs.claim(lost, "a")
    await redis.delete(f"{PREFIX}:run:{lost.id}")
    fresh = make_run()
    assert await store.runs.claim(fresh, "b") == Started(fresh)


async def test_an_end_is_recorded_once_and_starts_the_waiting_run(store: Store, make_run: MakeRun) -> None:
    first, second = make_run(), make_run()
    await store.runs.claim(first, "a")
    await store.runs.claim(second, "b")
    fence = await store.runs.begin_attempt(first.id)
    assert await store.runs.finish(first.id, fence, "consensus") == second.id
    # The worker died before it could enqueue the second: the next attempt is told its id again.
    again = await store.runs.begin_attempt(first.id)
    assert await store.runs.finish(first.id, again, "unresolved") == second.id
    assert (await store.runs.state(first.id)).status == "consensus"
    holders = await store.runs.holders(100, 12)
    assert (holders.running, holders.waiting) == (second, None)
    assert await store.runs.finish(second.id, 0, "consensus") is None
    assert (await store.runs.holders(100, 12)).running is None


async def test_a_waiting_run_that_ends_frees_its_place_and_promotes_nobody(store: Store, make_run: MakeRun) -> None:
    first, second, third = make_run(), make_run(), make_run()
    await store.runs.claim(first, "a")
    await store.runs.claim(second, "b")
    assert await store.runs.finish(second.id, 0, "stopped") is None
    assert await store.runs.claim(third, "c") == Waiting(third, behind=first)


async def test_an_older_attempt_writes_nothing(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    old, new = await store.runs.begin_attempt(run.id), await store.runs.begin_attempt(run.id)
    assert (old, new, await store.runs.fence(run.id)) == (1, 2, 2)
    for write in (
        store.runs.record(run.id, old, fingerprint="old"),
        store.runs.set_task(run.id, old, "{}"),
        store.runs.finish(run.id, old, "consensus"),
    ):
        with pytest.raises(LostFence, match=f"attempt 1 at run {run.id} is not the newest any more"):
            await write
    assert await store.runs.state(run.id) == RunState(fence=2)
    assert await store.runs.task(run.id) is None


async def test_an_attempt_records_what_it_knows(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    fence = await store.runs.begin_attempt(run.id)
    await store.runs.record(run.id, fence, check_run_id=81, deaths=2, fingerprint="f")
    assert await store.runs.state(run.id) == RunState(fence=1, check_run_id=81, deaths=2, fingerprint="f")
    await store.runs.record(run.id, fence, check_run_id=None)
    assert (await store.runs.state(run.id)).check_run_id is None
    with pytest.raises(ValueError, match="no field status that is recorded"):
        await store.runs.record(run.id, fence, status="consensus")


async def test_the_first_task_stands(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    assert await store.runs.set_task(run.id, await store.runs.begin_attempt(run.id), '{"a": 1}') == b'{"a": 1}'
    assert await store.runs.set_task(run.id, await store.runs.begin_attempt(run.id), '{"a": 2}') == b'{"a": 1}'
    assert await store.runs.task(run.id) == b'{"a": 1}'


async def test_the_first_reason_to_end_stands(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    assert not await store.runs.cancel(run.id, "stopped")
    await store.runs.claim(run, "a")
    assert await store.runs.cancelled(run.id) is None
    assert await store.runs.cancel(run.id, "superseded")
    assert not await store.runs.cancel(run.id, "stopped")
    assert await store.runs.cancelled(run.id) == "superseded"
    ended = make_run(number=13)
    await store.runs.claim(ended, "a")
    await store.runs.finish(ended.id, 0, "consensus")
    assert not await store.runs.cancel(ended.id, "stopped")


async def test_progress_is_what_was_said_last(store: Store) -> None:
    assert await store.runs.progress("run") is None
    await store.runs.set_progress("run", "one")
    await store.runs.set_progress("run", "two")
    assert await store.runs.progress("run") == "two"


async def test_what_was_seen_is_known_for_its_time_or_for_ever(store: Store, redis: Redis) -> None:
    for name, seconds in (("button", 10), ("comment", None)):
        assert not await store.runs.seen(name, seconds, by="one")
        assert await store.runs.seen(name, seconds, by="another")
        assert not await store.runs.seen(name, seconds, by="one"), "who saw it first may ask again"


async def test_who_saw_it_first_may_not_come_again_after_a_day(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """decisions.md 1.2: a comment is known for ever, also where its own delivery is sent once more much later."""
    monkeypatch.setattr(runs, "AGAIN_SECONDS", -1)
    assert not await store.runs.seen("comment", None, by="one")
    assert await store.runs.seen("comment", None, by="one")


async def test_seen_is_kept_for_its_time(store: Store, redis: Redis) -> None:
    await store.runs.seen("button", 10, by="one")
    await store.runs.seen("comment", None, by="one")
    assert 0 < await redis.ttl(f"{PREFIX}:seen:button") <= 10
    assert await redis.ttl(f"{PREFIX}:seen:comment") == -1


async def test_an_attempt_at_nothing_is_refused(store: Store) -> None:
    with pytest.raises(LookupError, match="There is no run nothing"):
        await store.runs.begin_attempt("nothing")


async def test_every_key_has_the_version_and_ends_with_its_record(
    valkey_url: str, store: Store, make_run: MakeRun, redis: Redis
) -> None:
    short = await Store.connect(valkey_url, keep_days=2)
    run = make_run()
    await short.runs.claim(run, "a")
    fence = await short.runs.begin_attempt(run.id)
    await short.runs.set_task(run.id, fence, "{}")
    await short.runs.set_progress(run.id, "one")
    await short.journal(run.id, fence).put("/0", b"line")
    await short.outbox.put(f"{run.id}/push/0", b"intent")
    await short.runs.finish(run.id, fence, "consensus")
    keys = await redis.keys("*")
    assert all(key.startswith(PREFIX.encode()) for key in keys)
    lives = {key.decode(): await redis.ttl(key) for key in keys}
    del lives[f"{PREFIX}:intents"]  # a counter
    assert all(0 < life <= 2 * 86400 for life in lives.values()), lives
    await short.close()


def test_run_ids_are_short_and_clear() -> None:
    ids = {new_run_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(each) == 8 and set(each) <= set(RUN_ID_ALPHABET) for each in ids)
    assert not set("01ilo") & set(RUN_ID_ALPHABET)


async def test_news_of_a_pull_request_reach_its_runs_until_they_end(store: Store, make_run: MakeRun) -> None:
    running, waiting, elsewhere = make_run(), make_run(), make_run(number=13)
    for number, run in enumerate((running, waiting, elsewhere)):
        await store.runs.claim(run, f"{number}")
    assert await store.runs.tell_news(100, 12) == 2
    assert [(await store.runs.state(run.id)).news for run in (running, waiting, elsewhere)] == [1, 1, 0]
    await store.runs.finish(waiting.id, 0, "stopped")
    assert await store.runs.tell_news(100, 12) == 1
    assert await store.runs.tell_news(100, 99) == 0


async def test_runs_that_wait_for_no_other_belong_into_the_queue_until_they_end(
    store: Store, make_run: MakeRun, redis: Redis
) -> None:
    running, waiting, beside = make_run(), make_run(), make_run(editing=False)
    for number, run in enumerate((running, waiting, beside)):
        await store.runs.claim(run, f"{number}")
    assert set(await store.runs.startable()) == {running.id, beside.id}
    await store.runs.finish(running.id, 0, "consensus")
    assert set(await store.runs.startable()) == {waiting.id, beside.id}
    await redis.delete(f"{PREFIX}:run:{beside.id}")  # its time is over
    assert await store.runs.startable() == (waiting.id,)
    await store.runs.finish(waiting.id, 0, "consensus")
    assert await store.runs.startable() == ()
