"""The hands: attempts, re-asks, sessions, and the way of an edit to a durable commit."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.github import GitHub
from bot.intents import Push
from bot.publish import Place, Publisher
from bot.store import Store
from scripted_models import ModelServer, faults
from tests.worker.conftest import Change, git
from worker import agents, hands
from worker.agents import Agent, SessionGone, TurnReply, TurnRequest
from worker.checkout import fetch
from worker.debate.codecs import DispositionCodec, VerdictCodec
from worker.debate.flow import Ask, CommitPlan, Edit, Kind, Reply, TurnFailed, Used
from worker.debate.task import Seat, Task
from worker.gateway import SOCKET, Gateway, TurnBudget, Upstream
from worker.git import GitRefused, GitUnavailable, RefMissing
from worker.git.commit import Identity
from worker.git.mirror import Mirrors
from worker.hands import Desk, Hands
from worker.prices import load
from worker.quarters import Lodgings
from worker.sockets import short
from worker.turn import Box

YES = json.dumps({"approved": True, "summary": "S", "findings": [], "response_to_rebuttal": ""})
ASK = Ask("reviewer", 1, "brief", VerdictCodec())
PLAN = CommitPlan("fix: debate round 1 ({ids})", ({"id": "F1", "severity": "major", "issue": "i"},), "codex", "claude")
EDIT = Edit("author", 1, "brief", DispositionCodec(("F1",)), PLAN)
FIXED = "- `F1` **fixed**: done"
PRICES = load((Path(__file__).parents[2] / "deploy" / "prices.toml").read_text("utf-8"))

Answer = str | Exception | TurnReply | Callable[[TurnRequest], str]


@dataclass
class Player:
    """An agent that plays answers in their order and keeps what it was asked."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[TurnRequest] = field(default_factory=list)

    async def take_turn(self, request: TurnRequest, run: Any) -> TurnReply:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(request)
        return answer if isinstance(answer, TurnReply) else TurnReply(answer, session="s1", used=Used("m", 0.25))


@dataclass
class Bench:
    """Hands at work on a real change."""

    hands: Hands
    player: Player
    task: Task
    change: Change
    slept: list[float]
    pushed: list[Push]
    fresh: Callable[[], Awaitable[Hands]]
    refuse: list[str | Exception] = field(default_factory=list)

    async def perform(self, step: Ask | Edit, *answers: Answer) -> Reply:
        self.player.answers += answers
        return await self.hands.perform(step, "/0")


@pytest_asyncio.fixture
async def bench(change: Change, store: Store, monkeypatch: pytest.MonkeyPatch) -> Bench:
    player, slept, pushed, refuse = Player(), list[float](), list[Push](), list[str | Exception]()
    agent = Agent("player", take_turn=player.take_turn)
    monkeypatch.setitem(agents.AGENTS, "player", agent)
    await store.runs.claim(change.run, "key")
    task = (await change.task()).model_copy(
        update={"seats": {"reviewer": Seat(agent="player"), "author": Seat(agent="player", model="big")}}
    )

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def push(intent: Push) -> str:
        if refuse and isinstance(refuse[0], Exception):
            raise refuse[0]
        if refuse:
            return str(refuse[0])
        pushed.append(intent)
        return ""

    async def current() -> None:
        return None

    async def fresh() -> Hands:
        fence = await store.runs.begin_attempt(change.run.id)
        place, github = Place("you/app", 1, 9), cast("GitHub", None)  # nothing here reaches GitHub but the push
        publisher = Publisher(store.outbox, github, place, run=change.run.id, fence=fence, push=push)
        identity = Identity("bot", "bot@example.org")
        return Hands(Desk(task, change.mirror, change.folder, publisher, identity, current, sleep=sleep))

    return Bench(await fresh(), player, task, change, slept, pushed, fresh, refuse)


# ---- Attempts -------------------------------------------------------------------------------------------------------


@pytest.mark.threat("R17")
async def test_case_7_three_attempts_after_5_and_10_seconds(bench: Bench) -> None:
    dead = [TurnFailed("transport", "it ended without a word", log=f"log {n}") for n in range(3)]
    with pytest.raises(TurnFailed) as failed:
        await bench.perform(ASK, *dead)
    assert bench.slept == [5.0, 10.0]
    assert failed.value.facts.attempts == 3
    assert failed.value.sentence == "it ended without a word"
    assert all(f"log {n}" in failed.value.facts.log for n in range(3))


async def test_an_attempt_that_works_ends_them(bench: Bench) -> None:
    reply = await bench.perform(ASK, TurnFailed("transport", "no"), YES)
    assert (reply.attempts, reply.text, reply.agent, reply.used) == (2, YES, "player", Used("m", 0.25))
    assert bench.slept == [5.0]
    assert [request.turn for request in bench.player.asked] == [1, 1]


