"""One call through the gateway: the two APIs as it knows them, what passes in each direction, and nothing beside it.

It owns the table of APIs, the headers that pass, the key that is added, the limits of one call, and the words with
which a program inside is told that its call went nowhere. Whether a call may be made is decided by `worker.gateway`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from pydantic import SecretStr
from yarl import URL

from bot.settings import USER_AGENT, proxy_of
from worker.metering import Meter, Reading

RESPONSE_BYTES = 64 * 1024 * 1024
"""Bytes of the longest reply that is passed on. The rest is cut."""
CONNECT_SECONDS = 30.0
SILENT_SECONDS = 600.0
"""Seconds without a byte from the model API: what codex waits for itself (agents.md 2.10)."""

PASSED_ON = ("accept", "anthropic-beta", "anthropic-version", "openai-beta")
"""Headers of a request that go out. codex 0.163 sends accept of these, claude 2.1.332 all but openai-beta. What else
they send is theirs: their machine's kind, the folder they work in, the ids of their sessions."""
PASSED_BACK = re.compile(
    r"content-type|retry-after(-ms)?|(x-)?request-id|x-should-retry|(x|anthropic)-ratelimit-[a-z0-9-]+"
)
"""Headers of a reply that come back. The programs read when to try again, and people look for a request by its id."""
_PRINTABLE = re.compile(r"[\x20-\x7e]{0,4000}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path that may be asked for, by POST alone."""

    path: str
    free: bool = False
    """Its provider charges nothing for it."""


@dataclass(frozen=True, slots=True)
class Api:
    """A model API as its program asks for it."""

    name: str
    endpoints: tuple[Endpoint, ...]
    queries: tuple[str, ...]
    """What may follow the path, behind a question mark."""
    home: str
    """The provider's own address, in the form in which an operator names another."""
    mount: str
    """What of an endpoint's path stands in that address already."""
    header: str
    value: str
    """The header with the key; ``{}`` stands for it."""
    key: str
    """The field of `bot.settings.Settings` with the key."""
    url: str
    """The field with the operator's address."""
    spent_status: int
    """What ends the program's turn after one request, with our words in its last event."""


APIS = {
    api.name: api
    for api in (
        Api(
            "responses",
            endpoints=(Endpoint("/v1/responses"), Endpoint("/v1/responses/compact")),
            queries=("",),
            home="https://api.openai.com/v1",
            mount="/v1",
            header="Authorization",
            value="Bearer {}",
            key="openai_api_key",
            url="openai_base_url",
            # Measured with codex 0.163: 400 is one request and its text is told; 402 and 403 are asked again
            # (agents.md 2.4), and 429 with insufficient_quota is told in codex's own words.
            spent_status=400,
        ),
        Api(
            "messages",
            endpoints=(Endpoint("/v1/messages"), Endpoint("/v1/messages/count_tokens", free=True)),
            queries=("", "beta=true"),
            home="https://api.anthropic.com",
            mount="",
            header="x-api-key",
            value="{}",
            key="anthropic_api_key",
            url="anthropic_base_url",
            # Measured with claude 2.1.332: 402 is one request and its text is told; 400 is asked three times.
            spent_status=402,
        ),
    )
}
"""The APIs by their names."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where an API is, and the key that is added on the way."""

    key: SecretStr
    url: str | None = None
    """The operator's address; None: the provider's own."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A call that may be made."""

    endpoint: Endpoint
    query: str
    """With its question mark."""
    headers: Mapping[str, str]
    """As `passed_on` left them."""
    body: bytes
    model: str = ""
    """The model that it asks for."""


@dataclass(slots=True)
class Passed:
    """How a call went, as far as it is known."""

    status: int = 0
    """What the model API answered with; 0: nothing."""
    received: int = 0
    """Bytes of its reply."""
    reading: Reading = field(default_factory=Reading)
    fault: str = ""
    """Why the reply did not pass whole."""


Settle: TypeAlias = Callable[[Passed], "asyncio.Future[float]"]
"""Counts a call; what it returns ends when that is done."""


class _Left(Exception):  # noqa: N818 - it names who went away
    """The program inside went away."""


def passed_on(headers: CIMultiDictProxy[str]) -> dict[str, str] | None:
    """Return the headers of a request that go out; None where one of them is not fit to."""
    found = {name: ", ".join(headers.getall(name)) for name in PASSED_ON if name in headers}
    return found if all(_PRINTABLE.fullmatch(value) for value in found.values()) else None


def refusal(api: Api, status: int, words: str, *, again: bool = False) -> web.Response:
    """Return an answer of our own in the shape of an API's errors. `again`: the program may try once more."""
    return web.json_response(
        _error(api, status, words), status=status, headers={} if again else {"x-should-retry": "false"}
    )


def _error(api: Api, status: int, words: str) -> dict[str, Any]:
    kinds = {402: "billing_error", 403: "permission_error", 413: "request_too_large", 429: "rate_limit_error"}
    kind = "api_error" if status >= 500 else kinds.get(status, "invalid_request_error")
    if api.name == "messages":
        return {"type": "error", "error": {"type": kind, "message": words}}
    return {"error": {"message": words, "type": kind, "param": None, "code": None}}


class Relay:
    """The way to one API. Many calls may be under way at once."""

    def __init__(self, session: aiohttp.ClientSession, api: Api, upstream: Upstream) -> None:
        self.api = api
        self._session = session
        self._base = (upstream.url or api.home).rstrip("/")
        self.key = upstream.key.get_secret_value()
        self._proxy = proxy_of(self._base)
        self._limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)

    async def carry(self, request: web.BaseRequest, forward: Forward, settle: Settle) -> web.StreamResponse:
        """Make a call and pass its reply on, chunk by chunk; return what was answered.

        `settle` is called once, whatever becomes of the call, with what is known of it: before the program hears the
        end of the reply, so that it cannot ask again before it is counted. What `settle` returns is waited for.
        """
        call = _Call(request, forward, settle, self)
        try:
            async with self._session.post(
                URL(self._base + forward.endpoint.path.removeprefix(self.api.mount) + forward.query, encoded=True),
                data=forward.body,
                headers=self._headers(forward),
                allow_redirects=False,
                timeout=self._limits,
                proxy=self._proxy,
            ) as reply:
                return await call.pass_on(reply)
        except _Left:
            return call.broken("the program went away")
        except asyncio.CancelledError:
            call.passed.fault = "the program went away"
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            return call.failed(failure)
        except ValueError as failure:
            if call.passed.status:
                raise  # the request was made: it is a fault of our own
            return call.failed(failure)
        finally:
            await call.settled()

    def _headers(self, forward: Forward) -> dict[str, str]:
        return {
            "Accept": "*/*",
            **forward.headers,
            "Accept-Encoding": "identity",  # unpacking would hold pieces of a stream back
            "Content-Type": "application/json",  # as which the body was read by `worker.reach`
            "User-Agent": USER_AGENT,
            self.api.header: self.api.value.format(self.key),
        }


