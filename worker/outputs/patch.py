"""The patch: the whole agreed change as a block that a person can copy, where it may stand, and why it may not.

A patch is the one text that is not cleaned: changed by a byte it would not apply. It is shown as it is or not at all.
"""

from __future__ import annotations

import re
from typing import Literal

from bot.redact import redact, visible
from worker.outputs.report import Patch, Report
from worker.outputs.terms import count, join_ids

COMMENT_LIMIT = 20_000
"""Bytes of a patch that stands in the comment (decisions.md 5.7)."""
CHECK_LIMIT = 60_000
"""Bytes of a patch that stands in the check run's text, which takes 65,535 in all."""
LONGEST_FENCE = 80
"""Backticks of the longest fence that we write; cmark reads none above 255."""

Place = Literal["comment", "check", "nowhere"]


def place(report: Report) -> Place:
    """Return where a report's patch is shown."""
    if report.patch is None or why_not(report.patch):
        return "nowhere"
    small = len(report.patch.text.encode()) <= COMMENT_LIMIT
    return "comment" if small and report.task.comment else "check"


def why_not(patch: Patch) -> str:
    """Return why a patch cannot be shown, to follow ``the patch is not shown here:``; empty where it can."""
    # First: to look at all of it takes long.
    if not patch.whole or len(patch.text.encode("utf-8", "surrogatepass")) > CHECK_LIMIT:
        return f"it has more than {CHECK_LIMIT:,} bytes"
    if visible(patch.text) != patch.text:
        return "it holds characters that would not survive"
    if redact(patch.text) != patch.text:
        return "it holds what looks like a secret"
    if _run(patch.text) >= LONGEST_FENCE:
        return "it holds a line that would end its block"
    return ""


def patch_block(patch: Patch) -> str:
    """Return a patch as an unfolded section with one fenced block, longer fenced than any run of backticks in it."""
    mark = "`" * max(3, _run(patch.text) + 1)
    size = f"{count(patch.files, 'file')}, {count(patch.lines, 'line')}"
    ids = f" for {join_ids(patch.ids)}" if patch.ids else ""
    body = patch.text if patch.text.endswith("\n") else f"{patch.text}\n"
    head = f"<details open>\n<summary>Patch{ids} ({size})</summary>"
    return f"{head}\n\n{mark}diff\n{body}{mark}\n\n</details>"


def _run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
