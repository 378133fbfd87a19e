"""What an agent is asked, and what it answers with."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from worker import agents, turn


def test_the_room_hands_the_words_on() -> None:
    names = ("Run", "SessionGone", "TakeTurn", "TurnReply", "TurnRequest")
    assert all(getattr(agents, name) is getattr(turn, name) for name in names)


def test_what_starts_only_in_a_sandbox_finds_its_lodging_or_nothing() -> None:
    here = Path("/work")
    lodging = turn.Lodging(here / "program", here / "home", here / "tmp", "http://127.0.0.1:8080")
    request = turn.TurnRequest(
        run="7h2kq9xw",
        seat="reviewer",
        round=1,
        turn=1,
        brief="Review it.",
        schema=None,
        editing=False,
        tree=here / "tree",
        base=here / "base",
        notes=here / "notes",
        session=None,
        session_dir=here / "sessions",
        seconds=60,
    )
    assert replace(request, lodging=lodging).lodged is lodging
    with pytest.raises(LookupError, match="only in a sandbox"):
        _ = request.lodged


def test_a_reply_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        turn.TurnReply("x").text = "y"  # type: ignore[misc]
