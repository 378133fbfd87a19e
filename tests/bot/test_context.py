"""One place at GitHub that the bot is about to act on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.context import Scene, attempt, permission, pull, utc_now
from bot.github import Unavailable
from bot.intents import Answer


@pytest.fixture
def scene(world: Any) -> Scene:
    made: Scene = world.scene()
    return made


def test_times_are_whole_seconds_in_utc() -> None:
    assert utc_now().microsecond == 0
    assert utc_now().utcoffset() == timedelta(0)


async def test_without_a_comment_there_is_nobody_to_react_or_reply_to(world: Any, scene: Scene) -> None:
    publisher = await scene.publisher()
    await scene.react(publisher, "eyes")
    await scene.reply(publisher, "Hello")
    assert await scene.still_asked()
    assert world.replies() == []


async def test_a_reply_needs_no_more_than_a_reply_does(world: Any, scene: Scene) -> None:
    comment = await world.standin.comment(world.repo, world.number, "Hi", login="mona")
    world.standin.permissions.clear()
    world.standin.permissions.update({"issues": "write", "metadata": "read"})
    asked = replace(scene, comment_id=comment).replying()
    assert await asked.still_asked()
    await asked.reply(await asked.publisher(), "Hello")
    assert world.replies() == ["Hello"]


async def test_a_refusal_is_passed_over_and_an_absence_is_not(world: Any, scene: Scene) -> None:
    publisher = await scene.publisher()
    world.standin.fail_next("POST", "/repos", status=403)
    assert await attempt(publisher, Answer("a", world.number, "Hello")) is None
    world.standin.fail_next("POST", "/repos", status=502)
    with pytest.raises(Unavailable):
        await attempt(publisher, Answer("b", world.number, "Hello"))


async def test_what_a_webhook_told_of_may_be_there_a_little_later(world: Any, scene: Scene) -> None:
    world.standin.fail_next("GET", f"/repos/octo-org/tidebook/pulls/{world.number}", status=404)
    found = await pull(scene, world.number)
    assert found is not None
    comment = await world.standin.comment(world.repo, world.number, "Hi", login="mona")
    world.standin.fail_next("GET", f"/repos/octo-org/tidebook/issues/comments/{comment}", status=404)
    assert await replace(scene, comment_id=comment).still_asked()


async def test_a_permission_that_github_does_not_show_is_none(world: Any, scene: Scene) -> None:
    found = await permission(scene, "mona")
    assert found is not None
    assert found.writes
    world.standin.fail_next("GET", "/repos/octo-org/tidebook/collaborators", status=403)
    assert await permission(scene, "mona") is None


@pytest.mark.threat(67)
async def test_a_pull_request_of_another_repository_under_the_old_name_is_none_of_ours(
    world: Any, scene: Scene
) -> None:
    found = await pull(scene, world.number)
    assert found is not None
    assert found.number == world.number
    assert await pull(scene, 999) is None
    squatter = replace(scene, repository=replace(scene.repository, id=scene.repository.id + 1))
    assert await pull(squatter, world.number) is None
