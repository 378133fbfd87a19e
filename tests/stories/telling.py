"""How stories are told: what agents say, what people do, and what stands on GitHub at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.github import AppClient, open_session
from bot.store.connection import key
from bot.store.runs import RunState
from deploy.machine import Machine
from deploy.standin import Repo
from deploy.standin.hosting import Commit
from deploy.standin.state import CheckRun
from worker.git.mirror import Mirrors
from worker.reconcile import Reconciler

PATIENCE = 60.0
"""Seconds that a story waits for its end before it fails: far more than any takes."""

Files = Mapping[str, bytes | str | None]


async def no_sleep(_: float) -> None:
    """Wait for nothing between the attempts of a turn; the real waits are held by tests/worker/test_hands.py."""


async def reconcile(machine: Machine) -> None:
    """Do now what the reconciler does every minute. The worker's own lets ours go before it."""
    settings, store = machine.settings, machine.store
    async with open_session(settings.github_api_url) as session:
        app = AppClient(settings, session, pacer=store.pace)
        ours = Reconciler(store, app, Mirrors(settings.state_dir / "mirrors"), settings.state_dir)
        await store._gate.do("DEL", key("leader"))
        await ours.once()
        await store.upkeep.resign(ours.name)
        await app.revoke_tokens()


def finding(number: int = 1, status: str = "open", **over: object) -> dict[str, object]:
    """Return a finding as a verdict states it."""
    return {
        "id": f"F{number}",
        "title": f"Finding {number} goes wrong",
        "severity": "major",
        "location": "app.py:1",
        "issue": f"The issue of finding {number}.",
        "suggestion": "Do it right.",
        "status": status,
    } | over


def verdict(*findings: dict[str, object], **over: object) -> dict[str, Any]:
    """Return a reviewer's turn: it approves where nothing in it is open."""
    body = {
        "approved": not any(each["status"] == "open" for each in findings),
        "summary": "What the reviewer thinks of it.",
        "findings": list(findings),
        "response_to_rebuttal": "",
    }
    return {"reply": body | over}


def section(*words: str, edits: Mapping[str, Any] | None = None, **more: object) -> dict[str, Any]:
    """Return an author's turn: ``section("F1 fixed", "F2 disputed")``."""
    bullets = [
        f"- `{each.partition(' ')[0]}` **{each.partition(' ')[2]}**: said of it, see `app.py:1`" for each in words
    ]
    return {"reply": "\n".join(["The author has looked at it.", "", *bullets]), "edits": dict(edits or {})} | more


@dataclass
class Ending:
    """What stands on GitHub when a story is over."""

    run: str
    state: RunState
    check: CheckRun
    comments: list[str]
    """Bodies of the App's own comments, oldest first."""
    reactions: list[str]
    commits: list[Commit]
    """On the run's branch, oldest first."""
    branch: str

    @property
    def comment(self) -> str:
        (body,) = self.comments
        return body


@dataclass
class Story:
    """One repository with one pull request."""

    machine: Machine
    scenario: Path
    record: Path
    repo: Repo
    number: int = 0
    head: str = ""
    commands: list[int] = field(default_factory=list)

    def plays(self, *turns: Any, reviewer: list[Any] | None = None, author: list[Any] | None = None) -> None:
        """Write the scenario: the turns in the order in which they are taken, or each seat's."""
        if reviewer is None:
            reviewer, author = list(turns[::2]), list(turns[1::2])
        body = {"record": str(self.record), "reviewer": reviewer, "author": author or []}
        self.scenario.write_text(json.dumps(body), "utf-8")

    async def opens(self, base: Files, change: Files, *, branch: str = "feature", **options: Any) -> int:
        """Make a base, a branch with a change, and a pull request."""
        github = self.machine.github
        if base:
            await github.commit(self.repo, "main", base, message="base")
        self.head = await github.commit(self.repo, branch, change, message="change", parent="main")
        self.number = await github.open_pull_request(
            self.repo, branch, "main", "A change", "Its description.", **options
        )
        return self.number

    async def opens_from_fork(self, base: Files, change: Files) -> int:
        """Make a base, and a stranger's pull request from a fork of it."""
        github, stranger = self.machine.github, f"stranger-{self.repo.id}"
        await github.commit(self.repo, "main", base, message="base")
        github.create_user(stranger)
        fork = await github.fork(self.repo, stranger)
        self.head = await github.commit(fork, "idea", change, message="change", parent="main")
        self.number = await github.open_pull_request(self.repo, f"{stranger}:idea", "main", "An idea", author=stranger)
        return self.number

    async def says(self, text: str = "/codex-debate review", login: str | None = None) -> int:
        """Write a comment."""
        comment = await self.machine.github.comment(self.repo, self.number, text, login or self.repo.owner)
        self.commands.append(comment)
        return comment

    async def began(self) -> str:
        """Wait for a run of this pull request and return its id."""
        async with asyncio.timeout(PATIENCE):
            while True:
                checks = self.machine.github.check_runs(self.repo)
                if checks and checks[-1].external_id:
                    return checks[-1].external_id
                await asyncio.sleep(0.02)

    async def ends(self, run: str | None = None) -> Ending:
        """Wait for the end of a run and return what is there."""
        run = run or await self.began()
        github, runs = self.machine.github, self.machine.store.runs
        async with asyncio.timeout(PATIENCE):
            while (state := await runs.state(run)).status is None:
                await asyncio.sleep(0.02)
        branch = f"codex-debate/pr-{self.number}/{run}"
        tip = await github.read_ref(self.repo, branch)
        commits = await github.log(self.repo, branch, since=self.head) if tip else []
        (check,) = (each for each in github.check_runs(self.repo) if each.external_id == run)
        return Ending(
            run=run,
            state=state,
            check=check,
            comments=self.replies(),
            reactions=[each.content for comment in self.commands[-1:] for each in github.reactions(comment)],
            commits=commits[::-1],
            branch=branch,
        )

    def replies(self) -> list[str]:
        """Return the App's comments."""
        return [each.body for each in self.machine.github.comments(self.repo, self.number) if each.by_app]

    async def replied(self) -> str:
        """Wait for a reply that starts nothing, and return it."""
        async with asyncio.timeout(PATIENCE):
            while not (found := self.replies()):
                await asyncio.sleep(0.02)
        assert not self.machine.github.check_runs(self.repo)
        return found[-1]

    async def reviewed(self, command: str = "/codex-debate review") -> Ending:
        """Write the command and wait for the end."""
        await self.says(command)
        return await self.ends()

    def briefs(self, seat: str) -> list[str]:
        """Return the briefs that a seat was given, in their order."""
        found = sorted(
            self.record.glob(f"{seat}-*.md"), key=lambda path: [int(part) for part in path.stem.split("-")[1:]]
        )
        return [path.read_text("utf-8") for path in found]
