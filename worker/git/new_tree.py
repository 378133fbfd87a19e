"""A tree that comes of another by new files and removed paths.

Owns how it is put together: only the folders on the way to what changes are read and written anew, however many paths
the rest stands for. Everything else stays as it is, read or not, and nothing that was never looked at is written over.
"""

from __future__ import annotations

import hashlib
import struct
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.git import GitFailed, git, plain, program, sha, succeeded
from worker.git.mirror import Mirror
from worker.git.trees import FOLDER, Rows, Trees, read_trees
from worker.process import run

_BLOB, _TREE = 3, 2
"""The types of objects in a pack (gitformat-pack)."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a tree is to hold."""

    oid: bytes
    mode: bytes
    raw: bytes | None
    """Its bytes; None where the mirror has them."""


class InTheWay(Exception):  # noqa: N818 - it is what it says
    """A new file stands where the tree has a folder, or below what is no folder there, and that was not removed."""

    def __init__(self, path: bytes) -> None:
        """`path` is where both would have to stand."""
        super().__init__(repr(path))
        self.path = path


async def write_tree(mirror: Mirror, tree: str, new: Mapping[bytes, NewFile], gone: Collection[bytes]) -> str:
    """Return the tree that comes of another by new files and removed paths. Everything else stays, read or not.

    Raises InTheWay where something stands in a new file's way, TooLarge above 32 MiB of folders, and GitFailed, with
    the words "Ignoring path", where git itself does not take a name.
    """
    await _check_names(mirror, new)
    root = f"{sha(tree)}^{{tree}}".encode()
    edit = _Edit({b"", *(folder for path in (*new, *gone) for folder in _above(path))})
    await read_trees(mirror, lambda trees: _read(trees, root, edit))
    edit.remove(gone)
    edit.add(new)
    made = edit.write()
    blobs = {file.oid: file.raw for file in new.values() if file.raw is not None}
    objects = [(_BLOB, raw) for raw in blobs.values()] + [(_TREE, raw) for raw in edit.written]
    await git(mirror.path, "unpack-objects", "-q", stdin=pack_of(objects))
    return made.decode()


async def _check_names(mirror: Mirror, new: Mapping[bytes, NewFile]) -> None:
    """Show the new names to git, which knows those that are dangerous somewhere: it leaves them out of an index."""
    lines = [b"%s %s\t%s\0" % (file.mode, file.oid, path) for path, file in new.items()]
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        argv = ("update-index", "-z", "--index-info")
        finished = await run(program(mirror.path, *argv, stdin=b"".join(lines), env=env))
        succeeded(argv, finished)
        if finished.stderr:  # and calls that success
            raise GitFailed("update-index", plain(finished.stderr))


def _above(path: bytes) -> Iterator[bytes]:
    """Return the folders on the way to a path, the root among them."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


@dataclass(slots=True)
class _Edit:
    """Folders that are written anew."""

    folders: set[bytes]
    rows: dict[bytes, Rows] = field(default_factory=dict)
    """What stands in each; in those that the tree does not have, nothing yet."""
    written: list[bytes] = field(default_factory=list)
    """The folders as objects."""

    def remove(self, gone: Iterable[bytes]) -> None:
        for path in gone:
            folder, _, name = path.rpartition(b"/")
            self.rows.get(folder, {}).pop(name, None)

    def add(self, new: Mapping[bytes, NewFile]) -> None:
        for path, file in new.items():
            folder, _, name = path.rpartition(b"/")
            rows = self.rows.setdefault(folder, {})
            # What is left of a folder of this name, if anything, is seen when it is written.
            if path not in self.folders and rows.get(name, (b"", b""))[0] == FOLDER:
                raise InTheWay(path)
            rows[name] = (file.mode, file.oid)

    def write(self) -> bytes:
        """Write the folders, each after all that is below it, and return the id of the root."""
        oid = b""
        for folder in sorted(self.folders, reverse=True):
            rows = self.rows.get(folder, {})
            raw = _tree_object(rows)
            oid = hashlib.sha1(b"tree %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest().encode()
            if not folder or rows:
                self.written.append(raw)
            if folder:
                self._hang(folder, oid if rows else None)
        return oid

    def _hang(self, folder: bytes, oid: bytes | None) -> None:
        """Put a written folder into the one above it, or take an empty one out."""
        above, _, name = folder.rpartition(b"/")
        rows = self.rows.setdefault(above, {})
        stands = rows.get(name, (FOLDER, b""))[0]
        if oid is None:
            if stands == FOLDER:
                rows.pop(name, None)
        elif stands != FOLDER:
            raise InTheWay(folder)
        else:
            rows[name] = (FOLDER, oid)


# ---- Objects --------------------------------------------------------------------------------------------------------


def _read(trees: Trees, root: bytes, edit: _Edit) -> None:
    """Read the folders that the tree has, from the root down."""
    for folder in sorted(edit.folders):
        above, _, name = folder.rpartition(b"/")
        mode, oid = (FOLDER, root) if not folder else edit.rows.get(above, {}).get(name, (b"", b""))
        if mode == FOLDER:
            edit.rows[folder] = dict(trees.read(oid))


def _tree_object(rows: Rows) -> bytes:
    """Return a folder as an object: sorted as git does, for which a folder's name ends in a slash."""
    order = sorted(rows.items(), key=lambda each: each[0] + b"/" if each[1][0] == FOLDER else each[0])
    return b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(oid.decode())) for name, (mode, oid) in order)


def pack_of(objects: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a pack that holds objects (type and bytes): one git command takes them all in (gitformat-pack, 2)."""
    parts = []
    for kind, raw in objects:
        size = len(raw)
        head = bytearray([kind << 4 | size & 15])
        size >>= 4
        while size:
            head[-1] |= 0x80
            head.append(size & 0x7F)
            size >>= 7
        parts.append(bytes(head) + zlib.compress(raw, 1))
    body = b"PACK" + struct.pack(">II", 2, len(parts)) + b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
