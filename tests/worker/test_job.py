"""One attempt at one run, over the stand-in: what a fault does to it, and when it is given up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.intents import CheckRun
from bot.publish import Place, Publisher
from bot.statuses import CHECK_NAME
from bot.store import Lease, TryAgain
from bot.store.runs import Waiting
from tests.worker.conftest import World
from worker.attempt import DEATHS, HOPELESS_SECONDS
from worker.job import debate
from worker.origin import Origin
from worker.reconcile import EVERY_SECONDS, Reconciler
from worker.world import World as Surroundings


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


@pytest.mark.threat("R11")
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


@pytest.mark.threat("R12")
async def test_a_limit_is_waited_for_as_long_as_github_says(world: World) -> None:
    world.standin.fail_next("GET", "/repos", status=403, headers={"Retry-After": "900"})
    with pytest.raises(TryAgain) as caught:
        await debate(world.office, world.run.id)
    assert caught.value.defer_score == 900_000
    assert (await world.store.runs.state(world.run.id)).deaths == 0


@pytest.mark.threat("R21")
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


@pytest.mark.threat("R21")
@pytest.mark.parametrize(("stalled", "counted"), [(True, 1), (False, 0)])
async def test_an_attempt_that_stood_still_counts_and_one_that_lost_its_store_does_not(
    world: World, stalled: bool, counted: int
) -> None:
    """A step that stops the whole process comes back without end otherwise."""
    begun = asyncio.Event()

    async def waits(_: str) -> None:
        begun.set()
        await asyncio.sleep(3600)

    office = replace(world.office, tap=waits)
    lease = Lease("job", "lease", reason="lost-lease", stalled=stalled)
    task = asyncio.create_task(debate(office, world.run.id, lease))
    await asyncio.wait_for(begun.wait(), 30)
    task.cancel("lost-lease")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await world.store.runs.state(world.run.id)).deaths == counted


@pytest.mark.threat("R21")
async def test_a_run_whose_end_cannot_even_be_begun_is_told_by_the_reconciler(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bug(*_: object) -> None:
        raise PermissionError("the mirrors' folder is somebody else's")

    with monkeypatch.context() as patch:
        patch.setattr(world.office.mirrors, "of", bug)
        for _ in range(2 * DEATHS - 1):
            with pytest.raises(TryAgain):
                await debate(world.office, world.run.id)
        await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    await reconciler(world).once()
    assert (world.check.status, world.check.conclusion) == ("completed", "failure")
    assert "this server failed again and again" in world.check.title


async def test_what_was_left_to_tell_of_a_repository_that_became_public_is_not_told_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threats.md, input 68: also where it was stored while it was private."""

    async def may_not(_: object) -> bool:
        return False

    fence = await world.store.runs.begin_attempt(world.run.id)
    secret = CheckRun(world.run.id, CHECK_NAME, world.run.head_sha, "completed", "success", "title", "private words")
    place = Place(world.run.repository.full_name, world.run.number, 1)
    github = world.office.app.installation(world.run.installation_id, world.repo.id)
    await Publisher(world.store.outbox, github, place, run=world.run.id, fence=fence).intend(secret)
    monkeypatch.setattr(Surroundings, "may_show", may_not)
    await debate(world.office, world.run.id)
    assert (world.check.status, "private words" in (world.check.summary or "")) == ("completed", False)


@pytest.mark.threat("R25")
async def test_a_run_whose_worker_was_gone_for_good_is_timed_out(world: World) -> None:
    runs = world.store.runs
    fence = await runs.begin_attempt(world.run.id)
    long_ago = int(time.time()) - 2 * world.run.ceilings.run_seconds
    await runs.record(world.run.id, fence, touched=long_ago - 1)
    await debate(world.office, world.run.id)
    assert await world.status() == "timed-out"
    assert (world.check.status, world.check.conclusion) == ("completed", "timed_out")
    assert world.check.title == "Lost: the worker went away, run it again"


@pytest.mark.threat("R25")
async def test_it_is_timed_out_although_github_is_away_at_first(world: World) -> None:
    fence = await world.store.runs.begin_attempt(world.run.id)
    long_ago = int(time.time()) - 2 * world.run.ceilings.run_seconds
    await world.store.runs.record(world.run.id, fence, touched=long_ago - 1)
    world.standin.fail_next("*", "/", status=503, times=20)
    with pytest.raises(TryAgain):
        await debate(world.office, world.run.id)
    world.standin.clear_faults()
    await debate(world.office, world.run.id)
    assert await world.status() == "timed-out"


async def test_a_run_whose_worker_was_away_for_a_while_goes_on(world: World) -> None:
    fence = await world.store.runs.begin_attempt(world.run.id)
    lately = int(time.time()) - 2 * world.run.ceilings.run_seconds + 60
    await world.store.runs.record(world.run.id, fence, touched=lately)
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"


@pytest.mark.threat("R13")
async def test_a_run_that_github_kept_from_its_end_for_a_day_is_told_when_it_is_back(world: World) -> None:
    fence = await world.store.runs.begin_attempt(world.run.id)
    await world.store.runs.record(world.run.id, fence, faulty=int(time.time()) - HOPELESS_SECONDS - 1)
    world.standin.fail_next("*", "/", status=503, times=1000)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    assert await world.store.outbox.unsent() == (world.run.id,)
    world.standin.clear_faults()
    await reconciler(world).once()
    assert (world.check.status, world.check.conclusion) == ("completed", "failure")
    assert "this server could not reach GitHub for a day" in world.check.title
    assert await world.store.outbox.unsent() == ()


@pytest.mark.threat("R9", 31)
async def test_an_end_under_a_suspension_is_told_when_it_is_lifted(world: World) -> None:
    await world.standin.suspend("you")
    await debate(world.office, world.run.id)
    assert await world.status() == "authorisation-withdrawn"
    now = [0.0]
    reconciles = reconciler(world, clock=lambda: now[0])
    await reconciles.once()
    await world.standin.unsuspend("you")
    await reconciles.once()
    assert world.standin.check_runs(world.repo) == [], "it is not tried again at once"
    now[0] = EVERY_SECONDS
    await reconciles.once()
    assert (world.check.status, world.check.conclusion) == ("completed", "cancelled")


@pytest.mark.threat("R9")
async def test_a_repository_that_was_transferred_is_told_at_its_new_owners(world: World) -> None:
    world.standin.create_user("other-owner")
    await world.standin.create_repository("other-owner/else")  # the App is installed there
    world.standin.transfer_repository(world.repo, "other-owner")
    await debate(world.office, world.run.id)
    assert await world.status() == "authorisation-withdrawn"
    assert (world.check.conclusion, world.check.title) == (
        "cancelled",
        "Ended: the repository or this App changed hands",
    )


def reconciler(world: World, clock: Callable[[], float] = time.monotonic) -> Reconciler:
    office = world.office
    return Reconciler(world.store, office.app, office.mirrors, office.settings.state_dir, clock=clock)
