"""A run's repository on the server, over the stand-in: what is fetched and pushed, and what a missing branch means."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.intents import Push
from bot.statuses import Status
from tests.worker.conftest import World
from worker.agents import AGENTS
from worker.ended import Ended
from worker.git import GitFailed
from worker.origin import Origin


async def origin(world: World) -> Origin:
    office = world.office
    mirror = await office.mirrors.of(world.repo.id)
    github = office.app.installation(world.run.installation_id, world.repo.id)
    return Origin(world.run, mirror, app=office.app, github=github, settings=office.settings)


async def test_a_plain_merge_of_the_base_is_no_other_head(world: World, tmp_path: Path) -> None:
    there = await origin(world)
    await world.standin.commit(world.repo, "main", {"b.txt": "base\n"})
    merged = await world.standin.update_branch(world.repo, world.run.number)
    assert await there.only_merged(merged)
    await there.fetch()
    task = await there.check_out(tmp_path / "run", reviewer=AGENTS["scripted"])
    assert task.head_sha == world.run.head_sha
    assert [each.path for each in task.files] == ["a.txt"]


async def test_a_merge_that_brings_more_is_another_head(world: World) -> None:
    there = await origin(world)
    await world.standin.commit(world.repo, "main", {"b.txt": "base\n"})
    evil = await world.standin.update_branch(world.repo, world.run.number, files={"c.txt": "evil\n"})
    assert not await there.only_merged(evil)
    with pytest.raises(Ended) as end:
        await there.fetch()
    assert end.value.status is Status.SUPERSEDED


async def test_a_push_that_is_refused_says_why(world: World) -> None:
    there = await origin(world)
    await there.fetch()
    intent = Push(world.run.id, "/1", "refs/heads/codex-debate/x", "a" * 40, world.run.head_sha, b"", b"")
    assert await there.push(intent) == ""
    assert await world.standin.read_ref(world.repo, "codex-debate/x") == world.run.head_sha
    world.standin.protect_branch(world.repo, "codex-debate/*", "Nobody may.")
    other = Push(world.run.id, "/2", "refs/heads/codex-debate/y", "a" * 40, world.run.head_sha, b"", b"")
    assert "Nobody may." in await there.push(other)


async def test_git_alone_is_not_believed_that_the_base_is_gone(world: World) -> None:
    there = await origin(world)
    there.run = world.run.model_copy(update={"number": 99})
    with pytest.raises(GitFailed):
        await there.fetch()
    there.run = world.run.model_copy(update={"base_ref": "gone"})
    with pytest.raises(Ended) as end:
        await there.fetch()
    assert end.value.status is Status.MERGE_BASE_ERROR
