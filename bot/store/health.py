"""What workers say of themselves: what each of them lacks to do its work. The receiver shows it on ``/healthz``."""

from __future__ import annotations

import json

from bot.store.connection import Gate, key

FRESH_SECONDS = 180
"""A worker that said nothing for so long is gone, and what it lacked with it."""


class Health:
    """The workers' words about themselves. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def report(self, worker: str, lacks: tuple[str, ...]) -> None:
        """Keep what a worker lacks, a sentence each, in place of what it said before."""
        await self._gate.do("SET", key("worker", worker), json.dumps(lacks), "EX", FRESH_SECONDS)
        await self._gate.do("SADD", key("workers"), worker)

    async def forget(self, worker: str) -> None:
        """Forget a worker that has ended."""
        await self._gate.do("DEL", key("worker", worker))
        await self._gate.do("SREM", key("workers"), worker)

    async def lacks(self) -> tuple[str, ...]:
        """Return what workers lack, each sentence once; nothing where all can work."""
        workers: set[bytes] = await self._gate.do("SMEMBERS", key("workers"))
        found: dict[str, None] = {}
        for worker in sorted(workers):
            raw: bytes | None = await self._gate.do("GET", key("worker", worker.decode()))
            if raw is None:
                await self._gate.do("SREM", key("workers"), worker)
            else:
                found |= dict.fromkeys(json.loads(raw))
        return tuple(found)
