"""What a tree holds, and what of it is written into a run's folder.

Owns the listing of a tree with its limits, and the plan: which entries become files, which links stay links, and which
entries are left out and why. Writing (tree.py) and admission (admit.py) follow the same plan, so that what was never
written is brought back, and never taken for deleted. Reads objects only; writes nothing.
"""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import IO, NamedTuple

from worker.git import GitFailed, GitRefused, plain, program, sha
from worker.git.extent import check_extent
from worker.git.links import MAX_FOLLOWED, MAX_LINK, staying
from worker.git.mirror import TOO_LARGE, Mirror
from worker.git.paths import MAX_DEPTH, MAX_NAME, MAX_PATH, has_controls, is_git, is_unwritten, join, shown
from worker.pipe import Pipe, pipe
from worker.process import CHUNK

MAX_ENTRIES = 200_000
MAX_BYTES = 2 * 1024**3
MAX_RECORD = 16 * 1024 * 1024
"""Bytes of one line of a listing, at most."""

FILE = b"100644"
PROGRAM = b"100755"
LINK = b"120000"
GITLINK = b"160000"

UNWRITTEN = "configuration of an agent or a hook"
CONTROLS = "control characters in its name"
SUBMODULE = "a submodule"
LONG_NAME = "its name is too long"
OUTSIDE = "outside the part of this large repository that was checked out"


class Row(NamedTuple):
    """One entry of a folder."""

    name: bytes
    mode: bytes
    oid: bytes
    size: int
    """Bytes; -1 where the blob is missing (it was too large to be fetched)."""


Folders = dict[bytes, list[Row]]
"""The entries of each folder, by the folder's path (empty: the root). Folders of folders alone do not stand in it."""


@dataclass(slots=True)
class Plan:
    """What of a tree is written, and how."""

    files: Folders = field(default_factory=dict)
    """Regular files. Links that leave the tree are among them: a small file that holds the target."""
    links: dict[bytes, bytes] = field(default_factory=dict)
    """Links that stay links: path and target."""
    absent: dict[bytes, tuple[Row, str]] = field(default_factory=dict)
    """Entries that are left out, and why."""
    count: int = 0
    size: int = 0
    narrowed: bool = False
    """The tree is too large; only the folders of changed files are here. What else it holds is not listed at all."""


def rows_at(given: Plan, paths: Iterable[bytes]) -> dict[bytes, Row]:
    """Return the planned files that stand at some paths; a path without one is left out."""
    wanted: dict[bytes, set[bytes]] = {}
    for path in paths:
        folder, _, name = path.rpartition(b"/")
        wanted.setdefault(folder, set()).add(name)
    return {
        join(folder, row.name): row
        for folder, names in wanted.items()
        for row in given.files.get(folder, ())
        if row.name in names
    }


class _TooMany(Exception):  # noqa: N818 - never leaves this module
    """The listing was stopped at a limit."""


async def plan(mirror: Mirror, tree: str, *, base: str | None = None) -> Plan:
    """Plan a tree (or a commit's tree). Above the limits only the folders of what differs from `base` are planned.

    Raises GitRefused where a folder lies too deep, a name is git's own, or the part to check out is too large as well.
    """
    try:
        folders = await _list(mirror, ["-r", "--end-of-options", sha(tree)])
        narrowed = False
    except _TooMany:
        folders = await _changed_folders(mirror, tree, base)
        narrowed = True
    return await _sort(mirror, folders, narrowed=narrowed)


# ---- Listing --------------------------------------------------------------------------------------------------------

_RECORD = re.compile(rb"(\d{6}) \w+ ([0-9a-f]{40}) +(\d+|-|BAD)\t(?:([^\0]*)/)?([^/\0]+)\0")
_NO_SIZE = {b"-": 0, b"BAD": -1}
"""What git writes for a folder or a submodule, and for a blob that is missing."""


async def _list(mirror: Mirror, argv: list[str | bytes]) -> Folders:
    """List blobs and gitlinks, as a stream that ends at a limit: a small pack can hold ten million paths."""
    spec = program(mirror.path, "ls-tree", "-l", "-z", "--full-tree", *argv)
    return await pipe(spec, _read_listing)


