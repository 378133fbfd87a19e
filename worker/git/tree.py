"""Trees as files, and the differences between trees as text.

Owns writing a tree's bytes into a run's folder and the patches that people are given. What is written is the blob, byte
for byte: no attribute, filter, encoding or line-end rule of the repository plays a part. The folder has no `.git`. What
agents are given besides the tree is made in brief.py.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from worker.git import GitRefused, Settings, TooLarge, program, sha, succeeded
from worker.git.brief import DIFF, SIDE_BYTES, brief, list_changes
from worker.git.entries import PROGRAM, Folders, Plan, Row, chunks, plan, stream_blobs
from worker.git.flat import MAX_BLOB, Flat
from worker.git.mirror import Mirror
from worker.git.paths import fold, join, shown
from worker.process import CHUNK, run

__all__ = ["Materialised", "Skipped", "Stat", "brief", "diffstat", "materialise", "patch"]

WRITERS = 2
"""Threads that write files. More of them wait for each other."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry of the tree that was not written, and why. The path is shown escaped."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Materialised:
    """What was written into a run's folder."""

    entries: int
    """Files and links."""
    size: int
    """Bytes of the files."""
    skipped: tuple[Skipped, ...]
    narrowed: bool
    """The tree is too large: only the folders of changed files were written, and the coverage line says so."""
    twins: tuple[str, ...]
    """Names that differ from a neighbour's only in case or composition: not every disk can hold both."""


async def materialise(mirror: Mirror, tree: str, folder: Path, *, base: str | None = None) -> Materialised:
    """Write a tree (or a commit's tree) into a folder; whatever was there is removed first.

    `base`: above 200,000 entries or 2 GiB, only the folders of the files that differ from it are written. Raises
    GitRefused where the tree cannot be written as it is, OSError where the disk is full.
    """
    await asyncio.to_thread(empty, folder)
    todo = await plan(mirror, tree, base=base)
    flat = await asyncio.to_thread(Flat, mirror.path)
    try:
        large = await _fill(mirror, todo.files, flat)
        await asyncio.to_thread(_write, folder, todo, flat)
    finally:
        flat.close()
    if large:
        await stream_blobs(mirror, large, lambda blobs: _write_large(folder, large, blobs))
    return Materialised(
        entries=todo.count,
        size=todo.size,
        skipped=tuple(Skipped(shown(path), why) for path, (_, why) in sorted(todo.absent.items())),
        narrowed=todo.narrowed,
        twins=tuple(_twins(todo.files)),
    )


def empty(folder: Path) -> None:
    """Remove a folder and all in it, also what an author has closed to itself, made a file of, or nested without end.

    Raises OSError where that cannot be.
    """
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):  # closed, or deeper than a path may be long and a function may call itself
        _dismantle(folder)
        shutil.rmtree(folder)


def _dismantle(folder: Path) -> None:
    """Open every folder below and bring it to the top, where no path is long; remove what else there is.

    The names there are such that nobody can have taken them. What is left goes at once, as the disk may be full.
    """
    folder.chmod(0o700)
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for each in list(os.scandir(here)):
            path = Path(each.path)
            if each.is_dir(follow_symlinks=False):
                path.chmod(0o700)  # before it is moved: that changes its own `..`
                waiting.append(path.rename(folder / secrets.token_hex()))
            else:
                path.unlink()
        if here != folder:
            here.rmdir()


Places = dict[bytes, list[tuple[bytes, bool]]]
"""For each blob, the paths that it is written to, and whether each is a program."""


async def _fill(mirror: Mirror, files: Folders, flat: Flat) -> Places:
    """Bring the tree's small blobs into the cache; return the large ones."""
    new: set[bytes] = set()
    large: Places = {}
    for folder, rows in files.items():
        for row in rows:
            if row.size > MAX_BLOB:
                path = join(folder, row.name)
                large.setdefault(row.oid, []).append((path, row.mode == PROGRAM))
            elif row.oid not in flat and row.size:
                new.add(row.oid)
    await stream_blobs(mirror, new, lambda blobs: flat.extend((oid, stream.read(size)) for oid, size, stream in blobs))
    return large


