"""The two queues and the worker that takes jobs from them: arq, used thinly, with a lease of our own.

It owns how a job gets from one process to another and back into the queue when its worker dies. It decides nothing
about what a job does, and stores nothing but JSON: who can write to the store must not be able to run code (threats.md
T29).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, cast

from arq.connections import ArqRedis
from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix
from arq.jobs import serialize_job
from arq.worker import Retry, Worker, func
from typing_extensions import override

from bot.store.connection import Gate, Script, StoreAway, key, pool
from bot.store.lease import LEASE_SECONDS, Keeper, Lease

EVENTS = "events"
"""The queue of deliveries. A job is called with (delivery id, event name, body)."""
RUNS = "runs"
"""The queue of runs. A job is called with (run id)."""

POLL_SECONDS = 0.05
"""Pause between two looks into a queue, and so the longest that a job waits for a free worker. arq's own is 0.5."""
JOB_SECONDS = 30 * 86400
"""How long a job may wait and run, as far as arq is concerned; the real limits are the run's own."""
DELIVERY_SECONDS = 8 * 86400
"""For so long a delivery is known again. GitHub redelivers for 3 days, its Enterprise Server for 7 (github.md A1)."""
TRIES = 2**31
"""arq's own limit, lifted: every shutdown counts as a try there, and five deploys would end a job (github.md D2)."""
SHUTDOWN_SECONDS = 20
"""How long a stopping worker waits for its jobs to end (threats.md R20)."""
DEAD_KEPT = 1000
"""Ids of unreadable jobs that are kept for people to look at."""

Job: TypeAlias = Callable[..., Awaitable[None]]
"""``async def job(ctx, *arguments)``. ``ctx["lease"]`` is its `Lease`; ``ctx["job_try"]`` counts from 1."""

AGAIN_SECONDS = 0.1
"""Pause until a task that did not end when it was cancelled is cancelled again."""

log = logging.getLogger(__name__)

_ENQUEUE = Script.of("""
-- KEYS: job, queue, counter, seen. ARGV: job id, job, keep ms, seen ms (0: the same job may come again later).
if ARGV[4] ~= '0' and redis.call('exists', KEYS[4]) == 1 then return 0 end
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
redis.call('zadd', KEYS[2], redis.call('incr', KEYS[3]), ARGV[1])
if ARGV[4] ~= '0' then redis.call('set', KEYS[4], 1, 'px', ARGV[4]) end
return 1
""")
"""The score is a number in a row and not the time: the clocks of several machines differ, and no job waits for one."""

_TAKE = Script.of("""
-- KEYS: lease, queue. ARGV: job id, now in ms, token, life in ms. Answers the job's score, or nothing.
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[3] then return false end
local score = redis.call('zscore', KEYS[2], ARGV[1])
if not score or tonumber(score) > tonumber(ARGV[2]) then return false end
redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[4])
return score
""")

_GIVE = Script.of("""
-- KEYS: lease, queue, job, tries, dead. ARGV: job id, token, end, dead or again, milliseconds to wait, dead kept.
if redis.call('get', KEYS[1]) ~= ARGV[2] then return 0 end
redis.call('del', KEYS[1])
if ARGV[3] ~= 'again' then
  redis.call('del', KEYS[3], KEYS[4])
  redis.call('zrem', KEYS[2], ARGV[1])
  if ARGV[3] == 'dead' then
    redis.call('lpush', KEYS[5], ARGV[1])
    redis.call('ltrim', KEYS[5], 0, ARGV[5] - 1)
  end
elseif ARGV[4] ~= '0' then
  redis.call('zincrby', KEYS[2], ARGV[4], ARGV[1])
end
return 1
""")