def _read_listing(listing: Pipe) -> Folders:
    folders: Folders = {}
    here: bytes | None = None
    rows: list[Row] = []
    count = size = 0
    for records in _records(listing.stdout):
        count += len(records)
        for mode, oid, length, folder, name in records:
            if mode == b"040000":
                continue
            if folder != here:
                here = folder
                rows = folders.setdefault(folder, [])
                if not rows:
                    _check_folder(folder)
            bytes_ = _NO_SIZE[length] if length in _NO_SIZE else int(length)
            size += bytes_
            rows.append(Row(name, mode, oid, bytes_))
        if count > MAX_ENTRIES or size > MAX_BYTES:
            raise _TooMany
    if (code := listing.finish()) == -signal.SIGSEGV:  # git calls itself for each folder below
        raise GitRefused("the tree", f"its folders are more than {MAX_DEPTH} deep")
    if code != 0:
        raise GitFailed("ls-tree", plain(listing.errors()))
    return folders


def _records(stream: IO[bytes]) -> Iterator[list[tuple[bytes, bytes, bytes, bytes, bytes]]]:
    rest = b""
    while data := stream.read1(CHUNK):  # type: ignore[attr-defined]
        data = rest + data
        whole = data.rfind(b"\0") + 1
        rest = data[whole:]
        yield _RECORD.findall(data, 0, whole)
        if len(rest) > MAX_RECORD:
            raise GitRefused("the tree", "a name in it is longer than any disk allows")


def _check_folder(folder: bytes) -> None:
    if folder.count(b"/") >= MAX_DEPTH:
        raise GitRefused("the tree", f"its folders are more than {MAX_DEPTH} deep")


async def _changed_folders(mirror: Mirror, tree: str, base: str | None) -> Folders:
    if base is None:
        raise GitRefused("the tree", f"it has more than {MAX_ENTRIES:,} files or {MAX_BYTES >> 30} GiB")
    await check_extent(mirror, base, tree)
    spec = program(mirror.path, "diff-tree", "-r", "-z", "--name-only", "--no-renames", sha(base), sha(tree))
    changed = await pipe(spec, _read_folders)
    folders: Folders = {}
    count = size = 0
    for batch in chunks(sorted(changed)):
        argv: list[str | bytes] = ["--end-of-options", sha(tree)]
        argv += [folder + b"/" for folder in batch if folder]
        listed: list[Folders] = []
        try:
            if b"" in batch:
                listed.append(await _list(mirror, argv[:2]))
            if len(argv) > 2:
                listed.append(await _list(mirror, argv))
        except _TooMany:
            raise _still_too_large() from None
        for part in listed:
            folders.update({folder: rows for folder, rows in part.items() if folder in changed})
            count += sum(map(len, part.values()))
            size += sum(row.size for rows in part.values() for row in rows)
        if count > MAX_ENTRIES or size > MAX_BYTES:
            raise _still_too_large()
    return folders


def _still_too_large() -> GitRefused:
    return GitRefused("the tree", "the folders of its changed files alone are too large to check out")


def _read_folders(names: Pipe) -> set[bytes]:
    folders: set[bytes] = set()
    rest = b""
    seen = 0
    while data := names.stdout.read(CHUNK):
        *paths, rest = (rest + data).split(b"\0")
        seen += len(paths)
        if seen > MAX_ENTRIES:
            raise GitRefused("the tree", f"the pull request changes more than {MAX_ENTRIES:,} files")
        folders.update(path.rpartition(b"/")[0] for path in paths)
    if names.finish() != 0:
        raise GitFailed("diff-tree", plain(names.errors()))
    return folders


def chunks(paths: Iterable[bytes], room: int = 100_000) -> Iterator[list[bytes]]:
    """Cut paths into lists that fit an argument list."""
    batch: list[bytes] = []
    used = 0
    for path in paths:
        if batch and used + len(path) > room:
            yield batch
            batch, used = [], 0
        batch.append(path)
        used += len(path) + 16
    if batch:
        yield batch


# ---- Sorting out ----------------------------------------------------------------------------------------------------

# A name that may need a closer look: anything but printable ASCII, or one of the special names of paths.py.
_ODD = re.compile(rb"[^ -~]|\\|(?:\A|/)(?i:\.|git|claude|agents|bunfig)")
_REGULAR = {FILE, PROGRAM}


async def _sort(mirror: Mirror, folders: Folders, *, narrowed: bool) -> Plan:
    done = Plan(narrowed=narrowed)
    links: dict[bytes, Row] = {}
    for folder, rows in folders.items():
        if any(is_git(part) for part in folder.split(b"/")):
            raise GitRefused("the tree", f"it holds {shown(folder)}")
        prefix = folder + b"/" if folder else b""
        why = CONTROLS if has_controls(folder) else UNWRITTEN if is_unwritten(folder) else None
        if why is None and _all_plain(rows) and len(folder) < MAX_PATH - MAX_NAME:
            done.files[folder] = rows
            continue
        files = []
        for row in rows:
            if (problem := why or _problem(row, len(prefix))) is not None:
                done.absent[prefix + row.name] = (row, problem)
            elif row.mode == LINK:
                links[prefix + row.name] = row
            else:
                files.append(row)
        if files:
            done.files[folder] = files
    await _sort_links(mirror, links, done)
    done.count = sum(map(len, done.files.values())) + len(done.links)
    done.size = sum(row.size for rows in done.files.values() for row in rows)
    return done


