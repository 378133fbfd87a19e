"""What a project says to whoever works on it: read from the base branch, where no pull request can change it.

Owns which files those are, where they are looked for, and how much of them is kept. They are data: nothing here obeys
them, and they reach an agent as quoted text alone (threats.md 4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from posixpath import dirname

from worker.debate.task import Guidance
from worker.git.entries import FILE, PROGRAM, list_rows, read_blobs
from worker.git.mirror import Mirror

NAMES = ("AGENTS.md", "CLAUDE.md", "REVIEW.md")
"""Files in which projects write such words, in the order in which they are read within one folder."""
BUDGET = 32_000
"""Bytes of all of them: as much as a section may have in a brief (decisions.md 6.1)."""
FOLDERS = 500
"""Folders that are looked into, the outermost first."""


async def read_guidance(mirror: Mirror, base: str, changed: Iterable[str]) -> tuple[Guidance, ...]:
    """Return the project's words that hold for some paths, from the root to their folders.

    `base` is a commit of the base branch. Files of the same words are told once; links are not followed. What finds no
    room is cut, or kept without words, so that it can be named.
    """
    places = [f"{folder}/{name}" if folder else name for folder in _folders(changed) for name in NAMES]
    rows = await list_rows(mirror, base, [place.encode() for place in places])
    here = ((place, rows.get(place.encode())) for place in places)
    wanted = [(place, row) for place, row in here if row and row.mode in {FILE, PROGRAM} and row.size]
    files: dict[bytes, tuple[str, int]] = {}
    for place, row in wanted:
        files.setdefault(row.oid, (place, row.size))
    rooms = _rooms(files)
    words = await read_blobs(mirror, [oid for oid, room in rooms.items() if room])
    return tuple(
        Guidance(path=place, text=words.get(oid, b"")[: rooms[oid]].decode("utf-8", "ignore"), whole=rooms[oid] == size)
        for oid, (place, size) in files.items()
    )


def _rooms(files: dict[bytes, tuple[str, int]]) -> dict[bytes, int]:
    """Return how many bytes of each file find room. One beyond any use is not read at all, nor one that is missing."""
    rooms, left = {}, BUDGET
    for oid, (_, size) in files.items():
        rooms[oid] = min(size, left) if 0 <= size <= 16 * BUDGET else 0
        left -= rooms[oid]
    return rooms


def _folders(changed: Iterable[str]) -> list[str]:
    """Return the folders above some paths, the root first."""
    above = {folder for path in changed for folder in _above(path)}
    return sorted(above | {""}, key=lambda folder: (folder.count("/"), folder))[:FOLDERS]


def _above(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path
