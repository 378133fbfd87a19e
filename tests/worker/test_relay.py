"""One call: what passes out, what passes back and when, and what is said where nothing came back."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr

from worker import relay
from worker.debate.flow import Tokens
from worker.metering import Reading
from worker.relay import APIS, Forward, Passed, Relay, Struck, Upstream, passed_on, refusal

KEY = "sk-the-real-key-0123456789abcdef"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 7}
BEGUN = b'data: {"type":"response.created","response":{"model":"gpt-5.5"}}\n\n'
ENDED = b"data: " + json.dumps({"type": "response.completed", "response": {"usage": USAGE}}).encode() + b"\n\n"

Play = Callable[["Connection"], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@dataclass
class Connection:
    """One connection to a model API that does as it is told, to the byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def hear(self) -> bytes:
        """Return the head of the request, once the whole request is here."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await self.reader.readexactly(int(length.split(b":")[1]))
        return head

    async def say(self, *data: bytes) -> None:
        for each in data:
            self.writer.write(each)
        await self.writer.drain()


@dataclass
class Way:
    """A relay in the middle, with a program's end and a model API's."""

    front: str
    play: list[Play]
    url: str = ""
    """The model API's address."""
    heard: list[bytes] = field(default_factory=list)
    told: list[Passed] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """The program's end of the relay closed its connection to the model API."""

    def post(self, session: aiohttp.ClientSession, **over: Any) -> Any:
        return session.post(self.front, data=b'{"model": "gpt-5.5"}', **over)


@asynccontextmanager
async def serving(
    upstream: Upstream, way: Way, *, api: str = "responses", free: bool = False, settle: Any = None
) -> AsyncIterator[None]:
    """Serve a relay to an API. What it is asked is always the API's first endpoint, or the free one."""
    endpoint = next(each for each in APIS[api].endpoints if each.free is free)

    async def tell(passed: Passed) -> float:
        way.told.append(passed)
        return 0.0

    async with aiohttp.ClientSession() as session:
        middle = Relay(session, APIS[api], upstream)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            headers = passed_on(request.headers)
            assert headers is not None
            forward = Forward(endpoint, "", headers, await request.read(), "gpt-asked")
            return await middle.carry(request, forward, lambda passed: asyncio.ensure_future((settle or tell)(passed)))

        runner = web.ServerRunner(web.Server(answer, handler_cancellation=True))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        way.front = "http://{}:{}/".format(*runner.addresses[0])
        yield
        await runner.cleanup()


@pytest_asyncio.fixture
async def way() -> AsyncIterator[Way]:
    """Return a way to a model API that plays one function for each connection."""
    made = Way("", [])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            made.heard.append(await connection.hear())
            await made.play.pop(0)(connection)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            made.gone.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.url = "http://{}:{}/v1".format(*server.sockets[0].getsockname())
    async with serving(Upstream(SecretStr(KEY), made.url), made):
        yield made
    server.close()


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as made:
        yield made


def says(*data: bytes) -> Play:
    async def play(connection: Connection) -> None:
        await connection.say(*data)

    return play


WHOLE = says(HEAD, chunk(BEGUN), chunk(ENDED), b"0\r\n\r\n")


# ---- What goes out --------------------------------------------------------------------------------------------------


async def test_the_key_is_added_and_what_the_program_said_of_itself_is_not_passed_on(way: Way, session: Any) -> None:
    way.play = [WHOLE]
    own = {
        "Authorization": "Bearer placeholder",
        "x-api-key": "placeholder",
        "Cookie": "a=placeholder",
        "Proxy-Authorization": "placeholder",
        "X-Forwarded-For": "placeholder",
        "x-codex-turn-metadata": "placeholder",
        "Host": "placeholder.example",
        "User-Agent": "placeholder",
        "Accept-Encoding": "gzip",
        "Content-Type": "text/placeholder",
        "accept": "text/event-stream",
        "OpenAI-Beta": "b1",
    }
    async with way.post(session, headers=own) as reply:
        assert await reply.read() == BEGUN + ENDED
    head = way.heard[0].decode()
    lines = [line.split(": ", 1) for line in head.strip().splitlines()[1:]]
    sent = {name.lower(): value for name, value in lines}
    assert head.startswith("POST /v1/responses HTTP/1.1\r\n")
    assert len(sent) == len(lines)
    host = sent.pop("host")
    assert host.startswith("127.0.0.1:")
    assert sent == {
        "accept": "text/event-stream",
        "openai-beta": "b1",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "codex-debate",
        "authorization": f"Bearer {KEY}",
        "content-length": "20",
    }


