"""One coroutine for all events: its tries, its line in the log, and what becomes of installations."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bot import replies
from bot.github import wire
from bot.handlers import EVENT_TRIES, FORGET_TRIES, LAST_TRIES, PAUSE_SECONDS
from bot.store import TryAgain


async def test_unknown_events_are_left(world: Any) -> None:
    await world.hear({}, name="star")
    await world.hear({"zen": "…"}, name="ping")
    await world.hear({"action": "created", "installation": {"id": 1, "app_id": 1}}, name="installation")
    await world.hear({"action": "unsuspend", "installation": {"id": 1, "app_id": 1}}, name="installation")
    await world.hear({"action": "added", "installation": {"id": 1, "app_id": 1}}, name="installation_repositories")
    assert world.outcomes() == {"ignored": 1, "pong": 1, "recorded": 3}


# ---- While GitHub is away -------------------------------------------------------------------------------------------


async def test_while_github_is_away_the_event_waits_and_is_then_given_up(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("*", "/", status=503, times=10_000)
    for attempt in (1, 2, EVENT_TRIES, LAST_TRIES - 1):
        with pytest.raises(TryAgain) as waits:
            await world.hear(payload, attempt=attempt, name="issue_comment")
        assert (waits.value.defer_score or 0) <= PAUSE_SECONDS * 1000
    await world.hear(payload, attempt=LAST_TRIES, name="issue_comment")
    assert world.outcomes() == {"given up": 1}


@pytest.mark.threat("R13")
async def test_a_command_that_nobody_could_be_told_about_is_carried_out_when_github_is_back(world: Any) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("*", "/", status=503, times=10_000)
    for attempt in (1, EVENT_TRIES, EVENT_TRIES + 20):
        with pytest.raises(TryAgain):
            await world.hear(payload, attempt=attempt, name="issue_comment")
    world.standin.clear_faults()
    await world.hear(payload, attempt=EVENT_TRIES + 21, name="issue_comment")
    assert await world.enqueued((await world.started()).id)
    assert (len(world.checks()), world.reactions(comment)) == (1, ["eyes"])


@pytest.mark.threat("T5", 71)
@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 503}, {"drop": True}, {"hang": True}])
async def test_a_permission_that_cannot_be_asked_for_is_no_permission_and_that_is_told(
    world: Any, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried again, then refused."""
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 0.1 if "hang" in fault else wire.REQUEST_SECONDS)
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("GET", "/repos/octo-org/tidebook/collaborators", times=1000, **fault)
    for attempt in (1, 2, EVENT_TRIES - 1):
        with pytest.raises(TryAgain):
            await world.hear(payload, attempt=attempt, name="issue_comment")
    await world.hear(payload, attempt=EVENT_TRIES, name="issue_comment")
    assert world.outcomes() == {"given up": 1}
    assert world.replies() == [replies.github_away()]
    assert world.reactions(comment) == ["confused"]
    assert world.checks() == []


async def test_giving_up_is_told_once_a_day_and_only_to_who_commanded(world: Any) -> None:
    world.standin.fail_next("GET", "/repos/octo-org/tidebook/collaborators", times=1000, status=503)
    for text in ("/codex-debate", "/codex-debate review"):
        await world.standin.comment(world.repo, world.number, text, login="hubot")
        await world.hear(attempt=EVENT_TRIES)
    assert world.replies() == [replies.github_away()]


# ---- Installations --------------------------------------------------------------------------------------------------


async def test_an_installation_that_is_gone_ends_quietly(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    payload["installation"]["id"] = 10**9
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"not installed": 1}


@pytest.mark.threat(32)
async def test_an_installation_that_does_not_own_the_repository_is_dropped(world: Any) -> None:
    other = await world.standin.create_repository("elsewhere/tidebook")
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    payload["installation"]["id"] = world.standin.installation_id(other)
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"not installed": 1}
    assert world.checks() == []


def removed(world: Any, action: str) -> dict[str, Any]:
    return {
        "action": action,
        "installation": {"id": world.standin.installation_id(world.repo), "app_id": int(world.standin.app_id)},
    }


