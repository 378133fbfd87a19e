"""Control groups: the limits of a sandbox as a whole, where this process may set any.

Owns where a group can be made (version 2: below the worker's own group, if that was delegated to it; version 1: in the
controllers' trees, which a worker that is root can write) and how one is made, filled and removed. A machine that
allows none of it is no error here: the sandbox then has limits for each process alone (decisions.md 3.5).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PREFIX = "codex-debate-"
WORKER = f"{PREFIX}worker"
"""Version 2: where the worker itself goes, since a group that has groups below it holds no process."""
REMOVED_SECONDS = 10.0
"""A group whose processes are ending is waited for this long before it is left behind, empty."""
LEFT_SECONDS = 60.0
"""An empty group of this age was left behind: a new one is empty only until its first process is in it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that all processes of a sandbox may have together."""

    memory: int
    """Bytes."""
    processes: int
    """Processes and threads."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups can be made."""

    folders: tuple[Path, ...]
    """Of memory, of processes and, if there is one, of processors; version 2: one folder for all."""
    unified: bool
    """Version 2."""


def find(root: Path = ROOT, own: Path = OWN) -> Place | None:
    """Return where this process can make groups; None where it may not."""
    try:
        lines = [line.split(":", 2) for line in own.read_text("utf-8").splitlines()]
    except OSError:
        return None
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    if (root / "cgroup.controllers").exists():
        place = _unified(root / paths.get("", "/").lstrip("/"))
    else:
        folders = tuple(root / name / paths.get(name, "/").lstrip("/") for name in ("memory", "pids"))
        usable = all((each / "tasks").exists() and os.access(each, os.W_OK) for each in folders)
        share = root / "cpu" / paths.get("cpu", "/").lstrip("/")
        shares = (share,) if (share / "cpu.shares").exists() and os.access(share, os.W_OK) else ()
        place = Place((*folders, *shares), unified=False) if usable else None
    if place is not None:
        _sweep(place)
    return place


def _unified(folder: Path) -> Place | None:
    """Return the worker's own group once it can have groups below it: no process may be in it then but in those.

    Processes that are not the worker's are not moved about: a group that it shares with others is not its own.
    """
    if folder.name == WORKER:  # it was found before
        folder = folder.parent
    try:
        processes = [int(each) for each in (folder / "cgroup.procs").read_text("ascii").split()]
        if not all(os.getpid() in {each, _parent(each)} for each in processes):
            return None
        inner = folder / WORKER
        inner.mkdir(exist_ok=True)
        for process in processes:
            (inner / "cgroup.procs").write_text(str(process), "ascii")
        (folder / "cgroup.subtree_control").write_text("+memory +pids", "ascii")
        with contextlib.suppress(OSError):  # without it, a sandbox gets as much of the processors as the worker
            (folder / "cgroup.subtree_control").write_text("+cpu", "ascii")
    except OSError:
        return None
    return Place((folder,), unified=True)


def _sweep(place: Place) -> None:
    """Remove the groups that a worker which was killed has left. The kernel removes none that holds a process."""
    for folder in place.folders:
        for each in folder.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if time.time() - each.stat().st_mtime > LEFT_SECONDS:
                    each.rmdir()


def _parent(process: int) -> int:
    """Return a process's parent (proc(5), stat: behind the name, which may hold anything, and the state)."""
    return int(Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])


class Group:
    """One group, of one sandbox. Make it with `make`, and `remove` it."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders

    def add(self, process: int) -> None:
        """Put a process, and what it starts from now on, under the limits. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(process), "ascii")

    def remove(self) -> None:
        """Remove the group once its last process is gone. It may wait for that, `REMOVED_SECONDS` for each folder."""
        for folder in self.folders:
            _remove(folder)


def make(place: Place, limits: Limits) -> Group:
    """Return a new group with its limits. Raises OSError where it cannot be made."""
    name = f"{PREFIX}{secrets.token_hex(6)}"
    made = Group(tuple(each / name for each in place.folders))
    try:
        for folder in made.folders:
            folder.mkdir()
        _limit(made.folders, limits, unified=place.unified)
    except OSError:
        made.remove()
        raise
    return made


def _limit(folders: tuple[Path, ...], limits: Limits, *, unified: bool) -> None:
    memory, pids, *cpu = folders * 3 if unified else folders
    values = [
        (memory, "memory.max" if unified else "memory.limit_in_bytes", limits.memory),
        (pids, "pids.max", limits.processes),
    ]
    for folder, name, value in values:
        (folder / name).write_text(str(value), "ascii")
    wished = [
        # Without these two, what is over the limit is swapped out, and one process dies where all shall.
        (memory, "memory.swap.max" if unified else "memory.memsw.limit_in_bytes", 0 if unified else limits.memory),
        (memory, "memory.oom.group" if unified else "memory.swappiness", 1 if unified else 0),
        # Half of what the worker gets where both want all: it looks after the sandbox.
        *((folder, "cpu.weight" if unified else "cpu.shares", 50 if unified else 512) for folder in cpu[:1]),
    ]
    for folder, name, value in wished:
        with contextlib.suppress(OSError):
            (folder / name).write_text(str(value), "ascii")


def _remove(folder: Path) -> None:
    until = time.monotonic() + REMOVED_SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # the kernel has not done with the last process
            if time.monotonic() > until:
                return
            time.sleep(0.005)
        else:
            return
