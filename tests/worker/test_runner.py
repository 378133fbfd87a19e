"""The runner: each step once, whatever dies in between, and a debate that never notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.github import GitHub
from bot.intents import Push
from bot.publish import Place, Publisher
from bot.store import LostFence, Store
from bot.store.runs import Ceilings, Person, Repository, Run
from worker.debate.flow import (
    Ask,
    Branch,
    Edit,
    Edited,
    Flow,
    Reply,
    TurnFailed,
    ask,
    dump_entry,
    edit,
    entry_of,
    fork,
    note,
)
from worker.runner import Cancelled, FlowChanged, Tapped, drive, fingerprint


class Killed(BaseException):
    """Stands for the death of the worker."""


@dataclass(frozen=True)
class Plain:
    """The codec of free text."""

    def schema(self) -> None:
        return None

    def problem(self, text: str) -> str | None:
        return None

    def parse(self, text: str) -> str:
        return text

    def reask(self, problem: str) -> str:
        return problem


def asking(brief: str, number: int = 1) -> Ask:
    return Ask("reviewer", number, brief, Plain())


def editing(brief: str) -> Edit:
    return Edit("author", 1, brief, Plain(), plan=None)


@dataclass
class Memory:
    """A journal in memory."""

    lines: dict[str, bytes] = field(default_factory=dict)

    async def all(self) -> dict[str, bytes]:
        return dict(self.lines)

    async def put(self, path: str, raw: bytes) -> None:
        assert path not in self.lines
        self.lines[path] = raw


@dataclass
class Recorder:
    """Hands that answer with the brief, and fail where it says so."""

    performed: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)

    async def perform(self, step: Ask | Edit, path: str) -> Reply:
        self.performed.append(path)
        await asyncio.sleep(0)
        if step.brief.startswith("fail"):
            raise TurnFailed("transport", step.brief, attempts=3)
        if step.brief.startswith("fault"):
            raise OSError(step.brief)
        return Reply(f"on {step.brief}", "scripted")

    def recall(self, step: Ask | Edit, result: Reply | TurnFailed, path: str) -> None:
        self.recalled.append(step.brief)


def two_asks() -> Flow[tuple[str, str]]:
    first, _ = yield from ask(asking("one"))
    yield from note("between")
    second, _ = yield from ask(asking(f"two, after {first}"))
    return first, second


# ---- Steps and paths ------------------------------------------------------------------------------------------------


async def test_a_flow_is_performed_journaled_and_returns_its_outcome() -> None:
    journal, hands = Memory(), Recorder()
    outcome = await drive(two_asks, journal=journal, hands=hands)
    assert outcome == ("on one", "on two, after on one")
    assert hands.performed == list(journal.lines) == ["/0", "/1"]


async def test_a_journal_is_replayed_and_nothing_is_performed_again() -> None:
    journal = Memory()
    outcome = await drive(two_asks, journal=journal, hands=Recorder())
    again = Recorder()
    assert await drive(two_asks, journal=journal, hands=again) == outcome
    assert again.performed == []
    assert again.recalled == ["one", "two, after on one"]


async def test_forks_have_paths_of_their_own_and_give_back_values_and_failures() -> None:
    def branch(name: str) -> Callable[[], Flow[str]]:
        def flow() -> Flow[str]:
            yield from ask(asking(name))
            text, _ = yield from ask(asking(f"more {name}"))
            return str(text)

        return flow

    def flow() -> Flow[list[Branch]]:
        yield from ask(asking("before"))
        branches = yield from fork([branch("a"), branch("fail"), branch("c")])
        yield from ask(asking("after"))
        return branches

    journal, hands = Memory(), Recorder()
    branches = await drive(flow, journal=journal, hands=hands)
    assert [branch.value for branch in branches] == ["on more a", None, "on more c"]
    assert [str(branch.failure) for branch in branches] == ["None", "fail", "None"]
    assert set(journal.lines) == {"/0", "/1.0/0", "/1.0/1", "/1.1/0", "/1.2/0", "/1.2/1", "/2"}
    assert sorted(hands.performed) == sorted(journal.lines)
    again = Recorder()
    replayed = await drive(flow, journal=journal, hands=again)
    assert [branch.value for branch in replayed] == [branch.value for branch in branches]
    assert again.performed == []


async def test_branches_run_side_by_side() -> None:
    meeting = asyncio.Barrier(3)

    class Meeting(Recorder):
        async def perform(self, step: Ask | Edit, path: str) -> Reply:
            await meeting.wait()
            return Reply("met", "scripted")

    def one() -> Flow[Any]:
        return (yield from ask(asking("one")))

    def flow() -> Flow[Any]:
        return (yield from fork([one, one, one]))

    assert len(await drive(flow, journal=Memory(), hands=Meeting())) == 3


async def test_a_fork_of_nothing_is_nothing() -> None:
    def flow() -> Flow[list[Branch]]:
        return (yield from fork([]))

    assert await drive(flow, journal=Memory(), hands=Recorder()) == []


# ---- Failures and faults --------------------------------------------------------------------------------------------


def careful() -> Flow[str]:
    try:
        yield from ask(asking("fail"))
    except TurnFailed as failure:
        text, _ = yield from ask(asking(f"after {failure.sentence}, {failure.facts.attempts} attempts"))
        return str(text)
    return "no failure"


async def test_a_failed_turn_is_thrown_into_the_flow_and_replayed_like_a_reply() -> None:
    journal = Memory()
    outcome = await drive(careful, journal=journal, hands=Recorder())
    assert outcome == "on after fail, 3 attempts"
    again = Recorder()
    assert await drive(careful, journal=journal, hands=again) == outcome
    assert again.performed == []


async def test_a_failure_that_the_flow_does_not_catch_ends_it() -> None:
    def flow() -> Flow[None]:
        yield from ask(asking("fail"))

    journal = Memory()
    for _ in range(2):
        with pytest.raises(TurnFailed, match="fail"):
            await drive(flow, journal=journal, hands=Recorder())
    assert list(journal.lines) == ["/0"]


async def test_a_fault_of_the_worker_is_not_journaled_and_goes_through() -> None:
    def flow() -> Flow[None]:
        yield from ask(asking("one"))
        yield from edit(editing("fault"))

    journal = Memory()
    with pytest.raises(OSError, match="fault"):
        await drive(flow, journal=journal, hands=Recorder())
    assert list(journal.lines) == ["/0"]


async def test_a_fault_in_one_branch_ends_the_others() -> None:
    ended = []

    class Slow(Recorder):
        async def perform(self, step: Ask | Edit, path: str) -> Reply:
            if step.brief == "slow":
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(path)
            return await super().perform(step, path)

    def one(brief: str) -> Callable[[], Flow[Any]]:
        def flow() -> Flow[Any]:
            return (yield from ask(asking(brief)))

        return flow

    def flow() -> Flow[Any]:
        return (yield from fork([one("slow"), one("fault")]))

    journal = Memory()
    with pytest.raises(OSError, match="fault"):
        await drive(flow, journal=journal, hands=Slow())
    assert ended == ["/0.0/0"]
    assert journal.lines == {}


async def test_a_lost_fence_goes_through() -> None:
    class Fenced(Memory):
        async def put(self, path: str, raw: bytes) -> None:
            raise LostFence(path)

    with pytest.raises(LostFence):
        await drive(two_asks, journal=Fenced(), hands=Recorder())


# ---- Changed flows --------------------------------------------------------------------------------------------------


async def test_a_journal_of_another_flow_is_never_ignored() -> None:
    journal = Memory()
    await drive(two_asks, journal=journal, hands=Recorder())

    def reworded() -> Flow[None]:
        yield from ask(asking("one"))
        yield from ask(asking("two"))

    def shorter() -> Flow[None]:
        yield from ask(asking("one"))

    def reshaped() -> Flow[None]:
        yield from fork([two_asks])

    for changed, path in ((reworded, "/1"), (shorter, "/1"), (reshaped, "/0")):
        hands = Recorder()
        with pytest.raises(FlowChanged) as error:
            await drive(changed, journal=Memory(dict(journal.lines)), hands=hands)
        assert error.value.path == path


def test_a_fingerprint_changes_with_each_byte_and_place() -> None:
    assert fingerprint([b"a", b"bc"]) == fingerprint(iter([b"a", b"bc"]))
    others: list[list[bytes]] = [[b"a", b"bc"], [b"ab", b"c"], [b"bc", b"a"], [b"a", b"bd"], [b"abc"], []]
    assert len({fingerprint(parts) for parts in others}) == len(others)


# ---- Notes and cancelling -------------------------------------------------------------------------------------------


async def test_notes_are_numbered_and_silent_on_replay() -> None:
    def flow() -> Flow[None]:
        yield from note("start")
        yield from ask(asking("one"))
        yield from note("after one")
        yield from ask(asking("two"))
        yield from note("after two")

    told: list[tuple[int, Any]] = []

    async def on_note(number: int, standing: Any) -> None:
        told.append((number, standing))

    journal = Memory()
    await drive(flow, journal=journal, hands=Recorder(), on_note=on_note)
    assert told == [(1, "start"), (2, "after one"), (3, "after two")]
    told.clear()
    await drive(flow, journal=journal, hands=Recorder(), on_note=on_note)
    assert told == []
    del journal.lines["/1"]
    await drive(flow, journal=journal, hands=Recorder(), on_note=on_note)
    assert told == [(3, "after two")]


async def test_a_note_that_cannot_be_told_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def on_note(number: int, standing: Any) -> None:
        raise OSError("nobody listens")

    outcome = await drive(two_asks, journal=Memory(), hands=Recorder(), on_note=on_note)
    assert outcome == ("on one", "on two, after on one")
    assert "a note could not be passed on" in caplog.text


async def test_a_run_is_cancelled_between_two_steps() -> None:
    asked = iter([None, "stopped"])

    async def cancelled() -> str | None:
        return next(asked)

    journal, hands = Memory(), Recorder()
    with pytest.raises(Cancelled) as error:
        await drive(two_asks, journal=journal, hands=hands, cancelled=cancelled)
    assert error.value.reason == "stopped"
    assert hands.performed == list(journal.lines) == ["/0"]


async def test_a_cancelled_run_ends_all_its_branches() -> None:
    def flow() -> Flow[Any]:
        return (yield from fork([two_asks, two_asks]))

    hands = Recorder()

    async def cancelled() -> str | None:
        return "superseded" if hands.performed else None

    with pytest.raises(Cancelled, match="superseded"):
        await drive(flow, journal=Memory(), hands=hands, cancelled=cancelled)


async def test_a_flow_is_closed_whatever_ends_it() -> None:
    closed = []

    def flow() -> Flow[None]:
        try:
            yield from ask(asking("fault"))
        finally:
            closed.append(True)

    with pytest.raises(OSError, match="fault"):
        await drive(flow, journal=Memory(), hands=Recorder())
    assert closed == [True]


# ---- Deaths at every point of random flows --------------------------------------------------------------------------

Plan = dict[str, Any]
"""A flow as data: what hypothesis draws, and what a generator is made of."""

TURNS = st.sampled_from(["ask", "edit"])


def plans(depth: int) -> st.SearchStrategy[list[Plan]]:
    turn = st.fixed_dictionaries({"do": TURNS, "fails": st.booleans(), "caught": st.booleans(), "note": st.booleans()})
    loop = st.fixed_dictionaries({"do": st.just("loop"), "times": st.integers(1, 2), "turn": turn})
    kinds = [turn, loop]
    if depth > 0:
        inner = st.lists(plans(depth - 1), min_size=1, max_size=2)
        kinds.append(st.fixed_dictionaries({"do": st.just("fork"), "branches": inner}))
    return st.lists(st.one_of(kinds), min_size=1, max_size=3)


def turn(part: Plan, brief: str) -> Flow[str]:
    words = f"{'fail' if part['fails'] else 'do'} {brief}"
    try:
        if part["do"] == "ask":
            text, _ = yield from ask(asking(words))
        else:
            text, reply = yield from edit(editing(words))
            text = f"{text} {reply.edited}"
    except TurnFailed as failure:
        if not part["caught"]:
            raise
        text = f"({failure.sentence})"
    if part["note"]:
        yield from note(f"after {brief}")
    return str(text)


def flow_of(plan: list[Plan], name: str = "") -> Callable[[], Flow[str]]:
    """Return the flow of a plan: each brief depends on all that was answered before, as a debate's do."""

    def flow() -> Flow[str]:
        said = f"flow{name}"
        for number, part in enumerate(plan):
            if part["do"] == "fork":
                branches = yield from fork(
                    [flow_of(inner, f"{name}.{number}.{n}") for n, inner in enumerate(part["branches"])]
                )
                said += str([branch.value or str(branch.failure) for branch in branches])
            elif part["do"] == "loop":
                for time in range(part["times"]):
                    said += yield from turn(part["turn"], f"{name}/{number}x{time} after {len(said)}")
            else:
                said += yield from turn(part, f"{name}/{number} after {len(said)}")
        return said

    return flow


