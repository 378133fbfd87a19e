"""Calls: retries, refused tokens, paging, errors."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import BaseModel

from bot.github import Forbidden, GitHub, GitHubError, NotFound, Unavailable
from bot.github.client import understood


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (410, NotFound), (403, Forbidden), (401, Unavailable), (422, GitHubError)]
)
async def test_refusals_are_typed_and_not_repeated(server: Any, github: GitHub, status: int, kind: type) -> None:
    server.answers = [server.says(status, {"message": "No.", "errors": ["why"]})]
    with pytest.raises(kind) as caught:
        await github.get("/x")
    assert isinstance(caught.value, GitHubError)
    assert caught.value.status == status
    assert "No." in caught.value.message
    assert len(server.heard) == (2 if status == 401 else 1)


async def test_a_secret_in_an_answer_is_not_passed_on(server: Any, github: GitHub) -> None:
    server.answers = [server.says(422, {"message": "bad token ghs_123_eyJhbGciOiJ.eyJpc3MiOiIx.abc-def_ghi"})]
    with pytest.raises(GitHubError) as caught:
        await github.get("/x")
    assert "ghs_" not in str(caught.value)


async def test_reads_are_tried_three_times_with_growing_pauses(server: Any, github: GitHub, pauses: Any) -> None:
    server.answers = [server.says(502), server.says(500), server.says(200, [1])]
    assert await github.get("/x") == [1]
    assert pauses.slept == [0.5, 1.0]
    server.answers = [server.says(503)]
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert caught.value.status == 503
    assert len(server.heard) == 6
    server.answers = [server.drops]
    with pytest.raises(Unavailable) as caught:
        await github.get("/x")
    assert caught.value.status == 0


async def test_writes_that_may_have_been_done_are_not_repeated(server: Any, github: GitHub, pauses: Any) -> None:
    for answer in (server.says(502), server.drops):
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


async def test_a_refused_token_is_replaced_once(server: Any, github: GitHub) -> None:
    server.answers = [server.says(401), server.says(201, {"id": 1})]
    assert await github.post("/x", {}) == {"id": 1}
    assert [heard.headers["Authorization"] for heard in server.heard] == ["Bearer first", "Bearer second"]


async def test_pages_are_joined(server: Any, github: GitHub) -> None:
    more = f'<{server.url}/api/v3/x?page=2>; rel="next", <{server.url}/api/v3/x?page=2>; rel="last"'
    server.answers = [server.says(200, {"check_runs": [1, 2]}, link=more), server.says(200, {"check_runs": [3]})]
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


def test_an_answer_of_another_shape_is_said_to_be_unreadable() -> None:
    class Wanted(BaseModel):
        id: int

    assert understood(Wanted, {"id": 1}).id == 1
    with pytest.raises(Unavailable, match="Wanted"):
        understood(Wanted, {"id": None})
