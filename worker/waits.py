"""Waiting on which a caller may rely: for no longer than told, or to the end whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, and tell whether it came in time."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def to_the_end(work: Awaitable[object]) -> None:
    """Await `work` although this task is cancelled meanwhile; then let the cancellation go on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
