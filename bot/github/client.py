"""The wire to GitHub's REST API: one request, its retries and its errors. The only room that knows gidgethub.

It owns time limits, the one retry loop, redirects, paging and the mapping of errors. It decides nothing about what is
asked (verbs.py) or with which credential (app.py here), and never sends a credential to another host than the API's.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
from gidgethub import HTTPException
from gidgethub.abc import GitHubAPI
from pydantic import BaseModel, ValidationError
from yarl import URL

from bot.redact import redact, visible

API_VERSION = "2022-11-28"
"""The version of the REST API that the verbs are written for (docs.github.com, "API Versions")."""

ACCEPT = "application/vnd.github+json, application/json;q=0.9"
AGENT = "codex-debate"

REQUEST_SECONDS = 30.0
"""Limit of one request, from the connection to the last byte."""
CONNECT_SECONDS = 10.0
TRIES = 3
PATIENCE_SECONDS = 10.0
"""The longest `retry-after` that is waited out here; a longer one is the caller's to plan."""
HOPS = 4
"""Redirects followed for one request: renamed and transferred repositories answer with them."""
ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of the largest answer that is read."""
PAGES = 50
"""Pages of the longest list that is read, of 100 entries each."""

_REDIRECTS = {301, 302, 307, 308}
_LIMITED = {403, 429}

Model = TypeVar("Model", bound=BaseModel)


class GitHubError(Exception):
    """GitHub did not do what it was asked. ``status`` is HTTP's, 0 where there was no answer."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        self.message = redact(visible(message))[:300]
        super().__init__(f"GitHub answered {status}: {self.message}" if status else self.message)
        self.status = status
        self.retry_after = retry_after
        """Seconds that GitHub asked to wait, where it did."""


class NotFound(GitHubError):  # noqa: N818 - the contract's word
    """It is not there, or this credential may not see it (404, 410)."""


class Forbidden(GitHubError):  # noqa: N818 - the same
    """This credential may not do that (403)."""


