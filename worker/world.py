"""What must still hold around a run: its repository, its pull request, and the permission that it stands on.

It asks GitHub, before rounds and before every push, and ends the run where the world has moved. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.github import AppClient, GitHub, NotFound, NotInstalled, Unavailable, own, verbs
from bot.statuses import Status
from bot.store.runs import Run
from worker.ended import ARCHIVED, FORK_GONE, RETARGETED, Ended


@dataclass(frozen=True, slots=True)
class Located:
    """Where a run's repository is now."""

    run: Run
    """With the repository's present name."""
    github: GitHub
    moved: bool
    """It belongs to another installation than when the run was asked for."""


async def locate(run: Run, app: AppClient) -> Located:
    """Find a run's repository, which may have been renamed or transferred, or the App installed anew.

    Raises `NotInstalled` where the App has no part in it any more.
    """
    github = app.installation(run.installation_id, run.repository.id)
    try:
        return Located(await present(run, github), github, moved=False)
    except NotInstalled:
        there = await own.installation_of(app.own, run.repository.full_name)
        if there is None or there == run.installation_id:
            raise
    github = app.installation(there, run.repository.id)
    return Located(await present(run, github), github, moved=True)


async def present(run: Run, github: GitHub) -> Run:
    """Return the run with its repository's present name, which may have changed (threats.md, input 67).

    GitHub leads from an old name to the new one, until another repository takes the old one over. Raises `NotInstalled`
    where the installation has no such repository any more.
    """
    name = await verbs.repository_name(github, run.repository.id)
    if name is None:
        raise NotInstalled(404, "the repository is not this installation's any more")
    return run.model_copy(update={"repository": run.repository.model_copy(update={"full_name": name})})


async def nothing_merged(_: str) -> bool:
    """Say of every other head that it is more than the run's head with its base merged in."""
    return False


class World:
    """The surroundings of one attempt at a run. Its methods raise `GitHubError` where GitHub does not answer."""

    def __init__(
        self, run: Run, github: GitHub, *, only_merged: Callable[[str], Awaitable[bool]] = nothing_merged
    ) -> None:
        """`only_merged` says whether another head is the run's own with nothing but plain merges of the base on it."""
        self.run = run
        self._github = github
        self._only_merged = only_merged
        self._same = {run.head_sha}
        """Heads on which the pull request's own changes are those that the run debates."""

    @property
    def merged(self) -> bool:
        """Whether the head that was seen has taken in its base since the run was asked for."""
        return len(self._same) > 1

    async def still_current(self) -> None:
        """Raise `Ended` where the pull request was closed, moved on or was given another base, or nobody stands for it.

        A plain merge of the base is no move: what is debated is still there. Raises `Unavailable` where the repository
        was renamed meanwhile and another one took over its name: the next attempt finds it.
        """
        pull = await self._pull()
        if pull is None:
            if await present(self.run, self._github) != self.run:
                raise Unavailable(0, "the repository has another name now")
            raise Ended(Status.CLOSED)
        if pull.merged or pull.state == "closed":
            raise Ended(Status.CLOSED)
        if pull.base.repo is not None and pull.base.repo.archived:
            raise Ended(Status.CLOSED, ARCHIVED)
        if self.run.fork and pull.head.repo is None:
            raise Ended(Status.CLOSED, FORK_GONE)
        if pull.base.ref != self.run.own_base:
            raise Ended(Status.SUPERSEDED, RETARGETED)
        await self._same_head(pull.head.sha)
        if not await self._writes():  # threats.md, input 63
            raise Ended(Status.AUTHORISATION_WITHDRAWN)

    async def _same_head(self, head: str) -> None:
        if head in self._same:
            return
        if not await self._only_merged(head):
            raise Ended(Status.SUPERSEDED)
        self._same.add(head)

    async def may_show(self) -> bool:
        """Return whether the debate may be told in its words.

        Words about a private repository that has become public need somebody who may still write there (threats.md,
        input 68). Where the App may not look, it writes nothing either: who tells it later asks again.
        """
        try:
            pull = await self._pull() if self.run.private else None
        except NotInstalled:
            return True
        if pull is None or pull.base.repo is None or pull.base.repo.private:
            return True
        return await self._writes()

    async def _writes(self) -> bool:
        """Return whether the person on whose permission the run stands may write here now."""
        person = self.run.authority
        allowed = await verbs.permission(self._github, self.run.repository.full_name, person.login)
        return allowed.writes and allowed.user_id == person.id

    async def _pull(self) -> verbs.PullRequest | None:
        """Return the pull request, or None where it is not there: a repository that took over the name is another."""
        try:
            pull = await verbs.pull(self._github, self.run.repository.full_name, self.run.number)
        except NotFound:
            return None
        return pull if pull.base.repo is not None and pull.base.repo.id == self.run.repository.id else None
