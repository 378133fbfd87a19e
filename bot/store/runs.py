"""Runs: the stored request for one debate, its state, and the claims that pull requests hold."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from bot.store.claims import BEGIN, CANCEL, CLAIM, FINISH, KEEP, NEWS, RECORD, SEEN, STARTABLE
from bot.store.connection import Gate, LostFence, key


class Stored(BaseModel):
    """A stored value, which nothing changes."""

    # What a newer version of this server has added is not known here, and must not keep a run from being read.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Person(Stored):
    """A GitHub account, known by its number: names change hands (threats.md, input 66)."""

    id: int
    login: str


class Repository(Stored):
    """A repository as GitHub knows it."""

    id: int
    full_name: str
    """``owner/name`` at the time of the command."""


class Source(Stored):
    """The comment that asked for a run."""

    comment_id: int
    text: str
    """The command as it was written, cut to 8 kB."""


class SeatChoice(Stored):
    """Who was chosen for a seat."""

    agent: str
    model: str | None = None


class Ceilings(Stored):
    """Ceilings of one run: rounds, seconds of a turn and of the run, US dollars."""

    rounds: int
    turn_seconds: int
    run_seconds: int
    usd: float


class Run(Stored):
    """One debate from queue to report, as the bot asked for it. The worker makes its Task from it."""

    id: str
    kind: str
    """``review`` in this version."""
    created_at: datetime
    installation_id: int
    repository: Repository
    number: int
    title: str
    body: str
    head_sha: str
    head_ref: str
    base_ref: str
    own_base: str
    """The pull request's own base branch when the run was asked for: another one later makes it another change."""
    requester: Person | None
    """Who commanded it; None where it started by itself."""
    authority: Person
    """Whose write permission the run stands on: the requester's, else that of the pull request's author or of who
    approved its commit. It is asked again before every push."""
    source: Source | None
    seats: dict[str, SeatChoice]
    ceilings: Ceilings
    commit: bool = True
    comment: bool = True
    rationale: str = ""
    context: str = ""
    protect: tuple[str, ...] = ()
    """Globs of paths that the author may not change, from the base branch's configuration."""
    fork: bool = False
    """The head is in another repository: nothing of it is pushed to this one (threats.md T8)."""
    private: bool = False
    """The repository was private when the run was asked for."""
    approved: bool = False
    """It stands on a maintainer's approval of exactly its commit: no other commit is debated in its place."""
    editing: bool = True
    """Editing debates hold the pull request's claim: one runs and one waits (decisions.md 1.3)."""


class RunState(Stored):
    """What is known of a run besides its request."""

    fence: int = 0
    status: str | None = None
    """The final status; None while it waits or runs."""
    cancel: str | None = None
    check_run_id: int | None = None
    waited: bool = False
    """It waited for another run: where the head has moved meanwhile, a new run takes its place (decisions.md 1.3)."""
    deaths: int = 0
    """Attempts that came to the present step and did not get past it, with the one under way (decisions.md 1.6)."""
    touched: int | None = None
    """When an attempt last gave a sign of life, in seconds since the epoch; None before the first."""
    faulty: int | None = None
    """Since when its attempts end by faults of GitHub or git, in seconds since the epoch; None: the last did not."""
    news: int = 0
    """How often GitHub told of a change of its pull request: who works at it looks, and judges by what is there."""
    fingerprint: str | None = None
    """The hash of the protocol and prompts that the journal belongs to (house.md 4)."""


LIVE = key("live")
"""The ids of the runs that have not ended."""
RUN_ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Digits and letters that are not taken for one another."""
RUN_ID_LENGTH = 8
RECORDED = frozenset(RunState.model_fields) - {"fence", "status", "cancel", "waited", "news"}
"""What `Runs.record` may write. The others have ways of their own."""
SHOWING_SECONDS = 150
"""For so long a bot that died is waited for: a look at GitHub with its retries, a turn to write and the write itself
take no longer."""
AGAIN_SECONDS = 86_400
"""For so long the tries of one job may go on."""
REPEAT_SECONDS = 600
"""For so long the same text by the same person on the same head is a repeat (decisions.md 1.3)."""


@dataclass(frozen=True, slots=True)
class Started:
    """The run holds the pull request and may be enqueued."""

    run: Run


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run waits, and starts when `behind` has ended."""

    run: Run
    behind: Run


