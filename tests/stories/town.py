"""A stand-in GitHub, a store and a bot whose workers are processes that come and go, and the story that is told there.

`test_kill.py` kills the workers at every point; `tests/chaos` has more happen to them.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracles.court import Court
from oracles.places import Place
from telling import Ending, Story, finding, section, verdict

from bot.main import run_bot
from bot.settings import Settings
from bot.store import Store
from deploy.standin import StandIn
from deploy.store import EmbeddedStore

ROOT = Path(__file__).parents[2]
RESOLVED = finding(status="resolved")
STEPS = 5
EFFECTS = 15
"""What an undisturbed run of the story publishes; `test_kill.test_the_points_are_all_there` counts."""
PLAIN = re.compile(r"\b[0-9a-f]{10}(?:[0-9a-f]{30})?\b")


@dataclass
class Town:
    """A stand-in, a store and a bot; the workers come and go."""

    github: StandIn
    store: Store
    settings: Settings

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
            "PYTHONPATH": str(ROOT),
        }


@asynccontextmanager
async def settled(folder: Path) -> AsyncIterator[Town]:
    """Run a town below a folder, with scripted agents in both seats: without a worker, and with a bot in here."""
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
        try:
            yield Town(github, store, settings)
        finally:
            stop.set()
            await bot
            await store.close()


def placed(town: Town, court: Court) -> Place:
    """Return a town as the oracles see it."""
    folder = court.stores[town.settings.redis_url or ""]._folder
    return Place(town.github, town.settings, folder, court.canaries, court.moves)


async def story_of(town: Town, name: str, folder: Path, *, slow: int = 0) -> Story:
    """Return a story of three rounds and five turns, before its pull request is opened; turn `slow` takes a while."""
    repo = await town.github.create_repository(f"owner-of-{name}/{name}")  # paced by itself (decisions.md 9)
    path = Path(town.settings.reviewer.partition(":")[2])
    story = Story(town, path, folder / "briefs", repo)  # type: ignore[arg-type]
    turns = [
        verdict(finding(), finding(2)),
        section("F1 fixed", "F2 disputed", edits={"app.py": "x = 3\n"}),
        verdict(RESOLVED, finding(2)),
        section("F2 fixed", edits={"app.py": "x = 4\n", "more.py": "y = 1\n"}),
        verdict(finding(2, "resolved")),
    ]
    story.plays(*(turn | ({"sleep": 0.5} if number == slow else {}) for number, turn in enumerate(turns, 1)))
    return story


async def told(story: Story, end: Ending) -> dict[str, Any]:
    """Return what stands on GitHub, without what differs from run to run: names, times, and what they go into."""
    seen: dict[str, str] = {}

    def plain(text: str) -> str:
        text = text.replace(end.run, "RUN").replace(story.repo.full_name, "REPO")
        text = re.sub(r"/runs/\d+", "/runs/N", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
        text = re.sub(r"\b\d+ (s|min)\b", "TIME", text)
        return PLAIN.sub(lambda match: seen.setdefault(match[0][:10], f"SHA{len(seen)}"), text)

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
