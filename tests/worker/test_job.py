"""One attempt at one run, over the stand-in: what a fault does to it, and when it is given up."""

from __future__ import annotations

import time

import pytest

from bot.store import TryAgain
from bot.store.runs import Waiting
from tests.worker.conftest import World
from worker.attempt import DEATHS, HOPELESS_SECONDS
from worker.job import debate
from worker.origin import Origin


async def test_a_run_ends_once(world: World) -> None:
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"
    assert world.check.conclusion == "success"
    requests = len(world.standin.journal)
    await debate(world.office, world.run.id)
    assert len(world.standin.journal) == requests


async def test_a_run_that_is_not_known_is_left_alone(world: World) -> None:
    await debate(world.office, "nobody")
    assert world.standin.requests("POST", "/repos") == []


async def test_github_being_away_is_no_fault_of_the_run(world: World) -> None:
    world.standin.fail_next("*", "/", status=502, times=1000)
    for _ in range(DEATHS + 1):
        with pytest.raises(TryAgain):
            await debate(world.office, world.run.id)
    assert (await world.store.runs.state(world.run.id)).deaths == 0
    world.standin._site.record.faults.clear()
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"


async def test_a_github_that_stays_away_for_a_day_does_not_hold_the_claim_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.github.limits.BACKOFF_SECONDS", 0.01)
    world.standin.fail_next("*", "/repos", status=502, times=10_000)
    with pytest.raises(TryAgain):
        await debate(world.office, world.run.id)
    fence = await world.store.runs.begin_attempt(world.run.id)
    await world.store.runs.record(world.run.id, fence, faulty=int(time.time()) - HOPELESS_SECONDS - 1)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    assert (await world.store.runs.holders(world.repo.id, world.run.number)).running is None


async def test_a_limit_is_waited_for_as_long_as_github_says(world: World) -> None:
    world.standin.fail_next("GET", "/repos", status=403, headers={"Retry-After": "900"})
    with pytest.raises(TryAgain) as caught:
        await debate(world.office, world.run.id)
    assert caught.value.defer_score == 900_000
    assert (await world.store.runs.state(world.run.id)).deaths == 0


async def test_a_run_that_kills_its_worker_ends_after_three_attempts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """decisions.md 1.6: three deaths at the same step end a run, and the check run says so."""

    async def bug(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Origin, "check_out", bug)
    for _ in range(DEATHS):
        with pytest.raises(TryAgain):
            await debate(world.office, world.run.id)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    assert world.check.conclusion == "failure"
    assert "this server failed 3 times" in world.check.title + (world.check.summary or "")
    assert world.run.id in (world.check.summary or "")
    assert "a fault of ours" not in world.check.title + (world.check.summary or "")


async def test_a_worker_that_dies_after_the_end_leaves_the_next_run_to_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that waits is promoted with the end, and enqueued after it: a death in between must not lose it."""
    second = world.run.model_copy(update={"id": "waiting1", "source": None})
    assert isinstance(await world.store.runs.claim(second, "other words"), Waiting)
    enqueue = world.store.queue.enqueue_run

    async def dies(_: str) -> bool:
        raise RuntimeError("killed")

    monkeypatch.setattr(world.store.queue, "enqueue_run", dies)
    with pytest.raises(TryAgain):
        await debate(world.office, world.run.id)
    assert await world.status() == "consensus"
    enqueued: list[str] = []

    async def keeps(run_id: str) -> bool:
        enqueued.append(run_id)
        return await enqueue(run_id)

    monkeypatch.setattr(world.store.queue, "enqueue_run", keeps)
    await debate(world.office, world.run.id)
    assert enqueued == ["waiting1"]


async def test_the_app_is_gone(world: World) -> None:
    """threats.md, input 31."""
    await world.standin.uninstall("you")
    before = len(world.standin.journal)
    await debate(world.office, world.run.id)
    assert await world.status() == "authorisation-withdrawn"
    assert len(world.standin.journal) - before < 5
