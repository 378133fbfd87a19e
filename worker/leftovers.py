"""What dead runs and dead workers have left on this machine: folders, processes, refs, mirrors that nobody uses.

Nothing is touched that a living process holds: folders of runs are locked (`worker.folder`), and what has no lock goes
by its age. What a folder's run was is told to who asks, before the folder goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from bot.store.runs import Run
from worker.folder import held, noted, whose
from worker.git import GitFailed
from worker.git.mirror import Mirrors
from worker.git.tree import empty

LEFT_SECONDS = 3600.0
"""Age of a folder without a lock from which on it was left behind: a self-test, a program's copy in the making."""
UNLOCKED = ((".", ".probe-*"), ("tools", ".new-*"), ("mirrors", "*.new-*"))
"""Folders below the state folder that are made and removed within seconds, by where they lie and how they are called.
Those of the gateway are swept by it, control groups by `worker.cgroup`."""
MIRRORS_BYTES = 20 * 1024**3
"""Bytes that all mirrors may take; those that were used least recently go (decisions.md 1.8)."""
USED_SECONDS = 86_400.0
"""A mirror that was used so lately stays, whatever it takes."""

Live = Callable[[str], Awaitable[bool | None]]
"""Returns whether a run has not ended; None where it is not known at all."""


async def clear_folders(root: Path, live: Live, lost: Callable[[Run], Awaitable[None]]) -> int:
    """Remove the folders of runs that have ended, or are spare; return how many.

    `lost` is told of a run that nobody knows any more; where it raises, the folder stays until the next time. One that
    cannot be cleared keeps no other from it; the first such fault is raised at the end.
    """
    cleared, faults = 0, list[Exception]()
    for folder in await asyncio.to_thread(lambda: sorted(root.glob("*"))):
        try:
            cleared += await _cleared(folder, live, lost)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others are cleared
            faults.append(fault)
    if faults:
        raise faults[0]
    return cleared


async def _cleared(folder: Path, live: Live, lost: Callable[[Run], Awaitable[None]]) -> bool:
    """Remove a folder if nobody has a use for it, and return whether it was."""
    spare = folder.name != whose(folder)
    if not spare and await live(whose(folder)):
        return False  # it is taken up again, here or elsewhere
    with held(folder) as free:
        if not free:
            return False
        # Again, now that nobody can take it: what was ended before may not have been.
        known = await live(whose(folder))
        if known and not spare:
            return False
        if known is None and (run := noted(folder)) is not None:
            await lost(run)
        await asyncio.to_thread(_clear, folder)
        return True


def _clear(folder: Path) -> None:
    _end_processes(folder)
    empty(folder)


def clear_unlocked(state: Path, now: float | None = None) -> int:
    """Remove what was left behind without a lock, by its age; return how many folders. Raises OSError."""
    now = time.time() if now is None else now
    cleared = 0
    for place, name in UNLOCKED:
        for folder in (state / place).glob(name):
            with contextlib.suppress(FileNotFoundError):
                if now - folder.lstat().st_mtime > LEFT_SECONDS:
                    empty(folder)
                    cleared += 1
    return cleared


async def trim_mirrors(
    mirrors: Mirrors, live: Live, ours: Callable[[], Awaitable[Collection[int]]], *, most: int = MIRRORS_BYTES
) -> int:
    """Drop mirrors that are not to be kept, and return how many.

    Those are mirrors of repositories that are not `ours` any more (their numbers), and above `most` bytes those that
    were used least recently. Refs of dead runs go first: they keep a mirror. What is broken is passed over.
    """
    there = await asyncio.to_thread(mirrors.known)
    kept, dropped = {str(number) for number in await ours()}, 0
    sizes: dict[Path, tuple[float, int]] = {}
    for mirror in there:
        with contextlib.suppress(OSError, GitFailed):
            for run in await mirror.runs():
                if not await live(run):
                    await mirror.drop_refs(run)
            used = mirror.path.stat().st_mtime
            if mirror.path.stem not in kept and time.time() - used > LEFT_SECONDS:
                dropped += await mirrors.drop(mirror.path, since=used)
            else:
                sizes[mirror.path] = used, await asyncio.to_thread(_size, mirror.path)
    total = sum(size for _, size in sizes.values())
    for path, (used, size) in sorted(sizes.items(), key=lambda each: each[1][0]):
        if total <= most or time.time() - used < USED_SECONDS:
            break
        with contextlib.suppress(OSError, GitFailed):
            if await mirrors.drop(path, since=used):
                total, dropped = total - size, dropped + 1
    return dropped


def _size(folder: Path) -> int:
    size = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                size += Path(root, name).lstat().st_size
    return size


def _end_processes(folder: Path) -> None:
    """Kill what still runs in a sandbox over a folder: its worker is gone, and it was to go with it."""
    ours = Path("/proc/self/ns/mnt")
    if not ours.exists():
        return
    place = f"/{folder.parent.name}/{folder.name}/"
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
            if not process.name.isdigit() or (process / "ns/mnt").readlink() == ours.readlink():
                continue
            if place in (process / "mountinfo").read_text("utf-8", "replace"):
                os.kill(int(process.name), signal.SIGKILL)
