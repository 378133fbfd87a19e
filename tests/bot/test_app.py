"""The receiver over real sockets: every input of threats.md 2.A that this layer answers, and the store behind it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import hmac
import io
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from bot import app as app_module
from bot.app import BODY_LIMIT, create_app
from bot.listen import listen
from bot.store import StoreAway
from bot.telemetry import Metrics

SECRET = "s" * 32
USER = {"id": 7, "login": "mona", "type": "User"}
COMMENT: dict[str, Any] = {
    "action": "created",
    "installation": {"id": 3},
    "repository": {"id": 42, "full_name": "octo-org/tidebook", "owner": {"id": 5, "login": "octo-org"}},
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
    """A receiver that listens, and what is behind it."""

    port: int
    queue: Queued
    missing: list[str]
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def post(self, body: bytes | None = None, **changes: str | None) -> tuple[int, str]:
        """Post a delivery; `changes` are headers, with underscores, and None takes one away."""
        raw = json.dumps(COMMENT).encode() if body is None else body
        headers: dict[str, str | None] = {
            "Content-Type": "application/json",
            "X-Hub-Signature-256": sign(raw),
            "X-GitHub-Event": "issue_comment",
            "X-GitHub-Delivery": str(uuid.uuid4()),
        }
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        sent = {name: value for name, value in headers.items() if value is not None}
        skipped = ("Content-Type",) if "Content-Type" not in sent else ()
        async with self.session.post(
            f"{self.url}/webhook", data=io.BytesIO(raw), headers=sent, skip_auto_headers=skipped
        ) as response:
            return response.status, (await response.text()).strip()

    async def raw(self, head: str, body: bytes = b"") -> bytes:
        """Send bytes as they are and return all that comes back until the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(head.replace("\n", "\r\n").encode("latin-1") + body)
        answer = await reader.read()
        await hung_up(writer)
        return answer


async def hung_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def sign(raw: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    queue, lacking = Queued(), list[str]()

    async def missing() -> Sequence[str]:
        return lacking

    listener = await listen(create_app(SECRET, queue, missing=missing, metrics=Metrics()), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Receiver(listener.port, queue, lacking, session)
    await listener.close()


# ---- What is taken --------------------------------------------------------------------------------------------------


async def test_a_signed_delivery_is_handed_on(receiver: Receiver) -> None:
    delivery = str(uuid.uuid4())
    assert await receiver.post(X_GitHub_Delivery=delivery) == (202, "Accepted.")
    name, body = receiver.queue.jobs[delivery]
    assert name == "issue_comment"
    assert json.loads(body)["comment"]["body"] == "/codex-debate"


async def test_a_repeated_delivery_is_accepted_and_handed_on_once(receiver: Receiver) -> None:
    delivery = str(uuid.uuid4())
    await receiver.post(X_GitHub_Delivery=delivery)
    assert await receiver.post(X_GitHub_Delivery=delivery.upper()) == (202, "Accepted: a repetition.")
    assert len(receiver.queue.jobs) == 1


async def test_a_delivery_that_could_not_be_stored_is_taken_when_it_comes_again(receiver: Receiver) -> None:
    delivery = str(uuid.uuid4())
    receiver.queue.away = True
    assert (await receiver.post(X_GitHub_Delivery=delivery))[0] == 503
    receiver.queue.away = False
    assert await receiver.post(X_GitHub_Delivery=delivery) == (202, "Accepted.")


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("star", {"action": "created"}),
        ("check_suite", {"action": "requested"}),
        ("issue_comment", {**COMMENT, "action": "edited"}),
        ("issue_comment", {key: value for key, value in COMMENT.items() if key != "installation"}),
        ("issue_comment", {**COMMENT, "repository": 5}),
        ("issue_comment", {**COMMENT, "comment": {**COMMENT["comment"], "body": None}}),
        ("issue_comment", {**COMMENT, "comment": {**COMMENT["comment"], "id": True}}),
        ("issue_comment", {**COMMENT, "sender": None}),
        ("pull_request", COMMENT),
        ("issue_comment", {}),
    ],
)
async def test_what_is_no_event_of_ours_is_accepted_and_left(receiver: Receiver, event: str, payload: Any) -> None:
    assert await receiver.post(json.dumps(payload).encode(), X_GitHub_Event=event) == (202, "Accepted: nothing to do.")
    assert receiver.queue.jobs == {}


