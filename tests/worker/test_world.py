"""What must still hold around a run, asked of the stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, GitHub, NotInstalled, Unavailable, open_session, verbs
from bot.settings import Settings
from bot.statuses import Status
from bot.store.runs import Ceilings, Person, Repository, Run
from deploy.standin import Repo, StandIn
from worker.ended import ARCHIVED, FORK_GONE, RETARGETED, Ended
from worker.world import World, locate


@dataclass
class Place:
    standin: StandIn
    github: GitHub
    repo: Repo
    number: int
    app: AppClient

    def run(self, **fields: object) -> Run:
        mona = next(user for user in self.standin._site.state.users.values() if user.login == "mona")
        made = {
            "id": "7h2kq9xw",
            "kind": "review",
            "created_at": datetime(2026, 12, 1, tzinfo=UTC),
            "installation_id": self.standin.installation_id(self.repo),
            "repository": Repository(id=self.repo.id, full_name=self.repo.full_name),
            "number": self.number,
            "title": "t",
            "body": "",
            "head_sha": self.standin.pull(self.repo, self.number).head_sha,
            "head_ref": "retry",
            "base_ref": "main",
            "own_base": "main",
            "requester": None,
            "authority": Person(id=mona.id, login="mona"),
            "source": None,
            "seats": {},
            "ceilings": Ceilings(rounds=1, turn_seconds=1, run_seconds=1, usd=1),
        }
        return Run.model_validate(made | fields)

    def world(self, **fields: object) -> World:
        return World(self.run(**fields), self.github)


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with await StandIn.start(tmp_path) as standin, open_session(standin.api_url) as session:
        repo = await standin.create_repository("octo-org/tidebook")
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        await standin.commit(repo, "retry", {"a.txt": "two\n"}, parent="main")
        await standin.commit(repo, "release", {"b.txt": "b\n"}, parent="main")
        standin.create_user("mona")
        standin.set_permission(repo, "mona", "write")
        number = await standin.open_pull_request(repo, "retry", "main")
        settings = Settings(
            github_app_id=standin.app_id,
            github_app_private_key=SecretStr(standin.app_private_key),
            github_api_url=standin.api_url,
        )
        app = AppClient(settings, session)
        yield Place(standin, app.installation(standin.installation_id(repo), repo.id), repo, number, app)


async def ended(world: World) -> tuple[Status, str]:
    with pytest.raises(Ended) as end:
        await world.still_current()
    return end.value.status, end.value.reason


async def test_as_it_was_it_goes_on(place: Place) -> None:
    await place.world().still_current()


async def test_the_head_moved_or_the_pull_request_was_closed(place: Place) -> None:
    world = place.world()
    await place.standin.commit(place.repo, "retry", {"a.txt": "three\n"})
    assert await ended(world) == (Status.SUPERSEDED, "")
    await place.standin.close_pull_request(place.repo, place.number)
    assert (await ended(world))[0] is Status.CLOSED
    assert (await ended(place.world(number=999)))[0] is Status.CLOSED


async def test_a_head_that_only_took_in_its_base_is_no_other_and_is_judged_once(place: Place) -> None:
    judged: list[str] = []

    async def only_merged(head: str) -> bool:
        judged.append(head)
        return len(judged) == 1

    world = World(place.run(), place.github, only_merged=only_merged)
    merged = await place.standin.commit(place.repo, "retry", {"b.txt": "stands for a merge"})
    for _ in range(2):
        await world.still_current()
    assert judged == [merged]
    await place.standin.commit(place.repo, "retry", {"a.txt": "three\n"})
    assert (await ended(world))[0] is Status.SUPERSEDED


@pytest.mark.threat("R9")
async def test_a_repository_that_was_archived_takes_nothing_any_more(place: Place) -> None:
    place.standin.archive_repository(place.repo)
    assert await ended(place.world()) == (Status.CLOSED, ARCHIVED)


@pytest.mark.threat("R9")
async def test_a_fork_that_was_deleted(place: Place) -> None:
    place.standin.create_user("ann")
    fork = await place.standin.fork(place.repo, "ann")
    await place.standin.commit(fork, "patch", {"a.txt": "x\n"}, parent="main")
    number = await place.standin.open_pull_request(place.repo, "ann:patch", author="ann")
    world = replace(place, number=number).world(fork=True)
    await world.still_current()
    place.standin.delete_repository(fork)
    assert await ended(world) == (Status.CLOSED, FORK_GONE)


async def test_a_permission_that_was_withdrawn_ends_it_before_the_next_round(place: Place) -> None:
    place.standin.set_permission(place.repo, "mona", "read")
    assert (await ended(place.world()))[0] is Status.AUTHORISATION_WITHDRAWN


async def test_a_repository_is_located_under_its_present_name_and_installation(place: Place) -> None:
    run = place.run()
    place.standin.rename_repository(place.repo, "octo-org/renamed")
    here = await locate(run, place.app)
    assert (here.run.repository.full_name, here.moved) == ("octo-org/renamed", False)
    await place.standin.create_repository("harbour/else")
    place.standin.transfer_repository(place.repo, "harbour")
    there = await locate(run, place.app)
    assert (there.run.repository.full_name, there.moved) == ("harbour/renamed", True)
    assert (await verbs.pull(there.github, "harbour/renamed", place.number)).number == place.number


@pytest.mark.parametrize("how", ["uninstalled", "suspended", "transferred to where it is not installed"])
async def test_where_the_app_has_no_part_any_more_nothing_is_located(place: Place, how: str) -> None:
    run = place.run()
    match how:
        case "uninstalled":
            await place.standin.uninstall("octo-org")
        case "suspended":
            await place.standin.suspend("octo-org")
        case _:
            place.standin.create_user("harbour")
            place.standin.transfer_repository(place.repo, "harbour")
    with pytest.raises(NotInstalled):
        await locate(run, place.app)


async def test_another_base(place: Place) -> None:
    """threats.md, input 72; a base that the command named is not the pull request's own."""
    world, named = place.world(), place.world(base_ref="release")
    await named.still_current()
    await place.standin.change_base(place.repo, place.number, "release")
    assert await ended(world) == (Status.SUPERSEDED, RETARGETED)


