"""Has the faults of a plan happen: to the store, to GitHub, to the worker, and what people do in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from telling import Story
from town import Town

from tests.chaos.plans import TARGETS, WIRE, WORLD, Strike
from tests.chaos.proxy import Proxy

OTHER_BASE = "stable"
MAINTAINER = "maintainer"
AWAY = "http://127.0.0.1:9/webhook"
"""Where nobody hears a delivery."""


@dataclass
class Scene:
    """What the acts of one seed act on."""

    town: Town
    story: Story
    store: Path
    """The folder of the store."""
    proxy: Proxy
    restore: list[Callable[[], Any]] = field(default_factory=list)
    """What makes an act undone, once the run has ended."""

    async def act(self, strike: Strike) -> None:
        """Have one thing happen now."""
        if strike.kind in WIRE:
            self.spoil(strike)
        elif strike.kind in WORLD:
            async with self._silence(strike.silent):
                await getattr(self, "_" + strike.kind.replace("-", "_"))()
        elif strike.kind == "tokens":
            self.town.github.expire_tokens()
        elif strike.kind == "outage":
            await self.proxy.drop(strike.seconds)
        elif strike.kind in {"restart", "crash"}:
            await self._end_store(signal.SIGTERM if strike.kind == "restart" else signal.SIGKILL)
        else:
            words = {"disconnect": "CLIENT KILL TYPE normal SKIPME yes"}.get(strike.kind, "FLUSHALL")
            await self._say(words)

    def spoil(self, strike: Strike) -> None:
        """Let requests to GitHub fail."""
        method, path = TARGETS[strike.target]
        path = path.format(repo=self.story.repo.full_name, number=self.story.number)
        self.town.github.fail_next(method, path, times=strike.times, **WIRE[strike.kind])  # type: ignore[arg-type]

    @asynccontextmanager
    async def _silence(self, silent: bool) -> AsyncIterator[None]:
        github = self.town.github
        url = github.webhook_url
        if silent:
            github.webhook_url = None
        try:
            yield
        finally:
            github.webhook_url = url

    async def _say(self, words: str) -> None:
        async with Redis.from_url(self.town.settings.redis_url or "", single_connection_client=True) as redis:
            await redis.execute_command(*words.split())

    async def _end_store(self, number: signal.Signals) -> None:
        """End the server; it is started again by itself (`deploy.store`)."""
        before = (self.store / "store.lock").read_text().split()[0]
        os.kill(int(before), number)
        async with asyncio.timeout(30):
            while (self.store / "store.lock").read_text().split()[:1] in ([], [before]):
                await asyncio.sleep(0.01)

    # ---- What people do

    @property
    def _repo(self) -> Any:
        return self.town.github._site.state.repos[self.story.repo.id]

    async def _push(self) -> None:
        await self.town.github.commit(self._repo, "feature", {"app.py": "x = 9\n"}, message="by hand")

    async def _force_push(self) -> None:
        await self.town.github.commit(self._repo, "aside", {"app.py": "x = 8\n"}, parent="main")
        sha = await self.town.github.read_ref(self._repo, "aside")
        await self.town.github.move_branch(self._repo, "feature", str(sha))

    async def _plain_merge(self) -> None:
        await self.town.github.commit(self._repo, "main", {"elsewhere.py": "z = 1\n"}, message="on main")
        await self.town.github.update_branch(self._repo, self.story.number)

    async def _evil_merge(self) -> None:
        await self.town.github.commit(self._repo, "main", {"elsewhere.py": "z = 1\n"}, message="on main")
        await self.town.github.update_branch(self._repo, self.story.number, {"app.py": "x = 7\n"})

    async def _close(self) -> None:
        await self.town.github.close_pull_request(self._repo, self.story.number)

    async def _close_and_reopen(self) -> None:
        await self._close()
        await self.town.github.reopen_pull_request(self._repo, self.story.number)

    async def _merge(self) -> None:
        await self.town.github.merge_pull_request(self._repo, self.story.number)

    async def _retarget(self) -> None:
        await self.town.github.change_base(self._repo, self.story.number, OTHER_BASE)

    async def _delete_head(self) -> None:
        await self.town.github.delete_branch(self._repo, "feature")

    async def _rename(self) -> None:
        self.town.github.rename_repository(self._repo, f"{self._repo.full_name}-renamed")

    async def _archive(self) -> None:
        github = self.town.github
        github.archive_repository(self._repo)
        self.restore.append(lambda: github.archive_repository(self._repo, archived=False))

    async def _delete_fork(self) -> None:
        forks = self.town.github._site.state.repos.values()
        (fork,) = (each for each in forks if each.parent_id == self.story.repo.id)
        self.town.github.delete_repository(fork)

    async def _withdraw(self) -> None:
        self.town.github.set_permission(self._repo, MAINTAINER, "read")

    async def _uninstall(self) -> None:
        await self.town.github.uninstall(self.story.repo.owner)
        self.restore.append(lambda: self.town.github.install(self.story.repo.owner))

    async def _suspend(self) -> None:
        await self.town.github.suspend(self.story.repo.owner)
        self.restore.append(lambda: self.town.github.unsuspend(self.story.repo.owner))

    async def _suspend_and_lift(self) -> None:
        await self.town.github.suspend(self.story.repo.owner)
        await self.town.github.unsuspend(self.story.repo.owner)

    async def _delete_comment(self) -> None:
        for each in self.town.github.comments(self._repo, self.story.number):
            if each.by_app:
                await self.town.github.delete_comment(each.id, login=self.story.repo.owner)
