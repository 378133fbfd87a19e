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
_SURROGATE = re.compile("[\ud800-\udfff]")


class Unreadable(Exception):  # noqa: N818 - it names what the payload is
    """The bytes are no payload that we read."""


def signed(raw: bytes, signatures: Sequence[str], secret: str) -> bool:
    """Return whether the only signature given is GitHub's over exactly these bytes.

    SHA-256 in lower-case hexadecimal digits alone, as GitHub sends it; an empty secret signs nothing.
    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if not secret or len(signatures) != 1 or not _SIGNATURE.fullmatch(signatures[0]):
        return False
    expected = "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signatures[0].encode())


def read(raw: bytes) -> dict[str, Any]:
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
    if not isinstance(payload, dict):
        raise Unreadable
    cleaned: dict[str, Any] = _clean(payload, DEPTH_LIMIT)
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


def _clean(value: Any, levels: int) -> Any:  # noqa: ANN401 - JSON has no type of its own
    """Return a value without lone surrogates. Raises `Unreadable` where it is deeper than `levels`."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if not isinstance(value, (dict, list)):
        return value
    if levels == 0:
        raise Unreadable
    if isinstance(value, list):
        return [_clean(each, levels - 1) for each in value]
    return {_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", key): _clean(each, levels - 1) for key, each in value.items()}
