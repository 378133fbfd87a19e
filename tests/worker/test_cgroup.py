"""Control groups: version 1 for real where this machine lets us, and both versions in trees made up for the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worker import cgroup
from worker.cgroup import LEFT_SECONDS, OWN, PREFIX, ROOT, WORKER, Group, Limits, Place, find, make

LIMITS = Limits(memory=256 << 20, processes=40)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no folder of ordinary files: unlike the kernel's, one with files in it is not removed."""
    monkeypatch.setattr(cgroup, "REMOVED_SECONDS", 0.1)


# ---- Version 1 ------------------------------------------------------------------------------------------------------


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return a tree of version 1, with this process in /a of one controller and /b/c of the other."""
    for folder in ("memory/a", "pids/b/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tasks").touch()
    (tmp_path / "own").write_text("4:memory:/a\n3:cpu,pids:/b/c\n2:name=systemd:/x:y\n0::/\n")
    return tmp_path


def test_version_1_is_found_where_this_process_is(first: Path) -> None:
    assert find(first, first / "own") == Place((first / "memory/a", first / "pids/b/c"), unified=False)


def test_version_1_is_not_there_where_a_folder_is_not_ours(first: Path) -> None:
    """In a container the paths are often the machine's, and not seen."""
    (first / "own").write_text("4:memory:/docker/0123\n3:pids:/b/c\n")
    assert find(first, first / "own") is None
    (first / "own").write_text("4:memory:/a\n")
    assert find(first, first / "own") is None


def test_version_1_is_not_there_where_it_cannot_be_written(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda folder, mode: folder != first / "pids/b/c")
    assert find(first, first / "own") is None


def test_no_list_of_groups_is_no_error(tmp_path: Path) -> None:
    assert find(tmp_path, tmp_path / "own") is None
    (tmp_path / "own").touch()
    assert find(tmp_path, tmp_path / "own") is None


def test_version_1_has_its_limits_in_two_folders(first: Path) -> None:
    place = find(first, first / "own")
    assert place is not None
    group = make(place, LIMITS)
    memory, pids = group.folders
    assert (memory.parent, pids.parent, memory.name) == (*place.folders, pids.name)
    assert memory.name.startswith(PREFIX)
    assert read(memory) == {
        "memory.limit_in_bytes": str(256 << 20),
        "memory.memsw.limit_in_bytes": str(256 << 20),
        "memory.swappiness": "0",
    }
    assert read(pids) == {"pids.max": "40"}
    group.add(1234)
    assert (read(memory)["cgroup.procs"], read(pids)["cgroup.procs"]) == ("1234", "1234")


def test_version_1_gives_a_sandbox_half_of_the_workers_share(first: Path) -> None:
    (first / "cpu/b/c").mkdir(parents=True)
    (first / "cpu/b/c/cpu.shares").write_text("1024")
    place = find(first, first / "own")
    assert place == Place((first / "memory/a", first / "pids/b/c", first / "cpu/b/c"), unified=False)
    *_, share = make(place, LIMITS).folders
    assert read(share) == {"cpu.shares": "512"}


def read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


# ---- Version 2 ------------------------------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Return a tree of version 2, with this process alone in /w."""
    (tmp_path / "w").mkdir()
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    (tmp_path / "w" / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "own").write_text("0::/w\n")
    return tmp_path


def test_version_2_is_found_and_the_worker_steps_aside(second: Path) -> None:
    """A group that has groups below it holds no process itself (cgroups(7), no internal processes)."""
    assert find(second, second / "own") == Place((second / "w",), unified=True)
    assert (second / "w" / WORKER / "cgroup.procs").read_text() == str(os.getpid())
    assert (second / "w" / "cgroup.subtree_control").read_text() == "+cpu", "after memory and pids, which must be had"