async def test_anthropics_key_stands_in_its_own_header(session: Any) -> None:
    heard: list[Any] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        heard.append((request.raw_path, dict(request.headers)))
        return web.json_response({"input_tokens": 5})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    way = Way("", [])
    upstream = Upstream(SecretStr(KEY), "http://{}:{}/".format(*runner.addresses[0]))
    async with serving(upstream, way, api="messages", free=True):
        own = {"Authorization": "Bearer x", "anthropic-version": "2023-06-01", "anthropic-beta": "a"}
        async with way.post(session, headers=[*own.items(), ("anthropic-beta", "b")]) as reply:
            assert await reply.json() == {"input_tokens": 5}
    await runner.cleanup()
    (path, headers) = heard[0]
    assert path == "/v1/messages/count_tokens"
    assert headers["x-api-key"] == KEY
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "a, b")
    assert "Authorization" not in headers
    assert way.told[0].reading == Reading()  # it costs nothing


@pytest.mark.parametrize("value", ["a\tb", "ä", "x" * 4001, "a\x7f"])
def test_a_header_that_is_not_fit_is_not_passed_on(value: str) -> None:
    assert passed_on(CIMultiDictProxy(CIMultiDict({"accept": value}))) is None


def test_the_providers_own_addresses_are_the_default() -> None:
    """The paths of both APIs' references, behind the providers' own hosts."""
    for api, url in (
        ("responses", "https://api.openai.com/v1/responses"),
        ("messages", "https://api.anthropic.com/v1/messages"),
    ):
        assert APIS[api].home + APIS[api].endpoints[0].path.removeprefix(APIS[api].mount) == url


def test_a_key_does_not_show() -> None:
    assert KEY not in repr(Upstream(SecretStr(KEY)))


# ---- What comes back ------------------------------------------------------------------------------------------------


async def test_only_the_headers_that_programs_read_come_back(way: Way, session: Any) -> None:
    named = {"retry-after": "2", "x-request-id": "r", "request-id": "q", "x-ratelimit-remaining-tokens": "5"}
    named |= {"anthropic-ratelimit-requests-limit": "9", "x-should-retry": "true", "retry-after-ms": "1"}
    other = {"set-cookie": "a=b", "openai-organization": "o", "server": "s", "location": "/", "x-leak": KEY}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (named | other).items())
    head = f"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n{lines}content-length: 2\r\n\r\n"
    way.play = [says(head.encode(), b"{}")]
    async with way.post(session) as reply:
        assert (reply.status, await reply.read()) == (429, b"{}")
        for name, value in named.items():
            assert reply.headers[name] == value
        assert reply.content_type == "application/json"
        assert not {name.lower() for name in reply.headers} & {
            "set-cookie",
            "openai-organization",
            "location",
            "x-leak",
        }
    assert way.told[0].reading == Reading()
    assert way.told[0].status == 429


async def test_each_piece_passes_before_the_next_is_there(way: Way, session: Any) -> None:
    steps = [asyncio.Event() for _ in range(4)]

    async def slowly(connection: Connection) -> None:
        await connection.say(HEAD)
        for step in steps:
            await step.wait()
            await connection.say(chunk(BEGUN))
        await connection.say(b"0\r\n\r\n")

    way.play = [slowly]
    async with asyncio.timeout(5), way.post(session) as reply:
        assert reply.status == 200  # the head came before any piece
        for step in steps:
            step.set()
            assert await reply.content.readany() == BEGUN
        assert await reply.content.readany() == b""


