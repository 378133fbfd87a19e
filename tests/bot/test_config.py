"""Agents' names, and which of them a comment may name."""

from __future__ import annotations

from bot.config import AGENT_NAMES, COMMENT_AGENTS


def test_a_comment_may_not_name_the_scripted_agent() -> None:
    assert AGENT_NAMES == ("codex", "claude", "lint", "scripted")
    assert COMMENT_AGENTS == ("codex", "claude", "lint")
