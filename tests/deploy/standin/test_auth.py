"""The App's JWT and installation tokens."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from deploy.standin import Repo, StandIn


def signed(standin: StandIn, key: Any = None, algorithm: str = "RS256", **changes: Any) -> str:
    now = int(time.time())
    claims = {"iat": now - 60, "exp": now + 540, "iss": standin.app_id} | changes
    kept = {name: value for name, value in claims.items() if value is not None}
    # PyJWT itself refuses an issuer that is a number, which GitHub has to be asked about.
    if isinstance(kept.get("iss"), int):
        return jwt.PyJWS().encode(jwt.utils.force_bytes(_json(kept)), key or standin.app_private_key, algorithm)
    return jwt.encode(kept, key or standin.app_private_key, algorithm)


def _json(claims: dict[str, Any]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in claims.items()) + "}"


@pytest.mark.parametrize("issuer", ["app_id", "client_id"])
async def test_the_app_is_known_by_its_id_and_by_its_client_id(standin: StandIn, api: Any, issuer: str) -> None:
    answer = await api("GET", "/app", auth=f"Bearer {signed(standin, iss=getattr(standin, issuer))}")
    assert answer.status == 200
    assert (str(answer.body["id"]), answer.body["slug"]) == (standin.app_id, "codex-debate")
    assert answer.body["permissions"]["contents"] == "write"
    assert "issue_comment" in answer.body["events"]


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 900},
        {"exp": -5},
        {"exp": None},
        {"iat": None},
        {"iat": 300, "exp": 500},
        {"iss": None},
        {"iss": "12"},
        {"iss": 12},
    ],
)
async def test_a_jwt_with_wrong_claims_is_refused(standin: StandIn, api: Any, changes: dict[str, Any]) -> None:
    """Times are seconds from the moment in which the test runs."""
    now = int(time.time())
    times = {name: now + changes[name] for name in ("iat", "exp") if changes.get(name)}
    answer = await api("GET", "/app", auth=f"Bearer {signed(standin, **changes | times)}")
    assert answer.status == 401
    assert answer.body["message"]


async def test_a_jwt_of_another_key_or_scheme_is_refused(standin: StandIn, api: Any) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert (await api("GET", "/app", auth=f"Bearer {signed(standin, other)}")).status == 401
    assert (await api("GET", "/app", auth=f"Bearer {signed(standin, 'x' * 40, 'HS256')}")).status == 401
    assert (await api("GET", "/app", auth=f"token {signed(standin)}")).status == 401
    assert (await api("GET", "/app", auth="Bearer rubbish")).status == 401


async def test_another_stand_in_s_app_is_another_app(standin: StandIn, api: Any, tmp_path: Path) -> None:
    async with await StandIn.start(tmp_path / "other") as other:
        assert other.app_id != standin.app_id
        assert (await api("GET", "/app", auth=f"Bearer {other.jwt()}")).status == 401


async def test_jwt_and_token_open_different_doors(standin: StandIn, api: Any, repo: Repo) -> None:
    assert (await api("GET", "/app")).status == 401
    assert (await api("GET", "/repos/octo/demo", auth=f"Bearer {standin.jwt()}")).status == 401


async def issue(standin: StandIn, api: Any, repo: Repo, data: Any = None, **headers: str) -> Any:
    path = f"/app/installations/{standin.installation_id(repo)}/access_tokens"
    return await api("POST", path, data, auth=f"Bearer {standin.jwt()}", headers=headers)


async def test_a_token_is_opaque_long_and_lives_an_hour(standin: StandIn, api: Any, repo: Repo) -> None:
    before = int(time.time())
    answer = await issue(standin, api, repo)
    assert answer.status == 201
    token = answer.body["token"]
    assert re.fullmatch(rf"ghs_{standin.app_id}_[A-Za-z0-9._-]{{400,}}", token)
    assert "." in token
    assert "-" in token
    ends = datetime.fromisoformat(answer.body["expires_at"]).timestamp()
    assert before + 3600 <= ends <= time.time() + 3600
    assert answer.body["repository_selection"] == "all"
    assert (await api("GET", "/repos/octo/demo", auth=f"token {token}")).status == 200


async def test_the_short_form_can_be_asked_for(standin: StandIn, api: Any, repo: Repo) -> None:
    headers = {"X-GitHub-Stateless-S2S-Token": "disabled"}
    answer = await issue(standin, api, repo, **headers)
    assert re.fullmatch(r"ghs_[A-Za-z0-9]{36}", answer.body["token"])


async def test_a_token_is_narrowed_to_repositories_and_permissions(standin: StandIn, api: Any, repo: Repo) -> None:
    other = await standin.create_repository("octo/other", private=True)
    wanted = {"repository_ids": [repo.id], "permissions": {"contents": "read"}}
    answer = await issue(standin, api, repo, wanted)
    assert answer.body["permissions"] == {"metadata": "read", "contents": "read"}
    assert [each["full_name"] for each in answer.body["repositories"]] == ["octo/demo"]
    auth = f"Bearer {answer.body['token']}"
    assert (await api("GET", "/repos/octo/demo", auth=auth)).status == 200
    assert (await api("GET", f"/repos/{other.full_name}", auth=auth)).status == 404
    assert (await api("GET", "/repos/octo/demo/pulls/1", auth=auth)).status == 403
    by_name = await issue(standin, api, repo, {"repositories": ["other"]})
    assert [each["id"] for each in by_name.body["repositories"]] == [other.id]
    listed = await api("GET", "/installation/repositories", auth=auth)
    assert [each["full_name"] for each in listed.body["repositories"]] == ["octo/demo"]


@pytest.mark.parametrize(
    "data",
    [
        {"permissions": {"workflows": "write"}},
        {"repository_ids": [999_999]},
        {"repository_ids": list(range(501))},
        {"repositories": ["nowhere"]},
    ],
)
async def test_a_token_cannot_be_widened(standin: StandIn, api: Any, repo: Repo, data: Any) -> None:
    assert (await issue(standin, api, repo, data)).status == 422


@pytest.mark.breaks_contract("the stand-in refuses what GitHub's description does not know")
@pytest.mark.parametrize(
    "data",
    [
        {"permissions": {"contents": "admin"}},
        {"permissions": {"contents": "everything"}},
        {"permissions": {"contents": None}},
        {"permissions": []},
        {"repository_ids": ["1"]},
    ],
)
async def test_a_token_is_asked_for_in_github_s_words(standin: StandIn, api: Any, repo: Repo, data: Any) -> None:
    assert (await issue(standin, api, repo, data)).status == 422


async def test_a_repository_of_another_installation_cannot_be_had(standin: StandIn, api: Any, repo: Repo) -> None:
    foreign = await standin.create_repository("stranger/own", private=True)
    bare = await standin.create_repository("octo/without", installed=False, private=True)
    for each in (foreign, bare):
        assert (await issue(standin, api, repo, {"repository_ids": [each.id]})).status == 422
        assert (await api("GET", f"/repos/{each.full_name}")).status == 404
    answer = await api("GET", "/repos/octo/without/installation", auth=f"Bearer {standin.jwt()}")
    assert answer.status == 404
    answer = await api("POST", "/app/installations/1/access_tokens", auth=f"Bearer {standin.jwt()}")
    assert answer.status == 404


async def test_a_public_repository_can_be_read_with_any_token_and_no_more(
    standin: StandIn, api: Any, repo: Repo
) -> None:
    foreign = await standin.create_repository("stranger/own")
    await standin.commit(foreign, "main", {"a.txt": "a\n"})
    assert (await api("GET", "/repos/stranger/own/branches/main")).status == 200
    body = {"name": "x", "head_sha": "a" * 40}
    assert (await api("POST", "/repos/stranger/own/check-runs", body)).status == 404


async def test_tokens_end(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.token_seconds = 0
    dead = standin.token(repo)
    standin.token_seconds = 3600
    revoked, kept = standin.token(repo), standin.token(repo)
    assert (await api("DELETE", "/installation/token", auth=f"Bearer {revoked}")).status == 204
    for token in (dead, revoked, "ghs_unknown"):
        answer = await api("GET", "/repos/octo/demo", auth=f"Bearer {token}")
        assert (answer.status, answer.body["message"]) == (401, "Bad credentials")
    assert (await api("GET", "/repos/octo/demo", auth=f"Bearer {kept}")).status == 200
    standin.expire_tokens()
    assert (await api("GET", "/repos/octo/demo", auth=f"Bearer {kept}")).status == 401


async def test_what_is_granted_can_change(standin: StandIn, api: Any, repo: Repo) -> None:
    before = standin.token(repo)
    del standin.permissions["checks"]
    assert "checks" not in (await api("GET", "/app", auth=f"Bearer {standin.jwt()}")).body["permissions"]
    data = {"name": "x", "head_sha": await standin.read_ref(repo, "main")}
    after = standin.token(repo)
    path = "/repos/octo/demo/check-runs"
    assert (await api("POST", path, data, auth=f"Bearer {before}")).status == 201
    refused = await api("POST", path, data, auth=f"Bearer {after}")
    assert (refused.status, refused.body["message"]) == (403, "Resource not accessible by integration")
    assert refused.headers["X-Accepted-GitHub-Permissions"] == "checks=write"


async def test_installations_are_listed_and_found(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.create_repository("second/one")
    auth = f"Bearer {standin.jwt()}"
    found = await api("GET", "/repos/octo/demo/installation", auth=auth)
    assert found.body["id"] == standin.installation_id(repo)
    assert (found.body["account"]["login"], str(found.body["app_id"])) == ("octo", standin.app_id)
    listed = await api("GET", "/app/installations", auth=auth)
    assert [each["account"]["login"] for each in listed.body] == ["octo", "second"]
