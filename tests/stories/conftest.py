"""The pipeline that stories run over, one for the process and a repository for each, and the court that judges them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from oracles import leftovers
from oracles.court import FAILED, Court, judge
from oracles.violations import Violation
from telling import Story, no_sleep

from deploy.machine import Machine, machine

NUMBERS = itertools.count(1)
COURT = Court()
KEYS = {"openai_api_key": "sk-scripted-canary-41d07e", "anthropic_api_key": "sk-ant-scripted-canary-9ba2f6"}
"""Keys that no scripted agent uses, and that show nowhere."""
NOBODY = {"openai_base_url": "http://127.0.0.1:9/v1", "anthropic_base_url": "http://127.0.0.1:9"}
"""Where nobody would answer if they did."""


# ---- The oracles ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home of the worker's own, with files in it that programs like to read and to write."""
    folder = tmp_path_factory.mktemp("home")
    for name in (".gitconfig", ".claude.json", ".codex/config.toml", ".config/codex-debate", ".netrc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


@pytest.fixture(scope="session", autouse=True)
def court(home: Path) -> Iterator[Court]:
    """Return the court; what is looked at once, system and home, and what the last places leave, is judged here."""
    roots = (*leftovers.SYSTEM, home)
    before = leftovers.listing(roots)
    COURT.calls.begin()
    COURT.calls.listening = False
    with COURT.everywhere():
        yield COURT
    changed = leftovers.differences(before, leftovers.listing(roots))
    judge([*COURT.found, *(Violation("O3", words) for words in changed)], [])


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def judged(court: Court, home: Path, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Judge every test of this folder when it is over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(home))
        async with court.hearing(request.node):
            yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which test has failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


# ---- The pipeline ---------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scenario_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file from which both scripted seats play; each story writes its own scenario into it."""
    return tmp_path_factory.mktemp("scenario") / "scenario.json"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(
    court: Court, tmp_path_factory: pytest.TempPathFactory, scenario_path: Path
) -> AsyncIterator[Machine]:
    """Return the pipeline: store, stand-in GitHub, bot and worker, with scripted agents in both seats."""
    seats: dict[str, Any] = dict.fromkeys(("reviewer", "author"), f"scripted:{scenario_path}")
    folder = tmp_path_factory.mktemp("machine")

    async with machine(folder, sleep=no_sleep, **seats | KEYS | NOBODY) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def story(
    running: Machine, scenario_path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Story]:
    """Return a story with a repository of its own, named after the test."""
    name = re.sub("[^A-Za-z0-9]+", "-", request.node.name)[:80]
    number = next(NUMBERS)
    # An owner of its own, and so an installation: writes are paced for each (decisions.md 9).
    repo = await running.github.create_repository(f"owner-{number}/{name}-{number}")
    yield Story(running, scenario_path, tmp_path / "briefs", repo)
