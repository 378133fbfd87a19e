"""Turns: who may do a thing when, so that it is not done more often than is allowed, whichever process does it.

Places are given out in the order in which they are asked for. This module knows neither what is done in a turn nor how
often that may be: both are said with each question.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from bot.store.connection import Gate, Script, StoreAway, key

_TURN = Script.of("""
-- KEYS: places (their times, oldest first), hold. ARGV: most ms, then for each window its count and its ms.
-- All times are the store's own, so that the clocks of those who ask play no part.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local most = tonumber(ARGV[1])
local last = tonumber(redis.call('lindex', KEYS[1], -1) or 0)
local horizon = math.max(most, 60000)
if last > now + horizon then  -- no place lies so far ahead: the store's clock was set back
  redis.call('del', KEYS[1])
  last = 0
end
local turn = math.max(now, last, now + redis.call('pttl', KEYS[2]))
local longest = 0
for i = 2, #ARGV, 2 do
  local count, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local before = redis.call('lindex', KEYS[1], -count)
  if before then turn = math.max(turn, before + window) end
  longest = math.max(longest, window)
end
if turn > now + most then return {0, turn - now} end
redis.call('rpush', KEYS[1], string.format('%.0f', turn))
while tonumber(redis.call('lindex', KEYS[1], 0)) < now - longest do redis.call('lpop', KEYS[1]) end
redis.call('pexpire', KEYS[1], longest + horizon)
return {1, turn - now}
""")

_HOLD = Script.of("""
-- KEYS: hold. ARGV: ms. The longer hold stands.
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then redis.call('set', KEYS[1], 1, 'px', ARGV[1]) end
return 1
""")


@dataclass(frozen=True, slots=True)
class Turn:
    """When it is one's turn."""

    taken: bool
    """A place was taken, and is kept; otherwise nothing was."""
    wait: float
    """Seconds until then; where no place was taken, until there may be one."""


class Pace:
    """The turns of everything that has a name."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def turn(self, name: str, windows: tuple[tuple[int, float], ...], *, most: float) -> Turn:
        """Take the next place, if it is at most `most` seconds away.

        `windows` are pairs: so many turns at most in any so many seconds, those of others who ask for the name with
        other counts too; the longest window is the same in every question for a name. `most` is under a minute, or the
        same in every question. Raises `StoreAway`.
        """
        words = [round(number) for count, seconds in windows for number in (count, seconds * 1000)]
        keys = [key("pace", name), key("pace", name, "hold")]
        taken, wait = await self._gate.run(_TURN, keys, round(most * 1000), *words)
        return Turn(bool(taken), wait / 1000)

    async def hold(self, name: str, seconds: float) -> None:
        """Let no turn come before so many seconds have passed.

        Raises nothing: where the store is away the others are not told, and find out as the one did who asks for it.
        """
        with contextlib.suppress(StoreAway):
            await self._gate.run(_HOLD, [key("pace", name, "hold")], max(1, round(seconds * 1000)))
