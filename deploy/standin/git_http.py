"""git over smart HTTP: git's own `http-backend`, with GitHub's credentials and GitHub's refusals around it.

It admits a request, runs the program, and lets pull requests and webhooks follow when a push has gone through. What a
push may do to a ref is judged here, when the hook asks (`hosting`); everything else about git is git's.

Credentials are asked for on public repositories too, where GitHub needs none to read: a client that forgets them is
found out.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import fnmatch
import os
import re
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self, TypeVar

from aiohttp import web

from deploy.standin import actions, pushes
from deploy.standin.answers import Refused
from deploy.standin.auth import Token
from deploy.standin.hosting import ZEROS
from deploy.standin.pushes import Commands, Verdict
from deploy.standin.record import RefUpdate, Request
from deploy.standin.site import Site
from deploy.standin.state import Repo

CHUNK = 64 * 1024
HEAD_CAP = 16 * 1024
"""Bytes that the header of a CGI answer may take."""
SERVICE_PATH = re.compile(r"/(?P<name>[^/]+/[^/]+?)(?:\.git)?/(?P<rest>info/refs|git-upload-pack|git-receive-pack)")
USER = "x-access-token"
"""https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation"""

BAD_LOGIN = "Invalid username or token. Password authentication is not supported for Git operations."
NOT_GRANTED = "Write access to repository not granted."
NOT_FOUND = "Repository not found."
WORKFLOW = "refusing to allow a GitHub App to create or update workflow `{path}` without `workflows` permission"
PROTECTED = "protected branch hook declined"


Answered = TypeVar("Answered", bound=web.StreamResponse)


class Turned(Exception):  # noqa: N818 - it is an answer
    """A git request that is refused; git shows the words to its user."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status

    def response(self) -> web.Response:
        """Return the answer."""
        headers = {"WWW-Authenticate": 'Basic realm="GitHub"'} if self.status == HTTPStatus.UNAUTHORIZED else {}
        return web.Response(status=self.status, text=f"{self}\n", headers=headers)


@dataclass(frozen=True, slots=True)
class Visit:
    """An admitted git request."""

    repo: Repo
    token: Token
    service: str
    """``git-upload-pack`` or ``git-receive-pack``."""
    rest: str
    """The path below the repository."""

    @property
    def pushes(self) -> bool:
        """Tell whether this is the request that carries a push."""
        return self.rest == "git-receive-pack"


