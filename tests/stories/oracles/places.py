"""Where stories are told: a stand-in GitHub, a store and a worker's state folder, and how far each was looked at."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from redis import Redis

from bot.settings import Settings
from bot.store import EVENTS, RUNS
from bot.store.connection import key
from deploy.standin import Repo, StandIn
from oracles import leftovers, published, refs
from oracles.canaries import Canaries
from oracles.refs import Move, Repository
from oracles.violations import Violation

PATIENCE = 60.0
"""Seconds that what is under way may take to its end."""
NAMED = re.compile(r"/(?:repos/)?(?P<name>[^/]+/[^/]+?)(?:\.git)?/")
NUMBERED = re.compile(r"/repositories/(?P<id>\d+)/")
PINNED = "tools"
"""The agents' programs below the state folder: hundreds of megabytes, and known by their hashes."""
MIRRORS = "mirrors"
AGAIN = 4096
"""Bytes before the end of what was read of a file that are read again: a secret may have been cut there."""


@dataclass
class Place:
    """One running pipeline."""

    github: StandIn
    settings: Settings
    store: Path
    """The folder of its store."""
    canaries: Canaries
    moves: dict[Path, list[Move]]
    """What has moved in every hosted repository, by its path."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _asked: int = 0
    _seen: set[int] = field(default_factory=set)
    _told: set[int] = field(default_factory=set)
    """The repositories of which something was found. They belong to one test, and the reconciler asks for all again."""
    _read: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.settings
        secrets = {
            "the App's private key": settings.github_app_private_key,
            "the webhook secret": settings.github_webhook_secret,
            "the OpenAI key": settings.openai_api_key,
            "the Anthropic key": settings.anthropic_api_key,
        }
        for name, value in secrets.items():
            if value is not None:
                self.canaries.add(name, value.get_secret_value())
        self._redis: Redis = Redis(unix_socket_path=unquote(urlsplit(settings.redis_url or "").path))

    # ---- Waiting

    async def quiet(self) -> list[Violation]:
        """Wait until every delivery was handled and every run has ended; return what did not (O7)."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    await self.github.settle()
                    sent = len(self.github.deliveries)
                    while self._waiting():
                        await asyncio.sleep(0.01)
                    await self.github.settle()
                    if sent == len(self.github.deliveries):
                        return []
        except TimeoutError:
            return [Violation("O7", f"{each} has no end") for each in self._waiting()]

    def _waiting(self) -> list[str]:
        return [each.decode() for queue in (EVENTS, RUNS) for each in self._listed("ZRANGE", key("queue", queue))]

    def _listed(self, command: str, name: str) -> list[bytes]:
        found: list[bytes] = self._redis.execute_command(command, name, 0, -1)  # type: ignore[no-untyped-call]
        return found

    # ---- Looking

    def look(self) -> Iterator[Violation]:
        """Yield what does not hold of what happened here since the last look."""
        repos = self._touched()
        held = {repo.id: refs.read(repo.path) for repo in repos}
        for repo in repos:
            mirror = self.settings.state_dir / MIRRORS / f"{repo.id}.git"
            copies = [held[repo.id].data, *([refs.read(mirror).data] if mirror.exists() else [])]
            found = [each for copy in copies for each in self._disclosed(copy, f"an object of {repo.full_name}")]
            found += [*self._published(repo, held[repo.id]), *self._held(repo)]
            if found:
                self._told.add(repo.id)
            yield from found
        yield from (Violation("O4", each) for each in published.twins(self.github._site.state.check_runs.values()))
        for file, data in self._written(repos):
            yield from self._disclosed(data, str(file))
        if letters := self._listed("LRANGE", key("dead")):
            yield Violation("O7", f"jobs could not be run: {letters}")

    def _disclosed(self, data: bytes, where: str) -> Iterator[Violation]:
        yield from (Violation("O1", f"{name} stands in {where}") for name in self.canaries.within(data))

    def _held(self, repo: Repo) -> Iterator[Violation]:
        """Yield the conversations that a run still holds, though none is under way (O7)."""
        for repo_id, number in self.github._site.state.issues:
            if repo_id == repo.id and (runs := self._redis.hgetall(key("claim", repo_id, number))):
                yield Violation("O7", f"{repo.full_name}#{number} is held by {runs}")

    def _published(self, repo: Repo, held: Repository) -> Iterator[Violation]:
        """Yield what is wrong with what the App has made of one repository (O4, O5, O6)."""
        state = self.github._site.state
        runs = state.checks_of(repo)
        bodies = [each.body for each in state.comments.values() if each.repo_id == repo.id and each.by_app]
        found = [("O4", words) for words in published.check_runs(self.github.journal, runs)]
        for text in [*bodies, *(text for run in runs for text in (run.summary, run.text) if text)]:
            found += [("O5", f"{words} in {text[:200]!r}") for words in published.alive(text, self._ours)]
        for run in runs:
            plain = [run.title or "", *(str(each) for note in run.annotations for each in note.values())]
            found += [("O5", f"{words} in {run.external_id}") for words in published.calls("\n".join(plain))]
        found += [("O5", words) for words in published.results(bodies, [run.external_id for run in runs])]
        moves = self.moves.get(repo.path, [])
        every = {run.external_id: run for run in state.check_runs.values()}
        found += [("O6", words) for words in refs.moved(moves, every, repo.id, held)]
        found += [("O6", words) for words in refs.unexplained({move.ref: move.new for move in moves}, held)]
        yield from (Violation(oracle, f"{repo.full_name}: {words}") for oracle, words in found)

    def _ours(self, link: str) -> bool:
        """Tell whether an address leads to a repository of this stand-in."""
        base = f"{self.github.server_url}/"
        name = "/".join(link.removeprefix(base).split("/")[:2])
        return link.startswith(base) and self.github._site.state.find_repo(name) is not None

    def _touched(self) -> list[Repo]:
        """Return the repositories that were made or asked for since the last look, and are as they should be."""
        state, journal = self.github._site.state, self.github.journal
        touched = {number for number in state.repos if number not in self._seen}
        for request in journal[self._asked :]:
            if match := NUMBERED.match(request.path):
                touched.add(int(match["id"]))
            elif (match := NAMED.match(request.path)) and (repo := state.find_repo(match["name"])):
                touched.add(repo.id)
        self._asked = len(journal)
        self._seen |= state.repos.keys()
        return [state.repos[number] for number in sorted((touched & state.repos.keys()) - self._told)]

    def _written(self, repos: Iterable[Repo]) -> Iterator[tuple[Path, bytes]]:
        """Yield what was written since the last look to the state folder, and to the store's log of all its writes.

        Of the mirrors, those of some repositories are looked at.
        """
        state = self.settings.state_dir
        mirrors = [state / MIRRORS / f"{repo.id}.git" for repo in repos]
        for file, about in _files([state, self.store, *mirrors], but={state / PINNED, state / MIRRORS}):
            yield file, self._new(file, about)

    def _new(self, file: Path, about: os.stat_result) -> bytes:
        mark = (about.st_mtime_ns, about.st_size)
        before, self._read[file] = self._read.get(file), mark
        if before == mark:
            return b""
        with file.open("rb") as opened:
            # What is only added to is read from a little before where it ended.
            opened.seek(max(0, before[1] - AGAIN) if before and before[1] < about.st_size else 0)
            return opened.read()

    def under_way(self) -> Iterator[Violation]:
        """Yield what the present processes and folders of runs know (O1)."""
        yield from (Violation("O1", each) for each in leftovers.knowing(self.canaries, self.settings.state_dir))
        for file, _ in _files([self.settings.state_dir / "runs"]):
            with suppress(OSError):  # it has gone meanwhile
                yield from self._disclosed(file.read_bytes(), str(file))

    def close(self) -> None:
        """Close what was opened to look."""
        self._redis.close()


def _files(folders: list[Path], but: Collection[Path] = ()) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files below some folders, but not below others; what goes meanwhile is gone."""
    while folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as found:
            for each in found:
                about = each.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    folders += {Path(each.path)} - set(but)
                elif stat.S_ISREG(about.st_mode):
                    yield Path(each.path), about


def requested(
    canaries: Canaries, line: str, headers: Iterator[tuple[bytes, bytes]], body: bytes
) -> Iterator[Violation]:
    """Yield the secrets of a request to GitHub that stand anywhere but in its credential (O1)."""
    said = [value for name, value in headers if name.lower() != b"authorization"]
    for name in canaries.within(b"\n".join([line.encode("utf-8", "surrogateescape"), *said, body])):
        yield Violation("O1", f"{name} is sent to GitHub in {line}: {json.dumps(body.decode('utf-8', 'replace'))}")
