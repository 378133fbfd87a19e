"""How much a program may leave on the disk: looked after while it runs, since no file system here counts by folder.

It owns how a run's folders are watched. The disk's own count is looked at several times a second; only when the disk
has lost much since the program began are the folders measured, to see whether it was this program's doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

GROWTH_BYTES = 1024 * 1024 * 1024
GROWTH_FILES = 100_000
"""What all folders of a turn together may grow by, of disk and of files and folders (threats.md T20)."""
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
    size, files = await asyncio.to_thread(measured, folders)
    lost = _used(folders)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        used = _used(folders)
        if used[0] - lost[0] < GROWTH_BYTES and used[1] - lost[1] < GROWTH_FILES:
            continue
        now = await asyncio.to_thread(measured, folders)
        if now[0] - size >= GROWTH_BYTES:
            return f"wrote more than {GROWTH_BYTES >> 20} MiB"
        if now[1] - files >= GROWTH_FILES:
            return f"made more than {GROWTH_FILES:,} files"
        lost = used  # somebody else's doing: what comes now is counted from here


def _used(folders: Sequence[Path]) -> tuple[int, int]:
    """Return the bytes and the files that are taken on the folders' disk."""
    about = os.statvfs(folders[0])
    return (about.f_blocks - about.f_bfree) * about.f_frsize, about.f_files - about.f_ffree


def measured(folders: Sequence[Path]) -> tuple[int, int]:
    """Return how many bytes of disk folders take, and how many files and folders are in them."""
    size = files = 0
    waiting = list(folders)
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as found:
            for each in found:
                with contextlib.suppress(OSError):
                    size += each.stat(follow_symlinks=False).st_blocks * 512
                    files += 1
                    if each.is_dir(follow_symlinks=False):
                        waiting.append(Path(each.path))
    return size, files
