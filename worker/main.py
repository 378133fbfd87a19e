"""The worker as one process: it takes runs from the queue `runs` and debates them.

It composes and starts; what happens in between is the other modules'.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.github import WORKERS_WRITES, AppClient, open_session
from bot.settings import Settings, SettingsError
from bot.store import RUNS, Store, StoreAway
from bot.telemetry import log
from worker import agents
from worker.attempt import Office
from worker.folder import MAKE_ROOM, lack_of_room
from worker.gateway import Gateway, upstreams
from worker.git import installed
from worker.git.mirror import Mirrors
from worker.job import debate
from worker.prices import Prices
from worker.quarters import Programs, Quarters
from worker.reconcile import Reconciler
from worker.unwalled import isolation_of


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a worker is handed by who starts it."""

    prices: Prices
    """What models cost."""
    tools: Path | None = None
    """Where pinned programs are kept; below the state folder, if nowhere else."""


REPORT_SECONDS = 60.0
"""Between two reports of what this worker lacks, and so the longest that a repair stays unseen."""


async def run_worker(
    settings: Settings,
    store: Store,
    supplies: Supplies,
    *,
    stop: asyncio.Event,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Debate runs until `stop` is set; what is under way then goes back into the queue.

    `sleep` waits between the attempts of a turn. Raises `SettingsError` without git, redis' ConnectionError where the
    store stayed away, and OSError where the state folder cannot be made.
    """
    if not installed():
        raise SettingsError(("git is not installed, or not on the PATH: install it, then start the worker again.",))
    # The sandbox's user reads what this process writes for it; what is private is made so by name.
    os.umask(0o022)
    state = settings.state_dir
    await asyncio.to_thread(state.mkdir, mode=0o711, parents=True, exist_ok=True)
    async with open_session(settings.github_api_url) as session, _quarters(settings, store, supplies) as quarters:
        app = AppClient(settings, session, pacer=store.pace, writes=WORKERS_WRITES)
        office = Office(settings, store, app, Mirrors(state / "mirrors"), quarters, sleep=sleep)
        worker = store.queue.worker(RUNS, take_run, concurrency=settings.concurrency, context={"office": office})
        log(__name__).info("worker started", concurrency=settings.concurrency)
        try:
            async with (
                _beside(_report(quarters, settings, store)),
                _beside(Reconciler(store, app, office.mirrors, state).run()),
            ):
                await worker.serve(stop)
        finally:
            await app.revoke_tokens()
    log(__name__).info("worker ended")


@contextlib.asynccontextmanager
async def _quarters(settings: Settings, store: Store, supplies: Supplies) -> AsyncIterator[Quarters]:
    state = settings.state_dir
    async with Gateway(
        upstreams(settings), state / "gateway", prices=supplies.prices, spending=store.spending
    ) as gateway:
        yield Quarters(Programs(settings, supplies.tools or state / "tools"), isolation_of(settings), gateway)


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have something done while the block goes on."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def take_run(ctx: dict[str, Any], run_id: str) -> None:
    """Make an attempt at a run: the job of queue `runs`."""
    office: Office = ctx["office"]
    await debate(office, run_id, ctx["lease"])


# ---- What this worker lacks -----------------------------------------------------------------------------------------


async def _report(quarters: Quarters, settings: Settings, store: Store) -> None:
    """Tell what this worker lacks for its default seats, at once and again and again."""
    name, told = secrets.token_hex(8), tuple[str, ...]()
    try:
        while True:
            lacks = await lacking(quarters, settings)
            for each in lacks:
                if each not in told:
                    log(__name__).warning("worker lacks", what=each)
            told = lacks
            with contextlib.suppress(StoreAway):
                await store.health.report(name, lacks)
            await asyncio.sleep(REPORT_SECONDS)
    finally:
        with contextlib.suppress(StoreAway):
            await store.health.forget(name)


async def lacking(quarters: Quarters, settings: Settings) -> tuple[str, ...]:
    """Return what this worker lacks to fill its default seats, with its repair, a sentence each."""
    seats = {"reviewer": settings.reviewer, "author": settings.author}
    found: dict[str, None] = {}
    needy = False
    for seat, name in seats.items():
        agent, _ = agents.find(name)
        needy = needy or agent.box is not None
        if lack := await quarters.programs.lack(agent):
            found[f"The {seat} cannot be seated: {lack.sentence}. To repair it: {lack.repair}."] = None
    if full := lack_of_room(settings.state_dir):
        found[f"This worker begins no debate: {full}. To repair it: {MAKE_ROOM}."] = None
    if needy and (missing := await quarters.isolation.lack()):
        found[f"Isolation is missing ({missing.layer}): {missing}. To repair it: {missing.repair}."] = None
    return tuple(found)
