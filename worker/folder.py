"""The folder of a run on this machine: who works in it, and which run it belongs to.

A lock says that a living process works in a folder; it goes with the process, however that ends. So an attempt never
shares its folder with one that was overtaken and does not know it yet, and what nobody holds may be cleared. A note in
it names the run, for the day on which the store has forgotten it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from bot.store.runs import Run
from worker.git.tree import empty

NOTE = "run.json"
ROOM_BYTES = 2 * 1024**3
"""Without so much of the disk no attempt begins: nothing that is made on a full disk is kept (threats.md R15)."""
SPARES = 8
"""Folders of one run that may be held at once: each but the newest is a process's that was overtaken."""


def lack_of_room(folder: Path) -> str | None:
    """Return what is wrong with the disk that a folder is on, or will be, where it is nearly full. Raises OSError."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    return None if free >= ROOM_BYTES else f"its disk is nearly full ({free // 1024**2} MiB are free)"


MAKE_ROOM = "make room below CODEX_DEBATE_STATE_DIR: 2 GiB at least"
"""What an operator does about it."""


@contextlib.contextmanager
def taken(root: Path, run: Run) -> Iterator[Path]:
    """Take a folder of a run below `root`: the one of an earlier attempt, or a new one where that is held still.

    Others of this machine may pass through `root`, and see nothing of the folder. Raises OSError.
    """
    root.mkdir(mode=0o711, parents=True, exist_ok=True)
    for number in range(SPARES):
        folder = root / (run.id if number == 0 else f"{run.id}-{number}")
        folder.mkdir(mode=0o700, exist_ok=True)
        with held(folder) as free:
            if free:
                _note(folder, run)
                yield folder
                return
    raise OSError(f"all {SPARES} folders of run {run.id} are held by processes that do not end")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder while the block goes on, if nobody else does; yield whether it is so. A lost one is nobody's."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        yield _locked(handle, folder)
    finally:
        os.close(handle)


def _locked(handle: int, folder: Path) -> bool:
    """Lock an open folder, if nobody else does, and return whether it is still the one of its name."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it before may have removed it, and another one have made it anew.
        return folder.stat().st_ino == os.fstat(handle).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def clear(root: Path, run_id: str) -> None:
    """Remove the folders of a run that nobody works in. Raises OSError."""
    for folder in root.glob(f"{run_id}*"):
        with held(folder) as free:
            if free and whose(folder) == run_id:
                empty(folder)


def whose(folder: Path) -> str:
    """Return the id of the run that a folder belongs to."""
    return folder.name.partition("-")[0]


def noted(folder: Path) -> Run | None:
    """Return the run that a folder was made for, or None where no note says it."""
    try:
        return Run.model_validate_json((folder / NOTE).read_bytes())
    except (OSError, ValidationError):
        return None


def _note(folder: Path, run: Run) -> None:
    made = folder / f"{NOTE}.new"
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(run.model_dump_json().encode())
    made.replace(folder / NOTE)