async def test_a_new_name_is_found(place: Place) -> None:
    world = place.world()
    place.standin.rename_repository(place.repo, "octo-org/renamed")
    await world.still_current()
    assert (await locate(world.run, place.app)).run.repository.full_name == "octo-org/renamed"


@pytest.mark.parametrize("private", [True, False])
async def test_an_old_name_that_another_repository_took_over(place: Place, private: bool) -> None:
    """threats.md, input 67."""
    world = place.world()
    place.standin.rename_repository(place.repo, "octo-org/renamed")
    other = await place.standin.create_repository("octo-org/tidebook", private=private)
    await place.standin.commit(other, "main", {"a.txt": "one\n"})
    await place.standin.commit(other, "retry", {"a.txt": "x\n"}, parent="main")
    await place.standin.open_pull_request(other, "retry", "main")
    for _ in range(2):  # who asks beside the debate must not use it up
        with pytest.raises(Unavailable, match="another name now"):
            await world.still_current()
    assert (await locate(world.run, place.app)).run.repository.full_name == "octo-org/renamed"


@pytest.mark.parametrize("level", ["read", "triage", "none"])
async def test_the_permission_was_withdrawn(place: Place, level: str) -> None:
    """threats.md, input 63."""
    place.standin.set_permission(place.repo, "mona", level)
    assert await ended(place.world()) == (Status.AUTHORISATION_WITHDRAWN, "")


async def test_a_login_that_changed_hands_has_no_permission(place: Place) -> None:
    """threats.md, input 66."""
    world = place.world()
    place.standin.rename_user("mona", "mona-old")
    place.standin.create_user("mona")
    place.standin.set_permission(place.repo, "mona", "admin")
    assert await ended(world) == (Status.AUTHORISATION_WITHDRAWN, "")


async def test_what_became_public_is_shown_while_its_starter_may_write(place: Place) -> None:
    """threats.md, input 68."""
    repo = await place.standin.create_repository("octo-org/secret", private=True)
    await place.standin.commit(repo, "main", {"a.txt": "one\n"})
    await place.standin.commit(repo, "retry", {"a.txt": "two\n"}, parent="main")
    place.standin.set_permission(repo, "mona", "read")
    number = await place.standin.open_pull_request(repo, "retry", "main")
    github = place.app.installation(place.standin.installation_id(repo), repo.id)
    secret = replace(place, github=github, repo=repo, number=number)
    world = secret.world(private=True)
    assert await world.may_show(), "it is private still"
    place.standin.make_public(repo)
    assert not await world.may_show()
    assert await secret.world().may_show(), "it was public when the debate began"
    place.standin.set_permission(repo, "mona", "write")
    assert await world.may_show()


async def test_the_app_is_gone(place: Place) -> None:
    world = place.world()
    await place.standin.uninstall("octo-org")
    with pytest.raises(NotInstalled):
        await world.still_current()
