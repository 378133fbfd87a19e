"""The pipeline with the real codex and claude programs in its seats, and a scripted model server behind the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telling import Story, no_sleep

from deploy.machine import Machine, machine
from scripted_models import ModelServer, Turn, answers, says
from tests.worker.sandboxed import open_folder

OPENAI_KEY, ANTHROPIC_KEY = "sk-openai-canary-7f3a91", "sk-ant-canary-c02b55"
"""The providers' keys, as the worker alone knows them."""
CODEX_MODEL, CLAUDE_MODEL = "gpt-5.5", "claude-sonnet-5"
"""gpt-5.5 has tools with names, which a script can call (agents.md 2.3)."""


@dataclass
class Real:
    """A running pipeline and the models that its agents talk to."""

    machine: Machine
    models: ModelServer
    folder: Path
    """The machine's folder; below it, in `state`, is all that the worker keeps."""

    async def story(self, name: str) -> Story:
        """Return a story in a repository of its own."""
        repo = await self.machine.github.create_repository(f"{name}-owner/{name}")
        return Story(self.machine, self.folder / "no-scenario", self.folder / "no-briefs", repo)


@asynccontextmanager
async def real_machine(**over: Any) -> AsyncIterator[Real]:
    """Run the pipeline in a folder that the sandbox's user can reach, unlike pytest's own."""
    seats = {"reviewer": "codex", "author": "claude"}
    models = {"codex_model": CODEX_MODEL, "claude_model": CLAUDE_MODEL}
    keys = {"openai_api_key": OPENAI_KEY, "anthropic_api_key": ANTHROPIC_KEY}
    with open_folder() as folder:
        async with ModelServer.start() as server:
            places = {"openai_base_url": server.openai_url, "anthropic_base_url": server.anthropic_url}
            async with machine(folder, sleep=no_sleep, **seats | models | keys | places | over) as made:
                yield Real(made, server, folder)


def judges(*findings: dict[str, object], reply: str = "", **over: object) -> Turn:
    """Return a reviewer's verdict: it approves where nothing in it is open."""
    body = {
        "approved": not any(each["status"] == "open" for each in findings),
        "summary": "What the reviewer thinks of it.",
        "findings": list(findings),
        "response_to_rebuttal": reply,
    }
    return answers(body | over)


def writes(*words: str) -> Turn:
    """Return an author's message: ``writes("F1 fixed")``."""
    bullets = [f"- `{each.partition(' ')[0]}` **{each.partition(' ')[2]}**: said of it, `app.py:1`" for each in words]
    return says("\n".join(["The author has looked at it.", "", *bullets]))
