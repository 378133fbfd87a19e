"""The check run of a debate: title, conclusion, summary, text and annotations for each state that a run can be in.

A conclusion speaks about the commit that carries it: no success stands where a fix is missing (interface.md 7). Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from bot.commands import available
from bot.intents import CheckRun
from bot.statuses import GATE, TABLE, Status
from worker.debate.findings import LedgerEntry, Record, State, ledger
from worker.outputs import patch
from worker.outputs.advice import action, holding_command, open_findings, outside
from worker.outputs.headline import title
from worker.outputs.markdown import code, fenced, holds, inline, plain
from worker.outputs.parts import (
    Page,
    cost_of,
    finding_table,
    read_files,
    round_table,
    seats,
    section,
    time_of,
    told_rounds,
    tree_notes,
    unpriced,
    unread,
    used_by,
)
from worker.outputs.report import Live, Report
from worker.outputs.terms import count, money, sentence, short, shown_id, stopped
from worker.outputs.words import (
    AUTHOR,
    REVIEWER,
    agent,
    badge_line,
    changed,
    counts,
    entries,
    join_rounds,
    rounds,
    same_agent,
    standing,
)
from worker.outputs.writer import LOCATION

LIMIT = 65_535
"""UTF-8 bytes of a summary, and of a text (github.md A3: "summary exceeds a maximum bytesize of 65535")."""
LOG_LIMIT = 4_000
"""Bytes of the failed attempts' output that are shown."""
NOT_STARTED = frozenset(
    {Status.NOTHING_TO_REVIEW, Status.MERGE_BASE_ERROR, Status.GIT_REFUSED, Status.ISOLATION_UNAVAILABLE}
)
LOUD = frozenset({"blocking", "major"})


Annotation: TypeAlias = Mapping[str, str | int]
"""A plain note at a line of *Files changed*, in GitHub's own field names (docs.github.com/en/rest/checks/runs)."""


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """What is sent of a check run. `conclusion` is None until it is completed."""

    status: Literal["in_progress", "completed"]
    conclusion: str | None
    title: str
    summary: str
    text: str
    annotations: tuple[Annotation, ...] = ()


def render_check(report: Report, gate: str = "action_required") -> CheckOutput:
    """Return the check run of a report. Summary and text have at most `LIMIT` bytes each, cut where a part ends."""
    if report.status is None:
        return CheckOutput("in_progress", None, title(report), _fitting(report), "")
    return CheckOutput(
        "completed",
        conclusion(report, gate),
        title(report),
        _fitting(report),
        _text(report),
        _annotations(report),
    )


HIDDEN = (
    "The repository became public, and the person on whose permission this debate stands cannot write here: its words "
    "are not shown. To have the commit debated here, write `/codex-debate review`."
)


Shown = TypeVar("Shown", CheckOutput, CheckRun)


def hidden(shown: Shown) -> Shown:
    """Return a check run without the debate's words, which not everybody was to read (threats.md, input 68)."""
    return replace(shown, summary=HIDDEN, text="", annotations=())


def conclusion(report: Report, gate: str = "action_required") -> str | None:
    """Return GitHub's word for the debated commit; None while the debate is under way.

    `gate` is the repository's word for a debate without a clean agreement: action_required, neutral or failure.
    """
    if report.status is None:
        return None
    if report.status is Status.CONSENSUS and changed(report):
        return "neutral" if gate == "neutral" else "action_required"
    word = TABLE[report.status].conclusion
    return gate if word == GATE else word


# ---- Summary --------------------------------------------------------------------------------------------------------


def _fitting(report: Report) -> str:
    for raw in (False, True):
        for body, skeleton in _shrinking(Page(report, linked=True, raw=raw)):
            if len(body.encode()) <= LIMIT:
                if raw or holds(body, skeleton):
                    return body
                break
    return "\n\n".join(_said(Page(report, linked=True))[:1]) + "\n"