class TryAgain(Retry):
    """Raised by a job that shall be run again after some seconds. Any other exception ends it for good."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(defer=seconds)


class Queue:
    """Puts jobs into the queues, and makes the workers that take them out."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def enqueue_event(self, delivery_id: str, event_name: str, body: str) -> bool:
        """Hand a delivery to the bot. False where this delivery was handed over before. Raises `StoreAway`."""
        return await self._enqueue(EVENTS, delivery_id, (delivery_id, event_name, body), seen=DELIVERY_SECONDS)

    async def knows(self, delivery_id: str) -> bool:
        """Return whether a delivery was handed over in the last days. Raises `StoreAway`."""
        return bool(await self._gate.do("EXISTS", key("delivery", delivery_id)))

    async def enqueue_run(self, run_id: str) -> bool:
        """Hand a run to a worker. False where it is waiting or being worked at already. Raises `StoreAway`."""
        return await self._enqueue(RUNS, run_id, (run_id,), seen=0)

    def worker(
        self, queue: str, job: Job, *, concurrency: int = 4, context: Mapping[str, Any] | None = None
    ) -> LeasedWorker:
        """Return a worker that calls `job` for what is in a queue. `context` is what jobs find in their ``ctx``."""
        return LeasedWorker(self._gate.url, queue, job=job, concurrency=concurrency, context=dict(context or {}))

    async def _enqueue(self, queue: str, name: str, arguments: tuple[str, ...], *, seen: int) -> bool:
        job_id = _job_id(queue, name)
        raw = serialize_job(queue, arguments, {}, None, int(time.time() * 1000), serializer=_dump)
        keys = (job_key_prefix + job_id, _queue_key(queue), key("jobs"), key("delivery", name))
        return bool(await self._gate.run(_ENQUEUE, keys, job_id, raw, JOB_SECONDS * 1000, seen * 1000))


