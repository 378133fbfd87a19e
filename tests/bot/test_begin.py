"""Beginning a debate: what is claimed, shown and handed on, and what is told of the one in the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot import begin
from bot.github import verbs
from bot.store import TryAgain


@pytest.mark.parametrize("progress", [None, "{", "[]", '{"round": "2"}', '{"round": 0}'])
async def test_a_running_debate_of_which_little_is_known(world: Any, progress: str | None) -> None:
    await world.say("/codex-debate")
    if progress is not None:
        await world.store.runs.set_progress((await world.started()).id, progress)
    await world.say("/codex-debate review --no-commit")
    assert world.replies()[0].startswith("A review is running: minute 1 ([check run](")


# ---- A bot that dies between the claim and the queue ----------------------------------------------------------------


async def claimed_only(world: Any, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bot claim a run and die before it hands it on."""

    class Died(BaseException):
        """The process ends here."""

    async def dies(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(begin, "_go_on", dies)
        with pytest.raises(Died):
            await world.hear(payload, name="issue_comment")
    assert await world.started()
    assert world.checks() == []


@pytest.mark.parametrize("then", ["nothing", "the comment is deleted", "the pull request is closed", "no permission"])
async def test_a_run_that_was_claimed_gets_to_a_worker(world: Any, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """Whatever became of who asked for it: a claim that nobody works at would hold the pull request for ever."""
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    await claimed_only(world, payload, monkeypatch)
    if then == "the comment is deleted":
        await world.standin.delete_comment(comment)
    elif then == "the pull request is closed":
        await world.standin.close_pull_request(world.repo, world.number)
    elif then == "no permission":
        world.standin.set_permission(world.repo, "mona", "read")
    await world.hear(payload, attempt=2, name="issue_comment")
    run = await world.started()
    assert await world.enqueued(run.id)
    assert [check.external_id for check in world.checks()] == [run.id]


async def test_the_queued_check_run_is_not_created_beside_the_workers(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting run is promoted while its queued check run is on its way: the worker looks only when that is over."""
    create = verbs.create_check_run
    order: list[str] = []

    async def slow(github: Any, repo: str, fields: Any) -> Any:
        order.append("bot begins")
        await asyncio.sleep(0.3)
        made = await create(github, repo, fields)
        order.append("bot has created")
        return made

    async def promoted() -> None:
        while "bot begins" not in order:
            await asyncio.sleep(0.01)
        run = await world.started()
        await world.store.runs.begin_attempt(run.id)
        while not await world.store.runs.shown(run.id):
            await asyncio.sleep(0.01)
        order.append("the worker looks")

    monkeypatch.setattr(verbs, "create_check_run", slow)
    worker = asyncio.create_task(promoted())
    await world.say("/codex-debate")
    await worker
    assert order == ["bot begins", "bot has created", "the worker looks"]


async def test_once_a_worker_has_begun_no_queued_check_run_is_created(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", status=502)
    with pytest.raises(TryAgain):
        await world.hear(payload, name="issue_comment")
    await world.store.runs.begin_attempt((await world.started()).id)
    await world.hear(payload, attempt=2, name="issue_comment")
    assert world.checks() == []
