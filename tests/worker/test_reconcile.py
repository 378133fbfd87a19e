"""The reconciler, over the stand-in: what it puts right, and that no part holds up another."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.publish import Publisher
from bot.statuses import Status
from bot.store import Store, StoreAway, Writer
from bot.store.connection import key
from tests.worker.conftest import FIXED, NIT, World, play, yes
from worker import reconcile
from worker.attempt import Attempt
from worker.folder import taken
from worker.job import debate
from worker.reconcile import EVERY_SECONDS, PATIENT_SECONDS, SELDOM_SECONDS, Reconciler
from worker.world import World as World_


def reconciler(world: World, **fields: Any) -> Reconciler:
    office = world.office
    return Reconciler(world.store, office.app, office.mirrors, office.settings.state_dir, **fields)


async def flush(redis: Redis) -> None:
    """Lose the whole store."""
    await redis.flushall()


async def died(world: World, path: str) -> None:
    """Debate until a step is journaled, and die there as a worker does that is killed."""

    async def die(at: str) -> None:
        if at == path:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await debate(replace(world.office, tap=die), world.run.id)


@pytest.mark.threat("R4")
async def test_a_debate_that_the_store_lost_in_its_middle_is_concluded_on_its_own_commit(
    world: World, redis: Redis
) -> None:
    """Also where the branch has moved on meanwhile, and its comment says so."""
    play(world.scenario, [yes(NIT), yes(NIT | {"status": "resolved"})], [FIXED])
    await died(world, "/1")
    assert not [each for each in world.standin.comments(world.repo, world.run.number) if each.by_app]
    await flush(redis)
    await world.standin.commit(world.repo, "feature", {"a.txt": "moved\n"})
    await reconciler(world).once()
    assert (world.check.head_sha, world.check.status, world.check.conclusion) == (
        world.run.head_sha,
        "completed",
        "failure",
    )
    assert world.check.title == "Lost: the store forgot this debate, run it again"
    assert not (world.office.settings.state_dir / "runs" / world.run.id).exists()


@pytest.mark.threat("R4")
async def test_a_lost_debate_s_comment_says_lost_and_keeps_its_rounds(world: World, redis: Redis) -> None:
    play(world.scenario, [yes(NIT), yes(NIT | {"status": "resolved"})], [FIXED])
    await died(world, "/2")

    def body() -> str:
        (found,) = (each.body for each in world.standin.comments(world.repo, world.run.number) if each.by_app)
        return found

    before = body()
    assert "**Under way**" in before
    await flush(redis)
    await reconciler(world).once()
    after = body()
    assert "⚠️ **Lost** in round 2: the store forgot this debate. No agreement." in after
    assert after.splitlines()[4:] == before.splitlines()[4:]


@pytest.mark.threat("R4")
async def test_a_debate_that_was_lost_while_it_waited_is_concluded(world: World, redis: Redis) -> None:
    """It has no folder anywhere: it is found on the head of its pull request."""
    await died(world, "/0")
    (check,) = world.standin.check_runs(world.repo)
    runs = world.office.settings.state_dir / "runs"
    for folder in runs.iterdir():  # another machine's
        folder.rename(runs.parent / "elsewhere")
    await flush(redis)
    await reconciler(world).once()
    assert (world.check.id, world.check.conclusion) == (check.id, "failure")


async def test_a_run_without_a_job_is_enqueued_and_one_that_waits_is_not(world: World) -> None:
    waiting = world.run.model_copy(update={"id": "waiting2", "source": None})
    await world.store.runs.claim(waiting, "other words")
    await reconciler(world).once()
    assert not await world.store.queue.enqueue_run(world.run.id), "it is in the queue"
    assert await world.store.queue.enqueue_run(waiting.id), "it waits for the other one"


async def test_folders_of_ended_runs_are_cleared_on_every_machine(world: World) -> None:
    with taken(world.office.settings.state_dir / "runs", world.run) as folder:
        pass
    await world.store.runs.finish(world.run.id, 0, "consensus")
    other = reconciler(world, name="another worker")
    assert await world.store.upkeep.leads("the leader")
    await other.once()
    assert not folder.exists()


async def test_one_worker_of_several_does_what_is_done_once(world: World) -> None:
    first, second = reconciler(world, name="a"), reconciler(world, name="b")
    await first.once()
    before = len(world.standin.requests("GET", "/app/installations"))
    await second.once()
    assert len(world.standin.requests("GET", "/app/installations")) == before


async def test_no_part_holds_up_another(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    async def fails(*_: object) -> None:
        raise RuntimeError("a slip")

    async def works(*_: object) -> None:
        done.append("deliveries")

    monkeypatch.setattr(reconcile, "delete_old", fails)
    monkeypatch.setattr(reconcile, "redeliver_failed", works)
    world.standin.fail_next("GET", "/app/installations", status=503, times=10)
    await reconciler(world).once()
    assert done == ["deliveries"]
    assert [each for each in caplog.records if "a slip" in str(each.exc_info or each.msg)]


async def test_a_store_that_is_away_is_no_end(world: World, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> bool:
        raise StoreAway("away")

    monkeypatch.setattr(store.upkeep, "leads", away)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await reconciler(world).run(sleep)
    assert slept == [EVERY_SECONDS, EVERY_SECONDS]


async def test_what_cannot_be_told_is_tried_less_and_less(world: World) -> None:
    await world.store.runs.finish(world.run.id, 0, "consensus")
    now = [0.0]
    reconciles = reconciler(world, clock=lambda: now[0])
    await world.store.outbox.put(f"{world.run.id}/x", b"{}", Writer(world.run.id))
    await world.standin.suspend("you")
    tries = []
    for _ in range(200):
        before = len(world.standin.requests("POST", "/app/installations"))
        await reconciles._settle()
        if len(world.standin.requests("POST", "/app/installations")) > before:
            tries.append(now[0])
        now[0] += EVERY_SECONDS
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[:4] == [60, 120, 240, 480]
    assert max(gaps) == PATIENT_SECONDS


async def test_what_a_run_that_goes_on_left_pending_is_its_next_attempt_s(world: World) -> None:
    await world.store.outbox.put(f"{world.run.id}/x", b"{}", Writer(world.run.id))
    await reconciler(world)._settle()
    assert await world.store.outbox.pending(world.run.id) == (f"{world.run.id}/x",)
    assert (await world.store.runs.state(world.run.id)).fence == 0


async def test_one_run_that_cannot_be_told_keeps_no_other_waiting(world: World) -> None:
    other = world.run.model_copy(update={"id": "aaaaaaa2", "number": world.run.number + 7, "source": None})
    await world.store.runs.claim(other, "key")
    await world.store.runs.finish(other.id, 0, "consensus")
    await world.store.outbox.put(f"{other.id}/x", b"no intent at all", Writer(other.id))
    await ended_untold(world)
    await reconciler(world).once()
    assert world.check.status == "completed"
    assert await world.store.outbox.unsent() == (other.id,)


async def ended_untold(world: World) -> None:
    """End the run while GitHub is away: its conclusion is stored."""
    attempt = Attempt(world.office, world.run, await world.store.runs.begin_attempt(world.run.id))
    await attempt.give_up(Status.AGENT_ERROR, "this server could not reach GitHub for a day")


async def test_a_worker_that_leads_no_more_tells_nothing(world: World, redis: Redis) -> None:
    await ended_untold(world)
    ours = reconciler(world, name="ours")
    await redis.set(key("leader"), "another")
    await ours._settle()
    assert world.standin.check_runs(world.repo) == []
    await redis.delete(key("leader"))  # it was silent for 90 seconds
    await ours.once()
    assert world.check.status == "completed"


async def test_a_reconciler_that_stood_still_is_fenced_off(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await ended_untold(world)
    settle = Publisher.settle

    async def stands_still(publisher: Publisher, hidden: Any = None) -> None:
        await world.store.runs.begin_attempt(world.run.id)  # another one goes on meanwhile
        await settle(publisher, hidden)

    monkeypatch.setattr(Publisher, "settle", stands_still)
    await reconciler(world).once()
    assert world.standin.check_runs(world.repo) == []
    assert not [line for line in ("not reconciled", "not told") if line in caplog.text], (
        "it is another one's to tell, and nobody's fault"
    )


async def test_words_of_a_repository_that_became_public_are_not_told_later_either(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threats.md, input 68."""

    async def may_not(_: object) -> bool:
        return False

    await ended_untold(world)
    monkeypatch.setattr(World_, "may_show", may_not)
    await reconciler(world).once()
    assert (world.check.status, "became public" in (world.check.summary or "")) == ("completed", True)