async def test_a_call_is_counted_before_the_program_hears_its_end(way: Way, session: Any) -> None:
    way.play = [says(HEAD, chunk(BEGUN), chunk(ENDED))]  # and the connection stays open
    async with way.post(session) as reply:
        heard = b""
        while ENDED not in heard:
            heard += await reply.content.readany()
        assert [passed.reading for passed in way.told] == [Reading("gpt-5.5", Tokens(100, 40, 7))]
    await asyncio.wait_for(way.gone.wait(), 5)
    assert len(way.told) == 1


async def test_a_program_hears_no_end_until_the_call_is_counted(way: Way, session: Any) -> None:
    counting, counted = asyncio.Event(), asyncio.Event()

    async def settle(passed: Passed) -> float:
        counting.set()
        await counted.wait()
        return 0.0

    way.play = [says(HEAD, chunk(BEGUN), chunk(ENDED), b"0\r\n\r\n")]
    async with serving(Upstream(SecretStr(KEY), way.url), way, settle=settle), way.post(session) as reply:
        await asyncio.wait_for(counting.wait(), 5)
        await asyncio.sleep(0.05)
        assert ENDED not in reply.content.read_nowait()
        counted.set()
        assert (await reply.read()).endswith(ENDED)


async def test_a_packed_reply_is_passed_on_as_what_it_holds(way: Way, session: Any) -> None:
    packed = gzip.compress(BEGUN + ENDED)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
    way.play = [says(head.encode(), packed)]
    async with way.post(session) as reply:
        assert await reply.read() == BEGUN + ENDED
        assert "content-encoding" not in reply.headers
    assert way.told[0].reading.tokens == Tokens(100, 40, 7)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 304])
async def test_a_redirect_is_not_followed(way: Way, session: Any, status: int) -> None:
    head = f"HTTP/1.1 {status} Away\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    way.play = [says(head.encode())]
    async with way.post(session, allow_redirects=False) as reply:
        assert reply.status == 502
        assert "redirect" in (await reply.json())["error"]["message"]
    assert len(way.heard) == 1
    assert way.told[0].reading == Reading()


# ---- What breaks ----------------------------------------------------------------------------------------------------


async def test_a_reply_that_breaks_off_is_seen_to_break_off_and_counts(way: Way, session: Any) -> None:
    async def breaks(connection: Connection) -> None:
        await connection.say(HEAD, chunk(BEGUN), chunk(b'data: {"delta": "' + b"x" * 400 + b'"}\n\n'))
        connection.writer.close()

    way.play = [breaks]
    async with way.post(session) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()
    assert way.told[0].reading == Reading("gpt-5.5", Tokens(5, 0, 100), estimated=True)
    assert way.told[0].fault == "the connection to the model API broke"


