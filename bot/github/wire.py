"""The wire to GitHub: one request over HTTP, through redirects, to one answer or to none.

It owns the headers, the time and size limits, the way through a proxy, and the rule that no credential leaves the
API's own origin. It repeats nothing; what an answer means is decided by who asked.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from bot.github.errors import GitHubError
from bot.settings import USER_AGENT, proxy_of

API_VERSION = "2022-11-28"
"""The version of the REST API that the verbs are written for (docs.github.com, "API Versions")."""
ACCEPT = "application/vnd.github+json, application/json;q=0.9"

REQUEST_SECONDS = 30.0
"""Limit of one request, from the connection to the last byte."""
CONNECT_SECONDS = 10.0
HOPS = 4
"""Redirects followed for one request: renamed and transferred repositories answer with them."""
ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of the largest answer that is read."""

_REDIRECTS = {301, 302, 307, 308}


def open_session(api_url: str = "") -> aiohttp.ClientSession:
    """Return a session for the API at `api_url`, without cookies. To be closed by its owner.

    It goes through the proxy that the environment names for that address, and trusts the authorities of the system, or
    those of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` (OpenSSL reads them when the context is made).
    """
    session = aiohttp.ClientSession(
        # An address of this machine without TLS needs no authorities, which take a while to read.
        connector=aiohttp.TCPConnector(ssl=api_url.startswith("http://") or ssl.create_default_context()),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=proxy_of(api_url),
        # Not `trust_env`: with it a ~/.netrc that knows GitHub would quarrel with the credential of every request.
    )
    # aiohttp would send a DELETE or PUT once more where the connection breaks; retries are made in one layer, above.
    session._retry_connection = False  # noqa: SLF001 - it has no other switch
    return session


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    url: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Besides those that every request carries."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def date(self) -> float | None:
        """GitHub's clock as it answered, in seconds since the epoch; None where it did not say."""
        return http_date(self.headers.get("date", ""))


def http_date(text: str) -> float | None:
    """Return an HTTP date in seconds since the epoch, or None where `text` is none."""
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


class NoAnswer(Exception):  # noqa: N818 - it says what is the case
    """A request to which no whole answer came. ``str(error)`` is a sentence without a full stop."""

    def __init__(self, sentence: str, *, unsent: bool = False, lasting: bool = False) -> None:
        super().__init__(sentence)
        self.unsent = unsent
        """No byte of the request left this machine for GitHub."""
        self.lasting = lasting
        """It needs a repair here: another try meets the same."""


class Wire:
    """Sends requests to one API. Many may be under way at once."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str) -> None:
        self._session = session
        self._origin = URL(base_url).origin()

    async def send(self, call: Call, token: str) -> Answer:
        """Return the answer to a request, followed through redirects with the same method and body.

        Raises `NoAnswer`, and `GitHubError` where it would have to go to another origin or too far.
        """
        target = self._checked(call.url)
        for _ in range(HOPS + 1):
            answer = await self._once(call, target, token)
            place = answer.headers.get("location")
            if answer.status not in _REDIRECTS or place is None:
                return answer
            # A redirected request was not carried out, and a POST that turns into a GET looks like success
            # (github.md D1, 5).
            target = self._checked(place, since=target)
        raise GitHubError(answer.status, "GitHub redirected too often")

    def _checked(self, place: str, *, since: URL | None = None) -> URL:
        """Return an address of the API's own origin. Raises `GitHubError` for any other: it gets no credential."""
        try:
            target = URL(place, encoded=True)
            target = target if since is None else since.join(target)
            own = target.origin() == self._origin and target.user is None and target.password is None
        except ValueError:  # no address, or one without a host
            own = False
        if not own:
            raise GitHubError(0, "GitHub pointed to another host; the request was not sent there")
        return target

    async def _once(self, call: Call, target: URL, token: str) -> Answer:
        headers = {
            **call.headers,
            "Accept": ACCEPT,
            "Authorization": f"Bearer {token}",
            "User-Agent": USER_AGENT,
            "X-GitHub-Api-Version": API_VERSION,
        }
        if call.body:
            headers["Content-Type"] = "application/json; charset=utf-8"
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.request(
                call.method, target, headers=headers, data=call.body or None, allow_redirects=False, timeout=limit
            ) as response:
                return Answer(response.status, response.headers, await _read(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            raise _no_answer(failure) from failure


async def _read(response: aiohttp.ClientResponse) -> bytes:
    read = bytearray()
    async for part in response.content.iter_any():
        read += part
        if len(read) > ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("the answer is too large")
    return bytes(read)


def _no_answer(failure: Exception) -> NoAnswer:
    """Return what a failure of the network means."""
    match failure:
        case aiohttp.ClientConnectorCertificateError():
            return NoAnswer(
                "GitHub's certificate is not one that this machine trusts: name your own authority's file in "
                "SSL_CERT_FILE, then start again",
                unsent=True,
                lasting=True,
            )
        case aiohttp.ClientHttpProxyError():
            words = f"The proxy refused the way to GitHub ({failure.status}): check HTTPS_PROXY and NO_PROXY"
            return NoAnswer(words, unsent=True)
        case aiohttp.ClientProxyConnectionError():
            return NoAnswer("The proxy could not be reached: check HTTPS_PROXY and NO_PROXY", unsent=True)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return NoAnswer("GitHub could not be reached", unsent=True)
        case _:
            return NoAnswer("GitHub could not be reached or did not answer in time")
