"""What is kept for an installation, over all its runs and repositories: to be ended together, and forgotten together.

It looks through the whole store. That is slow and rare: it happens when the App is suspended or removed somewhere.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bot.store.connection import PREFIX, Gate, key
from bot.store.outbox import UNSENT
from bot.store.runs import LIVE, Run, run_key
from bot.store.upkeep import Upkeep

SCAN_COUNT = 1000
"""Keys that one step of a search looks at."""

_OF_RUN = "run|journal|task|progress|pending|showing|spent"
_OF_REPOSITORY = "claim|source|text|findings|newest|approved|seen:comment|seen:pull|seen:once:[a-z-]+"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one installation."""

    live: tuple[str, ...]
    """Ids of the runs that have not ended."""
    ended: tuple[str, ...]
    repositories: frozenset[tuple[int, str]]
    """Ids and names of the repositories that anything was heard of."""


class Installations:
    """The store by installation. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._upkeep = Upkeep(gate)

    async def heard(self, installation_id: int, repository_id: int, *, full_name: str) -> None:
        """Remember that something is kept about a repository, and whose it is now: it may be transferred."""
        await self._gate.do("HSET", key("repositories"), repository_id, f"{installation_id} {full_name}")

    async def repositories(self) -> frozenset[int]:
        """Return the ids of the repositories that anything is kept about."""
        return frozenset(int(number) for number in await self._gate.do("HKEYS", key("repositories")))

    async def kept(self, installation_id: int) -> Kept:
        """Return what is kept of an installation."""
        live: list[str] = []
        ended: list[str] = []
        async for name in self._names(run_key("*")):
            raw, status = await self._gate.do("HMGET", name, "request", "status")
            run = None if raw is None else Run.model_validate_json(raw)
            if run is not None and run.installation_id == installation_id:
                (ended if status else live).append(run.id)
        table = await self._gate.table(key("repositories"))
        owned = ((int(number), value.decode().partition(" ")) for number, value in table.items())
        ours = frozenset((number, name) for number, (owner, _, name) in owned if owner == str(installation_id))
        return Kept(tuple(live), tuple(ended), ours)

    async def forget(self, installation_id: int, kept: Kept) -> int:
        """Delete everything that is kept of an installation, and return how many keys that were."""
        wanted = _about(installation_id, kept)
        names = [name async for name in self._names(key("*")) if wanted.fullmatch(name)]
        for name in names:
            await self._gate.do("UNLINK", name)
        for number, _ in kept.repositories:
            await self._gate.do("HDEL", key("repositories"), number)
        for run_id in (*kept.live, *kept.ended):
            await self._gate.do("SREM", LIVE, run_id)
            await self._gate.do("SREM", UNSENT, run_id)
        for branch in await self._upkeep.branches():
            if branch.installation == installation_id:
                await self._upkeep.forget_branch(branch.run)
        return len(names)

    async def _names(self, pattern: str) -> AsyncIterator[str]:
        cursor = b"0"
        while True:
            cursor, names = await self._gate.do("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            for name in names:
                yield name.decode()
            if cursor in {b"0", 0}:
                return


def _about(installation_id: int, kept: Kept) -> re.Pattern[str]:
    """Return what the names of all keys about these runs and repositories look like."""
    runs = "|".join(map(re.escape, (*kept.live, *kept.ended))) or "(?!)"
    ids = "|".join(str(number) for number, _ in kept.repositories) or "(?!)"
    names = "|".join(re.escape(name) for _, name in kept.repositories) or "(?!)"
    shapes = (
        rf"(?:{_OF_RUN}):(?:{runs})",
        rf"(?:intent|result):(?:{runs})/.*",
        rf"(?:intent|result):unstarted-(?:{ids})-.*",
        rf"(?:{_OF_REPOSITORY}):(?:{ids}):.*",
        rf"pace:writes/{installation_id}(?::hold)?",
        rf"spent-on:{installation_id}:.*",
        rf"(?:intent|result):-/answer/(?:{ids})/.*",
        rf"(?:intent|result):-/reaction/(?:{names})/.*",
    )
    return re.compile(f"{re.escape(PREFIX)}:(?:{'|'.join(shapes)})", re.DOTALL)