async def test_half_a_surrogate_pair_is_replaced(receiver: Receiver) -> None:
    raw = json.dumps(COMMENT).replace("/codex-debate", "\\ud800").encode()
    assert (await receiver.post(raw))[0] == 202
    assert json.loads(next(iter(receiver.queue.jobs.values()))[1])["comment"]["body"] == "\ufffd"


async def test_a_large_delivery_is_read_and_only_what_is_needed_of_it_kept(receiver: Receiver) -> None:
    raw = json.dumps({**COMMENT, "noise": "x" * (24 * 1024 * 1024)}).encode()
    assert (await receiver.post(raw))[0] == 202
    assert len(next(iter(receiver.queue.jobs.values()))[1]) < 1000


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
async def test_other_ways_to_say_json(receiver: Receiver, kind: str) -> None:
    assert (await receiver.post(Content_Type=kind))[0] == 202


# ---- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=" + "0" * 64,
        sign(json.dumps(COMMENT).encode(), "another secret"),
        sign(json.dumps(COMMENT).encode()).upper(),
        "sha1=" + hmac.new(SECRET.encode(), json.dumps(COMMENT).encode(), hashlib.sha1).hexdigest(),
    ],
)
async def test_a_wrong_signature(receiver: Receiver, signature: str | None) -> None:
    sha1 = "sha1=" + hmac.new(SECRET.encode(), json.dumps(COMMENT).encode(), hashlib.sha1).hexdigest()
    answer = await receiver.post(X_Hub_Signature_256=signature, X_Hub_Signature=sha1)
    assert answer == (401, "The signature is missing or does not match.")
    assert receiver.queue.jobs == {}


async def test_nothing_is_parsed_before_the_signature_is_checked(receiver: Receiver) -> None:
    assert (await receiver.post(b"{", X_Hub_Signature_256=None, X_GitHub_Event=None))[0] == 401


async def test_two_signatures_and_one_that_is_no_text(receiver: Receiver) -> None:
    body = json.dumps(COMMENT).encode()
    head = (
        "POST /webhook HTTP/1.1\nHost: x\nConnection: close\nContent-Type: application/json\n"
        f"X-GitHub-Event: issue_comment\nX-GitHub-Delivery: {uuid.uuid4()}\nContent-Length: {len(body)}\n"
    )
    twice = f"X-Hub-Signature-256: {sign(body)}\nX-Hub-Signature-256: sha256={'0' * 64}\n\n"
    assert b" 401 " in (await receiver.raw(head + twice, body)).splitlines()[0]
    assert b" 401 " in (await receiver.raw(head + "X-Hub-Signature-256: sha256=\xe9\n\n", body)).splitlines()[0]
    assert receiver.queue.jobs == {}


@pytest.mark.parametrize("name", [None, "", "x" * 4096, "../x", "Issue_comment", "issue comment"])
async def test_a_wrong_event_name(receiver: Receiver, name: str | None) -> None:
    status, sentence = await receiver.post(X_GitHub_Event=name)
    assert (status, "X-GitHub-Event" in sentence) == (400, True)


@pytest.mark.parametrize("delivery", [None, "", "1", "no-uuid", "{d539cd74-4e2f-4007-8b8f-f4d8ad72fb77}", "x" * 7000])
async def test_a_wrong_delivery_id(receiver: Receiver, delivery: str | None) -> None:
    status, sentence = await receiver.post(X_GitHub_Delivery=delivery)
    assert (status, "X-GitHub-Delivery" in sentence) == (400, True)
    assert receiver.queue.jobs == {}


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "application/json; charset=bogus",
        "application/jsonp",
    ],
)
async def test_a_wrong_type(receiver: Receiver, kind: str | None) -> None:
    assert await receiver.post(Content_Type=kind) == (415, "Set the App's content type to application/json.")


