"""The App's credentials, against the stand-in: JWTs, scoped tokens, one at a time, replaced when they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from bot.github import AppClient, AppUnknown, Clock, NotInstalled, Unavailable
from bot.github import app as app_module
from bot.github.app import API_PERMISSIONS, FETCH_PERMISSIONS, JWT_BACKDATED, JWT_KEPT, SKEW_SECONDS, TOKEN_MARGIN
from bot.github.limits import PATIENCE_SECONDS, WRITES
from bot.redact import redact
from bot.settings import Settings
from bot.store import Store
from deploy.standin import Repo, StandIn
from deploy.standin.record import FaultOptions
from worker.git import GitUnknown, Remote
from worker.git.commit import remote_sha


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


@pytest.mark.threat("R10")
async def test_a_token_is_kept_until_five_minutes_before_its_end(
    standin: StandIn, session: aiohttp.ClientSession, repo: Repo, pauses: Any
) -> None:
    pauses.time = time.time()
    app = AppClient(settings(standin), session, clock=pauses.clock())
    installation = standin.installation_id(repo)
    standin.token_seconds = TOKEN_MARGIN + 200
    first = await app.git_token(installation, repo.id, write=False)
    pauses.time += 100
    assert await app.git_token(installation, repo.id, write=False) == first
    pauses.time += 101
    assert await app.git_token(installation, repo.id, write=False) != first
    assert len(minted(standin)) == 2


@pytest.mark.threat("R10")
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
    for installation, number in ((standin.installation_id(repo), other.id), (10**9, repo.id)):
        with pytest.raises(NotInstalled) as caught:
            await app.installation(installation, number).get("/repos/hubot/tidebook")
        assert caught.value.why == "absent"
        assert "Install the App" in caught.value.repair


async def test_permissions_that_are_not_granted_are_told_apart(standin: StandIn, app: AppClient, repo: Repo) -> None:
    standin.permissions["checks"] = "read"
    with pytest.raises(NotInstalled) as caught:
        await app.installation(standin.installation_id(repo), repo.id).get("/repos/octo-org/tidebook")
    assert (caught.value.status, caught.value.why) == (422, "ungranted")
    assert "app.yml" in caught.value.repair


@pytest.mark.parametrize(
    ("message", "why", "repair"),
    [
        ("This installation has been suspended", "suspended", "unsuspend"),
        ("Resource not accessible by integration", "ungranted", "app.yml"),
    ],
)
async def test_a_suspended_installation_is_told_apart(
    standin: StandIn, app: AppClient, repo: Repo, *, message: str, why: str, repair: str
) -> None:
    standin.fail_next("POST", "/app/installations", status=403, message=message)
    with pytest.raises(NotInstalled, match=message) as caught:
        await app.installation(standin.installation_id(repo), repo.id).get("/repos/octo-org/tidebook")
    assert caught.value.why == why
    assert repair in caught.value.repair


async def test_a_limit_of_the_app_itself_is_no_lack_of_an_installation(
    standin: StandIn, app: AppClient, repo: Repo
) -> None:
    installation = standin.installation_id(repo)
    kept = await app.git_token(installation, repo.id, write=False)
    standin.fail_next("POST", "/app/installations", status=403, headers={"Retry-After": "40"})
    with pytest.raises(Unavailable) as caught:
        await app.git_token(installation, repo.id, write=True)
    assert caught.value.retry_after == 40.0
    assert await app.git_token(installation, repo.id, write=False) == kept


async def test_who_we_are_is_asked_once(standin: StandIn, app: AppClient, repo: Repo) -> None:
    github = app.installation(standin.installation_id(repo), repo.id)
    found = await app.identity(github)
    assert (str(found.id), found.slug, found.bot_login) == (standin.app_id, standin.app_slug, "codex-debate[bot]")
    assert found.bot_id == standin.bot.id
    assert await app.identity() == found
    assert len(standin.requests("GET", "/users/")) == 1


async def test_who_we_are_without_a_repository_at_hand(standin: StandIn, app: AppClient, repo: Repo) -> None:
    found = await app.identity()
    assert found.bot_id == standin.bot.id
    assert minted(standin) == [{"permissions": {"metadata": "read"}}]


async def test_without_any_installation_nobody_can_be_asked(app: AppClient) -> None:
    with pytest.raises(NotInstalled):
        await app.identity()
    assert await app.owner_id() > 0


async def test_the_jwt_is_what_github_asks_for(
    server: Any, session: aiohttp.ClientSession, standin: StandIn, pauses: Any
) -> None:
    from aiohttp import web  # noqa: PLC0415 - a server of another kind than the stand-in

    server.answers = [
        lambda _request, _body: web.json_response({"id": 1, "slug": "s", "owner": {"id": 2, "login": "o"}})
    ]
    numbers = settings(standin).model_copy(update={"github_app_id": "Iv23abc", "github_api_url": server.url})
    app = AppClient(numbers, session, clock=pauses.clock())
    assert await app.owner_id() == 2
    token = server.heard[0].headers["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, options={"verify_signature": False})
    now = int(pauses.time)
    assert claims == {"iat": now - 60, "exp": now + 540, "iss": "Iv23abc"}
    assert JWT_KEPT < 540


async def test_while_a_limit_holds_not_even_a_token_is_asked_for(standin: StandIn, app: AppClient, repo: Repo) -> None:
    github = app.installation(standin.installation_id(repo), repo.id)
    standin.fail_next("GET", "/repos/octo-org/tidebook", status=429)
    with pytest.raises(Unavailable):
        await github.get("/repos/octo-org/tidebook")
    standin.expire_tokens()
    asked = len(standin.journal)
    for scoped in (github, app.installation(standin.installation_id(repo), repo.id, {"metadata": "read"})):
        with pytest.raises(Unavailable) as caught:
            await scoped.get("/repos/octo-org/tidebook")
        assert (caught.value.retry_after or 0) > PATIENCE_SECONDS
    assert len(standin.journal) == asked


# ---- Keys and clocks ------------------------------------------------------------------------------------------------


async def test_another_apps_id_is_said_to_be_unknown(
    session: aiohttp.ClientSession, standin: StandIn, repo: Repo
) -> None:
    app = AppClient(settings(standin).model_copy(update={"github_app_id": "1"}), session)
    for call in (app.owner_id(), app.identity(), app.git_token(standin.installation_id(repo), repo.id, write=False)):
        with pytest.raises(AppUnknown) as caught:
            await call
        assert caught.value.status == 401
        assert "GITHUB_APP_ID" in caught.value.repair


async def test_another_apps_key_is_said_to_be_unknown(session: aiohttp.ClientSession, standin: StandIn) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    app = AppClient(settings(standin).model_copy(update={"github_app_private_key": SecretStr(pem)}), session)
    with pytest.raises(AppUnknown, match="could not be decoded"):
        await app.owner_id()


async def test_a_key_that_is_none_is_said_to_be_so(session: aiohttp.ClientSession, standin: StandIn) -> None:
    broken = SecretStr("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n")
    app = AppClient(settings(standin).model_copy(update={"github_app_private_key": broken}), session)
    with pytest.raises(AppUnknown, match="cannot be read") as caught:
        await app.owner_id()
    assert caught.value.status == 0
    assert standin.journal == []


@pytest.mark.threat("R19")
@pytest.mark.parametrize("minutes", [10, -10])
async def test_a_clock_that_is_wrong_is_set_right_once(
    session: aiohttp.ClientSession, standin: StandIn, repo: Repo, caplog: pytest.LogCaptureFixture, minutes: int
) -> None:
    wrong = Clock(now=lambda: time.time() + 60 * minutes)
    app = AppClient(settings(standin), session, clock=wrong)
    installation = standin.installation_id(repo)
    first = await app.git_token(installation, repo.id, write=False)
    # By our own clock the token would have only 50 minutes left, or 70: GitHub's counts.
    standin.token_seconds = TOKEN_MARGIN + 300
    short = await app.git_token(installation, repo.id, write=True)
    assert await app.git_token(installation, repo.id, write=True) == short
    assert await app.git_token(installation, repo.id, write=False) == first
    assert [request.status for request in standin.requests("POST", "/app/installations")] == [401, 201, 201]
    (told,) = [record.msg for record in caplog.records if "clock differs" in record.getMessage()]
    assert isinstance(told, dict)
    assert abs(told["seconds_ahead"] - 60 * minutes) < SKEW_SECONDS


@pytest.mark.threat("R19")
async def test_a_token_is_renewed_by_githubs_clock(
    session: aiohttp.ClientSession, standin: StandIn, repo: Repo
) -> None:
    """A clock that is slow would take a token for good that has ended."""
    slow = Clock(now=lambda: time.time() - 600)
    app = AppClient(settings(standin), session, clock=slow)
    installation = standin.installation_id(repo)
    standin.token_seconds = TOKEN_MARGIN - 10
    first = await app.git_token(installation, repo.id, write=False)
    assert await app.git_token(installation, repo.id, write=False) != first


async def test_a_small_difference_is_no_reason(session: aiohttp.ClientSession, standin: StandIn, repo: Repo) -> None:
    app = AppClient(settings(standin), session, clock=Clock(now=lambda: time.time() + JWT_BACKDATED - 5))
    await app.git_token(standin.installation_id(repo), repo.id, write=False)
    assert [request.status for request in standin.requests("POST", "/app/installations")] == [201]


# ---- Forms of tokens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stateless", [True, False])
async def test_both_forms_of_a_token_do(
    standin: StandIn, app: AppClient, repo: Repo, stateless: bool, tmp_path: Path
) -> None:
    standin.stateless_tokens = stateless
    installation = standin.installation_id(repo)
    token = await app.git_token(installation, repo.id, write=False)
    assert (len(token) > 500) is stateless
    assert (len(token) == 40) is not stateless
    assert redact(f"x {token} y") == "x [redacted] y"
    assert (await app.installation(installation, repo.id).get("/repos/octo-org/tidebook"))["id"] == repo.id
    await standin.commit(repo, "main", {"a.txt": "one\n"})
    remote = Remote(standin.clone_url(repo), token)
    assert await remote_sha(remote, "refs/heads/main") == await standin.read_ref(repo, "main")
    # Every request for a token is for this one repository and for what is done with it, and for nothing else.
    for body in minted(standin):
        assert body.keys() == {"permissions", "repository_ids"}
        assert body["repository_ids"] == [repo.id]
        assert body["permissions"] in (dict(FETCH_PERMISSIONS), dict(API_PERMISSIONS))


async def test_git_may_ask_for_the_older_form_and_keeps_to_it(standin: StandIn, app: AppClient, repo: Repo) -> None:
    """What github.md A5 reports: git answers 404 to the new form, where it is scoped to one repository."""
    standin.git_takes_stateless = False
    await standin.commit(repo, "main", {"a.txt": "one\n"})
    installation = standin.installation_id(repo)
    new = await app.git_token(installation, repo.id, write=False)
    with pytest.raises(GitUnknown, match="not found"):
        await remote_sha(Remote(standin.clone_url(repo), new), "refs/heads/main")
    old = await app.git_token(installation, repo.id, write=False, refused=new)
    assert len(old) == 40
    assert await remote_sha(Remote(standin.clone_url(repo), old), "refs/heads/main")
    assert await app.git_token(installation, repo.id, write=False) == old
    standin.expire_tokens()
    assert len(await app.git_token(installation, repo.id, write=False, refused=old)) == 40
    # Only where it was refused: the API takes the new form.
    github = app.installation(installation, repo.id)
    assert (await github.get("/repos/octo-org/tidebook"))["id"] == repo.id
    assert len(minted(standin)) == 4


async def test_a_token_is_no_write_that_takes_a_turn(
    standin: StandIn, session: aiohttp.ClientSession, repo: Repo, store: Store
) -> None:
    app = AppClient(settings(standin), session, pacer=store.pace)
    github = app.installation(standin.installation_id(repo), repo.id)
    await github.get("/repos/octo-org/tidebook")
    issue = standin.create_issue(repo, "Tides")
    path = f"/repos/octo-org/tidebook/issues/{issue}/comments"
    for number in range(WRITES.windows[0][0]):
        await github.post(path, {"body": str(number)})
    with pytest.raises(Unavailable, match="writes no more"):
        await github.post(path, {"body": "one too many"})


@pytest.mark.threat("T30")
async def test_the_tokens_of_a_process_end_with_it(standin: StandIn, app: AppClient, repo: Repo) -> None:
    installation = standin.installation_id(repo)
    held = [await app.git_token(installation, repo.id, write=write) for write in (True, False)]
    await app.revoke_tokens()
    assert [each.status for each in standin.requests("DELETE", "/installation/token")] == [204, 204]
    assert not set(held) & set(standin._site.tokens._tokens)
    assert await app.git_token(installation, repo.id, write=True) not in held, "who goes on gets others"


async def test_a_github_that_does_not_answer_holds_no_process_back(
    standin: StandIn, app: AppClient, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "REVOKE_SECONDS", 0.1)
    await app.git_token(standin.installation_id(repo), repo.id, write=False)
    faults: list[FaultOptions] = [{"hang": True}, {"status": 503}, {"drop": True}]
    for fault in faults:
        standin.fail_next("DELETE", "/installation/token", **fault)
        await app.revoke_tokens()
        await app.git_token(standin.installation_id(repo), repo.id, write=False)
