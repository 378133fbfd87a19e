"""The table of agents: which programs can sit in a seat.

It owns the table `AGENTS` and how an agent is found by its name. What a turn is stands in `worker/turn.py`, and is
handed on from here. An agent starts programs only through the `run` that it is handed, and never parses what the debate
means by its reply.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.config import COMMENT_AGENTS
from worker.agents import claude, codex, lint, scripted
from worker.turn import Box, Run, SessionGone, TakeTurn, TurnReply, TurnRequest

__all__ = [
    "AGENTS",
    "Agent",
    "Run",
    "SessionGone",
    "TakeTurn",
    "TurnReply",
    "TurnRequest",
    "UnknownAgent",
    "find",
    "instead_of",
]


class UnknownAgent(ValueError):  # noqa: N818 - the sentence is the reply to a person's choice
    """No agent goes by that name. ``str(error)`` is a sentence for people that names those there are."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A program that can sit in a seat."""

    name: str
    take_turn: TakeTurn
    box: Box | None = None
    """What it needs in a sandbox: it runs commands of its own choice and never starts without one. None: it runs
    nothing of the change, and needs none."""
    takes_argument: bool = False
    reads: tuple[str, ...] = ()
    """Endings of the files that it can judge; empty: it judges any."""


AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent("codex", take_turn=codex.take_turn, box=codex.BOX),
        Agent("claude", take_turn=claude.take_turn, box=claude.BOX),
        Agent("lint", take_turn=lint.take_turn, reads=lint.ENDINGS),
        Agent("scripted", take_turn=scripted.take_turn, takes_argument=True),
    )
}
"""Every agent by its name. The names are those of `bot.config.AGENT_NAMES`."""


def find(name: str) -> tuple[Agent, str]:
    """Return the agent that ``name`` or ``name:argument`` means, and the argument (empty without one).

    Raises `UnknownAgent` for a name that the table does not hold, and for an argument where the agent takes none.
    """
    word, colon, argument = name.partition(":")
    agent = AGENTS.get(word)
    if agent is None:
        raise UnknownAgent(f"there is no agent {word!r}; the agents are {', '.join(AGENTS)}")
    if colon and not (agent.takes_argument and argument):
        raise UnknownAgent(f"the agent {word} is named without anything behind a colon")
    return agent, argument


def instead_of(name: str) -> tuple[str, ...]:
    """Return the agents that a comment may seat in another's place."""
    return tuple(each for each in COMMENT_AGENTS if each != name)
