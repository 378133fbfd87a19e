"""Asking GitHub for what it could not deliver: it never sends anything again by itself (github.md A1).

It owns which deliveries are asked for and how often. A delivery that the queue knows was accepted, whatever GitHub
thinks of it; one that comes twice is dropped by its GUID.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from bot.github import AppClient, GitHubError, Unavailable, own
from bot.store import Failed, Store
from bot.telemetry import log

FIRST_SECONDS = 60.0
"""From a delivery's failure to the first time that it is asked for; each further time takes twice as long."""
AT_ONCE = 30
"""Deliveries that are asked for in one go: a receiver that has just come back is not to fall over them."""


async def redeliver_failed(app: AppClient, store: Store, *, now: float | None = None) -> int:
    """Ask again for deliveries of the last three days that failed and were never accepted; return how many.

    Raises `GitHubError` and `StoreAway`.
    """
    now = time.time() if now is None else now
    await _note(app, store, oldest=now - own.REDELIVERED_SECONDS)
    due = []
    for guid, failed in (await store.upkeep.failed()).items():
        if failed.first < now - own.REDELIVERED_SECONDS or await store.queue.knows(guid):
            await store.upkeep.set_failed(guid, None)
        elif now >= failed.at + FIRST_SECONDS * 2 ** (failed.attempts - 1):
            due.append((failed.first, guid, failed))
    asked = 0
    for _, guid, failed in sorted(due, key=lambda each: each[0])[:AT_ONCE]:
        asked += await _ask(app, store, guid, failed=failed, now=now)
    return asked


async def _note(app: AppClient, store: Store, *, oldest: float) -> None:
    """Take in what GitHub tells of attempts since the last look."""
    after = await store.upkeep.newest_delivery()
    found = await own.deliveries(app.own, after=after, since=datetime.fromtimestamp(oldest, UTC))
    failing = dict(await store.upkeep.failed())
    for attempt in reversed(found):
        known = failing.get(attempt.guid)
        if attempt.failed:
            at = attempt.delivered_at.timestamp()
            first, attempts = (known.first, known.attempts) if known else (at, 1)
            failing[attempt.guid] = Failed(id=attempt.id, attempts=attempts, at=at, first=first)
            await store.upkeep.set_failed(attempt.guid, failing[attempt.guid])
        elif known is not None:
            del failing[attempt.guid]
            await store.upkeep.set_failed(attempt.guid, None)
    if found:
        await store.upkeep.set_newest_delivery(found[0].id)


async def _ask(app: AppClient, store: Store, guid: str, *, failed: Failed, now: float) -> int:
    try:
        await own.redeliver(app.own, failed.id)
    except Unavailable:
        raise
    except GitHubError as error:  # too old by GitHub's own count, or not of this App
        log(__name__).warning("not delivered again", delivery=guid, error=str(error))
        await store.upkeep.set_failed(guid, None)
        return 0
    # It counts as one that failed, whether its outcome is ever heard of or not.
    await store.upkeep.set_failed(guid, failed.model_copy(update={"at": now, "attempts": failed.attempts + 1}))
    log(__name__).info("asked to deliver again", delivery=guid, attempts=failed.attempts)
    return 1
