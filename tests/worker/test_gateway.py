"""The only way out of a sandbox: what passes through a turn's socket, who may use it, and what is counted."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import stat
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.settings import Settings
from bot.store import Store
from deploy.pricing import prices as shipped
from scripted_models import ModelServer, Usage, answers, calls, faults, says
from scripted_models.programs import Claude, Codex
from tests.worker.sandboxed import is_root, open_folder
from worker import gateway as module
from worker.debate.flow import Tokens
from worker.gateway import APIS, SOCKET, Gateway, OpenTurn, Stopped, TurnBudget, Upstream, upstreams
from worker.process import Program, run
from worker.sockets import bound, short

PRICES = shipped(Path("/none"))
OPENAI_KEY = "sk-proj-the-real-openai-key-0123456789"
ANTHROPIC_KEY = "sk-ant-the-real-anthropic-key-0123456789"
KEYS = {"responses": OPENAI_KEY, "messages": ANTHROPIC_KEY}
BODIES: dict[str, dict[str, Any]] = {
    "responses": {"model": "gpt-5.5", "stream": True, "input": "hello", "prompt_cache_key": "s"},
    "messages": {"model": "claude-sonnet-5", "stream": True, "max_tokens": 9, "messages": [], "tools": []},
}
DOORS = {"responses": "/v1/responses", "messages": "/v1/messages?beta=true"}
USED = Usage(input=1000, cached=400, written=0, output=50)


@pytest_asyncio.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer.start() as server:
        yield server


@pytest.fixture
def ways(models: ModelServer) -> dict[str, Upstream]:
    return {
        "responses": Upstream(SecretStr(OPENAI_KEY), models.openai_url),
        "messages": Upstream(SecretStr(ANTHROPIC_KEY), models.anthropic_url),
    }


@pytest_asyncio.fixture
async def gateway(ways: dict[str, Upstream], tmp_path: Path, store: Store) -> AsyncIterator[Gateway]:
    async with Gateway(ways, tmp_path / "gateway", prices=PRICES, spending=store.spending) as made:
        yield made


def budget(api: str = "responses", **over: Any) -> TurnBudget:
    fields: dict[str, Any] = {"run": "run1", "installation": 7, "run_usd": 10.0, "day_usd": 100.0}
    return TurnBudget(api, **(fields | over))


@asynccontextmanager
async def program(turn: OpenTurn) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session of a program inside."""
    with short(turn.folder) as near:
        async with aiohttp.ClientSession(
            "http://inside", connector=aiohttp.UnixConnector(f"{near}/{SOCKET}")
        ) as session:
            yield session


async def ask(session: aiohttp.ClientSession, api: str, **over: Any) -> tuple[int, str]:
    """Ask an API; return the status and the text of what came back."""
    async with session.post(DOORS[api], json=BODIES[api] | over) as reply:
        return reply.status, await reply.text()


async def raw(turn: OpenTurn, request: bytes) -> bytes:
    """Return what comes back on a connection of its own."""
    with short(turn.folder) as near:
        reader, writer = await asyncio.open_unix_connection(f"{near}/{SOCKET}")
    writer.write(request)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    finally:
        writer.close()


def message(answer: bytes | str) -> str:
    """Return the words of an error in either API's shape."""
    text = answer if isinstance(answer, str) else answer.partition(b"\r\n\r\n")[2].decode()
    return str(json.loads(text)["error"]["message"])


# ---- What passes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
async def test_a_call_passes_with_the_real_key_and_is_counted(
    gateway: Gateway, models: ModelServer, store: Store, api: str
) -> None:
    model = models.openai if api == "responses" else models.anthropic
    model.plays([says("hello").costing(USED)])
    async with gateway.turn(budget(api)) as turn, program(turn) as session:
        assert list(turn.folder.iterdir()) == [turn.folder / SOCKET]
        status, text = await ask(session, api)
    assert status == 200
    assert "hello" in text
    assert model.keys == {KEYS[api]}
    assert model.requests[0].path == DOORS[api]
    assert model.requests[0].body == BODIES[api]
    used = turn.spent.used
    assert (used.model, used.tokens, used.unpriced) == (BODIES[api]["model"], Tokens(1000, 400, 50), False)
    assert used.usd == pytest.approx(0.0047 if api == "responses" else 0.00178)
    assert (turn.spent.calls, turn.spent.refused, turn.stopped) == (1, 0, None)
    kept = await store.spending.of_run("run1")
    assert kept.calls == 1
    assert kept.usd == pytest.approx(used.usd)
    assert await store.spending.of_day(7, datetime.now(UTC).date()) == kept
    assert not models.strays


