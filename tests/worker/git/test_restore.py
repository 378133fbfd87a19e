"""Putting paths back, in a folder that may hold anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from worker.git import OUTPUT_CAP
from worker.git.entries import plan
from worker.git.mirror import Mirror
from worker.git.restore import open_folder, put_back


async def test_files_programs_and_links_come_back(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    files = {b"d/e/f": b"text", b"d/same": b"text", b"d/run": ("100755", b"x"), b"link": ("120000", b"d/run")}
    given = await plan(mirror, await take(source.commit(files)))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "new").write_text("x")
    (tmp_path / "t" / "link").mkdir()
    await put_back(mirror, tmp_path / "t", given, remove={b"new"}, restore=set(files))
    assert (tmp_path / "t/d/e/f").read_bytes() == b"text"
    assert (tmp_path / "t/d/same").read_bytes() == b"text"
    assert os.access(tmp_path / "t/d/run", os.X_OK)
    assert (tmp_path / "t/link").readlink() == Path("d/run")
    assert not (tmp_path / "t/new").exists()


@pytest.mark.threat("T12", 90)
async def test_no_link_on_the_way_is_followed(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    given = await plan(mirror, await take(source.commit({b"d/f": b"text"})))
    (tmp_path / "outside").mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t/d").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        await put_back(mirror, tmp_path / "t", given, remove=set(), restore={b"d/f"})
    assert list((tmp_path / "outside").iterdir()) == []


async def test_a_link_in_the_files_own_place_is_replaced(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    given = await plan(mirror, await take(source.commit({b"f": b"text"})))
    (tmp_path / "outside").write_text("stays")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/f").symlink_to(tmp_path / "outside")
    await put_back(mirror, tmp_path / "t", given, remove=set(), restore={b"f"})
    assert not (tmp_path / "t/f").is_symlink()
    assert (tmp_path / "outside").read_text() == "stays"


@pytest.mark.threat("T24", 124)
async def test_more_comes_back_than_git_gives_at_once(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    """An author who removes large protected files must not end the worker's attempt."""
    size = OUTPUT_CAP // 4 + 1
    files = {b".github/%d" % number: bytes([number]) * size for number in range(4)}
    given = await plan(mirror, await take(source.commit(files)))
    (tmp_path / "t").mkdir()
    await put_back(mirror, tmp_path / "t", given, remove=set(), restore=set(files))
    for path, raw in files.items():
        assert (tmp_path / "t" / os.fsdecode(path)).read_bytes() == raw


async def test_nothing_to_do_does_nothing(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    given = await plan(mirror, await take(source.commit({b"f": b"text"})))
    await put_back(mirror, tmp_path / "not there", given, remove=set(), restore=set())


def test_a_folder_is_opened_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        found = open_folder(top, b"a/b")
        assert os.fstat(found).st_ino == (tmp_path / "a/b").stat().st_ino
        os.close(found)
        with pytest.raises(FileNotFoundError):
            open_folder(top, b"a/c")
    finally:
        os.close(top)
