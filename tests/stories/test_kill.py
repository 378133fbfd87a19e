"""SIGKILL of the worker at any point of a run: another takes it up, and the end is that of an undisturbed run."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from arq.constants import in_progress_key_prefix
from oracles.court import Court
from oracles.places import Place
from redis.asyncio import Redis
from telling import Ending, Story
from town import EFFECTS, STEPS, Town, settled, story_of, told

from bot.store import RUNS
from bot.store.connection import PREFIX
from worker.attempt import DEATHS

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = Path(__file__).parent
LEASES = f"{in_progress_key_prefix}{PREFIX}:{RUNS}:"
POINTS = [f"step:/{step}" for step in range(STEPS)] + [
    f"{when}:{number}" for number in range(1, EFFECTS + 1) for when in ("before", "after")
]
EVERY_DAY = 5
"""Of so many points, one is tried every day; .ci/run tries all."""


@dataclass
class Watched(Town):
    """A town that the oracles look at."""

    place: Place


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def town(court: Court, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    async with settled(tmp_path_factory.mktemp("town")) as made, court.place(made.settings, made.github) as place:
        yield Watched(made.github, made.store, made.settings, place)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def forge(
    town: Watched, court: Court, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the program that makes the workers. What they log is judged with each story."""
    pipe = asyncio.subprocess.PIPE
    program = str(HERE / "mortal_worker.py")
    log = tmp_path_factory.mktemp("forge") / "log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, env=town.environment, stdin=pipe, stdout=pipe, stderr=errors
        )
    court.logs[log] = 0
    yield process
    await asyncio.wait_for(process.communicate(b""), 30)
    assert process.returncode == 0
    del court.logs[log]


@asynccontextmanager
async def worker(forge: asyncio.subprocess.Process, point: str = "") -> AsyncIterator[asyncio.Task[int]]:
    """Run a worker process, which dies at a point if one is given; yield what waits for its status."""
    assert forge.stdin is not None
    assert forge.stdout is not None

    async def said() -> int:
        assert forge.stdout is not None
        return int(await forge.stdout.readline())

    forge.stdin.write(f"{point}\n".encode())
    process = await asyncio.wait_for(said(), 30)
    ended = asyncio.create_task(said())
    try:
        yield ended
    finally:
        if not ended.done():
            os.kill(process, signal.SIGKILL)
        await ended


async def runs_out(town: Watched) -> None:
    """Let a dead worker's lease be over at once."""
    async with Redis.from_url(town.settings.redis_url or "") as redis:
        async for lease in redis.scan_iter(f"{LEASES}*"):
            await redis.delete(lease)


async def begin(town: Watched, name: str, folder: Path) -> Story:
    """Open the pull request of this story and write the command."""
    story = await story_of(town, name, folder)
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    await story.says()
    return story


async def over(town: Watched, story: Story) -> Ending:
    """Wait for the end, and until the worker has cleared up behind it."""
    end = await story.ends()
    assert await town.place.quiet() == []
    return end


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def undisturbed(
    town: Watched, forge: asyncio.subprocess.Process, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return the end of the story that nothing disturbs."""
    story = await begin(town, "undisturbed", tmp_path_factory.mktemp("calm"))
    async with worker(forge):
        end = await over(town, story)
    assert (await town.store.runs.state(end.run)).fence == 1
    return await told(story, end)


async def test_the_points_are_all_there(
    town: Watched, forge: asyncio.subprocess.Process, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """A run that would die at one effect more does not die: no point is left out."""
    assert undisturbed["status"] == "consensus"
    assert len(undisturbed["commits"]) == 2
    story = await begin(town, "past-all", tmp_path)
    async with worker(forge, f"step:/{STEPS} before:{EFFECTS + 1}") as ended:
        await over(town, story)
        assert not ended.done()


@pytest.mark.threat("R1")
@pytest.mark.parametrize(
    "point", [pytest.param(each, marks=[pytest.mark.gate] if n % EVERY_DAY else []) for n, each in enumerate(POINTS)]
)
async def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    town: Watched, forge: asyncio.subprocess.Process, undisturbed: dict[str, Any], tmp_path: Path, point: str
) -> None:
    """After the first step the lease runs out by itself; elsewhere its end is not waited for."""
    story = await begin(town, f"killed-{re.sub('[:/]+', '-', point)}", tmp_path)
    async with worker(forge, point) as ended:
        assert await asyncio.wait_for(asyncio.shield(ended), 30) == -9, "it never came to this point"
    if point != "step:/0":
        await runs_out(town)
    async with worker(forge):
        end = await over(town, story)
    assert end.state.status == "consensus", f"{end.check.title}\n{end.check.summary}"
    assert await told(story, end) == undisturbed
    assert (await town.store.runs.state(end.run)).fence == 2
    asked = len(list((tmp_path / "briefs").glob("*.md")))
    assert asked <= STEPS + 1, "a journaled step is not asked again"


@pytest.mark.threat("R21")
async def test_a_run_that_kills_each_worker_ends_after_three_and_the_queue_goes_on(
    town: Watched, forge: asyncio.subprocess.Process, tmp_path: Path
) -> None:
    """Not by an error, which could be caught: the whole process dies each time at the same step."""
    story = await begin(town, "poison", tmp_path)
    for _ in range(DEATHS):
        async with worker(forge, "before:2") as ended:
            assert await asyncio.wait_for(asyncio.shield(ended), 30) == -9
        await runs_out(town)
    async with worker(forge):
        end = await over(town, story)
        assert (end.state.status, end.check.conclusion) == ("agent-error", "failure")
        assert "this server failed 3 times at the same step" in f"{end.check.title} {end.check.summary}"
        assert f"`{end.run}`" in (end.check.summary or "")
        after = await begin(town, "after-poison", tmp_path / "after")
        assert (await over(town, after)).state.status == "consensus"
