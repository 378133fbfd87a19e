"""GitHub's limits, and what is known of them: who has to wait, for how long, and whose turn it is to write.

It owns the numbers, the reading of answers for them, and the table of retries. One `Traffic` is shared by all clients
of a process, one `Lane` by all clients of an installation. The places in which writes wait are shared by all processes
around one store, through the pacer that is handed in.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from bot.github.errors import Unavailable
from bot.github.wire import Answer, NoAnswer, http_date

TRIES = 3
PATIENCE_SECONDS = 10.0
"""The longest wait that is waited out here; a longer one is the caller's to plan."""
AT_ONCE = 16
"""Requests of a process that are under way at once. GitHub allows 100 to all processes of an App together."""
Windows: TypeAlias = tuple[tuple[int, float], ...]
"""Pairs: so many at most in any so many seconds."""


@dataclass(frozen=True, slots=True)
class Writes:
    """How much a process writes of what an installation's processes may write together."""

    windows: Windows
    most: float
    """Seconds that a write waits at most for its turn here; one that would wait longer is the caller's to plan."""


WRITES = Writes(((60, 60.0), (400, 3600.0)), most=PATIENCE_SECONDS)
"""Writes of an installation, and the seconds in which so many are made at most (decisions.md 9). GitHub's own bounds
are 80 in a minute and 500 in an hour for what creates content, "and some endpoints have lower" ones."""
WORKERS_WRITES = Writes(((45, 60.0), (330, 3600.0)), most=1.0)
"""What of it the workers take: the rest is kept for 👀, answers and queued check runs, which people wait for. They take
no turns far ahead, since turns are given out in the order of asking."""
LIMITED_SECONDS = 60.0
"""The shortest wait after a secondary limit that does not say how long; it doubles each time the next request after it
meets the limit again."""
LIMITED_MOST = 3600.0
"""The longest wait that is believed: a primary limit begins anew every hour."""
BACKOFF_SECONDS = 0.5
"""Seconds before the second try of what failed without a limit; they double."""

_LIMITED = {403, 429}
_WORDS = ("rate limit", "abuse detection")
"""What GitHub's message says where a 403 is a secondary limit."""
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, handed in so that tests own them."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    async def rest(self, seconds: float) -> None:
        """Sleep a little longer than that, so that those who wait together do not come back together."""
        await self.sleep(seconds * (1 + _JITTER * self.jitter()))


class Turn(Protocol):
    """When a write may go."""

    @property
    def taken(self) -> bool:
        """A place was taken: the write may go after `wait`."""

    @property
    def wait(self) -> float:
        """Seconds until then."""


class Pacer(Protocol):
    """Gives out turns in the order in which they are asked for, to all processes: `bot.store.Pace`."""

    async def turn(self, name: str, windows: Windows, *, most: float) -> Turn:
        """Take the next place among `name`'s, if it is at most `most` seconds away. Raises what its store raises."""

    async def hold(self, name: str, seconds: float) -> None:
        """Let no turn of `name` come before so many seconds have passed. Raises nothing."""


# ---- Reading answers ------------------------------------------------------------------------------------------------


def asked_to_wait(answer: Answer, now: float, *, before: int = 0) -> float | None:
    """Return the seconds that a limit asks to wait, or None where the answer is none. Pure.

    `now` is our clock, for answers that do not tell GitHub's. `before` counts the secondary limits just before this one
    that did not say how long.
    """
    if answer.status not in _LIMITED:
        return None
    asked = retry_after(answer, now)
    if asked is None and answer.headers.get("x-ratelimit-remaining") == "0":
        asked = _until_reset(answer, now)
    if asked is None and (answer.status == 429 or _speaks_of_limits(answer.body)):
        asked = LIMITED_SECONDS * float(2 ** min(before, 10))
    return None if asked is None else min(max(asked, 1.0), LIMITED_MOST)


def silent(answer: Answer) -> bool:
    """Tell whether a limit's answer does not say for how long it holds."""
    return "retry-after" not in answer.headers and answer.headers.get("x-ratelimit-remaining") != "0"


def spent(answer: Answer, now: float) -> float | None:
    """Return the seconds until the next request, where this answer was the last one of the hour. Pure."""
    # Other resources (search, graphql) have counts of their own.
    ours = answer.headers.get("x-ratelimit-resource", "core") == "core"
    if not ours or answer.headers.get("x-ratelimit-remaining") != "0":
        return None
    until = _until_reset(answer, now)
    return None if until is None else min(until, LIMITED_MOST)


def retry_after(answer: Answer, now: float) -> float | None:
    """Return what ``retry-after`` asks for, in seconds from now: it is a number of them, or a date (RFC 9110)."""
    asked = answer.headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked)
    moment = http_date(asked)
    return None if moment is None else max(0.0, moment - _clock_of(answer, now))


def _until_reset(answer: Answer, now: float) -> float | None:
    reset = answer.headers.get("x-ratelimit-reset", "").strip()
    if not (reset.isascii() and reset.isdigit()):
        return None
    # By GitHub's clock: the two may differ by minutes. One second more, since both are whole seconds.
    return max(0.0, float(reset) - _clock_of(answer, now)) + 1.0


