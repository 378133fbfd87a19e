"""The reconciler: at start and every minute it puts right what nobody else comes back to.

It owns how often, who of several workers does what is done once, and that no part holds up another. What the parts do
is theirs: outboxes of runs that have ended, runs without a job, orphaned check runs, failed deliveries, old branches,
and what lies about on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bot.branches import delete_old
from bot.github import AppClient, GitHubError, Unavailable, verbs
from bot.orphans import Conversation, conclude, sweep
from bot.publish import Place, Publisher
from bot.redelivery import redeliver_failed
from bot.statuses import CHECK_NAME
from bot.store import LostFence, Store, StoreAway
from bot.store.runs import Run
from bot.telemetry import log
from worker.attempt import FOLDERS
from worker.git.mirror import Mirrors
from worker.leftovers import clear_folders, clear_unlocked, trim_mirrors
from worker.outputs.check import hidden
from worker.world import World, locate

EVERY_SECONDS = 60.0
SELDOM_SECONDS = 3600.0
"""Between two looks at what grows slowly: mirrors, and folders that go by their age."""
SWEEP_STEPS = 30
"""Calls or so to GitHub that one round spends on looking for orphans, of the 5,000 an hour that an installation has
(github.md A6): a small installation is looked through each minute, a large one in turns."""
PATIENT_SECONDS = 3600.0
"""The longest wait until what an ended run left to tell is tried again."""


@dataclass(slots=True)
class Wait:
    """When what a run left to tell is tried again."""

    until: float = 0.0
    seconds: float = EVERY_SECONDS


@dataclass(slots=True)
class Reconciler:
    """The reconciler of one worker."""

    store: Store
    app: AppClient
    mirrors: Mirrors
    state: Path
    """The worker's state folder."""
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    clock: Callable[[], float] = time.monotonic
    _seldom: float | None = None
    _waits: dict[str, Wait] = field(default_factory=dict)
    _sweep: AsyncGenerator[None, None] | None = None

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Put things right, at once and every minute, until this is cancelled."""
        try:
            while True:
                await self.once()
                await sleep(EVERY_SECONDS)
        finally:
            if self._sweep is not None:
                await self._sweep.aclose()
            with contextlib.suppress(StoreAway):
                await self.store.upkeep.resign(self.name)

    async def once(self) -> None:
        """Put right what can be put right now. A part that fails is told to the log, and comes again."""
        parts: dict[str, Callable[[], Awaitable[object]]] = {
            "folders": partial(clear_folders, self.state / FOLDERS, self.store.runs.live, self._lost)
        }
        if self._seldom is None or self.clock() - self._seldom >= SELDOM_SECONDS:
            self._seldom = self.clock()
            parts["left folders"] = partial(asyncio.to_thread, clear_unlocked, self.state)
            parts["mirrors"] = partial(
                trim_mirrors, self.mirrors, self.store.runs.live, self.store.installations.repositories
            )
        await self._each(parts)
        alone: dict[str, Callable[[], Awaitable[object]]] = {
            "runs": self._enqueue,
            "deliveries": partial(redeliver_failed, self.app, self.store),
            "outboxes": self._settle,
            "orphans": self._orphans,
            "branches": partial(delete_old, self.app, self.store),
        }
        await self._each(alone, alone=True)

    async def _each(self, parts: Mapping[str, Callable[[], Awaitable[object]]], *, alone: bool = False) -> None:
        """Do each part, of those that one worker does `alone` only while it is this one."""
        for name, part in parts.items():
            try:
                if alone and not await self.store.upkeep.leads(self.name):
                    return
                await part()
            except (GitHubError, StoreAway, OSError) as error:
                log(__name__).warning("not reconciled", part=name, error=str(error))
            except Exception:  # noqa: BLE001 - a fault in one part must not end the others
                log(__name__).exception("not reconciled", part=name)

    # ---- Runs -------------------------------------------------------------------------------------------------------

    async def _enqueue(self) -> None:
        """See that every run that should be worked at is in the queue: twice is once there."""
        for run_id in await self.store.runs.startable():
            if await self.store.queue.enqueue_run(run_id):
                log(__name__).warning("a run without a job was enqueued", run=run_id)

    async def _settle(self) -> None:
        """Tell what runs that have ended left to tell; what GitHub does not take now is tried again, less and less."""
        unsent = await self.store.outbox.unsent()
        self._waits = {run_id: wait for run_id, wait in self._waits.items() if run_id in unsent}
        for run_id in unsent:
            if not await self.store.upkeep.leads(self.name):
                return  # a GitHub that swallows requests takes its time
            run = await self.store.runs.get(run_id)
            if run is None:
                await self.store.outbox.forget(run_id)
            elif not await self.store.runs.live(run_id):
                await self._tell(run)

    async def _tell(self, run: Run) -> None:
        wait = self._waits.setdefault(run.id, Wait())
        if self.clock() < wait.until:
            return
        try:
            await self._told(run)
        except StoreAway:
            raise
        except LostFence:  # another one tells it
            return
        except Exception as error:  # noqa: BLE001 - whatever one run's is, the others are told
            log(__name__).warning("not told", run=run.id, error=repr(error), again=wait.seconds)
            wait.until = self.clock() + wait.seconds
            wait.seconds = min(2 * wait.seconds, PATIENT_SECONDS)
            return
        await self.store.outbox.forget(run.id)

    async def _told(self, run: Run) -> None:
        # A fence of our own: a reconciler that stood still for a while and does not know it writes nothing.
        fence = await self.store.runs.begin_attempt(run.id)
        found = await locate(run, self.app)
        identity = await self.app.identity(found.github)
        place = Place(found.run.repository.full_name, run.number, identity.bot_id)
        publisher = Publisher(self.store.outbox, found.github, place, run=run.id, fence=fence)
        may_show = await World(found.run, found.github).may_show()
        await publisher.settle(None if may_show else hidden)

    # ---- Debates that the store has lost ----------------------------------------------------------------------------

    async def _orphans(self) -> None:
        """Go on looking for check runs that nobody is left to conclude."""
        if self._sweep is None:
            self._sweep = sweep(self.app, self.store)
        try:
            for _ in range(SWEEP_STEPS):
                await anext(self._sweep)
        except StopAsyncIteration:
            self._sweep = None
        except Exception:
            self._sweep = None
            raise

    async def _lost(self, run: Run) -> None:
        """Conclude the check run of a run that was debated here, on its own commit, wherever its branch is by now.

        What GitHub refuses for good is told to the log: nobody can conclude it.
        """
        try:
            found = await locate(run, self.app)
            place = Conversation(found.github, found.run.repository.full_name, run.number)
            identity = await self.app.identity(place.github)
            checks = await verbs.check_runs(place.github, place.repo, run.head_sha, name=CHECK_NAME, app=identity.id)
            for check in checks:
                if check.external_id == run.id and check.status != "completed":
                    await conclude(place, check, identity)
        except Unavailable:
            raise
        except GitHubError as refusal:
            log(__name__).warning("a lost debate cannot be told", run=run.id, error=str(refusal))
