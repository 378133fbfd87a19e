"""Tests that are run by `tests/contract/test_watch.py` alone: each begins with the end that it has to have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from deploy.standin import StandIn


@pytest.fixture
async def standin(tmp_path: Path) -> AsyncIterator[StandIn]:
    async with await StandIn.start(tmp_path) as started:
        await started.create_repository("octo/demo")
        yield started


async def ask(standin: StandIn, path: str) -> int:
    headers = {"Authorization": f"Bearer {standin.token('octo/demo')}"}
    url = f"{standin.api_url}/repos/octo/demo{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status


@pytest.fixture
async def late(standin: StandIn) -> AsyncIterator[None]:
    """Break the contract when the test is over."""
    yield
    await ask(standin, "/nowhere")


async def test_failed_by_a_request(standin: StandIn) -> None:
    assert await ask(standin, "/nowhere") == 404


@pytest.mark.breaks_contract("it has to")
async def test_passed_by_its_mark(standin: StandIn) -> None:
    assert await ask(standin, "/nowhere") == 404


@pytest.mark.breaks_contract("it had to, once")
async def test_failed_by_a_mark_without_a_reason(standin: StandIn) -> None:
    assert await ask(standin, "") == 200


@pytest.mark.breaks_contract("a mark is for requests")
async def test_failed_by_an_answer(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(standin._site.shapes), "full_repo", lambda *_: {"id": "1"})
    assert await ask(standin, "?unknown=1") == 200


async def test_failed_by_a_webhook(standin: StandIn) -> None:
    assert await standin.deliver("ping", {"zen": 5}) is not None


async def test_error_when_it_is_over(late: None) -> None:
    assert late is None


async def test_passed_after_others_failed(standin: StandIn) -> None:
    assert await ask(standin, "") == 200
