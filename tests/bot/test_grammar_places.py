"""Commands planted in comments of every make: what counts is decided by how the comment was made, and by cmark-gfm.

Neither oracle knows grammar.py. Every planted command has a number of its own, by which it is known again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

import cmarkgfm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.grammar import find

COMMAND = "/codex-debate review"
PLANTED = re.compile(r"/codex-debate review ([0-9]+)")


def numbers(text: str) -> list[int]:
    """Return the numbers of the commands that are found."""
    return [int(PLANTED.findall(found.line)[0]) for found in find(text)]


# ---- By construction ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A piece of a comment that is closed in itself, with a place for a command."""

    text: str
    counts: bool = False
    html: bool = False


PLAIN = [Piece(text, counts=True) for text in ("@", "  @", "   @\t ", "@\nand a word", "@ \\", "@ **x", "@ `x")]
PROSE = [
    "please @",
    "please\n@",
    "**@**",
    "*@*",
    "~~@~~",
    "`@`",
    "``\n@``",
    "<b>@</b>",
    "[@](x)",
    "![@](x)",
    "\\@",
    "see @",
]
QUOTES = [
    "> @",
    "> > @",
    ">@",
    "> a\n@",
    "> a\n>\n> @",
    "> [!NOTE]\n> @",
    "On Monday x wrote:\n> @",
    "> - @",
    "> ```\n> @\n> ```",
]
LISTS = [
    "- @",
    "* @",
    "+ @",
    "1. @",
    "1) @",
    "- a\n\n  @",
    "- a\n@",
    "- [ ] @",
    "- a\n  - @",
    "10. a\n\n    @",
    "-\n  @",
    "- > @",
]
CODE = [
    "```\n@\n```",
    "~~~\n@\n~~~",
    "````md\n```\n@\n```\n````",
    "    @",
    "\t@",
    "```\n\n@\n\n```",
    "    a\n\n    @",
    "   ```\n@\n   ```",
]
HEADINGS = ["# @", "###### @", "@\n===", "@\n---", "a\n@\n-", "# a #\n## @ ##"]
TABLES = [
    "@ | a\n--- | ---\n1 | 2",
    "| @ |\n| --- |\n| a |",
    "| a |\n| :-: |\n| @ |",
    "a | b\n-|-\n@",
    "| a |\n|---|\n@ | x",
]
DEFINITIONS = [
    "[@]: /x",
    '[x]: /x "@"',
    "[x]: /x '\n@\n'",
    "[x]: /x\n@",
    "[x]: </x>\n@",
    "[^1]: x\n@",
    "[^1]: x\n\n    @",
    "[x]:\n@",
]
HTML = [
    "<!-- @ -->",
    "<!--\n\n@\n\n-->",
    "<details>\n\n@\n\n</details>",
    "<details><summary>x</summary>\n@\n</details>",
    "<div>\n@\n</div>",
    "<pre>\n\n@\n\n</pre>",
    "<script>\n\n@\n\n</script>",
    "<?php\n\n@\n\n?>",
    "<![CDATA[\n\n@\n\n]]>",
    "<!DOCTYPE html>\n@",
    "<x-y>\n@",
    "<br>\n@",
    "> <p>\n\n@",
    "- <p>\n\n@",
    "</td>\n@",
    "<textarea>\n@",
]
PLACES = [
    *PLAIN,
    *(Piece(text) for text in [*PROSE, *QUOTES, *LISTS, *CODE, *HEADINGS, *TABLES, *DEFINITIONS]),
    *(Piece(text, html=True) for text in HTML),
]
DISGUISES = [
    "&#47;codex-debate review",
    "&sol;codex-debate review",
    "&#32;/codex-debate review",
    "/codex&#45;debate review",
    "\\/codex-debate review",
    "/codex\\-debate review",
    "\uff0fcodex-debate review",
    "/\u0441odex-debate review",
    "/codex-d\u0435bate review",
    "/codex\u2010debate review",
    "/codex-de\u200bbate review",
    "\u200b/codex-debate review",
    "\u202e/codex-debate review",
    "\u2066/codex-debate\u2069 review",
    "\ufeff/codex-debate review",
    "\u00ad/codex-debate review",
    "\U000e0001/codex-debate review",
    "\u00a0/codex-debate review",
    "/codex-debate\u00a0review",
    "/codex-debate\u3000review",
    "/codex-debate\x0breview",
    "\x0c/codex-debate review",
    "\x00/codex-debate review",
    "/codex-debate\x00 review",
    "\u2028/codex-debate review",
    "x\u2028/codex-debate review",
    "x\x85/codex-debate review",
    "x\x1e/codex-debate review",
    "\x1b[1m/codex-debate review",
    "/CODEX-DEBATE review",
    "/Codex-Debate review",
    "/codex-debates review",
    "//codex-debate review",
    "/codex-debate: review",
    "<b></b>/codex-debate review",
    "*a*/codex-debate review",
    "$/codex-debate review",
]
ENDS = ["\n", "\r\n", "\r"]


def planted(pieces: list[Piece], *, end: str = "\n") -> str:
    texts = [piece.text.replace("@", f"{COMMAND} {number}") for number, piece in enumerate(pieces)]
    # A word between them ends a list, which else would go on in the next piece.
    return "\n\nand\n\n".join(texts).replace("\n", end)


def expected(pieces: list[Piece]) -> list[int]:
    """Return the numbers of the commands that count: the plain ones, up to the first block of HTML."""
    ends = next((place for place, piece in enumerate(pieces) if piece.html), len(pieces))
    return [number for number, piece in enumerate(pieces[:ends]) if piece.counts]


