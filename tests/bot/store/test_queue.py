"""The queues: a job is done by one worker at a time, and by another one when its worker dies."""

from __future__ import annotations

import asyncio
import os
import pickle  # noqa: TID251 - the test shows that it is not read
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError  # noqa: A004 - redis names it so

from bot.store import EVENTS, RUNS, LeasedWorker, Store, StoreAway, TryAgain
from bot.store.connection import PREFIX
from bot.store.lease import LEASE_SECONDS, Keeper, Lease
from bot.store.queue import Job

ROOT = Path(__file__).parents[3]
QUEUE = f"{PREFIX}:queue:runs"
LEASE = f"arq:in-progress:{PREFIX}:runs:"

Context = dict[str, Any]


@asynccontextmanager
async def working(store: Store, queue: str, job: Job, **options: Any) -> AsyncIterator[LeasedWorker]:
    worker = store.queue.worker(queue, job, **options)
    stop = asyncio.Event()
    serving = asyncio.create_task(worker.serve(stop))
    try:
        yield worker
    finally:
        stop.set()
        await serving


async def emptied(redis: Redis, queue: str = QUEUE) -> None:
    while await redis.zcard(queue):
        await asyncio.sleep(0.01)


async def test_a_delivery_reaches_the_bot_as_it_came_and_once(store: Store, redis: Redis) -> None:
    body = '{"text": "\\ud83d\\ude00 \\u0000", "quote": "\'"}'
    got: list[tuple[str, ...]] = []

    async def job(ctx: Context, *arguments: str) -> None:
        got.append(arguments)

    assert await store.queue.enqueue_event("guid-1", "issue_comment", body)
    assert not await store.queue.enqueue_event("guid-1", "issue_comment", body)
    async with working(store, EVENTS, job):
        await emptied(redis, f"{PREFIX}:queue:events")
        assert not await store.queue.enqueue_event("guid-1", "issue_comment", body)
        assert await store.queue.enqueue_event("guid-2", "ping", "{}")
        await emptied(redis, f"{PREFIX}:queue:events")
    assert got == [("guid-1", "issue_comment", body), ("guid-2", "ping", "{}")]


async def test_a_run_is_enqueued_once_until_its_job_has_ended(store: Store, redis: Redis) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        runs.append(run_id)
        begun.set()
        await let_go.wait()

    assert await store.queue.enqueue_run("a")
    assert not await store.queue.enqueue_run("a")
    async with working(store, RUNS, job):
        await begun.wait()
        assert not await store.queue.enqueue_run("a")
        let_go.set()
        await emptied(redis)
        assert await store.queue.enqueue_run("a")
        await emptied(redis)
    assert runs == ["a", "a"]


