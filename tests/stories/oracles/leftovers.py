"""O2, O3 and O9: what is there after a story that was not there before it."""

from __future__ import annotations

import asyncio
import os
import stat
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from oracles.canaries import Canaries
from tests.worker.sandboxed import children, open_files, processes
from worker.slots import FIRST_USER, USERS

SYSTEM = ("/usr", "/etc", "/opt")
ALLOWED = {"fds": 32, "threads": 36, "tasks": 16, "children": 0}
"""How far each may grow over all stories that are told with the same machines: pools fill, and then are full. Measured
were 17, 1, 7 and 0; the threads of asyncio's pool are up to 32, as the machine has processors."""


# ---- O2 -------------------------------------------------------------------------------------------------------------


def remains(state: Path) -> Iterator[str]:
    """Yield what is left below a worker's state folder, and of its sandboxes, when no run is under way."""
    for run in sorted((state / "runs").glob("*")):
        yield f"the run folder {run.name}"
    for door in sorted((state / "gateway").glob("*")):
        yield f"the gateway's folder {door.name}"
    place = "/".join(state.parts[-2:])
    if place in Path("/proc/self/mountinfo").read_text("utf-8"):
        yield f"a mount below {state}"
    for process, name in inhabitants(place):
        yield f"process {process} ({name}) in a sandbox"


def inhabitants(place: str) -> Iterator[tuple[int, str]]:
    """Yield the processes, and their names, in whose own view of the files something below a folder is mounted."""
    ours = Path("/proc/self/ns/mnt").readlink()
    for process in processes():
        folder = Path(f"/proc/{process}")
        with suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if (folder / "ns" / "mnt").readlink() != ours and place in (folder / "mountinfo").read_text("utf-8"):
                yield process, (folder / "comm").read_text("utf-8").strip()


def groups(made: Iterable[Path]) -> Iterator[str]:
    """Yield the control groups that are left of those that were made."""
    yield from (f"the control group {folder}" for folder in made if folder.exists())


def knowing(canaries: Canaries, state: Path) -> Iterator[str]:
    """Yield what the present processes of sandboxes know of the canaries (O1): by their user, or by where they are."""
    inside = {process for process, _ in inhabitants("/".join(state.parts[-2:]))}
    for process in processes():
        folder = Path(f"/proc/{process}")
        with suppress(OSError):  # it has ended meanwhile
            if process not in inside and not FIRST_USER <= folder.stat().st_uid < FIRST_USER + USERS:
                continue
            for name in ("environ", "cmdline"):
                for secret in canaries.within((folder / name).read_bytes()):
                    yield f"{secret} is in {name} of process {process}, which is a sandbox's"


# ---- O3 -------------------------------------------------------------------------------------------------------------

Listing = dict[str, tuple[int, ...]]


def listing(roots: Iterable[str | Path]) -> Listing:
    """Return the regular files below some folders with their sizes, modes and times. Caches of Python are left out."""
    found: Listing = {}
    waiting = [str(root) for root in roots]
    # Pinned programs are linked to from here (decisions.md 3.4), which is a change of the file's own record.
    linked = sysconfig.get_path("purelib")
    while waiting:
        # What goes meanwhile is missed in the other listing, too, or shows by it.
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    waiting += [each.path] if each.name != "__pycache__" else []
                    continue
                with suppress(OSError):
                    about = each.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        changed = 0 if each.path.startswith(linked) else about.st_ctime_ns
                        found[each.path] = (about.st_size, about.st_mode, about.st_mtime_ns, changed)
    return found


def differences(before: Listing, after: Listing) -> Iterator[str]:
    """Yield the files that are new, gone or changed."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            yield f"{path} {'is new' if path not in before else 'is gone' if path not in after else 'has changed'}"


# ---- O9 -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Count:
    """What this process holds."""

    fds: int
    threads: int
    tasks: int
    children: int


def count() -> Count:
    """Count what this process holds now; the tasks are those of the running loop."""
    return Count(
        fds=open_files(),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        children=len(children(os.getpid())),
    )


def least(one: Count, other: Count) -> Count:
    """Return the smaller number of each."""
    return Count(*(min(getattr(one, each.name), getattr(other, each.name)) for each in fields(Count)))


def growth(before: Count, after: Count) -> Iterator[str]:
    """Yield what has grown by more than pools may."""
    for each in fields(Count):
        then, now = getattr(before, each.name), getattr(after, each.name)
        if now > then + ALLOWED[each.name]:
            yield f"{each.name} grew from {then} to {now}"