def _all_plain(rows: list[Row]) -> bool:
    """Tell whether no entry of a folder needs a closer look: nearly all folders of nearly all repositories."""
    names, modes, _, sizes = zip(*rows, strict=True)
    return (
        _REGULAR.issuperset(modes)
        and min(sizes) >= 0
        and max(map(len, names)) <= MAX_NAME
        and not _ODD.search(b"/".join(names))
    )


def _problem(row: Row, prefix: int) -> str | None:
    """Return why an entry is left out, or None."""
    name = row.name
    if is_git(name):
        raise GitRefused("the tree", f"it holds {shown(name)}")
    if has_controls(name):
        return CONTROLS
    if is_unwritten(name):
        return UNWRITTEN
    if row.mode == GITLINK:
        return SUBMODULE
    if row.size < 0:
        return TOO_LARGE
    if len(name) > MAX_NAME or prefix + len(name) > MAX_PATH:
        return LONG_NAME
    return None


async def _sort_links(mirror: Mirror, links: dict[bytes, Row], done: Plan) -> None:
    small = [(path, row) for path, row in links.items() if row.size <= MAX_LINK]
    sizes = accumulate(row.size for _, row in small)
    oids = {path: row.oid for (path, row), size in zip(small, sizes, strict=True) if size <= MAX_FOLLOWED}
    blobs = await read_blobs(mirror, set(oids.values()))
    targets = {path: blobs[oid] for path, oid in oids.items()}
    kept = await asyncio.to_thread(staying, targets)
    for path, row in links.items():
        if path in kept:
            done.links[path] = targets[path]
        else:
            done.files.setdefault(path.rpartition(b"/")[0], []).append(row)


# ---- Reading blobs --------------------------------------------------------------------------------------------------


async def read_blobs(mirror: Mirror, oids: Iterable[bytes]) -> dict[bytes, bytes]:
    """Read a few small blobs at once, by their ids."""
    blobs: dict[bytes, bytes] = {}

    def take(found: Iterator[tuple[bytes, int, IO[bytes]]]) -> None:
        blobs.update({oid: stream.read(size) for oid, size, stream in found})

    await stream_blobs(mirror, oids, take)
    return blobs


async def stream_blobs(
    mirror: Mirror, oids: Iterable[bytes], take: Callable[[Iterator[tuple[bytes, int, IO[bytes]]]], None]
) -> None:
    """Stream blobs: `take` is called in a thread with (id, size, stream), and reads exactly `size` bytes of each."""
    asked = b"".join(oid + b"\n" for oid in oids)
    if not asked:
        return

    def use(cat: Pipe) -> None:
        feeder = threading.Thread(target=_feed, args=(cat.stdin, asked), daemon=True)
        feeder.start()
        take(_each_blob(cat.stdout))
        feeder.join()
        if cat.finish() != 0:
            raise GitFailed("cat-file", plain(cat.errors()))

    await pipe(program(mirror.path, "cat-file", "--batch", "--buffer"), use)


def _feed(stdin: IO[bytes], asked: bytes) -> None:
    try:
        stdin.write(asked)
        stdin.close()
    except (OSError, ValueError):
        return  # git died, or was ended: the reader sees it


def _each_blob(stream: IO[bytes]) -> Iterator[tuple[bytes, int, IO[bytes]]]:
    while header := stream.readline():
        oid, kind, *length = header.split()
        if kind != b"blob":  # or it is missing, and then has no length
            raise GitFailed("cat-file", f"{oid.decode()} is not a blob: {kind.decode()}")
        yield oid, int(length[0]), stream
        stream.read(1)  # the newline behind each object


async def list_rows(mirror: Mirror, tree: str, paths: Iterable[bytes]) -> dict[bytes, Row]:
    """Return the entries of a tree that stand at some paths; a path without one is left out."""
    found = {}
    for batch in chunks(paths):
        for folder, rows in (await _list(mirror, ["--end-of-options", sha(tree), *batch])).items():
            found.update({join(folder, row.name): row for row in rows})
    return found
