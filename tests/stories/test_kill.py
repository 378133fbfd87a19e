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
from telling import Ending, Story, finding, section, verdict

from bot.main import run_bot
from bot.settings import Settings
from bot.store import RUNS, Store
from bot.store.connection import PREFIX
from deploy.standin import StandIn
from deploy.store import EmbeddedStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = Path(__file__).parent
RESOLVED = finding(status="resolved")
STEPS = 5
EFFECTS = 15
"""What an undisturbed run of the story publishes; `test_the_points_are_all_there` counts."""
LEASES = f"{in_progress_key_prefix}{PREFIX}:{RUNS}:"
POINTS = [f"step:/{step}" for step in range(STEPS)] + [
    f"{when}:{number}" for number in range(1, EFFECTS + 1) for when in ("before", "after")
]


@dataclass
class Town:
    """A stand-in, a store and a bot; the workers come and go."""

    github: StandIn
    store: Store
    settings: Settings
    place: Place

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a worker process."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": os.environ["HOME"],
            "GITHUB_APP_ID": self.github.app_id,
            "GITHUB_APP_PRIVATE_KEY": self.github.app_private_key,
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_SERVER_URL": self.github.server_url,
            "REDIS_URL": self.settings.redis_url or "",
            "CODEX_DEBATE_STATE_DIR": str(self.settings.state_dir),
            "PYTHONPATH": str(HERE.parents[1]),
        }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def town(court: Court, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    seat = f"scripted:{folder / 'scenario.json'}"
    async with EmbeddedStore(folder / "store") as url, await StandIn.start(folder / "github") as github:
        settings = Settings.model_validate(
            {
                "github_app_id": github.app_id,
                "github_app_private_key": github.app_private_key,
                "github_webhook_secret": github.webhook_secret,
                "github_api_url": github.api_url,
                "github_server_url": github.server_url,
                "redis_url": url,
                "port": 0,
                "state_dir": folder / "state",
                "allow": ("*",),
                "reviewer": seat,
                "author": seat,
            }
        )
        store = await Store.connect(url)
        stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
        bot = asyncio.create_task(run_bot(settings, store, stop=stop, ready=port.set_result))
        github.webhook_url = f"http://127.0.0.1:{await port}/webhook"
        async with court.place(settings, github) as place:
            yield Town(github, store, settings, place)
        stop.set()
        await bot
        await store.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def forge(
    town: Town, court: Court, tmp_path_factory: pytest.TempPathFactory
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


async def runs_out(town: Town) -> None:
    """Let a dead worker's lease be over at once."""
    async with Redis.from_url(town.settings.redis_url or "") as redis:
        async for lease in redis.scan_iter(f"{LEASES}*"):
            await redis.delete(lease)


async def begin(town: Town, name: str, folder: Path) -> Story:
    """Open the pull request of this story and write the command."""
    repo = await town.github.create_repository(f"owner-of-{name}/{name}")  # paced by itself (decisions.md 9)
    path = Path(town.settings.reviewer.partition(":")[2])
    story = Story(town, path, folder / "briefs", repo)  # type: ignore[arg-type]
    story.plays(
        verdict(finding(), finding(2)),
        section("F1 fixed", "F2 disputed", edits={"app.py": "x = 3\n"}),
        verdict(RESOLVED, finding(2)),
        section("F2 fixed", edits={"app.py": "x = 4\n", "more.py": "y = 1\n"}),
        verdict(finding(2, "resolved")),
    )
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    await story.says()
    return story


async def over(town: Town, story: Story) -> Ending:
    """Wait for the end, and until the worker has cleared up behind it."""
    end = await story.ends()
    assert await town.place.quiet() == []
    return end


async def told(story: Story, end: Ending) -> dict[str, Any]:
    """Return what stands on GitHub, without what differs from run to run: names, times, and what they go into."""
    seen: dict[str, str] = {}

    def plain(text: str) -> str:
        text = text.replace(end.run, "RUN").replace(story.repo.full_name, "REPO")
        text = re.sub(r"/runs/\d+", "/runs/N", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
        text = re.sub(r"\b\d+ (s|min)\b", "TIME", text)
        return re.sub(
            r"\b[0-9a-f]{10}(?:[0-9a-f]{30})?\b", lambda match: seen.setdefault(match[0][:10], f"SHA{len(seen)}"), text
        )

    github = story.machine.github
    return {
        "status": end.state.status,
        "comments": [plain(body) for body in end.comments],
        "check": (end.check.status, end.check.conclusion, end.check.title, plain(end.check.summary or "")),
        "annotations": [(each["path"], each["start_line"], plain(each["title"])) for each in end.check.annotations],
        "reactions": sorted(end.reactions),
        "commits": [(commit.subject, commit.tree, plain(commit.body)) for commit in end.commits],
        "branches": sorted(plain(name) for name in await github.branches(story.repo)),
        "check runs": len(github.check_runs(story.repo)),
        "pushes": sum(len(each.updates) for each in github.journal if f"/{story.repo.full_name}.git" in each.path),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def undisturbed(
    town: Town, forge: asyncio.subprocess.Process, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return the end of the story that nothing disturbs."""
    story = await begin(town, "undisturbed", tmp_path_factory.mktemp("calm"))
    async with worker(forge):
        end = await over(town, story)
    assert (await town.store.runs.state(end.run)).fence == 1
    return await told(story, end)


async def test_the_points_are_all_there(
    town: Town, forge: asyncio.subprocess.Process, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """A run that would die at one effect more does not die: no point is left out."""
    assert undisturbed["status"] == "consensus"
    assert len(undisturbed["commits"]) == 2
    story = await begin(town, "past-all", tmp_path)
    async with worker(forge, f"step:/{STEPS} before:{EFFECTS + 1}") as ended:
        await over(town, story)
        assert not ended.done()


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    town: Town, forge: asyncio.subprocess.Process, undisturbed: dict[str, Any], tmp_path: Path, point: str
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
