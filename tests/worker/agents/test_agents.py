"""The table of agents."""

from __future__ import annotations

import pytest

from bot.config import AGENT_NAMES
from worker.agents import AGENTS, UnknownAgent, find, refusal


def test_the_table_holds_the_names_that_the_bot_knows() -> None:
    assert tuple(AGENTS) == AGENT_NAMES
    assert all(name == agent.name for name, agent in AGENTS.items())


def test_who_runs_commands_is_isolated_and_waits_for_isolation() -> None:
    isolated = {agent.name for agent in AGENTS.values() if agent.isolated}
    assert isolated == {"codex", "claude"}
    assert all(AGENTS[name].take_turn is None and AGENTS[name].provider for name in isolated)


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


def test_what_cannot_be_seated_says_why_and_what_to_do() -> None:
    assert refusal(AGENTS["codex"]) == ("this version has no isolation for agents yet, so codex does not start")
    assert refusal(AGENTS["lint"]) == ""
