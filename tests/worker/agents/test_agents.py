"""The table of agents."""

from __future__ import annotations

import pytest

from bot.settings import Settings
from worker.agents import AGENTS, UnknownAgent, find, instead_of
from worker.gateway import APIS
from worker.tools import TOOLS


def test_who_runs_commands_has_a_box_with_all_that_it_needs() -> None:
    boxes = {agent.name: agent.box for agent in AGENTS.values() if agent.box}
    assert boxes.keys() == {"codex", "claude"}
    for box in boxes.values():
        assert box.tool in TOOLS
        assert box.api in APIS
        assert APIS[box.api].key in Settings.model_fields
        assert not box.sessions.startswith("/")


def test_an_agent_is_replaced_by_another_that_a_comment_may_seat() -> None:
    assert instead_of("lint") == ("codex", "claude")


def test_an_agent_is_found_by_its_name_and_its_argument() -> None:
    assert find("lint") == (AGENTS["lint"], "")
    assert find("scripted") == (AGENTS["scripted"], "")
    assert find("scripted:/tmp/a:b.json") == (AGENTS["scripted"], "/tmp/a:b.json")


@pytest.mark.parametrize("name", ["", "Lint", "gemini", ":x"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownAgent, match="the agents are codex, claude, lint, scripted"):
        find(name)


@pytest.mark.parametrize("name", ["lint:", "lint:x", "codex:gpt", "scripted:"])
def test_an_argument_where_none_is_taken_is_refused(name: str) -> None:
    with pytest.raises(UnknownAgent, match="without anything behind a colon"):
        find(name)
