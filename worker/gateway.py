"""The only way from a sandbox to a model API: a socket of its own for every turn, and what may pass through it.

It runs in the worker, outside the sandbox. It owns who may ask for what (`APIS`, `worker.reach`), the ceilings that are
looked at before each call, and the counting of what each call used. The socket is the credential: whoever can open it
speaks for its turn, and it goes when the turn ends. The keys never come inside, and no body is ever logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from bot.settings import Settings
from bot.store import StoreAway
from bot.telemetry import log
from worker import reach
from worker.account import Account, Counters, Spent, Stopped, TurnBudget
from worker.prices import Prices
from worker.relay import APIS, Endpoint, Forward, Passed, Relay, Upstream, passed_on, refusal
from worker.sockets import bound, short

__all__ = ["APIS", "SOCKET", "Gateway", "OpenTurn", "Spent", "Stopped", "TurnBudget", "Upstream", "upstreams"]

SOCKET = "api.sock"
"""The socket's name in its folder."""
REQUEST_BYTES = 32 * 1024 * 1024
"""Bytes of the largest request."""
CALLS_AT_ONCE = 4
"""Calls of one turn under way at once; others wait. It bounds what a turn has the worker hold in memory."""
CONNECTIONS = 32
"""Connections of one turn. More are closed: the worker's open files are every run's."""
REFUSALS_AT_ONCE = 20
"""Refusals of one turn that are answered at once and logged. Each one after them waits for `REFUSAL_SECONDS`."""
REFUSAL_SECONDS = 1.0
LEFT_OVER_SECONDS = 60.0
"""Age from which a socket that nobody serves is taken for what a killed worker left."""

READ_AT_ONCE = 256 * 1024
"""Bytes of a request that is read on the loop: a millisecond or two."""
LOGGED_PATH = 100
"""Characters of a refused path that are logged."""
END_SECONDS = 5.0
"""Seconds that calls have to end in when their turn does."""

_log = log("worker.gateway")
_silent = logging.getLogger("worker.gateway.http")
_silent.disabled = True
_HTTP: dict[str, Any] = {
    "logger": _silent,  # aiohttp would log what a hostile program sends, at its pace
    "access_log": None,
    "auto_decompress": False,
}


def upstreams(settings: Settings) -> dict[str, Upstream]:
    """Return the way to each API that there is a key for."""
    keys = {api.name: getattr(settings, api.key) for api in APIS.values()}
    return {
        name: Upstream(key, getattr(settings, APIS[name].url))
        for name, key in keys.items()
        if key is not None and key.get_secret_value()
    }


