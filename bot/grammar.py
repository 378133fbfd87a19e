r"""Which lines of a comment are commands, and the words of such a line. Pure.

Owns where a command may stand (interface.md 4) and how its words are told apart; what they mean is commands.py's. It
normalises no Unicode before it matches.

Where interface.md leaves it open: words are lower case; blanks and tabs part them and may stand around the command; a
byte order mark before it makes it text. A value stands behind its flag or behind ``=``. A quoted value begins and ends
on the command's line, between straight or curly marks; inside straight double ones ``\"`` is a mark. Nothing else is
escaped, and nothing is expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

WORDS = ("/codex-debate", "/lens-debate", "/code-debate")
BLANKS = " \t"

_NEWLINE = re.compile(r"\r\n?|\n")
_COMMAND = re.compile(r"(/codex-debate|/lens-debate|/code-debate)(?:[ \t]+(.*))?", re.DOTALL)


def _blocks() -> MarkdownIt:
    """Return a parser of block structure alone: what is inside a paragraph's lines is ours to read."""
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown


_MARKDOWN = _blocks()


def find(text: str) -> tuple[str, ...]:
    """Return the command lines of a comment: first lines of top-level paragraphs, up to the first HTML block."""
    if not any(word in text for word in WORDS):
        return ()
    lines = _NEWLINE.split(text)
    found = []
    for token in _MARKDOWN.parse(text):
        if token.type == "html_block":
            break
        if token.type == "paragraph_open" and token.level == 0 and token.map:
            line = lines[token.map[0]].strip(BLANKS)
            if _COMMAND.fullmatch(line):
                found.append(line)
    return tuple(found)


def split(line: str) -> tuple[str, str]:
    """Return the first word of a command line and what follows it."""
    match = _COMMAND.fullmatch(line)
    return (match[1], match[2] or "") if match else (line, "")


_CLOSING = {'"': '"', "'": "'", "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}"}
_CLOSING["\N{RIGHT DOUBLE QUOTATION MARK}"] = "\N{RIGHT DOUBLE QUOTATION MARK}"
_CLOSING["\N{LEFT SINGLE QUOTATION MARK}"] = "\N{RIGHT SINGLE QUOTATION MARK}"


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a command line: a flag with or without a value, or a value."""

    text: str
    flag: str = ""
    """``--flag``, where it is one."""
    joined: bool = False
    """The value was written behind ``=``."""


_FLAG = re.compile(r"(--[^ \t=]*)(=?)")


def tokens(rest: str) -> list[Token] | None:
    """Return the words of what follows a verb, or None where a quotation does not end as it should."""
    found: list[Token] = []
    place = 0
    while True:
        while place < len(rest) and rest[place] in BLANKS:
            place += 1
        if place == len(rest):
            return found
        flag = _FLAG.match(rest, place)
        if flag and not flag[2]:
            found.append(Token("", flag[1]))
            place = flag.end()
            continue
        value = _value(rest, flag.end() if flag else place)
        if value is None:
            return None
        text, place = value
        found.append(Token(text, flag[1] if flag else "", joined=flag is not None))


def _value(rest: str, start: int) -> tuple[str, int] | None:
    """Return the value that begins at `start`, and where it ends; None where its quotation has no end."""
    closing = _CLOSING.get(rest[start : start + 1])
    if closing is None:
        end = start
        while end < len(rest) and rest[end] not in BLANKS:
            end += 1
        return rest[start:end], end
    text = ""
    place = start + 1
    while place < len(rest):
        if closing == '"' and rest.startswith('\\"', place):
            text, place = text + '"', place + 2
        elif rest[place] == closing:
            ended = place + 1 == len(rest) or rest[place + 1] in BLANKS
            return (text, place + 1) if ended else None
        else:
            text, place = text + rest[place], place + 1
    return None
