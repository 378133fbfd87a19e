"""Beginning a debate: what is claimed, shown and handed on, and what is told of the one in the way."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("progress", [None, "{", "[]", '{"round": "2"}', '{"round": 0}'])
async def test_a_running_debate_of_which_little_is_known(world: Any, progress: str | None) -> None:
    await world.say("/codex-debate")
    if progress is not None:
        await world.store.runs.set_progress((await world.started()).id, progress)
    await world.say("/codex-debate review --no-commit")
    assert world.replies()[0].startswith("A review is running: minute 1 ([check run](")