class LeasedWorker(Worker):
    """arq's worker with a lease that is known by a token, so that a lost one is noticed and never taken for another's.

    It survives restarts of the store, and puts back what it was working at when it is stopped.
    """

    lease_seconds = LEASE_SECONDS

    def __init__(self, url: str, queue: str, *, job: Job, concurrency: int, context: dict[str, Any]) -> None:
        """Open nothing yet. Needs a running event loop."""
        super().__init__(
            [func(cast("Any", _guarded(job)), name=queue)],
            queue_name=_queue_key(queue),
            redis_pool=ArqRedis(pool_or_conn=pool(url), job_serializer=_dump, job_deserializer=_load),
            on_job_start=self._introduce,
            handle_signals=False,
            max_jobs=concurrency,
            job_timeout=JOB_SECONDS,
            keep_result=0,
            poll_delay=POLL_SECONDS,
            max_tries=TRIES,
            ctx=context,
            job_serializer=_dump,
            job_deserializer=_load,
            log_results=False,
        )
        self._url = url
        self._leases: dict[str, Lease] = {}
        self._keeper: Keeper | None = None

    async def serve(self, stop: asyncio.Event) -> None:
        """Take jobs until `stop` is set or this call is cancelled; then put back what was being worked at.

        Jobs at work are cancelled with the reason ``shutdown`` and awaited. A store that is away is waited for; one
        that stays away raises redis' ConnectionError.
        """
        self._keeper = Keeper(self._url, seconds=self.lease_seconds, lost=self._lost)
        self._keeper.start()
        self.main_task = asyncio.create_task(self.main())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({stopped, self.main_task}, return_when=asyncio.FIRST_COMPLETED)
            if self.main_task.done() and not stop.is_set():
                self.main_task.result()
        finally:
            stopped.cancel()
            await self._to_the_end(asyncio.create_task(self._close(self.main_task, self._keeper)))

    async def _close(self, main: asyncio.Task[None], keeper: Keeper) -> None:
        """Put back what was being worked at, and close what was opened."""
        self.allow_pick_jobs = False
        self._cancel_all()
        await self._end(main)
        await self._await_all()
        await keeper.stop()
        await self.pool.aclose(close_connection_pool=True)

    @staticmethod
    async def _to_the_end(closing: asyncio.Task[None]) -> None:
        """Wait for an end that a cancellation must not cut short; raise the cancellation afterwards."""
        cancelled = False
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                cancelled = True
        closing.result()
        if cancelled:
            raise asyncio.CancelledError

    @staticmethod
    async def _end(task: asyncio.Task[None]) -> None:
        """End a task. One cancellation can get lost in the libraries below while it starts (seen with arq 0.28)."""
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=AGAIN_SECONDS)
        with suppress(asyncio.CancelledError):
            task.exception()

    # ---- arq's own steps, with our lease ----------------------------------------------------------------------------

    @override
    async def start_jobs(self, job_ids: list[bytes]) -> None:
        """Start the jobs whose lease can be had."""
        for raw in job_ids:
            job_id = raw.decode()
            # The counter rises before anything is awaited; a job of ours that is ending is not started beside itself.
            if job_id in self.tasks:
                continue
            if self.job_counter >= self.max_jobs:
                return
            lease = Lease(job_id, in_progress_key_prefix + job_id)
            asked = time.monotonic()
            words = (job_id, int(time.time() * 1000), lease.token, int(self.lease_seconds * 1000))
            score = await self._run(_TAKE, (lease.key, self.queue_name), *words)
            if score is None:
                continue
            self.job_counter += 1
            self._leases[job_id] = lease
            if self._keeper is not None:
                self._keeper.hold(lease, asked=asked)
            task = self.loop.create_task(self.run_job(job_id, int(float(score))))
            task.add_done_callback(lambda _, lease=lease: self._ended(lease))  # type: ignore[misc]
            self.tasks[job_id] = task

    @override
    async def finish_job(
        self,
        job_id: str,
        finish: bool,
        result_data: bytes | None,
        result_timeout_s: float | None,
        keep_result_forever: bool,
        incr_score: int | None,
        keep_in_progress: float | None,
    ) -> None:
        """Take a job out of the queue, or put it back, if the lease is still ours."""
        await self._give(job_id, "end" if finish else "again", incr_score or 0)

    @override
    async def finish_failed_job(self, job_id: str, result_data: bytes | None) -> None:
        """Take a job out of the queue that could not be read or is not known, and keep its id for people to see."""
        log.error("job %s cannot be run and was taken out of the queue", job_id)
        await self._give(job_id, "dead", 0)

    async def _give(self, job_id: str, how: str, wait_ms: int) -> None:
        lease = self._leases[job_id]
        keys = (lease.key, self.queue_name, job_key_prefix + job_id, retry_key_prefix + job_id, key("dead"))
        await self._run(_GIVE, keys, job_id, lease.token, how, wait_ms, DEAD_KEPT)

    async def _run(self, script: Script, keys: tuple[str, ...], *words: str | int) -> Any:  # noqa: ANN401 - redis' own
        # EVAL and not EVALSHA: it is short, and a restarted store has forgotten all scripts.
        answer: Any = self.pool.eval(script.source, len(keys), *keys, *map(str, words))
        return await answer

    async def _introduce(self, ctx: dict[Any, Any]) -> None:
        ctx["lease"] = self._leases[ctx["job_id"]]

    def _ended(self, lease: Lease) -> None:
        self.job_counter -= 1
        if self._keeper is not None:
            self._keeper.drop(lease)
        if self._leases.get(lease.job) is lease:
            del self._leases[lease.job]

    def _lost(self, lease: Lease) -> None:
        if self._leases.get(lease.job) is lease:
            log.warning("the lease on job %s is lost: another worker may have taken it up", lease.job)
            self._cancel(lease, "lost-lease")

    async def _await_all(self) -> None:
        """Wait for the jobs at work to end. One that does not is left to its lease, which then runs out."""
        if self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=SHUTDOWN_SECONDS)

    def _cancel_all(self) -> None:
        for lease in list(self._leases.values()):
            self._cancel(lease, "shutdown")

    def _cancel(self, lease: Lease, reason: str) -> None:
        """Cancel a job with a written reason. One that has not begun yet sees the reason when it does."""
        lease.reason = lease.reason or reason
        task = self.job_tasks.get(lease.job)
        if task is not None:
            task.cancel()


def _guarded(job: Job) -> Callable[..., Awaitable[None]]:
    async def guarded(ctx: dict[Any, Any], *arguments: Any) -> None:  # noqa: ANN401 - whatever the job takes
        if ctx["lease"].reason is not None:
            raise asyncio.CancelledError(ctx["lease"].reason)
        try:
            await job(ctx, *arguments)
        except StoreAway as away:
            raise TryAgain(1.0) from away

    return guarded


def _queue_key(queue: str) -> str:
    return key("queue", queue)


def _job_id(queue: str, name: str) -> str:
    # arq's keys have its own prefix and are shared by all queues: the id carries ours.
    return key(queue, name)


def _dump(job: dict[str, Any]) -> bytes:
    return json.dumps(job, default=_plain).encode()


def _plain(value: object) -> str:
    # arq serialises the result of a job that could not be read, although no result is kept.
    if isinstance(value, BaseException):
        return repr(value)
    raise TypeError(f"{type(value).__name__} cannot be a job's argument")


def _load(raw: bytes) -> dict[str, Any]:
    job = json.loads(raw)
    if not isinstance(job, dict) or not isinstance(job.get("a"), list) or job.get("k") != {}:
        raise ValueError("what stands in the queue is not a job of ours")
    return job
