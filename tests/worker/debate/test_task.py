"""The frozen Task."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from worker.debate.task import ChangedFile, Limits, Seat, Task

TASK = Task(
    run="7h2kq9xw",
    kind="review",
    created_at=datetime(2026, 3, 11, tzinfo=UTC),
    repository="tidemark-coop/tidebook",
    server_url="https://github.com",
    number=412,
    title="t",
    body="",
    head_sha="a" * 40,
    head_ref="retry-renewals",
    base_ref="main",
    merge_base="b" * 40,
    head_tree="c" * 40,
    seats={"reviewer": Seat(agent="codex")},
    limits=Limits(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
    files=(ChangedFile(status="M", path="a.py", size=1),),
)


def test_a_task_is_stored_as_it_is() -> None:
    assert Task.model_validate_json(TASK.model_dump_json()) == TASK


def test_nothing_changes_a_task_and_nothing_unknown_gets_into_it() -> None:
    with pytest.raises(ValidationError):
        TASK.number = 1  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Task.model_validate({**TASK.model_dump(), "more": 1})


def test_a_run_has_a_branch_of_its_own() -> None:
    assert TASK.branch == "codex-debate/pr-412/7h2kq9xw"
