"""What GitHub shows of a stranger's Markdown: text that people do not see is how agents are addressed behind them.

Owns what is taken out: markup that stands for nothing (comments and the like), definitions of links, footnotes that
nobody refers to, words behind the fence of a block of code, cells that a table has no column for. What stays is as it
was written, but for its entities. Pure.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from itertools import groupby, takewhile

from markdown_it.token import Token

from bot.commonmark import parser

NESTING = 30
"""Blocks within blocks, and brackets within brackets, that are looked into. Nobody reads text that stands deeper, and
`[[[[` takes as many times as long as other text."""
NO_REFERENCE = {"code_block", "code_inline", "fence", "html_block", "html_inline"}
"""Tokens in which ``[^1]`` refers to nothing."""
# Comments, instructions, declarations, CDATA and tags (CommonMark 6.6), the first four also where they have no end.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![A-Za-z].*?(?:>|\Z)|</?[A-Za-z][^<>]*>", re.DOTALL
)
_FOOTNOTE = re.compile(r"[ >*+-]*\[\^([^\]\s]+)\]:")


# A row of a table up to a number of cells: a stroke ends one, unless it is escaped (GitHub Flavored Markdown, 4.10).
_ROW = r"[\s>]*\|?(?:(?:\\.|[^|\\])*+(?:\||\Z)){{0,{columns}}}"


@lru_cache(maxsize=16)
def as_shown(text: str) -> str:
    """Return Markdown without what GitHub does not show of it, and with its entities resolved (threats.md, input 115).

    An entity may bring forth what looks like a comment; people see it as well. What shows when a pointer rests on it
    (the title of a link) stays.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    tokens = parser({"inline_definitions": True, "maxNesting": NESTING}).parse(text)
    lines = text.split("\n")
    for first, end in _ends(lines, tokens).items():
        lines[first] = lines[first][:end]
    blocks = [token for token in tokens if token.type in {"definition", "html_block", "inline"}]
    whole = "\n".join(lines).lower()
    every = (token for each in tokens for token in (each, *(each.children or [])))
    beside = "\n".join(token.content for token in every if token.type in NO_REFERENCE).lower()
    for (first, last), of in reversed([(place, list(of)) for place, of in groupby(blocks, key=_place)]):
        lines[first:last] = _shown("\n".join(lines[first:last]), of, whole=whole, beside=beside)
    return html.unescape("\n".join(lines))


def _ends(lines: list[str], tokens: list[Token]) -> dict[int, int]:
    """Return the lines of which only a beginning is shown, and where it ends."""
    ends: dict[int, int] = {}
    top = columns = 0
    for token in tokens:
        if token.type == "fence":
            first, _ = _place(token)
            ends[first] = lines[first].index(token.markup) + len(token.markup)
        elif token.type == "thead_open":
            (top, _), columns = _place(token), 0
        elif token.type == "th_open":
            columns += 1
        elif token.type == "thead_close" and top not in ends:
            # To GitHub a table goes on to an empty line, also where `bot.commonmark` reads words.
            row = re.compile(_ROW.format(columns=columns), re.DOTALL)
            rows = takewhile(lambda at: lines[at].strip(" \t>"), range(top, len(lines)))
            ends |= {at: found.end() for at in rows if (found := row.match(lines[at]))}
    return ends


def _place(token: Token) -> tuple[int, int]:
    first, last = token.map or (0, 0)
    return first, last


def _shown(source: str, tokens: list[Token], *, whole: str, beside: str) -> list[str]:
    """Return what is shown of some lines."""
    if any(token.type == "definition" and token.meta["label"][:1] != "^" for token in tokens):
        return []
    if tokens[0].type == "html_block":
        source = _MARKUP.sub("", source)
    else:
        source = _without_footnotes(_without_tags(source, tokens), whole, beside)
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


def _without_footnotes(source: str, whole: str, beside: str) -> str:
    """Return lines without the footnotes that nothing refers to. Such a note goes on to the next one."""
    kept, hidden = [], False
    for line in source.split("\n"):
        note = _FOOTNOTE.match(line)
        if note:
            label = f"[^{note[1].lower()}]"
            hidden = whole.count(label) - beside.count(label) == 1
        if not hidden:
            kept.append(line)
    return "\n".join(kept)
