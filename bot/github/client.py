"""GitHub's REST API as methods: one call, its retries and its errors. The only module that knows gidgethub.

It owns the one retry loop, paging, and the mapping of errors. It decides nothing about what is asked (verbs.py) or with
which credential (app.py here); how a request travels is wire.py's part, when it may go is limits.py's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
from gidgethub import HTTPException
from gidgethub.abc import GitHubAPI
from pydantic import BaseModel, ValidationError

from bot.github.errors import Forbidden, GitHubError, NotFound, Unavailable
from bot.github.limits import Clock, Lane, Traffic, pause, retry_after
from bot.github.wire import Answer, Call, NoAnswer, Wire
from bot.settings import USER_AGENT

__all__ = ["Credential", "Forbidden", "GitHub", "GitHubError", "NotFound", "Unavailable", "understood"]

PAGES = 50
"""Pages of the longest list that is read, of 100 entries each."""

Model = TypeVar("Model", bound=BaseModel)

Credential = Callable[[str | None], Awaitable[str]]
"""Returns a bearer token. Given a token that was just refused it returns another, or the same if it has no other."""


class GitHub:
    """GitHub's REST API with one credential. Paths begin with a slash; query values come as keywords.

    Every method raises `NotFound`, `Forbidden`, `Unavailable`, or `GitHubError` for the rest. A write whose turns are
    kept in a store also raises that store's own error, where the store is away: then nothing was sent.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        credential: Credential,
        *,
        clock: Clock | None = None,
        lane: Lane | None = None,
    ) -> None:
        clock = clock or Clock()
        api = Wire(session, base_url)
        self._api = _Api(api, base_url, credential, clock=clock, lane=lane or Traffic(clock).lane(None))

    async def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - verbs.py gives it a type
        """Return what is at `path`."""
        with _mapped():
            return await self._api.getitem(_with(path, query), None)

    async def pages(
        self, path: str, *, key: str = "items", until: Callable[[Any], bool] | None = None, **query: str | int
    ) -> list[Any]:
        """Return all entries of a list, over its pages; `key` names the list where an object holds it.

        Where `until` is true of an entry, the list ends before that one.
        """
        found: list[Any] = []
        with _mapped():
            address = _with(path, {"per_page": 100, **query})
            async for entry in self._api.getiter(address, None, iterable_key=key):
                if until is not None and until(entry):
                    break
                found.append(entry)
                if len(found) >= PAGES * 100:
                    break
        return found

    async def post(
        self, path: str, data: Mapping[str, object] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401 - as above
        """Create something and return it. `headers` go besides the usual ones; their names begin with ``X-``."""
        body = b"" if data is None else dict(data)
        with _mapped():
            return await self._api.post(path, None, data=body, extra_headers=dict(headers or {}))

    async def patch(self, path: str, data: Mapping[str, object]) -> Any:  # noqa: ANN401 - as above
        """Change something and return it."""
        with _mapped():
            return await self._api.patch(path, None, data=dict(data))

    async def delete(self, path: str) -> None:
        """Delete something."""
        with _mapped():
            await self._api.delete(path, None)


def understood(model: type[Model], answer: object) -> Model:
    """Return an answer as the slice of it that is used. Raises `Unavailable` where it has another shape."""
    try:
        return model.model_validate(answer)
    except ValidationError:
        raise Unavailable(0, f"GitHub's answer could not be read as {model.__name__}") from None


class _Api(GitHubAPI):
    """gidgethub's client with the parts that it leaves open or does not do (github.md D1)."""

    def __init__(self, wire: Wire, base_url: str, credential: Credential, *, clock: Clock, lane: Lane) -> None:
        super().__init__(USER_AGENT, base_url=base_url)
        self._wire = wire
        self._credential = credential
        self._clock = clock
        self._lane = lane

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request, again where `pause` says so; a refused token is replaced once."""
        # Of gidgethub's headers only those that a caller gave: it lacks the version, and guesses a content type.
        call = Call(method, url, body, {name: value for name, value in headers.items() if name.startswith("X-")})
        self._lane.check()
        token = await self._credential(None)
        replaced = False
        attempts = count(1)
        attempt = next(attempts)
        while True:
            got, limited = await self._attempt(call, token)
            if isinstance(got, Answer) and got.status == 401 and not replaced:
                fresh, replaced = await self._credential(token), True
                if fresh != token:
                    token = fresh
                    continue
            wait = pause(method, attempt, got, limited=limited)
            if wait is None:
                return self._final(got, limited)
            if limited is None:  # a limit is waited for on the lane, by all who are on it
                await self._clock.rest(wait)
            attempt = next(attempts)

    async def _attempt(self, call: Call, token: str) -> tuple[Answer | NoAnswer, float | None]:
        """Send a request once; return its answer, or that there was none, and the wait that a limit asks for."""
        async with self._lane.passage(call.method):
            try:
                answer = await self._wire.send(call, token)
            except NoAnswer as none:
                return none, None
            # Before the next request may go: it is to know what this one met.
            return answer, await self._lane.learn(answer)

    def _final(self, got: Answer | NoAnswer, limited: float | None) -> tuple[int, Mapping[str, str], bytes]:
        if isinstance(got, NoAnswer):
            raise Unavailable(0, str(got)) from got
        if limited is not None:
            raise Unavailable(got.status, f"GitHub's rate limit is reached for {limited:.0f} s", retry_after=limited)
        if got.status >= 500 and (asked := retry_after(got, self._clock.now())) is not None:
            raise Unavailable(got.status, f"GitHub asks to come back in {asked:.0f} s", retry_after=asked)
        return got.status, got.headers, got.body


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
        if status >= 500 or status == 401:
            # 401: the token was replaced already, and its replacement was refused as well: nothing that lasts.
            raise Unavailable(status, message) from None
        raise GitHubError(status, message) from None
    except (ValueError, LookupError, TypeError):
        raise Unavailable(0, "GitHub's answer could not be read") from None


def _with(path: str, query: Mapping[str, str | int]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
