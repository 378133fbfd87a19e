"""The bytes of a delivery: whether GitHub signed them, and what they say. Pure.

Owns the signature check and the strict reading of JSON (threats.md 2.A). It knows nothing of what a payload means.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

DEPTH_LIMIT = 64
"""Levels of the deepest payload. GitHub's own have less than ten."""
DIGITS_LIMIT = 32
"""Characters of the longest whole number; ids have at most 19."""

_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How half of a surrogate pair is written: nothing else in strict UTF-8 becomes one."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(Exception):  # noqa: N818 - it names what the payload is
    """The bytes are no payload that we read."""


def signed(raw: bytes | bytearray, signatures: Sequence[str], secret: str) -> bool:
    """Return whether the only signature given is GitHub's over exactly these bytes.

    SHA-256 in lower-case hexadecimal digits alone, as GitHub sends it; an empty secret signs nothing.
    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if not secret or len(signatures) != 1 or not _SIGNATURE.fullmatch(signatures[0]):
        return False
    expected = "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signatures[0].encode())


def read(raw: bytes | bytearray) -> dict[str, Any]:
    """Return a payload as GitHub meant it. Raises `Unreadable`.

    What two readers could understand in two ways is refused: repeated keys, numbers that are none, bytes that are not
    UTF-8. A half of a surrogate pair, which a cut text may hold, becomes U+FFFD: no store takes it as it is.
    """
    try:
        text = raw.decode("utf-8")
        payload = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_no_constant, parse_int=_int, parse_float=_float
        )
    except (ValueError, RecursionError):
        raise Unreadable from None
    if not isinstance(payload, dict) or _deeper(payload, DEPTH_LIMIT):
        raise Unreadable
    cleaned: dict[str, Any] = _clean(payload) if _HALF.search(text) else payload
    return cleaned


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _int(digits: str) -> int:
    if len(digits) > DIGITS_LIMIT:
        raise ValueError("a number too long")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number too large")
    return number


def _deeper(payload: dict[str, Any], levels: int) -> bool:
    """Return whether a value has more than so many levels."""
    level: list[Any] = [payload]
    while level and levels:
        levels -= 1
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, (dict, list))
        ]
    return bool(level)


def _clean(value: Any) -> Any:  # noqa: ANN401 - JSON has no type of its own
    """Return a value without lone surrogates. Raises `Unreadable` where two keys become one by it."""
    match value:
        case str():
            return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        case list():
            return [_clean(each) for each in value]
        case dict():
            found = {_clean(key): _clean(each) for key, each in value.items()}
            if len(found) != len(value):
                raise Unreadable
            return found
        case _:
            return value
