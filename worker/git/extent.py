"""How much differs between two trees, counted without listing it.

Owns the refusal of a change that is too large to be asked about: git keeps all of a difference in memory before it says
a word of it, and a few kilobytes of objects can stand for as much as there is (threats.md T13).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from worker.git import GitRefused, TooLarge, sha
from worker.git.mirror import Mirror
from worker.git.paths import MAX_DEPTH
from worker.git.trees import FOLDER, Trees, read_trees

MAX_CHANGES = 200_000
"""Files and folders that may differ, at most: as many as a tree may hold that is checked out (decisions.md 2.3)."""


async def check_extent(mirror: Mirror, one: str, other: str) -> None:
    """Raise GitRefused where more differs between two commits or trees than can be listed."""
    ends = (f"{sha(one)}^{{tree}}".encode(), f"{sha(other)}^{{tree}}".encode())
    try:
        count = await read_trees(mirror, lambda trees: _Count(trees).between(*ends, 0))
    except TooLarge as error:
        raise GitRefused("the pull request", "it changes more files than can be listed") from error
    if count > MAX_CHANGES:
        raise GitRefused("the pull request", f"it changes more than {MAX_CHANGES:,} files")


@dataclass(slots=True)
class _Count:
    """A count under way. Whatever occurs again and again is counted once, and the count ends at its limit."""

    trees: Trees
    counted: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def between(self, one: bytes, other: bytes, depth: int) -> int:
        """Return how many files and folders differ between two trees (empty: none), or more than the limit."""
        pair = (one, other)
        if pair not in self.counted:
            self.counted[pair] = self._between(one, other, depth)
        return self.counted[pair]

    def _between(self, one: bytes, other: bytes, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise GitRefused("the pull request", f"its folders are more than {MAX_DEPTH} deep")
        before = self.trees.read(one) if one else {}
        after = self.trees.read(other) if other else {}
        count = 1
        for name in before.keys() | after.keys():
            mode, oid = before.get(name, (b"", b""))
            new_mode, new_oid = after.get(name, (b"", b""))
            if (mode, oid) == (new_mode, new_oid):
                continue
            if FOLDER in {mode, new_mode}:
                below = (oid if mode == FOLDER else b"", new_oid if new_mode == FOLDER else b"")
                count += self.between(*below, depth + 1)
            if {mode, new_mode} - {FOLDER, b""}:
                count += 1
            if count > MAX_CHANGES:
                break
        return count
