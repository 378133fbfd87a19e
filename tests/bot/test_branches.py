"""Branches of ours are deleted past their time, over the stand-in, and those of others never."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bot.branches import AGAIN_SECONDS, delete_old
from bot.github import Unavailable
from bot.store import Branch

NAME = "codex-debate/pr-1/7h2kq9xw"


async def made(world: Any, **over: object) -> Branch:
    """Leave a branch of a run, whose time is over."""
    sha = await world.standin.commit(world.repo, NAME, {"a.txt": "three\n"}, parent="retry")
    fields: dict[str, object] = {
        "run": "7h2kq9xw",
        "installation": world.standin.installation_id(world.repo),
        "repository": world.repo.id,
        "number": world.number,
        "name": NAME,
        "shas": (sha,),
        "until": time.time() - 1,
    }
    branch = Branch.model_validate(fields | over)
    await world.store.upkeep.keep_branch(branch)
    return branch


async def there(world: Any) -> bool:
    return await world.standin.read_ref(world.repo, NAME) is not None


async def test_one_whose_time_is_over_goes(world: Any) -> None:
    await made(world)
    assert await delete_old(world.bot.app, world.store) == 1
    assert (await there(world), await world.store.upkeep.branches()) == (False, ())


async def test_one_whose_time_is_not_over_stays(world: Any) -> None:
    branch = await made(world, until=time.time() + 60)
    assert await delete_old(world.bot.app, world.store) == 0
    assert (await there(world), await world.store.upkeep.branches()) == (True, (branch,))


async def test_one_that_somebody_moved_is_somebody_s(world: Any) -> None:
    await made(world)
    await world.standin.commit(world.repo, NAME, {"a.txt": "by hand\n"})
    assert await delete_old(world.bot.app, world.store) == 0
    assert (await there(world), await world.store.upkeep.branches()) == (True, ())


async def test_one_that_is_gone_or_whose_repository_is_not_ours_is_forgotten(world: Any) -> None:
    await made(world)
    await world.standin.delete_branch(world.repo, NAME)
    assert await delete_old(world.bot.app, world.store) == 0
    await made(world)
    await world.standin.uninstall("octo-org")
    assert await delete_old(world.bot.app, world.store) == 0
    assert (await there(world), await world.store.upkeep.branches()) == (True, ())


async def test_a_renamed_repository_is_found(world: Any) -> None:
    await made(world)
    world.standin.rename_repository(world.repo, "octo-org/other")
    assert await delete_old(world.bot.app, world.store) == 1


async def test_what_github_refuses_is_tried_a_day_later_and_what_is_away_the_next_time(world: Any) -> None:
    await made(world)
    world.standin.archive_repository(world.repo)
    now = time.time()
    assert await delete_old(world.bot.app, world.store, now=now) == 0
    (kept,) = await world.store.upkeep.branches()
    assert kept.until == now + AGAIN_SECONDS
    world.standin.archive_repository(world.repo, archived=False)
    world.standin.fail_next("DELETE", "/repos", status=503)
    with pytest.raises(Unavailable):
        await delete_old(world.bot.app, world.store, now=kept.until + 1)
    assert await delete_old(world.bot.app, world.store, now=kept.until + 1) == 1


async def test_one_whose_last_push_never_came_is_still_ours(world: Any) -> None:
    branch = await made(world)
    await world.store.upkeep.keep_branch(branch.model_copy(update={"shas": (*branch.shas, "b" * 40)}))
    assert await delete_old(world.bot.app, world.store) == 1
    assert not await there(world)


async def test_one_of_a_closed_pull_request_goes_at_once_and_not_where_it_was_opened_again(world: Any) -> None:
    """An event may come three days late."""
    await made(world, until=time.time() + 60)
    await world.store.upkeep.close(world.repo.id, world.number)
    assert await delete_old(world.bot.app, world.store) == 0
    assert (await world.store.upkeep.closed(), await there(world)) == (frozenset(), True)
    await world.standin.close_pull_request(world.repo, world.number)
    await world.store.upkeep.close(world.repo.id, world.number)
    assert await delete_old(world.bot.app, world.store) == 1


async def test_one_that_a_run_works_on_stays(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    await made(world, run=run.id)
    await world.store.runs.begin_attempt(run.id)
    assert await delete_old(world.bot.app, world.store) == 0
    assert await there(world)


async def test_one_that_an_open_pull_request_comes_from_stays(world: Any) -> None:
    """It would be closed with its branch."""
    await made(world)
    second = await world.standin.open_pull_request(world.repo, NAME, "retry")
    assert await delete_old(world.bot.app, world.store) == 0
    assert await there(world)
    await world.standin.close_pull_request(world.repo, second)
    assert await delete_old(world.bot.app, world.store, now=time.time() + AGAIN_SECONDS + 60) == 1


async def test_one_that_fails_keeps_no_other_waiting(world: Any) -> None:
    await made(world)
    other = await world.standin.create_repository("zz-far/tide")
    await world.standin.commit(other, "main", {"a": "1"})
    await world.standin.commit(other, NAME, {"a": "2"}, parent="main")
    tip = await world.standin.read_ref(other, NAME)
    far = {"installation": world.standin.installation_id(other), "repository": other.id, "run": "zzzzzzz2"}
    (first,) = await world.store.upkeep.branches()
    await world.store.upkeep.keep_branch(first.model_copy(update={**far, "shas": (tip,)}))
    world.standin.fail_next("GET", f"/repos/{world.repo.full_name}", status=503, times=50)
    with pytest.raises(Unavailable):
        await delete_old(world.bot.app, world.store)
    assert await world.standin.read_ref(other, NAME) is None