@pytest.mark.parametrize(("kind", "attempts"), [("timeout", 2), ("refused", 1), ("environment", 1), ("money", 1)])
async def test_other_failures_are_tried_less_often(bench: Bench, kind: Kind, attempts: int) -> None:
    with pytest.raises(TurnFailed):
        await bench.perform(ASK, *[TurnFailed(kind, "no") for _ in range(attempts)])
    assert len(bench.player.asked) == attempts


async def test_a_malformed_reply_is_asked_for_once_more_in_its_session(bench: Bench) -> None:
    reply = await bench.perform(ASK, "prose", YES)
    first, second = bench.player.asked
    assert (first.session, second.session) == (None, "s1")
    assert second.brief.startswith("Your verdict cannot be used: it is not one JSON object")
    assert (reply.attempts, reply.used) == (1, Used("m", 0.5)), "both were paid for"


async def test_a_second_malformed_reply_is_a_failure(bench: Bench) -> None:
    with pytest.raises(TurnFailed) as failed:
        await bench.perform(ASK, "prose", "more prose")
    assert failed.value.kind == "malformed"
    assert "also when asked again" in failed.value.sentence
    assert failed.value.facts.log == "[attempt 1] more prose"
    assert failed.value.facts.used == Used("m", 0.5)


async def test_without_a_session_the_re_ask_stands_behind_the_whole_brief(bench: Bench) -> None:
    await bench.perform(ASK, TurnReply("prose"), YES)
    assert bench.player.asked[1].brief.startswith("brief\n---\n\nYour verdict")


# ---- At the gateway's door ------------------------------------------------------------------------------------------


@dataclass
class Inn:
    """Puts an agent up with a door of a real gateway, and without a sandbox."""

    gateway: Gateway

    @asynccontextmanager
    async def turn(self, box: Box, request: TurnRequest) -> AsyncIterator[Any]:
        budget = TurnBudget(box.api, run="run1", installation=7, run_usd=10.0, day_usd=100.0)
        async with self.gateway.turn(budget) as door:
            yield SimpleNamespace(door=door, request=replace(request, session_dir=door.folder), run=None)


@pytest.mark.parametrize(
    ("sent", "kind", "sentence"),
    [
        ({"mcp_servers": [1]}, "refused", "the gateway did not let a request of boxed through: the request sets mcp_*"),
        ({"mcp_servers": [1]}, "transport", "as the agent has it"),
        ({}, "refused", "as the agent has it"),
    ],
)
async def test_a_refusal_of_the_gateway_is_told_as_one_and_not_as_the_providers(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch, sent: dict[str, Any], kind: Kind, sentence: str
) -> None:
    async def take_turn(request: TurnRequest, run: Any) -> TurnReply:
        with short(request.session_dir) as folder:
            connector = aiohttp.UnixConnector(f"{folder}/{SOCKET}")
            body = {"model": "claude-sonnet-5", "messages": []} | sent
            async with (
                aiohttp.ClientSession("http://inside", connector=connector) as session,
                session.post("/v1/messages?beta=true", json=body) as reply,
            ):
                assert reply.status == 403, "of the gateway's, or of the provider's"
        raise TurnFailed(kind, "as the agent has it", hint="set a valid key", log="what it printed")

    box = Box(tool="claude", sessions="s", api="messages")
    monkeypatch.setitem(agents.AGENTS, "boxed", Agent("boxed", take_turn=take_turn, box=box))
    task = bench.task.model_copy(update={"seats": {"reviewer": Seat(agent="boxed")}})
    async with ModelServer.start() as models:
        models.anthropic.plays([faults.forbidden()], again=True)
        ways = {"messages": Upstream(SecretStr("k"), models.anthropic_url)}
        async with Gateway(ways, bench.change.folder / "gateway", prices=PRICES, spending=store.spending) as gateway:
            lodgings = cast("Lodgings", Inn(gateway))
            boxed = Hands(replace(bench.hands.desk, task=task, lodgings=lodgings))
            with pytest.raises(TurnFailed) as failed:
                await boxed.perform(ASK, "/0")
    ours = sentence != "as the agent has it"
    assert (failed.value.kind, fnmatch(failed.value.sentence, sentence)) == (kind, True)
    assert failed.value.facts.hint == ("" if ours else "set a valid key")
    assert "what it printed" in failed.value.facts.log


# ---- Sessions -------------------------------------------------------------------------------------------------------


