"""One small change in a real repository, fetched into a mirror, with a run and a Task: what a worker works with."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest_asyncio

from bot.store.runs import Ceilings, Person, Repository, Run, SeatChoice
from worker.agents import AGENTS
from worker.checkout import Source, check_out
from worker.debate.task import Task
from worker.git.mirror import Mirror, Mirrors

BASE = {"app.py": "x = 1\n", "README.md": "# App\n"}
CHANGE = {"app.py": "x = 2\n"}


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
