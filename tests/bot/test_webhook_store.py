"""Inputs 27 to 30, 34 and 35 of threats.md 2.A: what comes twice, too often or to no purpose, and a store that is away.

Through the real receiver to a real store, and through the event worker to a stand-in of GitHub where runs are counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError  # noqa: A004 - redis names it so

from bot import app
from bot.store import Store, connection
from bot.store.connection import PREFIX, Gate
from bot.store.queue import Queue
from deploy.store import EmbeddedStore

ACCEPTED = (202, "Accepted.")
REPETITION = (202, "Accepted: a repetition.")
NOTHING = (202, "Accepted: nothing to do.")
AWAY = (503, "The store is away; deliver it again later.")
QUEUE = f"{PREFIX}:queue:events"


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Redis]:
    """Return a connection that outlives restarts."""
    redis = Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 100), retry_on_error=[ConnectionError, OSError])
    yield redis
    await redis.aclose()


async def queued(redis: Redis) -> list[str]:
    """Return the ids of the deliveries in the queue."""
    return [name.decode().rpartition(":")[2] for name in await redis.zrange(QUEUE, 0, -1)]


# ---- With the event worker ------------------------------------------------------------------------------------------


async def handled(receiver: Any, count: int) -> None:
    """Return when the event worker has handled so many events."""
    while True:
        answer = await receiver.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        lines = answer.decode().splitlines()
        if sum(float(line.split()[-1]) for line in lines if line.startswith("codex_debate_events_total{")) >= count:
            return
        await asyncio.sleep(0.02)


async def runs(world: Any) -> list[str]:
    """Return the runs that hold the pull request: the one at work, the one that waits."""
    held = await world.store.runs.holders(world.repo.id, world.number)
    return [run.id for run in (held.running, held.waiting) if run is not None]


async def command(world: Any) -> Any:
    """Return the delivery of a comment with a command, which was taken."""
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    assert world.standin.deliveries[-1].status == 202
    return world.standin.deliveries[-1]


@pytest.mark.threat(27)
async def test_input_27_the_same_delivery_twice(world: Any, served: Any) -> None:
    first = await command(world)
    await handled(served, 1)
    headers = {"X_GitHub_Delivery": first.guid, "X_GitHub_Event": first.event}
    assert await served.post(first.body, **headers) == REPETITION
    assert await served.post(first.body, **{**headers, "X_GitHub_Delivery": first.guid.upper()}) == REPETITION
    assert len(await runs(world)) == 1


def opening(world: Any) -> dict[str, Any]:
    """Return the payload with which the pull request was opened."""
    payload: dict[str, Any] = next(each.payload for each in world.standin.deliveries if each.event == "pull_request")
    return payload


@pytest.mark.threat("T2", 28)
@pytest.mark.parametrize("event", ["issue_comment", "pull_request"])
async def test_replay_new_delivery_id(world: Any, served: Any, event: str) -> None:
    """The id is not signed: what a body means is known again under another one."""
    if event == "issue_comment":
        body = (await command(world)).body
    else:
        await world.configure("auto: {on: [opened]}\n")
        body = json.dumps(opening(world)).encode()
        assert await served.post(body, X_GitHub_Event=event) == ACCEPTED
    await handled(served, 1)
    for _ in range(3):
        assert await served.post(body, X_GitHub_Event=event) == ACCEPTED
    await handled(served, 4)
    assert len(await runs(world)) == 1
    assert len(world.standin.check_runs(world.repo)) == 1
    assert world.replies() == []


@pytest.mark.threat("T2", 29, 34)
@pytest.mark.parametrize(
    ("signed", "event"),
    [
        *(("issue_comment", other) for other in ("pull_request", "installation", "check_suite", "star")),
        *(("pull_request", other) for other in ("issue_comment", "installation", "pull_request_review", "star")),
    ],
)
async def test_event_header_swap(world: Any, served: Any, valkey_url: str, *, signed: str, event: str) -> None:
    """The event's name is not signed: a body that is not of its shape is nothing."""
    await world.configure("auto: {on: [opened]}\n")
    world.standin.webhook_url = None
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    body = world.standin.deliveries[-1].body if signed == "issue_comment" else json.dumps(opening(world)).encode()
    assert await served.post(body, X_GitHub_Event=event) == NOTHING
    async with bare(valkey_url) as redis:
        assert await queued(redis) == []
    assert await runs(world) == []
    assert await served.post(body, X_GitHub_Event=signed) == ACCEPTED
    await handled(served, 1)
    assert len(await runs(world)) == 1, "under its own name it is something"