async def test_a_seat_goes_on_in_its_session_with_the_short_brief(bench: Bench) -> None:
    await bench.perform(ASK, YES)
    await bench.perform(replace(ASK, round=2, brief="short", cold="whole"), YES)
    assert (bench.player.asked[1].session, bench.player.asked[1].brief) == ("s1", "short")
    assert bench.player.asked[1].turn == 2


async def test_a_session_that_is_gone_starts_cold(bench: Bench) -> None:
    await bench.perform(ASK, YES)
    await bench.perform(replace(ASK, round=2, brief="short", cold="whole"), SessionGone("s1"), YES)
    assert (bench.player.asked[2].session, bench.player.asked[2].brief) == (None, "whole")


async def test_a_replayed_turn_is_remembered(bench: Bench) -> None:
    bench.hands.recall(ASK, Reply(YES, "player", session="old"), "/0")
    bench.hands.recall(ASK, TurnFailed("transport", "no"), "/1")
    await bench.perform(replace(ASK, round=3, brief="short", cold="whole"), YES)
    assert (bench.player.asked[0].session, bench.player.asked[0].turn) == ("old", 3)


async def test_each_seat_has_its_own_sessions(bench: Bench) -> None:
    await bench.perform(ASK, YES)
    await bench.perform(EDIT, FIXED)
    first, second = bench.player.asked
    assert second.session is None
    assert first.session_dir != second.session_dir
    assert (second.model, second.turn) == ("big", 1)


# ---- What an agent sees ---------------------------------------------------------------------------------------------


async def test_a_turn_finds_the_tree_the_base_and_the_notes(bench: Bench) -> None:
    def look(request: TurnRequest) -> str:
        assert (request.tree / "app.py").read_text() == "x = 2\n"
        assert (request.base / "app.py").read_text() == "x = 1\n"
        assert not (request.tree / ".git").exists()
        assert b"+x = 2" in (request.notes / "change.diff").read_bytes()
        assert (request.notes / "round.diff").read_bytes() == b""
        assert b"change" in (request.notes / "log.txt").read_bytes()
        assert request.schema == VerdictCodec().schema()
        return YES

    await bench.perform(ASK, look)


async def test_the_next_turn_sees_the_authors_edit(bench: Bench) -> None:
    await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))

    def look(request: TurnRequest) -> str:
        assert (request.tree / "app.py").read_text() == "x = 3\n"
        assert b"-x = 2" in (request.notes / "round.diff").read_bytes()
        assert b"+x = 3" in (request.notes / "change.diff").read_bytes()
        return YES

    await bench.perform(ASK, look)


# ---- Edits ----------------------------------------------------------------------------------------------------------


def editing(files: dict[str, str | None], text: str = FIXED) -> Callable[[TurnRequest], str]:
    def edit(request: TurnRequest) -> str:
        for name, body in files.items():
            path: Path = request.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if body is None else path.write_text(body, newline="")
        return text

    return edit


async def test_an_edit_becomes_a_commit_on_the_runs_branch(bench: Bench) -> None:
    reply = await bench.perform(EDIT, editing({"app.py": "x = 3\n", "new/b.py": "b\n", "README.md": None}))
    edited = reply.edited
    assert edited is not None
    assert edited.commit is not None
    assert edited.changed == ("README.md", "app.py", "new/b.py")
    (push,) = bench.pushed
    assert (push.ref, push.new, push.old) == (f"refs/heads/{bench.task.branch}", edited.commit, bench.task.head_sha)
    mirror = bench.change.mirror.path
    assert git(mirror, "show", "--no-patch", "--format=%s %an %ae %P %aI", edited.commit).split(" ") == [
        *["fix:", "debate", "round", "1", "(F1)", "bot", "bot@example.org"],
        bench.task.head_sha,
        "2026-03-11T09:00:00+00:00",
    ]
    assert git(mirror, "show", f"{edited.commit}:app.py") == "x = 3"


async def test_an_edit_of_nothing_is_no_commit(bench: Bench) -> None:
    reply = await bench.perform(EDIT, "- `F1` **disputed**: no")
    assert reply.edited is not None
    assert (reply.edited.changed, reply.edited.commit, reply.edited.tree) == ((), None, bench.task.head_tree)
    assert bench.pushed == []


@pytest.mark.threat("R17")
async def test_an_author_that_dies_begins_again_in_a_fresh_folder(bench: Bench) -> None:
    def dies(request: TurnRequest) -> str:
        (request.tree / "half.py").write_text("half\n")
        raise TurnFailed("transport", "no")

    reply = await bench.perform(EDIT, dies, editing({"app.py": "x = 3\n"}))
    assert reply.edited is not None
    assert reply.edited.changed == ("app.py",)


