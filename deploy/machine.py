"""The whole pipeline on one machine: an embedded store, the stand-in GitHub, the real bot and the real worker.

It composes and tears down, for `codex-debate try` and for tests. It decides nothing about a debate, and reaches nothing
but 127.0.0.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bot.main import run_bot
from bot.settings import Settings, local_settings
from bot.store import Store
from deploy.pricing import prices
from deploy.standin import StandIn
from deploy.store import EmbeddedStore
from worker.main import Supplies, run_worker

STATE = "state"
"""The state folder's name below a machine's."""
OWNER = "you"
"""The account that owns the repositories of a machine, and that may command there."""


Working = Callable[..., Coroutine[Any, Any, None]]
"""Runs the worker until the event `stop` is set."""


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
    supplies: Supplies | None = None,
    **over: Any,  # noqa: ANN401 - any setting
) -> AsyncIterator[Machine]:
    """Run the pipeline below a folder. `over` are settings that stand before those of the environment.

    `sleep` waits between the attempts of a turn; `supplies` are the worker's, if they are not to be made for it.

    Raises `SettingsError`, `deploy.store.StoreFailed`, OSError, and whatever ended the bot or the worker.
    """
    async with EmbeddedStore(folder / "store") as url, await StandIn.start(folder / "github") as github:
        github.create_user(OWNER)
        settings = local_settings(**_settings(folder, url, github) | over)
        store = await Store.connect(url)
        try:
            working = partial(run_worker, settings, store, supplies or Supplies(prices(folder)), sleep=sleep)
            async with _running(settings, store, github, working):
                yield Machine(github, store, settings)
        finally:
            await store.close()


@asynccontextmanager
async def _running(settings: Settings, store: Store, github: StandIn, working: Working) -> AsyncIterator[None]:
    """Run the bot and the worker until the body ends; what ends one of them early ends the body."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_bot(settings, store, stop=stop, ready=listening.set_result))
        group.create_task(working(stop=stop))
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
        "state_dir": folder / STATE,
        "allow": ("*",),
    }
