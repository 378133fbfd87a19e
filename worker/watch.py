"""What goes on beside a debate: the heartbeat of its check run, and the look-out for what shall end it.

It owns how often, and how a debate in the middle of a turn is ended. It knows neither GitHub's calls nor the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from bot.github import GitHubError, NotInstalled
from bot.store import LostFence, StoreAway
from bot.telemetry import log
from worker.ended import Ended
from worker.git import GitUnavailable
from worker.runner import Cancelled

BEAT_SECONDS = 60.0
"""Between two heartbeats of the check run (decisions.md 9)."""
PULSE_SECONDS = 1.0
"""Between two looks at what an agent does, for those who watch on this machine."""
WATCH_SECONDS = 0.5
"""Between two looks at whether the run shall end."""
AWAY_SECONDS = 5.0
"""Until the next look where GitHub did not answer. Before each step it is asked anyway."""

Sleep = Callable[[float], Awaitable[None]]


@contextlib.asynccontextmanager
async def watched(
    beat: Callable[[], Awaitable[None]],
    look: Callable[[], Awaitable[None]],
    *,
    pulse: Callable[[], Awaitable[None]],
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[None]:
    """Renew the check run while the block goes on, and end the block within a moment of a reason to.

    `look` raises the reason: `Cancelled`, `Ended` or `NotInstalled`, which this raises then. `pulse` is called far more
    often than `beat`: it tells those who watch on this machine, and GitHub nothing. A cancellation from outside stays
    what it is, also beside a reason.
    """
    block, reasons = asyncio.current_task(), list[Exception]()

    async def end() -> None:
        reasons.append(await _found(look, sleep))
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
        if not reasons or block is None or block.uncancel() > 0:
            raise
        raise reasons[0] from None
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


async def _found(look: Callable[[], Awaitable[None]], sleep: Sleep) -> Exception:
    """Return the reason for which the run shall end, once there is one."""
    while True:
        await sleep(WATCH_SECONDS)
        try:
            await look()
        except (Cancelled, Ended, NotInstalled) as reason:
            return reason
        except StoreAway:
            continue
        except (GitHubError, GitUnavailable):
            await sleep(AWAY_SECONDS)
        except Exception:  # noqa: BLE001 - a fault in one look must not leave the run without any
            log(__name__).exception("a look at whether the run shall end failed")
            await sleep(AWAY_SECONDS)
