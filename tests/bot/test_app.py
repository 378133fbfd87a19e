"""What the receiver takes, what it says of itself, and what it writes down. Hostile inputs: test_webhook_inputs.py."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from bot import app as module
from bot.app import create_app
from bot.telemetry import Metrics


async def get(receiver: Any, path: str) -> tuple[int, str]:
    answer = await receiver.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    found: tuple[int, str] = receiver.answer(answer)
    return found


async def test_a_signed_delivery_is_handed_on(receiver: Any) -> None:
    delivery = str(uuid.uuid4())
    assert await receiver.post(X_GitHub_Delivery=delivery) == (202, "Accepted.")
    name, body = receiver.queue.jobs[delivery]
    assert name == "issue_comment"
    assert json.loads(body)["comment"]["body"] == "/codex-debate"


async def test_only_what_is_needed_of_a_payload_is_kept(receiver: Any) -> None:
    raw = json.dumps({**json.loads(receiver.body), "noise": "x" * 100_000}).encode()
    assert await receiver.post(raw) == (202, "Accepted.")
    assert len(next(iter(receiver.queue.jobs.values()))[1]) < 1000


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
async def test_other_ways_to_say_json(receiver: Any, kind: str) -> None:
    assert await receiver.post(Content_Type=kind) == (202, "Accepted.")


@pytest.mark.parametrize("limit", [0, 10_000_000], ids=["in a thread", "at once"])
async def test_a_body_is_checked_and_read_alike_in_a_thread(
    receiver: Any, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(module, "THREAD_BYTES", limit)
    assert await receiver.post() == (202, "Accepted.")
    assert (await receiver.post(b"{"))[0] == 400
    assert (await receiver.post(X_Hub_Signature_256=None))[0] == 401


async def test_not_more_deliveries_than_that_are_at_the_store_at_once(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_THE_STORE", 3)
    at_once: list[int] = []
    present = 0

    class Counting:
        async def enqueue_event(self, delivery_id: str, event_name: str, body: str) -> bool:
            nonlocal present
            present += 1
            at_once.append(present)
            await asyncio.sleep(0.01)
            present -= 1
            return True

    async with serve(Counting()) as receiver:
        answers = await asyncio.gather(*(receiver.post() for _ in range(20)))
    assert set(answers) == {(202, "Accepted.")}
    assert max(at_once) == 3


async def test_a_fault_of_ours_shows_nothing_and_is_counted(
    receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_arguments: str) -> bool:
        raise RuntimeError("inside")

    monkeypatch.setattr(receiver.queue, "enqueue_event", broken)
    assert await receiver.post() == (500, "Something went wrong here; the operator's log has it.")
    assert "RuntimeError: inside" in caplog.text
    assert 'codex_debate_deliveries_total{status="500"} 1.0' in (await get(receiver, "/metrics"))[1]


# ---- How the process does -------------------------------------------------------------------------------------------


async def test_health_and_what_is_missing(receiver: Any) -> None:
    assert await get(receiver, "/healthz") == (200, "ok")
    receiver.missing.append("The store does not answer.")
    assert await get(receiver, "/healthz") == (503, "The store does not answer.")


async def test_metrics_count_deliveries_by_answer(receiver: Any) -> None:
    await receiver.post()
    await receiver.post(X_Hub_Signature_256=None)
    status, text = await get(receiver, "/metrics")
    assert status == 200
    assert 'codex_debate_deliveries_total{status="202"} 1.0' in text
    assert 'codex_debate_deliveries_total{status="401"} 1.0' in text


@pytest.mark.threat("T1", 6)
def test_a_short_secret_makes_no_receiver() -> None:
    async def missing() -> Sequence[str]:
        return ()

    class Nowhere:
        async def enqueue_event(self, delivery_id: str, event_name: str, body: str) -> bool:
            raise AssertionError

    for secret in ("", "s" * 31):
        with pytest.raises(ValueError, match="32 characters"):
            create_app(secret, Nowhere(), missing=missing, metrics=Metrics())


# ---- What is written down -------------------------------------------------------------------------------------------


async def test_a_delivery_is_one_line_that_holds_nothing_of_the_unsigned(
    receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await receiver.post(
        b'{"hostile": "body"}',
        X_Hub_Signature_256="hostile",
        X_GitHub_Event="hostile\xe9",
        X_GitHub_Delivery="hostile" * 1000,
        User_Agent="hostile",
    )
    await receiver.post(Content_Type="hostile/type")
    delivery = str(uuid.uuid4())
    await receiver.post(X_GitHub_Delivery=delivery)
    lines = [record for record in caplog.records if record.name == "bot.app"]
    assert len(lines) == 3
    assert "hostile" not in caplog.text
    assert delivery not in lines[1].getMessage()
    assert delivery in lines[2].getMessage()


async def test_a_request_that_cannot_be_read_is_told_in_our_own_words(
    receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for hostile in (b"hostile\r\n\r\n", b"GET / HTTP/1.1\r\nhostile\x01: 1\r\n\r\n", b"A" * 20_000 + b"\r\n\r\n"):
        assert receiver.answer(await receiver.send(hostile))[0] == 400
    assert "hostile" not in caplog.text
    assert "AAAA" not in caplog.text
    assert len([record for record in caplog.records if record.name == "bot.listen"]) == 3
