"""The repository on the server that a run's commits come from and go to, as git sees it.

It owns the credential of each command, and what a missing branch means. Which refs a run has is checkout.py's, how git
is called is worker/git's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from bot.github import AppClient, GitHub, verbs
from bot.intents import Push
from bot.settings import Settings
from bot.statuses import Status
from bot.store.runs import Run
from worker import checkout
from worker.agents import Agent
from worker.checkout import Source
from worker.credential import with_credential
from worker.debate.task import Task
from worker.ended import Ended
from worker.git import GitFailed, PushRefused, RefMissing, Remote
from worker.git.commit import push
from worker.git.mirror import Mirror

T = TypeVar("T")


class Origin:
    """A run's repository. Every method raises `worker.git.GitUnavailable` where the server does not answer."""

    def __init__(self, run: Run, mirror: Mirror, *, app: AppClient, github: GitHub, settings: Settings) -> None:
        self.run = run
        self.mirror = mirror
        self._app = app
        self._github = github
        self._server_url = settings.github_server_url

    async def check_out(self, folder: Path, *, reviewer: Agent) -> Task:
        """Fetch, fill a folder, and return the run's Task. Raises `Ended` as `checkout.check_out` does."""
        return await self._fetched(
            lambda source: checkout.check_out(self.run, source, self.mirror, folder, reviewer=reviewer)
        )

    async def fetch(self) -> None:
        """Bring head and base into the mirror. Raises `Ended` as `checkout.fetch` does."""
        await self._fetched(lambda source: checkout.fetch(self.run, source, self.mirror))

    async def only_merged(self, head: str) -> bool:
        """Return whether a new head is the run's own with nothing but plain merges of the base on it."""
        return await self._fetched(lambda source: checkout.only_merged(self.run, source, self.mirror, head))

    async def push(self, intent: Push) -> str:
        """Make a push; return why the server refuses it for good, or nothing."""
        ref = intent.ref or ""
        try:
            await self._with_git(
                lambda source: push(self.mirror, Remote(source.url, source.token), intent.new, ref=ref), write=True
            )
        except PushRefused as refusal:
            return str(refusal)
        return ""

    async def _fetched(self, use: Callable[[Source], Awaitable[T]]) -> T:
        """Fetch, and do not believe git alone that a branch is gone: a garbled answer reads the same.

        An attempt that ends so may have died of its step, and a few of them end the run.
        """
        try:
            return await self._with_git(use)
        except RefMissing as missing:
            if await verbs.branch_sha(self._github, self.run.repository.full_name, self.run.base_ref) is None:
                raise Ended(Status.MERGE_BASE_ERROR, str(missing)) from missing
            raise GitFailed("fetch", str(missing)) from missing

    async def _with_git(self, use: Callable[[Source], Awaitable[T]], *, write: bool = False) -> T:
        return await with_credential(self._app, self.run, server_url=self._server_url, write=write, use=use)