@pytest.mark.threat(34, 40)
@pytest.mark.parametrize("action", ["edited", "deleted", "pinned", "unheard_of"])
async def test_input_34_another_action_of_a_comment(world: Any, served: Any, action: str) -> None:
    world.standin.webhook_url = None
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload | {"action": action}
    assert await served.post(json.dumps(payload).encode()) == NOTHING
    assert await runs(world) == []


@pytest.mark.threat(34)
async def test_input_34_an_unknown_action_of_a_pull_request(world: Any, served: Any) -> None:
    raw = json.dumps(opening(world) | {"action": "unheard_of"}).encode()
    assert await served.post(raw, X_GitHub_Event="pull_request") == ACCEPTED
    await handled(served, 1)
    assert await runs(world) == []
    assert world.replies() == []


@pytest.mark.threat("T33", 35)
async def test_flood_coalesces(world: Any, served: Any) -> None:
    """10,000 of them, with their memory, are in tests/bench/bench_receiver.py."""
    count = 24  # the bot may write 80 times a minute to GitHub, and answers every one
    await world.configure("auto: {on: [opened, reopened]}\n")

    async def happens(n: int) -> None:
        payload = opening(world) | {"action": ("opened", "reopened")[n % 2]}
        payload["pull_request"] = payload["pull_request"] | {"updated_at": f"2026-01-01T00:00:{n:02}Z"}
        assert await served.post(json.dumps(payload).encode(), X_GitHub_Event="pull_request") == ACCEPTED
        await world.standin.comment(world.repo, world.number, f"/codex-debate --max-rounds {n % 5 + 1}", login="mona")

    await asyncio.gather(*map(happens, range(count)))
    await handled(served, 2 * count)
    assert len(await runs(world)) == 2
    assert len(world.standin.check_runs(world.repo)) == 2


# ---- A store that is away -------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up early on a store, so that no test waits."""
    monkeypatch.setattr(connection, "PATIENCE", 0.3)


@pytest.mark.threat(30, "R2")
async def test_input_30_a_delivery_that_could_not_be_stored_is_taken_later(
    serve: Any, impatient: None, tmp_path: Path
) -> None:
    delivery = str(uuid.uuid4())
    async with EmbeddedStore(tmp_path) as url:
        store = await Store.connect(url)
    async with serve(store.queue) as receiver:
        assert await receiver.post(X_GitHub_Delivery=delivery) == AWAY
        async with EmbeddedStore(tmp_path):
            assert await receiver.post(X_GitHub_Delivery=delivery) == ACCEPTED
            assert await receiver.post(X_GitHub_Delivery=delivery) == REPETITION
    await store.close()


@pytest.mark.threat("R15")
@pytest.mark.parametrize(
    ("spoil", "mend"),
    [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ],
    ids=["full", "read-only", "without its replica"],
)
async def test_a_store_that_takes_no_writes(serve: Any, impatient: None, tmp_path: Path, spoil: str, mend: str) -> None:
    delivery = str(uuid.uuid4())
    async with EmbeddedStore(tmp_path) as url, bare(url) as redis:
        store = await Store.connect(url)
        async with serve(store.queue) as receiver:
            await redis.execute_command(*spoil.split())  # type: ignore[no-untyped-call]
            assert await receiver.post(X_GitHub_Delivery=delivery) == AWAY
            assert await receiver.post(X_GitHub_Delivery=delivery) == AWAY
            await redis.execute_command(*mend.split())  # type: ignore[no-untyped-call]
            assert await queued(redis) == []
            assert await receiver.post(X_GitHub_Delivery=delivery) == ACCEPTED
            assert await queued(redis) == [delivery]
        await store.close()