@dataclass(frozen=True, slots=True)
class Full:
    """There is no place: one debate runs and one waits, or two read-only ones run. Nothing was stored."""

    running: Run


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same was asked a moment ago; `run` is what came of it. Nothing was stored."""

    run: Run


Claim: TypeAlias = Started | Waiting | Full | Repeat


@dataclass(frozen=True, slots=True)
class Holders:
    """The runs that hold a pull request or issue."""

    running: Run | None
    waiting: Run | None
    beside: tuple[Run, ...]
    """Read-only debates."""


class Runs:
    """The stored runs. Every method raises `StoreAway`; those that take a fence raise `LostFence`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def claim(self, run: Run, text_key: str, *, cause: str = "") -> Claim:
        """Claim the pull request or issue for a run, and store it where it may start or wait.

        `text_key` names who asked and what. `cause` names what made the run start: the comment that asked for it, where
        there is one (`by_comment`). The first answer to a cause is given again whenever it is asked again.
        """
        source = by_comment(run.source.comment_id) if run.source else cause or f"run:{run.id}"
        place = (run.repository.id, run.number)
        keys = [
            key("claim", *place),
            key("source", run.repository.id, source),
            key("text", *place, run.head_sha, text_key),
            run_key(run.id),
            LIVE,
        ]
        words = (run.id, run.model_dump_json(), int(run.editing), self._gate.keep_ms, REPEAT_SECONDS * 1000)
        answer: bytes = await self._gate.run(CLAIM, keys, *words, run_key(""))
        return await self._claim(answer)

    async def claimed(self, repository_id: int, cause: str) -> Claim | None:
        """Return the answer that a claim for this cause got, or None where there was none."""
        answer: bytes | None = await self._gate.do("GET", key("source", repository_id, cause))
        return None if answer is None else await self._claim(answer)

    async def _claim(self, answer: bytes) -> Claim:
        word, run_id, other = answer.decode().split(" ")
        stored = await self._known(run_id)
        match word:
            case "started":
                return Started(stored)
            case "waiting":
                return Waiting(stored, await self._known(other))
            case "full":
                return Full(stored)
            case _:
                return Repeat(stored)

    async def holders(self, repository_id: int, number: int) -> Holders:
        """Return the runs that hold a pull request or issue at this moment."""
        claim = key("claim", repository_id, number)
        slots = ("running", "waiting", "beside1", "beside2")
        ids: list[bytes | None] = await self._gate.do("HMGET", claim, *slots)
        running, waiting, *beside = [await self.get(each.decode()) if each else None for each in ids]
        return Holders(running, waiting, tuple(run for run in beside if run is not None))

    async def startable(self) -> tuple[str, ...]:
        """Return the ids of the runs that have not ended and wait for no other: each belongs into the queue."""
        found: list[bytes] = await self._gate.run(STARTABLE, [LIVE], run_key(""))
        return tuple(run_id.decode() for run_id in found)

    async def get(self, run_id: str) -> Run | None:
        """Return the run as it was asked for."""
        raw: bytes | None = await self._gate.do("HGET", run_key(run_id), "request")
        return None if raw is None else Run.model_validate_json(raw)

    async def live(self, run_id: str) -> bool | None:
        """Return whether a run has not ended; None where it is not known."""
        request, status = await self._gate.do("HMGET", run_key(run_id), "request", "status")
        return None if request is None else status is None

    async def state(self, run_id: str) -> RunState:
        """Return what is known of a run besides its request; of an unknown run, nothing is."""
        names = tuple(RunState.model_fields)
        values: list[bytes | None] = await self._gate.do("HMGET", run_key(run_id), *names)
        known = {name: value.decode() for name, value in zip(names, values, strict=True) if value is not None}
        return RunState.model_validate(known)

    async def begin_attempt(self, run_id: str) -> int:
        """Raise the fence and return it: from now on no earlier attempt can write. Raises LookupError."""
        keys = [run_key(run_id), *(key(kept, run_id) for kept in ("journal", "task", "progress"))]
        fence: int = await self._gate.run(BEGIN, keys, self._gate.keep_ms)
        if fence == 0:
            raise LookupError(f"There is no run {run_id} in the store")
        return fence

    async def fence(self, run_id: str) -> int:
        """Return the fence of the newest attempt; 0 before the first."""
        raw: bytes | None = await self._gate.do("HGET", run_key(run_id), "fence")
        return int(raw or 0)

    async def record(self, run_id: str, fence: int, **fields: str | int | None) -> None:
        """Write fields of the run's state. None takes a field back."""
        unknown = fields.keys() - RECORDED
        if unknown:
            raise ValueError(f"a run's state has no field {', '.join(sorted(unknown))} that is recorded")
        words = [word for name, value in fields.items() for word in (name, "" if value is None else value)]
        answer: bytes = await self._gate.run(RECORD, [run_key(run_id)], fence, self._gate.keep_ms, *words)
        _held(answer, run_id, fence)

    async def finish(self, run_id: str, fence: int, status: str) -> str | None:
        """Record how a run ended, release its claim, and return the id of the run that may start now.

        The caller enqueues that run. The first status stands: a second call changes nothing and returns the same.
        """
        words = (fence, self._gate.keep_ms, run_id, status, run_key(""))
        answer: bytes = await self._gate.run(FINISH, [run_key(run_id), LIVE], *words)
        _held(answer, run_id, fence)
        return answer.decode().removeprefix("ok ") or None

    async def set_task(self, run_id: str, fence: int, task: str) -> bytes:
        """Store the run's frozen Task, if there is none yet, and return the stored one."""
        keys = [run_key(run_id), key("task", run_id)]
        answer: list[bytes] | bytes = await self._gate.run(KEEP, keys, fence, self._gate.keep_ms, task)
        if isinstance(answer, bytes):
            raise LostFence(_lost(run_id, fence))
        return answer[1]

    async def task(self, run_id: str) -> bytes | None:
        """Return the run's Task, or None before its first attempt stored it."""
        raw: bytes | None = await self._gate.do("GET", key("task", run_id))
        return raw

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Ask a run to end, for one of decisions.md 1.7's reasons. False where it has ended or was asked before."""
        return bool(await self._gate.run(CANCEL, [run_key(run_id)], reason))

    async def cancelled(self, run_id: str) -> str | None:
        """Return the reason for which a run was asked to end."""
        raw: bytes | None = await self._gate.do("HGET", run_key(run_id), "cancel")
        return None if raw is None else raw.decode()

    async def tell_news(self, repository_id: int, number: int) -> int:
        """Tell the runs of a pull request that it may have changed; return how many there are."""
        told: int = await self._gate.run(NEWS, [key("claim", repository_id, number)], run_key(""))
        return told

    async def set_progress(self, run_id: str, progress: str) -> None:
        """Store how a run stands, for whoever looks."""
        await self._gate.do("SET", key("progress", run_id), progress, "PX", self._gate.keep_ms)

    async def progress(self, run_id: str) -> str | None:
        """Return how a run stands."""
        raw: bytes | None = await self._gate.do("GET", key("progress", run_id))
        return None if raw is None else raw.decode()

    async def seen(self, name: str, seconds: int | None, *, by: str) -> bool:
        """Return whether another than `by` has seen `name` before, and remember who did: for `seconds`, or for ever.

        Whoever saw it first may ask again for a day: after a crash, or where the store's answer was lost.
        """
        words = (by, 0 if seconds is None else seconds, AGAIN_SECONDS)
        return bool(await self._gate.run(SEEN, [key("seen", name)], *words))

    async def show(self, run_id: str) -> None:
        """Say that the bot is about to create a run's check run: a worker waits for that (`shown`) before it does."""
        await self._gate.do("SET", key("showing", run_id), 1, "EX", SHOWING_SECONDS)

    async def show_done(self, run_id: str) -> None:
        """Say that the bot is not about to create a run's check run any more."""
        await self._gate.do("DEL", key("showing", run_id))

    async def shown(self, run_id: str) -> bool:
        """Return whether the bot is not about to create a run's check run."""
        return not await self._gate.do("EXISTS", key("showing", run_id))

    async def _known(self, run_id: str) -> Run:
        run = await self.get(run_id)
        if run is None:
            raise LookupError(f"Run {run_id} is not in the store any more")
        return run


def by_comment(comment_id: int) -> str:
    """Return the cause of a run that a comment asks for."""
    return f"comment:{comment_id}"


def new_run_id() -> str:
    """Return a run's id: 8 random characters."""
    return "".join(secrets.choice(RUN_ID_ALPHABET) for _ in range(RUN_ID_LENGTH))


def run_key(run_id: str) -> str:
    """Return the key of a run; without an id, the beginning of all of them."""
    return key("run", run_id)


def _held(answer: bytes, run_id: str, fence: int) -> None:
    if answer == b"lost":
        raise LostFence(_lost(run_id, fence))


def _lost(run_id: str, fence: int) -> str:
    return f"attempt {fence} at run {run_id} is not the newest any more"