def _clock_of(answer: Answer, now: float) -> float:
    return now if answer.date is None else answer.date


def _speaks_of_limits(body: bytes) -> bool:
    try:
        message = json.loads(body)["message"]
    except (ValueError, LookupError, TypeError):
        return False
    return isinstance(message, str) and any(words in message.lower() for words in _WORDS)


def pause(method: str, attempt: int, got: Answer | NoAnswer, *, limited: float | None) -> float | None:
    """Return the seconds to wait before the next attempt, or None where this one was the last. Pure.

    A limit (`limited`: what it asks) did nothing, so any method may go again. Anything else goes again only where doing
    it twice is doing it once: reads, and requests of which no byte left this machine.
    """
    if attempt >= TRIES:
        return None
    backoff = BACKOFF_SECONDS * float(2 ** (attempt - 1))
    if isinstance(got, NoAnswer):
        again = (got.unsent or method == "GET") and not got.lasting
        return backoff if again else None
    if limited is not None:
        return limited if limited <= PATIENCE_SECONDS else None
    if got.status < 500 or method != "GET":
        return None
    asked = retry_after(got, 0.0) or 0.0
    return max(asked, backoff) if asked <= PATIENCE_SECONDS else None


# ---- Waiting --------------------------------------------------------------------------------------------------------


class Traffic:
    """What all clients of a process share. It belongs to one event loop."""

    def __init__(self, clock: Clock, pacer: Pacer | None = None, writes: Writes = WRITES) -> None:
        self.clock = clock
        self.writes = writes
        self.pacer = pacer
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.ahead: float | None = None
        """Seconds by which GitHub's clock was ahead of ours when it last answered; None before that."""
        self._lanes: dict[int | None, Lane] = {}

    def lane(self, installation: int | None) -> Lane:
        """Return the lane of an installation; None: that of the App itself, whose limits are its own."""
        return self._lanes.setdefault(installation, Lane(self, installation))


class Lane:
    """The way of one installation's requests to GitHub: it is closed while its limit is known to be reached.

    To go on then "may result in the banning of your integration".
    """

    def __init__(self, traffic: Traffic, installation: int | None) -> None:
        self._traffic = traffic
        self._clock = traffic.clock
        self._name = f"writes/{installation}"
        # The App's own calls mint tokens: they create no content.
        self._pacer = None if installation is None else traffic.pacer
        self._until = 0.0
        self._length = 0.0
        self._silent = 0

    def check(self) -> None:
        """Raise `Unavailable` while the lane is closed for longer than is waited here."""
        remaining = self._remaining()
        if remaining > PATIENCE_SECONDS:
            raise Unavailable(0, f"GitHub's rate limit is reached for {remaining:.0f} s more", retry_after=remaining)

    @asynccontextmanager
    async def passage(self, method: str) -> AsyncIterator[None]:
        """Wait until a request may go, and count it as under way in the body.

        Raises `Unavailable` where that is too far off, and what the pacer raises.
        """
        heeded = await self._heed()
        if self._pacer is not None and method != "GET":
            writes = self._traffic.writes
            turn = await self._pacer.turn(self._name, writes.windows, most=writes.most)
            if not turn.taken:
                words = f"This server writes no more to GitHub for {turn.wait:.0f} s, to stay within its limits"
                raise Unavailable(0, words, retry_after=turn.wait)
            if turn.wait > 0:
                await self._clock.sleep(turn.wait)
        while True:
            async with self._traffic.slots:
                if self._until <= heeded:
                    yield
                    return
            # The lane was closed while this one waited: nothing that stood in the queue goes through.
            heeded = await self._heed()

    async def _heed(self) -> float:
        """Wait until the lane is open, and return the end of the closure that was waited for."""
        self.check()
        until, remaining = self._until, self._remaining()
        if remaining > 0:
            await self._clock.rest(remaining)
        return until

    def _remaining(self) -> float:
        # Never longer than it was asked to be: our clock may be set back in between.
        return max(0.0, min(self._until - self._clock.now(), self._length))

    async def learn(self, answer: Answer) -> float | None:
        """Take in what an answer says of limits and of GitHub's clock; return the wait that a limit asks for."""
        now = self._clock.now()
        if answer.date is not None:
            self._traffic.ahead = answer.date - now
        # Answers to requests that were under way together are one limit, not several in a row.
        again = self._remaining() > 0
        wait = asked_to_wait(answer, now, before=max(0, self._silent - again))
        if wait is not None:
            if silent(answer) and not again:
                self._silent += 1
            await self._close(wait)
        elif (rest := spent(answer, now)) is not None:
            await self._close(rest)
        elif not again:
            self._silent = 0
        return wait

    async def _close(self, seconds: float) -> None:
        if seconds > self._remaining():
            self._until, self._length = self._clock.now() + seconds, seconds
            if self._pacer is not None:
                await self._pacer.hold(self._name, seconds)
