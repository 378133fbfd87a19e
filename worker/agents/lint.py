"""The agent `lint`: ruff in a seat. It needs no key, no network and no isolation, since it runs nothing of the change.

It owns which of ruff's hits become findings (those on lines that the change touches), how they are closed again, and
the author's part: the safe edits of open findings, byte for byte. What is open it knows from the brief's ledger alone.
"""

from __future__ import annotations

import json
import os
import re
from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from worker.added import Change, added_lines
from worker.debate.brief import mark
from worker.debate.findings import TITLE_LIMIT, Severity
from worker.debate.flow import TurnFailed
from worker.ruff import (
    SYNTAX,
    UNREAD,
    Hit,
    Ruff,
    Span,
    by_start,
    clash,
    edited,
    is_regular,
    line_starts,
    plain_text,
    spans,
)
from worker.turn import Run, TurnReply, TurnRequest

FOR_A_PERSON = "no automatic fix: for a person"
"""How the author's dispute of a finding begins that ruff cannot fix; the reviewer concedes on these words."""
ENDINGS = (".py", ".pyi")
"""Of the files that ruff is asked about."""
SYNTAX_ERROR = "Syntax error"
"""How the title of a finding begins about a file that does not parse."""
OPEN_AT_ONCE = 100
"""Findings that are open at one time. A verdict holds 200: as many again can be closed in the same one."""
NAMED = 20
"""Lines of one finding that are named; the others are counted."""
PASSES = 10
"""Passes of the author over its files: an edit that stands in another's way is made in the next pass."""


async def take_turn(request: TurnRequest, run: Run) -> TurnReply:
    """Review or answer with ruff. Raises `TurnFailed`: ``environment`` without a ruff or ledger, ``timeout``."""
    if request.schema is not None and "cruxes" in request.schema["properties"]:
        return TurnReply('{"cruxes": []}')
    ledger = _ledger(request.brief)
    change, partly = _read(request.notes)
    ledger = _placed(ledger, {*change.lines, *partly})
    linter = Ruff(request.tree, run, seconds=request.seconds)
    if request.editing:
        return TurnReply(await _answer(linter, change, findings=ledger.open))
    return TurnReply(await _review(linter, change, partly=partly, ledger=ledger))


# ---- What the brief and the diff say --------------------------------------------------------------------------------


class _Known(BaseModel):
    """A finding of the ledger, as far as it matters here. A long ledger holds fewer words of it, and its mark."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    title: str
    severity: str
    location: str
    issue: str = ""
    suggestion: str = ""
    status: str
    disposition: str | None
    said: str = ""
    mark: str = ""
    path: str = ""
    """Its file, if the change has it; set by `_placed`."""

    @property
    def key(self) -> str:
        return self.mark or mark(self.title, self.location)


class _Ledger(BaseModel):
    """The block that every brief holds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    next_id: str
    findings: tuple[_Known, ...]
    settled_without_a_fix: tuple[str, ...] = ()
    """Marks of findings that found no room."""

    @property
    def open(self) -> tuple[_Known, ...]:
        return tuple(finding for finding in self.findings if finding.status == "open")


def _ledger(brief: str) -> _Ledger:
    """Return the brief's ledger. It is the last block of its kind: what agents and strangers wrote stands before it."""
    _, fence, rest = ("\n" + brief).rpartition("\n```json ledger\n")
    try:
        return _Ledger.model_validate_json(rest.partition("\n```")[0] if fence else "")
    except ValidationError:
        _fail("the brief for lint holds no ledger that can be read")


def _placed(ledger: _Ledger, changed: set[str]) -> _Ledger:
    """Return the ledger with the path of each finding that is about a changed file."""
    paths = {_path_of(mark("", path)): path for path in changed}
    found = (each.model_copy(update={"path": paths.get(_path_of(each.key), "")}) for each in ledger.findings)
    return ledger.model_copy(update={"findings": tuple(found)})


