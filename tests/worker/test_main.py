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
from bot.store import Lease, Store
from deploy.pricing import prices as shipped
from worker import main
from worker.attempt import Office
from worker.gateway import Gateway
from worker.isolation import Isolation
from worker.main import Supplies, lacking, run_worker, take_run
from worker.quarters import Programs, Quarters
from worker.reconcile import Reconciler

SUPPLIES = Supplies(shipped(Path("/none")))


def settings(tmp_path: Path, **over: str) -> Settings:
    return Settings.model_validate({"state_dir": tmp_path / "state", "github_app_id": "1"} | over)


async def test_it_takes_runs_until_it_is_told_to_stop(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, taken = asyncio.Event(), list[str]()

    async def debate(office: Office, run_id: str, lease: Lease) -> None:
        assert (office.store, lease.reason) == (store, None)
        taken.append(run_id)
        stop.set()

    monkeypatch.setattr(main, "debate", debate)
    await store.queue.enqueue_run("7h2kq9xw")
    await run_worker(settings(tmp_path), store, SUPPLIES, stop=stop)
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
    await run_worker(settings(tmp_path), store, SUPPLIES, stop=stop)
    assert given == [(store.pace, WORKERS_WRITES)]
    for (part, seconds), (whole, same) in zip(WORKERS_WRITES.windows, WRITES.windows, strict=True):
        assert (part < whole, seconds) == (True, same)
    assert WORKERS_WRITES.most < WRITES.most


async def test_it_says_what_it_lacks_and_takes_it_back_at_its_end(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    with caplog.at_level(logging.WARNING):
        task = asyncio.create_task(run_worker(settings(tmp_path, author="lint"), store, SUPPLIES, stop=stop))
        while not (lacks := await store.health.lacks()):
            await asyncio.sleep(0.01)
        stop.set()
        await task
    assert lacks[0] == (
        "The reviewer cannot be seated: codex has no key: OPENAI_API_KEY is not set. To repair it: set OPENAI_API_KEY."
    )
    assert not [each for each in lacks if "author" in each]
    assert "OPENAI_API_KEY is not set" in caplog.text
    assert await store.health.lacks() == ()


async def test_it_reconciles_from_its_start_on(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = asyncio.Event()

    async def once(reconciler: Reconciler) -> None:
        assert (reconciler.store, reconciler.state) == (store, tmp_path / "state")
        stop.set()

    monkeypatch.setattr(Reconciler, "once", once)
    await asyncio.wait_for(run_worker(settings(tmp_path), store, SUPPLIES, stop=stop), 30)


async def test_a_worker_whose_seats_need_nothing_lacks_nothing(store: Store, tmp_path: Path) -> None:
    async with Gateway({}, tmp_path / "gateway", prices=SUPPLIES.prices, spending=store.spending) as gateway:
        known = settings(tmp_path, reviewer="lint", author="lint")
        quarters = Quarters(Programs(known, tmp_path / "tools"), Isolation(tmp_path / "nowhere"), gateway)
        assert await lacking(quarters, known) == ()


async def test_a_job_is_an_attempt(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def debate(*what: object) -> None:
        seen.extend(what)

    monkeypatch.setattr(main, "debate", debate)
    await take_run({"office": "office", "lease": "lease"}, "run")
    assert seen == ["office", "run", "lease"]
