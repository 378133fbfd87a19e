"""The store that tests use: a real server, one for each test process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from bot.store import Store
from deploy.store import EmbeddedStore


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Return the address of this process's own server; under pytest-xdist each process has one."""
    folder: Path = tmp_path_factory.mktemp("valkey")
    async with EmbeddedStore(folder) as url:
        yield url


@pytest_asyncio.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    """Return an empty store."""
    redis = Redis.from_url(valkey_url)
    await redis.flushall()
    await redis.aclose()
    opened = await Store.connect(valkey_url)
    yield opened
    await opened.close()
