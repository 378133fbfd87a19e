"""The comment of a debate: one Markdown text, the same bytes for the same report, below GitHub's limit.

It owns the order of the parts and what moves out when they do not fit. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bot.statuses import Status
from worker.debate.findings import Round
from worker.outputs import patch
from worker.outputs.advice import action, open_findings
from worker.outputs.markdown import code, holds
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
from worker.outputs.report import Report
from worker.outputs.terms import count, lower_first, money, short
from worker.outputs.words import AUTHOR, REVIEWER, agent, badge_line, entries, open_ids, same_agent

LIMIT = 65_000
"""UTF-8 bytes of a body. GitHub stores more, and says less: this fits every reading of its limit (github.md A4)."""
SNIPPETS = 20
"""Open findings that are told with their lines and positions; the others stand in the tables."""


def render_comment(report: Report) -> str:
    """Return the comment's body, under `LIMIT` bytes.

    What does not fit moves to the check run, the oldest rounds' words first. Where GitHub's parser would read the body
    otherwise than it is meant, agents' words are sent as fenced blocks.
    """
    for raw in (False, True):
        for body, skeleton in _shrinking(Page(report, raw=raw)):
            if len(body.encode()) <= LIMIT:
                if raw or holds(body, skeleton):
                    return body
                break
    return f"{_title(report)}\n\n{badge_line(report)}\n\n{_moved('Everything else', report)}\n\n{facts(report)}\n"


def folded(report: Report, newer_url: str) -> str:
    """Return an older run's comment: its header, and the way to the newer one."""
    badge = badge_line(report).partition(": ")[0]
    return f"{_title(report)}\n\n{badge}. There is a [newer debate]({newer_url}).\n"


# ---- Making it fit --------------------------------------------------------------------------------------------------


def _shrinking(page: Page) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the body whole, then with more and more of it moved out, each with the elements that it must have."""
    told = told_rounds(page.report)
    words = _in_words(told, page)
    head = _head(page, None)
    for gone in range(words.count(""), len(told) + 1):
        yield _body(page.report, [*head, *_sections(page, told, words=words, gone=gone)])
    rows = len(entries(page.report))
    while rows > 1:
        rows //= 2
        yield _body(page.report, [*_head(page, rows), *_sections(page, told, words=words, gone=len(told))])


def _in_words(told: tuple[Round, ...], page: Page) -> list[str]:
    """Return the rounds' words. Those older than what fits stay empty: all would take long."""
    words: list[str] = []
    for each in reversed(told):
        words.append(section(each, page) if sum(map(len, words)) <= LIMIT else "")
    return words[::-1]


def _body(report: Report, parts: list[str]) -> tuple[str, Counter[str]]:
    parts = [part for part in [*parts, facts(report)] if part]
    skeleton = Counter(
        h2=1,
        h3=sum(part.startswith("### ") for part in parts),
        table=sum(part.startswith("| ") for part in parts),
        details=sum(part.startswith("<details") for part in parts),
    )
    return "\n\n".join(parts) + "\n", skeleton


def _head(page: Page, rows: int | None) -> list[str]:
    """Return all that stands before the rounds' words, with at most `rows` findings."""
    report = page.report
    parts = [_title(report), badge_line(report), same_agent(report), *action(page)]
    if report.status is Status.UNRESOLVED and open_ids(report):
        parts += [*_open(page, rows), "### All findings"]
    parts += _tables(page, rows)
    if report.patch is not None and patch.place(report) == "comment":
        parts.append(patch.patch_block(report.patch))
    return parts


def _title(report: Report) -> str:
    return f"## Debate: {agent(report, REVIEWER)} ⇄ {agent(report, AUTHOR)}"


def _open(page: Page, rows: int | None) -> list[str]:
    """Return the open findings in full; none of them where the tables alone hardly fit."""
    if rows is not None or len(open_ids(page.report)) > SNIPPETS:
        return []
    return open_findings(page)


def _tables(page: Page, rows: int | None) -> list[str]:
    found = len(entries(page.report))
    if not found:
        return []
    cut = found - rows if rows is not None and rows < found else 0
    more = _moved(f"{count(cut, 'more finding')}", page.report) if cut else ""
    return [finding_table(page, rows), more, round_table(page)]


def _sections(page: Page, told: tuple[Round, ...], *, words: list[str], gone: int) -> list[str]:
    parts: list[str] = []
    if not entries(page.report):
        return parts
    if gone:
        first, last = told[0].number, told[gone - 1].number
        name = f"Round {first}" if first == last else f"Rounds {first} to {last}"
        parts.append(_moved(f"{name} in their words", page.report))
    for each, text in zip(told[gone:], words[gone:], strict=True):
        parts.append(f"<details>\n<summary>Round {each.number} in their words</summary>\n\n{text}\n\n</details>")
    return parts


def _moved(what: str, report: Report) -> str:
    place = f"[check run]({report.check_url})" if report.check_url else "check run"
    return f"{what}: in the {place}."


def facts(report: Report) -> str:
    """Return the last line: seats, models, effort, base, time, cost, coverage, run."""
    read, files = read_files(report)
    coverage = [f"read {read} of {count(files, 'file')}"]
    for word, name in (("skipped", "skipped"), ("cut", "cut")):
        if files_named := unread(report, name):
            coverage.append(f"{word} {files_named}")
    coverage += map(lower_first, tree_notes(report))
    parts = [
        seats(report),
        f"base {short(report.task.merge_base)}",
        time_of(report),
        f"{money(cost_of(report))}{f' ({guess})' if (guess := unpriced(report)) else ''}",
        used_by(report),
        ", ".join(coverage),
        f"run {code(report.task.run)}",
    ]
    return " · ".join(filter(None, parts))
