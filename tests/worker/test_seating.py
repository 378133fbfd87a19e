"""Filling the seats of a run: before anything is asked of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.settings import Settings
from bot.statuses import Status
from bot.store import Store
from bot.store.runs import SeatChoice
from tests.worker.conftest import make_run, quarters
from worker.ended import Ended
from worker.isolation import Isolation, IsolationMissing
from worker.seating import seated
from worker.tools import TOOLS, Tool

KEYS = {"openai_api_key": "sk-1", "anthropic_api_key": "sk-2"}


def settings(tmp_path: Path, **over: object) -> Settings:
    return Settings.model_validate({"state_dir": tmp_path} | over)


async def refused(known: Settings, store: Store, **seats: str) -> Ended:
    with pytest.raises(Ended) as ended:
        async with seated(quarters(known, store), make_run("a" * 40, seats=choice(**seats)), day_usd=1.0):
            pytest.fail("a seat was filled that cannot be")
    return ended.value


def choice(reviewer: str = "codex", author: str = "claude") -> dict[str, SeatChoice]:
    return {"reviewer": SeatChoice(agent=reviewer), "author": SeatChoice(agent=author)}


async def test_agents_that_need_nothing_are_put_up_nowhere(tmp_path: Path, store: Store) -> None:
    lint = make_run("a" * 40, seats=choice("lint", "lint"))
    async with seated(quarters(settings(tmp_path), store), lint, day_usd=1.0) as lodgings:
        assert lodgings is None
    assert not (tmp_path / "slots").exists()


@pytest.mark.parametrize(
    ("keys", "seat", "status", "name"),
    [
        ({}, "reviewer", Status.REVIEWER_ERROR, "codex has no key: OPENAI_API_KEY"),
        ({"openai_api_key": "sk-1"}, "author", Status.AGENT_ERROR, "claude has no key: ANTHROPIC_API_KEY"),
    ],
)
async def test_a_missing_key_names_its_setting(
    tmp_path: Path, store: Store, keys: dict[str, str], seat: str, status: Status, name: str
) -> None:
    end = await refused(settings(tmp_path, **keys), store)
    assert (end.status, end.failed_seat, end.reason) == (status, seat, f"{name} is not set")
    assert end.hint.startswith("on this server, set ")


async def test_an_agent_that_nobody_knows(tmp_path: Path, store: Store) -> None:
    end = await refused(settings(tmp_path, **KEYS), store, reviewer="gemini")
    assert end.status is Status.REVIEWER_ERROR
    assert end.reason.startswith("there is no agent 'gemini'; the agents are codex, claude")


async def test_a_program_that_is_not_installed(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOOLS, "codex", Tool("no-such-package", "1", "codex", ("codex",)))
    end = await refused(settings(tmp_path, **KEYS), store)
    assert (end.status, end.reason) == (Status.REVIEWER_ERROR, "the program codex is not installed")
    assert "pip install 'codex-debate[agents]'" in end.hint


async def test_a_machine_without_isolation(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(*_: object) -> None:
        raise IsolationMissing("user namespaces", "user namespaces are off for this user", "allow them")

    monkeypatch.setattr(Isolation, "prove", missing)
    end = await refused(settings(tmp_path, **KEYS), store)
    assert (end.status, end.reason) == (Status.ISOLATION_UNAVAILABLE, "user namespaces are off for this user")
    assert end.hint == "on this server, allow them; or write `/codex-debate review --reviewer lint --author lint`"
