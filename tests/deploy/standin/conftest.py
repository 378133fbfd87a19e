"""A stand-in GitHub with one repository and one pull request, a receiver of its webhooks, and callers of both doors."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from deploy.standin import Repo, StandIn


@dataclass
class Receiver:
    """Keeps what it is sent, and answers what it is told to."""

    url: str = ""
    status: int = 202
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@dataclass
class Reply:
    """An answer of the API."""

    status: int
    body: Any
    headers: dict[str, str]


Api = Callable[..., Awaitable[Reply]]
Git = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()

    async def take(request: web.Request) -> web.Response:
        made.got.append((dict(request.headers), await request.read()))
        return web.Response(status=made.status, text="taken")

    application = web.Application(client_max_size=0)
    application.router.add_post("/webhook", take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    yield made
    await runner.cleanup()


@pytest.fixture
async def standin(tmp_path: Path, receiver: Receiver) -> AsyncIterator[StandIn]:
    async with await StandIn.start(tmp_path / "github", webhook_url=receiver.url) as started:
        yield started


@pytest.fixture
async def repo(standin: StandIn) -> Repo:
    """A repository with a branch `feature/x` that is two files ahead of `main`."""
    made = await standin.create_repository("octo/demo")
    await standin.commit(made, "main", {"a.py": "one\ntwo\n", "gone.txt": "1\n2\n3\n"}, message="first")
    await standin.commit(made, "feature/x", {"a.py": "one\n2\n", "gone.txt": None}, message="second\n\nwhy")
    return made


@pytest.fixture
async def number(standin: StandIn, repo: Repo) -> int:
    """A pull request of it."""
    return await standin.open_pull_request(repo, "feature/x", "main", "Two", "Because.")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
def api(standin: StandIn, repo: Repo, session: aiohttp.ClientSession) -> Api:
    """Call the API: with a token of everything unless `auth` is given."""
    token = standin.token(repo)

    async def call(method: str, path: str, data: Any = None, **more: Any) -> Reply:
        headers = {"Authorization": more.pop("auth", f"Bearer {token}"), **more.pop("headers", {})}
        sent = {"data": data} if isinstance(data, bytes) else {"json": data}
        url = f"{standin.api_url}{path}"
        async with session.request(method, url, headers=headers, allow_redirects=False, **sent) as response:
            body = await response.json() if await response.read() else None
            return Reply(response.status, body, dict(response.headers))

    return call


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def basic() -> Callable[[str, str], str]:
    """Return what makes the value of an Authorization header for git."""
    return _basic


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git as a client does, with a credential handed over by the environment."""

    async def run(*args: str, cwd: Path | None = None, token: str | None = None) -> tuple[int, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            **{f"GIT_{who}_NAME": "A Person" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "person@example.com" for who in ("AUTHOR", "COMMITTER")},
        }
        if token is not None:
            login = _basic("x-access-token", token)
            environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: {login}",
            }
        process = await asyncio.create_subprocess_exec(
            "git",
            *args,
            cwd=cwd or tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode("utf-8", "replace")

    return run
