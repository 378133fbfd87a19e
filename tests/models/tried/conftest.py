"""A server, and the real programs that are pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from scripted_models import ModelServer
from scripted_models.asking import Asking
from scripted_models.programs import Claude, Codex


@pytest_asyncio.fixture
async def models() -> AsyncIterator[ModelServer]:
    """Return a running server."""
    async with ModelServer.start() as server:
        yield server


@pytest.fixture
def codex(tmp_path: Path, models: ModelServer) -> Codex:
    """Return codex, ready to be asked."""
    return Codex(tmp_path, models)


@pytest.fixture
def claude(tmp_path: Path, models: ModelServer) -> Claude:
    """Return claude, ready to be asked."""
    return Claude(tmp_path, models)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


@pytest.fixture
def ask(client: aiohttp.ClientSession, models: ModelServer) -> Asking:
    return Asking(client, models)
