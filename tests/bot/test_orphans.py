"""Check runs that no run stands behind, over the stand-in."""

from __future__ import annotations

from typing import Any

import pytest

from bot.github import Unavailable, own
from bot.orphans import sweep
from bot.publish import Publisher
from bot.statuses import CHECK_NAME
from deploy.standin import CheckRun


async def orphan(world: Any, run: str = "7h2kq9xw", *, status: str = "in_progress", name: str = CHECK_NAME) -> int:
    """Leave a check run of a run that nobody knows."""
    github = world.bot.app.installation(world.standin.installation_id(world.repo), world.repo.id)
    fields = {"name": name, "head_sha": world.head(), "external_id": run, "status": status}
    made = await github.post(f"/repos/{world.repo.full_name}/check-runs", fields)
    return int(made["id"])


async def swept(world: Any) -> int:
    return len([None async for _ in sweep(world.bot.app, world.store)])


def check(world: Any, number: int) -> CheckRun:
    (found,) = (each for each in world.standin.check_runs(world.repo) if each.id == number)
    assert isinstance(found, CheckRun)
    return found


@pytest.mark.threat("R4", "R25")
@pytest.mark.parametrize("status", ["queued", "in_progress"])
@pytest.mark.parametrize("name", [CHECK_NAME, f"{CHECK_NAME}/answer"])
async def test_one_that_nobody_knows_is_concluded_once(world: Any, status: str, name: str) -> None:
    number = await orphan(world, status=status, name=name)
    await swept(world)
    found = check(world, number)
    assert (found.status, found.conclusion) == ("completed", "failure")
    assert found.title == "Lost: the store forgot this debate, run it again"
    assert "`7h2kq9xw`" in (found.summary or "")
    before = len(world.standin.requests("PATCH"))
    await swept(world)
    assert len(world.standin.requests("PATCH")) == before


async def test_its_comment_says_so_and_no_other_is_changed(world: Any) -> None:
    number = await orphan(world)
    github = world.bot.app.installation(world.standin.installation_id(world.repo), world.repo.id)
    body = "## Debate\n\n**Under way** on abc, round 3 of at most 6: x. Nothing to do yet.\n\nrun `7h2kq9xw`\n"
    path = f"/repos/{world.repo.full_name}/issues/{world.number}/comments"
    for text in (body, body.replace("7h2kq9xw", "otherrun")):
        await github.post(path, {"body": text})
    forged = await world.standin.comment(world.repo, world.number, body, login="mona")
    await swept(world)
    assert check(world, number).status == "completed"
    lost, other = world.replies()
    assert "⚠️ **Lost** in round 3: the store forgot this debate. No agreement." in lost
    assert other == body.replace("7h2kq9xw", "otherrun")
    there = {each.id: each.body for each in world.standin.comments(world.repo, world.number)}
    assert there[forged] == body


async def test_those_of_live_runs_of_others_and_of_other_names_are_left_alone(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    other = await orphan(world, name="another-tool")
    await swept(world)
    assert check(world, other).status == "in_progress"
    (live,) = (each for each in world.standin.check_runs(world.repo) if each.external_id == run.id)
    assert live.status == "queued"


async def test_one_of_a_run_that_has_ended_waits_for_what_the_run_left_to_tell(world: Any) -> None:
    """And where nothing is left, and GitHub alone thinks that it is open, GitHub is believed to be behind."""
    await world.say("/codex-debate")
    run = await world.started()
    (queued,) = world.standin.check_runs(world.repo)
    await world.store.runs.finish(run.id, 0, "consensus")
    publisher: Publisher = await world.scene().publisher(run.id)
    name = f"{run.id}/check/{CHECK_NAME}"
    stored = await world.store.outbox.get(name)
    await world.store.outbox.replace(name, stored, publisher._by)
    await swept(world)
    assert check(world, queued.id).status == "queued"
    done = await world.store.outbox.result(name)
    await world.store.outbox.done(name, done.replace(b'"completed":false', b'"completed":true'), publisher._by)
    await swept(world)
    assert check(world, queued.id).status == "queued"
    await world.store.outbox.done(name, done, publisher._by)
    await swept(world)
    assert (check(world, queued.id).status, check(world, queued.id).conclusion) == ("completed", "failure")


async def test_installations_that_take_nothing_are_passed_over(world: Any) -> None:
    other = await world.standin.create_repository("harbour/tide")
    await world.standin.commit(other, "main", {"a": "1"})
    await world.standin.suspend("octo-org")
    assert [each.suspended_at is None for each in await own.installations(world.bot.app.own)] == [False, True]
    assert await swept(world) == 3, "each installation, and the one repository"
    world.standin.expire_tokens()
    world.standin.fail_next("POST", "/app/installations", status=403, message="no")
    assert await swept(world) == 2, "each installation"


async def test_while_github_is_away_nothing_is_concluded(world: Any) -> None:
    number = await orphan(world)
    world.standin.fail_next("GET", f"/repos/{world.repo.full_name}/commits", status=503, times=10)
    await swept(world)
    assert check(world, number).status == "in_progress"
    for owner in ("one", "two"):
        await world.standin.create_repository(f"{owner}/tide")
    world.standin.clear_faults()
    world.standin.fail_next("GET", "/installation/repositories", status=503, times=100)
    with pytest.raises(Unavailable):
        await swept(world)


async def test_one_repository_that_refuses_keeps_no_other_from_being_looked_at(world: Any) -> None:
    other = await orphaned(world, "octo-org/another")
    world.standin.fail_next("GET", f"/repos/{world.repo.full_name}/pulls", status=403)
    await swept(world)
    assert world.standin.requests("GET", f"/repos/{world.repo.full_name}/pulls")[0].status == 403
    assert world.standin.check_runs(other)[0].conclusion == "failure"


async def orphaned(world: Any, name: str) -> Any:
    """Return another repository, which is looked at after the first, with a check run that nobody will conclude."""
    repo = await world.standin.create_repository(name)
    await world.standin.commit(repo, "main", {"a": "1"})
    head = await world.standin.commit(repo, "change", {"a": "2"}, parent="main")
    await world.standin.open_pull_request(repo, "change")
    github = world.bot.app.installation(world.standin.installation_id(repo), repo.id)
    fields = {"name": CHECK_NAME, "head_sha": head, "external_id": "lostlost", "status": "queued"}
    await github.post(f"/repos/{repo.full_name}/check-runs", fields)
    return repo


async def test_a_silent_installation_keeps_no_other_from_being_looked_at(world: Any) -> None:
    far = await orphaned(world, "zz-far/tide")
    world.standin.fail_next("GET", f"/repos/{world.repo.full_name}", status=503, times=50)
    await swept(world)
    assert world.standin.check_runs(far)[0].conclusion == "failure"
