"""The App's credentials, against the stand-in: JWTs, scoped tokens, one at a time, replaced when they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, GitHubError, NotInstalled, Unavailable
from bot.github.app import JWT_KEPT
from bot.settings import Settings
from deploy.standin import Repo, StandIn


@pytest_asyncio.fixture
async def standin(tmp_path: Path) -> AsyncIterator[StandIn]:
    async with await StandIn.start(tmp_path) as started:
        yield started


@pytest_asyncio.fixture
async def repo(standin: StandIn) -> Repo:
    return await standin.create_repository("octo-org/tidebook")


def settings(standin: StandIn) -> Settings:
    return Settings(
        github_app_id=standin.app_id,
        github_app_private_key=SecretStr(standin.app_private_key),
        github_api_url=standin.api_url,
        github_server_url=standin.server_url,
    )


@pytest.fixture
def app(standin: StandIn, session: aiohttp.ClientSession) -> AppClient:
    return AppClient(settings(standin), session)


def minted(standin: StandIn) -> list[Any]:
    return [request.body for request in standin.requests("POST", "/app/installations")]


async def test_a_token_opens_one_repository_for_what_is_needed(standin: StandIn, app: AppClient, repo: Repo) -> None:
    github = app.installation(standin.installation_id(repo), repo.id)
    assert (await github.get("/repos/octo-org/tidebook"))["id"] == repo.id
    assert minted(standin) == [
        {
            "permissions": {
                "checks": "write",
                "contents": "read",
                "issues": "write",
                "metadata": "read",
                "pull_requests": "write",
            },
            "repository_ids": [repo.id],
        }
    ]


async def test_tokens_for_git_are_narrower_and_apart(standin: StandIn, app: AppClient, repo: Repo) -> None:
    installation = standin.installation_id(repo)
    read = await app.git_token(installation, repo.id, write=False)
    write = await app.git_token(installation, repo.id, write=True)
    assert read != write
    assert [body["permissions"] for body in minted(standin)] == [
        {"contents": "read", "metadata": "read"},
        {"contents": "write", "metadata": "read"},
    ]
    assert await app.git_token(installation, repo.id, write=True) == write
    assert await app.git_token(installation, repo.id, write=True, refused=write) != write


async def test_those_who_wait_share_one_token(standin: StandIn, app: AppClient, repo: Repo) -> None:
    installation = standin.installation_id(repo)
    tokens = await asyncio.gather(*(app.git_token(installation, repo.id, write=False) for _ in range(10)))
    assert len(set(tokens)) == 1
    assert len(minted(standin)) == 1


async def test_a_token_is_kept_until_five_minutes_before_its_end(
    standin: StandIn, session: aiohttp.ClientSession, repo: Repo, pauses: Any
) -> None:
    import time  # noqa: PLC0415 - the stand-in's clock is the real one

    pauses.time = time.time()
    app = AppClient(settings(standin), session, clock=pauses.clock())
    installation = standin.installation_id(repo)
    first = await app.git_token(installation, repo.id, write=False)
    pauses.time += 3200
    assert await app.git_token(installation, repo.id, write=False) == first
    pauses.time += 200
    # The App's own clock has moved on by an hour, so its JWT is refused; that it asked is what counts.
    with pytest.raises(GitHubError):
        await app.git_token(installation, repo.id, write=False)


async def test_a_revoked_token_is_replaced_once_without_anybody_noticing(
    standin: StandIn, app: AppClient, repo: Repo
) -> None:
    github = app.installation(standin.installation_id(repo), repo.id)
    await github.get("/repos/octo-org/tidebook")
    standin.expire_tokens()
    assert (await github.get("/repos/octo-org/tidebook"))["id"] == repo.id
    assert len(minted(standin)) == 2


async def test_a_repository_that_is_not_ours_is_not_installed(standin: StandIn, app: AppClient, repo: Repo) -> None:
    other = await standin.create_repository("hubot/tidebook")
    with pytest.raises(NotInstalled):
        await app.installation(standin.installation_id(repo), other.id).get("/repos/hubot/tidebook")
    with pytest.raises(NotInstalled):
        await app.installation(10**9, repo.id).get("/repos/octo-org/tidebook")


async def test_who_we_are_is_asked_once(standin: StandIn, app: AppClient, repo: Repo) -> None:
    github = app.installation(standin.installation_id(repo), repo.id)
    found = await app.identity(github)
    assert (str(found.id), found.slug, found.bot_login) == (standin.app_id, standin.app_slug, "codex-debate[bot]")
    assert found.bot_id == standin.bot.id
    assert found.owner_login == "octo-org"
    assert await app.identity() == found
    assert len(standin.requests("GET", "/users/")) == 1


async def test_who_we_are_without_a_repository_at_hand(standin: StandIn, app: AppClient, repo: Repo) -> None:
    found = await app.identity()
    assert found.bot_id == standin.bot.id
    assert minted(standin) == [{"permissions": {"metadata": "read"}}]


async def test_without_any_installation_nobody_can_be_asked(app: AppClient) -> None:
    with pytest.raises(NotInstalled):
        await app.identity()
    assert (await app.owner())[1] == "octo-org"


async def test_the_jwt_is_what_github_asks_for(
    server: Any, session: aiohttp.ClientSession, standin: StandIn, pauses: Any
) -> None:
    from aiohttp import web  # noqa: PLC0415 - a server of another kind than the stand-in

    server.answers = [
        lambda _request, _body: web.json_response({"id": 1, "slug": "s", "owner": {"id": 2, "login": "o"}})
    ]
    numbers = settings(standin).model_copy(update={"github_app_id": "Iv23abc", "github_api_url": server.url})
    app = AppClient(numbers, session, clock=pauses.clock())
    assert await app.owner() == (2, "o")
    token = server.heard[0].headers["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, options={"verify_signature": False})
    now = int(pauses.time)
    assert claims == {"iat": now - 60, "exp": now + 540, "iss": "Iv23abc"}
    assert JWT_KEPT < 540


async def test_a_refusal_of_the_jwt_is_an_error(session: aiohttp.ClientSession, standin: StandIn) -> None:
    wrong = settings(standin).model_copy(update={"github_app_id": "1"})
    with pytest.raises(GitHubError) as caught:
        await AppClient(wrong, session).owner()
    assert caught.value.status == 401
    assert not isinstance(caught.value, Unavailable)