class Gateway:
    """The gateway of one worker. Enter it once, in the event loop that uses it; turns may be open side by side."""

    def __init__(self, upstreams: Mapping[str, Upstream], folder: Path, *, prices: Prices, spending: Counters) -> None:
        """Sockets lie below `folder`, of which the sandbox's user needs to be able to pass the folders above."""
        self._upstreams = upstreams
        self._folder = folder
        self._prices = prices
        self._spending = spending
        self._relays: dict[str, Relay] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o711)
        _sweep(self._folder)
        # The authorities are the system's, or those of SSL_CERT_FILE and SSL_CERT_DIR: OpenSSL reads them here. Without
        # TLS on any way none are needed, and they take a while to read.
        plain = all((way.url or "").startswith("http://") for way in self._upstreams.values())
        connector = aiohttp.TCPConnector(ssl=plain or ssl.create_default_context(), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self._relays = {name: Relay(self._session, APIS[name], way) for name, way in self._upstreams.items()}
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @contextlib.asynccontextmanager
    async def turn(self, budget: TurnBudget) -> AsyncIterator[OpenTurn]:
        """Serve one turn: its socket is there until the block ends, and every call of it ended then.

        There has to be a key for its API: nobody is seated without one (`worker.quarters`). Raises OSError where the
        socket cannot be made.
        """
        relay = self._relays[budget.api]
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            account = Account(budget, prices=self._prices, counters=self._spending)
            turn = OpenTurn(folder, relay, account)
            try:
                async with _served(turn, bound(folder, SOCKET, user=budget.user)):
                    yield turn
            finally:
                await account.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class OpenTurn:
    """A turn that is being served."""

    def __init__(self, folder: Path, relay: Relay, account: Account) -> None:
        self.folder = folder
        """The folder with the socket, and nothing else."""
        self._relay = relay
        self._api = relay.api
        self._account = account
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._turned_away = 0
        self._refused = ""

    @property
    def spent(self) -> Spent:
        """Return what the turn came to by now."""
        return self._account.spent

    @property
    def stopped(self) -> Stopped | None:
        """Return the ceiling at which the turn was stopped; None where none was reached."""
        return self._account.stopped

    @property
    def refused(self) -> str:
        """Return why the last request was not let through; empty where it was. Ceilings are none of these reasons."""
        return self._refused

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of the program inside. Whatever it is, it is answered."""
        try:
            return await self._carried(request)
        except _Refused as refused:
            return await self._turn_away(request, refused)
        except Exception:  # noqa: BLE001 - the boundary: what a program sends must not decide what is logged, or raised
            _log.exception("gateway fault", api=self._api.name)
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=500)

    async def _carried(self, request: web.BaseRequest) -> web.StreamResponse:
        """Make the call that a request asks for. Raises `_Refused`."""
        endpoint, query = self._endpoint(request)
        headers = passed_on(request.headers)
        if headers is None:
            raise _Refused(403, "a header of the request is not fit to be passed on")
        async with self._places:
            if self.stopped is not None:
                raise self._at_ceiling(self.stopped)
            body = await _body(request)
            asked = await _asked(self._api.name, body)
            if asked.fault:
                raise _Refused(403, f"the request {asked.fault}, which is not let through")
            try:
                may = await self._account.may_call()
            except StoreAway as away:
                raise _Refused(503, "what was spent cannot be looked up at present", again=True) from away
            if not may and self.stopped is not None:
                raise self._at_ceiling(self.stopped)
            self._refused = ""
            settle = partial(self._settle, endpoint, len(body), time.monotonic())
            return await self._relay.carry(request, Forward(endpoint, query, headers, body, asked.model), settle)

    def _endpoint(self, request: web.BaseRequest) -> tuple[Endpoint, str]:
        """Return the endpoint that a request names, to the letter, and its query. Raises `_Refused`."""
        path, mark, query = request.raw_path.partition("?")
        endpoint = next((each for each in self._api.endpoints if each.path == path), None)
        known = query in self._api.queries and bool(mark) == bool(query)
        if request.method != "POST" or endpoint is None or not known or "Upgrade" in request.headers:
            raise _Refused(403, "only the calls of the agent's own model API are let through here")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused(415, "a packed request is not let through: send it as it is")
        return endpoint, mark + query

    def _at_ceiling(self, stopped: Stopped) -> _Refused:
        status = 429 if stopped.ceiling == "calls" else self._api.spent_status
        return _Refused(status, stopped.sentence, ceiling=True)

    async def _turn_away(self, request: web.BaseRequest, refused: _Refused) -> web.StreamResponse:
        self._turned_away += 1
        if not refused.ceiling and not refused.again:
            self._account.refuse()
            self._refused = str(refused)
        if self._turned_away > REFUSALS_AT_ONCE:
            await asyncio.sleep(REFUSAL_SECONDS)
        else:
            path = request.raw_path.partition("?")[0][:LOGGED_PATH]
            _log.info("gateway refusal", api=self._api.name, path=path, status=refused.status, why=str(refused))
        return refusal(self._api, refused.status, str(refused), again=refused.again)

    def _settle(self, endpoint: Endpoint, sent: int, began: float, passed: Passed) -> asyncio.Future[float]:
        counting = self._account.count(passed.reading)

        def tell(counted: asyncio.Future[float]) -> None:
            tokens = passed.reading.tokens
            _log.info(
                "gateway call",
                api=self._api.name,
                path=endpoint.path,
                status=passed.status,
                sent=sent,
                received=passed.received,
                ms=round((time.monotonic() - began) * 1000),
                model=passed.reading.model,
                input=tokens.input,
                cached=tokens.cached,
                output=tokens.output,
                usd=round(counted.result(), 6),
                fault=passed.fault,
            )

        counting.add_done_callback(tell)
        return counting


class _Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is not let through. Its words are for the program inside, and end in its last event."""

    def __init__(self, status: int, words: str, *, again: bool = False, ceiling: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.again = again
        """It may be let through a little later."""
        self.ceiling = ceiling


async def _body(request: web.BaseRequest) -> bytes:
    """Return a request's body. Raises `_Refused`."""
    too_large = _Refused(413, f"the request is larger than {REQUEST_BYTES // 1024**2} MiB")
    if (request.content_length or 0) > REQUEST_BYTES:
        raise too_large
    read = bytearray()
    try:
        async for part in request.content.iter_any():
            read += part
            if len(read) > REQUEST_BYTES:
                raise too_large
    except (web.RequestPayloadError, ConnectionError) as error:
        raise _Refused(400, "the request broke off") from error
    return bytes(read)


async def _asked(api: str, body: bytes) -> reach.Asked:
    """Return what a request asks for; a large one is read beside the loop, on which others' streams pass."""
    if len(body) <= READ_AT_ONCE:
        return reach.asked(api, body)
    return await asyncio.to_thread(reach.asked, api, body)


# ---- Sockets --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _served(turn: OpenTurn, lying: socket.socket) -> AsyncIterator[None]:
    """Serve a turn at a socket until the block ends, which ends its calls too."""
    server = web.Server(turn.answer, handler_cancellation=True, **_HTTP)
    listener = await asyncio.get_running_loop().create_unix_server(
        lambda: server() if len(server.connections) < CONNECTIONS else _Full(), sock=lying, backlog=CONNECTIONS
    )
    try:
        yield
    finally:
        listener.close()
        for connection in server.connections:
            if connection.transport is not None:
                connection.transport.abort()  # `shutdown` alone would first wait for the call to end by itself
        await server.shutdown(END_SECONDS)


class _Full(asyncio.Protocol):
    """Closes a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _sweep(folder: Path) -> None:
    """Remove the sockets that a killed worker left. Another worker of this machine may serve some of them."""
    for each in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - each.lstat().st_mtime > LEFT_OVER_SECONDS and not _alive(each):
                shutil.rmtree(each, ignore_errors=True)


def _alive(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, short(folder) as place:
        probe.settimeout(1.0)
        try:
            probe.connect(f"{place}/{SOCKET}")
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True
