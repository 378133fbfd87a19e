"""What must still hold around a run: its repository, its pull request, and the permission that it stands on.

It asks GitHub, before rounds and before every push, and ends the run where the world has moved. It changes nothing.
"""

from __future__ import annotations

from bot.github import GitHub, NotFound, Unavailable, verbs
from bot.statuses import Status
from bot.store.runs import Run
from worker.ended import RETARGETED, Ended


class World:
    """The surroundings of one attempt at a run. Its methods raise `GitHubError` where GitHub does not answer."""

    def __init__(self, run: Run, github: GitHub) -> None:
        self.run = run
        self._github = github

    async def find(self) -> Run:
        """Return the run with its repository's present name, which may have changed (threats.md, input 67).

        GitHub leads from an old name to the new one, until another repository takes the old one over.
        """
        here = self.run.repository
        name = await verbs.repository_name(self._github, here.id)
        if name is not None and name != here.full_name:
            self.run = self.run.model_copy(update={"repository": here.model_copy(update={"full_name": name})})
        return self.run

    async def still_current(self) -> None:
        """Raise `Ended` where the pull request was closed, moved on or was given another base.

        Raises `Unavailable` where the repository was renamed meanwhile: the next attempt finds it.
        """
        pull = await self._pull()
        if pull is None:
            before = self.run.repository
            if (await self.find()).repository != before:
                raise Unavailable(0, "the repository has another name now")
            raise Ended(Status.CLOSED)
        if pull.merged or pull.state == "closed":
            raise Ended(Status.CLOSED)
        if pull.head.sha != self.run.head_sha:
            raise Ended(Status.SUPERSEDED)
        if pull.base.ref != self.run.own_base:
            raise Ended(Status.SUPERSEDED, RETARGETED)

    async def may_show(self) -> bool:
        """Return whether the debate may be told in its words.

        Words about a private repository that has become public need somebody who may still write there (threats.md,
        input 68).
        """
        pull = await self._pull() if self.run.private else None
        if pull is None or pull.base.repo is None or pull.base.repo.private:
            return True
        return await self._writes()

    async def may_push(self) -> None:
        """Raise `Ended` where the person on whose permission the run stands may not write here (threats.md, 63)."""
        if not await self._writes():
            raise Ended(Status.AUTHORISATION_WITHDRAWN)

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
