"""A bot at work on the stand-in and a real store, a receiver by itself, and short ways to make them hear something."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot import context
from bot.app import create_app
from bot.context import Bot, Scene
from bot.events import Repository
from bot.github import AppClient, Clock, open_session
from bot.handlers import EVENT_TRIES, handle_event
from bot.listen import listen
from bot.main import run_bot
from bot.settings import Settings
from bot.store import Store, StoreAway, TryAgain
from bot.store.runs import Run
from bot.telemetry import Metrics
from deploy.standin import CheckRun, Repo, StandIn

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
    deliveries: dict[str, str] = field(default_factory=dict)
    """The id under which each payload was heard last."""

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
        if attempt == 1 or body not in self.deliveries:  # every further try of a job has the delivery of the first
            self.deliveries[body] = str(uuid.uuid4())
        await handle_event(context, self.deliveries[body], name or newest.event, body)

    async def hear_in_spite_of_faults(self, method: str) -> None:
        """Let the bot handle the newest delivery while the answer to one request after another is lost.

        Each time the job ends and is tried again as the same job.
        """
        newest = self.standin.deliveries[-1]
        for attempt in range(1, 20):
            self.standin.clear_faults()
            before = len(self.standin.journal)
            self.standin.fail_next(method, "/", status=502, when="after", times=1)
            with contextlib.suppress(TryAgain):
                await self.hear(newest.payload, attempt=min(attempt, EVENT_TRIES - 1), name=newest.event)
                if not any(request.fault for request in self.standin.journal[before:]):
                    break
        self.standin.clear_faults()
        await self.hear(newest.payload, attempt=2, name=newest.event)

    def scene(self) -> Scene:
        """The pull request as handlers see it, without a comment that asked."""
        installation = self.standin.installation_id(self.repo)
        github = self.bot.app.installation(installation, self.repo.id)
        repository = Repository(self.repo.id, self.repo.full_name)
        return Scene(self.bot, github, installation, repository, self.number, None, "delivery")

    def reactions(self, comment: int) -> list[str]:
        return [reaction.content for reaction in self.standin.reactions(comment)]

    def replies(self, number: int | None = None) -> list[str]:
        """What the bot wrote under the pull request."""
        comments = self.standin.comments(self.repo, number or self.number)
        return [comment.body for comment in comments if comment.author_id == self.standin.bot.id]

    def checks(self) -> list[CheckRun]:
        """Every check run of the repository."""
        return self.standin.check_runs(self.repo)

    async def started(self, number: int | None = None) -> Run:
        """The run that holds the pull request."""
        found = await self.store.runs.holders(self.repo.id, number or self.number)
        assert found.running is not None
        return found.running

    async def enqueued(self, run_id: str) -> bool:
        """Whether a run is in the queue: then it cannot be put there a second time."""
        return not await self.store.queue.enqueue_run(run_id)

    def use(self, **settings: object) -> None:
        """Give the bot other settings."""
        changed = Settings.model_validate({**self.bot.settings.model_dump(), **settings})
        self.bot = replace(self.bot, settings=changed)

    def head(self, number: int | None = None) -> str:
        """The head of a pull request."""
        pull = self.standin.issue(self.repo, number or self.number).pull
        assert pull is not None
        return pull.head_sha

    async def configure(self, text: str, branch: str = "main") -> None:
        """Write the repository's configuration on a branch."""
        await self.standin.commit(self.repo, branch, {".github/codex-debate.yml": text})

    async def from_fork(self, *, draft: bool = False) -> int:
        """Open a pull request from a stranger's fork and return its number."""
        self.standin.create_user("contributor")
        fork = await self.standin.fork(self.repo, "contributor")
        await self.standin.commit(fork, "idea", {"a.txt": "three\n"}, parent="main")
        return await self.standin.open_pull_request(
            self.repo, "contributor:idea", "main", "An idea", "", author="contributor", draft=draft
        )

    def outcomes(self) -> dict[str, int]:
        """What became of events, as the metrics count it."""
        found: Counter[str] = Counter()
        for metric in self.bot.metrics.registry.collect():
            for sample in metric.samples:
                if sample.name == "codex_debate_events_total":
                    found[sample.labels["outcome"]] += int(sample.value)
        return dict(found)


