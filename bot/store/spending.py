"""What was spent on models: of each run, and of each installation and day.

Counters that only grow. How much may be spent, and what a call costs, is said elsewhere.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import astuple, dataclass, fields

from bot.store.connection import Gate, Script, key

MICRO = 1_000_000
"""Parts of a dollar that are counted: whole numbers add up without a rest."""
CALL_MS = 60 * 60 * 1000
"""Milliseconds for which a call is known, so that it counts once however often it is told."""

_ADD = Script.of("""
-- KEYS: call, run, day. ARGV: ms that a call is known, ms that records are kept, then names and amounts.
if redis.call('set', KEYS[1], 1, 'nx', 'px', ARGV[1]) then
  for i = 3, #ARGV, 2 do
    redis.call('hincrby', KEYS[2], ARGV[i], ARGV[i + 1])
    redis.call('hincrby', KEYS[3], ARGV[i], ARGV[i + 1])
  end
end
redis.call('pexpire', KEYS[2], ARGV[2])
redis.call('pexpire', KEYS[3], ARGV[2])
return 1
""")


@dataclass(frozen=True, slots=True)
class Spending:
    """What one call, one run or one day came to."""

    calls: int = 0
    input: int = 0
    """Tokens, and so are the next two. `cached` is a part of it."""
    cached: int = 0
    output: int = 0
    micro: int = 0
    """Millionths of a US dollar."""

    @property
    def usd(self) -> float:
        """Return the US dollars."""
        return self.micro / MICRO


class Spendings:
    """The counters. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def add(self, call: str, run_id: str, *, installation_id: int, day: dt.date, spent: Spending) -> None:
        """Count what a call came to, for its run and for its installation's day.

        `call` names it for ever: the same call told again, within an hour, adds nothing. `day` is in UTC.
        """
        words = [word for pair in zip(_NAMES, astuple(spent), strict=True) for word in pair]
        keys = [key("spent-call", call), _of_run(run_id), _of_day(installation_id, day)]
        await self._gate.run(_ADD, keys, CALL_MS, self._gate.keep_ms, *words)

    async def of_run(self, run_id: str) -> Spending:
        """Return what a run came to, over all its attempts."""
        return _read(await self._gate.do("HMGET", _of_run(run_id), *_NAMES))

    async def of_day(self, installation_id: int, day: dt.date) -> Spending:
        """Return what an installation's runs came to on a day of UTC."""
        return _read(await self._gate.do("HMGET", _of_day(installation_id, day), *_NAMES))


_NAMES = tuple(each.name for each in fields(Spending))


def _of_run(run_id: str) -> str:
    return key("spent", run_id)


def _of_day(installation_id: int, day: dt.date) -> str:
    return key("spent-on", installation_id, day.isoformat())


def _read(values: list[bytes | None]) -> Spending:
    return Spending(*(int(value or 0) for value in values))
