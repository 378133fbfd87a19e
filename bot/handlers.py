"""One coroutine for all events: a job of the queue `events`, with its tries and its line in the log.

Owns how often an event is tried while GitHub is away, and which room handles which event. Everything may happen twice:
a job may be run again at any point.
"""

from __future__ import annotations

import json
from typing import Any, assert_never

from bot import events
from bot.automatic import handle_pull_request
from bot.comments import give_up, handle_comment
from bot.context import LAG_SECONDS, Bot
from bot.events import CommentCreated, Event, InstallationChanged, Ping, PullRequestChanged
from bot.github import AppUnknown, GitHubError, NotInstalled, Unavailable
from bot.store import StoreAway, TryAgain
from bot.telemetry import log

EVENT_TRIES = 6
"""Tries of one event while GitHub is away, over about a minute, until who commanded is told that it was in vain."""
LAST_TRIES = 295
"""Tries where nobody could be told, over a day: what is done late is better than what is lost without a word. Who takes
a command back meanwhile deletes its comment."""
PAUSE_SECONDS = 300.0
"""The longest pause between two tries, unless GitHub asks for a longer one; they begin with two seconds."""
FORGET_TRIES = 120
"""Tries of forgetting an installation while its last runs come to their end."""
FORGET_SECONDS = 30.0
"""Seconds between them: an hour in all (decisions.md 1.8)."""


async def handle_event(ctx: dict[str, Any], delivery_id: str, name: str, body: str) -> None:
    """Handle one delivery. ``ctx["bot"]`` is a `Bot`.

    Raises `TryAgain` while GitHub is away, until somebody was told or a day is over, and `StoreAway`, which is tried
    again too.
    """
    bot: Bot = ctx["bot"]
    attempt = int(ctx.get("job_try") or 1)
    event = events.parse(name, json.loads(body))
    line: dict[str, object] = {"name": name, "delivery": delivery_id, "attempt": attempt, **_about(event)}
    try:
        outcome = await _handle(bot, event, delivery=delivery_id, attempt=attempt)
    except Unavailable as away:
        told = attempt >= EVENT_TRIES and await _told_given_up(bot, event, delivery=delivery_id)
        if not told and attempt < LAST_TRIES:
            log(__name__).warning("event waits", error=str(away), **line)
            raise TryAgain(_pause(attempt, away.retry_after)) from away
        outcome, line["error"] = "given up", str(away)
    except (NotInstalled, AppUnknown) as gone:
        outcome = "not installed" if isinstance(gone, NotInstalled) else "failed"
        line["error"], line["repair"] = str(gone), gone.repair
    except GitHubError as error:
        outcome, line["error"] = "failed", str(error)
    bot.metrics.events.labels(name, outcome.partition(":")[0]).inc()
    log(__name__).info("event", outcome=outcome, **line)


def _pause(attempt: int, asked: float | None) -> float:
    """Return the seconds until the next try of an event."""
    return max(asked or 0.0, min(2.0**attempt, PAUSE_SECONDS))


def _about(event: Event | None) -> dict[str, object]:
    """Return what a log line says about an event."""
    match event:
        case CommentCreated():
            return {"repository": event.repository.full_name, "number": event.number, "comment": event.comment_id}
        case PullRequestChanged():
            return {"repository": event.repository.full_name, "number": event.number, "action": event.action}
        case InstallationChanged():
            return {"installation": event.installation_id, "action": event.action}
        case Ping() | None:
            return {}
        case _:
            assert_never(event)


async def _handle(bot: Bot, event: Event | None, *, delivery: str, attempt: int) -> str:
    """Handle an event and return what became of it, in a word or two for the log."""
    match event:
        case CommentCreated():
            return await handle_comment(bot, event, delivery=delivery)
        case PullRequestChanged():
            return await handle_pull_request(bot, event, delivery=delivery)
        case InstallationChanged():
            return await _installation(bot, event, attempt=attempt)
        case Ping():
            return "pong"
        case None:
            return "ignored"
        case _:
            assert_never(event)


async def _told_given_up(bot: Bot, event: Event | None, *, delivery: str) -> bool:
    """Tell a person who commanded, where GitHub takes a reply by now; return whether it did."""
    if not isinstance(event, CommentCreated):
        return False
    try:
        await give_up(bot, event, delivery=delivery)
    except (GitHubError, StoreAway) as error:
        log(__name__).warning("giving up could not be told", comment=event.comment_id, error=str(error))
        return False
    return True


# ---- Installations --------------------------------------------------------------------------------------------------


async def _installation(bot: Bot, event: InstallationChanged, *, attempt: int) -> str:
    """End the runs of an installation that was taken away, and forget it where it was removed (threats.md, input 31).

    GitHub is asked first: the name of an event is not signed, and what was taken away may be back. Raises `TryAgain`
    until its runs have ended: what a worker still writes would outlive the forgetting.
    """
    if event.action not in {"deleted", "suspend"}:
        return "recorded"
    try:
        lacking = await bot.app.lacking(event.installation_id)
    except Unavailable as away:
        if attempt >= FORGET_TRIES:
            raise
        raise TryAgain(FORGET_SECONDS) from away
    if lacking not in {"absent", "suspended"}:
        if attempt == 1:  # what GitHub has just told of may not be so yet where it is asked
            raise TryAgain(LAG_SECONDS)
        return "ignored: it is installed"
    kept = await bot.store.installations.kept(event.installation_id)
    for run_id in kept.live:
        await bot.store.runs.cancel(run_id, "withdrawn")
    if lacking != "absent":
        return f"withdrawn: {len(kept.live)} runs"
    if kept.live and attempt < FORGET_TRIES:
        log(__name__).info("installation ends", installation=event.installation_id, live=len(kept.live))
        raise TryAgain(FORGET_SECONDS)
    return f"forgotten: {await bot.store.installations.forget(event.installation_id, kept)} keys"