@pytest_asyncio.fixture
async def world(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(context, "LAG_SECONDS", 0.0)
    async with await StandIn.start(tmp_path / "github") as standin, open_session(standin.api_url) as session:
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


# ---- The receiver by itself -----------------------------------------------------------------------------------------

SECRET = "s" * 32
USER = {"id": 7, "login": "mona", "type": "User"}
COMMENT: dict[str, Any] = {
    "action": "created",
    "installation": {"id": 3},
    "repository": {"id": 42, "full_name": REPO, "owner": {"id": 5, "login": "octo-org"}},
    "issue": {"number": 12, "pull_request": {"url": "u"}},
    "comment": {"id": 99, "body": "/codex-debate", "user": USER, "performed_via_github_app": None},
    "sender": USER,
}


@dataclass
class Queued:
    """A queue that remembers."""

    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    away: bool = False

    async def enqueue_event(self, delivery_id: str, event_name: str, body: str) -> bool:
        if self.away:
            raise StoreAway("away")
        fresh = delivery_id not in self.jobs
        self.jobs.setdefault(delivery_id, (event_name, body))
        return fresh


@dataclass
class Receiver:
    """A receiver that listens on a real socket, and what is behind it."""

    port: int
    secret: str = SECRET
    queue: Any = None
    missing: list[str] = field(default_factory=list)
    body: bytes = json.dumps(COMMENT).encode()
    """A payload of a comment with a command."""

    def sign(self, body: bytes | None = None, *, secret: str | None = None, algorithm: str = "sha256") -> str:
        """Return what GitHub writes behind ``X-Hub-Signature-256``, or behind an older header."""
        mac = hmac.new((secret or self.secret).encode(), self.body if body is None else body, algorithm)
        return f"{algorithm}={mac.hexdigest()}"

    def head(self, body: bytes | None = None, **changes: str | Sequence[str] | None) -> bytes:
        """Return the head of a delivery. `changes` are headers, with underscores: None takes one away, a list repeats.

        The connection is to end with the answer unless ``Connection`` is changed.
        """
        raw = self.body if body is None else body
        headers: dict[str, str | Sequence[str] | None] = {
            "Host": "receiver",
            "Connection": "close",
            "Content-Type": "application/json",
            "Content-Length": str(len(raw)),
            "X-GitHub-Event": "issue_comment",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": self.sign(raw),
        }
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        lines = ["POST /webhook HTTP/1.1"]
        for name, value in headers.items():
            lines += [f"{name}: {each}" for each in ([value] if isinstance(value, str) else value or ())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def post(self, body: bytes | None = None, **changes: str | Sequence[str] | None) -> tuple[int, str]:
        """Post a delivery with changed headers, and return the answer's status and sentence."""
        return self.answer(await self.send(self.head(body, **changes), self.body if body is None else body))

    async def send(self, *parts: bytes) -> bytes:
        """Send bytes as they are and return all that comes back until the other side ends the connection."""
        reader, writer = await self.connect()
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
        answer = await reader.read()
        await self.hang_up(writer)
        return answer

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    @staticmethod
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    @staticmethod
    def answer(raw: bytes) -> tuple[int, str]:
        """Return the status and the sentence of an answer as it came over the wire."""
        head, _, body = raw.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body.decode().strip()


@contextlib.asynccontextmanager
async def serving(queue: Any) -> AsyncIterator[Receiver]:
    """Serve a receiver in front of a queue."""
    missing: list[str] = []

    async def lacking() -> Sequence[str]:
        return missing

    listener = await listen(create_app(SECRET, queue, missing=lacking, metrics=Metrics()), "127.0.0.1", 0)
    yield Receiver(listener.port, queue=queue, missing=missing)
    await listener.close()


@pytest.fixture
def serve() -> Callable[[Any], contextlib.AbstractAsyncContextManager[Receiver]]:
    """Return what makes a receiver in front of a queue of one's own."""
    return serving


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Return a receiver in front of a queue that remembers."""
    async with serving(Queued()) as made:
        yield made


@pytest_asyncio.fixture
async def served(world: World) -> AsyncIterator[Receiver]:
    """Return the receiver of a whole bot, its event worker at work; the stand-in delivers to it."""
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    bot = asyncio.create_task(run_bot(world.bot.settings, world.store, stop=stop, ready=port.set_result))
    made = Receiver(await port, secret=world.standin.webhook_secret)
    world.standin.webhook_url = f"http://127.0.0.1:{made.port}/webhook"
    yield made
    stop.set()
    await bot