class GitServer:
    """The git side of one stand-in."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def admit(self, request: web.Request, entry: Request) -> Visit:
        """Return what a request asks for. Raises `Turned` where it may not."""
        match = SERVICE_PATH.fullmatch(request.path)
        if match is None:
            raise Turned(404, "Not Found")
        rest = match["rest"]
        service = entry.query.get("service", "") if rest == "info/refs" else rest
        expected = "GET" if rest == "info/refs" else "POST"
        if service not in ("git-upload-pack", "git-receive-pack") or request.method != expected:
            raise Turned(403, "Please upgrade your git client.")
        token = self._token(request)
        entry.permissions = dict(token.permissions)
        repo = self._site.state.find_repo(match["name"])
        if repo is None or (repo.private and not token.covers(repo)):
            raise Turned(404, NOT_FOUND)
        if service == "git-receive-pack" and not token.covers(repo):
            raise Turned(403, f"Permission to {repo.full_name}.git denied to {self._site.app.bot.login}.")
        if service == "git-receive-pack" and repo.archived:
            raise Turned(403, "This repository was archived so it is read-only.")
        if service == "git-receive-pack" and not token.allows("contents", "write"):
            raise Turned(403, NOT_GRANTED)
        if token.covers(repo) and not token.allows("contents", "read"):
            raise Turned(403, "Resource not accessible by integration")
        return Visit(repo, token, service, rest)

    def _token(self, request: web.Request) -> Token:
        """Return the token of a request. Raises `Turned` where there is none that git takes."""
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise Turned(401, BAD_LOGIN) from None
        if scheme.lower() != "basic" or user != USER:
            raise Turned(401, BAD_LOGIN)
        try:
            token = self._site.tokens.find_for_git(password)
        except Refused:
            raise Turned(401, BAD_LOGIN) from None
        if token is None:
            raise Turned(404, NOT_FOUND)
        return token

    async def fetch(self, request: web.Request, visit: Visit) -> web.StreamResponse:
        """Answer a read, or the first request of a push, as it comes from git."""
        async with _Backend(self._environment(request, visit)) as backend:
            feeding = asyncio.create_task(backend.feed(request))
            try:
                status, headers, first = await backend.head()
                response = self.connected(web.StreamResponse(status=status, headers=headers))
                await response.prepare(request)
                await response.write(first)
                async for chunk in backend.body():
                    await response.write(chunk)
                await response.write_eof()
            finally:
                await _ended(feeding)
        return response

    async def push(self, request: web.Request, visit: Visit, entry: Request) -> web.Response:
        """Take a push in, and let what follows from it happen. The answer is returned whole: it may be lost yet."""
        report = self._site.hosting.root / "reports" / uuid.uuid4().hex
        commands = Commands()
        async with _Channel() as channel:
            environment = self._environment(request, visit) | channel.environment() | {"STANDIN_REPORT": str(report)}
            async with _Backend(environment, channel.theirs) as backend:
                channel.handed_over()
                judging = asyncio.create_task(self._judge(channel, visit, commands))
                feeding = asyncio.create_task(backend.feed(request, commands))
                try:
                    status, headers, first = await backend.head()
                    body = first + b"".join([chunk async for chunk in backend.body()])
                finally:
                    await _ended(feeding)
                    await _ended(judging)
        if report.exists():
            entry.updates = pushes.moved(report.read_bytes())
            report.unlink()
            site = self._site
            events = await actions.pushed(site, visit.repo, updates=entry.updates, sender=site.app.bot)
            site.webhooks.later(site.webhooks.deliver_all(events))
        return web.Response(status=status, headers=headers, body=body)

    def connected(self, response: Answered) -> Answered:
        """Let an answer of git's be the last of its connection, unless connections are kept.

        Where one is dropped that was used before, git sends its request again by itself (curl does): a push that was
        to be lost gets through, and one that got through is refused.
        """
        if not self._site.record.git_keeps_connections:
            response.force_close()
        return response

    def _environment(self, request: web.Request, visit: Visit) -> dict[str, str]:
        """Return the CGI variables that `git http-backend` reads (its manual page)."""
        environment = self._site.hosting.env() | {
            "GIT_PROJECT_ROOT": str(visit.repo.path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{visit.repo.path.name}/{visit.rest}",
            "QUERY_STRING": f"service={visit.service}" if visit.rest == "info/refs" else "",
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "REMOTE_USER": USER,
            "REMOTE_ADDR": request.remote or "",
        }
        passed_on = {"Git-Protocol": "GIT_PROTOCOL", "Content-Encoding": "HTTP_CONTENT_ENCODING"}
        environment |= {to: request.headers[name] for name, to in passed_on.items() if name in request.headers}
        if request.content_length is not None:
            environment["CONTENT_LENGTH"] = str(request.content_length)
        return environment

    # ---- What a push may do

    async def _judge(self, channel: _Channel, visit: Visit, commands: Commands) -> None:
        """Answer the hook, which asks once per push, or never."""
        if await channel.asked():
            verdicts = [(update, await self._verdict(visit, update)) for update in commands.updates or ()]
            channel.answer(pushes.report(verdicts))

    async def _verdict(self, visit: Visit, update: RefUpdate) -> Verdict:
        branch = update.ref.removeprefix("refs/heads/")
        for protection in self._site.state.protections.get(visit.repo.id, ()):
            if update.ref != branch and fnmatch.fnmatchcase(branch, protection.pattern):
                told = f"error: GH006: Protected branch update failed for {update.ref}."
                return Verdict(PROTECTED, (told, f"error: {protection.reason}"))
        if update.new != ZEROS and not visit.token.allows("workflows", "write"):
            changed = await self._site.hosting.workflow_files(visit.repo.path, update.new)
            if changed:
                return Verdict(WORKFLOW.format(path=changed[0]))
        return Verdict()


class _Channel:
    """Two pipes between a push and the hook that it runs."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        self.theirs: tuple[int, ...] = (ask, answer)
        """The hook's ends."""
        self._question = asyncio.StreamReader()
        self._reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._question), os.fdopen(asked, "rb", buffering=0)
        )
        self._writing, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(answered, "wb", buffering=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.handed_over()
        self._reading.close()
        self._writing.close()

    def environment(self) -> dict[str, str]:
        """Return where the hook finds its ends."""
        return {"STANDIN_ASK": str(self.theirs[0]), "STANDIN_ANSWER": str(self.theirs[1])}

    def handed_over(self) -> None:
        """Close the hook's ends here: the program has its own by now, and the last one's closing is to be noticed."""
        for end in self.theirs:
            os.close(end)
        self.theirs = ()

    async def asked(self) -> bool:
        """Wait for the hook's question. False: the program has ended without one."""
        return bool(await self._question.readline())

    def answer(self, data: bytes) -> None:
        """Send the answer; it is all."""
        self._writing.write(data)
        self._writing.close()


class _Backend:
    """One run of `git http-backend`.

    It is not started by `worker.process.run`, which hands over a program's input and output whole: a clone and a push
    are streamed, and the program inherits the pipes of the hook.
    """

    def __init__(self, environment: dict[str, str], inherited: tuple[int, ...] = ()) -> None:
        self._environment = environment
        self._inherited = inherited

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=self._inherited,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:  # pragma: no cover - both were asked for
            raise OSError("git http-backend was started without its pipes")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        return self

    async def __aexit__(self, *_: object) -> None:
        # Its group is its own: whatever it left behind goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def feed(self, request: web.Request, commands: Commands | None = None) -> None:
        """Hand the request's body to the program, and its beginning to who reads the commands."""
        # A program that has seen enough closes its input; a client that goes away ends its body.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, web.RequestPayloadError):
            async for chunk in request.content.iter_chunked(CHUNK):
                if commands is not None:
                    commands.feed(chunk)
                self._stdin.write(chunk)
                await self._stdin.drain()
        self._stdin.close()

    async def head(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and the beginning of the body."""
        data = b""
        while b"\r\n\r\n" not in data and len(data) < HEAD_CAP and (chunk := await self._stdout.read(CHUNK)):
            data += chunk
        head, found, first = data.partition(b"\r\n\r\n")
        if not found:
            return 500, {}, b""
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
        status = int(headers.pop("Status", "200").split(" ", 1)[0])
        headers.pop("Content-Length", None)
        return status, headers, first

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the rest of the body, to the program's end."""
        while chunk := await self._stdout.read(CHUNK):
            yield chunk
        await self._process.wait()


async def _ended(task: asyncio.Task[None]) -> None:
    """End a task that has nothing to do any more."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