@pytest.mark.parametrize("piece", PLACES, ids=lambda piece: piece.text)
def test_each_place_between_two_commands(piece: Piece) -> None:
    around = Piece("@", counts=True)
    pieces = [around, piece, around]
    assert numbers(planted(pieces)) == expected(pieces)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_what_only_looks_like_a_command_is_none(disguise: str) -> None:
    assert numbers(f"{COMMAND} 1\n\n{disguise} 2\n\n{COMMAND} 3") == [1, 3]
    assert find(f"{disguise} 2") == ()


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from([piece for piece in PLACES if piece.text[-1] not in "\\x"]), max_size=8),
    st.sampled_from(ENDS),
)
def test_comments_of_closed_pieces(pieces: list[Piece], end: str) -> None:
    assert numbers(planted(pieces, end=end)) == expected(pieces)


# ---- By the parser of GitHub ----------------------------------------------------------------------------------------

EXTENSIONS = ["table", "strikethrough", "autolink", "tagfilter"]
LEAVES = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "td", "th", "pre"}


class Page(HTMLParser):
    """Top-level paragraphs of a page, in order, up to its first block of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.paragraphs: list[str] = []
        self.ended = False
        self.unsure = False
        """From here on it cannot be told from the page whether a piece of HTML was a block: in a list without gaps."""
        # HTML is left out by the renderer, which puts a comment in its place.
        self.feed(cmarkgfm.markdown_to_html_with_extensions(text, options=0, extensions=EXTENSIONS))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p" and not self.open and not self.ended and not self.unsure:
            self.paragraphs.append("")
        elif self.open[:1] == ["p"]:
            self.handle_data("<")  # what begins with emphasis or code begins with no command
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Pass over a line break or a rule, which holds nothing."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[:1] == ["p"] and not self.ended and not self.unsure:
            self.paragraphs[-1] += data

    def handle_comment(self, data: str) -> None:
        if not LEAVES & set(self.open):
            self.ended = self.ended or "li" not in self.open
            self.unsure = self.unsure or "li" in self.open


FIRST = re.compile(r"[ \t]*/codex-debate review ([0-9]+)")

# Left out, as either reading does no harm: a row of dashes for one column, which below a command is a table to us and
# words to GitHub; a lone tag below a line of a quotation, which is the quotation's to us and a block of HTML to GitHub;
# a table's row of nothing but another script's blanks, which ends the table for us.
# fmt: off
LINES = [
    "@", "@", "@", "@", " @", "  @ ", "\t@", "    @", "> @", ">@", "- @", "1. @", "2. @", "* @", "# @", "| @ | b |",
    "@ | a", "[x]: @", "[@]: x", "> a", ">", "> > a", "- a", "-", "  a", "   a", "    a", "\ta", "1. a", "7) a",
    "+ b", "*", "a", "a b", "", "", "", " ", "\t", "===", "---", "--", "***", "# a", "#", "```", "```` x", "~~~",
    "~~~~", "`", "``", "| a |\n| - |", "| @ |\n|-|", "--- | ---", "a | b", "\\", "[x]: /u", "[x]:",
    "/u", '"t"', '"t', 't"', "[y]: <u> 't", "[", "]: x", "<div>", "</div>", "<!--", "-->", "<!-- a -->", "\n\n<b>",
    "<b>a", "a <b>", "<details>", "</details>", "<pre>", "\n\n</pre>", "<?", "?>", "<!X", "<![CDATA[", "]]>", "<x y='",
    "<script>", "\n\n</script>", "\n\n<br/>", "**a", "a**", "&amp;", "&#96;", "\u00a0a", "\u200b", "a\x0b", "a\x0c",
    "\x00", "\u2028a", "\x1b", "- a\n\n  @", "1. a\n\n   @", "@ | a\n--- | ---", "> <div>", "> <!-- a -->",
]
# fmt: on


@dataclass(frozen=True)
class Comment:
    text: str
    disguised: frozenset[int]


@st.composite
def comments(draw: st.DrawFn) -> Comment:
    """Draw a comment of lines in any order: nothing in it is closed, nested or parted as it should be."""
    lines = draw(st.lists(st.sampled_from(LINES) | st.sampled_from([f"{each} @" for each in DISGUISES]), max_size=14))
    made, disguised = [], set()
    for number, line in enumerate(lines):
        if line[:-2] in DISGUISES:
            disguised.add(number)
            made.append(f"{line[:-1]}{number}")
        else:
            made.append(line.replace("@", f"{COMMAND} {number}"))
    end = draw(st.sampled_from(ENDS))
    return Comment(end.join(made), frozenset(disguised))


def below_something(text: str, number: str) -> bool:
    """Return whether a command stands directly below another line, or below a tag: then it need not be found."""
    above = text.partition(f"{COMMAND} {number}")[0]
    lines = re.split(r"\r\n?|\n", above)[:-1]
    return bool(lines and lines[-1].strip(" \t")) or "<" in above


@settings(max_examples=1500, deadline=None)
@given(comments())
def test_comments_of_any_lines_are_read_as_github_reads_them(comment: Comment) -> None:
    found = numbers(comment.text)
    assert not comment.disguised & set(found)
    page = Page(comment.text)
    must, may = set[int](), set[int]()
    for paragraph in page.paragraphs:
        first = FIRST.match(paragraph)
        if first and int(first[1]) not in comment.disguised:
            must |= set() if below_something(comment.text, first[1]) else {int(first[1])}
            may |= {int(number) for number in PLANTED.findall(paragraph)}
    if page.unsure:
        assert must <= set(found)
    else:
        assert must <= set(found) <= must | may
