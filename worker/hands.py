"""The only place where steps meet effects: it performs one step of a debate and returns what came of it.

It owns the retries of a turn, the re-ask of a malformed reply, the folders that agents see, and the way of an edit from
a folder to a durable commit. It journals nothing (the runner does) and decides nothing about a debate.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from bot.intents import Push
from bot.publish import Publisher
from bot.redact import whole
from worker import agents, process
from worker.checkout import as_read
from worker.debate.flow import Ask, Edit, Edited, Malformed, Reply, TurnFailed, Used
from worker.debate.task import Coverage, Task
from worker.gateway import OpenTurn
from worker.git import GitRefused, TooLarge
from worker.git.admit import AdmitRules, RoundRefused, admit
from worker.git.brief import brief
from worker.git.commit import MOVED, Identity, commit, pack, unpack
from worker.git.mirror import Mirror
from worker.git.tree import materialise
from worker.outputs.commit_message import CommitFacts, commit_message
from worker.quarters import Lodgings
from worker.quota import OverQuota
from worker.stream import LOG_TAIL
from worker.tools import ToolMissing

ATTEMPTS = {"transport": 3, "timeout": 2}
"""How often a turn is started that fails in this way (decisions.md 1.6; threats.md R16). Any other failure is final."""
WAITS = (5.0, 10.0)
"""Seconds before the second and the third attempt (protocols.md 9.3)."""

_replies = TypeAdapter(Reply)


@dataclass(frozen=True, slots=True)
class Desk:
    """What the hands of one attempt at one run work with."""

    task: Task
    mirror: Mirror
    folder: Path
    """The run's own folder; what is below it is nobody else's."""
    publisher: Publisher
    identity: Identity
    """Whose name the commits carry: the App's bot."""
    still_current: Callable[[], Awaitable[None]]
    """Raises where the run has no object any more: the head moved, the pull request was closed."""
    lodgings: Lodgings | None = None
    """Where the run's agents are put up that need isolation; None where none of its seats does."""
    hear: Callable[[agents.Run], agents.Run] = lambda run: run
    """Wraps the way in which programs are run, by somebody who takes their lines for signs of life."""
    tell: Callable[[str, str], None] = lambda _, __: None
    """Called with a seat and what it does just now."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the worker itself must keep: no round that holds one is taken in."""


@dataclass(slots=True)
class Bill:
    """What a turn used by now, all its attempts and its re-ask together."""

    used: Used = Used()


@dataclass(slots=True)
class Place:
    """Where the run's work stands: grows with every performed or replayed step."""

    tip: str
    """The last durable commit."""
    tree: str
    before: str | None = None
    """The tree before the last editing turn that changed something."""
    turns: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, str | None] = field(default_factory=dict)


