"""The wire: headers, retries, redirects, paging, errors."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import BaseModel

from bot.github import Forbidden, GitHub, GitHubError, NotFound, Unavailable
from bot.github.client import Answer, asked_to_wait, pause, understood


def says(status: int, data: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _request, _body: web.json_response({} if data is None else data, status=status, headers=named)


def drops(request: web.Request, _body: bytes) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def test_a_request_carries_what_github_asks_for(server: Any, github: GitHub) -> None:
    server.answers = [says(200, {"a": 1})]
    assert await github.get("/repos/o/r", q="a b") == {"a": 1}
    heard = server.heard[0]
    assert heard.path == "/api/v3/repos/o/r?q=a+b"
    assert heard.headers["Authorization"] == "Bearer first"
    assert heard.headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert "application/vnd.github+json" in heard.headers["Accept"]
    assert "Content-Type" not in heard.headers


async def test_writes_send_json(server: Any, github: GitHub) -> None:
    server.answers = [says(201, {"id": 1})]
    assert await github.post("/x", {"body": "é"}) == {"id": 1}
    assert await github.patch("/x", {"body": "b"}) == {"id": 1}
    assert await github.put("/x", {"body": "b"}) == {"id": 1}
    await github.delete("/x")
    assert [heard.method for heard in server.heard] == ["POST", "PATCH", "PUT", "DELETE"]
    assert json.loads(server.heard[0].body) == {"body": "é"}
    assert server.heard[0].headers["Content-Type"] == "application/json; charset=utf-8"


async def test_an_escaped_path_arrives_as_it_is(server: Any, github: GitHub) -> None:
    server.answers = [says(200)]
    await github.get("/repos/o/r/git/ref/heads/a%23b/%7Bc%7D")
    assert server.heard[0].path == "/api/v3/repos/o/r/git/ref/heads/a%23b/%7Bc%7D"


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (410, NotFound), (403, Forbidden), (401, GitHubError), (422, GitHubError)]
)
async def test_refusals_are_typed_and_not_repeated(server: Any, github: GitHub, status: int, kind: type) -> None:
    server.answers = [says(status, {"message": "No.", "errors": ["why"]})]
    with pytest.raises(kind) as caught:
        await github.get("/x")
    assert isinstance(caught.value, GitHubError)
    assert caught.value.status == status
    assert "No." in caught.value.message
    assert len(server.heard) == (2 if status == 401 else 1)


async def test_a_secret_in_an_answer_is_not_passed_on(server: Any, github: GitHub) -> None:
    server.answers = [says(422, {"message": "bad token ghs_123_eyJhbGciOiJ.eyJpc3MiOiIx.abc-def_ghi"})]
    with pytest.raises(GitHubError) as caught:
        await github.get("/x")
    assert "ghs_" not in str(caught.value)


async def test_reads_are_tried_three_times_with_growing_pauses(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [says(502), says(500), says(200, [1])]
    assert await github.get("/x") == [1]
    assert pauses.slept == [0.5, 1.0]
    server.answers = [says(503)]
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert caught.value.status == 503
    assert len(server.heard) == 6
    server.answers = [drops]
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert caught.value.status == 0


async def test_writes_that_may_have_been_done_are_not_repeated(server: Any, github: GitHub, pauses: Any) -> None:
    for answer in (says(502), drops):
        server.answers = [answer]
        with pytest.raises(Unavailable):
            await github.post("/x", {})
    assert len(server.heard) == 2
    assert pauses.slept == []


async def test_a_write_of_which_nothing_was_sent_is_repeated(session: aiohttp.ClientSession, pauses: Any) -> None:
    async def credential(_refused: str | None) -> str:
        return "t"

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        github = GitHub(session, f"http://127.0.0.1:{taken.getsockname()[1]}", credential, clock=pauses.clock())
        with pytest.raises(Unavailable) as caught:
            await github.post("/x", {})
    assert caught.value.status == 0
    assert pauses.slept == [0.5, 1.0]


async def test_a_short_rate_limit_is_waited_out_also_by_writes(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [
        says(403, {"message": "secondary"}, retry_after="3"),
        says(429, retry_after="1"),
        says(201, {"id": 1}),
    ]
    assert await github.post("/x", {}) == {"id": 1}
    assert pauses.slept == [3.0, 1.0]


async def test_a_long_rate_limit_is_the_callers_to_plan(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [says(403, {"message": "API rate limit exceeded"}, x_ratelimit_remaining="0")]
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert (caught.value.status, caught.value.retry_after) == (403, 60.0)
    assert pauses.slept == []


async def test_a_refused_token_is_replaced_once(server: Any, github: GitHub) -> None:
    server.answers = [says(401), says(201, {"id": 1})]
    assert await github.post("/x", {}) == {"id": 1}
    assert [heard.headers["Authorization"] for heard in server.heard] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_followed_with_the_same_method_and_body(server: Any, github: GitHub, status: int) -> None:
    server.answers = [says(status, location=f"{server.url}/api/v3/repositories/1/x"), says(201, {"id": 1})]
    assert await github.post("/repos/o/r/x", {"a": 1}) == {"id": 1}
    assert [(heard.method, heard.body) for heard in server.heard] == [("POST", b'{"a": 1}')] * 2
    assert server.heard[1].path == "/api/v3/repositories/1/x"


async def test_no_credential_goes_to_another_host(server: Any, github: GitHub) -> None:
    elsewhere = server.url.replace("127.0.0.1", "localhost")
    server.answers = [says(302, location=f"{elsewhere}/api/v3/x"), says(200)]
    with pytest.raises(GitHubError, match="another host"):
        await github.get("/x")
    server.answers = [says(200, [1], link=f'<{elsewhere}/api/v3/x?page=2>; rel="next"'), says(200)]
    with pytest.raises(GitHubError, match="another host"):
        await github.pages("/x")
    assert len(server.heard) == 2


async def test_a_circle_of_redirects_ends(server: Any, github: GitHub) -> None:
    server.answers = [says(301, location="/api/v3/x")]
    with pytest.raises(GitHubError, match="too often"):
        await github.get("/x")


async def test_pages_are_joined(server: Any, github: GitHub) -> None:
    more = f'<{server.url}/api/v3/x?page=2>; rel="next", <{server.url}/api/v3/x?page=2>; rel="last"'
    server.answers = [says(200, {"check_runs": [1, 2]}, link=more), says(200, {"check_runs": [3]})]
    assert await github.pages("/x", key="check_runs", filter="all") == [1, 2, 3]
    assert server.heard[0].path == "/api/v3/x?per_page=100&filter=all"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"{", "application/json"),
        (200, b"\xff", "application/json"),
        (200, b"{}", "application/json; charset=bogus"),
        (500, b"<html>", "text/html"),
        (599, b"{}", "application/json"),
        (422, b"<html>", "text/html"),
    ],
)
async def test_answers_that_cannot_be_read_are_errors_of_ours(
    server: Any, github: GitHub, status: int, body: bytes, kind: str
) -> None:
    server.answers = [lambda _request, _body: web.Response(status=status, body=body, headers={"Content-Type": kind})]
    with pytest.raises(GitHubError):
        await github.get("/x")


async def test_an_endless_answer_is_cut(server: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.github.client.ANSWER_BYTES", 1000)
    server.answers = [says(200, "x" * 5000)]
    with pytest.raises(Unavailable):
        await github.get("/x")


async def test_an_answer_that_does_not_come_is_given_up(
    server: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.github.client.REQUEST_SECONDS", 0.05)
    never = asyncio.Event()

    async def waits(_request: web.Request, _body: bytes) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    server.answers = [waits]
    with pytest.raises(Unavailable):
        await github.post("/x", {})
    never.set()


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def test_what_counts_as_a_rate_limit() -> None:
    assert asked_to_wait(answer(403)) is None
    assert asked_to_wait(answer(403, retry_after="7")) == 7
    assert asked_to_wait(answer(429)) == 60
    assert asked_to_wait(answer(403, b'{"message": "You have exceeded a secondary rate limit"}')) == 60
    assert asked_to_wait(answer(200, retry_after="7")) is None


def test_the_table_of_retries() -> None:
    assert pause("GET", 1, None) == 0.5
    assert pause("GET", 3, None) is None
    assert pause("POST", 1, None) is None
    assert pause("POST", 1, None, unsent=True) == 0.5
    assert pause("PATCH", 1, answer(500)) is None
    assert pause("POST", 1, answer(403, retry_after="2")) == 2
    assert pause("GET", 1, answer(403, retry_after="20")) is None
    assert pause("GET", 1, answer(404)) is None


def test_an_answer_of_another_shape_is_said_to_be_unreadable() -> None:
    class Wanted(BaseModel):
        id: int

    assert understood(Wanted, {"id": 1}).id == 1
    with pytest.raises(Unavailable, match="Wanted"):
        understood(Wanted, {"id": None})