def _write(root: Path, todo: Plan, flat: Flat) -> None:
    root.mkdir(parents=True, exist_ok=True)
    where = os.fsencode(root)
    made = {b""}
    for folder in sorted({*todo.files, *(path.rpartition(b"/")[0] for path in todo.links)}):
        _make(where, folder, made)
    halves = _halves([(folder, rows) for folder, rows in todo.files.items()])
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(_write_files, where, half, flat) for half in halves]:
            done.result()
    for path, target in todo.links.items():
        os.symlink(target, where + b"/" + path)  # noqa: PTH211 - paths are bytes here


def _make(where: bytes, folder: bytes, made: set[bytes]) -> None:
    if folder in made:
        return
    _make(where, folder.rpartition(b"/")[0], made)
    try:
        os.mkdir(where + b"/" + folder)  # noqa: PTH102 - paths are bytes here
    except FileExistsError:
        raise _same_name(folder) from None
    made.add(folder)


def _halves(folders: list[tuple[bytes, list[Row]]]) -> Iterator[list[tuple[bytes, list[Row]]]]:
    """Cut the folders into as many parts as there are writers, with about as many files each."""
    share = sum(len(rows) for _, rows in folders) // WRITERS + 1
    part: list[tuple[bytes, list[Row]]] = []
    count = 0
    for folder, rows in folders:
        part.append((folder, rows))
        count += len(rows)
        if count >= share:
            yield part
            part, count = [], 0
    yield part


