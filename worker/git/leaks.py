"""Secrets in what an author wrote: by their shape, by the name they are given to, and those of the worker itself. Pure.

Owns what is taken for a secret in a file and what is not. It is a net for mistakes and for the clumsy: whoever means to
carry a secret out can spell it so that nothing here knows it, and what an agent must not have is not in its sandbox.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bot.redact import SHAPES, Shape

OWN = "a credential of codex-debate itself"
GIVEN = "a password, key or token"
MIN_OWN = 8
"""Characters of a secret of the worker, at least: a shorter one would be found everywhere."""
MIN_ENTROPY = 4.0
"""Bits for each character of a value that was drawn and not thought up. Hexadecimal digits never have more."""
MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}")
"""What stands near the head of a private key that is one; programs that read keys hold the head alone."""
HEAD = 400
"""Characters of a private key in which that is looked for: its head and what PGP or OpenSSL note below it."""


class Leak(NamedTuple):
    """Where something looks like a secret."""

    at: int
    kind: str
    """In plain words, with its article."""


# ---- The worker's own -----------------------------------------------------------------------------------------------


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return how secrets may stand in a file: as they are, or in base64, wherever in the coded text they stand."""
    found: dict[str, None] = {}
    for secret in secrets:
        raw = secret.strip().encode()
        if len(raw) < MIN_OWN:
            continue
        found[raw.decode("latin-1")] = None
        for before in range(3):
            # Of a coded text, the characters at both ends also depend on what stands beside it.
            coded = base64.b64encode(bytes(before) + raw).decode()
            inner = coded[(0, 2, 3)[before] : len(coded) if (before + len(raw)) % 3 == 0 else -4]
            found[inner] = found[inner.translate(_URL_SAFE)] = None
    return tuple(found)


_URL_SAFE = str.maketrans("+/", "-_")

# ---- Looking --------------------------------------------------------------------------------------------------------


def look(raw: bytes, own: tuple[str, ...] = (), *, names: bool = True) -> dict[str, Leak]:
    """Return what looks like a secret in a file, text or not, by its value.

    `own` are spellings that are sought as they stand; `names`: also values given to a name such as `password`.
    """
    text = raw.decode("latin-1")
    found: dict[str, Leak] = {}
    for value in own:
        if (at := text.find(value)) >= 0:
            found[value] = Leak(at, OWN)
    for shape in SHAPES:
        for at, value in _shaped(text, shape):
            found.setdefault(value, Leak(at, shape.kind))
    if names:
        for at, value in _given(text, raw.lower().decode("latin-1")):
            found.setdefault(value, Leak(at, GIVEN))
    return found


def stand(raw: bytes, values: Iterable[str]) -> set[str]:
    """Return those of some values that stand in a file, whatever they are there."""
    text = raw.decode("latin-1")
    return {value for value in values if value in text}


def _matches(text: str, begins: Iterable[str], pattern: re.Pattern[str], where: str) -> Iterator[re.Match[str]]:
    """Return where a pattern matches that begins so: finding a word is fast, and a pattern is tried only there."""
    for begin in begins:
        at = where.find(begin)
        while at >= 0:
            found = pattern.match(text, at)
            if found:
                yield found
            at = where.find(begin, found.end() if found else at + len(begin))


def _shaped(text: str, shape: Shape) -> Iterator[tuple[int, str]]:
    for found in _matches(text, shape.begins, shape.pattern, text):
        value = found[0]
        if value.startswith("-----BEGIN"):
            material = MATERIAL.search(value[:HEAD])
            if material:
                yield found.start(), material[0]
        elif not _PLACEHOLDER.search(value) and (shape.sure or _drawn(value)):
            yield found.start(), value


# ---- Values given to a name -----------------------------------------------------------------------------------------

_NAMES = (
    *("secret", "token", "passwd", "password"),
    *(f"{first}{between}key" for first in ("api", "private") for between in ("", "_", "-")),
)
# A name that ends in one of those words, or goes on after it; perhaps a type; a sign of giving; and a value that ends
# where its quotation marks do, or at a blank or a bracket. What goes on with a dot, a colon or a bracket is code.
_ASSIGNED = re.compile(
    r"[A-Za-z0-9_-]{4,60}+[\"'\]\\]{0,4}+"
    r"(?:[ \t]{0,8}+:[ \t]{0,8}+[&*]?[A-Za-z_][A-Za-z0-9_.\[\]| ]{0,40}(?==))?"
    r"[ \t]{0,40}+(?:=>|:=|=|:|>|\()[ \t]{0,40}+"
    r"(?:[A-Za-z]{0,2}\\{0,2}(?P<quote>[\"'`]))?"
    r"(?P<value>[A-Za-z0-9+/_-]{20,200}+={0,2}+)"
    r"(?(quote)\\{0,2}(?P=quote)|(?=[\s,;)}\]<&#\"'\\]|\Z))"
)
_HEX = re.compile(r"[0-9a-fA-F-]+")
# What stands for a secret in an example.
_PLACEHOLDER = re.compile(r"example|placeholder|changeme|dummy|your[_-]|xxxx", re.IGNORECASE)
# What people type for a value. A token of a known shape is one even where its digits look invented.
_TYPED = re.compile(r"abcdef|12345", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_VOWELS = frozenset("aeiouyAEIOUY")


def _given(text: str, lower: str) -> Iterator[tuple[int, str]]:
    for found in _matches(text, _NAMES, _ASSIGNED, lower):
        value = found["value"]
        invented = _PLACEHOLDER.search(value) or _TYPED.search(value)
        if not invented and _drawn(value) and _entropy(value.rstrip("=")) >= MIN_ENTROPY:
            yield found.start("value"), value


def _drawn(value: str) -> bool:
    """Tell whether a value seems to be drawn by chance: no number or hash, no path, and not made of words."""
    if value.startswith("/") or _HEX.fullmatch(value):
        return False
    if not any(char.isdigit() for char in value) or not any(char.isalpha() for char in value):
        return False
    words = (word for word in _WORDS.findall(value) if sum(char in _VOWELS for char in word) * 4 >= len(word))
    return sum(map(len, words)) * 2 < len(value)


def _entropy(value: str) -> float:
    """Return the bits for each character, by how often each occurs."""
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)
