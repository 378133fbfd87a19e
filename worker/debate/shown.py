"""What GitHub shows of a stranger's Markdown: text that people do not see is how agents are addressed behind them.

Owns what is taken out: markup that stands for nothing (comments and the like), definitions of links, footnotes that
nobody refers to. What stays is as it was written, but for its entities. Pure.
"""

from __future__ import annotations

import html
import re
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.token import Token

NESTING = 100
"""Blocks within blocks that are looked into. Nobody reads text that stands deeper."""
# Comments, instructions, declarations, CDATA and tags (CommonMark 6.6), the first four also where they have no end.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![A-Za-z].*?(?:>|\Z)|</?[A-Za-z][^<>]*>", re.DOTALL
)
_FOOTNOTE = re.compile(r"[ >*+-]*\[\^([^\]\s]+)\]:")


def as_shown(text: str) -> str:
    """Return Markdown without what GitHub does not show of it, and with its entities resolved (threats.md, input 115).

    An entity may bring forth what looks like a comment; people see it as well. What shows when a pointer rests on it
    (the title of a link) stays.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    markdown = MarkdownIt("commonmark", {"inline_definitions": True, "maxNesting": NESTING}).enable("table")
    blocks = [token for token in markdown.parse(text) if token.type in {"definition", "html_block", "inline"}]
    lines = text.split("\n")
    for (first, last), tokens in reversed([(place, list(of)) for place, of in groupby(blocks, key=_place)]):
        lines[first:last] = _shown("\n".join(lines[first:last]), tokens, whole=text)
    return html.unescape("\n".join(lines))


def _place(token: Token) -> tuple[int, int]:
    first, last = token.map or (0, 0)
    return first, last


def _shown(source: str, tokens: list[Token], *, whole: str) -> list[str]:
    """Return what is shown of some lines."""
    if any(token.type == "definition" and token.meta["label"][:1] != "^" for token in tokens):
        return []
    if tokens[0].type == "html_block":
        source = _MARKUP.sub("", source)
    else:
        source = _without_footnotes(_without_tags(source, tokens), whole)
    return source.split("\n") if source.strip() else []


def _without_tags(source: str, tokens: list[Token]) -> str:
    """Return lines without the markup that the parser found between their words."""
    shown, at = [], 0
    for child in (child for token in tokens for child in token.children or [] if child.type == "html_inline"):
        start = source.find(child.content, at)
        if start < 0:  # it goes over several lines of a quotation, and each begins with a mark that is not its own
            return _MARKUP.sub("", source)
        shown.append(source[at:start])
        at = start + len(child.content)
    return "".join([*shown, source[at:]])


def _without_footnotes(source: str, whole: str) -> str:
    """Return lines without the footnotes that nothing refers to. Such a note goes on to the next one."""
    kept, hidden = [], False
    for line in source.split("\n"):
        note = _FOOTNOTE.match(line)
        if note:
            hidden = whole.lower().count(f"[^{note[1].lower()}]") == 1
        if not hidden:
            kept.append(line)
    return "\n".join(kept)
