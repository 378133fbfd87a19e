"""Signatures and strict JSON (threats.md 2.A)."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.payload import Unreadable, read, signed

SECRET = "s" * 32
BODY = b'{"zen": "Half measures are as bad as nothing at all."}'


def sign(body: bytes, secret: str = SECRET, algorithm: str = "sha256") -> str:
    return f"{algorithm}={hmac.new(secret.encode(), body, getattr(hashlib, algorithm)).hexdigest()}"


def test_githubs_own_example_is_accepted() -> None:
    """https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation."""
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signed(b"Hello, World!", [signature], "It's a Secret to Everybody")


@pytest.mark.parametrize(
    "signatures",
    [
        [],
        [""],
        [sign(BODY, "another secret")],
        [sign(BODY + b" ")],
        [sign(BODY, algorithm="sha1")],
        [sign(BODY).upper()],
        [sign(BODY).replace("sha256=", "SHA256=")],
        [sign(BODY) + "0"],
        [sign(BODY)[:-1]],
        [sign(BODY) + "\n"],
        [" " + sign(BODY)],
        [sign(BODY).removeprefix("sha256=")],
        ["sha256=" + "\u0660" * 64],
        ["sha256=\udcff" + "0" * 63],
        [sign(BODY), sign(BODY)],
        [sign(BODY), "sha256=" + "0" * 64],
    ],
)
def test_every_other_signature_is_refused(signatures: list[str]) -> None:
    assert not signed(BODY, signatures, SECRET)


@pytest.mark.threat("T1", 6)
def test_an_empty_secret_signs_nothing() -> None:
    assert not signed(BODY, [sign(BODY, "")], "")


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'"text"',
        b"5",
        b"null",
        b"{",
        b'{"a": 1} {"b": 2}',
        b'{"action": "created", "action": "edited"}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"\\ud800": 1, "\\udfff": 2}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"{\"a\": 'x'}",
        b'{"a": "line\nend"}',
        deep(65),
        deep(2000),
        deep(100_000),
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_payload_is_refused(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        read(raw)


def test_sixty_four_levels_are_read() -> None:
    assert read(deep(64))


def test_brackets_in_a_text_are_no_levels() -> None:
    text = "[{" * 1000
    assert read(json.dumps({"a": text}).encode()) == {"a": text}


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_kept() -> None:
    found = read(b'{"a\\ud800": ["\\udc00x", {"b": "\\ud83d\\ude00"}]}')
    assert found == {"a\ufffd": ["\ufffdx", {"b": "\U0001f600"}]}
    json.dumps(found, ensure_ascii=False).encode()


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(),
    lambda of: st.lists(of) | st.dictionaries(st.text(), of),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), plain))
def test_what_json_says_is_what_is_read(payload: dict[str, object]) -> None:
    assert read(json.dumps(payload).encode()) == payload


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(read(raw), dict)
