"""The one job of queue `runs`: one attempt at one run, and its one error boundary.

It owns what a fault does to an attempt: whether another follows, whether the run is to blame, when it is given up. What
an attempt does stands in `worker/attempt.py`.
"""

from __future__ import annotations

import asyncio

from bot.github import NotInstalled, Unavailable
from bot.statuses import Status
from bot.store import Lease, LostFence, StoreAway, TryAgain
from bot.telemetry import log
from worker.attempt import DEATHS, Attempt, Office
from worker.git import GitUnavailable

AGAIN_SECONDS = 5.0
"""Pause before a run is taken up again after a fault of the worker."""
FAILED = "this server failed again and again at this debate"
AWAY = "this server could not reach GitHub for a day"


async def debate(office: Office, run_id: str, lease: Lease | None = None) -> None:
    """Make one attempt at a run. Returns when it has ended; raises `TryAgain` where another attempt shall follow.

    `lease` tells why the attempt was cancelled, if it was: a worker that stands still over a step, again and again, may
    do so because of it.
    """
    runs = office.store.runs
    run = await runs.get(run_id)
    if run is None:
        log(__name__).error("run unknown", run=run_id)
        return
    ended = (await runs.state(run_id)).status
    attempt = Attempt(office, run, await runs.begin_attempt(run_id))
    try:
        if ended is None:
            await _make(attempt)
        else:  # a worker died between the run's end and what follows it
            await attempt.leave(Status(ended))
    except LostFence:
        log(__name__).info("attempt overtaken", run=run_id)
    except asyncio.CancelledError:
        log(__name__).info("attempt cancelled", run=run_id)
        if lease is None or not lease.stalled:
            await attempt.blameless()
        raise
    except TryAgain:
        raise
    except Exception as fault:
        log(__name__).exception("attempt died", run=run_id)
        if (await runs.state(run_id)).deaths < 2 * DEATHS:
            raise TryAgain(AGAIN_SECONDS) from fault
        # Its end cannot be told from here: it is stored, and the claim is given back.
        try:
            await attempt.give_up(Status.AGENT_ERROR, FAILED)
        except Exception:  # noqa: BLE001 - the claim, at least
            log(__name__).exception("the end could not be stored", run=run_id)
            await attempt.leave(Status.AGENT_ERROR)


async def _make(attempt: Attempt) -> None:
    """Make the attempt, and end the run where GitHub is not there for it: that is nobody's death."""
    run = attempt.run.id
    try:
        await attempt.make()
    except (Unavailable, GitUnavailable, StoreAway) as fault:
        log(__name__).warning("attempt fault", run=run, fault=str(fault))
        if not isinstance(fault, StoreAway) and await attempt.hopeless():
            await attempt.give_up(Status.AGENT_ERROR, AWAY)
            return
        await attempt.blameless()
        # Where GitHub says when it may be asked again, not before that.
        raise TryAgain(max(AGAIN_SECONDS, getattr(fault, "retry_after", None) or 0.0)) from fault
    except NotInstalled as gone:
        log(__name__).warning("not installed", run=run, error=str(gone))
        await attempt.give_up(Status.AUTHORISATION_WITHDRAWN, "")