def test_each_api_has_two_endpoints_and_a_path_is_asked_for_by_post_alone() -> None:
    paths = {name: [each.path for each in api.endpoints] for name, api in APIS.items()}
    assert paths == {
        "responses": ["/v1/responses", "/v1/responses/compact"],
        "messages": ["/v1/messages", "/v1/messages/count_tokens"],
    }


async def test_the_other_endpoint_of_each_api_leads_there(gateway: Gateway, models: ModelServer) -> None:
    """The scripted server knows neither of them, and says where it was asked."""
    for api, path in (("responses", "/v1/responses/compact"), ("messages", "/v1/messages/count_tokens?beta=true")):
        async with (
            gateway.turn(budget(api)) as turn,
            program(turn) as session,
            session.post(path, json=BODIES[api]) as reply,
        ):
            assert reply.status == 404
        assert models.strays.pop().path == path
        assert turn.spent.calls == 1


FORBIDDEN = [
    "GET {path}",
    "HEAD {path}",
    "PUT {path}",
    "DELETE {path}",
    "OPTIONS *",
    "PATCH {path}",
    "post {path}",
    "CONNECT api.example:443",
    "CONNECT {path}",
    "POST http://api.example{path}",
    "POST //api.example{path}",
    "POST {path}/",
    "POST /{path}",
    "POST {path}/..",
    "POST /v1/./x/..{path}",
    "POST /x/..{path}",
    "POST /v1%2Fresponses",
    "POST /v1%2Fmessages",
    "POST {path}%20",
    "POST {path}%00",
    "POST {path}#x",
    "POST {path};x",
    "POST {path}?",
    "POST {path}?x=1",
    "POST {path}?beta=true&x=1",
    "POST {path}?beta=false",
    "POST {path}?beta=true?",
    "POST /V1/responses",
    "POST /",
    "POST *",
    "POST /v1/files",
    "POST /v1/models",
    "POST /v1/chat/completions",
    "POST /v1/messages/batches",
    "POST /v1/responses/resp_1/cancel",
    "POST /v1/responses/input_tokens",
    "POST /v1/complete",
    "POST /api/hello",
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("line", FORBIDDEN)
async def test_anything_else_is_refused_and_goes_nowhere(
    gateway: Gateway, models: ModelServer, api: str, line: str
) -> None:
    body = json.dumps(BODIES[api]).encode()
    head = f"{line.format(path=APIS[api].endpoints[0].path)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    async with gateway.turn(budget(api)) as turn:
        answer = await raw(turn, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status = int(answer.split()[1])
    # What is no HTTP at all does not come so far as to be counted.
    assert (status, turn.spent.refused) in {(403, 1), (400, 0)}
    if status == 403 and not line.startswith("HEAD"):
        assert "let through" in message(answer)
    assert turn.spent.calls == 0
    assert not models.strays
    assert not models.openai.requests + models.anthropic.requests


@pytest.mark.parametrize("api", APIS)
async def test_the_other_agents_api_is_refused(gateway: Gateway, models: ModelServer, api: str) -> None:
    (other,) = APIS.keys() - {api}
    async with gateway.turn(budget(api)) as turn, program(turn) as session:
        assert (await ask(session, other))[0] == 403
    assert not models.openai.requests + models.anthropic.requests


@pytest.mark.parametrize("api", APIS)
async def test_no_other_protocol_is_spoken(gateway: Gateway, models: ModelServer, api: str) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZQ=="}
    async with gateway.turn(budget(api)) as turn, program(turn) as session:
        for method in ("GET", "POST"):
            async with session.request(method, DOORS[api], headers=upgrade, json=BODIES[api]) as reply:
                assert reply.status == 403
                assert "own model API" in message(await reply.text())
        for packing in ("gzip", "zstd", "identity, gzip"):
            async with session.post(DOORS[api], data=b"{}", headers={"Content-Encoding": packing}) as reply:
                assert reply.status == 415
    assert turn.spent.refused == 5
    assert not models.openai.requests + models.anthropic.requests


async def test_a_request_that_reaches_further_is_refused(gateway: Gateway, models: ModelServer) -> None:
    """What `worker.reach` says of a body is heard here; its own tests hold what it says."""
    tool = {"type": "mcp", "server_url": "https://evil.example", "server_label": "x"}
    large = {"input": "x" * 300_000}  # read beside the loop
    async with gateway.turn(budget()) as turn, program(turn) as session:
        for over in ({"tools": [tool]}, {"tools": [tool], **large}):
            status, text = await ask(session, "responses", **over)
            assert status == 403
            assert message(text) == "the request offers a tool of the type mcp, which is not let through"
        async with session.post(DOORS["responses"], data=b"{not json") as reply:
            assert reply.status == 403
    assert turn.spent.refused == 3
    assert not models.openai.requests


async def test_it_keeps_why_the_last_request_was_refused(gateway: Gateway, models: ModelServer) -> None:
    models.openai.plays([says("hello")])
    async with gateway.turn(budget(calls=1)) as turn, program(turn) as session:
        assert turn.refused == ""
        await ask(session, "responses", background=True)
        assert turn.refused == "the request sets background, which is not let through"
        await ask(session, "responses")
        assert turn.refused == "", "this one was let through"
        assert (await ask(session, "responses"))[0] == 429
        assert (turn.stopped is not None, turn.refused) == (True, ""), "a ceiling is told as one"


async def test_a_header_that_is_not_fit_is_refused(gateway: Gateway, models: ModelServer) -> None:
    async with (
        gateway.turn(budget("messages")) as turn,
        program(turn) as session,
        session.post(DOORS["messages"], json={}, headers={"anthropic-beta": "x" * 5000}) as reply,
    ):
        assert reply.status == 403
    assert not models.anthropic.requests


# ---- Limits ---------------------------------------------------------------------------------------------------------


async def test_too_large_a_request_is_refused(
    gateway: Gateway, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.REQUEST_BYTES == 32 * 1024 * 1024
    monkeypatch.setattr(module, "REQUEST_BYTES", 100_000)
    models.openai.plays([says("hello")])

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 10_000

    async with gateway.turn(budget()) as turn, program(turn) as session:
        for data in (b" " * 100_001, pieces()):
            async with session.post(DOORS["responses"], data=data) as reply:
                assert reply.status == 413
        body = json.dumps(BODIES["responses"]).encode()
        async with session.post(DOORS["responses"], data=body + b" " * (100_000 - len(body))) as reply:
            assert reply.status == 200
    assert len(models.openai.requests) == 1


async def test_a_request_that_breaks_off_is_not_forwarded(gateway: Gateway, models: ModelServer) -> None:
    async with gateway.turn(budget()) as turn:
        with short(turn.folder) as near:
            _, writer = await asyncio.open_unix_connection(f"{near}/{SOCKET}")
        writer.write(b'POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"model"')
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.05)
    assert turn.spent.calls == 0
    assert not models.openai.requests


async def test_a_turn_has_few_calls_under_way_and_the_others_wait(gateway: Gateway, models: ModelServer) -> None:
    assert module.CALLS_AT_ONCE == 4
    under_way, most = 0, 0

    async def slowly(_request: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        return says("hello")

    models.openai.plays(slowly)
    async with gateway.turn(budget()) as turn, program(turn) as session:
        answers = await asyncio.gather(*(ask(session, "responses") for _ in range(12)))
    assert [status for status, _ in answers] == [200] * 12
    assert most == 4
    assert turn.spent.calls == 12


async def test_a_turn_has_few_connections_and_more_are_closed(gateway: Gateway, models: ModelServer) -> None:
    models.openai.plays([says("hello")])
    async with gateway.turn(budget()) as turn:
        with short(turn.folder) as near:
            held = [await asyncio.open_unix_connection(f"{near}/{SOCKET}") for _ in range(module.CONNECTIONS + 10)]
        await asyncio.sleep(0.1)
        closed = [reader.at_eof() for reader, _ in held]
        assert closed == [False] * module.CONNECTIONS + [True] * 10
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.05)
        async with program(turn) as session:
            assert (await ask(session, "responses"))[0] == 200


async def test_who_goes_on_asking_for_what_is_refused_waits_and_is_not_logged(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSALS_AT_ONCE", 3)
    monkeypatch.setattr(module, "REFUSAL_SECONDS", 0.2)
    times = []
    with caplog.at_level(logging.INFO):
        async with gateway.turn(budget()) as turn, program(turn) as session:
            for _ in range(5):
                began = time.monotonic()
                async with session.get("/v1/files") as reply:
                    assert reply.status == 403
                times.append(time.monotonic() - began)
    assert max(times[:3]) < 0.2 <= min(times[3:])
    assert turn.spent.refused == 5
    assert sum("gateway refusal" in str(record.msg) for record in caplog.records) == 3


# ---- Ceilings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api", "status"), [("responses", 400), ("messages", 402)])
async def test_at_a_ceiling_the_model_is_not_asked_any_more(
    gateway: Gateway, models: ModelServer, api: str, status: int
) -> None:
    model = models.openai if api == "responses" else models.anthropic
    model.plays([says("hello").costing(USED)], again=True)
    async with gateway.turn(budget(api, run_usd=0.001)) as turn, program(turn) as session:
        assert (await ask(session, api))[0] == 200
        for _ in range(3):
            answered, text = await ask(session, api)
            assert answered == status
            assert message(text).startswith("ceiling reached: this run may spend $0.00")
    assert len(model.requests) == 1
    assert turn.stopped is not None
    assert (turn.stopped.ceiling, turn.stopped.amount) == ("money", 0.001)
    assert turn.stopped.reached == pytest.approx(turn.spent.used.usd)
    assert turn.spent.refused == 0


async def test_where_nothing_may_be_spent_nothing_is_asked(gateway: Gateway, models: ModelServer) -> None:
    for over, ceiling in (({"run_usd": 0.0}, "money"), ({"day_usd": 0.0}, "day"), ({"calls": 0}, "calls")):
        async with gateway.turn(budget(**over)) as turn, program(turn) as session:
            status, text = await ask(session, "responses")
        assert status == (429 if ceiling == "calls" else 400)
        assert "ceiling reached" in message(text)
        assert turn.stopped is not None
        assert turn.stopped.ceiling == ceiling
    assert not models.openai.requests


async def test_a_call_beyond_those_that_a_turn_may_make_is_refused(gateway: Gateway, models: ModelServer) -> None:
    """threats.md, input 121: 429, and the run ends with `budget`."""
    models.openai.plays([says("x")], again=True)
    async with gateway.turn(budget(calls=5)) as turn, program(turn) as session:
        answers = [(await ask(session, "responses"))[0] for _ in range(8)]
    assert answers == [200] * 5 + [429] * 3
    assert turn.stopped == Stopped("calls", 5, 5)
    assert len(models.openai.requests) == 5


async def test_an_answer_of_the_model_apis_own_is_no_ceiling(gateway: Gateway, models: ModelServer) -> None:
    models.openai.plays([faults.rate_limited(), faults.unavailable(), says("hello")])
    async with gateway.turn(budget()) as turn, program(turn) as session:
        answers = [(await ask(session, "responses"))[0] for _ in range(3)]
    assert answers == [429, 503, 200]
    assert turn.stopped is None
    assert turn.spent.calls == 3


# ---- The socket -----------------------------------------------------------------------------------------------------


async def test_a_turns_socket_belongs_to_the_sandboxs_user_alone(gateway: Gateway, models: ModelServer) -> None:
    user = 12345 if os.geteuid() == 0 else os.geteuid()
    async with gateway.turn(budget(user=user)) as turn:
        folder, made = turn.folder.stat(), (turn.folder / SOCKET).stat()
        assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o700, user)
        assert (stat.S_IMODE(made.st_mode), made.st_uid, stat.S_ISSOCK(made.st_mode)) == (0o600, user, True)
        assert stat.S_IMODE(turn.folder.parent.stat().st_mode) == 0o711
    async with gateway.turn(budget()) as turn:
        assert (turn.folder / SOCKET).stat().st_uid == os.geteuid()


if is_root():  # who alone can ask as somebody else

    async def test_no_other_user_of_the_machine_can_open_it(ways: Any, store: Store) -> None:
        connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        with open_folder() as folder:
            async with (
                Gateway(ways, folder / "gateway", prices=PRICES, spending=store.spending) as made,
                made.turn(budget(user=12345)) as turn,
            ):
                argv = ("/usr/bin/env", "python3", "-c", connect, str(turn.folder / SOCKET))
                ends = [
                    await run(Program(argv, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}, user=user))
                    for user in (12345, 12346)
                ]
        assert [end.code for end in ends] == [0, 1], ends
        assert b"PermissionError" in ends[1].stderr


async def test_a_turns_socket_goes_with_the_turn(gateway: Gateway, models: ModelServer) -> None:
    models.openai.plays([says("hello").slowly(wait=60.0)])
    async with gateway.turn(budget()) as turn:
        with short(turn.folder) as near:
            idle, held = await asyncio.open_unix_connection(f"{near}/{SOCKET}")
            session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(f"{near}/{SOCKET}"))
            waiting = asyncio.ensure_future(session.post("http://x/v1/responses", json=BODIES["responses"]))
            while not models.openai.requests:
                await asyncio.sleep(0.01)
        folder, began = turn.folder, time.monotonic()
    assert time.monotonic() - began < 1
    assert not folder.exists()
    assert await asyncio.wait_for(idle.read(), 1) == b""
    held.close()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    await session.close()
    await asyncio.sleep(0.05)
    assert models.openai.requests[0].left  # the call was ended at the model API too
    assert turn.spent.calls == 1
    assert turn.spent.used.tokens.input > 0, "what was asked counts"