@dataclass
class Points:
    """Every point at which the worker may die; the one with the number `fatal` kills it."""

    fatal: int | None = None
    passed: int = 0

    async def __call__(self, _: str = "") -> None:
        self.passed += 1
        if self.passed - 1 == self.fatal:
            raise Killed


@dataclass
class World:
    """What outlives a worker: the remote, and what was seen of it all."""

    pushed: set[str] = field(default_factory=set)
    """Commits on the remote: the step's path, and the number of the author's turn that made it."""
    performed: list[str] = field(default_factory=list)
    journaled: set[str] = field(default_factory=set)
    notes: list[Any] = field(default_factory=list)
    replayed: list[Any] = field(default_factory=list)
    """Notes of the past that were told again."""

    def effects(self) -> Counter[str]:
        return Counter(commit.partition("#")[0] for commit in self.pushed)


@dataclass
class LivingHands:
    """Hands whose edits reach a remote through the real publisher, as worker/hands.py's do."""

    world: World
    publisher: Publisher
    points: Points

    async def perform(self, step: Ask | Edit, path: str) -> Reply:
        assert path not in self.world.journaled, "a journaled step is performed again"
        await self.points()
        self.world.performed.append(path)
        if step.brief.startswith("fail"):
            raise TurnFailed("transport", step.brief)
        if isinstance(step, Ask):
            return Reply(f"<{len(step.brief)}>", "scripted")
        stored = await self.publisher.stored_push(path)
        if stored is None:
            # Another attempt at the turn comes to another commit: an author is no function of its brief.
            commit = f"{path}#{len(self.world.performed)}"
            stored = Push("run", path, "refs/heads/x", "old", commit, b"PACK", b"{}")
        await self.publisher.publish(stored)
        await self.points()
        return Reply(f"<{len(step.brief)}>", "scripted", edited=Edited((), "tree", commit="same"))

    def recall(self, step: Ask | Edit, result: Reply | TurnFailed, path: str) -> None:
        assert dump_entry(entry_of(step, result))


