"""Asks ruff about files, and makes its edits: the one place that knows how ruff is called and what it answers.

It owns our choice of rules, the shape of ruff's diagnostics and the arithmetic of its edits. Ruff runs nothing of what
it reads and is configured by nothing of it. This module decides nothing about findings, seats or debates.
"""

from __future__ import annotations

import json
import os
import re
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath

import ruff  # type: ignore[import-untyped] # the wheel brings no types
from pydantic import BaseModel, ConfigDict, TypeAdapter

from worker.debate.findings import Severity
from worker.debate.flow import TurnFailed
from worker.process import Finished, Program

SELECT = (
    "E401,E7,E9,F,B,PLE,PIE,C400,C401,C402,C403,C404,C405,C406,C409,C410,C411,C413,C414,C415,C416,C417,"
    "RET501,RET502,RET505,RET506,RET507,RET508,RUF100,SIM101,SIM103,SIM107,SIM115,SIM118,SIM201,SIM202,SIM208,"
    "SIM210,SIM211,SIM220,SIM221,SIM222,SIM223,SIM910,UP004,UP006,UP007,UP008,UP034,UP039,UP045"
)
"""Rules about faults, and about code that says in many words what a few would (docs.astral.sh/ruff/rules, 0.17)."""
IGNORE = "E701,E702,E731,E741,B008,B905"
"""Of those: what a formatter or a taste decides, and B008, which faults the usual way of some frameworks."""
TARGET = "py310"
"""The oldest Python that still gets fixes: no edit may need a newer one."""
NEWER_SYNTAX = re.compile(r"\(syntax was added in Python 3\.\d+\)$")
"""How ruff ends a complaint that is about TARGET and not about the code."""
SYNTAX = "invalid-syntax"
"""Ruff's name for what does not parse."""
UNREAD = "unread"
"""Our own name for a file of which ruff says nothing: it crashes on it, or says more than a program may."""
BLOCKING = frozenset({SYNTAX, "F502", "F503", "F506", "F621", "F622", "F702", "F706", "F821", "F822", "F823"})
"""Rules whose hits fail when the line runs, if not before."""
TIDY = frozenset({"F401", "F541", "F811", "F841"})
"""F-rules about what is superfluous and hurts nobody at run time."""
FILES_AT_ONCE = 400
"""Files in one call: a path has at most 4,096 bytes, and a command line holds 2 MiB (execve(2), ARG_MAX)."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Place(_Answer):
    """A place in a file: a line and a character of it, both from 1."""

    row: int
    column: int


class Edit(_Answer):
    """One replacement of text."""

    content: str
    location: Place
    end_location: Place
    """The first character that stays."""


class Fix(_Answer):
    """Edits that belong together."""

    applicability: str
    """``safe``, ``unsafe`` or ``display``."""
    message: str | None
    edits: tuple[Edit, ...]


class Hit(_Answer):
    """One diagnostic of ``ruff check --output-format json`` (docs.astral.sh/ruff, 0.17)."""

    code: str | None
    message: str
    filename: str
    location: Place | None
    fix: Fix | None

    @property
    def rule(self) -> str:
        """The rule's code, or SYNTAX."""
        return self.code or SYNTAX

    @property
    def row(self) -> int:
        """The line, from 1."""
        return self.location.row if self.location else 1

    @property
    def words(self) -> str:
        """The message in one line, without a full stop."""
        return " ".join(self.message.split()).rstrip(".")

    @property
    def severity(self) -> Severity:
        """How much hits of this rule matter."""
        if self.rule in BLOCKING or self.rule.startswith("E9"):
            return Severity.BLOCKING
        if self.rule in TIDY or self.rule.startswith("E"):
            return Severity.MINOR
        return Severity.MAJOR if self.rule.startswith(("F", "B", "PLE")) or self.rule == UNREAD else Severity.NIT

    @property
    def safe(self) -> Fix | None:
        """The fix, where ruff says that it keeps the code's meaning."""
        return self.fix if self.fix is not None and self.fix.applicability == "safe" else None


_hits = TypeAdapter(tuple[Hit, ...])


