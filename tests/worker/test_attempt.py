"""One attempt at one run, over the stand-in: what it does once, and what ends it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bot.store import TryAgain
from tests.worker.conftest import FIXED, NIT, World, make_run, play, yes
from worker import folder, protocols
from worker.attempt import DEATHS, HOPELESS_SECONDS
from worker.debate.review import review
from worker.debate.task import Limits
from worker.git.mirror import Mirrors
from worker.job import debate
from worker.protocols import PROTOCOLS


async def test_nothing_of_an_ended_run_is_left(world: World) -> None:
    await debate(world.office, world.run.id)
    assert not (world.office.settings.state_dir / "runs" / world.run.id).exists()


async def test_a_step_forward_ends_the_count_of_a_githubs_absence(world: World) -> None:
    fence = await world.store.runs.begin_attempt(world.run.id)
    await world.store.runs.record(world.run.id, fence, faulty=int(time.time()) - HOPELESS_SECONDS - 1)
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"
    assert (await world.store.runs.state(world.run.id)).faulty is None


async def test_a_token_that_git_does_not_take_is_replaced(world: World) -> None:
    """github.md A5: git was reported to answer 404 to the form of 2026."""
    world.standin.git_takes_stateless = False
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"


@pytest.mark.threat("R20")
async def test_a_changed_flow_ends_the_run_as_superseded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """house.md 4: the fingerprint decides whether a journal may be replayed."""

    async def die(_: str) -> None:
        raise RuntimeError("killed")

    office = replace(world.office, tap=die)
    with pytest.raises(TryAgain):
        await debate(office, world.run.id)
    monkeypatch.setitem(PROTOCOLS, "review", protocols.Protocol(review, (b"another version",)))
    await debate(world.office, world.run.id)
    assert await world.status() == "superseded"
    assert world.check.conclusion == "cancelled"
    assert "changed with an update" in (world.check.summary or "")
    # A new run takes its place: new id, branch and check run.
    held = await world.store.runs.holders(world.repo.id, world.run.number)
    assert held.running is not None
    assert held.running.id != world.run.id
    await debate(world.office, held.running.id)
    assert (await world.store.runs.state(held.running.id)).status == "consensus"


def test_limits_of_a_run_and_of_a_task_are_the_same() -> None:
    assert set(Limits.model_fields) == set(type(make_run("a" * 40).ceilings).model_fields)


async def test_a_run_that_waited_while_the_head_moved_begins_anew_on_the_new_head(world: World) -> None:
    """decisions.md 1.3."""
    second = world.run.model_copy(update={"id": "waiting1", "source": None})
    await world.store.runs.claim(second, "other words")
    head = await world.standin.commit(world.repo, "feature", {"a.txt": "three\n"})
    await debate(world.office, world.run.id)
    assert await world.status() == "superseded"
    await debate(world.office, "waiting1")
    assert (await world.store.runs.state("waiting1")).status == "superseded"
    held = await world.store.runs.holders(world.repo.id, world.run.number)
    assert held.running is not None
    assert (held.running.head_sha, held.running.requester) == (head, world.run.requester)
    await debate(world.office, held.running.id)
    assert (await world.store.runs.state(held.running.id)).status == "consensus"
    assert world.standin.check_runs(world.repo, head)[-1].conclusion == "success"


async def test_an_approval_does_not_pass_to_another_commit(world: World) -> None:
    """threats.md T7: a run that stands on an approval does not begin anew where the head moved."""
    second = world.run.model_copy(update={"id": "waiting1", "source": None, "approved": True})
    await world.store.runs.claim(second, "other words")
    await world.standin.commit(world.repo, "feature", {"a.txt": "three\n"})
    await debate(world.office, world.run.id)
    await debate(world.office, "waiting1")
    assert (await world.store.runs.state("waiting1")).status == "superseded"
    assert (await world.store.runs.holders(world.repo.id, world.run.number)).running is None


async def test_a_run_that_waited_while_the_base_was_changed_begins_anew_against_the_new_one(world: World) -> None:
    second = world.run.model_copy(update={"id": "waiting1", "source": None})
    await world.store.runs.claim(second, "other words")
    await world.standin.commit(world.repo, "release", {"r.txt": "r\n"}, parent="main")
    await world.standin.change_base(world.repo, world.run.number, "release")
    await debate(world.office, world.run.id)
    await debate(world.office, "waiting1")
    held = await world.store.runs.holders(world.repo.id, world.run.number)
    assert held.running is not None
    assert (held.running.own_base, held.running.base_ref) == ("release", "release")
    await debate(world.office, held.running.id)
    assert (await world.store.runs.state(held.running.id)).status == "consensus"


async def test_a_run_whose_own_head_moved_does_not_begin_anew(world: World) -> None:
    """threats.md, input 70: what was asked about one commit never turns to another by itself."""
    await world.standin.commit(world.repo, "feature", {"a.txt": "three\n"})
    await debate(world.office, world.run.id)
    assert (await world.store.runs.holders(world.repo.id, world.run.number)).running is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/repos/you/app/issues/comments"), ("POST", "/repos/you/app/issues")],
    ids=["the reaction", "the comment"],
)
async def test_what_github_refuses_for_good_does_not_hold_a_run(world: World, method: str, path: str) -> None:
    world.standin.fail_next(method, path, status=403, times=1000)
    await debate(world.office, world.run.id)
    assert any(each.status == 403 for each in world.standin.requests(method, path))
    assert await world.status() == "consensus"
    assert world.check.status == "completed"


async def test_a_repository_that_is_not_shown_ends_the_run(world: World) -> None:
    """An organisation may refuse the addresses of this server for good (403): no run goes on for ever."""
    world.standin.fail_next("GET", "/installation/repositories", status=403, times=1000)
    for _ in range(2 * DEATHS - 1):
        with pytest.raises(TryAgain):
            await debate(world.office, world.run.id)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"


async def test_a_garbled_answer_to_git_is_no_verdict(world: World) -> None:
    """To git a proxy's page is a server without branches: the API is asked before that is believed."""
    world.standin.fail_next("GET", "/you/app.git/info", garbage=True)
    with pytest.raises(TryAgain):
        await debate(world.office, world.run.id)
    await debate(world.office, world.run.id)
    assert await world.status() == "consensus"


