"""The journal: what each performed step of a run came back with, under the step's path.

It is a debate's memory over the death of workers. A line is written once, by the newest attempt, and never changed.
"""

from __future__ import annotations

from bot.store.claims import FENCED
from bot.store.connection import Gate, LostFence, Script, key
from bot.store.runs import run_key

_PUT = Script.of(
    FENCED
    + """
-- KEYS: run, journal. ARGV: fence, keep ms, path, raw.
local old = redis.call('hget', KEYS[2], ARGV[3])
if old then return old == ARGV[4] and 'ok' or 'taken' end
redis.call('hset', KEYS[2], ARGV[3], ARGV[4])
redis.call('pexpire', KEYS[2], ARGV[2])
redis.call('hset', KEYS[1], 'deaths', 1)
return 'ok'
"""
)


class AlreadyJournaled(Exception):  # noqa: N818 - it says what is the case
    """Another reply stands under this path already. It is kept."""


class Journal:
    """One attempt's view of its run's journal. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate, run_id: str, fence: int) -> None:
        self._gate = gate
        self._run = run_id
        self._fence = fence
        self._key = key("journal", run_id)

    async def get(self, path: str) -> bytes | None:
        """Return the line under a path."""
        raw: bytes | None = await self._gate.do("HGET", self._key, path)
        return raw

    async def all(self) -> dict[str, bytes]:
        """Return every line by its path."""
        return await self._gate.table(self._key)

    async def put(self, path: str, raw: bytes) -> None:
        """Write a line, and count the attempts at the step after it anew, from this one (decisions.md 1.6).

        Raises `LostFence` where a later attempt has begun, and `AlreadyJournaled` where the path holds another line;
        writing the same line again is nothing new.
        """
        keys = [run_key(self._run), self._key]
        answer: bytes = await self._gate.run(_PUT, keys, self._fence, self._gate.keep_ms, path, raw)
        if answer == b"lost":
            raise LostFence(f"attempt {self._fence} at run {self._run} is not the newest any more")
        if answer == b"taken":
            raise AlreadyJournaled(f"{path} of run {self._run} is journaled already, with another reply")
