"""The worker as one process: it takes runs from the queue `runs` and debates them.

It composes and starts; what happens in between is the other modules'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bot.github import WORKERS_WRITES, AppClient, open_session
from bot.settings import Settings, SettingsError
from bot.store import RUNS, Store
from bot.telemetry import log
from worker import agents
from worker.git import installed
from worker.git.mirror import Mirrors
from worker.job import Office, debate


async def run_worker(
    settings: Settings, store: Store, *, stop: asyncio.Event, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Debate runs until `stop` is set; what is under way then goes back into the queue.

    `sleep` waits between the attempts of a turn. Raises `SettingsError` without git, redis' ConnectionError where the
    store stayed away, and OSError where the state folder cannot be made.
    """
    if not installed():
        raise SettingsError(("git is not installed, or not on the PATH: install it, then start the worker again.",))
    await asyncio.to_thread(settings.state_dir.mkdir, mode=0o711, parents=True, exist_ok=True)
    for seat, name in {"CODEX_DEBATE_REVIEWER": settings.reviewer, "CODEX_DEBATE_AUTHOR": settings.author}.items():
        if refusal := agents.refusal(agents.find(name)[0]):
            log(__name__).warning("seat cannot be filled", setting=seat, reason=refusal)
    async with open_session(settings.github_api_url) as session:
        mirrors = Mirrors(settings.state_dir / "mirrors")
        app = AppClient(settings, session, pacer=store.pace, writes=WORKERS_WRITES)
        office = Office(settings, store, app, mirrors, sleep=sleep)
        worker = store.queue.worker(RUNS, take_run, concurrency=settings.concurrency, context={"office": office})
        log(__name__).info("worker started", concurrency=settings.concurrency)
        try:
            await worker.serve(stop)
        finally:
            await app.revoke_tokens()
    log(__name__).info("worker ended")


async def take_run(ctx: dict[str, Any], run_id: str) -> None:
    """Make an attempt at a run: the job of queue `runs`."""
    office: Office = ctx["office"]
    await debate(office, run_id)
