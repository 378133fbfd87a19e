"""What goes on beside a debate: the heartbeat of its check run, and the look-out for somebody who asked it to end.

It owns how often, and how a debate in the middle of a turn is ended. It knows neither GitHub's calls nor the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from bot.github import GitHubError
from bot.store import LostFence, StoreAway
from bot.telemetry import log
from worker.runner import Cancelled

BEAT_SECONDS = 60.0
"""Between two heartbeats of the check run (decisions.md 9)."""
PULSE_SECONDS = 1.0
"""Between two looks at what an agent does, for those who watch on this machine."""
WATCH_SECONDS = 0.5
"""Between two looks at whether somebody asked the run to end."""

Sleep = Callable[[float], Awaitable[None]]


@contextlib.asynccontextmanager
async def watched(
    beat: Callable[[], Awaitable[None]],
    cancelled: Callable[[], Awaitable[str | None]],
    *,
    pulse: Callable[[], Awaitable[None]],
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[None]:
    """Renew the check run while the block goes on, and end the block within a moment of being asked to.

    `pulse` is called far more often than `beat`: it tells those who watch on this machine, and GitHub nothing. Raises
    `Cancelled` with the reason where `cancelled` returned one. A cancellation from outside stays what it is.
    """
    block, reasons = asyncio.current_task(), list[str]()

    async def end() -> None:
        reasons.append(await _asked(cancelled, sleep))
        if block is not None:
            block.cancel()

    helpers = [
        asyncio.create_task(_beating(beat, BEAT_SECONDS, sleep)),
        asyncio.create_task(_beating(pulse, PULSE_SECONDS, sleep)),
        asyncio.create_task(end()),
    ]
    try:
        yield
    except asyncio.CancelledError:
        if not reasons or block is None:
            raise
        block.uncancel()
        raise Cancelled(reasons[0]) from None
    finally:
        for helper in helpers:
            helper.cancel()
        for failure in await asyncio.gather(*helpers, return_exceptions=True):
            # Who lost the fence learns it at the next write; anything else is a fault of ours.
            if isinstance(failure, Exception) and not isinstance(failure, LostFence):
                log(__name__).error("nobody watched the debate to its end", error=repr(failure))


async def _beating(beat: Callable[[], Awaitable[None]], seconds: float, sleep: Sleep) -> None:
    while True:
        await sleep(seconds)
        with contextlib.suppress(GitHubError, StoreAway):
            await beat()


async def _asked(cancelled: Callable[[], Awaitable[str | None]], sleep: Sleep) -> str:
    """Return the reason for which the run shall end, once there is one."""
    reason = None
    while reason is None:
        await sleep(WATCH_SECONDS)
        with contextlib.suppress(StoreAway):
            reason = await cancelled()
    return reason
