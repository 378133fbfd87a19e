"""One request: what it carries, where it goes and where never, and what becomes of it on the way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bot.github import GitHub, GitHubError, Unavailable, open_session
from bot.github.wire import API_VERSION, HOPS, Answer, Call, NoAnswer, Wire, http_date


async def test_a_request_carries_what_github_asks_for(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200, {"a": 1})]
    assert await github.get("/repos/o/r", q="a b") == {"a": 1}
    heard = server.heard[0]
    assert heard.path == "/api/v3/repos/o/r?q=a+b"
    assert heard.headers["Authorization"] == "Bearer first"
    assert heard.headers["X-GitHub-Api-Version"] == API_VERSION == "2022-11-28"
    assert "application/vnd.github+json" in heard.headers["Accept"]
    assert heard.headers["User-Agent"] == "codex-debate"
    assert "Content-Type" not in heard.headers


async def test_writes_send_json(server: Any, github: GitHub) -> None:
    server.answers = [server.says(201, {"id": 1})]
    assert await github.post("/x", {"body": "é"}) == {"id": 1}
    assert await github.patch("/x", {"body": "b"}) == {"id": 1}
    await github.delete("/x")
    assert [heard.method for heard in server.heard] == ["POST", "PATCH", "DELETE"]
    assert json.loads(server.heard[0].body) == {"body": "é"}
    assert server.heard[0].headers["Content-Type"] == "application/json; charset=utf-8"
    assert "Content-Type" not in server.heard[2].headers


async def test_a_callers_own_header_goes_with_it(server: Any, github: GitHub) -> None:
    server.answers = [server.says(201, {"id": 1})]
    await github.post("/x", {}, headers={"X-GitHub-Stateless-S2S-Token": "disabled"})
    assert server.heard[0].headers["X-GitHub-Stateless-S2S-Token"] == "disabled"
    assert server.heard[0].headers["Authorization"] == "Bearer first"


@pytest.mark.parametrize("root", ["/api/v3", "/api/v3/", "", "/"])
async def test_paths_are_joined_to_the_root_with_and_without_a_slash(
    server: Any, session: aiohttp.ClientSession, root: str
) -> None:
    async def credential(_refused: str | None) -> str:
        return "t"

    more = f'<{server.url}{root.rstrip("/")}/x?page=2>; rel="next"'
    server.answers = [server.says(200, [1], link=more), server.says(200, [2])]
    assert await GitHub(session, f"{server.url}{root}", credential).pages("/x") == [1, 2]
    root = root.rstrip("/")
    assert [heard.path for heard in server.heard] == [f"{root}/x?per_page=100", f"{root}/x?page=2"]


async def test_an_escaped_path_arrives_as_it_is(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200)]
    await github.get("/repos/o/r/git/ref/heads/a%23b/%7Bc%7D")
    assert server.heard[0].path == "/api/v3/repos/o/r/git/ref/heads/a%23b/%7Bc%7D"


@pytest.mark.parametrize("method", ["post", "patch"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_followed_with_the_same_method_and_body(
    server: Any, github: GitHub, status: int, method: str
) -> None:
    place = f"{server.url}/api/v3/repositories/1/x"
    server.answers = [server.says(status, location=place), server.says(201, {"id": 1})]
    assert await getattr(github, method)("/repos/o/r/x", {"a": 1}) == {"id": 1}
    assert [(heard.method, heard.body) for heard in server.heard] == [(method.upper(), b'{"a": 1}')] * 2
    assert server.heard[1].path == "/api/v3/repositories/1/x"
    assert server.heard[1].headers["Authorization"] == "Bearer first"


ELSEWHERE = [
    "{stranger}/api/v3/x",
    "//{stranger_host}/api/v3/x",
    "https://{own_host}/api/v3/x",  # another scheme
    "http://localhost:{own_port}/api/v3/x",
    "http://name:word@{own_host}/api/v3/x",
    "http://name@{own_host}/api/v3/x",
    "http://{own_host}@{stranger_host}/api/v3/x",
    "file:///etc/passwd",
    "http://[::1/x",
    "javascript:x",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("place", ELSEWHERE)
async def test_no_redirect_leads_elsewhere(server: Any, stranger: Any, github: GitHub, method: str, place: str) -> None:
    server.answers = [server.says(307, location=_filled(place, server, stranger)), server.says(200)]
    with pytest.raises(GitHubError, match="another host") as caught:
        await (github.get("/x") if method == "GET" else github.post("/x", {}))
    assert not isinstance(caught.value, Unavailable)
    assert (len(server.heard), stranger.heard) == (1, [])


@pytest.mark.parametrize("place", [place for place in ELSEWHERE if "://" in place])
async def test_no_next_page_and_no_address_leads_elsewhere(
    server: Any, stranger: Any, github: GitHub, place: str
) -> None:
    there = _filled(place, server, stranger)
    server.answers = [server.says(200, [1], link=f'<{there}>; rel="next"'), server.says(200)]
    with pytest.raises(GitHubError):
        await github.pages("/x")
    assert (len(server.heard), stranger.heard) == (1, [])
    with pytest.raises(GitHubError):
        await github.get(there)
    assert (len(server.heard), stranger.heard) == (1, [])


def _filled(place: str, server: Any, stranger: Any) -> str:
    own, other = (each.url.removeprefix("http://") for each in (server, stranger))
    return place.format(stranger=stranger.url, stranger_host=other, own_host=own, own_port=own.rpartition(":")[2])


async def test_a_circle_of_redirects_ends(server: Any, github: GitHub) -> None:
    server.answers = [server.says(301, location="/api/v3/x")]
    with pytest.raises(GitHubError, match="too often"):
        await github.get("/x")
    assert len(server.heard) == 1 + HOPS


async def test_an_endless_answer_is_cut(server: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.github.wire.ANSWER_BYTES", 1000)
    server.answers = [server.says(200, "x" * 5000)]
    with pytest.raises(Unavailable):
        await github.get("/x")


async def test_an_answer_that_does_not_come_is_given_up(
    server: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.github.wire.REQUEST_SECONDS", 0.05)
    never = asyncio.Event()

    async def waits(_request: web.Request, _body: bytes) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    server.answers = [waits]
    with pytest.raises(Unavailable, match="did not answer in time"):
        await github.post("/x", {})
    never.set()
    assert len(server.heard) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_the_library_sends_nothing_a_second_time(
    server: Any, session: aiohttp.ClientSession, method: str
) -> None:
    """The library would, for what HTTP calls idempotent, on a connection that was used before."""
    wire = Wire(session, server.url)
    server.answers = [server.says(200), server.drops]
    await wire.send(Call("GET", f"{server.url}/x"), "t")
    with pytest.raises(NoAnswer) as caught:
        await wire.send(Call(method, f"{server.url}/x"), "t")
    assert not caught.value.unsent
    assert [heard.method for heard in server.heard] == ["GET", method]


async def test_a_netrc_of_the_machine_plays_no_part(
    server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.answers = [server.says(200)]
    async with open_session(server.url) as session:
        await Wire(session, server.url).send(Call("GET", f"{server.url}/x"), "t")
    assert server.heard[0].headers["Authorization"] == "Bearer t"


async def test_nothing_on_this_machine_is_asked_for_through_a_proxy(
    server: Any, stranger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, stranger.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server.answers = [server.says(200)]
    async with open_session(server.url) as session:
        await Wire(session, server.url).send(Call("GET", f"{server.url}/x"), "t")
    assert (len(server.heard), stranger.heard) == (1, [])


def test_githubs_clock_is_read_from_its_answers() -> None:
    assert Answer(200, {"date": "Mon, 30 Nov 2026 18:00:00 GMT"}, b"").date == 1796061600
    assert Answer(200, {"date": "yesterday"}, b"").date is None
    assert Answer(200, {}, b"").date is None
    assert http_date("Mon, 30 Nov 2026 18:00:00 -0000") == 1796061600
