"""Merges of the base into a branch: whether a branch holds nothing new but what git itself would have merged.

A person who brings a pull request up to date changes nothing of what is debated. A merge that holds more than both its
sides does, and so does one of another branch than the base.
"""

from __future__ import annotations

from worker.git import GitFailed, git, sha
from worker.git.mirror import Mirror

MERGES = 20
"""So many merges on top of each other are followed."""


async def plain_merges(mirror: Mirror, old: str, new: str, *, base: str) -> bool:
    """Return whether `new` is `old` with plain merges of `base` on top, and nothing else. All three are commits.

    A merge is plain where its second parent is in `base` and its tree is the one that git makes of both parents without
    a conflict. Where git cannot tell (before 2.38 it has no way to merge without a checkout), it is not.
    """
    here = new
    for _ in range(MERGES):
        if here == old:
            return True
        tree, parents = await _commit(mirror, here)
        if len(parents) != 2 or not await _holds(mirror, base, parents[1]):
            return False
        if await _merged(mirror, *parents) != tree:
            return False
        here = parents[0]
    return here == old


async def _commit(mirror: Mirror, commit: str) -> tuple[str, list[str]]:
    """Return a commit's tree and its parents, as git reads them: names and messages may look like either."""
    out = await git(mirror.path, "log", "-1", "--no-show-signature", "--format=%T %P", "--end-of-options", sha(commit))
    tree, *parents = out.decode("ascii").split()
    return tree, parents


async def _holds(mirror: Mirror, branch: str, commit: str) -> bool:
    try:
        await git(mirror.path, "merge-base", "--is-ancestor", sha(commit), sha(branch))
    except GitFailed as failure:
        if failure.code == 1:
            return False
        raise
    return True


async def _merged(mirror: Mirror, one: str, other: str) -> str | None:
    """Return the tree of a merge without conflicts, or None where git makes none."""
    try:
        out = await git(mirror.path, "merge-tree", "--write-tree", "--no-messages", sha(one), sha(other))
    except GitFailed:  # a conflict, a blob that is missing because of its size, or an old git
        return None
    return out.decode().split()[0]