async def test_a_failed_turn_leaves_nothing(gateway: Gateway, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        async with gateway.turn(budget()):
            raise RuntimeError
    assert list((tmp_path / "gateway").iterdir()) == []


async def test_turns_side_by_side_have_sockets_and_counts_of_their_own(
    gateway: Gateway, models: ModelServer, store: Store
) -> None:
    models.openai.plays([says("hello").costing(USED)], again=True)
    models.anthropic.plays([says("hello").costing(USED)], again=True)
    async with (
        gateway.turn(budget()) as one,
        gateway.turn(budget("messages", run="run2", calls=1)) as two,
        program(one) as first,
        program(two) as second,
    ):
        answers = await asyncio.gather(
            *(ask(first, "responses") for _ in range(3)), *(ask(second, "messages") for _ in range(3))
        )
    assert sorted(status for status, _ in answers) == [200, 200, 200, 200, 429, 429]
    assert (one.spent.calls, two.spent.calls) == (3, 1)
    assert (one.stopped, two.stopped) == (None, Stopped("calls", 1, 1))
    assert one.folder != two.folder
    assert (await store.spending.of_run("run2")).calls == 1
    assert (await store.spending.of_day(7, datetime.now(UTC).date())).calls == 4


async def test_a_state_folder_may_have_a_long_name(ways: Any, tmp_path: Path, store: Store, models: Any) -> None:
    models.openai.plays([says("hello")])
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    async with Gateway(ways, deep, prices=PRICES, spending=store.spending) as made, made.turn(budget()) as turn:
        assert len(str(turn.folder / SOCKET)) > 200
        async with program(turn) as session:
            assert (await ask(session, "responses"))[0] == 200


async def test_what_a_killed_worker_left_is_removed_and_what_is_served_stays(
    gateway: Gateway, ways: Any, tmp_path: Path, store: Store, models: ModelServer
) -> None:
    models.openai.plays([says("hello")])
    folder = tmp_path / "gateway"
    old = time.time() - 3600
    async with gateway.turn(budget()) as turn:
        for name in ("dead", "empty", "young"):
            (folder / name).mkdir()
        bound(folder / "dead", SOCKET).close()
        for each in (folder / "dead", folder / "empty", turn.folder):
            os.utime(each, (old, old))
        async with Gateway(ways, folder, prices=PRICES, spending=store.spending):
            assert {each.name for each in folder.iterdir()} == {"young", turn.folder.name}
            async with program(turn) as session:
                assert (await ask(session, "responses"))[0] == 200


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\x00" * 100,
        b"\r\n" * 100,
        b"POST",
        b"POST /v1/responses HTTP/9.9\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/responses HTTP/1.1\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
        b"POST /v1/responses HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nx:\x00y\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda value: repr(value[:60]),
)
async def test_bytes_that_are_no_request_harm_nobody(
    gateway: Gateway, models: ModelServer, caplog: pytest.LogCaptureFixture, bytes_: bytes
) -> None:
    models.openai.plays([says("hello")])
    with caplog.at_level(logging.INFO):
        async with gateway.turn(budget()) as turn:
            with short(turn.folder) as near:
                reader, writer = await asyncio.open_unix_connection(f"{near}/{SOCKET}")
            writer.write(bytes_)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 5)
            writer.close()
            assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
            async with program(turn) as session:
                assert (await ask(session, "responses"))[0] == 200
    assert len(models.openai.requests) == 1


