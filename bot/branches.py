"""The end of branches of ours: past their time they are deleted, while they are where we left them.

So are those of a closed pull request. A branch that stands anywhere else, or that an open pull request comes from, is
somebody's work by now, and is left alone (interface.md 7).
"""

from __future__ import annotations

import time

from bot.github import AppClient, GitHub, GitHubError, NotFound, NotInstalled, Unavailable, verbs
from bot.github.app import PUSH_PERMISSIONS
from bot.store import Branch, Store
from bot.telemetry import log

AGAIN_SECONDS = 86_400
"""Until the next try of a deletion that GitHub refused, or that somebody stands in the way of."""


async def delete_old(app: AppClient, store: Store, *, now: float | None = None) -> int:
    """Delete the branches that are of no use any more, and return how many were.

    One that fails keeps no other waiting; then this raises `Unavailable`. Raises `StoreAway`.
    """
    now = time.time() if now is None else now
    deleted, away = 0, list[Unavailable]()
    closed = await store.upkeep.closed()
    for branch in await store.upkeep.branches():
        if (branch.until > now and branch.run not in closed) or await store.runs.live(branch.run):
            continue
        try:
            deleted += await _end(app, store, branch, now=now)
        except Unavailable as fault:
            away.append(fault)
    if away:
        raise away[0]
    return deleted


async def _end(app: AppClient, store: Store, branch: Branch, *, now: float) -> bool:
    """Delete one branch if it is to go, and remember what is to come of it otherwise."""
    later = branch.model_copy(update={"until": max(branch.until, now + AGAIN_SECONDS)})
    deleted = False
    try:
        wanted, deleted = await _delete(app, branch, now=now)
        kept = later if wanted and branch.until <= now else branch
    except Unavailable:
        raise
    except NotInstalled as gone:
        wanted, kept = gone.why == "suspended", later  # else it is not ours to delete any more
    except NotFound:
        wanted, kept = False, branch
    except GitHubError as error:  # protected meanwhile, or the repository archived
        log(__name__).warning("branch kept", branch=branch.name, run=branch.run, error=str(error))
        wanted, kept = True, later
    if wanted:
        await store.upkeep.keep_branch(kept)
        await store.upkeep.asked(branch.run)
    else:
        await store.upkeep.forget_branch(branch.run)
    return deleted


async def _delete(app: AppClient, branch: Branch, *, now: float) -> tuple[bool, bool]:
    """Delete a branch if nothing stands against it; return whether it is still to be kept in mind, and whether it went.

    Raises what GitHub answers.
    """
    looking = app.installation(branch.installation, branch.repository)
    repo = await verbs.repository_name(looking, branch.repository)
    if repo is None or await verbs.branch_sha(looking, repo, branch.name) not in branch.shas:
        return False, False
    if await _in_use(looking, repo, branch) or (branch.until > now and not await _closed(looking, repo, branch)):
        return True, False
    github = app.installation(branch.installation, branch.repository, PUSH_PERMISSIONS)
    await verbs.delete_branch(github, repo, branch.name)
    return False, True


async def _in_use(github: GitHub, repo: str, branch: Branch) -> bool:
    """Return whether an open pull request comes from a branch: it would be closed with it."""
    owner = repo.partition("/")[0]
    return bool(await verbs.open_pulls(github, repo, head=f"{owner}:{branch.name}"))


async def _closed(github: GitHub, repo: str, branch: Branch) -> bool:
    """Return whether the pull request that a branch was made for is closed now: it may have been opened again."""
    return (await verbs.pull(github, repo, branch.number)).state == "closed"
