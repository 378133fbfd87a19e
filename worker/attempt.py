"""One worker's try at one run: seats, checkout, debate, report, and making way for the run that waits.

It owns the order of these and what ends a run outside its debate. It knows no protocol's rules and renders nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bot import replies
from bot.github import AppClient, AppIdentity, GitHub, NotInstalled, Unavailable, verbs
from bot.intents import Answer, CommentRef, Push, Reaction
from bot.publish import Place, Publisher
from bot.settings import Settings
from bot.statuses import Status
from bot.store import Branch, LostFence, Store, StoreAway
from bot.store.runs import Run, new_run_id
from bot.telemetry import log
from worker import agents
from worker.announce import Announcer, refused
from worker.checkout import first_task
from worker.debate import review
from worker.debate.findings import Outcome
from worker.debate.task import Task
from worker.ended import BY_CANCEL, TRANSFERRED, Ended
from worker.folder import MAKE_ROOM, clear, lack_of_room, taken
from worker.git import GitFailed, GitRefused
from worker.git.commit import Identity
from worker.git.mirror import Mirror, Mirrors
from worker.hands import Desk, Hands
from worker.origin import Origin
from worker.outputs.check import hidden
from worker.protocols import PROTOCOLS
from worker.quarters import Quarters
from worker.runner import Cancelled, FlowChanged, Tapped, drive, fingerprint, rehearse
from worker.seating import seated
from worker.watch import watched
from worker.world import World, locate

DEATHS = 3
"""Attempts that may die at the same step before the run ends (decisions.md 1.6)."""
FOLDERS = "runs"
"""Where the folders of runs are, below the state folder."""
BRANCH_SECONDS = 30 * 86_400
"""For so long a branch of ours is kept after it was pushed to (interface.md 7)."""
SHOWN_SECONDS = 0.05
"""Pause between two looks whether the bot has shown the queued run."""
HOPELESS_SECONDS = 86_400
"""A run that GitHub has kept from its end for so long is given up: no run holds its claim for ever."""
BLAMELESS_SECONDS = 2.0
"""An attempt that is ended waits no longer than this for the store."""


@dataclass(frozen=True, slots=True)
class Office:
    """What all jobs of a worker share."""

    settings: Settings
    store: Store
    app: AppClient
    mirrors: Mirrors
    quarters: Quarters
    """Where agents are put up that need isolation."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    tap: Callable[[str], Awaitable[None]] | None = None
    """Called after each journaled step, with its path: for tests that end a worker there."""


