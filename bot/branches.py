"""The end of branches of ours: past their time they are deleted, while they are where we left them.

A branch that stands anywhere else is somebody's work by now, and is left alone (interface.md 7).
"""

from __future__ import annotations

import time

from bot.github import AppClient, GitHubError, NotFound, NotInstalled, Unavailable, verbs
from bot.github.app import PUSH_PERMISSIONS
from bot.store import Branch, Store
from bot.telemetry import log

AGAIN_SECONDS = 86_400
"""Until the next try of a deletion that GitHub refused."""


async def delete_old(app: AppClient, store: Store, *, now: float | None = None) -> int:
    """Delete the branches whose time is over, and return how many were. Raises `Unavailable` and `StoreAway`."""
    now = time.time() if now is None else now
    deleted = 0
    for branch in await store.upkeep.branches():
        if branch.until > now:
            continue
        try:
            deleted += await _delete(app, branch)
        except (NotInstalled, NotFound):  # it is not ours to delete any more
            pass
        except Unavailable:
            raise
        except GitHubError as error:  # protected meanwhile, or the repository archived
            log(__name__).warning("branch kept", branch=branch.name, run=branch.run, error=str(error))
            await store.upkeep.keep_branch(branch.model_copy(update={"until": now + AGAIN_SECONDS}))
            continue
        await store.upkeep.forget_branch(branch.run)
    return deleted


async def _delete(app: AppClient, branch: Branch) -> bool:
    github = app.installation(branch.installation, branch.repository, PUSH_PERMISSIONS)
    repo = await verbs.repository_name(github, branch.repository)
    if repo is None or await verbs.branch_sha(github, repo, branch.name) not in branch.shas:
        return False
    await verbs.delete_branch(github, repo, branch.name)
    return True
