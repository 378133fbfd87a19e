"""Tells one seed: a debate, what happens to it, and who takes it up again, until all is quiet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL
from typing import Any, Self

from oracles.court import Court
from oracles.places import Place
from redis.exceptions import RedisError
from telling import Story
from town import Town, placed, story_of

from tests.chaos.acts import AWAY, MAINTAINER, OTHER_BASE, Scene
from tests.chaos.forge import Forge, Mortal, Point
from tests.chaos.invariants import run_refs
from tests.chaos.plans import WIRE, WORKER, Plan, Strike
from tests.chaos.proxy import Proxy, proxied

PATIENCE = 90.0
"""Seconds that a seed may take until all is quiet: far more than any takes."""
CLEARED_SECONDS = 20.0
LOOK_SECONDS = 0.01
WRITES = {"POST", "PATCH", "PUT", "DELETE"}


@dataclass
class Ground:
    """A town, and how the oracles see it."""

    town: Town
    place: Place
    store: Path
    """The folder of its store."""

    @classmethod
    def of(cls, town: Town, court: Court) -> Self:
        return cls(town, placed(town, court), court.stores[town.settings.redis_url or ""]._folder)


@dataclass
class Telling:
    """One seed while it is told, and what came of it."""

    ground: Ground
    forge: Forge
    plan: Plan
    folder: Path
    proxy: Proxy
    met: list[Strike] = field(default_factory=list)
    resumed: list[tuple[float, float]] = field(default_factory=list)
    """The lease, and the seconds from a worker's end to the next attempt."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _current: Mortal | None = None

    async def tell(self) -> Story:
        """Tell the seed until all is quiet and no worker lives."""
        story = await self._opened()
        scene = Scene(self.ground.town, story, self.ground.store, self.proxy)
        for strike in self.plan.strikes:
            if strike.kind in WIRE:
                scene.spoil(strike)
                self.met.append(strike)
            elif strike.kind == "kill-at-request":
                self._kill_at(story, strike)
            elif strike.kind != "deaf":
                self._beside(self._struck(scene, strike))
        await self._worker()
        try:
            await self._command(story)
            await self._quiet(scene, debates=1)
            if self.plan.flushed:
                await story.says()
                await self._quiet(scene, debates=2)
                await self._worker()  # as it starts it clears what nobody knows any more
                assert await until(lambda: not list(run_refs(self.ground.town)), CLEARED_SECONDS)
        finally:
            self.ground.town.github.observers[:] = self._observers
            self.ground.town.github.clear_faults()
            for task in self._tasks:
                task.cancel()
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each
        return story

    # ---- The story

    async def _opened(self) -> Story:
        kinds = {each.kind for each in self.plan.strikes}
        github = self.ground.town.github
        self._observers = list(github.observers)
        story = await story_of(self.ground.town, f"seed-{self.plan.seed}", self.folder, slow=self.plan.slow)
        base, change = {"app.py": "x = 1\n"}, {"app.py": "x = 2\n"}
        await (story.opens_from_fork(base, change) if "delete-fork" in kinds else story.opens(base, change))
        await github.move_branch(story.repo, OTHER_BASE, str(await github.read_ref(story.repo, "main")))
        if github._site.state.find_user(MAINTAINER) is None:
            github.create_user(MAINTAINER)
        github.set_permission(story.repo, MAINTAINER, "write")
        return story

    async def _command(self, story: Story) -> None:
        kinds = {each.kind: each for each in self.plan.strikes}
        github = self.ground.town.github
        url = github.webhook_url
        if "deaf" in kinds:
            github.webhook_url = AWAY
            self.met.append(kinds["deaf"])
        # A stranger's change from a fork is debated once somebody stands for this commit of it.
        words = f"/codex-debate approve {story.head}" if "delete-fork" in kinds else "/codex-debate review"
        await story.says(words, login=MAINTAINER if "withdraw" in kinds else None)
        github.webhook_url = url

    async def _quiet(self, scene: Scene, *, debates: int) -> None:
        """Wait until so many debates have ended, on GitHub too, and undo what stands in the way of that."""
        github, store = self.ground.town.github, self.ground.town.store
        async with asyncio.timeout(PATIENCE):
            while True:
                await asyncio.sleep(0.05)
                try:
                    if self.ground.place._waiting() or not (checks := github.check_runs(scene.story.repo)):
                        continue
                    if await store.runs.startable() or self.ground.place._waiting():
                        continue
                except RedisError:  # it is just being started again
                    continue
                for undo in scene.restore:
                    if isinstance(done := undo(), Coroutine):
                        await done
                scene.restore.clear()
                over = all(each.status == "completed" for each in checks) and len(checks) >= debates
                if over and not await store.outbox.unsent():
                    await self.ground.place.quiet()
                    # What an overtaken worker held is cleared by the reconcilers, a moment after it lets go.
                    await until(self._cleared, CLEARED_SECONDS)
                    return

    def _cleared(self) -> bool:
        return not any((self.ground.town.settings.state_dir / "runs").glob("*"))

    # ---- The workers

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _points(self) -> list[Point]:
        """Return the points of the faults that have not happened yet."""
        left = [each for each in self.plan.strikes if each not in self.met and each.at[0] not in {"", "request"}]
        return [(*each.at, each.kind if each.kind in WORKER else "hold") for each in left]

    async def _worker(self, *, armed: bool = True) -> Mortal:
        store = self.proxy.url if any(each.kind == "outage" for each in self.plan.strikes) else ""
        points = self._points() if armed else []
        made = await self.forge.worker(
            self.ground.town, self.folder / "marks", points, lease=self.plan.lease, store=store
        )
        self._current = made
        self._beside(self._followed(made))
        return made

    async def _followed(self, worker: Mortal) -> None:
        """Start another worker when this one has died."""
        if await asyncio.shield(worker.ended) != 0:
            await self._worker()

    async def _struck(self, scene: Scene, strike: Strike) -> None:
        """Have one fault happen when its point is come to."""
        mark = self.folder / "marks" / f"{strike.at[0]}-{strike.at[1].strip('/')}"
        while not mark.exists():
            await asyncio.sleep(LOOK_SECONDS)
        self.met.append(strike)
        at = float(mark.read_text("ascii"))
        if strike.kind in {"kill", "term"}:
            if strike.kind == "term":
                await self._worker()
            await self._taken_up(scene.story, since=at)
        elif strike.kind == "stop":
            await self._overtaken(scene.story)
        else:
            await scene.act(strike)
            if strike.kind == "flush-and-kill" and self._current is not None:
                self._current.signal(SIGKILL)
            mark.with_suffix(".go").touch()

    async def _overtaken(self, story: Story) -> None:
        """Let another worker take up what a stopped one holds, and that one go on while it does, or after it."""
        stopped = self._current
        assert stopped is not None
        run = await story.began()
        await self._worker(armed=False)
        runs = self.ground.town.store.runs
        while await runs.fence(run) < 2:
            await asyncio.sleep(LOOK_SECONDS)
        if Random(self.plan.seed).random() < 0.5:  # noqa: S311 - it is to be the same each time
            while (await runs.state(run)).status is None:
                await asyncio.sleep(LOOK_SECONDS)
        stopped.signal(SIGCONT)
        await asyncio.sleep(self.plan.lease)

    async def _taken_up(self, story: Story, *, since: float) -> None:
        """Measure how long it takes until the next attempt begins."""
        runs = self.ground.town.store.runs
        run = await story.began()
        before = await runs.fence(run)
        while await runs.fence(run) == before:
            if (await runs.state(run)).status is not None:
                return
            await asyncio.sleep(LOOK_SECONDS)
        self.resumed.append((self.plan.lease, time.time() - since))

    def _kill_at(self, story: Story, strike: Strike) -> None:
        """Kill the worker when a write has had its effect, and before it hears of that."""
        left = [int(strike.at[1])]

        def observe(exchange: Any) -> None:
            mine = f"/{story.repo.full_name}/" in exchange.target and exchange.method in WRITES
            if not mine or self._current is None:
                return
            left[0] -= 1
            if left[0] == 0:
                self._current.signal(SIGKILL)
                self.met.append(strike)
                self._beside(self._taken_up(story, since=time.time()))

        self.ground.town.github.observers.append(observe)


async def tell(ground: Ground, forge: Forge, plan: Plan, folder: Path) -> tuple[Telling, Story]:
    """Tell one seed, and return what came of it."""
    (folder / "marks").mkdir()
    async with proxied(ground.town.settings.redis_url or "") as proxy:
        telling = Telling(ground, forge, plan, folder, proxy)
        try:
            return telling, await telling.tell()
        finally:
            statuses = await forge.end_all()
            assert set(statuses) <= {0}, f"workers ended with {statuses}"


async def until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds, but not for ever; return whether it does."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True
