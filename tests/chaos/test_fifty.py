"""Fifty debates wait while one of two workers is killed again and again: all end, each once."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from oracles.court import Court
from telling import Story
from town import ROOT, Town, settled, story_of

from deploy.standin import CheckRun
from tests.chaos import plans
from tests.chaos.forge import Forge, Mortal
from tests.chaos.invariants import findings, remains
from tests.chaos.plans import Plan
from tests.chaos.told import Ground, until
from worker.attempt import DEATHS

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

DEBATES = 50
PATIENCE = 400.0
LIFE = (100, 300)
"""So many requests GitHub is sent while a worker that is killed lives, each time: on a slow machine it lives longer."""
SETTLING = 10.0
CONSENSUS = ("action_required", "Consensus: 2 fixes wait to be pushed")
POISONED = ("failure", f"No answer: this server failed {DEATHS} times at the same step")
"""How a debate ends that meets the killer three times at one step: it cannot be told from one that is the cause."""


@dataclass
class Peak:
    """The most memory that a process has had."""

    bytes: int = 0

    def look(self, process: int) -> None:
        """Read it (proc_pid_status(5), VmHWM)."""
        try:
            lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
        except OSError:
            return
        for line in lines:
            if line.startswith("VmHWM:"):
                self.bytes = max(self.bytes, int(line.split()[1]) * 1024)

    def __str__(self) -> str:
        return f"{self.bytes / 1024**2:.0f} MiB"


@asynccontextmanager
async def receiver(town: Town, folder: Path) -> AsyncIterator[int]:
    """Run `codex-debate bot` as a process of its own in the place of the town's, and yield its process."""
    seat = town.settings.reviewer
    env = town.environment | {
        "GITHUB_WEBHOOK_SECRET": town.github.webhook_secret,
        "CODEX_DEBATE_PORT": "0",
        "CODEX_DEBATE_ALLOW": "*",
        "CODEX_DEBATE_REVIEWER": seat,
        "CODEX_DEBATE_AUTHOR": seat,
    }
    log = folder / "receiver.log"
    words = "from deploy.cli import main; main()"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", words, "bot"), env=env, cwd=ROOT, stdout=errors, stderr=errors
        )
    before = town.github.webhook_url
    try:
        assert await until(lambda: "bot started" in log.read_text(), 60), log.read_text()
        (line,) = (line for line in log.read_text().splitlines() if "bot started" in line)
        town.github.webhook_url = f"http://127.0.0.1:{json.loads(line)['port']}/webhook"
        yield process.pid
    finally:
        town.github.webhook_url = before
        process.send_signal(SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0, log.read_text()


async def _killed_and_started(ground: Ground, forge: Forge, marks: Path, deaths: list[Mortal], peak: Peak) -> None:
    """Start a worker, kill it after a moment, and so on."""
    random = Random(0)  # noqa: S311 - it is to be the same each time
    while True:
        mortal = await forge.worker(ground.town, marks)
        end = len(ground.town.github.journal) + random.randint(*LIFE)
        while len(ground.town.github.journal) < end:
            await asyncio.sleep(0.05)
            peak.look(mortal.process)
        mortal.signal(SIGKILL)
        await mortal.ended
        deaths.append(mortal)


def _keep_no_briefs(story: Story) -> None:
    """All debates play one scenario: what it would keep of them would have the same names."""
    scenario = json.loads(story.scenario.read_text("utf-8"))
    del scenario["record"]
    story.scenario.write_text(json.dumps(scenario), "utf-8")


def _checks(town: Town, stories: list[Story]) -> list[CheckRun]:
    return [each for story in stories for each in town.github.check_runs(story.repo)]


async def _over(ground: Ground, stories: list[Story], look: Any) -> None:
    """Wait until every debate has ended, and all is told."""
    store = ground.town.store
    async with asyncio.timeout(PATIENCE):
        while True:
            await asyncio.sleep(0.2)
            look()
            checks = _checks(ground.town, stories)
            done = len(checks) >= DEBATES and all(each.status == "completed" for each in checks)
            if done and not ground.place._waiting() and not await store.outbox.unsent():
                return


async def test_fifty_debates_with_a_worker_that_is_killed_again_and_again(
    court: Court, forge: Forge, tmp_path: Path, record_property: Any
) -> None:
    """Each debate has an owner of its own: an installation writes so many times in a minute (decisions.md 9)."""
    (tmp_path / "marks").mkdir()
    plan = Plan(-1, (), plans.SHORT_LEASE, 0)
    receivers, workers = Peak(), Peak()
    deaths = list[Mortal]()
    async with settled(tmp_path / "town") as town:
        ground = Ground.of(town, court)
        stories = [await story_of(town, f"debate-{number}", tmp_path / str(number)) for number in range(DEBATES)]
        for story in stories:
            await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
        _keep_no_briefs(stories[-1])
        async with receiver(town, tmp_path) as process:
            steady = await forge.worker(town, tmp_path / "marks")
            began = time.monotonic()
            await asyncio.gather(*(story.says() for story in stories))
            killing = asyncio.create_task(_killed_and_started(ground, forge, tmp_path / "marks", deaths, workers))

            def look() -> None:
                receivers.look(process)
                workers.look(steady.process)

            try:
                await _over(ground, stories, look)
            finally:
                took = time.monotonic() - began
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)
                statuses = await forge.end_all()
        assert set(statuses) <= {0}
        await until(lambda: not list(remains(town, tmp_path)), SETTLING)
        found = [*remains(town, tmp_path)]
        poisoned = 0
        for story in stories:
            found += await findings(town, story, ground.place, plan)
            checks = town.github.check_runs(story.repo)
            ends = [(each.conclusion, each.title) for each in checks]
            assert ends in ([CONSENSUS], [POISONED]), story.repo.full_name
            poisoned += ends == [POISONED]
        attempts = sum([await town.store.runs.fence(each.external_id) for each in _checks(town, stories)])
        ground.place.close()
    record_property(
        "fifty",
        f"chaos: {DEBATES} debates by two workers in {took:.0f} s, one of them killed {len(deaths)} times: all ended "
        f"once, after {attempts} attempts, {poisoned} because three workers were killed at one step; peak memory of "
        f"the receiver {receivers}, of a worker {workers}",
    )
    assert poisoned <= DEBATES / 10
    assert len(deaths) > 5
    assert attempts > DEBATES, "no kill has met a debate"
    assert not found, "\n".join(map(str, found))