def _shrinking(page: Page) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the summary whole, then without the open findings in full, then with fewer and fewer rows."""
    yield _summary(page, in_full=True)
    yield _summary(page, in_full=False)
    rows = len(entries(page.report))
    while rows > 1:
        rows //= 2
        yield _summary(page, in_full=False, rows=rows)


def _summary(page: Page, *, in_full: bool, rows: int | None = None) -> tuple[str, Counter[str]]:
    report = page.report
    parts = _said(page)
    if report.status is Status.UNRESOLVED and in_full:
        parts += open_findings(page)
    found = len(entries(report))
    if found and report.status is not None:
        parts.append(finding_table(page, rows))
        if rows is not None and rows < found:
            parts.append(f"{count(found - rows, 'more finding')}: left out here, since the summary may not be longer.")
    if rounds(report) and (found or report.status is None):
        parts.append(round_table(page))
    if report.status is None:
        parts.append("To end it: `/codex-debate stop`." if available("stop") else "")
    elif report.status not in NOT_STARTED and report.task.merge_base:  # without one nothing was checked out
        parts.append(_facts(page))
    parts = [part for part in parts if part]
    skeleton = Counter(
        h3=sum(part.startswith("### ") for part in parts),
        table=sum(part.startswith("| ") for part in parts),
    )
    return "\n\n".join(parts) + "\n", skeleton


def _said(page: Page) -> list[str]:
    """Return the paragraphs that say how it stands, and what a person can do."""
    report = page.report
    told = [same_agent(report)]
    match report.status:
        case None:
            return [_roles(report), _heartbeat(report, report.live) if report.live else ""]
        case Status.CONSENSUS:
            return [_consensus(page), *told, outside(report)]
        case status if status in NOT_STARTED and not report.record.rounds:
            return _not_started(report)
        case _:
            return [badge_line(report).removeprefix("⚠️ "), *told, *action(page)]


def _not_started(report: Report) -> list[str]:
    """Return why a debate did not begin, and what to do: there is no comment that says it."""
    head, base = code(report.task.head_ref), code(report.task.base_ref)
    reason = sentence(inline(report.reason, cell=False)) if report.reason else ""
    other = "For another base write `/codex-debate review --base` and its name."
    why, hint = {
        Status.NOTHING_TO_REVIEW: (
            ("Nothing was reviewed.", report.hint)
            if reason
            else (f"{head} holds no change against {base}; nothing was reviewed.", other)
        ),
        Status.MERGE_BASE_ERROR: (f"{head} and {base} have no common commit; nothing was started.", other),
        Status.GIT_REFUSED: (
            "Git refuses an object of this pull request; nothing was started.",
            "Write the commit that holds it anew, push, and write `/codex-debate review`.",
        ),
    }.get(report.status or Status.NOTHING_TO_REVIEW, ("Nothing was started.", ""))
    return [f"{why} {reason}".rstrip(), sentence(inline(report.hint, cell=False)) if report.hint else hint]


def _roles(report: Report) -> str:
    reviewer, author = agent(report, REVIEWER), agent(report, AUTHOR)
    who = f"{reviewer} reviews, {author} answers" if reviewer != author else f"{reviewer} reviews and answers"
    stands = standing(report)
    return f"**{who}.** {stands[:1].upper()}{stands[1:]}."


def _heartbeat(report: Report, live: Live) -> str:
    limits = report.task.limits
    turn = f"{live.agent.partition(':')[0]} has been at work for {live.turn_minutes} min"
    return (
        f"Minute {live.minute} of at most {limits.run_seconds // 60} · {money(live.usd)} of at most "
        f"{money(limits.usd)} · written {live.written} UTC, renewed every minute. {turn} (a turn may take "
        f"{limits.turn_seconds // 60}), and showed its last sign of life at {live.seen}. If this line grows older than "
        "5 minutes, the worker is gone and another one takes over by itself."
    )


def _consensus(page: Page) -> str:
    """Return the status sentence, and where the fixes are that this commit lacks."""
    report = page.report
    sentence = badge_line(report).removeprefix("✅ **Consensus** ").removeprefix(f"on {short(report.task.head_sha)} ")
    sentence = sentence.partition(" **")[0]
    said = f"**Consensus {sentence}**"
    if not changed(report):
        return said
    one = counts(report).fixed == 1
    missing = "The fix is not in this commit." if one else "The fixes are not in this commit."
    if report.pushed and report.tip:
        return f"{said} {missing} {holding_command(page)}"
    if report.patch is None:
        return f"{said} {missing}"
    why = patch.why_not(report.patch)
    place = "below" if patch.place(report) == "check" else "in the comment"
    where = f"The patch is not shown: {why}." if why else f"The patch {place} holds {'it' if one else 'them'}."
    return f"{said} {missing} {where}"


def _facts(page: Page) -> str:
    report = page.report
    names = agent(report, REVIEWER), agent(report, AUTHOR)
    each = [f"{name} {money(cost_of(report, seat))}" for name, seat in zip(names, (REVIEWER, AUTHOR), strict=True)]
    split = f" ({', '.join(each)})" if names[0] != names[1] else ""
    tokens = used_by(report)
    guess = unpriced(report)
    more = "".join(f" {each}." for each in (tokens, f"{guess[:1].upper()}{guess[1:]}") if each)
    limit = f"of at most {money(report.task.limits.usd)}.{more}"
    read, files = read_files(report)
    coverage = f"Coverage: {read} of {count(files, 'changed file')} read."
    for word, kind in (("Skipped", "skipped"), ("Cut", "cut")):
        if named := unread(report, kind):
            coverage += f" {word}: {named}."
    coverage += "".join(f" {note}." for note in tree_notes(report))
    base = page.commit(report.task.merge_base)
    return "\n".join(
        [
            f"Cost: {time_of(report)}, {money(cost_of(report))}{split}, {limit}",
            coverage,
            f"Seats: {seats(report)}. Base {base}, run {code(report.task.run)}.",
        ]
    )


# ---- Text -----------------------------------------------------------------------------------------------------------


def _text(report: Report) -> str:
    """Return the rounds in both sides' words, unfolded, the oldest first, after a patch that found no other place."""
    for raw in (False, True):
        page = Page(report, linked=True, raw=raw)
        parts: list[str] = []
        if report.patch is not None and patch.place(report) == "check":
            parts.append(patch.patch_block(report.patch))
        if report.log.strip():
            parts.append(f"What the attempts printed last:\n\n{fenced(report.log, budget=LOG_LIMIT)}")
        told = told_rounds(report)
        sections: list[str] = []
        for each in told if entries(report) else ():
            if sum(map(len, sections)) <= LIMIT:  # what cannot fit is not written
                sections.append(f"### Round {each.number}\n\n{section(each, page)}")
        kept = _that_fit(parts, sections)
        left = [each.number for each in told[kept:]] if sections else []
        parts += sections[:kept]
        if left:
            place = f"[comment]({report.comment_url})" if report.comment_url else "comment"
            parts.append(f"Left out here, since the text may not be longer: {join_rounds(left)}. See the {place}.")
        body = "\n\n".join(parts)
        skeleton = Counter(h3=min(kept, len(sections)), details=sum(part.startswith("<details") for part in parts))
        if raw or holds(body, skeleton):
            return body
    return ""