def _write_files(root: bytes, folders: list[tuple[bytes, list[Row]]], flat: Flat) -> None:
    """Write files. Twenty thousand times three system calls: what is between them is kept short."""
    open_, write, close, read = os.open, os.write, os.close, flat.read
    for folder, rows in folders:
        here = open_(root + b"/" + folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name, mode, oid, size in rows:
                if size > MAX_BLOB:
                    continue
                try:
                    file = open_(name, _NEW, 0o755 if mode == PROGRAM else 0o644, dir_fd=here)
                except FileExistsError:
                    raise _same_name(join(folder, name)) from None
                try:
                    if size and write(file, data := read(oid)) != size:
                        _write_rest(file, data)
                finally:
                    close(file)
        finally:
            close(here)


def _write_rest(file: int, data: memoryview) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    while data:
        data = data[os.write(file, data) :]


def _write_large(root: Path, places: Places, blobs: Iterator[tuple[bytes, int, IO[bytes]]]) -> None:
    where = os.fsencode(root) + b"/"
    for oid, size, stream in blobs:
        files = [os.fdopen(os.open(where + path, _NEW, 0o755 if runs else 0o644), "wb") for path, runs in places[oid]]
        try:
            left = size
            while left:
                data = stream.read(min(left, CHUNK))
                if not data:
                    raise EOFError("git ended within a blob")
                left -= len(data)
                for file in files:
                    file.write(data)
        finally:
            for file in files:
                file.close()


@dataclass(frozen=True, slots=True)
class Stat:
    """How much a change is: files, and lines added and removed. Binary files count as files only."""

    files: int
    added: int
    removed: int


async def diffstat(mirror: Mirror, base: str, tip: str) -> Stat:
    """Return how much lies between two commits or trees. Missing blobs count as files only."""
    changes = await list_changes(mirror, base, tip)
    counts = [(change.added, change.removed) for change in changes]
    return Stat(len(changes), sum(added for added, _ in counts), sum(removed for _, removed in counts))


async def patch(mirror: Mirror, base: str, tip: str, *, limit: int) -> str:
    """Return what lies between two commits or trees as text for `git apply`, whole object ids and all.

    Files that are not UTF-8 come as git's binary patches, so the text is valid UTF-8 with line ends as they are: write
    it with ``newline=""``. Changes of missing blobs are left out. Raises TooLarge above `limit` bytes.
    """
    changes = [change for change in await list_changes(mirror, base, tip) if not change.missing]
    huge = {path for change in changes if max(change.sizes) > SIDE_BYTES for path in change.paths}
    text: list[str] = []

    async def add(batch: list[bytes], foreign: set[bytes]) -> None:
        for paths, binary in ([path for path in batch if path not in foreign], False), (sorted(foreign), True):
            if paths:
                text.append((await _patch(mirror, (base, tip), paths, binary=binary, limit=limit)).decode())

    for batch in chunks(path for change in changes for path in change.paths):
        known = len(text)
        try:
            await add(batch, huge & {*batch})
        except UnicodeDecodeError:
            del text[known:]
            asked = [path for path in batch if path not in huge]
            await add(
                batch, {*batch} - {path for path in asked if await _is_text(mirror, (base, tip), path, limit=limit)}
            )
    if sum(len(each.encode()) for each in text) > limit:
        raise TooLarge(f"The patch has more than {limit:,} bytes")
    return "".join(text)


BIG = ("core.bigFileThreshold", str(SIDE_BYTES))
"""What is larger has no lines to git, which takes forty times its size to compare those of a file without words."""
SHOWN_BYTES = 1_000_000
"""Bytes of a file's diff beyond which GitHub does not show it (docs.github.com, "Repository limits": 1 MB)."""


async def shown_lines(mirror: Mirror, base: str, tip: str, path: str, lines: Collection[int]) -> frozenset[int]:
    """Return which lines of a file at `tip` GitHub shows under *Files changed*: the added ones and three around."""
    try:
        raw = await _diff(mirror, [*DIFF, sha(base), sha(tip), "--", path.encode()], limit=SHOWN_BYTES)
    except TooLarge:
        return frozenset()
    hunks = re.findall(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", raw, flags=re.MULTILINE)
    starts = [int(first) for first, _ in hunks]
    ends = [int(first) + int(count or 1) for first, count in hunks]
    return frozenset(line for line in lines if (at := bisect_right(starts, line)) and line < ends[at - 1])


async def _is_text(mirror: Mirror, ends: tuple[str, str], path: bytes, *, limit: int) -> bool:
    try:
        (await _patch(mirror, ends, [path], binary=False, limit=limit)).decode()
    except UnicodeDecodeError:
        return False
    return True


async def _patch(mirror: Mirror, ends: tuple[str, str], paths: list[bytes], *, binary: bool, limit: int) -> bytes:
    with tempfile.NamedTemporaryFile() as attributes:
        attributes.write(b"* -diff\n" if binary else b"")
        attributes.flush()
        argv = ["--full-index", "--binary", *DIFF, *map(sha, ends), "--"]
        return await _diff(mirror, [*argv, *paths], limit=limit, settings=(("core.attributesFile", attributes.name),))


async def _diff(mirror: Mirror, argv: list[str | bytes], *, limit: int, settings: Settings = ()) -> bytes:
    argv = ["diff-tree", "-r", "-p", "--no-renames", *argv]
    finished = await run(replace(program(mirror.path, *argv, settings=(BIG, *settings)), output_cap=limit))
    if finished.cut:
        raise TooLarge(f"The patch has more than {limit:,} bytes")
    return succeeded(tuple(argv), finished)


def _same_name(path: bytes) -> GitRefused:
    return GitRefused("the tree", f"this disk takes two of its names for one: {shown(path)}")


def _twins(files: Folders) -> Iterator[str]:
    for folder, rows in files.items():
        keys = [fold(row.name) for row in rows]
        if len(set(keys)) != len(keys):
            count = Counter(keys)
            yield from (shown(join(folder, row.name)) for row, key in zip(rows, keys, strict=True) if count[key] > 1)
