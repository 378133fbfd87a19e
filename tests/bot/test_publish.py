"""Publishing: twice is once, whatever dies in between, and an older attempt does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.github import Forbidden, GitHub, GitHubError, NotFound, Unavailable
from bot.intents import Answer, CheckRun, Comment, CommentRef, Push, Reaction, dump_intent, name_of
from bot.publish import Place, Published, Publisher, concluded
from bot.store import LostFence, Outbox, Store
from bot.store.runs import Ceilings, Person, Repository, Run

REPO, NUMBER, BOT, HEAD = "harbour/tide", 12, 4242, "a" * 40
URL = "https://github.example"


class Killed(BaseException):
    """Stands for the death of the process."""


@dataclass
class Hub:
    """A GitHub of check runs, comments and reactions, behind the methods that verbs.py calls."""

    checks: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    reactions: set[tuple[int, str]] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)
    instrument: Callable[[str], Awaitable[None]] | None = None
    _ids: count[int] = field(default_factory=lambda: count(1))

    @property
    def github(self) -> GitHub:
        return cast("GitHub", self)

    def say(self, user: int, body: str) -> int:
        number = next(self._ids)
        self.comments[number] = {
            "id": number,
            "body": body,
            "user": {"id": user, "login": f"user{user}"},
            "html_url": f"{URL}/{REPO}/pull/{NUMBER}#{number}",
        }
        return number

    async def get(self, path: str, **query: str | int) -> Any:
        raise AssertionError(path)

    async def pages(self, path: str, *, key: str = "items", **query: str | int) -> list[Any]:
        await self._point(f"before list {path}")
        if path.endswith("/comments"):
            return [dict(each) for each in self.comments.values()]
        return [dict(each) for each in self.checks.values() if each["name"] == query["check_name"]]

    async def post(self, path: str, data: Mapping[str, Any]) -> Any:
        await self._point(f"before post {path}")
        self.writes.append(f"post {path}")
        if path.endswith("/check-runs"):
            number = next(self._ids)
            self.checks[number] = {"id": number, "html_url": f"{URL}/runs/{number}", "annotations": [], "history": []}
            answer = self._change(number, data)
        elif path.endswith("/reactions"):
            target = int(path.split("/")[-2])
            self.reactions.add((target, data["content"]))
            answer = {"id": 1}
        else:
            answer = dict(self.comments[self.say(BOT, data["body"])])
        await self._point(f"after post {path}")
        return answer

    async def patch(self, path: str, data: Mapping[str, Any]) -> Any:
        await self._point(f"before patch {path}")
        number = int(path.rsplit("/", 1)[1])
        known = self.checks if "check-runs" in path else self.comments
        if number not in known:
            raise NotFound(404, "Not Found")
        self.writes.append(f"patch {path}")
        if known is self.checks:
            answer = self._change(number, data)
        else:
            self.comments[number] |= data
            answer = dict(self.comments[number])
        await self._point(f"after patch {path}")
        return answer

    def _change(self, number: int, data: Mapping[str, Any]) -> Any:
        check = self.checks[number]
        assert check.get("status") != "completed", "a completed check run is never changed"
        fields = dict(data)
        output = dict(fields.pop("output"))
        annotations = output.pop("annotations", [])
        assert len(annotations) <= 50
        check["annotations"] += annotations
        output["annotations_count"] = len(check["annotations"])
        check["history"].append(fields["status"])
        check |= fields | {"output": output}
        return dict(check)

    async def _point(self, name: str) -> None:
        if self.instrument is not None:
            await self.instrument(name)


@dataclass
class Points:
    """Every point at which the process may die: the one with the number `fatal` kills it."""

    fatal: int | None = None
    passed: int = 0

    async def __call__(self, name: str) -> None:
        self.passed += 1
        if self.passed - 1 == self.fatal:
            raise Killed(name)


class TappedOutbox:
    """The real outbox, with a point before and after each call."""

    def __init__(self, outbox: Outbox, points: Points) -> None:
        self._outbox = outbox
        self._points = points

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            await self._points(f"before {name}")
            answer = await getattr(self._outbox, name)(*arguments)
            await self._points(f"after {name}")
            return answer

        return call


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def run(store: Store) -> Run:
    made = Run(
        id="w5j1r6kd",
        kind="review",
        created_at=datetime(2026, 12, 1, tzinfo=UTC),
        installation_id=7,
        repository=Repository(id=100, full_name=REPO),
        number=NUMBER,
        title="",
        body="",
        head_sha=HEAD,
        head_ref="retry",
        base_ref="main",
        own_base="main",
        authority=Person(id=5, login="mara"),
        requester=None,
        source=None,
        seats={},
        ceilings=Ceilings(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
    )
    await store.runs.claim(made, "text")
    return made


@pytest.fixture
async def publisher(store: Store, hub: Hub, run: Run) -> Publisher:
    fence = await store.runs.begin_attempt(run.id)
    return Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT), run=run.id, fence=fence)


def check(status: Any = "in_progress", **fields: Any) -> CheckRun:
    made: dict[str, Any] = {
        "run": "w5j1r6kd",
        "name": "codex-debate",
        "head_sha": HEAD,
        "status": status,
        "conclusion": "success" if status == "completed" else None,
        "title": f"It is {status}",
        "summary": "A table",
    }
    return CheckRun(**(made | fields))


def comment(body: str = "round 1", slot: int = 0) -> Comment:
    return Comment("w5j1r6kd", slot, f"{body} · run `w5j1r6kd`")


def annotation(line: int) -> dict[str, Any]:
    return {"path": "tide.py", "start_line": line, "end_line": line, "annotation_level": "warning", "message": "m"}


PUSH = Push("w5j1r6kd", "/1", "refs/heads/codex-debate/pr-12/w5j1r6kd", "a" * 40, "b" * 40, b"PACK\x00\xff", b"{}")


# ---- Each kind ------------------------------------------------------------------------------------------------------


async def test_a_reaction_and_an_answer_are_given_once(store: Store, hub: Hub) -> None:
    asked = hub.say(5, "/codex-debate --fast")
    bot = Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT))
    for _ in range(2):
        await bot.publish(Reaction(CommentRef(REPO, asked), "eyes"))
        said = await bot.publish(Answer(str(asked), NUMBER, "Unknown flag `--fast`", after=asked))
    assert hub.reactions == {(asked, "eyes")}
    assert [each["body"] for each in hub.comments.values()] == ["/codex-debate --fast", "Unknown flag `--fast`"]
    assert said == Published(2, f"{URL}/{REPO}/pull/{NUMBER}#2")
    assert len(hub.writes) == 2


async def test_the_same_answer_to_two_commands_is_given_twice(store: Store, hub: Hub) -> None:
    bot = Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT))
    for _ in range(2):
        asked = hub.say(5, "/codex-debate help")
        await bot.publish(Answer(str(asked), NUMBER, "The commands", after=asked))
    assert [each["body"] for each in hub.comments.values()].count("The commands") == 2


async def test_an_answer_that_was_written_and_not_recorded_is_found_again(store: Store, hub: Hub) -> None:
    earlier = hub.say(BOT, "The commands")
    asked = hub.say(5, "/codex-debate help")
    hub.say(5, "The commands")  # somebody else's words
    intent = Answer(str(asked), NUMBER, "The commands", after=asked)
    bot = Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT))

    async def time_out(name: str) -> None:
        if name.startswith("after post"):
            raise Unavailable(0, "no answer in time")

    hub.instrument = time_out
    with pytest.raises(Unavailable):
        await bot.publish(intent)
    assert await store.outbox.pending(None) == (name_of(intent),)
    hub.instrument = None
    found = await bot.publish(intent)
    assert found.id not in {None, earlier}
    own = [each for each in hub.comments.values() if each["user"]["id"] == BOT]
    assert [each["id"] for each in own] == [earlier, found.id]
    assert await store.outbox.pending(None) == ()


async def test_a_check_run_is_created_once_then_updated_and_completed_once(publisher: Publisher, hub: Hub) -> None:
    first = await publisher.publish(check("queued"))
    assert await publisher.publish(check("queued")) == first
    await publisher.publish(check(text="minute 1"))
    await publisher.publish(check("completed", actions=({"label": "Run again"},)))
    assert await publisher.publish(check("completed", conclusion="failure")) == first
    assert await publisher.publish(check("in_progress")) == first
    (only,) = hub.checks.values()
    assert only["history"] == ["queued", "in_progress", "completed"]
    assert (only["conclusion"], only["external_id"], only["head_sha"]) == ("success", "w5j1r6kd", HEAD)
    assert only["actions"] == [{"label": "Run again"}]
    assert first == Published(1, f"{URL}/runs/1")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_first_conclusion_stands_though_it_failed_to_arrive(
    publisher: Publisher, hub: Hub, when: str
) -> None:
    await publisher.publish(check())

    async def time_out(name: str) -> None:
        if name.startswith(f"{when} patch"):
            raise Unavailable(0, "no answer in time")

    hub.instrument = time_out
    with pytest.raises(Unavailable):
        await publisher.publish(check("completed", conclusion="success"))
    hub.instrument = None
    await publisher.publish(check(text="minute 2"))
    await publisher.publish(check("completed", conclusion="failure"))
    (only,) = hub.checks.values()
    assert (only["conclusion"], only["history"]) == ("success", ["in_progress", "completed"])


async def test_another_apps_check_run_of_the_same_name_is_not_ours(publisher: Publisher, hub: Hub) -> None:
    await hub.post(
        f"/repos/{REPO}/check-runs", {"name": "codex-debate", "head_sha": HEAD, "status": "queued", "output": {}}
    )
    await publisher.publish(check())
    assert [each.get("external_id") for each in hub.checks.values()] == [None, "w5j1r6kd"]


async def test_annotations_go_in_batches_and_each_once(publisher: Publisher, hub: Hub, store: Store) -> None:
    await publisher.publish(check(annotations=tuple(annotation(line) for line in range(10))))
    calls = 0

    async def fail_third(name: str) -> None:
        nonlocal calls
        calls += name.startswith("before patch")
        if calls == 3:
            raise Unavailable(502, "Bad gateway")

    hub.instrument = fail_third
    last = check("completed", annotations=tuple(annotation(line) for line in range(130)))
    with pytest.raises(Unavailable):
        await publisher.publish(last)
    (only,) = hub.checks.values()
    assert only["status"] == "in_progress"
    hub.instrument = None
    await publisher.publish(last)
    (only,) = hub.checks.values()
    assert [each["start_line"] for each in only["annotations"]] == list(range(130))
    assert only["history"] == ["in_progress", "in_progress", "in_progress", "completed"]
    assert await store.outbox.pending("w5j1r6kd") == ()


async def test_a_result_that_github_does_not_take_is_told_without_its_parts(publisher: Publisher, hub: Hub) -> None:
    """A check run that stayed open would hold a merge for ever."""
    await publisher.publish(check())

    async def refuses(point: str) -> None:
        if point.startswith("before patch") and hub.writes.count("refused") == 0:
            hub.writes.append("refused")
            raise GitHubError(422, "Invalid annotation")

    hub.instrument = refuses
    await publisher.publish(check("completed", text="words", annotations=tuple(annotation(line) for line in range(60))))
    (only,) = hub.checks.values()
    assert (only["status"], only["conclusion"], only["annotations"]) == ("completed", "success", [])
    assert only["output"]["summary"].startswith("GitHub did not take the whole result: `Invalid annotation`.")
    assert "text" not in only["output"]
    hub.writes.clear()
    await publisher.publish(check("completed", text="words"))
    assert hub.writes == [], "it is done"


@pytest.mark.threat("R24")
async def test_a_check_run_that_is_gone_is_created_anew(publisher: Publisher, hub: Hub) -> None:
    await publisher.publish(check())
    hub.checks.clear()
    await publisher.publish(check("completed"))
    (only,) = hub.checks.values()
    assert (only["history"], only["external_id"]) == (["completed"], "w5j1r6kd")


async def test_a_comment_is_created_once_and_sent_when_its_bytes_change(publisher: Publisher, hub: Hub) -> None:
    first = await publisher.publish(comment())
    assert await publisher.publish(comment()) == first
    assert await publisher.publish(comment("round 2")) == first
    assert [each["body"] for each in hub.comments.values()] == ["round 2 · run `w5j1r6kd`"]
    assert len(hub.writes) == 2


@pytest.mark.threat("T28", 144)
async def test_a_comment_of_another_with_our_marks_is_left_alone(publisher: Publisher, hub: Hub) -> None:
    forged = hub.say(5, comment().body)
    other_run = hub.say(BOT, "round 1 · run `zzzzzzzz`")
    made = await publisher.publish(comment("round 2"))
    assert made.id not in {forged, other_run}
    assert hub.comments[forged]["body"] == comment().body


@pytest.mark.threat("R22")
async def test_a_deleted_comment_is_written_once_more(publisher: Publisher, hub: Hub) -> None:
    first = await publisher.publish(comment())
    hub.comments.clear()
    second = await publisher.publish(comment("round 2"))
    assert await publisher.publish(comment("round 2")) == second
    assert (len(hub.comments), second.id) != (1, first.id)


async def test_further_comments_are_not_taken_for_the_first(store: Store, hub: Hub, run: Run) -> None:
    """Both were written, and the store forgot: each slot finds its own again, in their order."""
    place = Place(REPO, NUMBER, BOT)
    first, second = hub.say(BOT, comment("one").body), hub.say(BOT, comment("two").body)
    publisher = Publisher(store.outbox, hub.github, place, run=run.id, fence=0)
    assert (await publisher.publish(comment("one"))).id == first
    assert (await publisher.publish(comment("two!", slot=1))).id == second
    assert len(hub.comments) == 2


async def test_calls_for_the_same_thing_wait_for_each_other(publisher: Publisher, hub: Hub) -> None:
    async def slowly(name: str) -> None:
        await asyncio.sleep(0)

    hub.instrument = slowly
    await asyncio.gather(*(publisher.publish(check(text=f"minute {n}")) for n in range(5)))
    await asyncio.gather(*(publisher.publish(comment(f"round {n}")) for n in range(5)))
    assert (len(hub.checks), len(hub.comments)) == (1, 1)


async def test_a_push_is_stored_with_its_reply_and_done_once(store: Store, hub: Hub, run: Run) -> None:
    pushed: list[Push] = []

    async def push(intent: Push) -> str:
        pushed.append(intent)
        if len(pushed) == 1:
            raise Unavailable(0, "the connection broke")
        return ""

    publisher = Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT), run=run.id, fence=0, push=push)
    assert await publisher.stored_push("/1") is None
    with pytest.raises(Unavailable):
        await publisher.publish(PUSH)
    assert await publisher.stored_push("/1") == PUSH
    # The author is not asked again: what another turn made of the step is not what is pushed.
    await publisher.publish(replace(PUSH, new="c" * 40))
    await publisher.publish(PUSH)
    assert pushed == [PUSH, PUSH]
    assert await publisher.stored_push("/1") == PUSH
    assert await store.outbox.pending(run.id) == ()


async def test_a_commit_that_is_not_pushed_is_kept(publisher: Publisher) -> None:
    kept = replace(PUSH, ref=None)
    await publisher.publish(kept)
    assert await publisher.stored_push("/1") == kept
    with pytest.raises(ValueError, match="no way to push"):
        await publisher.publish(replace(PUSH, path="/3"))


# ---- Fences and deaths ----------------------------------------------------------------------------------------------


@pytest.mark.threat("R5")
async def test_an_older_attempt_does_nothing(publisher: Publisher, store: Store, hub: Hub, run: Run) -> None:
    pushed: list[Push] = []

    async def push(intent: Push) -> str:
        pushed.append(intent)
        return ""

    publisher.push = push
    await store.runs.begin_attempt(run.id)
    for intent in (check(), comment(), PUSH):
        with pytest.raises(LostFence):
            await publisher.publish(intent)
    assert (hub.writes, pushed) == ([], [])


@pytest.mark.threat("R5")
async def test_an_attempt_that_is_overtaken_while_it_looks_writes_nothing(
    publisher: Publisher, store: Store, hub: Hub, run: Run
) -> None:
    async def overtake(name: str) -> None:
        await store.runs.begin_attempt(run.id)

    for intent in (check(), comment()):
        publisher.fence = await store.runs.begin_attempt(run.id)
        hub.instrument = overtake
        with pytest.raises(LostFence):
            await publisher.publish(intent)
    assert hub.writes == []


async def test_what_is_pending_is_carried_out_by_the_next_attempt(
    publisher: Publisher, store: Store, hub: Hub, run: Run
) -> None:
    async def away(name: str) -> None:
        raise Unavailable(503, "away")

    async def push(intent: Push) -> str:
        raise AssertionError("a push is its step's part")

    hub.instrument = away
    for intent in (check(), check("completed"), comment()):
        with pytest.raises(Unavailable):
            await publisher.publish(intent)
    await store.outbox.put(name_of(PUSH), dump_intent(PUSH), publisher._by)
    hub.instrument = None
    fence = await store.runs.begin_attempt(run.id)
    following = Publisher(store.outbox, hub.github, Place(REPO, NUMBER, BOT), run=run.id, fence=fence, push=push)
    await following.resume()
    assert [each["status"] for each in hub.checks.values()] == ["completed"]
    assert [each["body"] for each in hub.comments.values()] == [comment().body]
    assert await store.outbox.pending(run.id) == (name_of(PUSH),)


# ---- What a run that has ended left ---------------------------------------------------------------------------------


@pytest.mark.threat("R13")
async def test_what_an_ended_run_left_is_carried_out_later_and_its_pushes_never(
    publisher: Publisher, store: Store, hub: Hub, run: Run
) -> None:
    async def away(name: str) -> None:
        raise Unavailable(503, "away")

    await publisher.intend(check("completed"))
    await publisher.intend(comment())
    await store.outbox.put(name_of(PUSH), dump_intent(PUSH), publisher._by)
    assert (hub.writes, await store.outbox.unsent()) == ([], (run.id,))
    hub.instrument = away
    with pytest.raises(Unavailable):
        await publisher.settle()
    hub.instrument = None
    await publisher.settle()
    assert [each["status"] for each in hub.checks.values()] == ["completed"]
    assert [each["body"] for each in hub.comments.values()] == [comment().body]
    assert (await store.outbox.pending(run.id), await store.outbox.unsent()) == ((), ())
    assert (await publisher.publish(PUSH)).refused == "the debate had ended"
    writes = len(hub.writes)
    await publisher.settle()
    assert len(hub.writes) == writes


@pytest.mark.parametrize("error", [NotFound(404, "gone"), GitHubError(422, "No commit found for SHA"), None])
async def test_what_fails_keeps_nothing_else_waiting(
    publisher: Publisher, store: Store, hub: Hub, run: Run, error: GitHubError | None
) -> None:
    """What GitHub has no place for any more is not tried for ever; what it refuses today is."""

    async def refuses(name: str) -> None:
        if "comments" in name:
            raise error or Forbidden(403, "locked")

    await publisher.intend(comment())
    await publisher.intend(check("completed"))
    hub.instrument = refuses
    if error is None:
        with pytest.raises(Forbidden):
            await publisher.settle()
    else:
        await publisher.settle()
    assert [each["status"] for each in hub.checks.values()] == ["completed"]
    assert await store.outbox.unsent() == (() if error else (run.id,))


async def test_words_that_may_not_be_shown_are_taken_out(publisher: Publisher, hub: Hub) -> None:
    await publisher.intend(check("completed"))
    await publisher.intend(comment())
    await publisher.settle(lambda intent: replace(intent, summary="hidden", text=""))
    (shown,) = hub.checks.values()
    assert (shown["status"], shown["output"]["summary"]) == ("completed", "hidden")
    assert hub.comments == {}


async def test_a_conclusion_that_waits_is_not_replaced(publisher: Publisher, hub: Hub) -> None:
    await publisher.intend(replace(check("completed"), title="first"))
    await publisher.intend(replace(check("completed"), title="second"))
    await publisher.settle()
    assert [each["output"]["title"] for each in hub.checks.values()] == ["first"]


async def test_whether_a_check_run_was_concluded_is_on_record(publisher: Publisher, store: Store, run: Run) -> None:
    name = check().name
    assert not await concluded(store.outbox, run.id, name)
    await publisher.publish(check())
    assert not await concluded(store.outbox, run.id, name)
    await publisher.publish(check("completed"))
    assert await concluded(store.outbox, run.id, name)


@pytest.mark.threat("R27")
async def test_a_push_that_was_refused_is_not_tried_again(publisher: Publisher, store: Store, run: Run) -> None:
    asked: list[Push] = []

    async def push(intent: Push) -> str:
        asked.append(intent)
        return "GH006: protected"

    publisher.push = push
    for _ in range(2):
        assert (await publisher.publish(PUSH)).refused == "GH006: protected"
    assert len(asked) == 1
    assert await store.outbox.unsent() == ()


@dataclass
class Life:
    """A run's publishing from its queued check run to its end, in as many attempts as it takes."""

    store: Store
    hub: Hub
    run: Run
    pushed: set[str] = field(default_factory=set)

    async def attempt(self, points: Points) -> None:
        fence = await self.store.runs.begin_attempt(self.run.id)
        outbox = cast("Outbox", TappedOutbox(self.store.outbox, points))
        self.hub.instrument = points

        async def push(intent: Push) -> str:
            await points("before push")
            self.pushed.add(intent.new)
            await points("after push")
            return ""

        publisher = Publisher(
            outbox, self.hub.github, Place(REPO, NUMBER, BOT), run=self.run.id, fence=fence, push=push
        )
        await publisher.resume()
        await publisher.publish(check("queued"))
        await publisher.publish(check(text="minute 1"))
        await publisher.publish(await publisher.stored_push("/1") or PUSH)
        await publisher.publish(comment("round 1"))
        await publisher.publish(comment("more of round 1", slot=1))
        await publisher.publish(comment("round 2"))
        await publisher.publish(check("completed", annotations=tuple(annotation(line) for line in range(120))))

    def seen(self) -> object:
        """Return what people see at the end."""
        fleeting = {"id", "html_url", "history"}
        checks = [{k: v for k, v in each.items() if k not in fleeting} for each in self.hub.checks.values()]
        completions = [each["history"].count("completed") for each in self.hub.checks.values()]
        return checks, completions, [each["body"] for each in self.hub.comments.values()], self.pushed


@pytest.mark.threat("R1")
async def test_a_death_at_any_point_ends_in_the_same_state(store: Store, run: Run, valkey_url: str) -> None:
    undisturbed = Life(store, Hub(), run)
    counting = Points()
    await undisturbed.attempt(counting)
    assert counting.passed > 50
    redis = Redis.from_url(valkey_url)
    for fatal in range(counting.passed):
        await redis.flushall()
        await store.runs.claim(run, "text")
        life = Life(store, Hub(), run)
        with pytest.raises(Killed):
            await life.attempt(Points(fatal))
        await life.attempt(Points())
        assert life.seen() == undisturbed.seen(), f"died at point {fatal}"
    await redis.aclose()
