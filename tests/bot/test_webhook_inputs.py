"""Inputs 1 to 13, 19 to 26 and 33 of threats.md 2.A over real sockets: what a single request is answered, and when.

Slow and large ones stand in test_webhook_slow.py, those that need the store and the event worker in
test_webhook_store.py. 31 and 32 are the event handlers'.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bot import listen
from bot.body import BODY_LIMIT

ROOT = Path(__file__).parents[2]
ZEROS = "sha256=" + "0" * 64
UNSIGNED = (401, "The signature is missing or does not match.")
NO_JSON = (400, "The body is not JSON as GitHub writes it.")
NO_EVENT = (400, "The header X-GitHub-Event is missing or not an event's name.")
NO_DELIVERY = (400, "The header X-GitHub-Delivery is missing or not a UUID.")
WRONG_TYPE = (415, "Set the App's content type to application/json.")
ENCODED = (415, "An encoded body is not read; send it as it is.")
TOO_LARGE = (413, "The body is too large.")
NOTHING = (202, "Accepted: nothing to do.")
MALFORMED = (400, "The request is malformed; send it as HTTP/1.1 has it.")
OTHER_METHOD = (405, "This method is not taken here; deliveries are sent by POST.")


def changed(body: bytes, path: str, value: object) -> bytes:
    """Return a payload with one value changed, or taken away where it is ``...``."""
    payload = json.loads(body)
    *way, last = path.split(".")
    place = payload
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(payload).encode()


# ---- The signature --------------------------------------------------------------------------------------------------


SIGNATURES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "1 zeros": lambda _: {"X_Hub_Signature_256": ZEROS},
    "1 another secret": lambda it: {"X_Hub_Signature_256": it.sign(secret="t" * 32)},
    "1 another body": lambda it: {"X_Hub_Signature_256": it.sign(it.body + b" ")},
    "1 empty": lambda _: {"X_Hub_Signature_256": ""},
    "1 none": lambda _: {"X_Hub_Signature_256": None},
    "2 SHA-1 alone": lambda it: {"X_Hub_Signature_256": None, "X_Hub_Signature": it.sign(algorithm="sha1")},
    "2 SHA-1 beside a wrong one": lambda it: {
        "X_Hub_Signature_256": ZEROS,
        "X_Hub_Signature": it.sign(algorithm="sha1"),
    },
    "2 SHA-256 in the header of SHA-1": lambda it: {"X_Hub_Signature_256": None, "X_Hub_Signature": it.sign()},
    "3 SHA-1 in the header of SHA-256": lambda it: {"X_Hub_Signature_256": it.sign(algorithm="sha1")},
    "4 all upper case": lambda it: {"X_Hub_Signature_256": it.sign().upper()},
    "4 its name in upper case": lambda it: {"X_Hub_Signature_256": "SHA256=" + it.sign()[7:]},
    "4 its digits in upper case": lambda it: {"X_Hub_Signature_256": "sha256=" + it.sign()[7:].upper()},
    "4 not ASCII": lambda it: {"X_Hub_Signature_256": "sha256=\xe9" + it.sign()[8:]},
    "5 the right one first": lambda it: {"X_Hub_Signature_256": [it.sign(), ZEROS]},
    "5 the right one last": lambda it: {"X_Hub_Signature_256": [ZEROS, it.sign()]},
    "5 the right one twice": lambda it: {"X_Hub_Signature_256": [it.sign(), it.sign()]},
    "5 two in one header": lambda it: {"X_Hub_Signature_256": f"{it.sign()}, {ZEROS}"},
}
"""What stands in place of the signature of a good delivery, by the input's number."""


@pytest.mark.threat("T1", 1, 2, 3, 4, 5)
@pytest.mark.parametrize("variant", SIGNATURES)
async def test_signature_matrix(receiver: Any, variant: str) -> None:
    assert await receiver.post(**SIGNATURES[variant](receiver)) == UNSIGNED
    assert receiver.queue.jobs == {}
    assert await receiver.post() == (202, "Accepted."), "its own signature is all that it lacked"


