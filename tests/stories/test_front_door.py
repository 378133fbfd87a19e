"""From the front door to the result: a comment, an opened pull request, an outsider's commit, a changed base."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from telling import PATIENCE, Story, finding, section, verdict

from bot import handlers
from deploy.machine import Machine
from worker import job

pytestmark = pytest.mark.asyncio(loop_scope="session")

BASE = {"app.py": "x = 1\n"}
CHANGE = {"app.py": "x = 2\n"}
FIX = {"app.py": "x = 3\n"}
RESOLVED = finding(status="resolved")
AUTO = {".github/codex-debate.yml": "auto: {on: [opened, ready_for_review]}\n"}


async def until(done: Any) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.02)


async def test_a_comment_is_seen_before_its_debate_begins_and_ends_in_a_result(story: Story) -> None:
    """Comment → 👀 → queued check run → result: what GitHub was asked, in the order in which it was asked."""
    story.plays(verdict(finding()), section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE, CHANGE)
    end = await story.reviewed()
    assert end.state.status == "consensus"
    assert sorted(end.reactions) == ["eyes", "rocket"]

    writes = [
        (each.method, each.path.removeprefix(f"/repos/{story.repo.full_name}"), each.body)
        for each in story.machine.github.requests("*", f"/repos/{story.repo.full_name}")
        if each.method != "GET"
    ]
    (eyes, queued, *_), last = writes, writes[-1]
    assert (eyes[1].rpartition("/")[2], eyes[2]) == ("reactions", {"content": "eyes"})
    assert (queued[:2], queued[2]["status"]) == (("POST", "/check-runs"), "queued")
    states = [body["status"] for method, path, body in writes if path.startswith("/check-runs")]
    assert states[0] == "queued"
    assert states[-1] == "completed"
    assert set(states[1:-1]) == {"in_progress"}
    assert last[2] == {"content": "rocket"}


@pytest.mark.threat(48)
async def test_what_a_command_says_is_text_all_the_way_to_the_agent(story: Story, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    words = f"$(touch {marker}); `touch {marker}` | nc; '\\''; touch {marker} #"
    story.plays(verdict())
    await story.opens(BASE, CHANGE)
    end = await story.reviewed(f'/codex-debate review --rationale "{words}"')
    assert end.state.status == "consensus"
    assert words in story.briefs("reviewer")[0]
    assert not marker.exists()


async def test_an_opened_pull_request_is_debated_by_itself(story: Story) -> None:
    """`pull_request.opened` → queued check run → result, where the base branch's configuration says so."""
    story.plays(verdict(finding()), section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE | AUTO, CHANGE)
    end = await story.ends()
    assert end.state.status == "consensus"
    assert (end.check.conclusion, end.check.title) == ("action_required", "Consensus: 1 fix waits to be pushed")
    assert len(end.commits) == 1, "on the run's own branch"
    assert await story.machine.github.read_ref(story.repo, "feature") == story.head
    assert "✅ **Consensus**" in end.comment
    assert len(story.machine.github.check_runs(story.repo)) == 1


async def test_an_automatic_debate_without_a_finding_writes_no_comment(story: Story) -> None:
    story.plays(verdict())
    await story.opens(BASE | AUTO, CHANGE)
    end = await story.ends()
    assert (end.check.conclusion, end.check.title) == ("success", "Consensus: nothing to fix")
    assert end.comments == []


async def test_a_draft_is_debated_when_it_is_ready(story: Story) -> None:
    story.plays(verdict())
    await story.opens(BASE | AUTO, CHANGE, draft=True)
    github = story.machine.github
    await until(lambda: github.check_runs(story.repo))
    (skipped,) = github.check_runs(story.repo)
    assert (skipped.conclusion, skipped.title) == ("skipped", "Skipped: draft (auto.drafts is off)")
    await github.set_draft(story.repo, story.number, draft=False)
    await until(lambda: len(github.check_runs(story.repo)) == 2)
    end = await story.ends(github.check_runs(story.repo)[-1].external_id)
    assert end.check.conclusion == "success"


@pytest.mark.threat("T5", 63)
async def test_an_automatic_debate_stands_on_its_authors_permission(story: Story) -> None:
    """Also where nobody commanded it is asked again before the push."""
    github = story.machine.github
    author = f"author-{story.repo.id}"
    github.create_user(author)
    github.set_permission(story.repo, author, "write")
    story.plays(verdict(finding()) | {"sleep": 1.0}, section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE | AUTO, CHANGE, author=author)
    await until(lambda: story.briefs("reviewer"))
    github.set_permission(story.repo, author, "read")
    end = await story.ends()
    assert end.state.status == "authorisation-withdrawn"
    assert end.commits == []