async def test_a_base_branch_that_was_deleted_is_told(world: World) -> None:
    await world.standin.commit(world.repo, "old", {"b.txt": "b\n"}, parent="main")
    run = world.run.model_copy(update={"id": "based111", "base_ref": "old", "source": None, "number": world.run.number})
    await world.store.runs.finish(world.run.id, 0, "stopped")
    await world.store.runs.claim(run, "words")
    await world.standin.delete_branch(world.repo, "old")
    await debate(world.office, "based111")
    assert (await world.store.runs.state("based111")).status == "merge-base-error"


async def test_a_worker_waits_while_the_bot_creates_the_queued_check_run(world: World) -> None:
    """Two who look at once would both create one."""
    await world.store.runs.show(world.run.id)
    task = asyncio.create_task(debate(world.office, world.run.id))
    await asyncio.sleep(0.5)
    assert world.standin.check_runs(world.repo) == []
    await world.store.runs.show_done(world.run.id)
    await task
    assert await world.status() == "consensus"
    assert len(world.standin.check_runs(world.repo)) == 1


async def test_an_end_that_cannot_be_told_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("worker.announce.render_check", bug)
    for _ in range(DEATHS):
        with pytest.raises(TryAgain):
            await debate(world.office, world.run.id)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    assert (world.check.status, world.check.conclusion) == ("completed", "failure")
    assert "its log names the cause" in (world.check.summary or "")


async def test_an_end_before_the_replay_keeps_the_rounds(world: World) -> None:
    """A worker died after round 1, and the head moved before another took the run up: the comment tells both."""
    play(world.scenario, [yes(NIT), yes(NIT | {"status": "resolved"})], [{"reply": "- `F1` **fixed**: done"}])

    async def die(path: str) -> None:
        if path == "/1":
            raise RuntimeError("killed")

    office = replace(world.office, tap=die)
    with pytest.raises(TryAgain):
        await debate(office, world.run.id)
    await world.standin.commit(world.repo, "feature", {"a.txt": "three\n"})
    await debate(world.office, world.run.id)
    assert await world.status() == "superseded"
    (comment,) = [each.body for each in world.standin.comments(world.repo, world.run.number) if each.by_app]
    assert "Round 1 in their words" in comment
    assert "No agreement" in comment
    assert "| 1 |" in (world.check.summary or "")


async def test_ids_of_findings_go_on_in_the_next_debate(world: World) -> None:
    """decisions.md 5.1."""
    play(world.scenario, [yes(NIT), yes(NIT | {"status": "resolved"})], [{"reply": "- `F1` **disputed**: no"}])
    await debate(world.office, world.run.id)
    second = world.run.model_copy(update={"id": "second22", "source": None})
    await world.store.runs.claim(second, "other words")
    play(world.scenario, [yes() | {"expect": ["The next free one is `F2`"]}])
    await debate(world.office, "second22")
    assert (await world.store.runs.state("second22")).status == "consensus"


@pytest.mark.threat("R15")
async def test_on_a_full_disk_nothing_begins_and_the_repair_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "ROOM_BYTES", 1 << 60)
    await debate(world.office, world.run.id)
    assert await world.status() == "agent-error"
    assert (world.check.conclusion, "its disk is nearly full" in world.check.title) == ("failure", True)
    assert "make room below CODEX_DEBATE_STATE_DIR" in (world.check.summary or "")


async def test_news_that_change_nothing_end_nothing(world: World) -> None:
    """GitHub tells of more than what ends a debate: it looks, and goes on."""
    slow: dict[str, object] = {**yes(), "sleep": 1.5}
    play(world.scenario, [slow])
    task = asyncio.create_task(debate(world.office, world.run.id))
    while not world.standin.check_runs(world.repo):
        await asyncio.sleep(0.02)
    before = len(world.standin.requests("GET", f"/repos/{world.repo.full_name}/pulls"))
    assert await world.store.runs.tell_news(world.repo.id, world.run.number) == 1
    await task
    assert await world.status() == "consensus"
    assert len(world.standin.requests("GET", f"/repos/{world.repo.full_name}/pulls")) > before


async def test_another_machine_that_has_nothing_left_to_ask_shows_the_patch(world: World, tmp_path: Path) -> None:
    """A worker died after the last step of a debate without commits: its patch is the result."""
    run = world.run.model_copy(update={"id": "another2", "source": None, "commit": False})
    await world.store.runs.finish(world.run.id, 0, "closed")
    await world.store.runs.claim(run, "other words")
    play(world.scenario, [yes(NIT), yes(NIT | {"status": "resolved"})], [FIXED])

    async def die(path: str) -> None:
        if path == "/2":
            raise RuntimeError("killed")

    with pytest.raises(TryAgain):
        await debate(replace(world.office, tap=die), run.id)
    settings = world.office.settings.model_copy(update={"state_dir": tmp_path / "elsewhere"})
    there = replace(world.office, settings=settings, mirrors=Mirrors(tmp_path / "other mirrors"))
    await debate(there, run.id)
    assert (await world.store.runs.state(run.id)).status == "consensus"
    (comment,) = [each.body or "" for each in world.standin.comments(world.repo, run.number) if each.by_app]
    assert "+three" in comment