def _that_fit(parts: list[str], sections: list[str]) -> int:
    """Return how many sections fit. A first one that is too long for any text is shortened in its place."""
    room = LIMIT - 500 - sum(len(part.encode()) + 2 for part in parts)
    if sections and len(sections[0].encode()) > room:
        heading, _, words = sections[0].partition("\n\n")
        sections[0] = f"{heading}\n\n{fenced(words, budget=max(room - 200, 200))}"
    for number, each in enumerate(sections):
        room -= len(each.encode()) + 2
        if room < 0:
            return number
    return len(sections)


# ---- Annotations ----------------------------------------------------------------------------------------------------


def cited(record: Record) -> dict[str, set[int]]:
    """Return the first and last lines of the places of findings, by their files."""
    lines: dict[str, set[int]] = {}
    for entry in ledger(record):
        if place := LOCATION.fullmatch(entry.location):
            lines.setdefault(place["path"], set()).update({int(place["first"]), int(place["last"] or place["first"])})
    return lines


def _annotations(report: Report) -> tuple[Annotation, ...]:
    """Return notes for what a reader of the diff still has to know: open findings, and fixes that this commit lacks."""
    notes = (_annotation(entry, report) for entry in entries(report))
    return tuple(note for note in notes if note is not None)


def _annotation(entry: LedgerEntry, report: Report) -> Annotation | None:
    place = LOCATION.fullmatch(entry.location)
    if place is None or entry.state not in {State.OPEN, State.FIXED}:
        return None
    path, first, last = place["path"], int(place["first"]), int(place["last"] or place["first"])
    present = any(each.path == path and each.status != "D" for each in report.task.files)
    if not present or (path, first) not in report.diff_lines:
        return None
    if entry.state is State.OPEN:
        said, level = "open", "failure" if entry.severity in LOUD else "notice"
    else:
        fix = short(entry.commits[-1][1]) if report.pushed and entry.commits else "the patch" if report.patch else ""
        if not fix:
            return None
        said, level = f"fixed in {fix}, not in this commit", "warning" if entry.severity in LOUD else "notice"
    return {
        "path": path,
        "start_line": first,
        "end_line": last if first <= last and (path, last) in report.diff_lines else first,
        "annotation_level": level,
        "title": f"{shown_id(entry.id)} {entry.severity}: {said}",
        "message": stopped(plain(entry.title)),
    }
