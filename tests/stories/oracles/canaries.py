"""O1: every secret of a story is a value of its own, and stands nowhere but where it belongs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

TOKEN = re.compile(rb"ghs_[A-Za-z0-9._-]{20,}")
LOGIN = re.compile(rb"eC1hY2Nlc3MtdG9rZW46([A-Za-z0-9+/=]+)")
"""``x-access-token:`` and a token in base64: how git logs in."""
KNOWN = 28
"""The first bytes of a token, by which it is known: no two have the same."""
MIDDLE = slice(60, 90)
"""A part of a token in its long form: whoever shows a piece of it shows enough."""


class Canaries:
    """All secrets of the stories that are told: keys and secrets by name, and every token that was issued."""

    def __init__(self, *, every_token: bool = False) -> None:
        """`every_token`: whatever looks like a token is one, for who does not see them issued."""
        self._every_token = every_token
        self._fixed: dict[bytes, str] = {}
        self._tokens: set[bytes] = set()
        self._pieces: list[bytes] = []

    def add(self, name: str, value: str) -> None:
        """Watch a secret. Of a private key each of two lines is one."""
        for part in value.split("\n")[2:12:9] if "PRIVATE KEY" in value else [value]:
            if raw := part.encode():
                self._fixed[raw] = name
                self._fixed[base64.b64encode(raw)[: len(raw) // 3 * 4]] = name

    def issued(self, token: str) -> None:
        """Watch an installation token."""
        self._tokens.add(token.encode()[:KNOWN])
        self._pieces += [piece for piece in [token.encode()[MIDDLE]] if piece]

    def fresh(self) -> None:
        """Begin a story: of older tokens the beginning is looked for, and no longer a part."""
        self._pieces.clear()

    def within(self, data: bytes | str) -> list[str]:
        """Return the names of the secrets that stand in some data."""
        raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
        found = [name for value, name in self._fixed.items() if value in raw]
        known = (self._every_token or token[:KNOWN] in self._tokens for token in _tokens(raw))
        if any(known) or any(each in raw for each in self._pieces):
            found.append("an installation token")
        return list(dict.fromkeys(found))


def _tokens(raw: bytes) -> Iterator[bytes]:
    yield from TOKEN.findall(raw)
    for login in LOGIN.findall(raw):
        bare = login.rstrip(b"=")
        try:
            yield from TOKEN.findall(base64.b64decode(bare[: len(bare) // 4 * 4]))
        except binascii.Error:
            continue
