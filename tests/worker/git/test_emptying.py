"""Emptying a run's folder, whatever its author made of it to keep it from being emptied."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from worker.git.tree import empty

NOBODY = 65_534
DEEP = 1100
"""Folders within each other: more than a function may call itself (`sys.getrecursionlimit`)."""
NAME = "deeper"
"""A name with which so many are also deeper than a path may be long (PATH_MAX)."""


@pytest.fixture(autouse=True)
def swept(tmp_path: Path) -> Iterator[None]:
    """Remove what a failed test leaves: pytest itself cannot."""
    yield
    subprocess.run(["rm", "-rf", "--", *tmp_path.iterdir()], check=False)


def nest(folder: Path, depth: int, *, mode: int = 0o755, link: Path = Path("file")) -> None:
    """Make folders within each other, with a file and a link in the innermost; the last hundred get a mode."""
    folder.mkdir()
    ways = [os.open(folder, os.O_RDONLY)]
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=ways[-1])
        ways.append(os.open(NAME, os.O_RDONLY, dir_fd=ways[-1]))
        if len(ways) > 100:
            os.close(ways.pop(0))
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=ways[-1]))
    os.symlink(link, "link", dir_fd=ways[-1])
    while ways:
        os.fchmod(ways[-1], mode)
        os.close(ways.pop())


@contextmanager
def denied() -> Iterator[None]:
    """Be somebody to whom a closed folder is closed: root is denied nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_name_that_an_author_takes_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows from one run under which names its folders were moved has no use of it in the next."""
    root, used = tmp_path / "tree", list[str]()
    rename = os.rename

    def move(old: Path, new: Path) -> None:
        used.append(new.name)
        rename(old, new)

    monkeypatch.setattr(os, "rename", move)
    nest(root, DEEP)
    empty(root)
    assert used
    root.mkdir()
    for number, name in enumerate(used):
        (root / name).touch()
        (root / f"folder-{number}").mkdir()
    nest(root / "n", DEEP)
    empty(root)
    assert list(tmp_path.iterdir()) == []


def test_folders_closed_to_their_own_user_are_removed_at_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the folders above are closed to others
    tmp_path.chmod(0o777)
    with denied():
        Path("tree").mkdir()
        nest(Path("tree/n"), 50, mode=0)
        nest(Path("tree/shallow"), 0, mode=0)
        Path("tree").chmod(0)
        empty(Path("tree"))
    assert list(tmp_path.iterdir()) == []


def test_what_links_in_such_folders_point_to_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o750)
    (kept / "file").touch()
    nest(tmp_path / "tree", DEEP, link=kept)
    empty(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").exists()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o750


def test_a_folder_that_became_something_else_is_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    link, file, queue = tmp_path / "link", tmp_path / "file", tmp_path / "queue"
    link.symlink_to(kept)
    file.touch()
    os.mkfifo(queue)
    for each in (link, file, queue, tmp_path / "nothing"):
        empty(each)
        assert not each.is_symlink()
        assert not each.exists()
    assert (kept / "file").exists()