class Attempt:
    """One worker's try at one run."""

    def __init__(self, office: Office, run: Run, fence: int) -> None:
        self.office = office
        self.run = run
        self.fence = fence
        self.github: GitHub = office.app.installation(run.installation_id, run.repository.id)
        self.world = World(run, self.github, only_merged=self._only_merged)
        self._news = 0
        """How often the run was told of news before this attempt looked."""
        self.faulty: int | None = None
        """Since when attempts at this run end by faults."""

    async def make(self) -> None:
        """Debate, report, and make way for the run that waits."""
        runs = self.office.store.runs
        state = await runs.state(self.run.id)
        self.faulty, self._news = state.faulty, state.news
        now = int(time.time())
        # Who comes after too long gives no sign of life: where GitHub is away just now, the next one must know it too.
        late = state.touched is not None and now - state.touched > 2 * self.run.ceilings.run_seconds
        touched = state.touched if late else now
        await runs.record(self.run.id, self.fence, deaths=state.deaths + 1, touched=touched)
        found = await locate(self.run, self.office.app)
        self.run = run = found.run
        self.github = found.github
        self.world = World(run, self.github, only_merged=self._only_merged)
        identity = await self.office.app.identity(self.github)
        mirror = await self.office.mirrors.of(run.repository.id)
        publisher = self._publisher(identity, mirror)
        task = first_task(run, self.office.settings.github_server_url)
        teller = Announcer(publisher, run, self.office.store, task=task, may_show=self.world.may_show)
        teller.merged = lambda: self.world.merged
        end: Outcome | Ended
        await self._shown()
        try:
            with refused("what was left to tell", run.id):
                await publisher.resume(None if await self.world.may_show() else hidden)
            await self._recall(teller)
            _check_deaths(state.deaths, run)
            _check_gone(late=late, moved=found.moved)
            async with watched(partial(self._beat, teller), self._look, pulse=teller.pulse):
                end = await self._debate(teller, mirror, identity)
        except Ended as ended:
            end = ended
        except Cancelled as cancelled:
            if cancelled.reason not in BY_CANCEL:
                raise
            end = Ended(BY_CANCEL[cancelled.reason], NOT_HERE if cancelled.reason == "withdrawn" else "")
        except GitRefused as error:
            end = Ended(Status.GIT_REFUSED, str(error))
        except FlowChanged:
            end = Ended(Status.SUPERSEDED, CHANGED)
        except NotInstalled:
            end = Ended(Status.AUTHORISATION_WITHDRAWN, NOT_HERE)
        await self._tell(teller, end, mirror, deaths=state.deaths)
        await self._begin_anew(end)
        await self.leave(end.status)

    async def _beat(self, teller: Announcer) -> None:
        """Give a sign of life, to the store and on GitHub."""
        await self.office.store.runs.record(self.run.id, self.fence, touched=int(time.time()))
        await teller.beat()

    async def _shown(self) -> None:
        """Wait until the bot is not creating the queued check run: two who look at once would both create one."""
        while not await self.office.store.runs.shown(self.run.id):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(SHOWN_SECONDS)

    async def _tell(self, teller: Announcer, end: Outcome | Ended, mirror: Mirror, *, deaths: int) -> None:
        """Publish the end. What cannot be told in several attempts is given up: no run holds its claim for ever."""
        try:
            await teller.conclude(end, mirror)
            with refused("the answer", self.run.id):
                await self._answer(teller.publisher, end)
        except (LostFence, StoreAway, Unavailable):
            raise
        except Exception:
            if deaths < DEATHS:
                raise
            log(__name__).exception("the end could not be told", run=self.run.id)
            with refused("the failure", self.run.id):
                await teller.give_up()

    async def _recall(self, teller: Announcer) -> None:
        """Learn from the journal of earlier attempts how the debate stands, before anything is told or ends it."""
        stored = await self.office.store.runs.task(self.run.id)
        if stored is not None:
            teller.task = Task.model_validate_json(stored)
            lines = await self.office.store.journal(self.run.id, self.fence).all()
            rehearse(teller.follow(PROTOCOLS[self.run.kind].flow(teller.task)), lines)

    async def _look(self) -> None:
        """Raise where the run shall end: somebody asked for it, or what GitHub told of has ended it."""
        state = await self.office.store.runs.state(self.run.id)
        if state.cancel is not None:
            raise Cancelled(state.cancel)
        if state.news != self._news:
            await self.world.still_current()
            self._news = state.news

    async def _only_merged(self, head: str) -> bool:
        """Return whether a new head is the run's own with plain merges of the base on it.

        A run that only waited until now has no reason to debate the older of the two: it begins anew on the new one.
        """
        if await self._only_waited():
            return False
        mirror = await self.office.mirrors.of(self.run.repository.id)
        return await self._origin(mirror).only_merged(head)

    def _origin(self, mirror: Mirror) -> Origin:
        office = self.office
        return Origin(self.run, mirror, app=office.app, github=self.github, settings=office.settings)

    async def _only_waited(self) -> bool:
        """Return whether the run waited for another one and has not begun."""
        runs, run = self.office.store.runs, self.run
        return (await runs.state(run.id)).waited and await runs.task(run.id) is None

    async def hopeless(self) -> bool:
        """Return whether the run has waited for GitHub for too long, and note since when it does."""
        now = int(time.time())
        if self.faulty is None:
            self.faulty = now
            await self.office.store.runs.record(self.run.id, self.fence, faulty=now)
        return now - self.faulty > HOPELESS_SECONDS

    async def blameless(self) -> None:
        """Take back that this attempt may have died of its step: it ended for a reason outside (decisions.md 1.6)."""
        with contextlib.suppress(StoreAway, LostFence, TimeoutError):
            async with asyncio.timeout(BLAMELESS_SECONDS):
                deaths = (await self.office.store.runs.state(self.run.id)).deaths
                await self.office.store.runs.record(self.run.id, self.fence, deaths=max(0, deaths - 1))

    async def _debate(self, teller: Announcer, mirror: Mirror, identity: AppIdentity) -> Outcome:
        """Fill the seats, look at the pull request, and debate in a folder that no other process works in."""
        settings = self.office.settings
        async with seated(self.office.quarters, self.run, day_usd=settings.day_budget_usd) as lodgings:
            await self.world.still_current()
            if lack := lack_of_room(settings.state_dir):
                raise Ended(Status.AGENT_ERROR, f"this server cannot work: {lack}", hint=f"on this server, {MAKE_ROOM}")
            with taken(settings.state_dir / FOLDERS, self.run) as folder:
                await self._beat(teller)
                task, fresh = await self._task(mirror, folder)
                teller.task = task
                desk = Desk(
                    task=task,
                    mirror=mirror,
                    folder=folder,
                    publisher=teller.publisher,
                    identity=Identity(identity.bot_login, _address(identity, settings)),
                    still_current=self.world.still_current,
                    lodgings=lodgings,
                    hear=teller.listening,
                    tell=teller.does,
                    sleep=self.office.sleep,
                    secrets=settings.secrets,
                )
                hands = Hands(desk, checked_out=fresh)
                try:
                    return await self._drive(teller, hands)
                finally:
                    await hands.bring()  # the report shows them, also where no step was left to perform

    async def _drive(self, teller: Announcer, hands: Hands) -> Outcome:
        run, store = self.run, self.office.store
        return await drive(
            lambda: teller.follow(PROTOCOLS[run.kind].flow(teller.task)),
            journal=Tapped(store.journal(run.id, self.fence), self._journaled),
            hands=hands,
            on_note=lambda _, standing: teller.standing(standing),
            cancelled=lambda: store.runs.cancelled(run.id),
        )

    async def _task(self, mirror: Mirror, folder: Path) -> tuple[Task, bool]:
        """Return the run's frozen Task: the stored one, or a new one from a checkout; and whether it is new."""
        run, store = self.run, self.office.store
        mark = fingerprint(PROTOCOLS[run.kind].parts)
        stored = await store.runs.task(run.id)
        if stored is None:
            reviewer, _ = agents.find(run.seats[review.REVIEWER].agent)
            task = await self._origin(mirror).check_out(folder, reviewer=reviewer)
            first = await store.ledger.next_finding(run.repository.id, run.number)
            task = task.model_copy(update={"next_finding": first})
            await store.runs.record(run.id, self.fence, fingerprint=mark)
            raw = await store.runs.set_task(run.id, self.fence, task.model_dump_json())
            return Task.model_validate_json(raw), True
        if (await store.runs.state(run.id)).fingerprint != mark:
            raise FlowChanged("/0")
        await self._origin(mirror).fetch()
        return Task.model_validate_json(stored), False

    # ---- Pushing ----------------------------------------------------------------------------------------------------

    def _publisher(self, identity: AppIdentity, mirror: Mirror) -> Publisher:
        place = Place(self.run.repository.full_name, self.run.number, identity.bot_id)

        async def deliver(intent: Push) -> str:
            await self.world.still_current()
            await self._keep_branch(intent)
            return await self._origin(mirror).push(intent)

        return Publisher(self.office.store.outbox, self.github, place, run=self.run.id, fence=self.fence, push=deliver)

    async def _keep_branch(self, push: Push) -> None:
        """Note that a branch is ours, where it may stand from now on, and when it is of no use any more."""
        run, upkeep = self.run, self.office.store.upkeep
        known = await upkeep.branch(run.id)
        await upkeep.keep_branch(
            Branch(
                run=run.id,
                installation=run.installation_id,
                repository=run.repository.id,
                number=run.number,
                name=(push.ref or "").removeprefix("refs/heads/"),
                shas=tuple(dict.fromkeys((*(known.shas if known else ()), push.new))),
                until=time.time() + BRANCH_SECONDS,
            )
        )

    # ---- Around the debate ------------------------------------------------------------------------------------------

    async def _journaled(self, path: str) -> None:
        if self.faulty is not None:
            self.faulty = None
            await self.office.store.runs.record(self.run.id, self.fence, faulty=None)
        if self.office.tap is not None:
            await self.office.tap(path)

    async def _answer(self, publisher: Publisher, end: Outcome | Ended) -> None:
        """React to the command: 🚀, or 😕 and a reply where nothing was there to start on."""
        run = self.run
        if run.source is None:
            return
        command = CommentRef(run.repository.full_name, run.source.comment_id)
        if end.status is not Status.NOTHING_TO_REVIEW:
            await publisher.publish(Reaction(command, "rocket"))
            return
        body = replies.nothing_to_review(run.head_ref, run.base_ref, reason=end.reason, hint=end.hint)
        await publisher.publish(Answer(f"{run.repository.id}/{command.id}/nothing", run.number, body, after=command.id))
        await publisher.publish(Reaction(command, "confused"))

    async def _begin_anew(self, end: Outcome | Ended) -> None:
        """Let a new run on the present head wait behind this one, where it takes its place.

        So it is for a run that waited while the head moved (decisions.md 1.3), and for one whose debate's rules changed
        (house.md 4). Where another run waits already, that one comes next.
        """
        runs, run = self.office.store.runs, self.run
        if end.status is not Status.SUPERSEDED or not (end.reason == CHANGED or await self._only_waited()):
            return
        with refused("the pull request", run.id):
            pull = await verbs.pull(self.github, run.repository.full_name, run.number)
            if pull.merged or pull.state == "closed" or (run.approved and pull.head.sha != run.head_sha):
                return
            fresh = {
                "id": new_run_id(),
                "created_at": datetime.now(UTC).replace(microsecond=0),
                "source": None,
                "head_sha": pull.head.sha,
                "own_base": pull.base.ref,
                "base_ref": pull.base.ref if run.base_ref == run.own_base else run.base_ref,
            }
            await runs.claim(run.model_copy(update=fresh), f"instead of {run.id}")

    async def give_up(self, status: Status, reason: str) -> None:
        """End the run without GitHub: how it ended is stored, and told when GitHub takes it (`worker.reconcile`)."""
        office, run = self.office, self.run
        place = Place(run.repository.full_name, run.number, bot_id=0)  # nothing is looked for now
        publisher = Publisher(office.store.outbox, self.github, place, run=run.id, fence=self.fence)
        task = first_task(run, office.settings.github_server_url)
        teller = Announcer(publisher, run, office.store, task=task, may_show=self.world.may_show)
        await self._recall(teller)
        await teller.intend(Ended(status, reason, hint=_look(run.id) if reason else ""))
        await self.leave(status)

    async def leave(self, status: Status) -> None:
        """Record the end, start the run that waits, and clear what only this run needed. Twice is once."""
        waiting = await self.office.store.runs.finish(self.run.id, self.fence, status.value)
        if waiting is not None:
            await self.office.store.queue.enqueue_run(waiting)
        if status is Status.CLOSED:
            await self.office.store.upkeep.close(self.run.repository.id, self.run.number)
        try:
            # First: on a full disk git has no room for its part.
            await asyncio.to_thread(clear, self.office.settings.state_dir / FOLDERS, self.run.id)
            mirror = await self.office.mirrors.of(self.run.repository.id)
            await mirror.drop_refs(self.run.id)
            await mirror.tidy()
        except (OSError, GitFailed) as error:
            log(__name__).warning("what a run needed could not be cleared", run=self.run.id, error=str(error))
        log(__name__).info("run ended", run=self.run.id, status=status.value)


CHANGED = "the rules of this debate changed with an update of this server, and a new debate takes its place"
NOT_HERE = "this App may not work here any more"


def _look(run_id: str) -> str:
    """Return where to look for what failed here, and what to do then."""
    return f"its log names the cause, under run `{run_id}`; write the command again when it is mended"


def _check_deaths(deaths: int, run: Run) -> None:
    if deaths >= DEATHS:
        raise Ended(Status.AGENT_ERROR, f"this server failed {DEATHS} times at the same step", hint=_look(run.id))


def _check_gone(*, late: bool, moved: bool) -> None:
    """Raise `Ended` where the repository went to another installation, or the last worker long ago (threats.md R25)."""
    if moved:
        raise Ended(Status.AUTHORISATION_WITHDRAWN, TRANSFERRED)
    if late:
        raise Ended(Status.TIMED_OUT)


def _address(identity: AppIdentity, settings: Settings) -> str:
    """Return the bot's address: with it GitHub shows the commits as the App's (github.md A7)."""
    host = settings.github_server_url.partition("://")[2].partition(":")[0].partition("/")[0]
    return f"{identity.bot_id}+{identity.bot_login}@users.noreply.{host}"
