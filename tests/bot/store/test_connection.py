"""What the store says when it is away, refuses, or would lose what it is given."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.store import Store, StoreAway, StoreRefused
from bot.store import connection as module
from bot.store.connection import Script, place
from deploy.store import EmbeddedStore


async def set_up(url: str, **config: str) -> None:
    redis = Redis.from_url(url)
    for name, value in config.items():
        await redis.config_set(name.replace("_", "-"), value)
    await redis.aclose()


async def test_a_store_that_is_not_there_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with pytest.raises(StoreAway, match="The store does not answer"):
        await Store.connect(f"unix://{tmp_path}/nothing.sock")


@pytest.mark.threat("R3")
async def test_an_outage_surfaces_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    async with EmbeddedStore(tmp_path) as url:
        store = await Store.connect(url)
        assert not await store.runs.seen("first", None, by="a")
    with pytest.raises(StoreAway):
        await store.runs.seen("second", None, by="a")
    async with EmbeddedStore(tmp_path):
        monkeypatch.setattr(module, "PATIENCE", 5.0)
        assert await store.runs.seen("first", None, by="b")
        await store.close()


@pytest.mark.threat("R2")
async def test_a_restart_is_waited_out(own_server: str) -> None:
    store = await Store.connect(own_server)
    redis = Redis.from_url(own_server)
    os.kill(int((await redis.info("server"))["process_id"]), signal.SIGKILL)
    await redis.aclose()
    seen = await asyncio.gather(*(store.runs.seen(f"delivery {n}", None, by="a") for n in range(20)))
    assert not any(seen)
    await store.close()


async def test_a_store_that_takes_no_writes_is_away(own_server: str) -> None:
    store = await Store.connect(own_server)
    await set_up(own_server, maxmemory="1")
    with pytest.raises(StoreAway, match="The store takes no writes at present: command not allowed"):
        await store.runs.set_progress("run", "x" * 100)
    await store.close()


@pytest.mark.threat("R29")
@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_store_that_evicts_is_refused_with_the_repair(own_server: str, policy: str) -> None:
    await set_up(own_server, maxmemory_policy=policy)
    with pytest.raises(StoreRefused, match=rf"\(maxmemory-policy {policy}\).*Set `maxmemory-policy noeviction` there"):
        await Store.connect(own_server)


async def test_a_wrong_password_is_refused_and_not_repeated(own_server: str) -> None:
    await set_up(own_server, requirepass="tide-tables")
    with pytest.raises(StoreRefused, match="does not accept the user or password in `REDIS_URL`") as refused:
        await Store.connect(f"{own_server}?password=ebb-tables")
    assert "ebb" not in str(refused.value)
    store = await Store.connect(f"{own_server}?password=tide-tables")
    await store.health.lacks()
    await store.close()


async def test_a_script_is_known_to_a_store_that_forgot_it(store: Store) -> None:
    gate = store._gate
    script = Script.of("return {KEYS[1], ARGV[1]}")
    assert await gate.run(script, ["a"], 1) == [b"a", b"1"]
    await gate.do("SCRIPT", "FLUSH")
    assert await gate.run(script, ["b"], 2) == [b"b", b"2"]


def test_a_place_has_no_password() -> None:
    assert place("redis://user:secret@store.example:6380/3") == "store.example:6380"
    assert place("rediss://:secret@store.example") == "store.example:6379"
    assert place("unix:///run/store.sock?password=secret") == "/run/store.sock"


async def test_a_cancellation_is_never_lost_in_a_command(store: Store) -> None:
    """A job that is told to stop must stop, also where that comes in the middle of a command."""

    async def forever() -> None:
        while True:
            await store.health.lacks()

    for steps in range(60):
        task = asyncio.create_task(forever())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled(), f"lost after {steps} steps of the loop"