RUN = Run(
    id="run",
    kind="review",
    created_at=datetime(2026, 12, 1, tzinfo=UTC),
    installation_id=1,
    repository=Repository(id=1, full_name="harbour/tide"),
    number=1,
    title="",
    body="",
    head_sha="a",
    head_ref="b",
    base_ref="main",
    own_base="main",
    authority=Person(id=5, login="mara"),
    requester=None,
    source=None,
    seats={},
    ceilings=Ceilings(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
)


async def attempt(store: Store, world: World, plan: list[Plan], points: Points) -> str:
    """Drive the plan once, as a worker does; return the outcome, or how the flow failed."""
    fence = await store.runs.begin_attempt(RUN.id)
    journal = store.journal(RUN.id, fence)
    had_past = bool(await journal.all())
    seen = set(world.notes)

    async def push(intent: Push) -> str:
        await points()
        world.pushed.add(intent.new)
        await points()
        return ""

    async def tap(path: str) -> None:
        world.journaled.add(path)
        await points()

    async def on_note(number: int, standing: Any) -> None:
        if standing in seen and had_past:
            world.replayed.append(standing)
        world.notes.append(standing)

    publisher = Publisher(
        store.outbox, cast("GitHub", None), Place("harbour/tide", 1, 1), run=RUN.id, fence=fence, push=push
    )
    try:
        return await drive(
            flow_of(plan),
            journal=Tapped(journal, tap),
            hands=LivingHands(world, publisher, points),
            on_note=on_note,
        )
    except TurnFailed as failure:
        return f"failed: {failure.sentence}"


async def fresh(store: Store, url: str) -> None:
    redis = Redis.from_url(url)
    await redis.flushall()
    await redis.aclose()
    await store.runs.claim(RUN, "text")


async def deaths_change_nothing(url: str, plan: list[Plan]) -> None:
    store = await Store.connect(url)
    await fresh(store, url)
    undisturbed, counting = World(), Points()
    outcome = await attempt(store, undisturbed, plan, counting)
    lines = await store.journal(RUN.id, 0).all()
    # Every point kills once in the first attempt, and each second one again in the next: a worker may die twice.
    for fatal in range(counting.passed):
        await fresh(store, url)
        world = World()
        with pytest.raises(Killed):
            await attempt(store, world, plan, Points(fatal))
        for again in (fatal // 2, None):
            try:
                ended = await attempt(store, world, plan, Points(again))
            except Killed:
                continue
            break
        assert ended == outcome
        assert await store.journal(RUN.id, 0).all() == lines
        assert world.effects() == undisturbed.effects()
        assert set(world.effects().values()) <= {1}
        assert world.replayed == []
    await store.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans(2))
def test_a_death_at_any_point_of_any_flow_changes_nothing(valkey_url: str, plan: list[Plan]) -> None:
    asyncio.run(deaths_change_nothing(valkey_url, plan))


async def test_an_author_that_was_killed_after_its_intent_is_not_asked_again(store: Store, valkey_url: str) -> None:
    plan = [{"do": "edit", "fails": False, "caught": False, "note": False}]
    await fresh(store, valkey_url)
    world, points = World(), Points(2)  # 0: before the turn, 1: before the push, 2: after it
    with pytest.raises(Killed):
        await attempt(store, world, plan, points)
    stored = await Publisher(store.outbox, cast("GitHub", None), Place("harbour/tide", 1, 1), run=RUN.id).stored_push(
        "/0"
    )
    assert stored is not None
    await attempt(store, world, plan, Points())
    assert world.pushed == {stored.new}