async def test_a_store_that_is_loading(serve: Any, impatient: None, tmp_path: Path) -> None:
    """A store that reads its log says so to every command, for as long as that takes."""

    async def loading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(b"-LOADING the dataset is being read into memory\r\n")
        writer.close()

    server = await asyncio.start_unix_server(loading, tmp_path / "s")
    gate = Gate(f"unix://{tmp_path}/s", keep_seconds=60)
    async with serve(Queue(gate)) as receiver:
        assert await receiver.post() == AWAY
    await gate.close()
    server.close()


@pytest.mark.parametrize("limit", ["the store's", "the answer's"])
async def test_a_store_that_hangs(serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str) -> None:
    """A stopped process takes connections and commands, and answers nothing; going on, it does what it was sent."""
    if limit == "the store's":
        monkeypatch.setattr(connection, "PATIENCE", 0.3)
    else:
        monkeypatch.setattr(app, "ANSWER_SECONDS", 0.3)
        monkeypatch.setattr(connection, "PATIENCE", 1000.0)
    deliveries = [str(uuid.uuid4()) for _ in range(100)]
    async with EmbeddedStore(tmp_path) as url, bare(url) as redis:
        store = await Store.connect(url)
        process = int((await redis.info("server"))["process_id"])
        async with serve(store.queue) as receiver:
            assert await receiver.post(X_GitHub_Delivery=deliveries[0]) == ACCEPTED
            os.kill(process, signal.SIGSTOP)
            try:
                answers = await asyncio.gather(*(receiver.post(X_GitHub_Delivery=each) for each in deliveries))
            finally:
                os.kill(process, signal.SIGCONT)
            assert set(answers) == {AWAY}
            again = [await receiver.post(X_GitHub_Delivery=each) for each in deliveries]
            assert {status for status, _ in again} == {202}
            assert again[0] == REPETITION
        assert sorted(await queued(redis)) == sorted(deliveries)
        await store.close()


async def test_a_delivery_is_remembered_and_queued_or_neither(serve: Any, impatient: None, tmp_path: Path) -> None:
    """The store is killed in the middle, again and again; GitHub's part is to deliver again what was not accepted."""
    waiting = {str(uuid.uuid4()) for _ in range(100)}
    everything, answers = sorted(waiting), []
    async with EmbeddedStore(tmp_path) as url, bare(url) as redis:
        store = await Store.connect(url)
        async with serve(store.queue) as receiver:

            async def deliver(delivery: str) -> None:
                answer = await receiver.post(X_GitHub_Delivery=delivery)
                answers.append(answer)
                if answer != AWAY:
                    waiting.discard(delivery)

            for _ in range(3):
                process = int((await redis.info("server"))["process_id"])
                sent = asyncio.gather(*(deliver(each) for each in list(waiting)[:40]))
                await asyncio.sleep(0.02)
                os.kill(process, signal.SIGKILL)
                await sent
                seen = [key.decode().rpartition(":")[2] for key in await redis.keys(f"{PREFIX}:delivery:*")]
                jobs = [key.decode().rpartition(":")[2] for key in await redis.keys("arq:job:*")]
                assert sorted(seen) == sorted(jobs) == sorted(await queued(redis))
            while waiting:
                await asyncio.gather(*(deliver(each) for each in list(waiting)))
        assert sorted(await queued(redis)) == everything
        assert {status for status, _ in answers} <= {202, 503}
        await store.close()
