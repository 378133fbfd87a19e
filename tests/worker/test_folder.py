"""The folders of runs: whose they are, and whether a living process works in one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.conftest import make_run
from worker import folder as room
from worker.folder import clear, held, lack_of_room, noted, taken, whose

RUN = make_run("a" * 40)


def test_the_next_attempt_finds_what_the_last_one_left(tmp_path: Path) -> None:
    with taken(tmp_path / "runs", RUN) as folder:
        (folder / "sessions").mkdir()
    with taken(tmp_path / "runs", RUN) as again:
        assert (again, (again / "sessions").exists()) == (folder, True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o711
    assert (folder / "run.json").stat().st_mode & 0o777 == 0o600


def test_one_that_is_held_still_is_left_to_its_holder(tmp_path: Path) -> None:
    with taken(tmp_path, RUN) as first, taken(tmp_path, RUN) as second:
        assert (first.name, second.name) == (RUN.id, f"{RUN.id}-1")
        assert {whose(first), whose(second)} == {RUN.id}
        clear(tmp_path, RUN.id)
        assert first.exists()
        assert second.exists()
    clear(tmp_path, RUN.id)
    assert list(tmp_path.iterdir()) == []


def test_there_is_an_end_to_spares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SPARES", 1)
    with taken(tmp_path, RUN), pytest.raises(OSError, match="do not end"), taken(tmp_path, RUN):
        pass


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import fcntl,os,sys;f=os.open(sys.argv[1],os.O_RDONLY);fcntl.flock(f,fcntl.LOCK_EX);print(flush=True);input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, os.fspath(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with held(tmp_path) as free:
            assert not free
        process.kill()
        process.wait()
        with held(tmp_path) as free:
            assert free


def test_a_folder_that_was_removed_meanwhile_is_not_held(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with held(folder) as free:
        assert not free
    folder.mkdir()
    with held(folder):
        folder.rmdir()
        folder.mkdir()
        with held(folder) as free:
            assert free, "it is another folder by the same name"


def test_a_folder_that_goes_while_it_is_opened_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "a").mkdir()
    lock = fcntl.flock

    def late(handle: int, how: int) -> None:
        lock(handle, how)
        folder.rmdir()

    before = sorted(Path("/proc/self/fd").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", late)
        with held(folder) as free:
            assert not free
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_note_says_which_run_it_was(tmp_path: Path) -> None:
    with taken(tmp_path, RUN) as folder:
        assert noted(folder) == RUN
        (folder / "run.json").write_text("{}")
        assert noted(folder) is None
        (folder / "run.json").unlink()
        assert noted(folder) is None


def test_only_the_runs_own_folders_are_cleared(tmp_path: Path) -> None:
    for name in (RUN.id, f"{RUN.id}-3", f"{RUN.id}x", "other"):
        (tmp_path / name).mkdir()
    clear(tmp_path, RUN.id)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{RUN.id}x", "other"]


@pytest.mark.threat("R15")
def test_a_disk_that_is_nearly_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lack_of_room(tmp_path) is None
    monkeypatch.setattr(room, "ROOM_BYTES", 1 << 60)
    assert "its disk is nearly full" in (lack_of_room(tmp_path) or "")
