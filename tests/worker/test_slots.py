"""Users for sandboxes: each has one run at a time, and passes through what is opened to it alone."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.sandboxed import is_root
from worker import slots
from worker.slots import FIRST_USER, USERS, Slot, slot

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be asked as root is: locks need no rights."""
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_each_run_has_a_user_of_its_own(root: None, tmp_path: Path) -> None:
    with slot(tmp_path / "slots") as one, slot(tmp_path / "slots") as two:
        assert (one, two) == (Slot(FIRST_USER), Slot(FIRST_USER + 1))
        with slot(tmp_path / "other") as elsewhere:
            assert elsewhere == one


def test_a_user_is_free_again_when_its_run_is_over(root: None, tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(LookupError), slot(tmp_path) as taken:
            raise LookupError
        assert taken == Slot(FIRST_USER)
    with slot(tmp_path) as one:
        with slot(tmp_path):
            pass
        with slot(tmp_path) as two:
            assert {one.user, two.user} == {FIRST_USER, FIRST_USER + 1}


def test_another_workers_users_are_not_taken(root: None, tmp_path: Path) -> None:
    """Nor does a worker that died keep one: the kernel gives its locks back."""
    script = """
import os, sys
from worker.slots import Path, slot
os.geteuid = lambda: 0
with slot(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""
    words = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with slot(tmp_path) as mine:
            assert mine == Slot(FIRST_USER + 1)
        other.kill()
    with slot(tmp_path) as mine:
        assert mine == Slot(FIRST_USER)


def test_no_user_is_left_where_all_are_taken(root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "USERS", 2)
    with (
        slot(tmp_path),
        slot(tmp_path),
        pytest.raises(OSError, match="all 2 users for sandboxes are taken"),
        slot(tmp_path),
    ):
        pass


def test_the_numbers_are_nobodys() -> None:
    """systemd.io/UIDS-GIDS: 60706 to 61183 are unused."""
    assert FIRST_USER >= 60_706
    assert FIRST_USER + USERS <= 61_184


def test_a_worker_that_is_not_root_has_itself_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with slot(tmp_path / "slots") as user:
        assert user == Slot(None)
    assert not (tmp_path / "slots").exists()


# ---- Owning ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").touch()
    (tmp_path / "in" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "outside").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    return tmp_path


def owners(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_a_worker_that_is_not_root_gives_nothing_away(folder: Path) -> None:
    before = owners(folder)
    Slot(None).own(folder / "in", deep=True)
    assert owners(folder) == before
    Slot(None).admit(folder / "in")
    assert stat.S_IMODE((folder / "in").stat().st_mode) == 0o700


if is_root():

    def test_a_folder_is_given_with_all_in_it_and_no_link_is_followed(folder: Path) -> None:
        Slot(FIRST_USER).own(folder / "in", deep=True)
        given = {"in", "in/deep", "in/deep/file", "in/out", "in/folder"}
        assert {path for path, owner in owners(folder).items() if owner == FIRST_USER} == given

    def test_a_folder_alone_is_given(folder: Path) -> None:
        Slot(FIRST_USER).own(folder / "in")
        assert {path for path, owner in owners(folder).items() if owner == FIRST_USER} == {"in"}
        Slot(FIRST_USER).own(folder / "in" / "out")
        assert (folder / "outside").stat().st_uid == 0

    def test_a_folder_of_ours_lets_the_user_pass_and_nobody_else(folder: Path) -> None:
        Slot(FIRST_USER).admit(folder / "in")
        about = (folder / "in").stat()
        assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (0, FIRST_USER, 0o710)
