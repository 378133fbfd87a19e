"""What a repository and an operator may choose: the agents' names and who sits where by default. Pure.

The repository's own file, `.github/codex-debate.yml`, is not read in this version. The names stand here so that the bot
can judge a flag without knowing how an agent is started; a test holds them equal to the worker's table.
"""

from __future__ import annotations

AGENT_NAMES = ("codex", "claude", "lint", "scripted")
"""Every agent that can be named anywhere."""

OPERATOR_AGENTS = frozenset({"scripted"})
"""Agents that only the operator may seat: never a comment, never a repository (decisions.md 3.1)."""

COMMENT_AGENTS = tuple(name for name in AGENT_NAMES if name not in OPERATOR_AGENTS)
"""The agents that a comment may name."""