class Struck:
    """Strikes a key out of what streams by: a provider may repeat it, in an error above all."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may pass now. Held back is only an end that the key may begin with."""
        data = (self._held + data).replace(self._key, b"[redacted]")
        most = min(len(self._key) - 1, len(data))
        held = next((size for size in range(most, 0, -1) if self._key.startswith(data[-size:])), 0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def rest(self) -> bytes:
        """Return what is still held back, at the end."""
        return self._held


class _Call:
    """One call under way."""

    def __init__(self, request: web.BaseRequest, forward: Forward, settle: Settle, relay: Relay) -> None:
        api = relay.api
        self._key = relay.key
        self.passed = Passed()
        self._request = request
        self._forward = forward
        self._api = api
        self._settle = settle
        self._settling: asyncio.Future[float] | None = None
        self._meter = Meter(api.name, asked=len(forward.body))
        self._answer: web.StreamResponse | None = None
        self._unsent = False

    async def pass_on(self, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass the reply on."""
        self.passed.status = reply.status
        if 300 <= reply.status < 400:
            # Followed, it would take the key to where the redirect points.
            return self._refused(502, "the model API answered with a redirect, which is not followed", again=False)
        back = {
            name: value.replace(self._key, "[redacted]")
            for name, value in reply.headers.items()
            if PASSED_BACK.fullmatch(name.lower())
        }
        struck = Struck(self._key)
        answer = web.StreamResponse(status=reply.status, headers=back)
        await self._to_program(answer.prepare(self._request))
        self._answer = answer
        async for chunk in reply.content.iter_any():
            self.passed.received += len(chunk)
            self._meter.feed(chunk)
            if self.passed.received > RESPONSE_BYTES:
                return self.broken("the reply is too long")
            if self._meter.done:
                await self.settled()
            if passing := struck.feed(chunk):
                await self._to_program(answer.write(passing))
        await self.settled()
        await self._to_program(answer.write_eof(struck.rest()))
        return answer

    async def settled(self) -> None:
        """Have the call counted, once, and return when it is."""
        if self._settling is None:
            self.passed.reading = self._reading()
            self._settling = self._settle(self.passed)
        await asyncio.shield(self._settling)

    def failed(self, failure: Exception) -> web.StreamResponse:
        """Tell the program that no reply came, or not all of it."""
        status, words, self._unsent = _meaning(failure)
        if self._answer is not None:
            return self.broken(words)
        return self._refused(status, words, again=True)

    def broken(self, fault: str) -> web.StreamResponse:
        """End an answer that began so that it is seen to have no end."""
        self.passed.fault = fault
        if self._request.transport is not None:
            self._request.transport.close()
        return self._answer or web.Response(status=502)

    def _refused(self, status: int, words: str, *, again: bool) -> web.Response:
        self.passed.fault = words
        return refusal(self._api, status, words, again=again)

    async def _to_program(self, step: Any) -> None:  # noqa: ANN401 - aiohttp's steps return different things
        try:
            await step
        except ConnectionError as error:
            raise _Left from error

    def _reading(self) -> Reading:
        """Return what the call used. A call that was not made or that was refused cost nothing."""
        refused = self.passed.status != 0 and not 200 <= self.passed.status < 300
        read = self._meter.reading()
        if refused or self._unsent or self._forward.endpoint.free:
            return Reading(read.model)
        return replace(read, model=read.model or self._forward.model)


def _meaning(failure: Exception) -> tuple[int, str, bool]:
    """Return what a failure of the network is told as, and whether the request is certain not to have left."""
    match failure:
        case aiohttp.ClientConnectorCertificateError():
            words = (
                "the model API's certificate is not one that the worker's machine trusts: name your own authority's "
                "file in SSL_CERT_FILE, then start the worker again"
            )
        case aiohttp.ClientHttpProxyError():
            words = f"the proxy refused the way to the model API ({failure.status}): check HTTPS_PROXY and NO_PROXY"
        case aiohttp.ClientProxyConnectionError():
            words = "the proxy to the model API could not be reached: check HTTPS_PROXY and NO_PROXY"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            words = "the model API could not be reached"
        case ValueError():  # `aiohttp.InvalidURL` is one
            words = "the request to the model API cannot be made: check the address that is set for it"
        case TimeoutError():
            return 504, f"the model API said nothing for {SILENT_SECONDS:.0f} seconds", False
        case _:
            return 502, "the connection to the model API broke", False
    return 502, words, True
