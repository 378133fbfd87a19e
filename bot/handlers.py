"""One coroutine per event: gather facts, decide, act. A job of the queue `events`.

Owns the order of things: what is asked of GitHub and when, and that everything may happen twice. A job may be run again
at any point; claims, answers and check runs are kept by the comment and the run that they belong to. What is decided is
policy.py's, every sentence replies.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, assert_never

from bot import commands, events, policy, replies, request
from bot.commands import Command, Help, Reading, Review
from bot.events import CommentCreated, Event, InstallationChanged, Ping, PullRequestChanged
from bot.github import REPLY_PERMISSIONS, AppClient, GitHub, GitHubError, NotFound, NotInstalled, Unavailable, verbs
from bot.policy import Facts, Ignore, Running, Server, Start, Tell
from bot.publish import Answer, CheckRun, CommentRef, Intent, Place, Published, Publisher, Reaction
from bot.settings import Settings
from bot.store import LostFence, Store, TryAgain
from bot.store.runs import Full, Repeat, Run, Started, Waiting, new_run_id
from bot.telemetry import Metrics, log

EVENT_TRIES = 6
"""Tries of one event while GitHub is away: over about a minute."""
MEANING_SECONDS = 30 * 86400
"""For so long an event about a pull request is known again under another delivery id."""


def utc_now() -> datetime:
    """Return the time in whole seconds, UTC."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Bot:
    """What handlers work with."""

    settings: Settings
    store: Store
    app: AppClient
    metrics: Metrics
    now: Callable[[], datetime] = utc_now
    new_id: Callable[[], str] = new_run_id


@dataclass(frozen=True, slots=True)
class _Talk:
    """One command being handled: who asked, where, and with which credential it is answered."""

    bot: Bot
    event: CommentCreated
    github: GitHub
    again: bool
    """This is another try of the same job: what it has done before does not count as a repetition."""


async def handle_event(ctx: dict[str, Any], delivery_id: str, name: str, body: str) -> None:
    """Handle one delivery. ``ctx["bot"]`` is a `Bot`.

    Raises `TryAgain` while GitHub is away, until `EVENT_TRIES` have failed, and `StoreAway`, which is tried again too.
    """
    bot: Bot = ctx["bot"]
    attempt = int(ctx.get("job_try") or 1)
    event = events.parse(name, json.loads(body))
    line: dict[str, object] = {"name": name, "delivery": delivery_id, "attempt": attempt, **_about(event)}
    try:
        outcome = await _handle(bot, event, again=attempt > 1)
    except Unavailable as away:
        if attempt < EVENT_TRIES:
            log(__name__).warning("event waits", error=str(away), **line)
            raise TryAgain(_pause(attempt, away.retry_after)) from away
        outcome, line["error"] = "given up", str(away)
    except NotInstalled as gone:
        outcome, line["error"] = "not installed", str(gone)
    except GitHubError as error:
        outcome, line["error"] = "failed", str(error)
    bot.metrics.events.labels(name, outcome.partition(":")[0]).inc()
    log(__name__).info("event", outcome=outcome, **line)


def _pause(attempt: int, asked: float | None) -> float:
    """Return the seconds until the next try of an event."""
    return max(asked or 0.0, float(2**attempt))


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


async def _handle(bot: Bot, event: Event | None, *, again: bool) -> str:
    """Handle an event and return what became of it, in a word or two for the log."""
    match event:
        case CommentCreated():
            return await _comment(bot, event, again=again)
        case PullRequestChanged():
            place = (event.repository.id, event.number, event.action, event.head_sha, event.updated_at)
            seen = await bot.store.runs.seen(f"pull:{':'.join(map(str, place))}", MEANING_SECONDS)
            return "repeated" if seen and not again else "recorded"
        case InstallationChanged():
            return "recorded"
        case Ping():
            return "pong"
        case None:
            return "ignored"
        case _:
            assert_never(event)


# ---- A comment ------------------------------------------------------------------------------------------------------


