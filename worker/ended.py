"""The ends of a run that no debate decides: the world moved, the worker may not start, git refuses."""

from __future__ import annotations

from bot.statuses import Status


class Ended(Exception):  # noqa: N818 - it is an end, and is told as one; most are nobody's error
    """A run is over for a reason outside its debate."""

    def __init__(self, status: Status, reason: str = "", *, hint: str = "", failed_seat: str = "") -> None:
        """`reason` and `hint` are sentences for people: what happened, and what to do next."""
        super().__init__(reason or status.value)
        self.status = status
        self.reason = reason
        self.hint = hint
        self.failed_seat = failed_seat


RETARGETED = "the base branch of the pull request was changed"
"""Why a run is superseded whose pull request was given another base (threats.md, input 72)."""

ARCHIVED = "the repository was archived"
"""Why a run is closed whose repository takes no writes any more (threats.md R9)."""
FORK_GONE = "the fork that the pull request comes from was deleted"
"""Why a run is closed whose changes have no place to go any more (threats.md R9)."""
TRANSFERRED = "the repository or this App changed hands"
"""Why a run ends whose repository belongs to another installation now: who may command there is another question."""

BY_CANCEL = {
    "stopped": Status.STOPPED,
    "superseded": Status.SUPERSEDED,
    "closed": Status.CLOSED,
    "withdrawn": Status.AUTHORISATION_WITHDRAWN,
}
"""The written reasons of a cancel that end a run, and their status (decisions.md 1.7). Shutdown and a lost lease end
an attempt only."""
