"""Limits in all their shapes, and who waits for them: one installation, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bot.github import Clock, Forbidden, GitHub, GitHubError, Unavailable
from bot.github.limits import (
    AT_ONCE,
    LIMITED_MOST,
    PATIENCE_SECONDS,
    TRIES,
    WRITES,
    Lane,
    Traffic,
    asked_to_wait,
    pause,
    spent,
)
from bot.github.wire import Answer, NoAnswer
from bot.store import Store, StoreAway
from bot.store.pace import Turn
from deploy.store import EmbeddedStore

NOW = 1_800_000_000.0
SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}'
ABUSE = b'{"message": "You have triggered an abuse detection mechanism."}'
PRIMARY = b'{"message": "API rate limit exceeded for installation ID 7."}'
DATE = "Fri, 15 Jan 2027 08:10:00 GMT"
"""600 s after NOW."""


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def primary(status: int, reset: float, **more: str) -> Answer:
    return answer(status, PRIMARY, x_ratelimit_remaining="0", x_ratelimit_reset=str(int(reset)), **more)


# ---- Reading --------------------------------------------------------------------------------------------------------


@pytest.mark.threat("R12")
@pytest.mark.parametrize("status", [403, 429])
def test_a_primary_limit_lasts_until_its_reset_by_githubs_clock(status: int) -> None:
    assert asked_to_wait(primary(status, NOW + 900), NOW) == 901
    assert asked_to_wait(primary(status, NOW + 900, date=DATE), NOW) == 301
    assert asked_to_wait(primary(status, NOW - 900), NOW) == 1
    assert asked_to_wait(primary(status, NOW + 10**9), NOW) == LIMITED_MOST == 3600


@pytest.mark.threat("R12")
@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("body", [b"", SECONDARY, PRIMARY])
def test_retry_after_is_taken_at_its_word(status: int, body: bytes) -> None:
    assert asked_to_wait(answer(status, body, retry_after="7"), NOW) == 7
    assert asked_to_wait(answer(status, body, retry_after="0"), NOW) == 1
    dated = answer(status, body, retry_after="Fri, 15 Jan 2027 08:11:30 GMT", date=DATE)
    assert asked_to_wait(dated, NOW) == 90
    both = answer(status, body, retry_after="7", x_ratelimit_remaining="0", x_ratelimit_reset=str(int(NOW + 900)))
    assert asked_to_wait(both, NOW) == 7


@pytest.mark.threat("R12")
@pytest.mark.parametrize(
    "limited",
    [
        answer(403, SECONDARY),
        answer(403, ABUSE),
        answer(403, PRIMARY),
        answer(429),
        answer(429, b"<html>"),
        answer(429, retry_after="soon"),
        answer(403, SECONDARY, x_ratelimit_remaining="4000", x_ratelimit_reset="1800000900"),
    ],
)
def test_without_a_word_on_how_long_it_is_a_minute_and_then_twice_as_long_each_time(limited: Answer) -> None:
    assert [asked_to_wait(limited, NOW, before=before) for before in range(3)] == [60, 120, 240]
    assert asked_to_wait(limited, NOW, before=50) == 3600


@pytest.mark.parametrize(
    "refusal",
    [
        answer(403),
        answer(403, b'{"message": "Resource not accessible by integration"}'),
        answer(403, b'{"message": "Resource not accessible", "url": "/repos/o/rate limit"}'),
        answer(403, b"<p>rate limit</p>"),
        answer(403, b'["rate limit"]'),
        answer(403, x_ratelimit_remaining="4999", x_ratelimit_reset="1800000900"),
        answer(200, SECONDARY, retry_after="7"),
        answer(500, SECONDARY, retry_after="7"),
        answer(404, PRIMARY),
    ],
)
def test_what_is_no_limit(refusal: Answer) -> None:
    assert asked_to_wait(refusal, NOW) is None


def test_the_last_answer_before_a_primary_limit_is_known_by_its_headers() -> None:
    last: Any = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(NOW + 50))}
    assert spent(answer(200, **last), NOW) == 51
    assert spent(answer(404, **last, x_ratelimit_resource="core"), NOW) == 51
    assert spent(answer(200, **last, x_ratelimit_resource="search"), NOW) is None
    assert spent(answer(200, **{**last, "x_ratelimit_remaining": "1"}), NOW) is None
    assert spent(answer(200), NOW) is None


def test_the_table_of_retries() -> None:
    lost, unsent = NoAnswer("lost"), NoAnswer("unsent", unsent=True)
    assert pause("GET", 1, lost, limited=None) == 0.5
    assert pause("GET", 2, lost, limited=None) == 1.0
    assert pause("GET", TRIES, lost, limited=None) is None
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        assert pause(method, 1, lost, limited=None) is None
        assert pause(method, 1, answer(500), limited=None) is None
        assert pause(method, 1, answer(503, retry_after="1"), limited=None) is None
        assert pause(method, 1, unsent, limited=None) == 0.5
        assert pause(method, 1, answer(403), limited=2.0) == 2.0
    assert pause("GET", 1, NoAnswer("x", unsent=True, lasting=True), limited=None) is None
    assert pause("GET", 1, answer(403), limited=PATIENCE_SECONDS + 1) is None
    assert pause("GET", 1, answer(502), limited=None) == 0.5
    assert pause("GET", 1, answer(503, retry_after="3"), limited=None) == 3.0
    assert pause("GET", 1, answer(503, retry_after="30"), limited=None) is None
    assert pause("GET", 1, answer(404), limited=None) is None
    assert pause("GET", 1, answer(200), limited=None) is None


# ---- Waiting --------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """A pacer that gives the turns it was told to, and notes what it is asked and told."""

    turns: list[Turn] = field(default_factory=list)
    asked: list[tuple[str, float]] = field(default_factory=list)
    held: list[tuple[str, float]] = field(default_factory=list)

    async def turn(self, name: str, windows: tuple[tuple[int, float], ...], *, most: float) -> Turn:
        assert windows == WRITES.windows
        self.asked.append((name, most))
        return self.turns.pop(0) if self.turns else Turn(taken=True, wait=0.0)

    async def hold(self, name: str, seconds: float) -> None:
        self.held.append((name, seconds))


Client = Callable[..., GitHub]


@pytest.fixture
def traffic(pauses: Any) -> Traffic:
    return Traffic(pauses.clock())


@pytest.fixture
def client(server: Any, session: aiohttp.ClientSession, pauses: Any) -> Client:
    """Make a client of an installation, by its lane."""

    async def credential(_refused: str | None) -> str:
        return "t"

    return lambda lane: GitHub(session, server.url, credential, clock=pauses.clock(), lane=lane)


async def test_a_short_limit_is_waited_out_also_by_writes(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [
        server.says(403, {"message": "secondary"}, retry_after="3"),
        server.says(429, retry_after="1"),
        server.says(201, {"id": 1}),
    ]
    assert await github.post("/x", {}) == {"id": 1}
    assert pauses.slept == [3.0, 1.0]


async def test_a_limit_that_is_met_again_and_again_is_the_callers_to_plan(
    server: Any, github: GitHub, pauses: Any
) -> None:
    server.answers = [server.says(429, retry_after="2")]
    with pytest.raises(Unavailable) as caught:
        await github.post("/x", {})
    assert (caught.value.status, caught.value.retry_after) == (429, 2.0)
    assert len(server.heard) == TRIES
    assert pauses.slept == [2.0, 2.0]


@pytest.mark.parametrize(
    ("status", "message", "headers", "wait"),
    [
        (403, "API rate limit exceeded", {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1800000300"}, 301),
        (429, "API rate limit exceeded", {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1800000300"}, 301),
        (403, "You have exceeded a secondary rate limit", {"retry_after": "30"}, 30),
        (429, "", {"retry_after": "30"}, 30),
        (403, "You have exceeded a secondary rate limit", {}, 60),
        (429, "", {}, 60),
    ],
)
async def test_a_long_limit_is_the_callers_to_plan_and_until_then_nothing_is_sent(
    server: Any, client: Client, traffic: Traffic, pauses: Any, *, status: int, message: str, headers: Any, wait: float
) -> None:
    # The server's own Date is the real one: these answers say it as GitHub of that time would.
    headers = {**headers, "date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    server.answers = [server.says(status, {"message": message}, **headers), server.says(200, {"a": 1})]
    github, twin, other = client(traffic.lane(7)), client(traffic.lane(7)), client(traffic.lane(8))
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert (caught.value.status, caught.value.retry_after) == (status, wait)
    pauses.time += wait - PATIENCE_SECONDS - 1
    for call in (github.get("/x"), github.post("/x", {}), twin.get("/y")):
        with pytest.raises(Unavailable) as caught:
            await call
        assert caught.value.retry_after == PATIENCE_SECONDS + 1
    assert len(server.heard) == 1
    assert await other.get("/x") == {"a": 1}
    assert pauses.slept == []
    pauses.time += 1
    assert await twin.get("/x") == {"a": 1}  # what is left is short enough to be waited out
    assert pauses.slept == [PATIENCE_SECONDS]
    assert await github.get("/x") == {"a": 1}
    assert pauses.slept == [PATIENCE_SECONDS]


async def test_a_refusal_that_is_no_limit_is_one_at_once(server: Any, client: Client, traffic: Traffic) -> None:
    server.answers = [server.says(403, {"message": "Resource not accessible by integration"})]
    github = client(traffic.lane(7))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await github.get("/x")
    assert len(server.heard) == 2


async def test_secondary_limits_in_a_row_double_and_a_success_ends_the_row(
    server: Any, client: Client, traffic: Traffic, pauses: Any
) -> None:
    github = client(traffic.lane(7))
    server.answers = [
        *(server.says(429) for _ in range(3)),
        server.says(200, {}),
        server.says(403, {"message": "secondary rate limit"}),
    ]
    waits = []
    for _ in range(5):
        try:
            await github.get("/x")
        except Unavailable as limited:
            waits.append(limited.retry_after)
            pauses.time += limited.retry_after or 0
    assert waits == [60, 120, 240, 60]


async def test_answers_to_requests_that_were_under_way_together_are_one_limit(traffic: Traffic, pauses: Any) -> None:
    lane = traffic.lane(7)
    assert [await lane.learn(answer(429)) for _ in range(3)] == [60, 60, 60]
    pauses.time += 60
    assert [await lane.learn(answer(429)) for _ in range(3)] == [120, 120, 120]
    pauses.time += 120
    assert await lane.learn(answer(200)) is None
    assert await lane.learn(answer(429)) == 60


async def test_the_last_request_of_the_hour_closes_the_lane_before_github_has_to(
    server: Any, client: Client, traffic: Traffic, pauses: Any
) -> None:
    date = "Fri, 15 Jan 2027 08:00:00 GMT"
    server.answers = [server.says(200, {}, x_ratelimit_remaining="0", x_ratelimit_reset="1800000100", date=date)]
    github = client(traffic.lane(7))
    assert await github.get("/x") == {}
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert caught.value.retry_after == 101
    assert len(server.heard) == 1


async def test_no_wait_grows_when_our_clock_is_set_back(traffic: Traffic, pauses: Any) -> None:
    lane = traffic.lane(7)
    await lane.learn(answer(429, retry_after="30"))
    pauses.time -= 86400
    with pytest.raises(Unavailable) as caught:
        lane.check()
    assert caught.value.retry_after == 30


async def test_a_server_error_may_say_when_to_come_back(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [server.says(503, retry_after="4"), server.says(200, {"a": 1})]
    assert await github.get("/x") == {"a": 1}
    assert pauses.slept == [4.0]
    server.answers = [server.says(503, retry_after="40")]
    with pytest.raises(Unavailable) as caught:
        await github.post("/x", {})
    assert (caught.value.status, caught.value.retry_after) == (503, 40.0)


async def test_so_many_requests_are_under_way_at_once_and_no_more(
    server: Any, client: Client, traffic: Traffic
) -> None:
    under_way, most, go_on = 0, 0, asyncio.Event()

    async def slow(_request: web.Request, _body: bytes) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == AT_ONCE:
            go_on.set()
        await go_on.wait()
        await asyncio.sleep(0)
        under_way -= 1
        return web.json_response({})

    server.answers = [slow]
    await asyncio.gather(*(client(traffic.lane(number % 3)).get("/x") for number in range(3 * AT_ONCE)))
    assert len(server.heard) == 3 * AT_ONCE
    assert most == AT_ONCE < 100


async def test_what_stands_in_the_queue_is_not_sent_after_a_limit(
    server: Any, client: Client, traffic: Traffic
) -> None:
    github = client(traffic.lane(7))
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def limits(_request: web.Request, _body: bytes) -> web.StreamResponse:
        if len(server.heard) == AT_ONCE:
            arrived.set()
        await go_on.wait()
        return web.json_response({}, status=429)

    server.answers = [limits]
    calls = [asyncio.create_task(github.get(f"/{number}")) for number in range(AT_ONCE + 20)]
    await arrived.wait()
    go_on.set()
    said = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in said)
    assert len(server.heard) == AT_ONCE


# ---- Turns to write -------------------------------------------------------------------------------------------------


async def test_writes_of_an_installation_take_turns_and_nothing_else_does(
    server: Any, client: Client, pauses: Any
) -> None:
    told = Told()
    traffic = Traffic(pauses.clock(), told)
    server.answers = [server.says(200, {})]
    github = client(traffic.lane(7))
    await github.get("/x")
    await github.pages("/x")
    await client(traffic.lane(None)).post("/app/installations/7/access_tokens", {})
    assert told.asked == []
    for call in (github.post("/x", {}), github.patch("/x", {}), github.delete("/x")):
        await call
    assert told.asked == [("writes/7", PATIENCE_SECONDS)] * 3
    assert pauses.slept == []


async def test_a_turn_that_is_near_is_waited_for(server: Any, client: Client, pauses: Any) -> None:
    told = Told([Turn(taken=True, wait=4.0)])
    server.answers = [server.says(201, {"id": 1})]
    assert await client(Traffic(pauses.clock(), told).lane(7)).post("/x", {}) == {"id": 1}
    assert pauses.slept == [4.0]


async def test_a_turn_that_is_far_off_is_the_callers_to_plan(server: Any, client: Client, pauses: Any) -> None:
    told = Told([Turn(taken=False, wait=44.0)])
    server.answers = [server.says(201, {"id": 1})]
    with pytest.raises(Unavailable, match="writes no more to GitHub for 44 s") as caught:
        await client(Traffic(pauses.clock(), told).lane(7)).post("/x", {})
    assert caught.value.retry_after == 44.0
    assert (server.heard, pauses.slept) == ([], [])


async def test_a_limit_that_begins_while_a_write_waits_for_its_turn_stops_it(
    server: Any, client: Client, pauses: Any
) -> None:
    told = Told([Turn(taken=True, wait=4.0)])
    lane: Lane

    async def sleep(seconds: float) -> None:
        pauses.time += seconds
        await lane.learn(answer(429))

    lane = Traffic(Clock(now=lambda: pauses.time, sleep=sleep, jitter=lambda: 0.0), told).lane(7)
    with pytest.raises(Unavailable):
        await client(lane).post("/x", {})
    assert server.heard == []


async def test_other_processes_learn_of_a_limit(server: Any, client: Client, pauses: Any) -> None:
    told = Told()
    server.answers = [server.says(429, retry_after="50")]
    with pytest.raises(Unavailable):
        await client(Traffic(pauses.clock(), told).lane(7)).get("/x")
    assert told.held == [("writes/7", 50.0)]


@pytest.mark.threat("R12")
async def test_two_processes_around_one_store_write_sixty_times_a_minute_together(
    server: Any, client: Client, pauses: Any, store: Store
) -> None:
    server.answers = [server.says(201, {"id": 1})]
    processes = [client(Traffic(pauses.clock(), store.pace).lane(7)) for _ in range(2)]
    for number in range(60):
        await processes[number % 2].post("/x", {})
    for process in processes:
        with pytest.raises(Unavailable) as caught:
            await process.post("/x", {})
        assert PATIENCE_SECONDS < (caught.value.retry_after or 0) <= 60
        assert await process.get("/x") == {"id": 1}
    assert len([heard for heard in server.heard if heard.method == "POST"]) == 60
    other = client(Traffic(pauses.clock(), store.pace).lane(8))
    assert await other.post("/x", {}) == {"id": 1}


async def test_without_the_store_nothing_is_written_and_reads_go_on(
    server: Any, client: Client, pauses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.store.connection.PATIENCE", 0.2)
    server.answers = [server.says(201, {"id": 1})]
    async with EmbeddedStore(tmp_path) as url:
        store = await Store.connect(url)
        github = client(Traffic(pauses.clock(), store.pace).lane(7))
        await github.post("/x", {})
    with pytest.raises(StoreAway):
        await github.post("/x", {})
    assert await github.get("/x") == {"id": 1}
    server.answers = [server.says(429)]
    with pytest.raises(Unavailable):
        await github.get("/x")
    assert [heard.method for heard in server.heard] == ["POST", "GET", "GET"]
    await store.close()


async def test_a_limit_is_an_error_of_the_contract(server: Any, github: GitHub) -> None:
    server.answers = [server.says(429)]
    with pytest.raises(GitHubError, match="rate limit is reached for 60 s"):
        await github.get("/x")
