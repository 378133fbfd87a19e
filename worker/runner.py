"""Drives a debate: takes its steps, has them performed, journals what comes back, and replays what a journal holds.

It owns the order of these things and nothing else: steps are performed by the hands, lines are kept by the journal, and
what a debate does with a reply is the flow's own business. It knows no store, no agent and no GitHub.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar, assert_never

from worker.debate.flow import (
    Ask,
    Branch,
    Edit,
    Flow,
    Fork,
    Note,
    Reply,
    TurnFailed,
    dump_entry,
    entry_of,
    load_entry,
    result_of,
    step_hash,
)

T = TypeVar("T")

log = logging.getLogger(__name__)


class Journal(Protocol):
    """Where a run's lines are kept; bot/store/journal.py in earnest."""

    async def all(self) -> dict[str, bytes]:
        """Return every line by its path."""

    async def put(self, path: str, raw: bytes) -> None:
        """Write a line, durably, and only for the newest attempt."""


class Hands(Protocol):
    """What performs steps; worker/hands.py in earnest."""

    async def perform(self, step: Ask | Edit, path: str) -> Reply:
        """Perform a step and return its reply, once its effect is durable. Raises `TurnFailed`.

        Any other exception is a fault of the worker: it is not journaled and ends the attempt.
        """

    def recall(self, step: Ask | Edit, result: Reply | TurnFailed, path: str) -> None:
        """Take note of a step that was performed in an earlier attempt."""


OnNote: TypeAlias = Callable[[int, Any], Awaitable[None]]
"""Called with a note's number, which rises within an attempt, and how the debate stands."""
IsCancelled: TypeAlias = Callable[[], Awaitable[str | None]]
"""Returns the reason for which the run shall end, or None."""


class FlowChanged(Exception):  # noqa: N818 - it says what is the case
    """The journal was written by another version of the flow. The run ends as superseded (house.md 4)."""

    def __init__(self, path: str) -> None:
        super().__init__(f"The journal's line {path} answers another step than the flow takes now")
        self.path = path


class Cancelled(Exception):  # noqa: N818 - the design's own word
    """The run was asked to end; `reason` is one of decisions.md 1.7's."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The run was asked to end: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Tapped:
    """A journal that calls `tap` with the path after each line that it wrote: where tests kill a worker."""

    journal: Journal
    tap: Callable[[str], Awaitable[None]]

    async def all(self) -> dict[str, bytes]:
        """Return every line by its path."""
        return await self.journal.all()

    async def put(self, path: str, raw: bytes) -> None:
        """Write a line, then call the tap."""
        await self.journal.put(path, raw)
        await self.tap(path)


async def drive(
    flow: Callable[[], Flow[T]],
    *,
    journal: Journal,
    hands: Hands,
    on_note: OnNote | None = None,
    cancelled: IsCancelled | None = None,
) -> T:
    """Drive a fresh flow to its end and return its outcome, continuing where the journal ends.

    Steps are known by their path: ``/3`` is the fourth of the flow, ``/5.1/0`` the first of the second branch of the
    fork at 5; notes have none. A journaled step is not performed again. Notes of the past are silent: in an attempt
    that finds a journal, those before the first step that it performs itself. `on_note` may fail without consequence.

    Raises `TurnFailed` where the flow does not catch one, `FlowChanged` where the journal does not fit the flow,
    `Cancelled` before the next step of a run that was asked to end, and whatever the hands and the journal raise.
    """
    lines = await journal.all()
    run = _Drive(journal, hands, on_note, cancelled, lines)
    outcome = await run.line(flow, "", _Line(past=bool(lines)))
    unasked = lines.keys() - run.replayed
    if unasked:
        raise FlowChanged(min(unasked))
    return outcome


def rehearse(flow: Flow[Any], lines: Mapping[str, bytes]) -> None:
    """Let a flow go through what its journal holds, up to the first step that it does not answer, or a fork.

    Nothing is performed and nothing fails: it serves those who follow the flow, to learn where it stands.
    """
    answer: Any = None
    count = 0
    try:
        while True:
            step = flow.throw(answer) if isinstance(answer, TurnFailed) else flow.send(answer)
            if isinstance(step, Note):
                answer = None
                continue
            raw = lines.get(f"/{count}")
            count += 1
            if raw is None or isinstance(step, Fork) or (entry := load_entry(raw)).step != step_hash(step):
                return
            answer = result_of(entry)
    except (StopIteration, TurnFailed):
        return
    finally:
        flow.close()


def fingerprint(parts: Iterable[bytes]) -> str:
    """Return the hash of what a flow is made of: its modules' sources and prompt files, in a fixed order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


@dataclass(slots=True)
class _Line:
    """One flow in this attempt: whether all that it did so far was done in an earlier one."""

    past: bool


@dataclass(slots=True)
class _Drive:
    journal: Journal
    hands: Hands
    on_note: OnNote | None
    cancelled: IsCancelled | None
    lines: dict[str, bytes]
    replayed: set[str] = field(default_factory=set)
    notes: int = 0

    async def line(self, factory: Callable[[], Flow[T]], prefix: str, line: _Line) -> T:
        """Drive one flow, whose steps' paths begin with `prefix`."""
        flow = factory()
        answer: Any = None
        count = 0
        try:
            while True:
                try:
                    step = flow.throw(answer) if isinstance(answer, TurnFailed) else flow.send(answer)
                except StopIteration as end:
                    outcome: T = end.value
                    return outcome
                if isinstance(step, Note):
                    await self._note(step, line)
                    answer = None
                    continue
                path = f"{prefix}/{count}"
                count += 1
                match step:
                    case Ask() | Edit():
                        answer = await self._turn(step, path, line)
                    case Fork():
                        answer = await self._fork(step, path, line)
                    case _:
                        assert_never(step)
        finally:
            flow.close()

    async def _turn(self, step: Ask | Edit, path: str, line: _Line) -> Reply | TurnFailed:
        await self._check_cancel()
        raw = self.lines.get(path)
        if raw is not None:
            entry = load_entry(raw)
            if entry.step != step_hash(step):
                raise FlowChanged(path)
            self.replayed.add(path)
            result = result_of(entry)
            self.hands.recall(step, result, path)
            return result
        line.past = False
        try:
            result = await self.hands.perform(step, path)
        except TurnFailed as failure:
            result = failure
        await self.journal.put(path, dump_entry(entry_of(step, result)))
        return result

    async def _fork(self, step: Fork, path: str, line: _Line) -> list[Branch]:
        """Drive the branches side by side. A failed turn ends its branch alone, any other exception ends them all."""
        inner = [_Line(line.past) for _ in step.flows]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._branch(flow, f"{path}.{number}", inner[number]))
                    for number, flow in enumerate(step.flows)
                ]
        except BaseExceptionGroup as faults:
            raise faults.exceptions[0] from faults
        line.past = line.past and all(each.past for each in inner)
        return [task.result() for task in tasks]

    async def _branch(self, flow: Callable[[], Flow[Any]], prefix: str, line: _Line) -> Branch:
        try:
            return Branch(value=await self.line(flow, prefix, line))
        except TurnFailed as failure:
            return Branch(failure=failure)

    async def _note(self, step: Note, line: _Line) -> None:
        self.notes += 1
        if line.past or self.on_note is None:
            return
        try:
            await self.on_note(self.notes, step.standing)
        except Exception:
            # How a debate stands is told for people's comfort: no debate ends because it could not be told.
            log.exception("a note could not be passed on")

    async def _check_cancel(self) -> None:
        reason = None if self.cancelled is None else await self.cancelled()
        if reason is not None:
            raise Cancelled(reason)