async def _comment(bot: Bot, event: CommentCreated, *, again: bool) -> str:
    """Handle a new comment: most of them are none of our business, and cost no call."""
    server = Server(frozenset(bot.settings.bots))
    github = bot.app.installation(event.installation_id, event.repository.id)
    # Only where a listed bot speaks does it matter which one we are.
    own = (await bot.app.identity(github)).bot_id if event.author.id in server.bots else None
    ignored = policy.hears(event, server, own)
    if ignored:
        return f"ignored: {ignored.reason}"
    reading = commands.parse(event.text, max_rounds=bot.settings.max_rounds)
    if reading is None:
        return "ignored: no command"
    if await bot.store.runs.seen(f"comment:{event.repository.id}:{event.comment_id}", None) and not again:
        return "repeated"
    talk = _Talk(bot, event, github, again)
    try:
        facts = await _facts(talk, reading)
    except NotInstalled as error:
        # Gone, or not all of app.yml is granted: GitHub's status is the same. Only in the second case can it be told.
        asks = await _permission(_replying(talk).github, event.repository.full_name, event.author.login)
        facts = Facts(served=True, permission=asks, refused=str(error))
    decision = policy.decide(event, reading, facts, max_rounds=bot.settings.max_rounds)
    match decision:
        case Start():
            line = reading.line if isinstance(reading, Command) else ""
            return await _start(talk, decision, line)
        case Tell():
            return await _tell(talk, decision)
        case Ignore():
            return f"ignored: {decision.reason}"
        case _:
            assert_never(decision)


async def _facts(talk: _Talk, reading: Reading) -> Facts:
    """Read what the decision depends on, and no more than that."""
    bot, event, github = talk.bot, talk.event, talk.github
    allow = bot.settings.allow
    owner_id = 0 if allow else (await bot.app.owner())[0]
    if not policy.serves(event.repository.full_name, event.owner_id, allow=allow, app_owner_id=owner_id):
        return Facts(served=False)
    options = reading.options if isinstance(reading, Command) else None
    if isinstance(options, Help):
        return Facts(served=True)
    repo = event.repository.full_name
    permission = await _permission(github, repo, event.author.login)
    number = policy.target(event, reading) if isinstance(reading, Command) else None
    if not isinstance(options, Review) or number is None or not policy.writes(permission, event.author.id):
        return Facts(served=True, permission=permission)
    try:
        pull = await _pull(github, event, number)
        author = await _permission(github, repo, pull.user.login) if pull and pull.user else None
        exists = not options.base or await verbs.branch_sha(github, repo, options.base) is not None
    except (Unavailable, NotInstalled):
        raise
    except GitHubError as error:
        log(__name__).warning("not shown", repository=repo, number=number, error=str(error))
        return Facts(served=True, permission=permission, refused=str(error))
    return Facts(served=True, permission=permission, pull=pull, author_permission=author, base_exists=exists)


async def _permission(github: GitHub, repo: str, login: str) -> verbs.Permission | None:
    """Return an account's permission, or None where GitHub does not say: that counts as none (threats.md, 71)."""
    try:
        return await verbs.permission(github, repo, login)
    except (Unavailable, NotInstalled):
        raise
    except GitHubError:
        return None


async def _pull(github: GitHub, event: CommentCreated, number: int) -> verbs.PullRequest | None:
    try:
        pull = await verbs.pull(github, event.repository.full_name, number)
    except NotFound:
        return None
    # A repository that took over an old name is another one (threats.md, 67).
    return pull if pull.base.repo is not None and pull.base.repo.id == event.repository.id else None


# ---- Acting ---------------------------------------------------------------------------------------------------------


async def _tell(talk: _Talk, tell: Tell) -> str:
    """Give a short reply, and its reaction."""
    event, runs = talk.event, talk.bot.store.runs
    if tell.once and await runs.seen(f"once:{tell.once}", tell.seconds) and not talk.again:
        return "told before"
    talk = _replying(talk)
    if not await _still_there(talk):
        return "ignored: the comment was deleted"
    publisher = await _publisher(talk)
    await _try(publisher, _reaction(event, tell.reaction))
    await _try(publisher, _answer(event, tell.reply))
    return "told" if tell.reaction == "rocket" else "refused"


async def _start(talk: _Talk, start: Start, line: str) -> str:
    """Claim the pull request for a new run, and do what the claim allows. A second time it finds the same run."""
    if not await _still_there(talk):
        return "ignored: the comment was deleted"
    bot, runs = talk.bot, talk.bot.store.runs
    await _publisher(talk)  # what it asks of GitHub may fail: not after the claim, which would hold and run nothing
    run = request.run_of(talk.event, start, bot.settings, run_id=bot.new_id(), now=bot.now())
    claim = await runs.claim(run, request.text_key(talk.event, line))
    match claim:
        case Started(run):
            return await _announce(talk, run, behind=None)
        case Waiting(run, behind):
            return await _announce(talk, run, behind=behind)
        case Full():
            return await _tell(talk, Tell(policy.full()))
        case Repeat(run):
            return await _tell(talk, Tell(policy.repeat(await _running(talk, run))))
        case _:
            assert_never(claim)


