"""The court: it watches whatever is started while stories are told, and judges each test at its end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.settings import Settings
from deploy import machine
from deploy.standin import Repo, StandIn, actions
from deploy.standin.auth import Token, Tokens
from deploy.standin.hosting import Hosting
from deploy.standin.people import People
from deploy.standin.server import API_ROOT, Server
from deploy.standin.site import Site
from deploy.store import EmbeddedStore
from oracles import leftovers, records, refs
from oracles.calls import Calls
from oracles.canaries import Canaries
from oracles.leftovers import Count
from oracles.places import Place, requested
from oracles.refs import ZEROS, Move
from oracles.violations import MARK, Violation, complaint
from scripted_models import ModelServer
from worker import cgroup

SETTLING = 10.0
"""Seconds in which goes what was closed: the other side of a connection has its part in it."""
CREDENTIALS = {"x-api-key", "authorization"}
"""Headers in which a model's provider is sent its key."""
FAILED = pytest.StashKey[bool]()


class Court:
    """All that is watched in one test run."""

    def __init__(self) -> None:
        self.canaries = Canaries()
        self.calls = Calls(self.canaries, lambda oracle, words: self._note([Violation(oracle, words)]))
        self.places: list[Place] = []
        self.moves: dict[Path, list[Move]] = {}
        self.groups: list[Path] = []
        self.logs: dict[Path, int] = {}
        """Logs of other processes that belong to stories, and how far each was read."""
        self.stores: dict[str, EmbeddedStore] = {}
        """The stores that run, by their addresses."""
        self.counts: dict[frozenset[str], Count] = {}
        """The least that this process held after a story, by the stores that ran."""
        self.found: list[Violation] = []

    # ---- Places

    @asynccontextmanager
    async def place(self, settings: Settings, github: StandIn) -> AsyncIterator[Place]:
        """Watch a pipeline while the block lasts; look at it once more before it is taken down."""
        store = self.stores[settings.redis_url or ""]._folder
        place = Place(github, settings, store, self.canaries, self.moves)
        self.places.append(place)
        try:
            yield place
            await self._look_at([place])
        finally:
            self.places.remove(place)
            place.close()

    async def visit(self) -> None:
        """Look at every place. What another loop runs is looked at when it is closed."""
        await self._look_at([each for each in self.places if each.loop is asyncio.get_running_loop()])

    async def _look_at(self, places: list[Place]) -> None:
        """Wait until places are quiet, and look at each."""
        for place in places:
            self.found += [*await place.quiet(), *place.look()]
        # A worker tries its sandboxes once a minute (`worker.main`): what is left over is there to stay.
        until = asyncio.get_running_loop().time() + SETTLING
        while left := [*self._remains(places)]:
            if asyncio.get_running_loop().time() > until:
                self.found += [Violation("O2", words) for words in left]
                break
            await asyncio.sleep(0.05)
        self.groups.clear()

    def _remains(self, places: list[Place]) -> Iterator[str]:
        for place in places:
            yield from leftovers.remains(place.settings.state_dir)
        yield from leftovers.groups(self.groups)

    # ---- A test

    @asynccontextmanager
    async def hearing(self, item: pytest.Item) -> AsyncIterator[None]:
        """Judge what a test does while the block lasts. A test that failed is not judged besides."""
        log = records.Log()
        self.canaries.fresh()
        self.calls.listening = True
        try:
            with log.written():
                yield
                if not _failed(item):
                    await self.visit()
                    await self._counted()
        finally:
            self.calls.listening = False
            self._sum_up(log.text)
            found, self.found = self.found, []
        if not _failed(item):
            judge(found, list(item.iter_markers(MARK)))

    def _sum_up(self, log: str) -> None:
        for path, read in self.logs.items():
            with path.open("r", encoding="utf-8") as file:
                file.seek(read)
                log += file.read()
                self.logs[path] = file.tell()
        said = records.lines(log)
        self.found += [Violation("O1", f"{name} is logged") for name in self.canaries.within(log)]
        self.found += [Violation("O7", words) for words in (*records.errors(said), *records.endless(said))]

    async def _counted(self) -> None:
        """Compare what this process holds with the least that it held after a story with the same stores."""
        kind, now = frozenset(self.stores), leftovers.count()
        before = self.counts[kind] = leftovers.least(self.counts.get(kind, now), now)
        until = asyncio.get_running_loop().time() + SETTLING
        while grown := list(leftovers.growth(before, leftovers.count())):
            if asyncio.get_running_loop().time() > until:
                self.found += [Violation("O9", words) for words in grown]
                return
            gc.collect()
            await asyncio.sleep(0.05)

    def _note(self, found: Iterable[Violation]) -> None:
        """Take findings of what happened just now, if it is part of a story."""
        if self.calls.listening:
            self.found += found

    # ---- What is watched

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Watch whatever is started, asked or moved in this process while the block lasts."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (machine, "_running"),
                (EmbeddedStore, "__aenter__"),
                (EmbeddedStore, "__aexit__"),
                (Tokens, "issue"),
                (Server, "_serve"),
                (actions, "pushed"),
                (People, "create_tag"),
                (Hosting, "copy"),
                (ModelServer, "_answer"),
                (cgroup, "make"),
            ):
                watcher = getattr(self, f"_{name.strip('_')}")
                patch.setattr(owner, name, watcher(getattr(owner, name)))
            yield

    def _running(self, run: Any) -> Any:
        @asynccontextmanager
        async def running(settings: Settings, store: Any, github: StandIn, working: Any) -> AsyncIterator[None]:
            async with run(settings, store, github, working), self.place(settings, github):
                yield
            self.found += [Violation("O2", words) for words in leftovers.remains(settings.state_dir)]

        return running

    def _aenter(self, enter: Any) -> Any:
        async def entered(store: EmbeddedStore) -> str:
            url: str = await enter(store)
            self.stores[url] = store
            return url

        return entered

    def _aexit(self, leave: Any) -> Any:
        async def left(store: EmbeddedStore, *error: Any) -> None:
            self.stores.pop(store.url, None)
            await leave(store, *error)

        return left

    def _issue(self, issue: Any) -> Any:
        def issued(tokens: Tokens, *words: Any, **more: Any) -> Token:
            token: Token = issue(tokens, *words, **more)
            self.canaries.issued(token.value)
            return token

        return issued

    def _serve(self, serve: Any) -> Any:
        async def served(server: Server, request: web.Request) -> web.StreamResponse:
            answer: web.StreamResponse = await serve(server, request)
            body = await request.read() if request.path.startswith(f"{API_ROOT}/") else b""
            line = f"{request.method} {request.raw_path}"
            self._note(requested(self.canaries, line, iter(request.raw_headers), body))
            return answer

        return served

    def _pushed(self, push: Any) -> Any:
        async def pushed(site: Site, repo: Repo, *, updates: Any, sender: Any) -> Any:
            for each in updates:
                move = Move(each.ref, each.old, each.new, by_app=sender == site.app.bot)
                self.moves.setdefault(repo.path, []).append(move)
            return await push(site, repo, updates=updates, sender=sender)

        return pushed

    def _create_tag(self, create: Any) -> Any:
        async def created(people: People, repo: Any, name: str, sha: str) -> None:
            await create(people, repo, name, sha)
            found = people._site.state.repo(repo)
            self._left(found.path, {f"refs/tags/{name}": sha})

        return created

    def _copy(self, copy: Any) -> Any:
        async def copied(hosting: Hosting, path: Path, *words: Any) -> None:
            await copy(hosting, path, *words)
            self._left(path, refs.read(path).refs)

        return copied

    def _left(self, path: Path, found: dict[str, str]) -> None:
        moves = [Move(ref, ZEROS, sha, by_app=False) for ref, sha in found.items()]
        self.moves.setdefault(path, []).extend(moves)

    def _answer(self, answer: Any) -> Any:
        async def answered(server: ModelServer, request: web.Request) -> web.StreamResponse:
            said = [value for name, value in request.raw_headers if name.decode().lower() not in CREDENTIALS]
            for name in self.canaries.within(b"\n".join([request.raw_path.encode(), *said, await request.read()])):
                self._note([Violation("O1", f"{name} is sent to a model in {request.raw_path}")])
            # The program that asks is alive now, in its sandbox.
            self._note(each for place in self.places for each in place.under_way())
            response: web.StreamResponse = await answer(server, request)
            return response

        return answered

    def _make(self, make: Any) -> Any:
        def made(*words: Any) -> cgroup.Group:
            group: cgroup.Group = make(*words)
            self.groups += group.folders
            return group

        return made


def judge(found: Iterable[Violation], marks: list[pytest.Mark]) -> None:
    """Fail where something was found that nobody said."""
    if said := complaint(found, marks):
        pytest.fail(f"this does not hold (tests/stories/oracles):\n  {said}", pytrace=False)


def _failed(item: pytest.Item) -> bool:
    return item.stash.get(FAILED, False)
