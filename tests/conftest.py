"""What all tests have: a real store, one for each test process, and the contract with GitHub, which holds in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from bot.store import Store
from deploy.store import EmbeddedStore
from github_contract import Watch

WATCH = Watch()
NEVER_SKIPPED = {"worker", "stories", "models"}
"""Folders of tests in which sandboxes and agents are tried."""


@pytest.fixture(scope="session", autouse=True)
def contract_with_github() -> Iterator[None]:
    """Hold every stand-in of this process to GitHub's own description."""
    with WATCH.everywhere():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail the test that broke the contract."""
    yield
    WATCH.judge(item, over=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Count what happened since then, too: fixtures end their work here, and a failed test's own is told."""
    try:
        yield
    finally:
        WATCH.judge(item, over=True)


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


@pytest_asyncio.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    """Return a bare connection, to look at what the store wrote."""
    client = Redis.from_url(valkey_url)
    yield client
    await client.aclose()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test of sandboxes or agents that is skipped: what was not tried does not hold (threats.md 4.8)."""
    report = yield
    if report.skipped and NEVER_SKIPPED & set(item.path.parts):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and nothing here may be: {report.longrepr}"
    return report
