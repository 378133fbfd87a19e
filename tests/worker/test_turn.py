"""What an agent is asked, and what it answers with."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from worker import agents, turn


def test_the_room_hands_the_words_on() -> None:
    names = ("Run", "SessionGone", "TakeTurn", "TurnReply", "TurnRequest")
    assert all(getattr(agents, name) is getattr(turn, name) for name in names)


def test_a_reply_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        turn.TurnReply("x").text = "y"  # type: ignore[misc]
