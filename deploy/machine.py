"""The whole pipeline on one machine: an embedded store, the stand-in GitHub, the real bot and the real worker.

It composes and tears down, for `codex-debate try` and for tests. It decides nothing about a debate, and reaches nothing
but 127.0.0.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.main import run_bot
from bot.settings import Settings, local_settings
from bot.store import Store
from deploy.standin import StandIn
from deploy.store import EmbeddedStore
from worker.main import run_worker

OWNER = "you"
"""The account that owns the repositories of a machine, and that may command there."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A running pipeline."""

    github: StandIn
    store: Store
    settings: Settings


@asynccontextmanager
async def machine(
    folder: Path,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    **over: Any,  # noqa: ANN401 - any setting
) -> AsyncIterator[Machine]:
    """Run the pipeline below a folder. `over` are settings that stand before those of the environment.

    `sleep` waits between the attempts of a turn.

    Raises `SettingsError`, `deploy.store.StoreFailed`, OSError, and whatever ended the bot or the worker.
    """
    async with EmbeddedStore(folder / "store") as url, await StandIn.start(folder / "github") as github:
        github.create_user(OWNER)
        settings = local_settings(**_settings(folder, url, github) | over)
        store = await Store.connect(url)
        try:
            async with _running(settings, store, github, sleep):
                yield Machine(github, store, settings)
        finally:
            await store.close()


@asynccontextmanager
async def _running(
    settings: Settings, store: Store, github: StandIn, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    """Run the bot and the worker until the body ends; what ends one of them early ends the body."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_bot(settings, store, stop=stop, ready=listening.set_result))
        group.create_task(run_worker(settings, store, stop=stop, sleep=sleep))
        github.webhook_url = f"http://127.0.0.1:{await listening}/webhook"
        try:
            yield
        finally:
            stop.set()


def _settings(folder: Path, url: str, github: StandIn) -> dict[str, Any]:
    return {
        "github_app_id": github.app_id,
        "github_app_private_key": github.app_private_key,
        "github_webhook_secret": github.webhook_secret,
        "github_api_url": github.api_url,
        "github_server_url": github.server_url,
        "redis_url": url,
        "host": "127.0.0.1",
        "port": 0,
        "state_dir": folder / "state",
        "allow": ("*",),
    }
