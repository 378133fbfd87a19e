"""The calls that we use, against the stand-in; and that app.yml asks for what they need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from pydantic import SecretStr
from ruamel.yaml import YAML

from bot.events import SUBSCRIBED
from bot.github import AppClient, GitHub, NotFound, verbs
from bot.github.app import API_PERMISSIONS, FETCH_PERMISSIONS, PUSH_PERMISSIONS
from bot.settings import Settings
from deploy.standin import Repo, StandIn

ROOT = Path(__file__).parents[3]
REPO = "octo-org/tidebook"
LEVELS = ("read", "write", "admin")


@pytest_asyncio.fixture
async def standin(tmp_path: Path) -> AsyncIterator[StandIn]:
    async with await StandIn.start(tmp_path) as started:
        yield started


@pytest_asyncio.fixture
async def repo(standin: StandIn) -> Repo:
    made = await standin.create_repository(REPO)
    await standin.commit(made, "main", {"a.txt": "one\n"})
    await standin.commit(made, "feature/x#1", {"a.txt": "two\n"}, parent="main")
    return made


@pytest.fixture
def real(standin: StandIn, session: aiohttp.ClientSession, repo: Repo) -> GitHub:
    settings = Settings(
        github_app_id=standin.app_id,
        github_app_private_key=SecretStr(standin.app_private_key),
        github_api_url=standin.api_url,
    )
    return AppClient(settings, session).installation(standin.installation_id(repo), repo.id)


async def test_pull_requests_and_branches(standin: StandIn, real: GitHub, repo: Repo) -> None:
    number = await standin.open_pull_request(repo, "feature/x#1", "main", "A title", "A body")
    pull = await verbs.pull(real, REPO, number)
    assert (pull.number, pull.title, pull.body, pull.state, pull.locked) == (number, "A title", "A body", "open", False)
    assert pull.head.repo is not None
    assert (pull.head.ref, pull.head.repo.id) == ("feature/x#1", repo.id)
    assert await verbs.branch_sha(real, REPO, "feature/x#1") == pull.head.sha
    assert await verbs.branch_sha(real, REPO, "main") == pull.base.sha
    assert await verbs.branch_sha(real, REPO, "feature") is None
    assert await verbs.branch_sha(real, REPO, pull.head.sha) is None
    with pytest.raises(NotFound):
        await verbs.pull(real, REPO, 999)


async def test_permissions_come_with_the_number_of_the_account(standin: StandIn, real: GitHub, repo: Repo) -> None:
    mona = standin.create_user("mona")
    for role, level in (
        ("admin", "admin"),
        ("maintain", "write"),
        ("write", "write"),
        ("triage", "read"),
        ("read", "read"),
    ):
        standin.set_permission(repo, "mona", role)
        found = await verbs.permission(real, REPO, "mona")
        assert found == verbs.Permission.model_validate({"level": level, "user_id": mona.id})
        assert found.writes == (level in {"admin", "write"})
    assert not (await verbs.permission(real, REPO, "nobody-at-all")).writes


async def test_comments_and_reactions(standin: StandIn, real: GitHub, repo: Repo) -> None:
    number = await standin.open_pull_request(repo, "feature/x#1", "main", "t", "b")
    made = await verbs.create_comment(real, REPO, number, body="Hello")
    assert made.user is not None
    assert made.user.id == standin.bot.id
    assert (await verbs.update_comment(real, REPO, made.id, body="Hello again")).body == "Hello again"
    assert (await verbs.comment(real, REPO, made.id)).body == "Hello again"
    assert [each.id for each in await verbs.comments(real, REPO, number)] == [made.id]
    first = await verbs.react(real, REPO, made.id, "eyes")
    assert await verbs.react(real, REPO, made.id, "eyes") == first
    with pytest.raises(NotFound):
        await verbs.comment(real, REPO, made.id + 1000)


async def test_check_runs(standin: StandIn, real: GitHub, repo: Repo) -> None:
    sha = await verbs.branch_sha(real, REPO, "main")
    assert sha is not None
    output = {"title": "Queued", "summary": "Waits."}
    fields = {"name": "codex-debate", "head_sha": sha, "external_id": "7h2kq9xw", "status": "queued", "output": output}
    made = await verbs.create_check_run(real, REPO, fields)
    assert (made.status, made.external_id, made.conclusion) == ("queued", "7h2kq9xw", None)
    assert made.app is not None
    assert str(made.app.id) == standin.app_id
    changed = await verbs.update_check_run(real, REPO, made.id, fields={"conclusion": "neutral", "output": output})
    assert (changed.id, changed.status, changed.conclusion) == (made.id, "completed", "neutral")
    assert [each.id for each in await verbs.check_runs(real, REPO, sha, name="codex-debate")] == [made.id]
    assert await verbs.check_runs(real, REPO, sha, name="other") == ()


async def test_a_file_at_a_commit(standin: StandIn, real: GitHub, repo: Repo) -> None:
    sha = await standin.commit(repo, "main", {".github/x y.yml": "on: \u00e9\n", "large": "x" * 1_000_001})
    assert await verbs.contents(real, REPO, ".github/x y.yml", ref=sha) == "on: \u00e9\n".encode()
    assert await verbs.contents(real, REPO, ".github/none.yml", ref=sha) is None
    for path in (".github", "large"):
        with pytest.raises(verbs.Unreadable, match="is no file of at most a megabyte"):
            await verbs.contents(real, REPO, path, ref=sha)


async def test_a_content_that_is_not_what_it_says(server: Any, github: GitHub) -> None:
    broken = {"type": "file", "encoding": "base64", "content": "x"}
    server.answers = [lambda _request, _body: web.json_response(broken)]
    with pytest.raises(verbs.Unreadable, match="could not be read"):
        await verbs.contents(github, REPO, "a.txt", ref="main")


async def test_pull_requests_from_forks(standin: StandIn, real: GitHub, repo: Repo) -> None:
    standin.create_user("hubot")
    fork = await standin.fork(repo, "hubot")
    await standin.commit(fork, "idea", {"a.txt": "three\n"}, parent="main")
    theirs = await standin.open_pull_request(repo, "hubot:idea", "main", "t", "b", author="hubot")
    ours = await standin.open_pull_request(repo, "feature/x#1", "main", "t", "b")
    assert (await verbs.pull(real, REPO, theirs)).from_fork
    assert not (await verbs.pull(real, REPO, ours)).from_fork


async def test_a_reference_that_only_begins_so_is_not_the_branch(server: Any, github: GitHub) -> None:
    reference = {"ref": "refs/heads/main-2", "object": {"sha": "a" * 40}}
    server.answers = [lambda _request, _body: web.json_response(reference)]
    assert await verbs.branch_sha(github, REPO, "main") is None
    assert server.heard[0].path == "/api/v3/repos/octo-org/tidebook/git/ref/heads/main"


def test_every_verb_says_what_it_needs() -> None:
    functions = {
        name for name, value in vars(verbs).items() if iscoroutinefunction(value) and value.__module__ == verbs.__name__
    }
    assert functions == set(verbs.PERMISSIONS)


def strongest(*tables: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, level in (entry for table in tables for entry in table.items()):
        found[name] = max(found.get(name, "read"), level, key=LEVELS.index)
    return found


def test_a_token_for_the_api_opens_what_the_verbs_need() -> None:
    """A branch is deleted as one is pushed."""
    for verb, (name, level) in verbs.PERMISSIONS.items():
        token = PUSH_PERMISSIONS if verb == "delete_branch" else API_PERMISSIONS
        assert LEVELS.index(token[name]) >= LEVELS.index(level)


def test_the_manifest_asks_for_what_the_code_uses_and_no_more() -> None:
    manifest = YAML(typ="safe").load((ROOT / "app.yml").read_text("utf-8"))
    assert sorted(manifest["default_events"]) == sorted(SUBSCRIBED)
    asked = strongest(dict(API_PERMISSIONS), dict(FETCH_PERMISSIONS), dict(PUSH_PERMISSIONS))
    assert manifest["default_permissions"] == asked
