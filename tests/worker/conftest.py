"""One small change in a real repository, fetched into a mirror, with a run and a Task: what a worker works with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, open_session
from bot.settings import Settings
from bot.store import Store
from bot.store.runs import Ceilings, Person, Repository, Run, SeatChoice, Started
from bot.store.runs import Source as Command
from deploy.pricing import prices
from deploy.standin import Repo, StandIn
from tests.worker.sandboxed import cell, limited, sandbox, state  # noqa: F401 - fixtures
from worker.agents import AGENTS
from worker.attempt import Office
from worker.checkout import Source, check_out
from worker.debate.task import Task
from worker.gateway import Gateway
from worker.git.mirror import Mirror, Mirrors
from worker.isolation import Isolation
from worker.quarters import Programs, Quarters

BASE = {"app.py": "x = 1\n", "README.md": "# App\n"}
CHANGE = {"app.py": "x = 2\n"}
NIT: dict[str, object] = {
    "id": "F1",
    "title": "t",
    "severity": "nit",
    "location": "a.txt:1",
    "issue": "i",
    "suggestion": "",
    "status": "open",
}
"""A finding, of the change that `world` makes."""
FIXED = {"reply": "- `F1` **fixed**: done", "edits": {"a.txt": "three\n"}}
"""The author's turn about it."""


def git(repo: Path, *argv: str) -> str:
    """Run git in a repository of a test."""
    env = {
        "PATH": os.defpath,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": "1700000000 +0000",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_COMMITTER_DATE": "1700000000 +0000",
    }
    done = subprocess.run(["git", *argv], cwd=repo, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(repo: Path, files: dict[str, str], message: str) -> str:
    """Commit files and return the commit."""
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text, newline="")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(repo, "rev-parse", "HEAD")


def make_run(head: str, **over: object) -> Run:
    """Return a run of pull request 1 at a head."""
    fields: dict[str, object] = {
        "id": "7h2kq9xw",
        "kind": "review",
        "created_at": datetime(2026, 3, 11, 9, 0, tzinfo=UTC),
        "installation_id": 1,
        "repository": Repository(id=5, full_name="you/app"),
        "number": 1,
        "title": "A change",
        "body": "Its words.",
        "head_sha": head,
        "head_ref": "feature",
        "base_ref": "main",
        "own_base": "main",
        "authority": {"id": 5, "login": "mara"},
        "requester": Person(id=7, login="you"),
        "source": None,
        "seats": {"reviewer": SeatChoice(agent="scripted"), "author": SeatChoice(agent="scripted")},
        "ceilings": Ceilings(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
    }
    return Run.model_validate(fields | over)


@dataclass(frozen=True, slots=True)
class Change:
    """A pull request that is there to be debated."""

    repo: Path
    """The server's repository: ``<folder>/you/app.git``."""
    source: Source
    run: Run
    mirror: Mirror
    folder: Path

    async def task(self) -> Task:
        """Check out, and return the Task."""
        return await check_out(self.run, self.source, self.mirror, self.folder, reviewer=AGENTS["scripted"])


@pytest_asyncio.fixture
async def change(tmp_path: Path) -> Change:
    """Return a repository with a pull request from `feature` into `main`."""
    repo = tmp_path / "server" / "you" / "app.git"
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    write(repo, BASE, "base")
    git(repo, "checkout", "--quiet", "-b", "feature")
    head = write(repo, CHANGE, "change")
    git(repo, "update-ref", "refs/pull/1/head", head)
    mirror = await Mirrors(tmp_path / "mirrors", also=("file",)).of(5)
    source = Source(f"file://{tmp_path / 'server'}", "you/app", "token")
    return Change(repo, source, make_run(head), mirror, tmp_path / "run")


def quarters(settings: Settings, store: Store) -> Quarters:
    """Return the quarters of a worker: their gateway is not entered, so that no turn can be taken through it."""
    folder = settings.state_dir
    gateway = Gateway({}, folder / "gateway", prices=prices(folder), spending=store.spending)
    return Quarters(Programs(settings, folder / "tools"), Isolation(folder), gateway)


@dataclass
class World:
    """A run that waits for its attempt, over the stand-in, with scripted agents in its seats."""

    standin: StandIn
    store: Store
    repo: Repo
    run: Run
    office: Office
    scenario: Path

    @property
    def check(self) -> Any:
        (check,) = self.standin.check_runs(self.repo)
        return check

    async def status(self) -> str | None:
        return (await self.store.runs.state(self.run.id)).status


@pytest_asyncio.fixture
async def world(tmp_path: Path, store: Store) -> AsyncIterator[World]:
    """Return a claimed run of a small pull request."""
    async with await StandIn.start(tmp_path / "github") as standin, open_session(standin.api_url) as session:
        repo = await standin.create_repository("you/app")
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        head = await standin.commit(repo, "feature", {"a.txt": "two\n"}, parent="main")
        number = await standin.open_pull_request(repo, "feature", "main", "A change")
        comment = await standin.comment(repo, number, "/codex-debate review")
        scenario = tmp_path / "scenario.json"
        seat = SeatChoice(agent=f"scripted:{scenario}")
        owner = next(user for user in [standin.create_user("writer")])
        standin.set_permission(repo, "writer", "write")
        run = make_run(
            head,
            installation_id=standin.installation_id(repo),
            repository=Repository(id=repo.id, full_name=repo.full_name),
            number=number,
            requester=Person(id=owner.id, login=owner.login),
            authority=Person(id=owner.id, login=owner.login),
            source=Command(comment_id=comment, text="/codex-debate review"),
            seats={"reviewer": seat, "author": seat},
        )
        assert isinstance(await store.runs.claim(run, "key"), Started)
        settings = Settings(
            github_app_id=standin.app_id,
            github_app_private_key=SecretStr(standin.app_private_key),
            github_api_url=standin.api_url,
            github_server_url=standin.server_url,
            state_dir=tmp_path / "state",
        )
        mirrors = Mirrors(tmp_path / "mirrors")
        office = Office(settings, store, AppClient(settings, session), mirrors, quarters(settings, store))
        play(scenario, [yes()])
        yield World(standin, store, repo, run, office, scenario)


def yes(*findings: dict[str, object]) -> dict[str, object]:
    """Return a reviewer's turn: it approves where nothing is open."""
    approved = not any(each["status"] == "open" for each in findings)
    return {
        "reply": {"approved": approved, "summary": "S", "findings": list(findings), "response_to_rebuttal": ""},
    }


def play(path: Path, reviewer: list[Any], author: list[Any] | None = None) -> None:
    """Write a scenario."""
    path.write_text(json.dumps({"reviewer": reviewer, "author": author or []}))