class Ruff:
    """Ruff over the files of one tree."""

    def __init__(self, tree: Path, run: Callable[[Program], Awaitable[Finished]], *, seconds: float) -> None:
        self.tree = tree.resolve()
        self.unread: set[str] = set()
        """Files of which ruff could say nothing. The call that found it out returned a hit of each, of rule UNREAD."""
        self._run, self._seconds = run, seconds

    async def check(self, paths: Sequence[str]) -> dict[str, list[Hit]]:
        """Return the hits in those of `paths` that are regular files of the tree, by path and in the file's order.

        Raises `TurnFailed`: ``environment`` where ruff cannot be started, ``timeout`` where it does not end.
        """
        found: dict[str, list[Hit]] = {}
        wanted = [path for path in paths if path not in self.unread and is_regular(self.tree, path)]
        for first in range(0, len(wanted), FILES_AT_ONCE):
            for hit in await self._batch(wanted[first : first + FILES_AT_ONCE]):
                if not (hit.rule == SYNTAX and NEWER_SYNTAX.search(hit.message)):
                    found.setdefault(self.path_of(hit), []).append(hit)
        return {path: sorted(hits, key=lambda hit: hit.row) for path, hits in found.items()}

    async def reasons(self) -> dict[str, str]:
        """Return why the hits of each rule are bad: the first paragraph of ruff's own explanation."""
        rules = json.loads(await self._ruff("rule", "--all", "--output-format", "json") or "[]")
        why = re.compile(r"^## Why is this bad\?\n+(.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
        found = {rule["code"]: why.search(rule.get("explanation") or "") for rule in rules}
        return {code: " ".join(match[1].split()) for code, match in found.items() if match}

    def path_of(self, hit: Hit) -> str:
        """Return the path of a hit's file in the tree."""
        return os.path.relpath(hit.filename, self.tree)

    async def _batch(self, paths: list[str]) -> tuple[Hit, ...]:
        """Check files together; where that fails, in halves, so that one bad file takes no other with it."""
        arguments = ("--select", SELECT, "--ignore", IGNORE, "--target-version", TARGET, "--output-format", "json")
        # `./` keeps a file named `@list.py` from being read as a list of arguments.
        files = (f"./{path}" for path in paths)
        output = await self._ruff("check", "--isolated", "--no-cache", "--exit-zero", *arguments, "--", *files)
        if output is not None:
            return _hits.validate_json(output)
        if len(paths) == 1:
            self.unread.update(paths)
            return (_unread(self.tree / paths[0]),)
        middle = len(paths) // 2
        return (*await self._batch(paths[:middle]), *await self._batch(paths[middle:]))

    async def _ruff(self, *arguments: str) -> bytes | None:
        """Return what ruff printed, or None where it failed or printed more than a program may."""
        try:
            argv = (ruff.find_ruff_bin(), *arguments)
            finished = await self._run(Program(argv, cwd=self.tree, env={"NO_COLOR": "1"}, seconds=self._seconds))
        except OSError as error:  # also FileNotFoundError, where the wheel's program is gone
            sentence = "lint needs the program ruff, which cannot be started here; install codex-debate again"
            raise TurnFailed("environment", sentence, log=str(error)) from error
        if finished.timed_out:
            raise TurnFailed("timeout", f"ruff did not end within {self._seconds:.0f} seconds")
        return finished.stdout if finished.code == 0 else None


def _unread(place: Path) -> Hit:
    message = "Ruff cannot check this file: it fails, or finds too much"
    return Hit(code=UNREAD, message=message, filename=os.fspath(place), location=None, fix=None)


def is_regular(tree: Path, path: str) -> bool:
    """Return whether a path is a regular file within the tree that is reached through no symlink."""
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or parts[0] == "/":
        return False
    place = tree
    try:
        for part in parts[:-1]:
            place /= part
            if not stat.S_ISDIR(place.lstat().st_mode):
                return False
        return stat.S_ISREG((place / parts[-1]).lstat().st_mode)
    except (OSError, ValueError):  # ValueError: a NUL in it
        return False


# ---- Edits ----------------------------------------------------------------------------------------------------------


def plain_text(raw: bytes) -> str:
    """Return a file's text. Raises ValueError, with the reason in words, where an edit might not be exact."""
    if b"\r" in raw:
        raise ValueError("its lines do not end in plain newlines")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark")
    return text


@dataclass(frozen=True, slots=True)
class Span:
    """An edit in characters of the whole text: `start` is replaced, `end` is the first that stays."""

    start: int
    end: int
    content: str


def line_starts(text: str) -> list[int]:
    """Return where the lines of a text with plain newlines begin, and where one more would."""
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def spans(starts: Sequence[int], fix: Fix) -> frozenset[Span]:
    """Return where a fix edits a text whose lines begin at `starts`. Raises ValueError where it points beside it."""

    def offset(place: Place) -> int:
        if not 1 <= place.row < len(starts) or not 1 <= place.column <= starts[place.row] - starts[place.row - 1]:
            raise ValueError("an edit points beside its file")
        return starts[place.row - 1] + place.column - 1

    return frozenset(Span(offset(edit.location), offset(edit.end_location), edit.content) for edit in fix.edits)


def by_start(span: Span) -> int:
    """Return where an edit begins: the order of edits."""
    return span.start


def clash(one: Iterable[Span], other: Sequence[Span]) -> bool:
    """Return whether edits touch the same characters as others or as each other, or begin at the same place.

    `other`: edits in their order, of which none clashes with another: only the neighbours of each place can matter.
    """
    mine = sorted(one, key=by_start)
    if any(b.start == a.start or b.start < a.end for a, b in pairwise(mine)):
        return True
    for span in mine:
        at = bisect_left(other, span.start, key=by_start)
        if at and span.start < other[at - 1].end:
            return True
        if at < len(other) and (span.start == other[at].start or other[at].start < span.end):
            return True
    return False


def edited(text: str, edits: Iterable[Span], *, lines: frozenset[int]) -> tuple[str, frozenset[int]]:
    """Return a text after edits that do not clash, and `lines` as they are numbered then, with those edited added."""
    starts = line_starts(text)
    above = sorted(lines)
    below: list[int] = []  # each less the lines that had grown behind it when it was noted
    kept: list[str] = []
    grown, end = 0, len(text)
    for span in sorted(edits, key=by_start, reverse=True):
        first, last = bisect_right(starts, span.start), bisect_right(starts, span.end)
        more = span.content.count("\n") - (last - first)
        # An edit of whole lines ends before the first character of the next one, which it leaves as it was.
        whole = span.content.endswith("\n") if span.content else _begins_line(text, span.start)
        spared = whole and _begins_line(text, span.end)
        while above and (above[-1] > last or (spared and above[-1] == last)):
            below.append(above.pop() - grown)
        while above and above[-1] >= first:
            above.pop()
        grown += more
        below += [line - grown for line in range(last + more - spared, first - 1, -1)]
        kept += [text[span.end : end], span.content]
        end = span.start
    kept.append(text[:end])
    return "".join(reversed(kept)), frozenset({*above, *(line + grown for line in below)})


def _begins_line(text: str, offset: int) -> bool:
    return offset == 0 or text[offset - 1] == "\n"
