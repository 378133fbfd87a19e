"""How much a program may leave on the disk: looked after while it runs, since no file system here counts by folder.

It owns how a run's folders are watched. The disk's own count is looked at several times a second; only when the disk
has lost much since the program began are the folders measured, to see whether it was this program's doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

GROWTH_BYTES = 1024 * 1024 * 1024
GROWTH_FILES = 100_000
"""What all folders of a turn together may grow by, of disk and of files and folders (threats.md T20)."""
RESERVE_BYTES = 2 * GROWTH_BYTES
"""Of the disk. When less is free, a turn ends in whose time the disk lost as much as it may, whoever took it: not all
that a program takes can be found, and on a full disk nobody's work is kept."""
LOOK_SECONDS = 0.25


class OverQuota(Exception):  # noqa: N818 - it says what is the case
    """A program left too much on the disk and was ended. ``str(error)`` says of what, for people."""


async def within_quota(work: Coroutine[Any, Any, T], folders: Sequence[Path]) -> T:
    """Await `work` and return what it returns, unless it makes the folders grow too much.

    Raises `OverQuota`, after the work was cancelled, and whatever the work raises. Growth between two looks is not
    seen in time: a fast disk takes some hundred megabytes in one.
    """
    task = asyncio.ensure_future(work)
    guard = asyncio.ensure_future(_grown(folders))
    try:
        await asyncio.wait({task, guard}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        raise OverQuota(await guard)
    finally:
        for each in (task, guard):
            each.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


async def _grown(folders: Sequence[Path]) -> str:
    """Return once the folders have grown by too much, in which way."""
    first = await asyncio.to_thread(_taken, folders)
    lost = _used(folders)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        used = _used(folders)
        if used[0] - lost[0] < GROWTH_BYTES and used[1] - lost[1] < GROWTH_FILES:
            continue
        now = await asyncio.to_thread(_taken, folders)
        if now[0] - first[0] >= GROWTH_BYTES:
            return f"wrote more than {GROWTH_BYTES >> 20} MiB"
        if now[1] - first[1] >= GROWTH_FILES:
            return f"made more than {GROWTH_FILES:,} files, or folders that cannot be looked into"
        if _free(folders) < RESERVE_BYTES:
            return "met a disk that is nearly full"
        lost = used  # somebody else's doing: what comes now is counted from here


def _used(folders: Sequence[Path]) -> tuple[int, int]:
    """Return the bytes and the files that are taken on the folders' disk."""
    about = os.statvfs(folders[0])
    return (about.f_blocks - about.f_bfree) * about.f_frsize, about.f_files - about.f_ffree


def _free(folders: Sequence[Path]) -> int:
    about = os.statvfs(folders[0])
    return about.f_bavail * about.f_frsize


def _taken(folders: Sequence[Path]) -> tuple[int, int]:
    """Return the bytes and the files that a turn is found to have on the folders' disk."""
    named, unnamed = measured(folders), _unnamed(folders[0])
    return named[0] + unnamed[0], named[1] + unnamed[1]


def measured(folders: Sequence[Path]) -> tuple[int, int]:
    """Return how many bytes of disk folders take, and how many files and folders are in them.

    What cannot be looked at, since its path is too long to be named, counts for as many files as there may be.
    """
    size = files = 0
    for about in _below(folders):
        size += about.st_blocks * 512 if about else 0
        files += 1 if about else GROWTH_FILES
    return size, files


def _below(folders: Sequence[Path]) -> Iterator[os.stat_result | None]:
    """Yield what is known of each file and folder; None for what cannot be looked at."""
    waiting = list(folders)
    while waiting:
        here = waiting.pop()
        try:
            paths = list(here.iterdir())
        except (FileNotFoundError, NotADirectoryError):  # it went meanwhile
            continue
        except OSError:
            yield None
            continue
        for path in paths:
            try:
                about = path.lstat()
            except FileNotFoundError:
                continue
            except OSError:
                yield None
                continue
            yield about
            if stat.S_ISDIR(about.st_mode):
                waiting.append(path)


def _unnamed(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files that a folder's owner holds open, and that have no name any more.

    Only an owner is looked at that is a sandbox's alone; not all of its files are found, such as those that are on
    their way from one process to another.
    """
    about = folder.stat()
    held: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*") if about.st_uid != os.geteuid() else ():
        with contextlib.suppress(OSError):
            status = (process / "status").read_text("ascii", "replace")
            if f"\nUid:\t{about.st_uid}\t" not in status:
                continue
            for each in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    file = each.stat()
                    if file.st_nlink == 0 and file.st_dev == about.st_dev:
                        held[file.st_ino] = file.st_blocks * 512
    return sum(held.values()), len(held)
