"""A report is a frozen value: equal where its parts are, and changed by making another."""

from __future__ import annotations

import dataclasses

import pytest

from worker.outputs.report import Report


def test_a_report_is_a_value(consensus: Report) -> None:
    assert dataclasses.replace(consensus) == consensus
    with pytest.raises(dataclasses.FrozenInstanceError):
        consensus.pushed = False  # type: ignore[misc] # what is tested


def test_a_report_begins_under_way_and_with_nothing(consensus: Report) -> None:
    fresh = Report(consensus.task, consensus.record)
    assert fresh.status is None
    assert not any([fresh.pushed, fresh.tip, fresh.patch, fresh.live, fresh.diff_lines])
