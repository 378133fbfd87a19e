"""What is kept for an installation is found, and forgotten, together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.store import Branch, Store, Writer, installations
from bot.store.connection import PREFIX, key
from bot.store.ledger import Newest
from bot.store.runs import Person, Repository, Run
from bot.store.spending import Spending

MakeRun = Callable[..., Run]
TIDE, QUAY = Repository(id=100, full_name="harbour/tide"), Repository(id=10, full_name="quay/crane")


async def filled(store: Store, run: Run) -> None:
    """Leave everything that a run and its pull request leave in the store."""
    runs, where = store.runs, (run.repository.id, run.number)
    await runs.claim(run, "words")
    fence = await runs.begin_attempt(run.id)
    await runs.set_task(run.id, fence, "the task")
    await runs.set_progress(run.id, "{}")
    whose: dict[str, Any] = {"installation_id": run.installation_id, "day": dt.date(2026, 11, 30)}
    await store.spending.add(f"call-{run.id}", run.id, **whose, spent=Spending(calls=1))
    await store._gate.do("UNLINK", key("spent-call", f"call-{run.id}"))  # it knows nobody, and goes within the hour
    await store.journal(run.id, fence).put("/0", b"reply")
    await store.outbox.put(f"{run.id}/push/0", b"intent", Writer(run.id, fence))
    await store.outbox.partly(f"{run.id}/push/0", b"result", Writer(run.id, fence))
    await store.outbox.put(f"-/answer/{run.repository.id}/9", b"intent")
    await store.outbox.done(f"-/reaction/{run.repository.full_name}/9/eyes", b"result")
    await store.ledger.keep_finding(*where, used=3)
    await store.ledger.keep_newest(*where, Newest(run=run.id, folded="x"))
    await store.approvals.approve(*where, head_sha=run.head_sha, by=Person(id=5, login="mara"))
    await store.installations.heard(run.installation_id, run.repository.id, full_name=run.repository.full_name)
    for name in ("comment:{}:9", "pull:{}:12:opened:aaaa:2026", "once:no-permission:{}:12", "once:reply:{}:12:ab"):
        await runs.seen(name.format(run.repository.id), None, by="a")
    await store.outbox.done(f"unstarted-{run.repository.id}-12-aaaa/check/codex-debate", b"result")
    mine = {"run": run.id, "installation": run.installation_id, "repository": run.repository.id, "number": run.number}
    await store.upkeep.keep_branch(Branch.model_validate(mine | {"name": "x", "shas": ("a" * 40,), "until": 0.0}))


async def names(redis: Redis) -> set[str]:
    return {name.decode() for name in await redis.keys("*")}


async def test_the_runs_of_an_installation_are_found(store: Store, make_run: MakeRun) -> None:
    live, ended = make_run(), make_run(number=13)
    other = make_run(installation_id=8, repository=QUAY)
    for run in (live, ended, other):
        await store.runs.claim(run, "words")
    await store.runs.finish(ended.id, 0, "consensus")
    await store.installations.heard(7, 100, full_name="harbour/tide")
    kept = await store.installations.kept(7)
    assert (kept.live, kept.ended) == ((live.id,), (ended.id,))
    assert kept.repositories == {(100, "harbour/tide")}
    assert (await store.installations.kept(9)).live == ()


async def test_an_installation_is_forgotten_whole_and_no_other_is(
    store: Store, redis: Redis, make_run: MakeRun
) -> None:
    before = await names(redis)
    await filled(store, make_run(installation_id=8, repository=QUAY))
    others = await names(redis)
    await filled(store, make_run())
    mine = await names(redis) - others
    assert len(mine) >= 19
    assert await store.installations.forget(7, await store.installations.kept(7)) == len(mine)
    assert await names(redis) == others, "of the one nothing is left, of the other everything"
    (theirs,) = (await store.installations.kept(8)).live
    assert await store.runs.startable() == await store.outbox.unsent() == (theirs,)
    assert [each.run for each in await store.upkeep.branches()] == [theirs]
    assert before < others


async def test_a_repository_without_a_run_is_forgotten_too(store: Store, redis: Redis) -> None:
    await store.installations.heard(7, 100, full_name="harbour/tide")
    await store.runs.seen("comment:100:9", None, by="a")
    await store.outbox.put("-/answer/100/9", b"intent")
    await store.installations.forget(7, await store.installations.kept(7))
    assert await names(redis) - {f"{PREFIX}:pending:-", f"{PREFIX}:intents"} == set()


async def test_a_repository_that_was_transferred_belongs_to_the_newer_installation(
    store: Store, make_run: MakeRun
) -> None:
    await store.installations.heard(7, 100, full_name="harbour/tide")
    await filled(store, make_run(installation_id=8))
    await store.installations.forget(7, await store.installations.kept(7))
    holders = await store.runs.holders(100, 12)
    assert holders.running is not None
    assert await store.approvals.approver(100, 12, head_sha="a" * 40) is not None


async def test_more_keys_than_one_step_of_the_search_looks_at(
    store: Store, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installations, "SCAN_COUNT", 5)
    runs = [make_run(number=number) for number in range(1, 41)]
    for run in runs:
        await store.runs.claim(run, "words")
    kept = await store.installations.kept(7)
    assert sorted(kept.live) == sorted(run.id for run in runs)


async def test_nothing_kept_is_nothing_forgotten(store: Store, redis: Redis, make_run: MakeRun) -> None:
    await filled(store, make_run())
    before = await names(redis)
    assert await store.installations.forget(99, await store.installations.kept(99)) == 0
    assert await names(redis) == before
