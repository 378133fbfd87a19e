"""What a person wrote comes back in a reply as code alone: short, and without a life of its own."""

from __future__ import annotations

from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.commands import VERBS, Refusal, parse
from bot.replies import QUOTE_LIMIT

THEIRS = "ж"
"""A letter that none of our own sentences has: what a person wrote is known by it."""
# fmt: off
LIVE = [
    "ж", "ж" * 100, "@ж", "@mona-ж", "#1ж", "ж#1", "GH-1ж", "mona/ж#1", "97636d1c27ж", "https://ж.example/ж",
    "www.ж.example",
    "[ж](https://ж.example)", "![ж](https://ж.example/ж.png)", "<img src=ж>", "<ж@ж.example>", "<https://ж.example>",
    "<!-- ж", "-->", "<details>ж", "</details>", "**ж**", "_ж_", "~~ж~~", "`", "``", "```", "`ж", "ж`", "~~~ж", "|ж|",
    "\\", "\\`ж", "&lt;ж&gt;", "&#96;ж", "$ж$", ":ж:", "- ж", "> ж", "# ж", "\x00ж", "\x1b[31mж", "\u202eж", "\u200bж",
    "ж\u2028ж",
    "\x85ж", "\x0cж", "ж\r", "\ud800ж", "\U000e0041ж", '"', '"ж"', "“ж”", "'", "=", "--ж", "--base", "--base=ж",
    "--max-rounds",
    "--rationale", "--no-commit=ж", "--ж=ж", "1", "help", "/codex-debate", " ", "\t",
]
# fmt: on


class Rendered(HTMLParser):
    """What of a page stands outside code, how much of the person's stands inside, and which elements there are."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.outside = ""
        self.longest = 0
        self.code = False
        self.feed(str(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.code = self.code or tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.code = self.code and tag != "code"

    def handle_data(self, data: str) -> None:
        if self.code:
            self.longest = max(self.longest, len(data) if THEIRS in data else 0)
        else:
            self.outside += data

    def handle_comment(self, data: str) -> None:
        self.tags.append("a comment")

    def handle_decl(self, decl: str) -> None:
        self.tags.append("a declaration")


def judge(reply: str) -> None:
    """Fail where something of a person's is alive in a reply."""
    page = Rendered(reply)
    assert set(page.tags) <= {"p", "code", "pre", "ul", "li"}
    assert THEIRS not in page.outside
    # A breaker follows each mark of a mention or a reference.
    assert page.longest <= QUOTE_LIMIT
    assert "\r" not in reply
    reply.encode()
    for mark in "@#":
        assert reply.count(mark) == reply.count(f"{mark}\u200b")


STARTS = [
    "/codex-debate ",
    "/lens-debate ",
    "/code-debate ",
    *(f"/codex-debate {verb} " for verb in VERBS if "-" not in verb),
]


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(STARTS), st.lists(st.sampled_from(LIVE), max_size=6), st.sampled_from(["", " "]))
def test_nothing_that_a_person_wrote_is_alive_in_a_reply(start: str, words: list[str], between: str) -> None:
    found = parse(start + between.join(words), max_rounds=6)
    if isinstance(found, Refusal):
        judge(found.reply)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LIVE), max_size=4), st.lists(st.sampled_from(LIVE), max_size=4))
def test_nor_where_two_commands_are_quoted(first: list[str], second: list[str]) -> None:
    found = parse(f"/codex-debate {' '.join(first)}\n\n/codex-debate {' '.join(second)}", max_rounds=6)
    if isinstance(found, Refusal):
        judge(found.reply)


@pytest.mark.parametrize("word", LIVE, ids=ascii)
def test_each_piece_where_it_is_quoted(word: str) -> None:
    """No piece is left to chance: as a verb, a word, a flag, the value of a flag, and one of two commands."""
    quoted = 0
    for text in (
        f"/codex-debate {word}",
        f"/codex-debate review {word}",
        f"/codex-debate stop --{word}",
        f"/codex-debate review --max-round {word}",
        f"/codex-debate help {word}",
        f"/codex-debate a {word}\n\n/codex-debate b {word}",
    ):
        found = parse(text, max_rounds=6)
        if isinstance(found, Refusal):
            judge(found.reply)
            quoted += THEIRS in found.reply
    assert quoted or THEIRS not in word
