"""A bot at work on the stand-in and a real store, and short ways to make it hear something."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, Clock, open_session
from bot.handlers import Bot, handle_event
from bot.settings import Settings
from bot.store import Store
from bot.telemetry import Metrics
from deploy.standin import Repo, StandIn

REPO = "octo-org/tidebook"


@dataclass
class World:
    """One repository with one open pull request, by its owner; mona may write, hubot may not."""

    standin: StandIn
    store: Store
    bot: Bot
    repo: Repo
    number: int
    slept: list[float] = field(default_factory=list)

    async def say(self, text: str, login: str = "mona", number: int | None = None) -> int:
        """Write a comment, let the bot handle its event, and return the comment's id."""
        comment = await self.standin.comment(self.repo, number or self.number, text, login=login)
        await self.hear()
        return comment

    async def hear(self, payload: dict[str, Any] | None = None, *, attempt: int = 1, name: str | None = None) -> None:
        """Let the bot handle the newest delivery, or a payload."""
        newest = self.standin.deliveries[-1]
        body = json.dumps(newest.payload if payload is None else payload)
        context = {"bot": self.bot, "job_try": attempt}
        await handle_event(context, str(uuid.uuid4()), name or newest.event, body)

    def reactions(self, comment: int) -> list[str]:
        return [reaction.content for reaction in self.standin.reactions(comment)]

    def replies(self, number: int | None = None) -> list[str]:
        """What the bot wrote under the pull request."""
        comments = self.standin.comments(self.repo, number or self.number)
        return [comment.body for comment in comments if comment.author_id == self.standin.bot.id]

    def outcomes(self) -> dict[str, float]:
        """What became of comments, as the metrics count it."""
        return {
            sample.labels["outcome"]: sample.value
            for metric in self.bot.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "codex_debate_events_total"
        }


@pytest_asyncio.fixture
async def world(tmp_path: Path, store: Store) -> AsyncIterator[World]:
    async with await StandIn.start(tmp_path / "github") as standin, open_session() as session:
        repo = await standin.create_repository(REPO)
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        await standin.commit(repo, "retry", {"a.txt": "two\n"}, parent="main")
        for login, level in (("mona", "write"), ("hubot", "read")):
            standin.create_user(login)
            standin.set_permission(repo, login, level)
        number = await standin.open_pull_request(repo, "retry", "main", "Retry renewals", "Why not.")
        settings = Settings(
            github_app_id=standin.app_id,
            github_app_private_key=SecretStr(standin.app_private_key),
            github_webhook_secret=SecretStr(standin.webhook_secret),
            github_api_url=standin.api_url,
            github_server_url=standin.server_url,
            reviewer="lint",
            author="lint",
            max_rounds=6,
            port=0,
        )
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        app = AppClient(settings, session, clock=Clock(sleep=sleep))
        yield World(standin, store, Bot(settings, store, app, Metrics()), repo, number, slept)
