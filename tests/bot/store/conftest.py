"""Runs for the store's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bot.store.runs import Ceilings, Person, Repository, Run, SeatChoice, Source
from deploy.store import EmbeddedStore

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run() -> MakeRun:
    """Return a maker of runs that differ; what a test cares about it says itself."""
    numbers = count(1)

    def make(**fields: Any) -> Run:
        number = next(numbers)
        made: dict[str, Any] = {
            "id": f"run{number}",
            "kind": "review",
            "created_at": datetime(2026, 12, 1, 9, 0, tzinfo=UTC),
            "installation_id": 7,
            "repository": Repository(id=100, full_name="harbour/tide"),
            "number": 12,
            "title": "Retry renewals",
            "body": "",
            "head_sha": "a" * 40,
            "head_ref": "retry",
            "base_ref": "main",
            "own_base": "main",
            "authority": Person(id=5, login="mara"),
            "requester": Person(id=5, login="mara"),
            "source": Source(comment_id=1000 + number, text="/codex-debate review"),
            "seats": {"reviewer": SeatChoice(agent="lint"), "author": SeatChoice(agent="lint")},
            "ceilings": Ceilings(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
        }
        return Run(**(made | fields))

    return make


@pytest_asyncio.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[str]:
    """Return the address of a server that a test may stop or spoil."""
    async with EmbeddedStore(tmp_path / "own") as url:
        yield url
