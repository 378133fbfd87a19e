"""The bot as one process, from a signed webhook over the wire to a run in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from bot.main import run_bot
from bot.settings import Settings
from bot.store import Store, StoreAway
from bot.telemetry import Metrics


async def until(condition: Callable[[], Any]) -> None:
    """Return when something has come to be; the test's own limit ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def running(settings: Settings, store: Store) -> AsyncIterator[int]:
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(run_bot(settings, store, stop=stop, ready=port.set_result))
    await asyncio.wait({task, port}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield port.result()
    finally:
        stop.set()
        await task


async def test_a_comment_becomes_a_run(world: Any) -> None:
    async with running(world.bot.settings, world.store) as port:
        world.standin.webhook_url = f"http://127.0.0.1:{port}/webhook"
        comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
        assert world.standin.deliveries[-1].status == 202
        await until(lambda: world.standin.check_runs(world.repo))
        await until(lambda: world.reactions(comment) == ["eyes"])
        guid = world.standin.deliveries[-1].guid
        assert (await world.standin.redeliver(guid)).attempts[-1].answer == "Accepted: a repetition.\n"
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 200
    held = await world.store.runs.holders(world.repo.id, world.number)
    assert held.running is not None
    assert len(world.standin.check_runs(world.repo)) == 1


async def test_a_port_that_is_taken_ends_it(world: Any) -> None:
    async with running(world.bot.settings, world.store) as port:
        settings = Settings.model_validate({**world.bot.settings.model_dump(), "port": port})
        with pytest.raises(OSError, match="in use"):
            await run_bot(settings, world.store, stop=asyncio.Event())


async def test_a_secret_that_is_too_short_ends_it(world: Any) -> None:
    settings = world.bot.settings.model_copy(update={"github_webhook_secret": Settings().github_webhook_secret})
    with pytest.raises(ValueError, match="32 characters"):
        await run_bot(settings, world.store, stop=asyncio.Event())


async def test_a_store_that_is_away_is_named(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> tuple[str, ...]:
        raise StoreAway("away")

    async with running(world.bot.settings, world.store) as port, aiohttp.ClientSession() as session:
        monkeypatch.setattr(world.store.health, "lacks", away)
        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 503
            assert "The store does not answer." in await response.text()


@pytest.mark.threat("T35")
async def test_what_a_worker_lacks_is_named(world: Any) -> None:
    """A worker without isolation does not hide it."""
    await world.store.health.report("worker", ("Isolation is missing: user namespaces are off.",))
    async with (
        running(world.bot.settings, world.store) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/healthz") as response,
    ):
        assert response.status == 503
        assert await response.text() == "Isolation is missing: user namespaces are off.\n"


def test_each_bot_counts_for_itself() -> None:
    assert Metrics().registry is not Metrics().registry
