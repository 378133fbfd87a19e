"""The outbox: outward effects, stored before they happen, with what came of each.

It keeps bytes and their state. What an intent means, and how it is made to happen, is bot/publish.py's part.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.store.connection import Gate, LostFence, Script, key
from bot.store.runs import run_key

_FENCED = """
if ARGV[1] ~= '' and (redis.call('hget', KEYS[1], 'fence') or '0') ~= ARGV[1] then return 'lost' end
"""

_GUARD = Script.of(_FENCED + "return 'ok'")

_PUT = Script.of(
    _FENCED
    + """
-- KEYS: run, intent, pending, counter, unsent. ARGV: fence, keep ms, name, raw, once or latest, writer.
local stored = redis.call('get', KEYS[2])
if stored and ARGV[5] == 'once' then return {'old', stored} end
-- What is tried again is kept no longer for it: it ends at some time.
if stored == ARGV[4] and redis.call('zscore', KEYS[3], ARGV[3]) then return {'old', stored} end
redis.call('set', KEYS[2], ARGV[4], 'px', ARGV[2])
redis.call('zadd', KEYS[3], 'nx', redis.call('incr', KEYS[4]), ARGV[3])
redis.call('pexpire', KEYS[3], ARGV[2])
if ARGV[6] ~= '-' then redis.call('sadd', KEYS[5], ARGV[6]) end
return {'new', ARGV[4]}
"""
)

_DONE = Script.of(
    _FENCED
    + """
-- KEYS: run, result, pending, unsent. ARGV: fence, keep ms, name, result, done or more, writer.
redis.call('set', KEYS[2], ARGV[4], 'px', ARGV[2])
if ARGV[5] == 'done' then redis.call('zrem', KEYS[3], ARGV[3]) end
if redis.call('exists', KEYS[3]) == 0 then redis.call('srem', KEYS[4], ARGV[6]) end
return 'ok'
"""
)


UNSENT = key("unsent")
"""The ids of the runs that have pending intents."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: an attempt at a run, which must be the newest, or the bot itself."""

    run: str | None = None
    fence: int | None = None
    """None: nothing is compared."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An intent as it stands in the store."""

    raw: bytes
    first: bool
    """It was stored just now: nothing can have been done for it before."""


class Outbox:
    """Intents and their results by name. Every method raises `StoreAway`; those with a writer raise `LostFence`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def put(self, name: str, raw: bytes, by: Writer = Writer()) -> Stored:
        """Store an intent that is meant once, if there is none of its name, and return the stored one."""
        answer = await self._put(name, raw, by=by, mode="once")
        return Stored(answer[1], first=answer[0] == b"new")

    async def replace(self, name: str, raw: bytes, by: Writer = Writer()) -> None:
        """Store an intent that says how something shall look: the latest one counts."""
        await self._put(name, raw, by=by, mode="latest")

    async def get(self, name: str) -> bytes | None:
        """Return an intent."""
        raw: bytes | None = await self._gate.do("GET", key("intent", name))
        return raw

    async def done(self, name: str, result: bytes, by: Writer = Writer()) -> None:
        """Record what came of an intent: it is not pending any more."""
        await self._result(name, result, by=by, state="done")

    async def partly(self, name: str, result: bytes, by: Writer = Writer()) -> None:
        """Record what came of an intent so far: it stays pending."""
        await self._result(name, result, by=by, state="more")

    async def result(self, name: str) -> bytes | None:
        """Return what came of an intent, as far as is known."""
        raw: bytes | None = await self._gate.do("GET", key("result", name))
        return raw

    async def pending(self, run_id: str | None) -> tuple[str, ...]:
        """Return the names of a run's pending intents, or of the bot's own, oldest first."""
        names: list[bytes] = await self._gate.do("ZRANGE", _pending(run_id), 0, -1)
        return tuple(name.decode() for name in names)

    async def unsent(self) -> tuple[str, ...]:
        """Return the ids of the runs that have pending intents."""
        found: set[bytes] = await self._gate.do("SMEMBERS", UNSENT)
        return tuple(sorted(run.decode() for run in found))

    async def forget(self, run_id: str) -> None:
        """Forget that a run has pending intents: they expired, or the run is not known any more."""
        await self._gate.do("SREM", UNSENT, run_id)

    async def guard(self, by: Writer) -> None:
        """Raise `LostFence` unless the writer's attempt is the newest."""
        await self._fenced(_GUARD, (), by=by)

    async def _put(self, name: str, raw: bytes, *, by: Writer, mode: str) -> list[bytes]:
        keys = (key("intent", name), _pending(by.run), key("intents"), UNSENT)
        words = (self._gate.keep_ms, name, raw, mode, _writer(by.run))
        answer: list[bytes] = await self._fenced(_PUT, keys, *words, by=by)
        return answer

    async def _result(self, name: str, result: bytes, *, by: Writer, state: str) -> None:
        keys = (key("result", name), _pending(by.run), UNSENT)
        words = (self._gate.keep_ms, name, result, state, _writer(by.run))
        await self._fenced(_DONE, keys, *words, by=by)

    async def _fenced(
        self, script: Script, keys: tuple[str, ...], *words: str | bytes | int, by: Writer
    ) -> list[bytes]:
        fence = "" if by.run is None or by.fence is None else by.fence
        answer: list[bytes] | bytes = await self._gate.run(script, (run_key(by.run or ""), *keys), fence, *words)
        if answer == b"lost":
            raise LostFence(f"attempt {by.fence} at run {by.run} is not the newest any more")
        return answer if isinstance(answer, list) else [answer]


def _writer(run_id: str | None) -> str:
    return run_id or "-"


def _pending(run_id: str | None) -> str:
    return key("pending", _writer(run_id))