@pytest.mark.threat("T7", "T8", 69)
async def test_an_outsiders_commit_is_debated_once_it_is_approved_and_nothing_of_it_is_pushed(story: Story) -> None:
    story.plays(verdict(finding()), section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens_from_fork(BASE, CHANGE)
    github = story.machine.github
    await story.says()
    reply = await story.replied()
    line = next(each for each in reply.splitlines() if each.startswith("/codex-debate approve "))
    assert line == f"/codex-debate approve {story.head}"

    end = await story.reviewed(line)
    assert end.state.status == "consensus"
    assert sorted(end.reactions) == ["eyes", "rocket"]
    comment = end.comments[-1]
    assert "**The fix is offered here; nothing was pushed**, because the pull request comes from a fork." in comment
    assert "the contributor copies the patch below, runs `git apply`" in comment
    assert "+x = 3" in comment
    assert (end.check.conclusion, end.check.title) == (
        "action_required",
        "Consensus: 1 fix is offered in the comment",
    )
    assert set(await github.branches(story.repo)) == {"main"}
    assert not github.requests("*", f"/{story.repo.full_name}.git/git-receive-pack")


@pytest.mark.threat("T7")
async def test_an_approval_is_for_one_commit(story: Story) -> None:
    """The head moves between the reading and the approval."""
    story.plays(verdict())
    await story.opens_from_fork(BASE, CHANGE)
    github = story.machine.github
    await github.commit(f"stranger-{story.repo.id}/{story.repo.name}", "idea", {"app.py": "x = 9\n"})
    await story.says(f"/codex-debate approve {story.head[:10]}")
    assert "is not the head of this pull request; nothing was started." in await story.replied()


@pytest.mark.threat(72)
async def test_the_pull_request_is_given_another_base(story: Story) -> None:
    github = story.machine.github
    story.plays(verdict(finding()) | {"sleep": 1.0}, section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE, CHANGE)
    await github.commit(story.repo, "release", {"r.txt": "r\n"}, parent="main")
    await story.says()
    await until(lambda: story.briefs("reviewer"))
    await github.change_base(story.repo, story.number, "release")
    end = await story.ends()
    assert end.state.status == "superseded"
    assert (end.check.conclusion, end.check.title) == ("cancelled", "Superseded: its base branch was changed")
    assert end.commits == []


@pytest.mark.threat(67)
async def test_the_repository_is_renamed_and_the_debate_goes_on(story: Story) -> None:
    """The same repository under its new name."""
    github = story.machine.github
    story.plays(verdict(finding()) | {"sleep": 1.0}, section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE, CHANGE)
    await story.says()
    run = await story.began()
    await until(lambda: story.briefs("reviewer"))
    story.repo = github.rename_repository(story.repo, f"{story.repo.full_name}-renamed")
    end = await story.ends(run)
    assert end.state.status == "consensus"
    assert len(end.commits) == 1


@pytest.mark.threat(67)
async def test_another_repository_takes_over_the_old_name(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to it; the debate goes on where the repository is now."""
    monkeypatch.setattr(job, "AGAIN_SECONDS", 0.2)
    github = story.machine.github
    story.plays(verdict(finding()) | {"sleep": 1.0}, section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE, CHANGE)
    await story.says()
    run = await story.began()
    await until(lambda: story.briefs("reviewer"))
    old = story.repo.full_name
    story.repo = github.rename_repository(story.repo, f"{old}-renamed")
    other = await github.create_repository(old)
    await github.commit(other, "main", BASE)
    end = await story.ends(run)
    assert end.state.status == "consensus"
    assert len(end.commits) == 1
    assert set(await github.branches(other)) == {"main"}
    assert github.check_runs(other) == []


@pytest.mark.threat(31)
@pytest.mark.unlike(
    "O4", says="is in_progress and not completed", why="where the App is not installed it writes nothing"
)
async def test_the_app_is_removed_while_it_works(
    running: Machine, scenario_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends, nothing storms, and what was kept is forgotten."""
    monkeypatch.setattr(handlers, "FORGET_SECONDS", 0.2)
    github, runs = running.github, running.store.runs
    github.create_user("leaver")
    repo = await github.create_repository("leaver/tidebook")
    story = Story(running, scenario_path, tmp_path / "briefs", repo)
    story.plays(verdict(finding()) | {"sleep": 1.0}, section("F1 fixed", edits=FIX), verdict(RESOLVED))
    await story.opens(BASE, CHANGE)
    await story.says()
    run = await story.began()
    await until(lambda: story.briefs("reviewer"))
    before = len(github.journal)
    await github.uninstall("leaver")
    async with asyncio.timeout(PATIENCE):
        while await runs.get(run) is not None:
            await asyncio.sleep(0.02)
    assert (await runs.holders(repo.id, story.number)).running is None
    assert len(github.journal) - before < 40, "no storm of retries"
    assert set(await github.branches(repo)) == {"main", "feature"}
