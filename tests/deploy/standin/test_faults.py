"""Every fault that can be ordered, before the effect and after it, as a client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from deploy.standin import Fault, Repo, StandIn

WHEN = pytest.mark.parametrize(("when", "kept"), [("before", 0), ("after", 1)])
LIMITS: dict[str, dict[str, Any]] = {
    "primary": {
        "status": 403,
        "message": "API rate limit exceeded for installation ID 1.",
        "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1900000000"},
    },
    "primary, 429": {"status": 429, "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1900000000"}},
    "secondary": {"status": 403, "headers": {"Retry-After": "60"}},
    "secondary, by its words alone": {"status": 403, "message": "You have exceeded a secondary rate limit."},
    "secondary, bare": {"status": 429},
}


def path(number: int) -> str:
    return f"/repos/octo/demo/issues/{number}/comments"


async def raw(standin: StandIn, repo: Repo, number: int) -> tuple[int, str, bytes]:
    """Ask for a comment; return the answer's status, type and body."""
    headers = {"Authorization": f"Bearer {standin.token(repo)}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{standin.api_url}{path(number)}", json={"body": "x"}, headers=headers) as answer,
    ):
        return answer.status, answer.content_type, await answer.read()


@WHEN
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_limit_has_any_shape(
    standin: StandIn, repo: Repo, number: int, api: Any, *, limit: str, when: Any, kept: int
) -> None:
    how = LIMITS[limit]
    standin.fail_next("POST", path(number), when=when, **how)
    answer = await api("POST", path(number), {"body": "x"})
    assert (answer.status, answer.body["message"]) == (how["status"], how.get("message", "Server Error"))
    assert how.get("headers", {}).items() <= answer.headers.items()
    assert len(standin.comments(repo, number)) == kept
    assert standin.journal[-1].status == how["status"]
    assert (await api("POST", path(number), {"body": "y"})).status == 201


@WHEN
async def test_a_hanging_request_ends_when_the_client_goes(
    standin: StandIn, repo: Repo, number: int, when: Any, kept: int
) -> None:
    standin.fail_next("POST", path(number), hang=True, when=when)
    asking = asyncio.create_task(raw(standin, repo, number))
    while not standin.requests("POST", path(number)) or len(standin.comments(repo, number)) < kept:
        await asyncio.sleep(0.01)
    done, _ = await asyncio.wait([asking], timeout=0.1)
    assert not done
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(standin.comments(repo, number)) == kept
    assert (standin.journal[-1].status, standin.journal[-1].fault) == (None, f"hang {when} the effect")


@WHEN
async def test_a_cut_answer_says_how_long_it_would_have_been(
    standin: StandIn, repo: Repo, number: int, when: Any, kept: int
) -> None:
    standin.fail_next("POST", path(number), cut=True, when=when)
    with pytest.raises(aiohttp.ClientPayloadError):
        await raw(standin, repo, number)
    assert len(standin.comments(repo, number)) == kept
    assert standin.journal[-1].status == (201 if when == "after" else 200)


@WHEN
async def test_garbage_calls_itself_json(standin: StandIn, repo: Repo, number: int, when: Any, kept: int) -> None:
    standin.fail_next("POST", path(number), garbage=True, when=when)
    status, kind, body = await raw(standin, repo, number)
    assert (status, kind) == (201 if when == "after" else 200, "application/json")
    with pytest.raises(ValueError, match="decode"):
        json.loads(body)
    assert len(standin.comments(repo, number)) == kept


@WHEN
@pytest.mark.parametrize("status", [None, 301, 307])
async def test_a_redirect_points_where_it_is_told_to(
    standin: StandIn, repo: Repo, number: int, api: Any, *, when: Any, kept: int, status: int | None
) -> None:
    more: Any = {} if status is None else {"status": status}
    standin.fail_next("POST", path(number), redirect="http://127.0.0.1:9/x", when=when, **more)
    answer = await api("POST", path(number), {"body": "x"})
    assert (answer.status, answer.headers["Location"]) == (status or 302, "http://127.0.0.1:9/x")
    assert len(standin.comments(repo, number)) == kept


async def test_git_meets_them_too(standin: StandIn, repo: Repo, git: Any) -> None:
    url, token = standin.clone_url(repo), standin.token(repo)
    for fault in ({"drop": True}, {"cut": True}, {"redirect": "http://127.0.0.1:9/x"}):
        standin.fail_next("GET", "/octo/demo.git/info/refs", times=9, **fault)
        code, _ = await git("ls-remote", url, token=token)
        assert code != 0, fault
        standin.clear_faults()
    assert (await git("ls-remote", url, token=token))[0] == 0


def test_a_request_fails_in_one_way() -> None:
    with pytest.raises(ValueError, match="one way, not in 2: drop, hang"):
        Fault("GET", "/", drop=True, hang=True)
    assert str(Fault("GET", "/")) == "500 before the effect"
    assert str(Fault("GET", "/", redirect="http://x", when="after")) == "redirect after the effect"


async def test_git_may_not_take_the_long_form(standin: StandIn, repo: Repo, git: Any) -> None:
    standin.git_takes_stateless = False
    code, words = await git("ls-remote", standin.clone_url(repo), token=standin.token(repo))
    assert code != 0
    assert "not found" in words
    standin.stateless_tokens = False
    token = standin.token(repo)
    assert len(token) == 40
    assert (await git("ls-remote", standin.clone_url(repo), token=token))[0] == 0
