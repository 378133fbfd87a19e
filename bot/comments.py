"""A new comment: gather the facts, decide, act.

Owns the order of things: what is asked of GitHub and when, and that everything may happen twice. What is decided is
policy.py's, every sentence replies.py's. Most comments are none of our business, and cost no call.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import assert_never

from bot import commands, policy, replies, request
from bot.begin import begin, resume, running
from bot.commands import Command, Reading, Refusal
from bot.config import Config
from bot.context import Bot, Scene, approver_of, permission, pull
from bot.events import CommentCreated
from bot.github import GitHubError, NotInstalled, Unavailable, verbs
from bot.options import Approve, Review
from bot.policy import Facts, Ignore, Start, Tell
from bot.repository import config_of, served
from bot.store.runs import Full, Person, Repeat, by_comment
from bot.telemetry import log

FLOOD_SECONDS = 60
"""For so long the same reply is given once under an issue or pull request: the same command many times is few replies,
and holds up nobody else (threats.md T33)."""


async def handle_comment(bot: Bot, event: CommentCreated, *, delivery: str) -> str:
    """Handle a new comment, and return what became of it, in a word or two for the log.

    Raises `Unavailable` while GitHub is away, `NotInstalled`, `GitHubError` and `StoreAway`.
    """
    scene = _scene(bot, event, delivery=delivery)
    ignored = await _ignored(scene, event)
    if ignored:
        return f"ignored: {ignored.reason}"
    reading = await _read(bot, event)
    if reading is None:
        return "ignored: no command"
    await bot.store.installations.heard(event.installation_id, event.repository.id, full_name=scene.repo)
    if await bot.store.runs.seen(f"comment:{event.repository.id}:{event.comment_id}", None, by=delivery):
        return "repeated"
    return await resume(scene, by_comment(event.comment_id)) or await _handle(scene, event, reading)


async def _handle(scene: Scene, event: CommentCreated, reading: Command | Refusal) -> str:
    """Gather the facts about a command, decide and act."""
    try:
        facts = await _facts(scene, event, reading)
    except NotInstalled as error:
        # Gone, or not all of app.yml is granted: GitHub's status is the same. Only in the second case can it be told.
        asks = await permission(scene.replying(), event.author.login)
        facts = Facts(served=True, permission=asks, refused=str(error))
    decision = policy.decide(event, reading, facts, max_rounds=scene.bot.settings.max_rounds)
    match decision:
        case Start():
            line = reading.line if isinstance(reading, Command) else ""
            return await _start(scene, event, decision, line=line)
        case Tell():
            return await _tell(scene, decision)
        case Ignore():
            return f"ignored: {decision.reason}"
        case _:
            assert_never(decision)


async def give_up(bot: Bot, event: CommentCreated, *, delivery: str) -> None:
    """Tell who commanded that GitHub could not be asked: what cannot be asked counts as no (threats.md, input 71).

    Nothing is told where the command got so far that a run was claimed. Raises as `handle_comment` does.
    """
    scene = _scene(bot, event, delivery=delivery)
    if await resume(scene, by_comment(event.comment_id)) is not None:
        return
    if await _ignored(scene, event) is None and await _read(bot, event) is not None:
        await _tell(scene, Tell(replies.github_away(), once=f"away:{scene.repository.id}:{scene.number}"))


def _scene(bot: Bot, event: CommentCreated, *, delivery: str) -> Scene:
    github = bot.app.installation(event.installation_id, event.repository.id)
    return Scene(bot, github, event.installation_id, event.repository, event.number, event.comment_id, delivery)


async def _ignored(scene: Scene, event: CommentCreated) -> Ignore | None:
    """Return why a comment is not heard; None where it is."""
    bots = frozenset(scene.bot.settings.bots)
    # Only where a listed bot speaks does it matter which one we are.
    own = (await scene.bot.app.identity(scene.github)).bot_id if event.author.id in bots else None
    return policy.hears(event, bots, own)


async def _read(bot: Bot, event: CommentCreated) -> Reading:
    """Return what a comment asks for. Aside: a hostile one may take a second, and others are answered meanwhile."""
    return await asyncio.to_thread(commands.parse, event.text, max_rounds=bot.settings.max_rounds)


# ---- Facts ----------------------------------------------------------------------------------------------------------


async def _facts(scene: Scene, event: CommentCreated, reading: Reading) -> Facts:
    """Read what the decision depends on, and no more than that."""
    if not await served(scene, event.owner_id):
        return Facts(served=False)
    options = reading.options if isinstance(reading, Command) else None
    asks = None if event.author.type == "Bot" else await permission(scene, event.author.login)
    number = policy.target(event, reading) if isinstance(reading, Command) else None
    if not isinstance(options, Review | Approve) or number is None or not policy.may(event, asks):
        return Facts(served=True, permission=asks)
    try:
        return await _about(scene, asks, options, number=number)
    except (Unavailable, NotInstalled):
        raise
    except GitHubError as error:
        log(__name__).warning("not shown", repository=scene.repo, number=number, error=str(error))
        return Facts(served=True, permission=asks, refused=str(error))


async def _about(scene: Scene, asks: verbs.Permission | None, options: Review | Approve, *, number: int) -> Facts:
    """Read what a debate about a pull request depends on."""
    found = await pull(scene, number)
    if found is None:
        return Facts(served=True, permission=asks)
    author = await permission(scene, found.user.login) if found.user else None
    base = options.base if isinstance(options, Review) else None
    return Facts(
        served=True,
        permission=asks,
        pull=found,
        author_permission=author,
        approver=await approver_of(scene, found),
        config=await config_of(scene, found.base.ref) or Config(),
        base_exists=not base or await verbs.branch_sha(scene.github, scene.repo, base) is not None,
    )


# ---- Acting ---------------------------------------------------------------------------------------------------------


async def _tell(scene: Scene, tell: Tell) -> str:
    """Give a short reply, and its reaction."""
    same = hashlib.sha256(tell.reply.encode()).hexdigest()[:32]
    words = f"reply:{scene.repository.id}:{scene.number}:{same}"
    once, seconds = (tell.once, tell.seconds) if tell.once else (words, FLOOD_SECONDS)
    if await scene.bot.store.runs.seen(f"once:{once}", seconds, by=scene.delivery):
        return "told before"
    scene = scene.replying()
    if not await scene.still_asked():
        return "ignored: the comment was deleted"
    publisher = await scene.publisher()
    await scene.react(publisher, tell.reaction)
    await scene.reply(publisher, tell.reply)
    return "told" if tell.reaction == "rocket" else "refused"


async def _start(scene: Scene, event: CommentCreated, start: Start, *, line: str) -> str:
    """Claim the pull request for a new run. A second time it finds the same run."""
    if not await scene.still_asked():
        return "ignored: the comment was deleted"
    bot = scene.bot
    await scene.publisher()  # what it asks of GitHub may fail: not after the claim, which would hold and run nothing
    if start.approves:
        by = Person(id=start.authority.id, login=start.authority.login)
        number = start.pull.number
        await bot.store.approvals.approve(scene.repository.id, number, head_sha=start.pull.head.sha, by=by)
    run = request.by_command(event, start, bot.settings, run_id=bot.new_id(), now=bot.now())
    claim, word = await begin(scene, run, text_key=request.text_key(event, line))
    match claim:
        case Full():
            return await _tell(scene, Tell(policy.full()))
        case Repeat(run):
            return await _tell(scene, Tell(policy.repeat(await running(scene, run))))
        case _:
            return word
