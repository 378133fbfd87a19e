"""What a repository says about itself, read from the right place."""

from __future__ import annotations

from typing import Any

import pytest

from bot.config import Auto, BadConfig, Config
from bot.context import Scene
from bot.repository import config_of, served

AUTO = Config(auto=Auto(on=("opened",)))


@pytest.fixture
def scene(world: Any) -> Scene:
    made: Scene = world.scene()
    return made


async def test_no_branch_and_no_file_say_nothing(scene: Scene) -> None:
    assert await config_of(scene, "main") is None
    assert await config_of(scene, "nowhere") is None


async def test_each_branch_has_its_own(world: Any, scene: Scene) -> None:
    await world.standin.commit(world.repo, "dev", {"d.txt": "d\n"}, parent="main")
    await world.configure("auto: {on: [opened]}\n", branch="dev")
    assert await config_of(scene, "dev") == AUTO
    assert await config_of(scene, "main") is None


async def test_a_branch_is_read_and_not_a_tag_of_its_name(world: Any, scene: Scene) -> None:
    await world.configure("auto: {on: [opened]}\n")
    await world.standin.commit(world.repo, "dev", {".github/codex-debate.yml": "auto: {}\n"}, parent="main")
    dev = await world.standin.read_ref(world.repo, "dev")
    await world.standin.create_tag(world.repo, "main", dev)
    assert await config_of(scene, "main") == AUTO


async def test_what_is_no_file_is_a_fault(world: Any, scene: Scene) -> None:
    await world.standin.commit(world.repo, "main", {".github/codex-debate.yml/x": "a folder\n"})
    found = await config_of(scene, "main")
    assert found == BadConfig(1, ".github/codex-debate.yml is no file of at most a megabyte")


async def test_without_a_list_the_app_owners_account_is_served(world: Any, scene: Scene) -> None:
    owner = world.standin.issue(world.repo, world.number).author_id
    assert await served(scene, owner)
    assert not await served(scene, owner + 1)
    world.use(allow=("octo-*",))
    assert await served(world.scene(), owner + 1)