@pytest.mark.parametrize("allowed", [1, 2])
async def test_jobs_are_taken_in_their_order_and_not_more_at_once_than_allowed(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    taken: list[str] = []
    begun: list[str] = []
    at_work = most = 0
    hold = Keeper.hold

    def held(keeper: Keeper, lease: Lease, *, asked: float) -> None:
        taken.append(lease.job)
        hold(keeper, lease, asked=asked)

    async def job(ctx: Context, run_id: str) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        begun.append(run_id)
        await asyncio.sleep(0)
        at_work -= 1

    monkeypatch.setattr(Keeper, "hold", held)
    names = [f"run{n}" for n in (3, 1, 2, 9, 5)]
    for name in names:
        await store.queue.enqueue_run(name)
    async with working(store, RUNS, job, concurrency=allowed):
        await emptied(redis)
    assert [name.rpartition(":")[2] for name in taken] == names
    assert most <= allowed
    # Of two that were taken, each reads its arguments before it begins: one may pass the other.
    assert sorted(begun) == sorted(names)
    assert allowed > 1 or begun == names


async def test_many_jobs_and_three_workers_do_each_job_once(store: Store, redis: Redis) -> None:
    done: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        await asyncio.sleep(0)
        done.append(run_id)

    names = [f"run{n}" for n in range(60)]
    for name in names:
        await store.queue.enqueue_run(name)
    async with working(store, RUNS, job), working(store, RUNS, job), working(store, RUNS, job):
        await emptied(redis)
    assert sorted(done) == sorted(names)


async def test_a_job_finds_the_context_and_its_lease(store: Store, redis: Redis) -> None:
    seen: list[Context] = []

    async def job(ctx: Context, run_id: str) -> None:
        seen.append(ctx)
        assert await redis.get(LEASE + run_id) == ctx["lease"].token.encode()
        assert 0 < await redis.pttl(LEASE + run_id) <= LEASE_SECONDS * 1000

    await store.queue.enqueue_run("a")
    async with working(store, RUNS, job, context={"settings": "these"}):
        await emptied(redis)
    assert [(ctx["settings"], ctx["job_try"], ctx["lease"].reason) for ctx in seen] == [("these", 1, None)]
    assert LEASE_SECONDS == 6
    assert not await redis.exists(LEASE + "a")


@pytest.mark.threat("T29")
async def test_pickle_job_rejected(store: Store, redis: Redis, tmp_path: Path) -> None:
    """Whoever can write to the store must not be able to run code."""
    marker = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {marker}",)

    done: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        done.append(run_id)

    hostile = {
        "pickle": pickle.dumps({"t": 1, "f": RUNS, "a": (Trap(),), "k": {}, "et": 1}),
        "list": b"[]",
        "keywords": b'{"t": 1, "f": "runs", "a": [], "k": {"run_id": "x"}, "et": 1}',
        "another function": b'{"t": 1, "f": "os.system", "a": ["touch x"], "k": {}, "et": 1}',
    }
    for name, raw in hostile.items():
        await redis.set(f"arq:job:{name}", raw)
        await redis.zadd(QUEUE, {name: 1})
    await store.queue.enqueue_run("good")
    async with working(store, RUNS, job):
        await emptied(redis)
    assert done == ["good"]
    assert not marker.exists()
    dead = await redis.execute_command("LRANGE", f"{PREFIX}:dead", 0, -1)  # type: ignore[no-untyped-call]
    assert {name.decode() for name in dead} == set(hostile)
    assert not await redis.keys("arq:job:*")
    assert not await redis.keys("arq:in-progress:*")


@pytest.mark.parametrize("trouble", [TryAgain(), TryAgain(0.05), StoreAway("away")], ids=["at once", "later", "store"])
async def test_a_job_that_asks_for_it_is_run_again(store: Store, redis: Redis, trouble: Exception) -> None:
    tries: list[int] = []

    async def job(ctx: Context, run_id: str) -> None:
        tries.append(ctx["job_try"])
        if len(tries) < 3:
            raise trouble

    await store.queue.enqueue_run("a")
    async with working(store, RUNS, job):
        await emptied(redis)
    assert tries == [1, 2, 3]


async def test_a_job_that_fails_is_over_and_the_worker_goes_on(store: Store, redis: Redis) -> None:
    done: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        done.append(run_id)
        if run_id == "bad":
            raise ValueError(run_id)

    await store.queue.enqueue_run("bad")
    await store.queue.enqueue_run("good")
    async with working(store, RUNS, job):
        await emptied(redis)
    assert done == ["bad", "good"]


@pytest.mark.threat("R20")
async def test_a_stopped_worker_puts_its_job_back_with_a_written_reason(store: Store, redis: Redis) -> None:
    begun = asyncio.Event()
    reasons: list[str | None] = []

    async def job(ctx: Context, run_id: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(ctx["lease"].reason)

    await store.queue.enqueue_run("a")
    for _ in range(7):  # arq's own limit is five tries
        begun.clear()
        async with working(store, RUNS, job):
            await begun.wait()
        assert not await redis.exists(LEASE + "a")
        assert await redis.zcard(QUEUE) == 1
    assert reasons == ["shutdown"] * 7


async def test_serve_that_is_cancelled_puts_back_too(store: Store, redis: Redis) -> None:
    begun = asyncio.Event()

    async def job(ctx: Context, run_id: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    await store.queue.enqueue_run("a")
    serving = asyncio.create_task(store.queue.worker(RUNS, job).serve(asyncio.Event()))
    await begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not await redis.exists(LEASE + "a")
    assert await redis.zcard(QUEUE) == 1


@pytest.mark.threat("R3")
@pytest.mark.parametrize("how", ["taken", "gone"])
async def test_a_lost_lease_cancels_its_job_and_leaves_the_others_alone(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(LeasedWorker, "lease_seconds", 0.5)
    begun, ended = asyncio.Event(), asyncio.Event()
    reasons: list[str | None] = []

    async def job(ctx: Context, run_id: str) -> None:
        if run_id == "other" or reasons:
            return
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(ctx["lease"].reason)
            ended.set()

    await store.queue.enqueue_run("a")
    async with working(store, RUNS, job):
        await begun.wait()
        if how == "taken":
            await redis.set(LEASE + "a", "another worker's token")
        else:
            await redis.delete(LEASE + "a")
        await ended.wait()
        await store.queue.enqueue_run("other")
        while await redis.zscore(QUEUE, f"{PREFIX}:runs:other") is not None:
            await asyncio.sleep(0.01)
        if how == "taken":
            assert await redis.get(LEASE + "a") == b"another worker's token"
            assert await redis.zcard(QUEUE) == 1
        else:
            await emptied(redis)
    assert reasons == ["lost-lease"]


async def test_a_busy_loop_keeps_its_lease(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeasedWorker, "lease_seconds", 0.5)
    calls: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        calls.append(ctx["lease"].token)
        time.sleep(1.2)  # noqa: ASYNC251 - that the loop hangs for longer than the lease lasts is the point

    await store.queue.enqueue_run("a")
    async with working(store, RUNS, job):
        await emptied(redis)
    assert len(calls) == 1


@pytest.mark.threat("R2")
async def test_a_restart_of_the_store_loses_no_job_and_doubles_none(own_server: str) -> None:
    store = await Store.connect(own_server)
    redis = Redis.from_url(own_server, retry=Retry(ConstantBackoff(0.05), 50), retry_on_error=[ConnectionError])
    begun, let_go = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    async def job(ctx: Context, run_id: str) -> None:
        calls.append(run_id)
        begun.set()
        await let_go.wait()

    await store.queue.enqueue_run("a")
    async with working(store, RUNS, job):
        await begun.wait()
        for n in range(3):
            os.kill(int((await redis.info("server"))["process_id"]), signal.SIGKILL)
            await store.queue.enqueue_run(f"b{n}")
            await store.health.lacks()
        let_go.set()
        await emptied(redis)
    assert sorted(calls) == ["a", "b0", "b1", "b2"]
    await redis.aclose()
    await store.close()


KILLED = """
import asyncio, sys
from bot.store import LeasedWorker, RUNS, Store

LeasedWorker.lease_seconds = float(sys.argv[2])

async def job(ctx, run_id):
    print("begun", flush=True)
    await asyncio.Event().wait()

async def main():
    store = await Store.connect(sys.argv[1])
    await store.queue.worker(RUNS, job).serve(asyncio.Event())

asyncio.run(main())
"""


@pytest.mark.threat("R1")
async def test_a_killed_workers_run_is_taken_up_by_another(
    store: Store, redis: Redis, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeasedWorker, "lease_seconds", 1.0)
    await store.queue.enqueue_run("a")
    dying = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, valkey_url, "1.0", cwd=ROOT, stdout=subprocess.PIPE
    )
    assert dying.stdout is not None
    assert await dying.stdout.readline() == b"begun\n"
    tries: list[int] = []

    async def job(ctx: Context, run_id: str) -> None:
        tries.append(ctx["job_try"])

    async with working(store, RUNS, job):
        # While its worker lives, the run is nobody else's, for longer than a lease that is not renewed would last.
        await asyncio.sleep(1.5)
        assert tries == []
        dying.kill()
        await dying.wait()
        await emptied(redis)
    assert tries == [2]