@pytest.mark.threat(31)
async def test_a_suspended_installation_ends_its_runs(world: Any) -> None:
    await world.say("/codex-debate")
    await world.say("/codex-debate review --no-commit")
    run = await world.started()
    payload = removed(world, "suspend")
    world.standin.fail_next("POST", "/app/installations", status=403, message="This installation has been suspended")
    await world.hear(payload, name="installation")
    assert await world.store.runs.cancelled(run.id) == "withdrawn"
    waiting = (await world.store.runs.holders(world.repo.id, world.number)).waiting
    assert await world.store.runs.cancelled(waiting.id) == "withdrawn"
    assert world.outcomes()["withdrawn"] == 1
    assert await world.store.runs.get(run.id) == run, "it may come back"


@pytest.mark.threat(31)
async def test_a_removed_installation_is_forgotten_once_its_runs_have_ended(world: Any) -> None:
    """Jobs end cancelled, data is purged."""
    await world.say("/codex-debate")
    run = await world.started()
    payload = removed(world, "deleted")
    await world.standin.uninstall("octo-org")
    with pytest.raises(TryAgain):
        await world.hear(payload, name="installation")
    assert await world.store.runs.cancelled(run.id) == "withdrawn"
    await world.store.runs.finish(run.id, 0, "authorisation-withdrawn")
    await world.hear(payload, name="installation", attempt=2)
    assert world.outcomes()["forgotten"] == 1
    assert await world.store.runs.get(run.id) is None
    assert (await world.store.runs.holders(world.repo.id, world.number)).running is None


async def test_a_run_that_never_ends_does_not_keep_the_data(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    payload = removed(world, "deleted")
    await world.standin.uninstall("octo-org")
    await world.hear(payload, name="installation", attempt=FORGET_TRIES)
    assert await world.store.runs.get(run.id) is None


@pytest.mark.parametrize("action", ["deleted", "suspend"])
@pytest.mark.threat("T2")
async def test_an_installation_that_is_there_is_not_believed_to_be_gone(world: Any, action: str) -> None:
    """The name of an event is not signed, and what was taken away may be back."""
    await world.say("/codex-debate")
    run = await world.started()
    with pytest.raises(TryAgain):
        await world.hear(removed(world, action), name="installation")
    await world.hear(removed(world, action), name="installation", attempt=2)
    assert world.outcomes()["ignored"] == 1
    assert await world.store.runs.cancelled(run.id) is None
    assert world.standin.requests("DELETE", "/installation/token"), "what was asked with is ended"
    assert await world.store.runs.get(run.id) == run


@pytest.mark.parametrize("name", ["installation", "installation_repositories"])
@pytest.mark.threat("T2", 29)
async def test_another_events_body_removes_nothing(world: Any, name: str) -> None:
    """A captured body is signed, and its event's name is not."""
    await world.say("/codex-debate")
    run = await world.started()
    await world.standin.comment(world.repo, world.number, "words", login="mona")
    payload = world.standin.deliveries[-1].payload | {"action": "deleted"}
    await world.standin.uninstall("octo-org")
    await world.hear(payload, name=name)
    assert await world.store.runs.cancelled(run.id) is None


async def test_a_github_that_is_away_keeps_no_installation_from_being_forgotten(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    payload = removed(world, "deleted")
    await world.standin.uninstall("octo-org")
    for attempt in (1, EVENT_TRIES, EVENT_TRIES + 1):
        world.standin.fail_next("POST", "/app/installations", status=502)
        with pytest.raises(TryAgain):
            await world.hear(payload, name="installation", attempt=attempt)
    await world.store.runs.finish(run.id, 0, "authorisation-withdrawn")
    await world.hear(payload, name="installation", attempt=EVENT_TRIES + 2)
    assert await world.store.runs.get(run.id) is None


async def test_another_installations_runs_are_left_alone(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    await world.hear({"action": "deleted", "installation": {"id": 10**9, "app_id": 1}}, name="installation")
    assert world.outcomes()["forgotten"] == 1
    assert await world.store.runs.cancelled(run.id) is None
    assert await world.store.runs.get(run.id) == run


# ---- What has begun is not denied -----------------------------------------------------------------------------------


async def test_a_command_that_got_its_run_is_not_told_that_nothing_was_started(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", times=1000, status=503)
    for attempt in (1, 2, EVENT_TRIES - 1):
        with pytest.raises(TryAgain):
            await world.hear(payload, attempt=attempt, name="issue_comment")
    await world.hear(payload, attempt=LAST_TRIES, name="issue_comment")
    world.standin.clear_faults()
    assert world.outcomes() == {"given up": 1}
    assert world.replies() == []
    assert await world.enqueued((await world.started()).id)
