"""The answer to a write gets lost, before or after its effect: published again, there is one of everything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.github import AppClient, Unavailable, open_session
from bot.intents import Answer, CheckRun, Comment, CommentRef, Intent, Reaction
from bot.publish import Place, Publisher
from bot.settings import Settings
from bot.store import Store
from deploy.standin import Repo, StandIn

REPO = "octo-org/tidebook"


@dataclass
class World:
    standin: StandIn
    publisher: Publisher
    repo: Repo
    number: int
    command: int
    head: str

    def intent(self, kind: str) -> Intent:
        match kind:
            case "comment":
                return Comment("w5j1r6kd", 0, "## Debate\n\nrun `w5j1r6kd`")
            case "answer":
                return Answer("c1", self.number, "The commands", after=self.command)
            case "reaction":
                return Reaction(CommentRef(REPO, self.command), "eyes")
            case _:
                return CheckRun("w5j1r6kd", "codex-debate", self.head, "queued", title="Queued", summary="It waits.")

    def there(self, kind: str) -> int:
        """How many there are of it on GitHub."""
        match kind:
            case "comment" | "answer":
                written = self.standin.comments(self.repo, self.number)
                return len([each for each in written if each.author_id == self.standin.bot.id])
            case "reaction":
                return len(self.standin.reactions(self.command))
            case _:
                return len(self.standin.check_runs(self.repo, self.head))


@pytest_asyncio.fixture
async def world(tmp_path: Path, store: Store) -> AsyncIterator[World]:
    async with await StandIn.start(tmp_path / "github") as standin, open_session(standin.api_url) as session:
        repo = await standin.create_repository(REPO)
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        head = await standin.commit(repo, "retry", {"a.txt": "two\n"}, parent="main")
        number = await standin.open_pull_request(repo, "retry", "main", "Retry", "Why not.")
        command = await standin.comment(repo, number, "/codex-debate review")
        settings = Settings(
            github_app_id=standin.app_id,
            github_app_private_key=SecretStr(standin.app_private_key),
            github_api_url=standin.api_url,
        )
        app = AppClient(settings, session, pacer=store.pace)
        github = app.installation(standin.installation_id(repo), repo.id)
        bot_id = (await app.identity(github)).bot_id
        publisher = Publisher(store.outbox, github, Place(REPO, number, bot_id))
        yield World(standin, publisher, repo, number, command, head)


FAULTS: dict[str, dict[str, Any]] = {
    "hangs": {"hang": True},
    "is dropped": {"drop": True},
    "is cut off": {"cut": True},
    "is garbage": {"garbage": True},
    "is a 500": {"status": 500},
    "is a 502 in HTML's place": {"status": 502, "garbage": True},
    "is a 503 that asks for patience": {"status": 503, "headers": {"Retry-After": "60"}},
    "is a primary limit": {
        "status": 403,
        "message": "API rate limit exceeded",
        "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"},
        "times": 3,
    },
}


KINDS = ["reaction", "answer", "comment", "check run"]
SLOW = {"hangs", "is a primary limit"}
"""Faults that are waited for: two kinds show them."""


async def lost(world: World, intent: Intent, method: str, **fault: Any) -> None:
    """Publish something whose write does not get its answer."""
    world.standin.fail_next(method, f"/repos/{REPO}", **fault)
    with pytest.MonkeyPatch.context() as patch:
        # Long enough for every answer that comes, and for none of the limits.
        patch.setattr("bot.github.wire.REQUEST_SECONDS", 0.7)
        patch.setattr("bot.github.limits.PATIENCE_SECONDS", 0.5)
        with pytest.raises(Unavailable):
            await world.publisher.publish(intent)
    assert world.standin.requests(method)[-1].fault is not None
    world.standin.clear_faults()


@pytest.mark.threat("R11")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_published_again_there_is_one(world: World, fault: str, when: Literal["before", "after"]) -> None:
    for kind in KINDS[2:] if fault in SLOW else KINDS:
        before = world.there(kind)
        await lost(world, world.intent(kind), "POST", when=when, **FAULTS[fault])
        assert world.there(kind) - before == (1 if when == "after" else 0), kind
        published = await world.publisher.publish(world.intent(kind))
        assert published.id is not None
        assert world.there(kind) - before == 1, kind
        assert await world.publisher.publish(world.intent(kind)) == published
        assert world.there(kind) - before == 1, kind


@pytest.mark.threat("R11")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fault", ["hangs", "is dropped", "is a 500"])
async def test_a_change_is_made_once_more_and_there_is_one(
    world: World, fault: str, when: Literal["before", "after"]
) -> None:
    for kind in ("comment", "check run"):
        await world.publisher.publish(world.intent(kind))
    comment = Comment("w5j1r6kd", 0, "## Debate\n\nround 2, run `w5j1r6kd`")
    check = CheckRun("w5j1r6kd", "codex-debate", world.head, "completed", "success", title="Agreed", summary="Both.")
    for changed in (comment, check):
        await lost(world, changed, "PATCH", when=when, **FAULTS[fault])
        await world.publisher.publish(changed)
    assert [world.there(kind) for kind in ("comment", "check run")] == [1, 1]
    assert world.standin.comments(world.repo, world.number)[-1].body == comment.body
    assert [each.conclusion for each in world.standin.check_runs(world.repo, world.head)] == ["success"]


@pytest.mark.parametrize("fault", ["is dropped", "is cut off", "is a 500"])
async def test_a_look_that_fails_is_made_again_and_hides_nothing(
    world: World, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.github.limits.BACKOFF_SECONDS", 0.01)
    await lost(world, world.intent("check run"), "POST", when="after", drop=True)
    world.standin.fail_next("GET", f"/repos/{REPO}/commits", **FAULTS[fault])
    await world.publisher.publish(world.intent("check run"))
    assert world.there("check run") == 1