def test_the_workers_children_step_aside_with_it(second: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        (second / "w" / "cgroup.procs").write_text(f"{os.getpid()}\n{child.pid}\n")
        assert find(second, second / "own") is not None
        assert (second / "w" / WORKER / "cgroup.procs").read_text() == str(child.pid)
        child.kill()


def test_a_group_that_others_share_is_left_alone(second: Path) -> None:
    (second / "w" / "cgroup.procs").write_text(f"{os.getppid()}\n{os.getpid()}\n")
    assert find(second, second / "own") is None
    assert read_names(second / "w") == {"cgroup.procs"}


def read_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_worker_that_stepped_aside_finds_the_same_place_again(second: Path) -> None:
    """Its own group is then the inner one; groups within groups within groups would be of no use."""
    place = find(second, second / "own")
    (second / "w" / "cgroup.procs").write_text("")
    (second / "own").write_text(f"0::/w/{WORKER}\n")
    for _ in range(3):
        assert find(second, second / "own") == place
    assert read_names(second / "w" / WORKER) == {"cgroup.procs"}


def test_version_2_that_is_not_delegated_is_no_error(second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert find(second, second / "own") is None


def refuse(*words: object, **more: object) -> None:
    raise PermissionError


def test_version_2_has_its_limits_in_one_folder(second: Path) -> None:
    place = find(second, second / "own")
    assert place is not None
    group = make(place, LIMITS)
    (folder,) = group.folders
    assert read(folder) == {
        "memory.max": str(256 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "40",
        "cpu.weight": "50",
    }
    group.add(1234)
    assert read(folder)["cgroup.procs"] == "1234"


# ---- Made and removed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory.memsw.limit_in_bytes", "memory.swappiness"])
def test_a_limit_that_not_every_kernel_has_may_be_missing(
    first: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    without(name, monkeypatch)
    assert make(Place((first / "memory/a", first / "pids/b/c"), unified=False), LIMITS)


@pytest.mark.parametrize("name", ["memory.limit_in_bytes", "pids.max"])
def test_a_group_without_its_limits_is_not_made(first: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    without(name, monkeypatch)
    with pytest.raises(PermissionError):
        make(Place((first / "memory/a", first / "pids/b/c"), unified=False), LIMITS)


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def refused(path: Path, text: str, encoding: str | None = None) -> int:
        if path.name == name:
            raise PermissionError
        return write(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", refused)


def test_a_group_that_cannot_be_made_whole_leaves_no_half(first: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make(Place((first / "memory/a", first / "nowhere"), unified=False), LIMITS)
    assert read_names(first / "memory/a") == {"tasks"}


def test_a_group_is_removed_once_and_for_all(tmp_path: Path) -> None:
    group = Group((tmp_path / "a", tmp_path / "b"))
    (tmp_path / "a").mkdir()
    group.remove()
    group.remove()
    assert not (tmp_path / "a").exists()


def test_a_group_that_does_not_become_empty_is_not_waited_for_long(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    began = time.monotonic()
    Group((tmp_path / "a",)).remove()
    assert 0.1 <= time.monotonic() - began < 2


def test_groups_that_a_killed_worker_left_are_removed(first: Path) -> None:
    """Empty and old ones: a new group is empty too, until its first process is in it."""
    folder = first / "memory/a"
    old, new, full, foreign = (folder / name for name in (f"{PREFIX}1", f"{PREFIX}2", f"{PREFIX}3", "other"))
    for each in (old, new, full / "process", foreign):
        each.mkdir(parents=True)
    before = time.time() - LEFT_SECONDS - 1
    for each in (old, full, foreign):
        os.utime(each, (before, before))
    find(first, first / "own")
    assert read_names(folder) == {"tasks", new.name, full.name, foreign.name}


HOG = """
import os, signal
input()
children = 0
try:
    while os.fork():
        children += 1
    os.close(1)
    signal.pause()
except OSError:
    print(children, flush=True)
    print(len(bytearray(b"x") * (200 << 20)))
"""

if (PLACE := find(ROOT, OWN)) is not None:

    def test_a_real_group_limits_what_is_in_it_and_goes() -> None:
        assert PLACE is not None
        group = make(PLACE, Limits(memory=64 << 20, processes=8))
        try:
            words = [sys.executable, "-c", HOG]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
                group.add(child.pid)
                for folder in group.folders:
                    assert str(child.pid) in (folder / "cgroup.procs").read_text().split()
                out, _ = child.communicate(b"\n")
            assert (out, child.returncode) == (b"7\n", -9)
        finally:
            for folder in group.folders:
                for number in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(number), 9)
            group.remove()
        assert not any(folder.exists() for folder in group.folders)

    def test_a_real_group_is_waited_for_until_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
        assert PLACE is not None
        monkeypatch.setattr(cgroup, "REMOVED_SECONDS", 5.0)
        group = make(PLACE, LIMITS)
        with subprocess.Popen(["sleep", "0.2"]) as child:
            group.add(child.pid)
            group.remove()
        assert not any(folder.exists() for folder in group.folders)