# ---- Keys and logs --------------------------------------------------------------------------------------------------


async def test_a_call_is_one_line_without_a_key_or_a_word_of_it(
    gateway: Gateway, models: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    models.openai.plays([says("the-answer").costing(USED), faults.unavailable()])
    own = {"Authorization": "Bearer placeholder-of-the-program"}
    with caplog.at_level(logging.DEBUG):
        async with gateway.turn(budget()) as turn, program(turn) as session:
            for _ in range(2):
                body = BODIES["responses"] | {"input": "the-question"}
                async with session.post("/v1/responses", json=body, headers=own) as reply:
                    assert OPENAI_KEY not in str(reply.headers) + await reply.text()
            async with session.post("/v1/files/the-path", json={}) as reply:
                assert reply.status == 403
    lines: list[Any] = [record.msg for record in caplog.records if record.name == "worker.gateway"]
    assert [line["event"] for line in lines] == ["gateway call", "gateway call", "gateway refusal"]
    first = lines[0]
    assert first.pop("ms") >= 0
    assert first.pop("sent") > 50
    assert first.pop("received") > 50
    assert first == {
        "event": "gateway call",
        "level": "info",
        "timestamp": first["timestamp"],
        "api": "responses",
        "path": "/v1/responses",
        "status": 200,
        "model": "gpt-5.5",
        "input": 1000,
        "cached": 400,
        "output": 50,
        "usd": 0.0047,
        "fault": "",
    }
    assert (lines[1]["status"], lines[1]["usd"]) == (503, 0)
    everything = caplog.text + str(lines)
    for secret in (OPENAI_KEY, ANTHROPIC_KEY, "placeholder-of", "the-answer", "the-question"):
        assert secret not in everything


def test_the_ways_are_those_that_the_settings_have_keys_for() -> None:
    settings = Settings(openai_api_key=SecretStr("a"), anthropic_api_key=SecretStr(""))
    assert upstreams(settings) == {"responses": Upstream(SecretStr("a"))}
    settings = Settings(anthropic_api_key=SecretStr("b"), anthropic_base_url="https://models.example/anthropic")
    assert upstreams(settings) == {"messages": Upstream(SecretStr("b"), "https://models.example/anthropic")}


# ---- The real programs ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def inside(turn: OpenTurn) -> AsyncIterator[Any]:
    """Yield what stands for the model server in a sandbox: an address whose connections end at the turn's socket."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with short(turn.folder) as near:
            far_reader, far_writer = await asyncio.open_unix_connection(f"{near}/{SOCKET}")

        async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
                target.write_eof()
            except (ConnectionError, RuntimeError):
                pass

        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
        writer.close()
        far_writer.close()

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    url = "http://{}:{}".format(*server.sockets[0].getsockname())
    yield SimpleNamespace(openai_url=f"{url}/v1", anthropic_url=url)
    server.close()


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Return a file that the programs show to their model as an image."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pixel.png").write_bytes(PIXEL)
    return tmp_path / "tree" / "pixel.png"


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
async def test_codex_talks_through_it(
    gateway: Gateway, models: ModelServer, tmp_path: Path, picture: Path, model: str
) -> None:
    """With both kinds of tools (agents.md 2.3), an image, a schema, and a second turn of the same session."""
    code = f"await tools.exec_command({{cmd: 'echo 5417'}}); image(await tools.view_image({{path: '{picture}'}}));"
    look = [calls("exec_command", cmd="echo 5417"), calls("view_image", path=str(picture))]
    models.openai.plays([*(look if model == "gpt-5.5" else [calls("exec", input=code)]), answers({"ok": True})])
    async with gateway.turn(budget()) as turn, inside(turn) as there:
        seat = Codex(tmp_path, there, model=model)
        ended = await seat("go", schema=SCHEMA)
        models.openai.plays([says("again")])
        resumed = await seat("go on", resume=ended.events[0]["thread_id"])
    assert (ended.code, resumed.code) == (0, 0)
    used = models.openai.usage
    assert turn.spent.used.tokens == Tokens(used.input, used.cached, used.output)
    told = resumed.of("turn.completed")[0]["usage"]  # it counts the whole thread (agents.md 2.1)
    assert (told["input_tokens"], told["output_tokens"]) == (used.input, used.output)
    assert (turn.spent.calls, turn.spent.refused, turn.spent.used.model) == (len(models.openai.requests), 0, model)
    assert not turn.spent.used.unpriced
    assert "data:image/png;base64," in models.openai.requests[-1].raw.decode()
    assert models.openai.keys == {OPENAI_KEY}
    assert not models.strays


async def test_claude_talks_through_it(gateway: Gateway, models: ModelServer, tmp_path: Path, picture: Path) -> None:
    """With a command, an image, a schema, and a second turn of the same session."""
    look = [calls("Bash", command="echo 5417"), calls("Read", file_path=str(picture))]
    models.anthropic.plays([*look, answers({"ok": True})])
    async with gateway.turn(budget("messages")) as turn, inside(turn) as there:
        seat = Claude(tmp_path, there)
        (first,) = (await seat("go", schema=SCHEMA)).of("result")
        models.anthropic.plays([says("again")])
        (second,) = (await seat("go on", resume=first["session_id"])).of("result")
    assert first["structured_output"] == {"ok": True}
    assert second["result"] == "again"
    used = models.anthropic.usage
    assert turn.spent.used.tokens == Tokens(used.input, used.cached, used.output)
    assert turn.spent.used.usd == pytest.approx(second["total_cost_usd"])  # of the whole session (agents.md 4.6)
    assert (turn.spent.calls, turn.spent.refused, turn.spent.used.model) == (4, 0, "claude-sonnet-5")
    assert "5417" in models.anthropic.requests[1].prompt_text()
    assert '"type":"image"' in models.anthropic.requests[-1].raw.decode()
    assert models.anthropic.keys == {ANTHROPIC_KEY}
    assert not models.strays


@pytest.mark.parametrize("over", [{"run_usd": 0.0}, {"day_usd": 0.0}, {"calls": 0}], ids=str)
@pytest.mark.parametrize("api", APIS)
async def test_a_ceiling_ends_a_real_programs_turn_after_one_request(
    gateway: Gateway, models: ModelServer, tmp_path: Path, api: str, over: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seat = Codex if api == "responses" else Claude
    with caplog.at_level(logging.INFO):
        async with gateway.turn(budget(api, **over)) as turn, inside(turn) as there:
            ended = await seat(tmp_path, there, retries=2)("go")
    assert sum("gateway refusal" in str(record.msg) for record in caplog.records) == 1
    assert turn.stopped is not None
    assert turn.stopped.ceiling == {"run_usd": "money", "day_usd": "day", "calls": "calls"}[next(iter(over))]
    if over == {"calls": 0} and api == "responses":
        assert "429" in str(ended.of("turn.failed"))
    else:
        assert "ceiling reached" in str(ended.of("turn.failed") + ended.of("result"))


@pytest.mark.parametrize("api", APIS)
async def test_a_model_api_that_is_away_is_told_in_the_programs_last_event(
    tmp_path: Path, store: Store, api: str
) -> None:
    ways = {api: Upstream(SecretStr("k"), "http://127.0.0.1:9/v1" if api == "responses" else "http://127.0.0.1:9")}
    seat = Codex if api == "responses" else Claude
    async with (
        Gateway(ways, tmp_path / "gateway", prices=PRICES, spending=store.spending) as made,
        made.turn(budget(api)) as turn,
        inside(turn) as there,
    ):
        ended = await seat(tmp_path, there)("go")
    assert "the model API could not be reached" in str(ended.of("turn.failed") + ended.of("result"))
    assert turn.spent.used.tokens == Tokens()
