"""Which links of a tree lead to a place inside it, whatever other links are on the way. Pure."""

from __future__ import annotations

from worker.git.paths import MAX_NAME, MAX_PATH, is_git, join

MAX_LINK = 4096
"""Bytes of a link's target, at most: PATH_MAX of Linux."""
MAX_HOPS = 40
"""Links on the way to a link's target, at most: MAXSYMLINKS of Linux."""
MAX_FOLLOWED = 8 * 1024**2
"""Bytes of targets that are read, and that are followed, for all links of a tree: 80 each for a hundred thousand."""


def staying(targets: dict[bytes, bytes]) -> set[bytes]:
    """Return the links that lead to a place inside the tree, through whatever other links, and within the budget.

    `targets`: what each link of the tree holds, by its path.
    """
    left = MAX_FOLLOWED

    def stays(path: bytes) -> bool:
        nonlocal left
        here, _, name = path.rpartition(b"/")
        todo, hops = [name], 0
        while todo:
            part = todo.pop()
            if part in {b"", b"."}:
                continue
            if part == b"..":
                if not here:
                    return False
                here = here.rpartition(b"/")[0]
            elif (target := targets.get(there := join(here, part))) is not None:
                hops += 1
                left -= len(target)
                if hops > MAX_HOPS or left < 0 or not target or b"\0" in target or target.startswith(b"/"):
                    return False
                todo.extend(reversed(target.split(b"/")))
            elif len(part) > MAX_NAME or len(there) > MAX_PATH or is_git(part):
                return False
            else:
                here = there
        return True

    return set(filter(stays, targets))
