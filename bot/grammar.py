r"""Which lines of a comment are commands, and the words of such a line. Pure.

Owns where a command may stand (interface.md 4) and how its words are told apart; what they mean is commands.py's. It
normalises no Unicode before it matches.

Where interface.md leaves it open: words are lower case; blanks and tabs part them and may stand around the command; a
byte order mark before it makes it text. What looks like a command on a later line of a command's own paragraph counts
as a second one: whoever writes two in a row means two. Before a command stands nothing, an empty line, a heading, a
rule or a block of code; a line directly below anything else belongs to it, the definition of a link too. The first HTML
ends the commands of a comment wherever it stands, in a list or a quotation too; in a line only tags that cannot hold
what follows are passed over.

A value stands behind its flag or behind ``=``. A quoted value begins and ends on the command's line, between straight
or curly marks; inside straight double ones ``\"`` is a mark. Nothing else is escaped, and nothing is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

from bot.commonmark import parser

WORDS = ("/codex-debate", "/lens-debate", "/code-debate")
BLANKS = " \t"
LINES_LIMIT = 4000
"""Lines of a comment that are searched: a hostile one of 40 nested quotations costs 0.15 ms a line."""
DEPTH = 40
"""Levels of quotations and of lists and their items that are read; below a list that is deeper no command is found."""

_NEWLINE = re.compile(r"\r\n?|\n")
_COMMAND = re.compile(r"(/codex-debate|/lens-debate|/code-debate)(?:[ \t]+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """A command line of a comment."""

    line: str
    """Without the blanks around it."""
    row: int
    """Which line of the comment it is, from 0."""


def _blocks() -> MarkdownIt:
    """Return a parser of block structure alone: what is inside a paragraph's lines is ours to read."""
    markdown = parser({"maxNesting": DEPTH})
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown


_MARKDOWN = _blocks()
_INLINE = MarkdownIt("commonmark")

_BEFORE = {"heading_open", "fence", "code_block", "hr"}
"""Blocks behind which a paragraph may begin without an empty line. Behind any other, what looks like a paragraph to one
parser is a lazy line of a quotation or list to another."""
_HARMLESS = re.compile(r"</?(?:a|b|br|em|i|img|kbd|span|strong|sub|sup)\b|<!--", re.IGNORECASE)
"""Tags in a line behind which a command is shown as one. Behind any other it may stand in a quotation, a list or a
fold: a browser closes the paragraph, not the tag."""


def find(text: str) -> tuple[Found, ...]:
    """Return the command lines of a comment: first lines of top-level paragraphs, up to the first HTML."""
    if not any(word in text for word in WORDS):
        return ()
    lines = _NEWLINE.split(text)[:LINES_LIMIT]
    found = []
    known, before = 0, ""  # the row behind the last block, and its kind: a definition is none, and leaves a gap
    # A byte order mark is no part of the text to cmark, wherever it leaves what stands behind it.
    for token in _MARKDOWN.parse("\n".join(lines).removeprefix("\ufeff")):
        if token.type == "html_block" or (token.type == "inline" and _opens(token.content)):
            break
        if token.level or not token.map:
            continue
        first, end = token.map
        close = first > 0 and lines[first - 1].strip(BLANKS) and not (first == known and before in _BEFORE)
        if token.type == "paragraph_open" and not close and _is_command(lines[first]):
            rows = [first, *(row for row in range(first + 1, end) if _is_command(lines[row]))]
            found += [Found(lines[row].strip(BLANKS), row) for row in rows]
        known, before = max(known, end), token.type
    return tuple(found)


def _opens(content: str) -> bool:
    """Return whether lines of text hold a tag that may hold what follows them."""
    if "<" not in content:
        return False
    children = [child for token in _INLINE.parseInline(content) for child in token.children or ()]
    return any(child.type == "html_inline" and not _HARMLESS.match(child.content) for child in children)


def _is_command(line: str) -> bool:
    return _COMMAND.fullmatch(line.strip(BLANKS)) is not None


def count_lines(text: str) -> int:
    """Return how many lines a comment has."""
    return len(_NEWLINE.findall(text)) + 1


def below(text: str, found: Found) -> str:
    """Return what stands under a command line, to the end of the comment."""
    return "\n".join(_NEWLINE.split(text)[found.row + 1 :])


def split(line: str) -> tuple[str, str]:
    """Return the first word of a command line and what follows it."""
    match = _COMMAND.fullmatch(line)
    return (match[1], match[2] or "") if match else (line, "")


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a command line: a flag with or without a value, or a value."""

    text: str
    flag: str = ""
    """``--flag``, where it is one."""
    joined: bool = False
    """The value was written behind ``=``."""


_FLAG = re.compile(r"(--[^ \t=]*)(=?)")
_UNQUOTED = re.compile(r"[^ \t]*")
# What opens a quotation, and the whole of one: possessive, so that one without an end costs no second look.
_QUOTED = {
    '"': re.compile(r'"((?:[^"\\]++|\\"?)*+)"'),
    "'": re.compile(r"'([^']*+)'"),
    "\N{LEFT DOUBLE QUOTATION MARK}": re.compile("\u201c([^\u201d]*+)\u201d"),
    "\N{RIGHT DOUBLE QUOTATION MARK}": re.compile("\u201d([^\u201d]*+)\u201d"),
    "\N{LEFT SINGLE QUOTATION MARK}": re.compile("\u2018([^\u2019]*+)\u2019"),
}


def skip(text: str, place: int) -> int:
    """Return the first place at or behind `place` that is no blank."""
    while place < len(text) and text[place] in BLANKS:
        place += 1
    return place


def cut(text: str) -> tuple[str, str]:
    """Return what stands before the first blank of a line, and what follows, without the blanks around it."""
    head = _UNQUOTED.match(text)
    word = head[0] if head else ""
    return word, text[len(word) :].strip(BLANKS)


def is_flag(text: str, place: int) -> bool:
    """Return whether the word at `place` is a flag."""
    return text.startswith("--", place)


def word(text: str, place: int) -> tuple[Token, int] | None:
    """Return the word at `place` and where it ends; None where a quotation does not end as it should."""
    flag = _FLAG.match(text, place)
    if flag and not flag[2]:
        return Token("", flag[1]), flag.end()
    value = _value(text, flag.end() if flag else place)
    if value is None:
        return None
    return Token(value[0], flag[1] if flag else "", joined=flag is not None), value[1]


def unquoted(text: str) -> str | None:
    """Return what stands between quotation marks where one pair of them holds a whole text; else None."""
    value = _value(text, 0) if text[:1] in _QUOTED else None
    return value[0] if value and value[1] == len(text) else None


def _value(text: str, start: int) -> tuple[str, int] | None:
    """Return the value that begins at `start`, and where it ends; None where its quotation has no end."""
    quotation = _QUOTED.get(text[start : start + 1])
    found = (quotation or _UNQUOTED).match(text, start)
    if found is None or (quotation and text[found.end() : found.end() + 1] not in {"", *BLANKS}):
        return None
    if quotation is None:
        return found[0], found.end()
    return (found[1].replace('\\"', '"') if text[start] == '"' else found[1]), found.end()
