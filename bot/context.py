"""What handlers work with: the bot's parts, and one place at GitHub that it is about to act on.

It owns how this process speaks at a place: with which credential, in which order, and what it passes over. It decides
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from bot import policy
from bot.events import Actor, Repository
from bot.github import REPLY_PERMISSIONS, AppClient, GitHub, GitHubError, NotFound, NotInstalled, Unavailable, verbs
from bot.github.verbs import Reacted
from bot.intents import Answer, CommentRef, Intent, Reaction
from bot.publish import Place, Published, Publisher
from bot.settings import Settings
from bot.store import Store
from bot.store.runs import new_run_id
from bot.telemetry import Metrics, log


def utc_now() -> datetime:
    """Return the time in whole seconds, UTC."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Bot:
    """What handlers work with."""

    settings: Settings
    store: Store
    app: AppClient
    metrics: Metrics
    now: Callable[[], datetime] = utc_now
    new_id: Callable[[], str] = new_run_id


@dataclass(frozen=True, slots=True)
class Scene:
    """An issue or pull request that an event is about, and the credential with which it is read and written."""

    bot: Bot
    github: GitHub
    installation_id: int
    repository: Repository
    number: int
    comment_id: int | None
    """The command's comment, where one asked."""
    delivery: str
    """The delivery that is handled: the same in every try of its job, so that what it did before is no repetition."""

    @property
    def repo(self) -> str:
        """The repository's ``owner/name``."""
        return self.repository.full_name

    def replying(self) -> Scene:
        """Return the scene with a credential that can reply and no more."""
        github = self.bot.app.installation(self.installation_id, self.repository.id, REPLY_PERMISSIONS)
        return replace(self, github=github)

    async def publisher(self, run_id: str | None = None) -> Publisher:
        """Return the way out to GitHub from here; `run_id` names the run that it speaks for."""
        identity = await self.bot.app.identity(self.github)
        return Publisher(self.bot.store.outbox, self.github, Place(self.repo, self.number, identity.bot_id), run=run_id)

    async def still_asked(self) -> bool:
        """Return whether the command's comment was not deleted meanwhile (threats.md, 41)."""
        if self.comment_id is None:
            return True
        comment = self.comment_id
        return await settled(lambda: verbs.comment(self.github, self.repo, comment)) is not None

    async def react(self, publisher: Publisher, content: Reacted) -> None:
        """React to the command, where a comment gave it."""
        if self.comment_id is not None:
            await attempt(publisher, Reaction(CommentRef(self.repo, self.comment_id), content))

    async def reply(self, publisher: Publisher, body: str) -> None:
        """Answer the command, where a comment gave it."""
        if self.comment_id is not None:
            key = f"{self.repository.id}/{self.comment_id}"
            await attempt(publisher, Answer(key, self.number, body, after=self.comment_id))


async def attempt(publisher: Publisher, intent: Intent) -> Published | None:
    """Publish what the rest does not depend on. What GitHub refuses for good is told to the log."""
    try:
        return await publisher.publish(intent)
    except (NotInstalled, Unavailable):
        raise  # the one ends the event, the other has it tried again
    except GitHubError as error:
        log(__name__).warning("not published", intent=type(intent).__name__, error=str(error))
        return None


T = TypeVar("T")

LAG_SECONDS = 2.0
"""For so long what a webhook tells of may not be there yet where it is read: GitHub reads from replicas (many Apps
sleep a second before their first call, python/bedevere among them)."""


async def settled(look: Callable[[], Awaitable[T]]) -> T | None:
    """Return what is looked at, or None where it is not there at a second look either."""
    for pause in (LAG_SECONDS, None):
        try:
            return await look()
        except NotFound:
            if pause is not None:
                await asyncio.sleep(pause)
    return None


# ---- Reading what decisions depend on -------------------------------------------------------------------------------


async def permission(scene: Scene, login: str) -> verbs.Permission | None:
    """Return an account's permission, or None where GitHub does not say: that counts as none (threats.md, 71)."""
    try:
        return await verbs.permission(scene.github, scene.repo, login)
    except (Unavailable, NotInstalled):
        raise
    except GitHubError:
        return None


async def approver_of(scene: Scene, found: verbs.PullRequest) -> Actor | None:
    """Return who approved exactly the head of a pull request, where he may still write here; else None."""
    place = (scene.repository.id, found.number)
    person = await scene.bot.store.approvals.approver(*place, head_sha=found.head.sha)
    if person is None or not policy.writes(await permission(scene, person.login), person.id):
        return None
    return Actor(person.id, person.login, "User")


async def pull(scene: Scene, number: int) -> verbs.PullRequest | None:
    """Return a pull request of this very repository, or None where the number is none."""
    found = await settled(lambda: verbs.pull(scene.github, scene.repo, number))
    if found is None:
        return None
    # A repository that took over an old name is another one (threats.md, 67).
    return found if found.base.repo is not None and found.base.repo.id == scene.repository.id else None