class Unavailable(GitHubError):  # noqa: N818 - the same
    """GitHub is away, too slow, or asks to wait (5xx, network, rate limits): the same call may work later."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, handed in so that tests own them."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Credential = Callable[[str | None], Awaitable[str]]
"""Returns a bearer token. Given a token that was just refused it returns another, or the same if it has no other."""


def open_session(api_url: str = "") -> aiohttp.ClientSession:
    """Return a session for the client, without cookies. To be closed by its owner.

    Proxies are those of the environment; none where `api_url` is on this machine, which no proxy can reach.
    """
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
    here = urlsplit(api_url).hostname in {"127.0.0.1", "localhost", "::1"}
    return aiohttp.ClientSession(timeout=timeout, trust_env=not here, cookie_jar=aiohttp.DummyCookieJar())


def asked_to_wait(answer: Answer) -> float | None:
    """Return the seconds that a rate limit asks to wait, or None where the answer is no rate limit.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """
    if answer.status not in _LIMITED:
        return None
    after = answer.headers.get("retry-after", "")
    if after.isdigit():
        return float(after)
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    if answer.status == 429 or spent or b"rate limit" in answer.body[:2000].lower():
        return 60.0
    return None


def pause(method: str, attempt: int, answer: Answer | None, *, unsent: bool = False) -> float | None:
    """Return the seconds to wait before the next attempt, or None where this one was the last. Pure.

    A rate limit did nothing, so any method may go again. Anything else goes again only where doing it twice is doing it
    once: reads, and requests of which no byte left this machine.
    """
    if attempt >= TRIES:
        return None
    backoff = 0.5 * float(2 ** (attempt - 1))
    if answer is None:
        return backoff if unsent or method == "GET" else None
    wait = asked_to_wait(answer)
    if wait is not None:
        return wait if wait <= PATIENCE_SECONDS else None
    return backoff if answer.status >= 500 and method == "GET" else None


class _Wire(GitHubAPI):
    """gidgethub's client with the parts that it leaves open or does not do (github.md D1)."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, credential: Credential, clock: Clock) -> None:
        super().__init__(AGENT, base_url=base_url)
        self._session = session
        self._credential = credential
        self._clock = clock
        self._origin = URL(base_url).origin()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],  # noqa: ARG002 - gidgethub's own lack the version and guess a content type
        body: bytes = b"",
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request, again where `pause` says so; a refused token is replaced once."""
        token = await self._credential(None)
        replaced = False
        attempt = 1
        while True:
            answer, failure = await self._attempt(method, url, token, body)
            if answer is not None and answer.status == 401 and not replaced:
                fresh, replaced = await self._credential(token), True
                if fresh != token:
                    token = fresh
                    continue
            unsent = isinstance(failure, aiohttp.ClientConnectorError)
            wait = pause(method, attempt, answer, unsent=unsent)
            again = failure is not None or (answer is not None and answer.status >= 400)
            if not again or wait is None:
                break
            await self._clock.sleep(wait * (1 + 0.2 * self._clock.jitter()))
            attempt += 1
        if answer is None:
            raise Unavailable(0, "GitHub could not be reached or did not answer in time") from failure
        waiting = asked_to_wait(answer)
        if waiting is not None:
            raise Unavailable(answer.status, "GitHub's rate limit is reached", retry_after=waiting)
        return answer.status, answer.headers, answer.body

    async def _attempt(self, method: str, url: str, token: str, body: bytes) -> tuple[Answer | None, Exception | None]:
        """Send one request, through redirects, and return its answer or the failure of the network."""
        target = URL(url, encoded=True)
        try:
            for _ in range(HOPS):
                if target.origin() != self._origin:
                    raise GitHubError(0, "GitHub pointed to another host; the request was not sent there")
                answer = await self._once(method, target, token, body)
                place = answer.headers.get("location")
                if answer.status not in _REDIRECTS or place is None:
                    return answer, None
                # The same method and body again: a redirected request was not carried out, and a POST that turns into
                # a GET looks like success (github.md D1, 5).
                target = target.join(URL(place, encoded=True))
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            return None, failure
        raise GitHubError(answer.status, "GitHub redirected too often")

    async def _once(self, method: str, target: URL, token: str, body: bytes) -> Answer:
        headers = {
            "Accept": ACCEPT,
            "Authorization": f"Bearer {token}",
            "User-Agent": AGENT,
            "X-GitHub-Api-Version": API_VERSION,
        }
        if body:
            headers["Content-Type"] = "application/json; charset=utf-8"
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        async with self._session.request(
            method, target, headers=headers, data=body or None, allow_redirects=False, timeout=limit
        ) as response:
            read = bytearray()
            async for part in response.content.iter_any():
                read += part
                if len(read) > ANSWER_BYTES:
                    raise aiohttp.ClientPayloadError("the answer is too large")
            return Answer(response.status, response.headers, bytes(read))


@contextmanager
def _mapped() -> Iterator[None]:
    """Turn gidgethub's exceptions into ours."""
    try:
        yield
    except HTTPException as error:
        status, message = int(error.status_code), str(error)
        if status in {404, 410}:
            raise NotFound(status, message) from None
        if status == 403:
            raise Forbidden(status, message) from None
        if status >= 500:
            raise Unavailable(status, message) from None
        raise GitHubError(status, message) from None
    except (ValueError, LookupError, TypeError):
        raise Unavailable(0, "GitHub's answer could not be read") from None


class GitHub:
    """GitHub's REST API with one credential. Paths begin with a slash; query values come as keywords.

    Every method raises `NotFound`, `Forbidden`, `Unavailable`, or `GitHubError` for the rest, and nothing else.
    """

    def __init__(
        self, session: aiohttp.ClientSession, base_url: str, credential: Credential, *, clock: Clock | None = None
    ) -> None:
        self._wire = _Wire(session, base_url, credential, clock or Clock())

    async def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - verbs.py gives it a type
        """Return what is at `path`."""
        with _mapped():
            return await self._wire.getitem(_with(path, query), None)

    async def pages(self, path: str, *, key: str = "items", **query: str | int) -> list[Any]:
        """Return all entries of a list, over its pages; `key` names the list where an object holds it."""
        found = []
        with _mapped():
            address = _with(path, {"per_page": 100, **query})
            async for entry in self._wire.getiter(address, None, iterable_key=key):
                found.append(entry)
                if len(found) >= PAGES * 100:
                    break
        return found

    async def post(self, path: str, data: Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        """Create something and return it."""
        with _mapped():
            return await self._wire.post(path, None, data=dict(data))

    async def patch(self, path: str, data: Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        """Change something and return it."""
        with _mapped():
            return await self._wire.patch(path, None, data=dict(data))

    async def put(self, path: str, data: Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        """Replace something and return it."""
        with _mapped():
            return await self._wire.put(path, None, data=dict(data))

    async def delete(self, path: str) -> None:
        """Delete something."""
        with _mapped():
            await self._wire.delete(path, None)


def understood(model: type[Model], answer: object) -> Model:
    """Return an answer as the slice of it that is used. Raises `Unavailable` where it has another shape."""
    try:
        return model.model_validate(answer)
    except ValidationError:
        raise Unavailable(0, f"GitHub's answer could not be read as {model.__name__}") from None


def _with(path: str, query: Mapping[str, str | int]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
