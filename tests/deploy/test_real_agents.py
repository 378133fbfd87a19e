"""`codex-debate try` and `serve` with the real codex and claude, as a person starts them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from real import ANTHROPIC_KEY, CLAUDE_MODEL, CODEX_MODEL, OPENAI_KEY, judges, writes
from telling import finding

from deploy.standin import StandIn
from scripted_models import ModelServer, calls
from tests.worker.sandboxed import open_folder

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from deploy.cli import main; main()"]
SECONDS = 60


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def environment(folder: Path, models: ModelServer, **over: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(folder / "state"),
        "LANG": "C.UTF-8",
        "OPENAI_API_KEY": OPENAI_KEY,
        "OPENAI_BASE_URL": models.openai_url,
        "ANTHROPIC_API_KEY": ANTHROPIC_KEY,
        "ANTHROPIC_BASE_URL": models.anthropic_url,
        "CODEX_DEBATE_CODEX_MODEL": CODEX_MODEL,
        "CODEX_DEBATE_CLAUDE_MODEL": CLAUDE_MODEL,
    } | over


def play(models: ModelServer) -> None:
    """Raise a finding, mend it with a file, and find it mended."""
    models.openai.plays((judges(finding()), judges(finding(status="resolved"))))
    models.anthropic.plays((calls("Bash", command="echo mended > new.txt", description="Mend"), writes("F1 fixed")))


async def tried(env: dict[str, str], *arguments: str) -> tuple[int | None, dict[str, Any], str]:
    """Run `try --json`, and return the exit status, the document and what was said besides."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "try", "--json", *arguments, env=env, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    return process.returncode, json.loads(out or b"{}"), err.decode()


@pytest.mark.parametrize(
    "named", [(), pytest.param(("--reviewer", "codex", "--author", "claude"), marks=pytest.mark.gate)]
)
async def test_try_seats_both_where_both_keys_are_set_or_they_are_named(folder: Path, named: tuple[str, ...]) -> None:
    async with ModelServer.start() as models:
        play(models)
        code, told, said = await tried(environment(folder, models), *named)
    assert (code, told["status"]) == (0, "consensus"), said
    assert told["comment"].startswith("## Debate: codex ⇄ claude\n")
    assert [each["subject"] for each in told["commits"]] == ["fix: debate round 1 (F1)"]
    assert "lint" not in said
    kept = folder / "state" / "codex-debate" / "try" / told["run"]
    words = said + "".join(each.read_text("utf-8", "replace") for each in kept.glob("*.*"))
    assert OPENAI_KEY not in words
    assert ANTHROPIC_KEY not in words


@asynccontextmanager
async def serving(env: dict[str, str], github: StandIn) -> AsyncIterator[str]:
    """Run `serve` for the stand-in, and yield the receiver's address."""
    app = {
        "GITHUB_APP_ID": github.app_id,
        "GITHUB_APP_PRIVATE_KEY": github.app_private_key,
        "GITHUB_WEBHOOK_SECRET": github.webhook_secret,
        "GITHUB_API_URL": github.api_url,
        "GITHUB_SERVER_URL": github.server_url,
        "CODEX_DEBATE_PORT": "0",
        "CODEX_DEBATE_ALLOW": "you",
    }
    process = await asyncio.create_subprocess_exec(*PROGRAM, "serve", env=env | app, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        while b"bot started" not in (line := await asyncio.wait_for(process.stderr.readline(), SECONDS)):
            assert line, "it ended"
        yield f"http://127.0.0.1:{json.loads(line)['port']}"
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0


async def test_serve_seats_both_by_default_and_is_healthy(folder: Path) -> None:
    async with ModelServer.start() as models, await StandIn.start(folder / "github") as github:
        play(models)
        async with serving(environment(folder, models), github) as address, aiohttp.ClientSession() as session:
            github.webhook_url = f"{address}/webhook"
            github.create_user("you")
            repo = await github.create_repository("you/app")
            await github.commit(repo, "main", {"app.py": "x = 1\n"})
            await github.commit(repo, "change", {"app.py": "x = 2\n"}, parent="main")
            number = await github.open_pull_request(repo, "change", "main", "A change")
            await github.comment(repo, number, "/codex-debate review", "you")
            async with asyncio.timeout(SECONDS):
                while not [each for each in github.check_runs(repo) if each.conclusion]:
                    await asyncio.sleep(0.05)
            (check,) = github.check_runs(repo)
            async with session.get(f"{address}/healthz") as response:
                assert (response.status, await response.text()) == (200, "ok\n")
    assert (check.conclusion, check.title) == ("action_required", "Consensus: 1 fix waits to be pushed")
    assert "codex (gpt-5.5) reviewed, claude (claude-sonnet-5) wrote" in (check.summary or "")


async def test_serve_without_keys_says_so_on_healthz(folder: Path) -> None:
    async with ModelServer.start() as models, await StandIn.start(folder / "github") as github:
        env = environment(folder, models, OPENAI_API_KEY="", ANTHROPIC_API_KEY="")
        async with serving(env, github) as address, aiohttp.ClientSession() as session, asyncio.timeout(SECONDS):
            status = 200
            while status == 200:
                async with session.get(f"{address}/healthz") as response:
                    status, text = response.status, await response.text()
    assert status == 503
    for seat, agent, key in (("reviewer", "codex", "OPENAI_API_KEY"), ("author", "claude", "ANTHROPIC_API_KEY")):
        assert f"The {seat} cannot be seated: {agent} has no key: {key} is not set. To repair it: set {key}." in text
