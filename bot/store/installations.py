"""What is kept for an installation, over all its runs and repositories: to be ended together, and forgotten together.

It looks through the whole store. That is slow and rare: it happens when the App is suspended or removed somewhere.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bot.store.connection import PREFIX, Gate, key
from bot.store.runs import Run, run_key

SCAN_COUNT = 1000
"""Keys that one step of a search looks at."""

_OF_RUN = "run|journal|task|progress|pending"
_OF_REPOSITORY = "claim|source|text|findings|newest|approved|seen:comment|seen:once:[a-z-]+"


@dataclass(frozen=True, slots=True)
class Kept:
    """The runs of one installation that are in the store."""

    live: tuple[str, ...]
    """Ids of those that have not ended."""
    ended: tuple[str, ...]
    repositories: frozenset[tuple[int, str]]
    """Ids and names of the repositories that they are about."""


class Installations:
    """The store by installation. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def kept(self, installation_id: int) -> Kept:
        """Return the runs of an installation."""
        live: list[str] = []
        ended: list[str] = []
        repositories: set[tuple[int, str]] = set()
        async for name in self._names(run_key("*")):
            raw, status = await self._gate.do("HMGET", name, "request", "status")
            run = None if raw is None else Run.model_validate_json(raw)
            if run is not None and run.installation_id == installation_id:
                (ended if status else live).append(run.id)
                repositories.add((run.repository.id, run.repository.full_name))
        return Kept(tuple(live), tuple(ended), frozenset(repositories))

    async def forget(self, kept: Kept) -> int:
        """Delete everything about these runs and their repositories, and return how many keys that were."""
        wanted = _about(kept)
        names = [name async for name in self._names(key("*")) if wanted.fullmatch(name)]
        for name in names:
            await self._gate.do("UNLINK", name)
        return len(names)

    async def _names(self, pattern: str) -> AsyncIterator[str]:
        cursor = b"0"
        while True:
            cursor, names = await self._gate.do("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            for name in names:
                yield name.decode()
            if cursor in {b"0", 0}:
                return


def _about(kept: Kept) -> re.Pattern[str]:
    """Return what the names of all keys about these runs and repositories look like."""
    runs = "|".join(map(re.escape, (*kept.live, *kept.ended))) or "(?!)"
    ids = "|".join(str(number) for number, _ in kept.repositories) or "(?!)"
    names = "|".join(re.escape(name) for _, name in kept.repositories) or "(?!)"
    shapes = (
        rf"(?:{_OF_RUN}):(?:{runs})",
        rf"(?:intent|result):(?:{runs})/.*",
        rf"(?:{_OF_REPOSITORY}):(?:{ids}):.*",
        rf"(?:intent|result):-/answer/(?:{ids})/.*",
        rf"(?:intent|result):-/reaction/(?:{names})/.*",
    )
    return re.compile(f"{re.escape(PREFIX)}:(?:{'|'.join(shapes)})", re.DOTALL)