@pytest.mark.threat("T1", 6)
@pytest.mark.parametrize("secret", ["", "s" * 31])
def test_empty_secret_refuses_start(secret: str, tmp_path: Path) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    environment = os.environ | {
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": pem,
        "GITHUB_WEBHOOK_SECRET": secret,
        "CODEX_DEBATE_STATE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-c", "from deploy.cli import main; main()", "bot"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "GITHUB_WEBHOOK_SECRET" in ended.stderr
    assert "Traceback" not in ended.stderr


# ---- Ids and types --------------------------------------------------------------------------------------------------


@pytest.mark.threat(7)
@pytest.mark.parametrize("name", [None, "", "x" * 4096, "../x", "Issue_comment", "issue comment", ["ping", "ping"]])
async def test_input_7_a_wrong_event_name(receiver: Any, name: Any) -> None:
    assert await receiver.post(X_GitHub_Event=name) == NO_EVENT


@pytest.mark.threat(8)
@pytest.mark.parametrize("delivery", [None, "", "1", "no-uuid", "{d539cd74-4e2f-4007-8b8f-f4d8ad72fb77}", "x" * 7000])
async def test_input_8_a_wrong_delivery_id(receiver: Any, delivery: str | None) -> None:
    assert await receiver.post(X_GitHub_Delivery=delivery) == NO_DELIVERY
    assert receiver.queue.jobs == {}


@pytest.mark.threat(8)
async def test_input_8_a_delivery_id_of_10_kb_is_no_request_at_all(receiver: Any) -> None:
    assert await receiver.post(X_GitHub_Delivery="x" * 10_240) == MALFORMED


@pytest.mark.threat(9)
@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "multipart/form-data; boundary=x", "application/jsonp", "application/json, text/x"]
)
async def test_input_9_a_wrong_type(receiver: Any, kind: str | None) -> None:
    assert await receiver.post(Content_Type=kind) == WRONG_TYPE


@pytest.mark.threat(9)
async def test_input_9_two_types_are_no_request_at_all(receiver: Any) -> None:
    assert await receiver.post(Content_Type=["application/json", "text/plain"]) == MALFORMED


@pytest.mark.threat(10)
@pytest.mark.parametrize("form", [b"payload=%7B%7D", b"other=1"])
async def test_input_10_a_form(receiver: Any, form: bytes) -> None:
    assert await receiver.post(form, Content_Type="application/x-www-form-urlencoded") == WRONG_TYPE


@pytest.mark.threat(11)
@pytest.mark.parametrize("charset", ["utf-16", "bogus", "latin-1", "utf-8; charset=utf-16"])
async def test_input_11_another_charset(receiver: Any, charset: str) -> None:
    assert await receiver.post(Content_Type=f"application/json; charset={charset}") == WRONG_TYPE


@pytest.mark.threat("T3", 12)
@pytest.mark.parametrize("coding", ["gzip", "identity", "br", ""])
async def test_input_12_an_encoded_body_is_not_inflated(receiver: Any, coding: str) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    assert await receiver.post(bomb, Content_Encoding=coding) == ENCODED


@pytest.mark.threat("T3", 13)
async def test_input_13_a_body_that_says_that_it_is_too_large_is_not_read(receiver: Any) -> None:
    """Nothing of the body is sent, so nothing of it can have been waited for."""
    assert receiver.answer(await receiver.send(receiver.head(Content_Length=str(BODY_LIMIT + 1)))) == TOO_LARGE


# ---- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.threat("T3", 19)
@pytest.mark.parametrize("levels", [65, 2_000, 100_000])
async def test_input_19_deep_json(receiver: Any, levels: int) -> None:
    assert await receiver.post(b'{"a":' * levels + b"1" + b"}" * levels) == NO_JSON


@pytest.mark.threat(20)
@pytest.mark.parametrize("raw", [b'{"action":"created","action":"edited"}', b'{"a":{"b":1,"\\u0062":1}}'])
async def test_input_20_a_key_twice(receiver: Any, raw: bytes) -> None:
    assert await receiver.post(raw) == NO_JSON