async def test_intents_of_runs_that_nobody_knows_are_forgotten(world: World, redis: Redis) -> None:
    adding: Any = redis.sadd(key("unsent"), "nobody22")
    await adding
    await reconciler(world).once()
    assert await world.store.outbox.unsent() == ()


async def test_what_grows_slowly_is_looked_at_seldom(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []
    now = [0.0]

    async def trims(*_: object) -> None:
        looked.append(now[0])

    monkeypatch.setattr(reconcile, "trim_mirrors", trims)
    reconciles = reconciler(world, clock=lambda: now[0])
    for _ in range(130):
        await reconciles.once()
        now[0] += EVERY_SECONDS
    assert looked == [0.0, SELDOM_SECONDS, 2 * SELDOM_SECONDS]


async def test_a_large_installation_is_swept_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "SWEEP_STEPS", 2)
    for number in range(4):
        await world.standin.create_repository(f"you/more-{number}")
    reconciles = reconciler(world)
    listed = [0]
    for _ in range(8):
        await reconciles._orphans()
        listed.append(len(world.standin.requests("GET", "/repos/you")))
    assert listed[1] < listed[3] < listed[6], "it goes on where it stopped"
    assert len(world.standin.requests("GET", "/app/installations")) == 2, "and begins anew at the end"


async def test_its_end_leaves_the_lead_to_another(world: World, redis: Redis) -> None:
    task = asyncio.create_task(reconciler(world, name="a").run())
    async with asyncio.timeout(30):
        while await redis.get(key("leader")) != b"a":
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await world.store.upkeep.leads("b")