async def test_without_commits_the_objects_are_kept_and_nothing_is_pushed(bench: Bench) -> None:
    first = await bench.perform(replace(EDIT, plan=None), editing({"app.py": "x = 3\n"}))
    assert first.edited is not None
    assert (first.edited.commit, first.edited.changed) == (None, ("app.py",))
    assert first.edited.tree != bench.task.head_tree
    assert bench.pushed == []
    assert git(bench.change.mirror.path, "show", f"{first.edited.tree}:app.py") == "x = 3"


async def test_a_round_that_is_refused_leaves_the_last_tree_and_says_why(bench: Bench) -> None:
    def link(request: TurnRequest) -> str:
        (request.tree / "out").symlink_to("/etc/passwd")
        return FIXED

    reply = await bench.perform(EDIT, link)
    assert reply.edited is not None
    assert reply.edited.tree == bench.task.head_tree
    assert reply.edited.gap
    assert bench.pushed == []

    def look(request: TurnRequest) -> str:
        assert not (request.tree / "out").is_symlink()
        return YES

    await bench.perform(ASK, look)


async def test_a_round_that_leaves_a_change_beyond_what_can_be_listed_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: object, **__: object) -> None:
        raise GitRefused("the pull request", "it changes more files than can be listed")

    def edit(request: TurnRequest) -> str:
        monkeypatch.setattr("worker.hands.brief", refuses)
        return editing({"app.py": "x = 3\n"})(request)

    reply = await bench.perform(EDIT, edit)
    assert reply.edited is not None
    assert (reply.edited.commit, reply.edited.tree) == (None, bench.task.head_tree)
    assert "more files than can be listed" in (reply.edited.gap or "")
    assert bench.pushed == []


async def test_a_push_that_is_refused_is_a_gap(bench: Bench) -> None:
    bench.refuse.append("GH006: protected")
    reply = await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))
    assert reply.edited is not None
    assert (reply.edited.commit, reply.edited.tree) == (None, bench.task.head_tree)
    assert "GH006: protected" in (reply.edited.gap or "")


async def test_an_attempt_that_finds_the_intent_finishes_it_and_asks_nobody(bench: Bench) -> None:
    bench.refuse.append(GitUnavailable("push", "down"))
    with pytest.raises(GitUnavailable):
        await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))
    bench.refuse.clear()
    again = await (await bench.fresh()).perform(EDIT, "/0")
    assert len(bench.player.asked) == 1
    assert again.edited is not None
    assert [push.new for push in bench.pushed] == [again.edited.commit]


async def test_a_push_that_was_refused_stays_refused(bench: Bench) -> None:
    """What a crash before the journal leaves is no commit that nobody can find."""
    bench.refuse.append("GH006: protected")
    first = await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))
    bench.refuse.clear()
    assert await (await bench.fresh()).perform(EDIT, "/0") == first
    assert (len(bench.player.asked), bench.pushed) == (1, [])
    assert await bench.hands.desk.publisher.outbox.unsent() == ()


async def test_earlier_rounds_are_brought_to_a_machine_that_never_saw_them(bench: Bench, tmp_path: Path) -> None:
    first = await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))
    assert first.edited is not None
    other = await Mirrors(tmp_path / "other-machine", also=("file",)).of(5)
    await fetch(bench.change.run, bench.change.source, other)
    with pytest.raises(RefMissing):
        await other.tree(first.edited.tree)
    elsewhere = await bench.fresh()
    elsewhere.desk = replace(elsewhere.desk, mirror=other, folder=tmp_path / "run-elsewhere")
    elsewhere.desk.folder.mkdir()
    elsewhere.recall(EDIT, first, "/0")
    bench.player.answers.append(editing({"app.py": "x = 4\n"}))
    second = await elsewhere.perform(EDIT, "/1")
    assert second.edited is not None
    assert await other.resolve(second.edited.commit or "") == second.edited.commit
    assert git(other.path, "log", "--format=%P", "-1", second.edited.commit or "") == first.edited.commit


async def test_the_same_edit_is_the_same_commit(bench: Bench) -> None:
    first = await bench.perform(EDIT, editing({"app.py": "x = 3\n"}))
    other = await bench.fresh()
    bench.player.answers.append(editing({"app.py": "x = 3\n"}))
    second = await other.perform(EDIT, "/7")
    assert first.edited is not None
    assert second.edited is not None
    assert first.edited.commit == second.edited.commit


def test_the_waits_are_those_of_the_design() -> None:
    assert hands.WAITS == (5.0, 10.0)
    assert hands.ATTEMPTS == {"transport": 3, "timeout": 2}
