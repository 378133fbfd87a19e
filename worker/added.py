"""Which lines a change added, read from the diff that git wrote. It opens no file and starts nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from io import StringIO

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from bot.redact import visible
from worker.git.paths import shown


@dataclass(frozen=True, slots=True)
class Change:
    """The lines that a change brought to each file; of a file whose part is cut, those that are shown."""

    lines: dict[str, frozenset[int]]
    unread: dict[str, str]
    """The files of which nothing is taken, and why. Their paths are shown escaped."""


_LINK = re.compile(rb"^(?:new file mode|new mode|index [0-9a-f.]+) 120000$", re.MULTILINE)
"""The header of a symbolic link's part: it holds a path, and nothing to be read."""


def added_lines(raw: bytes, endings: tuple[str, ...]) -> Change:
    """Return what a diff that git wrote adds to files with these endings.

    Bytes of any encoding are taken: only their line numbers count.
    """
    lines: dict[str, frozenset[int]] = {}
    unread: dict[str, str] = {}
    wanted = tuple(map(str.encode, endings))
    for part in re.split(rb"^diff --git ", raw, flags=re.MULTILINE)[1:]:
        header, at, hunks = part.partition(b"\n@@ ")
        name = re.search(rb"^\+\+\+ ([^\n]*)", header, re.MULTILINE)
        raw_path = _unquoted(name[1]) if name else b""
        if not at or not raw_path.startswith(b"b/") or not raw_path.endswith(wanted):
            continue
        path = shown(raw_path[2:])
        if _LINK.search(header):
            unread[path] = LINK
        elif path.encode() != raw_path[2:] or path != visible(path):
            unread[path] = ODD_NAME
        elif (added := _added(hunks.decode("latin-1"))) is None:
            unread[path] = NONSENSE
        else:
            lines[path] = added
    return Change(lines, unread)


LINK = "a link"
ODD_NAME = "its name cannot be shown as it is"
NONSENSE = "its diff makes no sense"


def _added(hunks: str) -> frozenset[int] | None:
    """Return the numbers of the lines that a file's hunks add, or None where they make no sense."""
    try:
        # Names of our own: those of git can hold what unidiff takes for two names.
        patch = PatchSet(StringIO(f"--- a/x\n+++ b/x\n{_counted(f'@@ {hunks}')}"))
    except (UnidiffParseError, ValueError):
        return None
    found = [hunk for each in patch for hunk in each]
    numbers = (line.target_line_no for hunk in found for line in hunk if line.is_added)
    return frozenset(number for number in numbers if number is not None) if found else None


_HEADER = re.compile(r"^@@ -([0-9]+)(?:,[0-9]+)? \+([0-9]+)(?:,[0-9]+)? @@[^\n]*", re.MULTILINE)


def _counted(hunks: str) -> str:
    """Return hunks of which the last counts the lines that are there: where a diff is cut, it lacks some.

    Raises ValueError where there is no hunk.
    """
    hunks = re.split(r"^\[", hunks, maxsplit=1, flags=re.MULTILINE)[0]  # what follows is a note about the cut
    *_, last = _HEADER.finditer(hunks)
    signs = Counter(line[:1] for line in hunks[last.end() + 1 :].split("\n"))
    before, after = signs[" "] + signs["-"], signs[" "] + signs["+"]
    return f"{hunks[: last.start()]}@@ -{last[1]},{before} +{last[2]},{after} @@{hunks[last.end() :]}"


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
