"""The parser of other people's Markdown: CommonMark, with GitHub's tables in bounds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table

ROWS = 200
"""Rows of a table, at most; what comes below is read as words."""
FEW = 2
"""Columns that a row need not fill."""


def parser(options: Mapping[str, Any] | None = None) -> MarkdownIt:
    """Return a parser of CommonMark and of tables (GitHub Flavored Markdown, 4.10).

    A row that leaves columns out ends a table of more than `FEW`. The library would add the missing cells, up to 65,536
    to each table (its `MAX_AUTOCOMPLETED_CELLS`): 36 kB of text took it 17 seconds.
    """
    markdown = MarkdownIt("commonmark", options).enable("table")
    markdown.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return markdown


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if not table(state, start, end, silent=True):
        return False
    if not silent:
        columns = _strokes(state, start + 1) + 1
        last = start + 2
        while last < min(end, start + 2 + ROWS) and (columns <= FEW or _strokes(state, last) >= columns - 1):
            last += 1
        table(state, start, last, silent=False)
    return True


def _strokes(state: StateBlock, line: int) -> int:
    """Return how often a line is parted into cells."""
    row = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip(" \t")
    return row.removeprefix("|").removesuffix("|").count("|")
