"""A pull request that changed: its runs are told, and one that was opened may begin a debate.

For the second the facts are gathered, the rules decide, and why not is shown. Owns what is asked of GitHub and when.
A server without automatic debates asks for one file and no more.
"""

from __future__ import annotations

from typing import assert_never

from bot import request, rules
from bot.begin import begin, resume
from bot.context import Bot, Scene, approver_of, attempt, permission, pull
from bot.events import PullRequestChanged
from bot.github import verbs
from bot.intents import CheckRun
from bot.policy import Ignore, Start
from bot.repository import config_of, served
from bot.rules import Facts, Show
from bot.statuses import CHECK_NAME
from bot.store.runs import Full, Repeat

MOVES = frozenset({"closed", "edited", "synchronize"})
"""Actions after which a debate that is under way may have lost its object: another base is an edit."""
MEANING_SECONDS = 30 * 86400
"""For so long an event about a pull request is known again under another delivery id (decisions.md 1.2)."""


async def handle_pull_request(bot: Bot, event: PullRequestChanged, *, delivery: str) -> str:
    """Handle a change of a pull request, and return what became of it, in a word or two for the log.

    Raises `Unavailable` while GitHub is away, `NotInstalled`, `GitHubError` and `StoreAway`.
    """
    meaning = (event.repository.id, event.number, event.action, event.head_sha, event.updated_at)
    cause = f"pull:{':'.join(map(str, meaning))}"
    if await bot.store.runs.seen(cause, MEANING_SECONDS, by=delivery):
        return "repeated"
    await bot.store.installations.heard(
        event.installation_id, event.repository.id, full_name=event.repository.full_name
    )
    if event.action == "closed":
        await bot.store.upkeep.close(event.repository.id, event.number)
    if event.action in MOVES:
        return f"told: {await bot.store.runs.tell_news(event.repository.id, event.number)} runs"
    if event.action not in rules.ACTIONS:
        return "recorded"
    github = bot.app.installation(event.installation_id, event.repository.id)
    scene = Scene(bot, github, event.installation_id, event.repository, event.number, None, delivery)
    resumed = await resume(scene, cause) or await resume(scene, _again(cause))
    return resumed or await _handle(scene, event, cause=cause)


async def _handle(scene: Scene, event: PullRequestChanged, *, cause: str) -> str:
    """Gather the facts about a pull request, decide and act."""
    if not await served(scene, event.owner_id):
        return "ignored: not served"
    facts = await _facts(scene, event.action)
    decision = rules.decide(event.action, facts)
    match decision:
        case Start():
            return await _start(scene, decision, cause=cause)
        case Show():
            return await _show(scene, decision, facts)
        case Ignore():
            return f"ignored: {decision.reason}"
        case _:
            assert_never(decision)


async def _facts(scene: Scene, action: str) -> Facts:
    """Read what the decision depends on."""
    found = await pull(scene, scene.number)
    if found is None or rules.closed_to_us(found):
        return Facts(found)
    config = await config_of(scene, found.base.ref)
    if rules.off(action, config):
        return Facts(found, config)
    author = await permission(scene, found.user.login) if found.user else None
    approver = await approver_of(scene, found)
    named = await verbs.check_runs(scene.github, scene.repo, found.head.sha, name=CHECK_NAME)
    ours = (await scene.bot.app.identity(scene.github)).id
    return Facts(
        found,
        config,
        author,
        approver,
        tuple(each for each in named if each.app is not None and each.app.id == ours),
    )


async def _start(scene: Scene, start: Start, *, cause: str) -> str:
    """Begin the debate. Two events about one commit, handled at the same moment, are one debate."""
    bot = scene.bot
    holders = await bot.store.runs.holders(scene.repository.id, scene.number)
    for held in (holders.running, holders.waiting):
        if held is not None and held.head_sha == start.pull.head.sha:
            return f"ignored: {held.id} debates it"
    await scene.publisher()  # what it asks of GitHub may fail: not after the claim, which would hold and run nothing
    run = request.by_itself(
        start, bot.settings, stamp=request.Stamp(bot.new_id(), bot.now(), scene.installation_id, scene.repository)
    )
    claim, word = await begin(scene, run, text_key="auto", cause=cause)
    if isinstance(claim, Repeat):
        if (await bot.store.runs.state(claim.run.id)).status is None:
            return f"ignored: {claim.run.id} debates it"
        # That one has ended without a result, else the rules had said so.
        claim, word = await begin(scene, run, text_key=cause, cause=_again(cause))
    return "ignored: two debates are here already" if isinstance(claim, Full) else word


def _again(cause: str) -> str:
    """Return the cause of the second claim for an event: the first one met a debate that had ended."""
    return f"{cause}:again"


async def _show(scene: Scene, show: Show, facts: Facts) -> str:
    """Show why no debate was started, on the head that was looked at."""
    if facts.pull is not None:
        head = facts.pull.head.sha
        intent = CheckRun(
            run=f"{rules.UNSTARTED}-{scene.repository.id}-{scene.number}-{head[:10]}-{show.rule}",
            name=CHECK_NAME,
            head_sha=head,
            status="completed",
            conclusion=show.conclusion,
            title=show.title,
            summary=show.summary,
        )
        await attempt(await scene.publisher(), intent)
    return f"shown: {show.status}"