@pytest.mark.threat(21)
@pytest.mark.parametrize("raw", [b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', '{"a":1}'.encode("utf-16")])
async def test_input_21_no_utf_8(receiver: Any, raw: bytes) -> None:
    assert await receiver.post(raw) == NO_JSON


@pytest.mark.threat(22)
async def test_input_22_half_a_surrogate_pair_is_replaced(receiver: Any) -> None:
    raw = receiver.body.replace(b"/codex-debate", b"\\ud800")
    assert await receiver.post(raw) == (202, "Accepted.")
    assert json.loads(next(iter(receiver.queue.jobs.values()))[1])["comment"]["body"] == "\ufffd"


@pytest.mark.threat(23)
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000])
async def test_input_23_no_number(receiver: Any, number: bytes) -> None:
    assert await receiver.post(b'{"a":' + number + b"}") == NO_JSON


@pytest.mark.threat(24)
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"5", b"null"])
async def test_input_24_no_object(receiver: Any, raw: bytes) -> None:
    assert await receiver.post(raw) == NO_JSON


@pytest.mark.threat(25)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("repository", 5),
        ("comment.body", None),
        ("sender", None),
        *(("comment.id", value) for value in ("1", 1.0, True, -1, 2**63)),
        *(("repository.id", value) for value in ("1", 1.0, True, -1, 2**63)),
    ],
)
async def test_input_25_a_wrong_type_in_a_payload(receiver: Any, path: str, value: object) -> None:
    assert await receiver.post(changed(receiver.body, path, value)) == NOTHING
    assert receiver.queue.jobs == {}


@pytest.mark.threat(26)
async def test_input_26_no_installation(receiver: Any) -> None:
    assert await receiver.post(changed(receiver.body, "installation", ...)) == NOTHING
    assert receiver.queue.jobs == {}


# ---- HTTP -----------------------------------------------------------------------------------------------------------


@pytest.mark.threat(33)
@pytest.mark.parametrize("method", [b"GET", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"])
async def test_input_33_another_method(receiver: Any, method: bytes) -> None:
    head = receiver.head().replace(b"POST", method)
    assert receiver.answer(await receiver.send(head, receiver.body)) == OTHER_METHOD


@pytest.mark.threat(33)
async def test_input_33_a_length_and_an_encoding_at_once(receiver: Any) -> None:
    head = receiver.head(Transfer_Encoding="chunked")
    assert receiver.answer(await receiver.send(head, b"0\r\n\r\n")) == MALFORMED


async def test_a_broken_chunk(receiver: Any) -> None:
    head = receiver.head(Transfer_Encoding="chunked", Content_Length=None)
    assert receiver.answer(await receiver.send(head, b"zz\r\n{}\r\n0\r\n\r\n"))[0] == 400


@pytest.mark.threat("T3", 12)
async def test_input_12_an_encoding_of_the_transfer_is_not_undone(receiver: Any) -> None:
    head = receiver.head(Transfer_Encoding="gzip, chunked", Content_Length=None)
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(receiver.body), receiver.body)
    assert receiver.answer(await receiver.send(head, chunks)) == ENCODED


async def test_a_chunked_delivery_is_taken(receiver: Any) -> None:
    head = receiver.head(Transfer_Encoding="chunked", Content_Length=None)
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(receiver.body), receiver.body)
    assert receiver.answer(await receiver.send(head, chunks)) == (202, "Accepted.")


async def test_two_deliveries_one_after_the_other_without_waiting(receiver: Any) -> None:
    first = receiver.head(Connection="keep-alive")
    answers = await receiver.send(first + receiver.body + receiver.head() + receiver.body)
    assert answers.count(b"HTTP/1.1 202 Accepted\r\n") == 2
    assert len(receiver.queue.jobs) == 2


# ---- The order, and what a stranger learns --------------------------------------------------------------------------

