"""The pipeline that stories run over: one for the process, and a repository for each story."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from telling import Story, no_sleep

from deploy.machine import Machine, machine

NUMBERS = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scenario_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file from which both scripted seats play; each story writes its own scenario into it."""
    return tmp_path_factory.mktemp("scenario") / "scenario.json"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory, scenario_path: Path) -> AsyncIterator[Machine]:
    """Return the pipeline: store, stand-in GitHub, bot and worker, with scripted agents in both seats."""
    seat = f"scripted:{scenario_path}"

    async with machine(tmp_path_factory.mktemp("machine"), sleep=no_sleep, reviewer=seat, author=seat) as made:
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
