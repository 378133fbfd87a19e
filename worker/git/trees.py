"""Tree objects, read one by one: for what must look at a few folders of a tree that stands for any number of paths.

Owns the one program that reads them, and what an entry is. git's own commands for trees read all that is below: from a
pack of a few kilobytes they can take gigabytes of memory (threats.md T13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from worker.git import GitFailed, TooLarge, plain, program
from worker.git.mirror import Mirror
from worker.pipe import Pipe, pipe

T = TypeVar("T")

FOLDER = b"40000"
MAX_TREES = 32 * 1024 * 1024
"""Bytes of tree objects that are looked at for one question, at most: in memory they are some eight times as large."""

Rows = dict[bytes, tuple[bytes, bytes]]
"""The entries of one folder: mode and object id, by name."""


class Trees:
    """The trees of a mirror. It belongs to one thread."""

    def __init__(self, cat: Pipe) -> None:
        self._cat = cat
        self._room = MAX_TREES
        self._known: dict[bytes, Rows] = {}

    def read(self, name: bytes) -> Rows:
        """Return what stands in a tree, which is not to be changed. Raises TooLarge where it was asked for too much.

        `name` is the id of a tree, or that of a commit or tree and ``^{tree}``.
        """
        if name not in self._known:
            self._known[name] = dict(_entries(self._read(name)))
        return self._known[name]

    def _read(self, name: bytes) -> bytes:
        self._cat.stdin.write(name + b"\n")
        self._cat.stdin.flush()
        header = self._cat.stdout.readline().split()
        if header[1:2] != [b"tree"]:
            raise GitFailed("cat-file", f"{name.decode()} is no tree")
        size = int(header[2])
        self._room -= size
        if self._room < 0:
            raise TooLarge(f"The folders to look at are larger than {MAX_TREES >> 20} MiB")
        raw = self._cat.stdout.read(size)
        self._cat.stdout.read(1)  # the newline behind each object
        return raw


async def read_trees(mirror: Mirror, use: Callable[[Trees], T]) -> T:
    """Call `use` in a thread with a mirror's trees, and return what it returns."""

    def work(cat: Pipe) -> T:
        result = use(Trees(cat))
        if cat.finish() != 0:
            raise GitFailed("cat-file", plain(cat.errors()))
        return result

    return await pipe(program(mirror.path, "cat-file", "--batch"), work)


def _entries(raw: bytes) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    """Return the entries of a tree object: name, and mode and object id as an index would have them."""
    at = 0
    while at < len(raw):
        blank, end = raw.index(b" ", at), raw.index(b"\0", at)
        mode = raw[at:blank].lstrip(b"0")
        if mode.startswith(b"100"):  # old histories hold files that a group may write
            mode = b"100755" if int(mode, 8) & 0o100 else b"100644"
        yield raw[blank + 1 : end], (mode, raw[end + 1 : end + 21].hex().encode())
        at = end + 21