BAD_IDS = {"X_GitHub_Event": "../x", "X_GitHub_Delivery": "no-uuid"}
FORGED = {"X_Hub_Signature_256": ZEROS, **BAD_IDS}


@pytest.mark.parametrize(
    ("body", "changes", "answer"),
    [
        (b"{", {"Content_Length": str(BODY_LIMIT + 1), "Content_Type": "text/plain", **FORGED}, TOO_LARGE),
        (b"{", {"Content_Type": "text/plain", "Content_Encoding": "gzip", **FORGED}, WRONG_TYPE),
        (b"{", {"Content_Encoding": "gzip", **FORGED}, ENCODED),
        (b"{", FORGED, UNSIGNED),
        (b"{", BAD_IDS, NO_JSON),
        (b"{}", BAD_IDS, NO_EVENT),
        (b"{}", {"X_GitHub_Delivery": "no-uuid"}, NO_DELIVERY),
        (b"{}", {}, NOTHING),
    ],
    ids=["size", "type", "encoding", "signature", "json", "event", "delivery", "nothing wrong"],
)
async def test_the_first_of_several_faults_is_answered(
    receiver: Any, body: bytes, changes: dict[str, str], answer: tuple[int, str]
) -> None:
    assert await receiver.post(body, **changes) == answer


@pytest.mark.threat("T1")
async def test_a_stranger_cannot_tell_what_stands_behind_the_signature(receiver: Any) -> None:
    """Known and unknown ids, events, payloads, and a store that is away: all the same to who cannot sign."""
    known = "d539cd74-4e2f-4007-8b8f-f4d8ad72fb77"
    assert await receiver.post(X_GitHub_Delivery=known) == (202, "Accepted.")
    receiver.queue.away = True
    variants: list[tuple[bytes, dict[str, Any]]] = [
        (receiver.body, {"X_GitHub_Delivery": known}),
        (receiver.body, {"X_GitHub_Delivery": "no-uuid"}),
        (receiver.body, {"X_GitHub_Delivery": None, "X_GitHub_Event": None}),
        (receiver.body, {"X_GitHub_Event": "../x"}),
        (b"{", {}),
        (b"", {}),
    ]
    answers = set()
    for body, changes in variants:
        raw = await receiver.send(receiver.head(body, X_Hub_Signature_256=ZEROS, **changes), body)
        answers.add(b"\n".join(line for line in raw.splitlines() if not line.startswith(b"Date: ")))
    assert len(answers) == 1


async def test_nobody_is_answered_with_more_than_a_fixed_sentence(
    receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HEADER_SECONDS", 0.5)
    odd = b"<odd>"
    requests = [
        odd + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + odd + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /webhook HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /webhook HTTP/1.1\r\nHost: x\r\n" + odd + b": 1\r\nbroken\r\n\r\n",
        b"GET /webhook HTTP/1.1\r\nHost: x\r\nX: " + odd * 2000 + b"\r\n\r\n",
        b"GET /" + odd * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /webhook HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(100)) + b"\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: " + odd + b"\r\n\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        receiver.head(Content_Type=odd.decode()) + receiver.body,
        receiver.head(X_Hub_Signature_256=odd.decode()) + receiver.body,
        receiver.head(X_GitHub_Event=odd.decode()) + receiver.body,
        receiver.head(Upgrade="websocket", Connection="Upgrade", X_Hub_Signature_256=None) + receiver.body,
    ]
    for request in requests:
        raw = await receiver.send(request)
        head = raw.partition(b"\r\n\r\n")[0].decode().lower()
        names = {line.partition(":")[0] for line in head.splitlines()[1:]}
        status, sentence = receiver.answer(raw)
        assert 400 <= status < 500, (request[:60], raw)
        assert sentence.count("\n") == 0, raw
        assert odd not in raw
        assert "\r\nserver: codex-debate" in f"{head}\r\n"
        assert names <= {"content-type", "content-length", "date", "server", "connection", "allow"}
        assert not any(word in raw.lower() for word in (b"aiohttp", b"python", b"traceback"))
    assert receiver.queue.jobs == {}
