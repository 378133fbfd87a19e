"""What the reconciler keeps."""

from __future__ import annotations

from redis.asyncio import Redis

from bot.store import Branch, Failed, Store
from bot.store.connection import key
from bot.store.upkeep import LEAD_SECONDS

FAILED = Failed(id=7, attempts=1, at=10.0, first=10.0)


def branch(run: str, **over: object) -> Branch:
    fields: dict[str, object] = {
        "run": run,
        "installation": 1,
        "repository": 100,
        "number": 12,
        "name": f"codex-debate/pr-12/{run}",
        "shas": ("a" * 40,),
        "until": 1000.0,
    }
    return Branch.model_validate(fields | over)


async def test_one_leads_until_it_resigns_or_is_silent(store: Store, redis: Redis) -> None:
    assert [await store.upkeep.leads(who) for who in ("a", "b", "a")] == [True, False, True]
    assert 0 < await redis.ttl(key("leader")) <= LEAD_SECONDS
    await store.upkeep.resign("b")
    assert not await store.upkeep.leads("b")
    await store.upkeep.resign("a")
    assert await store.upkeep.leads("b")
    await redis.delete(key("leader"))  # 90 seconds later
    assert await store.upkeep.leads("a")


async def test_failed_deliveries_are_known_by_their_guid(store: Store) -> None:
    assert (await store.upkeep.failed(), await store.upkeep.newest_delivery()) == ({}, 0)
    await store.upkeep.set_failed("one", FAILED)
    await store.upkeep.set_failed("two", FAILED)
    await store.upkeep.set_failed("two", None)
    await store.upkeep.set_newest_delivery(7)
    assert (await store.upkeep.failed(), await store.upkeep.newest_delivery()) == ({"one": FAILED}, 7)


async def test_branches_of_a_closed_pull_request_are_marked(store: Store) -> None:
    mine, other, elsewhere = branch("one"), branch("two", number=13), branch("three", repository=101)
    for each in (mine, other, elsewhere):
        await store.upkeep.keep_branch(each)
    await store.upkeep.close(100, 12)
    await store.upkeep.keep_branch(branch("one", shas=("b" * 40,)))  # pushed to at the same time
    assert await store.upkeep.closed() == {"one"}
    assert await store.upkeep.branch("two") == other
    await store.upkeep.forget_branch("one")
    assert await store.upkeep.closed() == frozenset()
    assert await store.upkeep.branch("one") is None
    assert {each.run for each in await store.upkeep.branches()} == {"two", "three"}