def _path_of(key: str) -> str:
    """Return the half of a mark that is the path's."""
    return key[: len(key) // 2]


def _read(notes: Path) -> tuple[Change, set[str]]:
    """Return the lines that the change adds, and the files whose part of the diff is not whole."""
    try:
        change = added_lines((notes / "change.diff").read_bytes(), ENDINGS)
        rows = (line.split("\t") for line in (notes / "files.txt").read_text("utf-8").splitlines())
    except OSError as error:
        _fail(f"the change cannot be read ({error.strerror})")
    return change, {*change.unread, *(row[1] for row in rows if len(row) == 4 and row[3] != "read")}


# ---- Findings ------------------------------------------------------------------------------------------------------


def _title(hit: Hit) -> str:
    """Return a hit's title. Hits of one file with the same title are one finding, in this round and in later ones."""
    rule = {SYNTAX: f"{SYNTAX_ERROR}: ", UNREAD: ""}.get(hit.rule, f"{hit.rule} ")
    title = f"{rule}{hit.words}"
    if len(title) <= TITLE_LIMIT:
        return title
    cut = title[: TITLE_LIMIT - 1]
    words = cut.rpartition(" ")[0]
    if words.count("`") % 2:  # what a backtick opens must be closed again
        words = words.rpartition("`")[0].rstrip()
    return f"{words if len(words) > TITLE_LIMIT // 2 else cut}…"


def _grouped(hits: dict[str, list[Hit]], lines: dict[str, frozenset[int]]) -> dict[str, list[Hit]]:
    """Return the hits on changed lines, by the mark of their path and title."""
    groups: dict[tuple[str, str], list[Hit]] = {}
    for path, found in hits.items():
        changed = lines.get(path, frozenset())
        # What a line leaves open is often noticed on the next one, and leads to more errors that are none.
        errors = [hit for hit in found if hit.rule == SYNTAX and {hit.row, hit.row - 1} & changed]
        others = (hit for hit in found if hit.rule == UNREAD or (hit.rule != SYNTAX and hit.row in changed))
        for hit in (*errors[:1], *others):
            groups.setdefault((_title(hit), path), []).append(hit)
    return {mark(title, path): group for (title, path), group in groups.items()}


def _silent(hits: list[Hit]) -> bool:
    """Return whether ruff could not check a file in full: then a rule's silence says nothing."""
    return any(hit.rule in {SYNTAX, UNREAD} for hit in hits)


# ---- The reviewer ---------------------------------------------------------------------------------------------------


async def _review(linter: Ruff, change: Change, *, partly: set[str], ledger: _Ledger) -> str:
    """Return the verdict: open findings judged anew, and what the changed lines hold besides.

    `partly`: files that the diff does not show whole. A finding about one of them is settled when none of its lines has
    the hit any more.
    """
    doubtful = partly & {finding.path for finding in ledger.open}
    hits = await linter.check(sorted({*change.lines, *doubtful}))
    if not ledger.findings and linter.unread and linter.unread >= change.lines.keys():
        _fail("ruff could read no file of the change")
    groups = _grouped(hits, change.lines)
    there = {*groups, *(mark(_title(hit), path) for path in doubtful for hit in hits.get(path, ()))}
    dark = {path for path, found in hits.items() if _silent(found)}
    old = [_judged(finding, still=finding.key in there, dark=dark) for finding in ledger.open]
    settled = {finding.key for finding in ledger.findings if finding.status != "fixed"}
    settled.update(ledger.settled_without_a_fix)
    new = [(linter.path_of(group[0]), group) for key, group in groups.items() if key not in settled]
    ranked = sorted(new, key=lambda each: (list(Severity).index(each[1][0].severity), each[0], each[1][0].row))
    left = [finding for finding, _ in old if finding["status"] == "open"]
    room = max(0, OPEN_AT_ONCE - len(left))
    reasons = await linter.reasons() if new else {}
    number = int(re.sub(r"\D", "", ledger.next_id) or 1)
    raised = [
        _raised(f"F{number + at}", path, group=group, why=reasons.get(group[0].rule, ""))
        for at, (path, group) in enumerate(ranked[:room])
    ]
    verdict = {
        "approved": not left and not raised,
        "summary": _summary(
            change, findings=len(left) + len(raised), later=len(ranked) - len(raised), unread=linter.unread
        ),
        "findings": [*(finding for finding, _ in old), *raised],
        "response_to_rebuttal": " ".join(answer for _, answer in old if answer),
    }
    return json.dumps(verdict, ensure_ascii=False, indent=1)


def _judged(finding: _Known, *, still: bool, dark: set[str]) -> tuple[dict[str, str], str]:
    """Return an open finding with its present status, and the answer to the author's words on it."""
    disputed = finding.disposition == "disputed"
    status, answer = "open", ""
    if not still and (finding.path not in dark or finding.title.startswith(SYNTAX_ERROR)):
        status = "resolved"
    elif disputed and finding.said.startswith(FOR_A_PERSON):
        status, answer = "resolved", f"`{finding.id}` is conceded: ruff has no safe edit for it, so a person decides."
    elif disputed or finding.disposition == "disputed (gate)":
        answer = f"`{finding.id}` stays open: ruff still reports it, and cannot weigh an argument."
    told = finding.model_dump(include={"id", "title", "severity", "location", "suggestion"})
    return {**told, "issue": finding.issue or finding.title, "status": status}, answer


def _raised(finding_id: str, path: str, *, group: list[Hit], why: str) -> dict[str, str]:
    """Return a new finding: one for all hits of the same words in a file."""
    first, rows = group[0], sorted({hit.row for hit in group})
    named = [*map(str, rows[1:NAMED]), *([f"{len(rows) - NAMED} more"] if len(rows) > NAMED else [])]
    also = f" Also on line{'s' if len(rows) > 2 else ''} {_listed(named)}." if named else ""
    suggestion = f"{first.fix.message}." if first.fix and first.fix.message else ""
    if suggestion and not first.safe:
        suggestion = f"{suggestion} Ruff does not call that edit safe."
    return {
        "id": finding_id,
        "title": _title(first),
        "severity": first.severity.value,
        "location": f"{path}:{rows[0]}",
        "issue": f"{first.words}.{also} {why}".strip(),
        "suggestion": suggestion,
        "status": "open",
    }


def _summary(change: Change, *, findings: int, later: int, unread: Iterable[str]) -> str:
    """Return the verdict's summary: what was read, what was found, and what could not be read."""
    files = len(change.lines)
    if not files:
        told = "The change adds no line of Python, so ruff has nothing to say about it."
    else:
        where = f"the changed lines of {files} Python file{'s' if files > 1 else ''}"
        what = f"{findings} finding{'s are' if findings > 1 else ' is'}" if findings else "Nothing is"
        told = f"{what} open on {where}."
    if later:
        told += f" {later} more will be raised once these are settled."
    if dark := [f"'{path}'" for path in sorted({*change.unread, *unread})]:
        told += f" Not read: {_listed(dark)}."
    return told


# ---- The author -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    """What the author has done so far."""

    lines: dict[str, frozenset[int]]
    """The changed lines, as they are numbered now."""
    made: dict[str, Counter[str]] = field(default_factory=dict)
    """For each finding the edits that were made for it: ruff's word for the edit, and how often."""
    shut: dict[str, str] = field(default_factory=dict)
    """Files that ruff could edit and that were left alone, with the reason."""


@dataclass(frozen=True, slots=True)
class _Before:
    """A file as it was before a pass."""

    raw: bytes
    lines: frozenset[int]
    made: tuple[tuple[str, str], ...]


async def _answer(linter: Ruff, change: Change, *, findings: tuple[_Known, ...]) -> str:
    """Make the safe edits of open findings and return the author's message."""
    work = _Work(dict(change.lines))
    wanted = {finding.key for finding in findings}
    hits = await linter.check(sorted({finding.path for finding in findings} & change.lines.keys()))
    seen = _grouped(hits, work.lines).keys()
    for _ in range(PASSES):
        changed = {path: _edit(linter.tree, path, hits=hits[path], wanted=wanted, work=work) for path in sorted(hits)}
        before = {path: each for path, each in changed.items() if each is not None}
        if not before:
            break
        fresh = await linter.check(sorted(before))
        for path, each in before.items():
            if _silent(fresh.get(path, [])) and not _silent(hits[path]):
                _undo(linter.tree, path, before=each, work=work)
            else:
                hits[path] = fresh.get(path, [])
    left = _grouped(hits, work.lines)
    words = {
        finding.id: _disposition(finding, left.get(finding.key, []), work=work, seen=finding.key in seen)
        for finding in findings
    }
    fixed = sum(word == "fixed" for word, _ in words.values())
    intro = (
        f"Ruff's safe edits settle {fixed} of {len(words)} findings."
        if fixed
        else "Ruff has no safe edit that settles a finding."
    )
    return "\n".join([intro, "", *(f"- `{each}` **{word}**: {text}" for each, (word, text) in words.items())]) + "\n"


def _edit(tree: Path, path: str, *, hits: list[Hit], wanted: set[str], work: _Work) -> _Before | None:
    """Make the safe edits of wanted findings in one file; return what it was, or None where nothing was to be done."""
    fixes = [
        (key, hit.safe)
        for key, group in _grouped({path: hits}, work.lines).items()
        for hit in group
        if key in wanted and hit.safe is not None
    ]
    if not fixes or path in work.shut or not is_regular(tree, path):
        return None
    raw = (tree / path).read_bytes()
    try:
        text = plain_text(raw)
        starts = line_starts(text)
        chosen: list[Span] = []
        known: set[Span] = set()
        made: list[tuple[str, str]] = []
        for key, fix in fixes:
            places = spans(starts, fix)
            if places <= known or not clash(places, chosen):
                for place in places - known:
                    insort(chosen, place, key=by_start)
                known |= places
                made.append((key, fix.message or "edited as ruff proposes"))
        after, lines = edited(text, chosen, lines=work.lines[path])
    except ValueError as error:
        work.shut[path] = str(error)
        return None
    before = _Before(raw, work.lines[path], tuple(made))
    _write(tree / path, after.encode())
    work.lines[path] = lines
    for key, message in made:
        work.made.setdefault(key, Counter())[message] += 1
    return before


def _undo(tree: Path, path: str, *, before: _Before, work: _Work) -> None:
    """Put a file back that ruff could not check after its edits, and leave it alone from now on."""
    _write(tree / path, before.raw)
    work.lines[path] = before.lines
    work.shut[path] = "ruff's edit would break the file"
    for key, message in before.made:
        work.made[key][message] -= 1


def _write(place: Path, raw: bytes) -> None:
    """Write a file in place: it keeps its mode, and no symlink is followed."""
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "wb") as file:
        file.write(raw)


def _disposition(finding: _Known, left: list[Hit], *, work: _Work, seen: bool) -> tuple[str, str]:
    """Return the author's word on a finding, and what it did."""
    made = +work.made.get(finding.key, Counter())
    told = "; ".join(f"{message} ({count} times)" if count > 1 else message for message, count in made.items())
    if seen and not left:
        return "fixed", f"{told}, {_code(finding.location)}." if told else "gone with the other edits."
    reason = work.shut.get(finding.path)
    dispute = f"{FOR_A_PERSON} ({reason})." if reason else f"{FOR_A_PERSON}."
    return ("partial", f"{told}. For the rest: {dispute}") if told else ("disputed", dispute)


# ---- Words ----------------------------------------------------------------------------------------------------------


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _fail(sentence: str) -> NoReturn:
    raise TurnFailed("environment", sentence)