async def _announce(talk: _Talk, run: Run, *, behind: Run | None) -> str:
    """Show that a run was taken on, and hand it to the workers unless it waits for another."""
    bot, event = talk.bot, talk.event
    state = await bot.store.runs.state(run.id)
    if state.status is not None:
        return f"ended: {run.id}"
    publisher = await _publisher(talk)
    try:
        await _try(publisher, _reaction(event, "eyes"))
        # From its first attempt on the check run is the worker's: a late "queued" would take back what it shows.
        if state.fence == 0:
            await _show_queued(talk, run, behind=behind)
    finally:
        # The claim is held: whatever GitHub says, the run must get to a worker.
        if behind is None:
            await bot.store.queue.enqueue_run(run.id)
    if behind is not None:
        reply = policy.waits(await _running(talk, behind), bot.now())
        await _try(publisher, _answer(event, reply))
        return f"waiting: {run.id}"
    return f"started: {run.id}"


async def _show_queued(talk: _Talk, run: Run, *, behind: Run | None) -> None:
    """Create the run's check run, queued, and note its id."""
    server, stop = talk.bot.settings.github_server_url, commands.available("stop")
    intent = CheckRun(
        run=run.id,
        name="codex-debate",
        head_sha=run.head_sha,
        status="queued",
        title=replies.queued_title(1 if behind else 0),
        summary=replies.queued_summary(
            server, run.repository.full_name, run.head_sha, behind=behind is not None, stop=stop
        ),
    )
    shown = await _try(await _publisher(talk, run.id), intent)
    known: dict[str, int] = {"waited": 1} if behind is not None else {}
    if shown is not None and shown.id is not None:
        known["check_run_id"] = shown.id
    try:
        await talk.bot.store.runs.record(run.id, 0, **known)
    except LostFence:
        log(__name__).info("the run began before its check run was noted", run=run.id)


async def _try(publisher: Publisher, intent: Intent) -> Published | None:
    """Publish what the rest does not depend on. What GitHub refuses for good is told to the log."""
    try:
        return await publisher.publish(intent)
    except (NotInstalled, Unavailable):
        raise  # the one ends the event, the other has it tried again
    except GitHubError as error:
        log(__name__).warning("not published", intent=type(intent).__name__, error=str(error))
        return None


def _replying(talk: _Talk) -> _Talk:
    """Return the talk with a credential that can reply and no more."""
    event = talk.event
    github = talk.bot.app.installation(event.installation_id, event.repository.id, REPLY_PERMISSIONS)
    return replace(talk, github=github)


async def _publisher(talk: _Talk, run_id: str | None = None) -> Publisher:
    event = talk.event
    identity = await talk.bot.app.identity(talk.github)
    place = Place(event.repository.full_name, event.number, identity.bot_id)
    return Publisher(talk.bot.store.outbox, talk.github, place, run=run_id)


async def _still_there(talk: _Talk) -> bool:
    """Return whether the command's comment was not deleted meanwhile (threats.md, 41)."""
    try:
        await verbs.comment(talk.github, talk.event.repository.full_name, talk.event.comment_id)
    except NotFound:
        return False
    return True


async def _running(talk: _Talk, run: Run) -> Running:
    """Return what is known of another run of this pull request."""
    bot = talk.bot
    state = await bot.store.runs.state(run.id)
    check = state.check_run_id
    url = f"{bot.settings.github_server_url}/{run.repository.full_name}/runs/{check}" if check else None
    return Running(run.created_at, _round(await bot.store.runs.progress(run.id)), url, state.status is not None)


def _round(progress: str | None) -> int | None:
    """Return the round that a worker wrote last, where it wrote one."""
    try:
        found = json.loads(progress or "null")
    except ValueError:
        return None
    number = found.get("round") if isinstance(found, dict) else None
    return number if isinstance(number, int) and number > 0 else None


def _reaction(event: CommentCreated, content: policy.Reaction) -> Reaction:
    return Reaction(CommentRef(event.repository.full_name, event.comment_id), content)


def _answer(event: CommentCreated, body: str) -> Answer:
    return Answer(f"{event.repository.id}/{event.comment_id}", event.number, body, after=event.comment_id)