async def test_too_long_a_reply_is_cut(way: Way, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert relay.RESPONSE_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr(relay, "RESPONSE_BYTES", 100_000)

    async def floods(connection: Connection) -> None:
        await connection.say(HEAD)
        while True:
            await connection.say(chunk(b"data: " + b"x" * 50_000 + b"\n"))

    way.play = [floods]
    heard = bytearray()

    async def listen(reply: aiohttp.ClientResponse) -> None:
        async for data in reply.content.iter_any():
            heard.extend(data)

    async with way.post(session) as reply:
        with pytest.raises(aiohttp.ClientPayloadError):
            await listen(reply)
    assert len(heard) <= 100_000
    await asyncio.wait_for(way.gone.wait(), 5)
    assert way.told[0].fault == "the reply is too long"
    assert way.told[0].reading.tokens.output > 10_000


async def test_a_program_that_goes_away_ends_the_call_at_the_model_api(way: Way, session: Any) -> None:
    way.play = [says(HEAD, chunk(BEGUN))]
    async with way.post(session) as reply:
        assert await reply.content.readany() == BEGUN
    await asyncio.wait_for(way.gone.wait(), 5)
    assert way.told[0].reading == Reading("gpt-5.5", Tokens(5, 0, 0), estimated=True)
    assert way.told[0].fault == "the program went away"


async def test_a_program_that_goes_away_before_the_reply_still_pays_for_what_it_asked(way: Way, session: Any) -> None:
    asked = asyncio.Event()

    async def silent(connection: Connection) -> None:
        asked.set()

    way.play = [silent]
    task = asyncio.ensure_future(way.post(session).__aenter__())
    await asyncio.wait_for(asked.wait(), 5)
    task.cancel()
    await asyncio.wait_for(way.gone.wait(), 5)
    assert way.told[0].reading == Reading("gpt-asked", Tokens(5, 0, 0), estimated=True)


async def test_silence_ends_a_call(way: Way, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (relay.SILENT_SECONDS, relay.CONNECT_SECONDS) == (600.0, 30.0)
    monkeypatch.setattr(relay, "SILENT_SECONDS", 0.2)
    way.play = [says(), says(HEAD, chunk(BEGUN))]
    async with serving(Upstream(SecretStr(KEY), way.url), way):
        async with way.post(session) as reply:
            assert reply.status == 504
            assert "said nothing" in (await reply.json())["error"]["message"]
        async with way.post(session) as reply:
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.read()
    assert [passed.reading.model for passed in way.told] == ["gpt-asked", "gpt-5.5"]
    assert all(passed.reading.estimated for passed in way.told)


async def test_nothing_is_sent_where_nobody_listens(session: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        way = Way("", [])
        upstream = Upstream(SecretStr(KEY), f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        async with serving(upstream, way), way.post(session) as reply:
            assert reply.status == 502
            assert await reply.json() == {
                "error": {
                    "message": "the model API could not be reached",
                    "type": "api_error",
                    "param": None,
                    "code": None,
                }
            }
    assert way.told[0].reading == Reading()
    assert way.told[0].status == 0


@pytest.mark.parametrize("url", ["https://", "https://models..example/v1", "https://" + "x" * 64, "http://:80/v1"])
async def test_a_request_that_cannot_be_made_costs_nothing(session: Any, url: str) -> None:
    way = Way("", [])
    async with serving(Upstream(SecretStr(KEY), url), way), way.post(session) as reply:
        assert reply.status == 502
        assert "cannot be made: check the address" in (await reply.json())["error"]["message"]
    assert (way.told[0].reading, way.told[0].status) == (Reading(), 0)


async def test_a_fault_of_our_own_behind_the_reply_is_no_request_that_was_not_made(
    way: Way, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(struck: Struck, data: bytes) -> bytes:
        raise ValueError("it is no address")

    monkeypatch.setattr(Struck, "feed", broken)
    way.play = [says(HEAD, chunk(BEGUN))]
    with pytest.raises(aiohttp.ClientError):
        async with way.post(session) as reply:
            await reply.read()
    assert way.told[0].reading == Reading("gpt-5.5", Tokens(5, 0, 0), estimated=True)


def test_a_refusal_has_the_shape_of_its_api_and_says_whether_to_try_again() -> None:
    body = refusal(APIS["messages"], 402, "no").body
    assert isinstance(body, bytes)
    assert json.loads(body) == {"type": "error", "error": {"type": "billing_error", "message": "no"}}
    assert refusal(APIS["messages"], 402, "no").headers["x-should-retry"] == "false"
    assert "x-should-retry" not in refusal(APIS["responses"], 503, "no", again=True).headers


@given(st.lists(st.sampled_from([b"x", b"sk", b"-", b"secret", b"sk-secret", b"sk-se", b"\n\n"])), st.integers(1, 5))
def test_a_key_never_comes_through_however_it_is_cut(parts: list[bytes], size: int) -> None:
    whole, struck = b"".join(parts), Struck("sk-secret")
    passed = b"".join(struck.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + struck.rest()
    assert passed == whole.replace(b"sk-secret", b"[redacted]")


def test_the_end_of_an_event_is_not_held_back() -> None:
    assert Struck("sk-secret").feed(b"data: {}\n\n") == b"data: {}\n\n"
