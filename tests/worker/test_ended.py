"""The ends that no debate decides."""

from __future__ import annotations

from bot.statuses import TABLE, Status
from worker.ended import BY_CANCEL, Ended


def test_an_end_says_why() -> None:
    assert str(Ended(Status.CLOSED)) == "closed"
    assert str(Ended(Status.GIT_REFUSED, "git refuses x")) == "git refuses x"


def test_a_cancel_ends_a_run_as_cancelled() -> None:
    """decisions.md 1.7: shutdown and a lost lease end an attempt, not a run."""
    assert {TABLE[status].conclusion for status in BY_CANCEL.values()} == {"cancelled"}
    assert not {"shutdown", "lost-lease"} & set(BY_CANCEL)