class Hands:
    """Performs the steps of one run."""

    def __init__(self, desk: Desk, *, checked_out: bool = False) -> None:
        """`checked_out`: the run's folder holds what `worker.checkout.check_out` has just made."""
        task = desk.task
        self.desk = desk
        self.place = Place(task.head_sha, task.head_tree)
        self._written = task.head_tree if checked_out else None
        """The tree that the folder ``tree`` is known to hold exactly."""
        now = task.head_sha if task.commit else task.head_tree
        self._briefed: tuple[str, str | None] | None = (now, None) if checked_out else None
        """What the files in ``brief`` are about."""
        self._recalled = list[str]()
        """Paths of replayed edits whose objects may not be here."""
        self._bringing = asyncio.Lock()

    def recall(self, step: Ask | Edit, result: Reply | TurnFailed, path: str) -> None:
        """Take a replayed result into account, as if the step had just been performed."""
        self.place.turns[step.seat] += 1
        if isinstance(result, Reply):
            self._settle(step, result)
            if result.edited is not None and result.edited.changed:
                self._recalled.append(path)

    async def perform(self, step: Ask | Edit, path: str) -> Reply:
        """Perform a step and return its reply. Raises `TurnFailed`; anything else is a fault of the worker."""
        await self.desk.still_current()
        await self.bring()
        self.place.turns[step.seat] += 1
        reply = await self._talk(step) if isinstance(step, Ask) else await self._edit(step, path)
        self._settle(step, reply)
        return reply

    async def bring(self) -> None:
        """Bring earlier rounds into this machine's mirror: another machine may have made them, or lost them half way.

        They come from what is stored with the run; what the mirror has, stays. Nobody works on before they are there.
        """
        async with self._bringing:
            while self._recalled:
                known = await self.desk.publisher.stored_push(self._recalled[0])
                if known is not None:
                    await unpack(self.desk.mirror, known.pack)
                del self._recalled[0]

    def _settle(self, step: Ask | Edit, reply: Reply) -> None:
        place = self.place
        place.sessions[step.seat] = reply.session
        if reply.edited is None:
            return
        if reply.edited.tree != place.tree:
            place.before, place.tree = place.tree, reply.edited.tree
        place.tip = reply.edited.commit or place.tip

    # ---- Turns ------------------------------------------------------------------------------------------------------

    async def _talk(self, step: Ask | Edit) -> Reply:
        """One turn with its attempts: each of an editing seat begins in a fresh folder."""
        began, bill, failures = time.monotonic(), Bill(), list[TurnFailed]()
        while True:
            try:
                reply = await self._attempt(step, bill)
            except TurnFailed as failure:
                failures.append(failure)
                if len(failures) >= ATTEMPTS.get(failure.kind, 1):
                    raise _given_up(failures, bill, seconds=time.monotonic() - began) from failure
                await self.desk.sleep(WAITS[min(len(failures), len(WAITS)) - 1])
                continue
            seconds = time.monotonic() - began
            return replace(reply, used=bill.used, seconds=seconds, attempts=len(failures) + 1)

    async def _attempt(self, step: Ask | Edit, bill: Bill) -> Reply:
        """One attempt: the turn, and one re-ask in the same session where its reply is malformed."""
        request = await self._request(step)
        agent, _ = agents.find(self.desk.task.seats[step.seat].agent)
        said = await self._ask(request, step, bill)
        if problem := step.codec.problem(said.text):
            again = replace(request, session=said.session, brief=step.codec.reask(problem))
            said = await self._ask(again, step, bill, behind=again.brief)
        try:
            step.codec.parse(said.text)
        except Malformed as error:
            sentence = f"{agent.name} gave no usable reply, also when asked again: {error}"
            raise TurnFailed("malformed", sentence, attempts=2, log=said.text[-LOG_TAIL:]) from error
        return Reply(said.text, agent.name, session=said.session)

    async def _ask(
        self, request: agents.TurnRequest, step: Ask | Edit, bill: Bill, *, behind: str = ""
    ) -> agents.TurnReply:
        """Ask the agent. Where nobody remembers what was asked, it is told whole, with what stands `behind` it."""
        told = step.cold or step.brief
        cold = replace(request, session=None, brief=f"{told}\n---\n\n{behind}" if behind else told)
        if behind and request.session is None:
            request = cold
        try:
            said = await self._take(request, bill)
        except agents.SessionGone:
            said = await self._take(cold, bill)
        return replace(said, text=whole(said.text))

    async def _take(self, request: agents.TurnRequest, bill: Bill) -> agents.TurnReply:
        """Let the agent take the turn, in its sandbox where it needs one, and put what it used on the bill."""
        desk = self.desk
        agent, _ = agents.find(desk.task.seats[request.seat].agent)
        if agent.box is None:
            said = await agent.take_turn(request, desk.hear(process.run))
            bill.used += said.used
            return said
        if desk.lodgings is None:
            raise TurnFailed("environment", f"{agent.name} starts only in a sandbox")
        door: OpenTurn | None = None
        try:
            async with desk.lodgings.turn(agent.box, request) as stay:
                door = stay.door
                return await agent.take_turn(stay.request, desk.hear(stay.run))
        except TurnFailed as failure:
            if door and (stop := door.stopped):
                raise TurnFailed(stop.ceiling, stop.sentence, log=failure.facts.log) from failure
            if door and door.refused and failure.kind == "refused":
                # To the agent it looks like an answer of its provider.
                sentence = f"the gateway did not let a request of {agent.name} through: {door.refused}"
                raise TurnFailed("refused", sentence, log=failure.facts.log) from failure
            raise
        except OverQuota as error:
            raise TurnFailed("environment", f"{agent.name} {error}, and was ended") from error
        except ToolMissing as missing:
            raise TurnFailed("environment", str(missing), hint=missing.repair) from missing
        finally:
            # The door is closed by now: what it counted is all that there was.
            if door is not None:
                bill.used += door.spent.used

    async def _request(self, step: Ask | Edit) -> agents.TurnRequest:
        """Prepare the folders of a turn and return what the agent is asked."""
        task, place, folder = self.desk.task, self.place, self.desk.folder
        tree = folder / "tree"
        if self._written != place.tree:
            await materialise(self.desk.mirror, place.tree, tree, base=task.merge_base)
            self._written = place.tree
        if isinstance(step, Edit):
            # From here on the folder is the author's, modes and all: the next turn gets a new one, from git.
            self._written = None
        base = folder / "base"
        if not base.exists():
            await materialise(self.desk.mirror, task.merge_base, base, base=task.head_sha)
        notes = folder / "brief"
        # A commit, where there is one: log.txt tells its history.
        now = place.tip if task.commit else place.tree
        if self._briefed != (now, place.before):
            await brief(self.desk.mirror, task.merge_base, now, notes, previous=place.before)
            self._briefed = (now, place.before)
        sessions = folder / "sessions" / step.seat
        sessions.mkdir(parents=True, exist_ok=True)
        session = place.sessions.get(step.seat)
        seat = task.seats[step.seat]
        return agents.TurnRequest(
            run=task.run,
            seat=step.seat,
            round=step.round,
            turn=place.turns[step.seat],
            brief=step.brief if session or step.cold is None else step.cold,
            schema=step.codec.schema(),
            editing=isinstance(step, Edit),
            tree=tree,
            base=base,
            notes=notes,
            session=session,
            session_dir=sessions,
            seconds=task.limits.turn_seconds,
            argument=agents.find(seat.agent)[1],
            model=seat.model,
            effort=seat.effort,
            tell=partial(self.desk.tell, step.seat),
        )

    # ---- Edits ------------------------------------------------------------------------------------------------------

    async def _edit(self, step: Edit, path: str) -> Reply:
        """One editing turn, to its durable commit.

        An attempt that finds the turn's intent finishes it and does not ask the author again (house.md 4).
        """
        publisher = self.desk.publisher
        known = await publisher.stored_push(path)
        if known is not None:
            await unpack(self.desk.mirror, known.pack)
            return await self._deliver(known)
        reply = await self._talk(step)
        try:
            intent = await self._admit(step, reply, path)
        except (RoundRefused, TooLarge, GitRefused) as refusal:
            return replace(reply, edited=Edited((), self.place.tree, gap=str(refusal)))
        return await self._deliver(intent) if isinstance(intent, Push) else intent

    async def _admit(self, step: Edit, reply: Reply, path: str) -> Push | Reply:
        """Take in what the author changed: the intent of its push, or the reply itself where nothing changed."""
        desk, place, task = self.desk, self.place, self.desk.task
        rules = AdmitRules(protect=task.protect, base=task.merge_base, secrets=desk.secrets)
        admitted = await admit(desk.mirror, place.tree, desk.folder / "tree", rules)
        edited = Edited(admitted.changed, admitted.tree, refused=admitted.refused)
        if admitted.tree == place.tree:
            return replace(reply, edited=edited)
        section = step.codec.parse(reply.text)
        facts = CommitFacts(run=task.run, round=step.round, plan=step.plan, section=section, checks=edited.checks)
        parent = place.tip if step.plan else task.head_sha
        sha = await commit(
            desk.mirror,
            admitted.tree,
            parent,
            message=commit_message(facts),
            identity=desk.identity,
            when=task.created_at,
        )
        covered = await self._cover(sha if task.commit else admitted.tree)
        reply = replace(reply, edited=replace(edited, commit=sha if step.plan else None, coverage=covered))
        return Push(
            run=task.run,
            path=path,
            ref=f"refs/heads/{task.branch}" if step.plan and task.push == "proposal" else None,
            old=parent,
            new=sha,
            pack=await pack(desk.mirror, sha, task.head_sha if not step.plan else parent),
            reply=_replies.dump_json(reply),
        )

    async def _cover(self, now: str) -> Coverage:
        """Write the next turn's notes, and return what of the change they show: the author may have added to it."""
        desk, place, task = self.desk, self.place, self.desk.task
        files = await brief(desk.mirror, task.merge_base, now, desk.folder / "brief", previous=place.tree)
        self._briefed = (now, place.tree)
        left_out = {each.path: each.absent for each in task.files if each.absent}
        return Coverage.of(await as_read(files, desk.folder / "brief", reads=task.reads, left_out=left_out))

    async def _deliver(self, intent: Push) -> Reply:
        """Make a stored intent come true and return the reply that it holds."""
        reply = _replies.validate_json(intent.reply)
        published = await self.desk.publisher.publish(intent)
        if not published.refused:
            return reply
        edited = reply.edited or Edited((), self.place.tree)
        gap = f"the push was refused: {published.refused}"
        moved = published.refused == MOVED
        kept = replace(edited, tree=self.place.tree, commit=None, coverage=None, gap=gap, moved=moved)
        return replace(reply, edited=kept)


def _given_up(failures: list[TurnFailed], bill: Bill, *, seconds: float) -> TurnFailed:
    """Return the failure that stands for all attempts of a turn."""
    last = failures[-1].facts
    return TurnFailed(
        last.kind,
        last.sentence,
        hint=last.hint,
        attempts=sum(failure.facts.attempts for failure in failures),
        seconds=seconds,
        used=bill.used,
        log="\n".join(f"[attempt {n}] {failure.facts.log}" for n, failure in enumerate(failures, 1))[-LOG_TAIL:],
    )
