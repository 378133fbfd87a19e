"""The one table of statuses (interface.md 6): how each way a debate can end is concluded, shown and returned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a run ended."""

    CONSENSUS = "consensus"
    COMMIT_INCOMPLETE = "commit-incomplete"
    SECTION_INCOMPLETE = "section-incomplete"
    UNRESOLVED = "unresolved"
    SKIPPED = "skipped"
    NOTHING_TO_REVIEW = "nothing-to-review"
    WAITING_APPROVAL = "waiting-approval"
    BAD_CONFIG = "bad-config"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    CLOSED = "closed"
    AUTHORISATION_WITHDRAWN = "authorisation-withdrawn"
    REVIEWER_ERROR = "reviewer-error"
    AGENT_ERROR = "agent-error"
    MERGE_BASE_ERROR = "merge-base-error"
    GIT_REFUSED = "git-refused"
    ISOLATION_UNAVAILABLE = "isolation-unavailable"
    STATE_LOST = "state-lost"
    TIMED_OUT = "timed-out"


CHECK_NAME = "codex-debate"
"""The name of a review's check runs (interface.md 7)."""
GATE = "gate"
"""Stands for the repository's `gate:` setting, which is action_required unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    conclusion: str
    """GitHub's word for a check run, or `GATE`. Consensus is decided by what this commit lacks (interface.md 7)."""
    exit_code: int
    """What `codex-debate try` returns."""


TABLE: dict[Status, Row] = {
    Status.CONSENSUS: Row("success", 0),
    Status.COMMIT_INCOMPLETE: Row(GATE, 2),
    Status.SECTION_INCOMPLETE: Row(GATE, 2),
    Status.UNRESOLVED: Row(GATE, 2),
    Status.SKIPPED: Row("skipped", 1),
    Status.NOTHING_TO_REVIEW: Row("skipped", 1),
    Status.WAITING_APPROVAL: Row("neutral", 1),
    Status.BAD_CONFIG: Row("neutral", 1),
    Status.SUPERSEDED: Row("cancelled", 1),
    Status.STOPPED: Row("cancelled", 1),
    Status.CLOSED: Row("cancelled", 1),
    Status.AUTHORISATION_WITHDRAWN: Row("cancelled", 1),
    Status.REVIEWER_ERROR: Row("failure", 1),
    Status.AGENT_ERROR: Row("failure", 1),
    Status.MERGE_BASE_ERROR: Row("failure", 1),
    Status.GIT_REFUSED: Row("failure", 1),
    Status.ISOLATION_UNAVAILABLE: Row("failure", 1),
    Status.STATE_LOST: Row("failure", 1),
    Status.TIMED_OUT: Row("timed_out", 1),
}
