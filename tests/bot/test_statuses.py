"""The one table of statuses says something about every status, in GitHub's words."""

from __future__ import annotations

import pytest

from bot.statuses import GATE, TABLE, Status

CONCLUSIONS = {"action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out", GATE}


def test_every_status_has_one_row() -> None:
    assert list(TABLE) == list(Status)


@pytest.mark.parametrize("status", Status)
def test_a_row_speaks_githubs_words_and_returns_a_known_code(status: Status) -> None:
    assert TABLE[status].conclusion in CONCLUSIONS
    assert TABLE[status].exit_code in {0, 1, 2}


def test_only_agreement_returns_nought() -> None:
    assert [status for status in Status if TABLE[status].exit_code == 0] == [Status.CONSENSUS]


def test_only_agreement_may_be_a_success() -> None:
    assert [status for status in Status if TABLE[status].conclusion == "success"] == [Status.CONSENSUS]


def test_what_a_person_must_decide_follows_the_gate() -> None:
    gated = {status for status in Status if TABLE[status].conclusion == GATE}
    assert gated == {Status.COMMIT_INCOMPLETE, Status.SECTION_INCOMPLETE, Status.UNRESOLVED}
    assert {TABLE[status].exit_code for status in gated} == {2}
