"""The worker as one process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from bot.github import WORKERS_WRITES, AppClient
from bot.github.limits import WRITES
from bot.settings import Settings
from bot.store import Store
from worker import main
from worker.job import Office
from worker.main import run_worker, take_run


def settings(tmp_path: Path, **over: str) -> Settings:
    return Settings.model_validate({"state_dir": tmp_path / "state", "github_app_id": "1"} | over)


async def test_it_takes_runs_until_it_is_told_to_stop(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, taken = asyncio.Event(), list[str]()

    async def debate(office: Office, run_id: str) -> None:
        assert office.store is store
        taken.append(run_id)
        stop.set()

    monkeypatch.setattr(main, "debate", debate)
    await store.queue.enqueue_run("7h2kq9xw")
    await run_worker(settings(tmp_path), store, stop=stop)
    assert taken == ["7h2kq9xw"]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o711


async def test_it_leaves_room_for_what_people_wait_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """decisions.md 9: progress takes a part of the writes; 👀 and answers never stand behind it for long."""
    given: list[object] = []

    class Watched(AppClient):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            given.append((options["pacer"], options["writes"]))
            super().__init__(*arguments, **options)

    stop = asyncio.Event()
    stop.set()
    monkeypatch.setattr(main, "AppClient", Watched)
    await run_worker(settings(tmp_path), store, stop=stop)
    assert given == [(store.pace, WORKERS_WRITES)]
    for (part, seconds), (whole, same) in zip(WORKERS_WRITES.windows, WRITES.windows, strict=True):
        assert (part < whole, seconds) == (True, same)
    assert WORKERS_WRITES.most < WRITES.most


async def test_it_says_at_the_start_which_seat_it_cannot_fill(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    stop.set()
    with caplog.at_level(logging.WARNING):
        await run_worker(settings(tmp_path, author="lint"), store, stop=stop)
    assert "CODEX_DEBATE_REVIEWER" in caplog.text
    assert "no isolation for agents yet" in caplog.text
    assert "CODEX_DEBATE_AUTHOR" not in caplog.text


async def test_a_job_is_an_attempt(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def debate(office: object, run_id: str) -> None:
        seen.extend((office, run_id))

    monkeypatch.setattr(main, "debate", debate)
    await take_run({"office": "office"}, "run")
    assert seen == ["office", "run"]
