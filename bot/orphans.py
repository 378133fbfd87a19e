"""Check runs that no run stands behind, found on GitHub and concluded: none stays open for ever.

So it is where the store was lost, or where a fault of ours left one. It owns how they are looked for, a few calls at a
time, and which is one. A run is stored before its check run is created: what GitHub shows and the store does not know,
the store has lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from bot import lost
from bot.github import AppClient, AppIdentity, GitHub, GitHubError, NotInstalled, Unavailable, own, verbs
from bot.github.app import LOOK_PERMISSIONS
from bot.publish import concluded
from bot.statuses import CHECK_NAME, TABLE, Status
from bot.store import Store
from bot.telemetry import log

PATIENCE = 3
"""Installations that may be silent in one sweep before GitHub itself is taken to be."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A pull request, and the credential with which it is read and written."""

    github: GitHub
    repo: str
    number: int


async def sweep(app: AppClient, store: Store) -> AsyncGenerator[None, None]:
    """Look at the open pull requests of all installations, and yield after each call or two.

    What refuses, or does not answer, is passed over until the next sweep: an archived repository, an installation that
    is limited. Raises `Unavailable` where GitHub has not answered `PATIENCE` times.
    """
    silent = 0
    for installation in await own.installations(app.own):
        yield
        if installation.suspended_at is not None:
            continue
        try:
            repositories = await verbs.repositories(app.everywhere(installation.id))
            for repository in repositories:
                yield
                if not repository.archived:
                    async for _ in _sweep(app, store, installation.id, repository):
                        yield
        except Unavailable:
            silent += 1
            if silent == PATIENCE:
                raise
        except GitHubError as error:
            log(__name__).warning("not swept", installation=installation.id, error=str(error))


async def _sweep(
    app: AppClient, store: Store, installation: int, repository: verbs.RepositoryRef
) -> AsyncGenerator[None, None]:
    looking, repo = app.installation(installation, repository.id, LOOK_PERMISSIONS), repository.full_name
    try:
        identity = await app.identity(looking)
        for pull in await verbs.open_pulls(looking, repo):
            yield
            for check in await verbs.check_runs(looking, repo, pull.head.sha, app=identity.id):
                if await _orphaned(check, store, identity):
                    github = app.installation(installation, repository.id)
                    await conclude(Conversation(github, repo, pull.number), check, identity)
                    yield
    except Unavailable:
        raise
    except GitHubError as error:
        log(__name__).warning("not swept", repository=repo, error=str(error))


async def _orphaned(check: verbs.CheckRun, store: Store, identity: AppIdentity) -> bool:
    """Return whether an open check run is ours, and no run is left that would conclude it."""
    ours = check.app is not None and check.app.id == identity.id and check.name.partition("/")[0] == CHECK_NAME
    if not ours or check.status == "completed":
        return False
    run = check.external_id or ""
    live = await store.runs.live(run)
    if live is None:
        return True
    if live or await store.outbox.pending(run):
        return False
    # GitHub reads from replicas: what was concluded a moment ago may look open still.
    return not await concluded(store.outbox, run, check.name)


async def conclude(place: Conversation, check: verbs.CheckRun, identity: AppIdentity) -> None:
    """Conclude a check run, and change the badge of the comment that its debate has written, if there is one."""
    run = check.external_id or ""
    log(__name__).warning("a lost debate is concluded", repository=place.repo, number=place.number, run=run)
    output = {"title": lost.TITLE, "summary": lost.summary(run)}
    fields = {"status": "completed", "conclusion": TABLE[Status.STATE_LOST].conclusion, "output": output}
    await verbs.update_check_run(place.github, place.repo, check.id, fields=fields)
    try:
        await _mark(place, run, identity)
    except (Unavailable, NotInstalled):
        raise
    except GitHubError as error:  # the conversation is locked, or the comment gone: the check run says it
        log(__name__).warning("not told", what="a lost debate", run=run, error=str(error))


async def _mark(place: Conversation, run: str, identity: AppIdentity) -> None:
    for comment in await verbs.comments(place.github, place.repo, place.number):
        body = comment.body or ""
        if comment.user is not None and comment.user.id == identity.bot_id and f"`{run}`" in body:
            told = lost.comment(body)
            if told is not None:
                await verbs.update_comment(place.github, place.repo, comment.id, body=told)
