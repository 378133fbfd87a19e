"""The lease on a job: the sign that its worker lives, renewed from a thread so that a busy loop does not lose it.

A lease is a key that holds its worker's token and dies after a few seconds. This module renews leases
and notices lost ones; it starts no job and picks none up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

LEASE_SECONDS = 6.0
"""A killed worker's job is taken up again after so long (decisions.md 1.4)."""
RENEWALS = 5
"""Renewals within the life of a lease: three may fail before it is lost."""

RENEW = """
-- KEYS: leases. ARGV: life in ms, then their tokens. Answers 1 for each that is still held.
local held = {}
for i, name in ipairs(KEYS) do
  held[i] = 0
  if redis.call('get', name) == ARGV[i + 1] then held[i] = redis.call('pexpire', name, ARGV[1]) end
end
return held
"""


@dataclass(slots=True, eq=False)
class Lease:
    """One job's lease. A job finds it as ``ctx["lease"]``."""

    job: str
    key: str
    token: str = field(default_factory=lambda: token_hex(16))
    reason: str | None = None
    """Why the job is being cancelled: ``shutdown`` or ``lost-lease`` (decisions.md 1.7). None: it is not."""
    until: float = 0.0
    """The time, by this process's monotonic clock, until which the store surely keeps it."""
    unheard: bool = False
    """The store did not answer when it was last to be renewed."""
    stalled: bool = False
    """It was lost although the store answered each time: this process stood still, maybe because of the job."""


class Keeper:
    """Renews the leases of one worker from a thread with a connection of its own."""

    def __init__(self, url: str, *, seconds: float, lost: Callable[[Lease], None]) -> None:
        """`lost` is called in the event loop, once for a lease that is not ours any more or may not be."""
        self.seconds = seconds
        self._url = url
        self._lost = lost
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start renewing."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._renew_on, args=(loop,), name="lease", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop renewing; what is still held runs out by itself."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def hold(self, lease: Lease, *, asked: float) -> None:
        """Renew a lease from now on. `asked` is the monotonic time before it was taken."""
        lease.until = asked + self.seconds
        with self._lock:
            self._held[lease.job] = lease

    def drop(self, lease: Lease) -> None:
        """Renew a lease no more."""
        with self._lock:
            if self._held.get(lease.job) is lease:
                del self._held[lease.job]

    def _renew_on(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = self.seconds / RENEWALS
        # One try with a short limit: the next round is the retry.
        redis: Redis = Redis.from_url(self._url, socket_timeout=pause, socket_connect_timeout=pause)
        try:
            while not self._stop.wait(pause):
                self._renew(redis, loop)
        finally:
            redis.close()

    def _renew(self, redis: Redis, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            leases = list(self._held.values())
        if not leases:
            return
        asked = time.monotonic()
        words = (*(lease.key for lease in leases), int(self.seconds * 1000), *(lease.token for lease in leases))
        try:
            held: Any = redis.eval(RENEW, len(leases), *map(str, words))
        except (RedisError, OSError):
            held = [None] * len(leases)
        for lease, answer in zip(leases, held, strict=True):
            lease.unheard = lease.unheard or answer is None
            if answer == 1:
                lease.until, lease.unheard = asked + self.seconds, False
            elif answer == 0 or time.monotonic() >= lease.until:
                lease.stalled = answer == 0 and not lease.unheard
                self.drop(lease)
                # The loop may be closed by now: then there is no job left to tell.
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._lost, lease)
