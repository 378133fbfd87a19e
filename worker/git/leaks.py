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
from operator import itemgetter
from typing import NamedTuple

from bot.redact import SHAPES, Shape

OWN = "a credential of codex-debate itself"
GIVEN = "a password, key or token"
MIN_OWN = 8
"""Characters of a secret of the worker, at least: a shorter one would be found everywhere."""
MIN_ENTROPY = 4.0
"""Bits for each character of a value that was drawn and not thought up. Hexadecimal digits never have more."""
MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}|(?=[^0-9]{0,60}[0-9])(?:[A-Za-z0-9+/]{12,39}+[\s\"'`,+\\nr]{1,20}+){3}")
"""What stands near the head of a private key that is one, in one line or in narrow ones; programs that read keys hold
the head alone."""
HEAD = 400
"""Characters of a private key in which that is looked for: its head and what PGP or OpenSSL note below it."""


class Leak(NamedTuple):
    """Where something looks like a secret."""

    line: int
    """From 1 on."""
    kind: str
    """In plain words, with its article."""


# ---- The worker's own -----------------------------------------------------------------------------------------------


def encodings(secrets: Iterable[str]) -> tuple[str, ...]:
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


def find_secrets(raw: bytes, own: tuple[str, ...] = (), *, names: bool = True) -> dict[str, Leak]:
    """Return what looks like a secret in a file, text or not, by its value.

    `own` are encodings that are sought as they stand; `names`: also values given to a name such as `password`.
    """
    text = _text(raw)
    found = [(at, value, OWN) for value in own if (at := text.find(value)) >= 0]
    for shape in SHAPES:
        found += [(at, value, shape.kind) for at, value in _shaped(text, shape)]
    if names:
        found += [(at, value, GIVEN) for at, value in _given(text)]
    leaks: dict[str, Leak] = {}
    line, last = 1, 0
    for at, value, kind in sorted(found, key=itemgetter(0)):
        line, last = line + text.count("\n", last, at), at
        leaks.setdefault(value, Leak(line, kind))
    return leaks


def present(raw: bytes, values: Iterable[str]) -> set[str]:
    """Return those of some values that stand in a file, whatever they are there."""
    text = _text(raw)
    return {value for value in values if value in text}


# The marks of UTF-16, or letters of two bytes.
_TWO_BYTES = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){8}|(?:\0[^\0]){8}")


def _text(raw: bytes) -> str:
    """Return a file byte by byte; one in UTF-16 without what its letters have no need of."""
    if _TWO_BYTES.match(raw):
        raw = raw.replace(b"\0", b"")
    return raw.decode("latin-1")


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
        elif not _invented(value) and (shape.sure or _drawn(value)):
            yield found.start(), value


# What stands for a secret in an example.
_PLACEHOLDER = re.compile(r"example|placeholder|changeme|dummy|your[_-]|xxxx+", re.IGNORECASE)
# `{"sub":"1234567890`: the sample of jwt.io begins so, and the many that were made from it.
_SAMPLE = "eyJzdWIiOiIxMjM0NTY3ODkw"
MIN_DRAWN = 20
"""Characters in a row that make a token: beside so many, a word such as `example` says nothing."""


def _invented(value: str) -> bool:
    """Tell whether what has the shape of a token stands for one only."""
    rest, placeholders = _PLACEHOLDER.subn(" ", value)
    long = any(len(word) >= MIN_DRAWN for word in re.split(r"[^A-Za-z0-9]", rest))
    return (placeholders > 0 and not long) or _SAMPLE in value


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
# What names something else than a secret: where a list goes on, what is public or has been made unreadable.
_HARMLESS = re.compile(
    r"(?:(?:page|next|continuation|cursor|sync|csrf)[_-]?token|(?:public|encrypted|sealed)[_-]?.{5})\Z", re.DOTALL
)
BEFORE = 14
"""Characters before a name in which that is looked for."""
# `https://name:password@host`, and the value of an Authorization header.
_IN_ADDRESS = re.compile(r"://[^\s/:@]{0,256}:(?P<value>[A-Za-z0-9+_=.~!%-]{20,200}+)@")
_IN_HEADER = re.compile(r"(?:bearer|basic)[ \t]{1,8}(?P<value>[A-Za-z0-9._~+/=-]{20,200}+)", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F-]+")
# What people type for a value. A token of a known shape is one even where its digits look invented.
_TYPED = re.compile(r"abcdef|12345", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_VOWELS = frozenset("aeiouyAEIOUY")


def _given(text: str) -> Iterator[tuple[int, str]]:
    lower = text.lower()  # no letter of Latin-1 becomes two
    for begins, pattern in ((_NAMES, _ASSIGNED), (("://",), _IN_ADDRESS), (("bearer", "basic"), _IN_HEADER)):
        for found in _matches(text, begins, pattern, lower):
            value = found["value"]
            before = max(0, found.start() - BEFORE)
            if _HARMLESS.search(lower, before, found.start() + len("token")) or _TYPED.search(value):
                continue
            if not _invented(value) and _drawn(value) and _entropy(value.rstrip("=")) >= MIN_ENTROPY:
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