async def test_an_encoded_body_is_not_inflated(receiver: Receiver) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    assert await receiver.post(bomb, Content_Encoding="gzip") == (415, "An encoded body is not read.")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"5",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
    ],
)
async def test_malformed_json(receiver: Receiver, raw: bytes) -> None:
    assert await receiver.post(raw) == (400, "The body is not JSON as GitHub writes it.")


async def test_a_body_that_says_that_it_is_too_large_is_not_read(receiver: Receiver) -> None:
    head = f"POST /webhook HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: {BODY_LIMIT + 1}\n\n"
    answer = await receiver.raw(head)
    assert b" 413 " in answer.splitlines()[0]
    assert answer.endswith(b"The body is too large.\n")


async def test_an_endless_body_is_cut(receiver: Receiver) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    head = "POST /webhook HTTP/1.1\nHost: x\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n"
    writer.write(head.replace("\n", "\r\n").encode())
    part = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    sent = 0
    with contextlib.suppress(ConnectionError):
        # Without an end on the other side this would go on for ever.
        while sent < 100 * BODY_LIMIT:
            writer.write(part)
            await writer.drain()
            sent += len(part)
    await hung_up(writer)
    assert sent < 100 * BODY_LIMIT
    assert receiver.queue.jobs == {}


async def test_a_body_that_does_not_come_is_given_up(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "BODY_SECONDS", 0.05)
    head = "POST /webhook HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 100\n\n"
    answer = await receiver.raw(head, b"{")
    assert b" 400 " in answer.splitlines()[0]
    assert b"did not arrive in time" in answer


async def test_a_length_and_an_encoding_at_once_are_refused(receiver: Receiver) -> None:
    head = (
        "POST /webhook HTTP/1.1\nHost: x\nConnection: close\nContent-Type: application/json\nContent-Length: 5\n"
        "Transfer-Encoding: chunked\n\n"
    )
    assert b" 400 " in (await receiver.raw(head, b"0\r\n\r\n")).splitlines()[0]


async def test_a_broken_chunk_is_refused(receiver: Receiver) -> None:
    head = "POST /webhook HTTP/1.1\nHost: x\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n"
    assert b" 400 " in (await receiver.raw(head, b"zz\r\n{}\r\n0\r\n\r\n")).splitlines()[0]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_other_methods(receiver: Receiver, method: str) -> None:
    async with receiver.session.request(method, f"{receiver.url}/webhook") as response:
        assert response.status == 405


# ---- How the process does -------------------------------------------------------------------------------------------


async def test_health_and_what_is_missing(receiver: Receiver) -> None:
    async with receiver.session.get(f"{receiver.url}/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok\n")
    receiver.missing.append("The store does not answer.")
    async with receiver.session.get(f"{receiver.url}/healthz") as response:
        assert (response.status, await response.text()) == (503, "The store does not answer.\n")


async def test_metrics_count_deliveries_by_answer(receiver: Receiver) -> None:
    await receiver.post()
    await receiver.post(X_Hub_Signature_256=None)
    async with receiver.session.get(f"{receiver.url}/metrics") as response:
        text = await response.text()
    assert 'codex_debate_deliveries_total{status="202"} 1.0' in text
    assert 'codex_debate_deliveries_total{status="401"} 1.0' in text


async def test_a_fault_of_ours_shows_nothing(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: str) -> bool:
        raise RuntimeError("inside")

    monkeypatch.setattr(receiver.queue, "enqueue_event", broken)
    status, sentence = await receiver.post()
    assert (status, "inside" in sentence) == (500, False)


def test_a_short_secret_makes_no_receiver() -> None:
    async def missing() -> Sequence[str]:
        return ()

    for secret in ("", "s" * 31):
        with pytest.raises(ValueError, match="32 characters"):
            create_app(secret, Queued(), missing=missing, metrics=Metrics())
