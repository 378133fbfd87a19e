"""Putting paths of a run's folder back as they were.

Owns writing into a folder that a hostile program may have changed: it follows no link on the way, and writes only what
the mirror holds. What is to be put back, admission decides (admit.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from worker.git.entries import PROGRAM, Plan, read_blobs, rows_at
from worker.git.mirror import Mirror
from worker.git.paths import join


async def put_back(
    mirror: Mirror, root: Path, given: Plan, *, remove: Iterable[bytes], restore: Iterable[bytes]
) -> None:
    """Remove paths from a folder, and write others as the plan has them. Raises OSError where that cannot be."""
    rows = rows_at(given, restore)
    links = {path: given.links[path] for path in restore if path not in rows}
    blobs = await read_blobs(mirror, {row.oid for row in rows.values()})
    files = {path: (blobs[row.oid], row.mode) for path, row in rows.items()}
    if files or links or remove:
        await asyncio.to_thread(_put_back, root, remove, files, links)


def open_folder(top: int, folder: bytes) -> int:
    """Open a folder below an open one, following no link on the way."""
    here = os.dup(top)
    for part in folder.split(b"/") if folder else ():
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _put_back(
    root: Path, remove: Iterable[bytes], files: dict[bytes, tuple[bytes, bytes]], links: dict[bytes, bytes]
) -> None:
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for path in remove:
            here = open_folder(top, path.rpartition(b"/")[0])
            try:
                os.unlink(path.rpartition(b"/")[2], dir_fd=here)
            finally:
                os.close(here)
        for path in (*files, *links):
            folder, _, name = path.rpartition(b"/")
            here = _make_folder(top, folder)
            try:
                _clear(here, name)
                if path in links:
                    os.symlink(links[path], name, dir_fd=here)
                else:
                    _write(here, name, *files[path])
            finally:
                os.close(here)
    finally:
        os.close(top)


def _make_folder(top: int, folder: bytes) -> int:
    at = b""
    for part in folder.split(b"/") if folder else ():
        here = open_folder(top, at)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
        finally:
            os.close(here)
        at = join(at, part)
    return open_folder(top, folder)


def _clear(here: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=here)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        os.rmdir(name, dir_fd=here)


def _write(here: int, name: bytes, raw: bytes, mode: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o755 if mode == PROGRAM else 0o644, dir_fd=here), "wb") as file:
        file.write(raw)
