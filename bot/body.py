"""The bodies of requests, read under limits: the bytes of one, its time, and the bytes of all together.

Owns what a sender can make this process hold before anything is known of him (threats.md T3). It knows nothing of what
a body says.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

BODY_LIMIT = 25 * 1024 * 1024
"""Bytes of the largest delivery: GitHub sends none that is larger (docs.github.com, "Webhook events and payloads")."""
BODIES_LIMIT = 5 * BODY_LIMIT
"""Bytes that all bodies under way may hold together. A common delivery has 20 kB."""

LARGE = 1024 * 1024
"""Bytes of a body after which memory is given back to the system. glibc keeps freed blocks of this size, once it has
seen one, for its next ones (mallopt(3), M_MMAP_THRESHOLD): a body of 25 MB would cost 75 MB for ever."""
TIDY_SECONDS = 1.0
"""From a large body's end until memory is given back; for so long others may follow."""
TRIM: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""malloc_trim(3), where there is glibc."""

TOO_LARGE = "The body is too large."


class Refused(Exception):  # noqa: N818 - a request that is not taken
    """A request that is answered without being handed on. It holds our own words alone."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Bodies:
    """The bodies that are held at present.

    Where they would hold too much together, the one that has been read for the longest gives way: a slow sender then
    costs other slow senders, and a delivery that comes at the usual speed is through before it is the oldest.
    """

    def __init__(self, limit: int = BODIES_LIMIT) -> None:
        self.held = 0
        self._limit = limit
        self._coming: dict[_Body, None] = {}
        self._tidying: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def reading(self, request: web.Request, *, until: float) -> AsyncIterator[bytearray]:
        """Read a body, which counts as held until the block is left.

        `until` is the event loop's time at which it must have come. Raises `Refused`: 413 above `BODY_LIMIT`, 400 for
        one that does not come whole and in time, 503 for one that gave way.
        """
        raw, body = bytearray(), _Body()
        try:
            await self._fill(raw, body, parts=request.content.iter_any(), until=until)
            yield raw
        finally:
            self.held -= body.held
            if len(raw) > LARGE and self._tidying is None:
                self._tidying = asyncio.get_running_loop().call_later(TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        if TRIM is not None:
            TRIM(0)

    async def _fill(self, raw: bytearray, body: _Body, *, parts: AsyncIterator[bytes], until: float) -> None:
        try:
            async with asyncio.timeout_at(until) as body.time:
                self._coming[body] = None
                async for part in parts:
                    raw += part
                    self._hold(body, len(part))
        except TimeoutError:
            body.check()
            raise Refused(400, "The body did not arrive in time.") from None
        except (web.RequestPayloadError, web.PayloadAccessError, HttpProcessingError, OSError):
            raise Refused(400, "The body did not arrive whole.") from None
        finally:
            self._coming.pop(body, None)
        body.check()

    def _hold(self, body: _Body, count: int) -> None:
        """Count bytes that came. Raises `Refused`."""
        body.held += count
        self.held += count
        if body.held > BODY_LIMIT:
            raise Refused(413, TOO_LARGE)
        while self.held > self._limit and self._coming:
            oldest = next(iter(self._coming))
            del self._coming[oldest]
            self.held -= oldest.held
            oldest.give_way()
        body.check()


@dataclass(eq=False, slots=True)
class _Body:
    """A body under way."""

    time: asyncio.Timeout | None = None
    held: int = 0
    gave_way: bool = False

    def give_way(self) -> None:
        """End the reading, wherever it waits, and hold nothing from now on."""
        self.held = 0
        self.gave_way = True
        if self.time is not None and not self.time.expired():
            self.time.reschedule(0.0)

    def check(self) -> None:
        """Raise `Refused` where this body gave way."""
        if self.gave_way:
            raise Refused(503, "Too much arrives at once; deliver it again later.")
