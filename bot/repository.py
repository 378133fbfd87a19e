"""What a repository says about itself: whether this server works for it, and its configuration.

Owns where the configuration is read from: the base branch alone, which outsiders cannot write to (interface.md 5).
"""

from __future__ import annotations

import asyncio

from bot import config, policy
from bot.config import BadConfig, Config
from bot.context import Scene
from bot.github import verbs


async def served(scene: Scene, owner_id: int) -> bool:
    """Return whether this server works for a repository. `owner_id` is the account's that it belongs to."""
    bot = scene.bot
    allow = bot.settings.allow
    app_owner_id = 0 if allow else await bot.app.owner_id()
    return policy.serves(scene.repo, owner_id, allow=allow, app_owner_id=app_owner_id)


async def config_of(scene: Scene, branch: str) -> Config | BadConfig | None:
    """Return a branch's configuration, or None where it has none.

    The branch is read at its commit: a tag of the same name is another thing.
    """
    sha = await verbs.branch_sha(scene.github, scene.repo, branch)
    if sha is None:
        return None
    try:
        raw = await verbs.contents(scene.github, scene.repo, config.PATH, ref=sha)
    except verbs.Unreadable as error:
        return BadConfig(1, error.message)
    # Aside: a hostile file may take a second to read, and others are answered meanwhile.
    return None if raw is None else await asyncio.to_thread(config.parse, raw)
