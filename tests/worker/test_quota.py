"""What a program leaves on the disk while it runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from worker import quota
from worker.quota import OverQuota, measured, within_quota


async def writes(folder: Path, size: int) -> str:
    for number in range(size):
        (folder / f"{number}").write_bytes(os.urandom(1 << 20))
        await asyncio.sleep(0.01)
    return "done"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "GROWTH_BYTES", 20 << 20)
    monkeypatch.setattr(quota, "GROWTH_FILES", 400)
    monkeypatch.setattr(quota, "LOOK_SECONDS", 0.02)


async def test_who_keeps_within_it_is_let_be(tmp_path: Path) -> None:
    assert await within_quota(writes(tmp_path, 3), [tmp_path]) == "done"


async def test_too_many_bytes_end_the_work(tmp_path: Path) -> None:
    with pytest.raises(OverQuota, match="wrote more than 20 MiB"):
        await within_quota(writes(tmp_path, 500), [tmp_path])
    assert measured([tmp_path])[1] < 500


async def test_too_many_files_end_the_work(tmp_path: Path) -> None:
    async def make() -> None:
        for number in range(5000):
            (tmp_path / f"{number}").mkdir()
            await asyncio.sleep(0)

    with pytest.raises(OverQuota, match="made more than 400 files"):
        await within_quota(make(), [tmp_path])


async def test_what_others_write_is_not_its_doing(tmp_path: Path) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    own.mkdir()
    others.mkdir()

    async def works() -> str:
        await writes(others, 30)
        return "done"

    assert await within_quota(works(), [own]) == "done"


async def test_what_the_work_raises_is_raised(tmp_path: Path) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await within_quota(fails(), [tmp_path])


async def test_a_cancellation_ends_the_work_first(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def sleeps() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(within_quota(sleeps(), [tmp_path]))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_folders_are_measured_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 10_000)
    (tmp_path / "link").symlink_to("/usr")
    size, files = measured([tmp_path])
    assert files == 3
    assert 8_192 <= size < 100_000
    assert measured([tmp_path / "nowhere"]) == (0, 0)
