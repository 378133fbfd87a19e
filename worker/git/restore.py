"""Putting paths of a run's folder back as they were.

Owns writing into a folder that a hostile program may have changed: it follows no link on the way, and writes only what
the mirror holds. What is to be put back, admission decides (admit.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from worker.git.entries import PROGRAM, Plan, rows_at, stream_blobs
from worker.git.mirror import Mirror
from worker.git.paths import join


async def put_back(
    mirror: Mirror, root: Path, given: Plan, *, remove: Iterable[bytes], restore: Iterable[bytes]
) -> None:
    """Remove paths from a folder, and write others as the plan has them, however large they are together.

    Raises OSError where the folder does not let it be, GitFailed where git cannot read what is to be written.
    """
    rows = rows_at(given, restore)
    links = {path: given.links[path] for path in restore if path not in rows}
    if links or remove:
        await asyncio.to_thread(_put_links_back, root, remove, links)
    places: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for path, row in rows.items():
        places.setdefault(row.oid, []).append((path, row.mode))
    await stream_blobs(mirror, places, lambda blobs: _put_files_back(root, places, blobs))


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


def _put_links_back(root: Path, remove: Iterable[bytes], links: dict[bytes, bytes]) -> None:
    with _opened(root) as top:
        for path in remove:
            here = open_folder(top, path.rpartition(b"/")[0])
            try:
                os.unlink(path.rpartition(b"/")[2], dir_fd=here)
            finally:
                os.close(here)
        for path, target in links.items():
            with _cleared(top, path) as (here, name):
                os.symlink(target, name, dir_fd=here)


def _put_files_back(
    root: Path, places: dict[bytes, list[tuple[bytes, bytes]]], blobs: Iterator[tuple[bytes, int, IO[bytes]]]
) -> None:
    with _opened(root) as top:
        for oid, size, stream in blobs:
            raw = stream.read(size)
            for path, mode in places[oid]:
                with _cleared(top, path) as (here, name):
                    _write(here, name, raw, mode)


@contextlib.contextmanager
def _opened(root: Path) -> Iterator[int]:
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield top
    finally:
        os.close(top)


@contextlib.contextmanager
def _cleared(top: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Open the folder of a path, made where it is missing, with nothing in the path's place."""
    folder, _, name = path.rpartition(b"/")
    here = _make_folder(top, folder)
    try:
        _clear(here, name)
        yield here, name
    finally:
        os.close(here)


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
