"""Which lines a change added, read from the diff that git wrote. It opens no file and starts nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet


@dataclass(frozen=True, slots=True)
class Change:
    """The lines that a change brought to each file, and the files whose part of the diff made no sense."""

    lines: dict[str, frozenset[int]]
    unread: tuple[str, ...]


_LINK = re.compile(rb"^(?:new file mode|new mode|index [0-9a-f.]+) 120000$", re.MULTILINE)
"""The header of a symbolic link's part: it holds a path, and nothing to be read."""


def added_lines(raw: bytes, endings: tuple[str, ...]) -> Change:
    """Return what a diff that git wrote adds to files with these endings.

    Bytes of any encoding are taken: only their line numbers count.
    """
    lines: dict[str, frozenset[int]] = {}
    unread: list[str] = []
    wanted = tuple(map(str.encode, endings))
    for part in re.split(rb"^diff --git ", raw, flags=re.MULTILINE)[1:]:
        header, at, hunks = part.partition(b"\n@@ ")
        name = re.search(rb"^\+\+\+ ([^\n]*)", header, re.MULTILINE)
        raw_path = _unquoted(name[1]) if name else b""
        if _LINK.search(header) or not at or not raw_path.startswith(b"b/") or not raw_path.endswith(wanted):
            continue
        path, added = raw_path[2:].decode("utf-8", "replace"), _added(hunks.decode("latin-1"))
        if added is None or not path.isprintable() or "\N{REPLACEMENT CHARACTER}" in path:
            unread.append(path)
        else:
            lines[path] = added
    return Change(lines, tuple(unread))


def _added(hunks: str) -> frozenset[int] | None:
    """Return the numbers of the lines that a file's hunks add, or None where they make no sense."""
    try:
        # Names of our own: those of git can hold what unidiff takes for two names.
        found = [hunk for each in PatchSet(StringIO(f"--- a/x\n+++ b/x\n@@ {hunks}")) for hunk in each]
    except (UnidiffParseError, ValueError):
        return None
    numbers = (line.target_line_no for hunk in found for line in hunk if line.is_added)
    return frozenset(number for number in numbers if number is not None) if found else None


_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


def _unquoted(name: bytes) -> bytes:
    """Return a path as git-diff names it, which quotes unusual bytes as C does (git-config, core.quotePath)."""
    name = name.removesuffix(b"\t")
    if not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    return re.sub(
        rb"\\([0-7]{3}|.)",
        lambda found: bytes([int(found[1], 8) & 255]) if len(found[1]) == 3 else _ESCAPES.get(found[1], found[1]),
        name[1:-1],
        flags=re.DOTALL,
    )
