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
