"""git's credential for a run: another one where the server does not take the first, and no third."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, NotInstalled, open_session
from bot.settings import Settings
from bot.store.runs import Ceilings, Person, Repository, Run
from deploy.standin import Repo, StandIn
from worker.checkout import Source
from worker.credential import with_credential
from worker.git import GitUnavailable, GitUnknown, PushRefused, Remote
from worker.git.commit import push, remote_sha
from worker.git.mirror import Mirror, Mirrors

MAIN = "refs/heads/main"


@dataclass
class World:
    standin: StandIn
    app: AppClient
    repo: Repo
    run: Run
    mirror: Mirror

    async def read(self) -> str | None:
        async def use(source: Source) -> str | None:
            return await remote_sha(Remote(source.url, source.token), MAIN)

        return await with_credential(self.app, self.run, server_url=self.standin.server_url, write=False, use=use)

    def minted(self) -> int:
        return len(self.standin.requests("POST", "/app/installations"))


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with await StandIn.start(tmp_path / "github") as standin, open_session(standin.api_url) as session:
        repo = await standin.create_repository("octo-org/tidebook", private=True)
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        settings = Settings(
            github_app_id=standin.app_id,
            github_app_private_key=SecretStr(standin.app_private_key),
            github_api_url=standin.api_url,
        )
        run = Run(
            id="run1",
            kind="review",
            created_at=datetime(2026, 12, 1, tzinfo=UTC),
            installation_id=standin.installation_id(repo),
            repository=Repository(id=repo.id, full_name=repo.full_name),
            number=1,
            title="",
            body="",
            head_sha="a" * 40,
            head_ref="x",
            base_ref="main",
            own_base="main",
            authority=Person(id=5, login="mara"),
            requester=None,
            source=None,
            seats={},
            ceilings=Ceilings(rounds=1, turn_seconds=1, run_seconds=1, usd=1.0),
        )
        mirror = await Mirrors(tmp_path / "mirrors").of(repo.id)
        yield World(standin, AppClient(settings, session), repo, run, mirror)


async def test_one_token_is_enough_where_git_takes_it(world: World) -> None:
    assert await world.read() == await world.standin.read_ref(world.repo, "main")
    assert await world.read() is not None
    assert world.minted() == 1


async def test_where_git_does_not_know_the_form_of_2026_the_older_one_is_asked_for(world: World) -> None:
    """github.md A5: 404 to a token of the new form that is scoped to one repository."""
    world.standin.git_takes_stateless = False
    assert await world.read() == await world.standin.read_ref(world.repo, "main")
    assert world.minted() == 2
    assert await world.read() is not None
    assert world.minted() == 2


async def test_a_token_that_was_revoked_is_replaced(world: World) -> None:
    assert await world.read() is not None
    world.standin.expire_tokens()
    assert await world.read() is not None
    assert world.minted() == 2


async def test_a_push_gets_another_token_too(world: World) -> None:
    world.standin.git_takes_stateless = False
    sha = await world.standin.commit(world.repo, "main", {"a.txt": "two\n"})
    await world.mirror.fetch(world.standin.clone_url(world.repo), {"refs/run/run1/head": MAIN}, await _classic(world))

    async def use(source: Source) -> None:
        await push(world.mirror, Remote(source.url, source.token), sha, ref="refs/heads/new")

    await with_credential(world.app, world.run, server_url=world.standin.server_url, write=True, use=use)
    assert await world.standin.read_ref(world.repo, "new") == sha


async def _classic(world: World) -> str:
    return await world.app.git_token(world.run.installation_id, world.repo.id, write=False, refused="x")


async def test_a_repository_that_is_gone_is_asked_for_twice_and_no_more(world: World) -> None:
    gone = world.run.model_copy(update={"repository": Repository(id=world.repo.id, full_name="octo-org/gone")})
    calls = 0

    async def use(source: Source) -> None:
        nonlocal calls
        calls += 1
        await remote_sha(Remote(source.url, source.token), MAIN)

    with pytest.raises(GitUnknown, match="not found"):
        await with_credential(world.app, gone, server_url=world.standin.server_url, write=False, use=use)
    assert calls == world.minted() == 2


@pytest.mark.parametrize("fault", [GitUnavailable("fetch", "returned error: 502"), PushRefused("no")])
async def test_other_failures_are_the_callers(world: World, fault: Exception) -> None:
    calls = 0

    async def use(_source: Source) -> None:
        nonlocal calls
        calls += 1
        raise fault

    with pytest.raises(type(fault)):
        await with_credential(world.app, world.run, server_url=world.standin.server_url, write=True, use=use)
    assert calls == world.minted() == 1


async def test_where_the_app_is_not_installed_nothing_is_tried(world: World) -> None:
    world.run = world.run.model_copy(update={"installation_id": 10**9})
    with pytest.raises(NotInstalled):
        await world.read()
