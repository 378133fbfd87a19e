"""Where a command may stand in a comment, and how its words are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.grammar import WORDS, Token, find, split, tokens

REVIEW = "/codex-debate review"


@pytest.mark.parametrize(
    "text",
    [
        REVIEW,
        f"  {REVIEW}  ",
        f"\t\n{REVIEW}\t",
        f"{REVIEW}\r\n",
        f"Thanks!\r\n\r\n{REVIEW}\r\n\r\nand good night",
        f"{REVIEW}\nwith a word below it",
        f"- a list\n\nthen\n\n{REVIEW}",
        f"> a quote\n\n{REVIEW}",
        f"```\ncode\n```\n{REVIEW}",
        f"# A heading\n{REVIEW}",
        f"a <b>bold</b> word\n\n{REVIEW}",
        f"{REVIEW}\n\n<details>\n\nlater\n",
    ],
)
def test_the_first_line_of_a_top_level_paragraph_is_a_command(text: str) -> None:
    assert find(text) == (REVIEW,)


@pytest.mark.parametrize(
    "text",
    [
        # quotes
        f"> {REVIEW}",
        f"> > {REVIEW}",
        f"On Monday somebody wrote:\n> {REVIEW}",
        f"> quoted\n{REVIEW}",  # a lazy continuation of the quote
        # code
        f"```\n{REVIEW}\n```",
        f"~~~\n{REVIEW}",
        f"    {REVIEW}",
        f"`{REVIEW}`",
        # HTML
        f"<!-- {REVIEW} -->",
        f"<!--\n\n{REVIEW}\n\n-->",
        f"<details>\n\n{REVIEW}\n\n</details>",
        f"<details></details>\n\n{REVIEW}",
        f"<div>\n{REVIEW}\n</div>",
        f"- <p>\n\n{REVIEW}",
        # elsewhere
        f"please {REVIEW}",
        f"please\n{REVIEW}",
        f"# {REVIEW}",
        f"{REVIEW}\n======",
        f"{REVIEW}\n---",
        f"- {REVIEW}",
        f"1. {REVIEW}",
        f"[{REVIEW}](https://example.com)",
        f"{REVIEW} | a\n--- | ---\n1 | 2",
        f"| {REVIEW} |\n| --- |\n| x |",
        f"[x]: {REVIEW}",
        f"**{REVIEW}**",
        f"\\{REVIEW}",
        # no commands at all
        "\uff0fcodex-debate review",
        "/\u0441odex-debate review",
        "/codex-de\u200bbate review",
        "\u202e/codex-debate review",
        "\ufeff/codex-debate review",
        "\u00a0/codex-debate review",
        "/codex-debate\u00a0review",
        "/codex-debate\x0breview",
        "\x1b[1m/codex-debate review",
        "/CODEX-DEBATE review",
        "/Codex-debate review",
        "/codex-debater review",
        "/codex-debate, review",
        "/codex-debate/review",
        "//codex-debate review",
        "/codex-debate\x00review",
        "",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert find(text) == ()


def test_all_commands_of_a_comment_are_found() -> None:
    assert find(f"{REVIEW}\n\n/lens-debate\n\n/code-debate A x") == (REVIEW, "/lens-debate", "/code-debate A x")


def test_a_line_is_split_at_its_first_word() -> None:
    assert split("/codex-debate") == ("/codex-debate", "")
    assert split("/codex-debate \t review  x") == ("/codex-debate", "review  x")


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", []),
        ("412", [Token("412")]),
        ("--base main", [Token("", "--base"), Token("main")]),
        ("--base=main x", [Token("main", "--base", joined=True), Token("x")]),
        ("--base=", [Token("", "--base", joined=True)]),
        ("--base=--upload-pack=x", [Token("--upload-pack=x", "--base", joined=True)]),
        ('--rationale "a  b"', [Token("", "--rationale"), Token("a  b")]),
        ("--rationale=“a b”", [Token("a b", "--rationale", joined=True)]),
        ("”a b” 'c d' \u2018e f\u2019", [Token("a b"), Token("c d"), Token("e f")]),
        (r'"say \"no\" \n"', [Token(r'say "no" \n')]),
        ('"$(touch /tmp/x); `id` | nc"', [Token("$(touch /tmp/x); `id` | nc")]),
        ('it\'s "--push"', [Token("it's"), Token("--push")]),
        ("“it's “ fine”", [Token("it's “ fine")]),
        ("--", [Token("", "--")]),
    ],
)
def test_words(rest: str, expected: list[Token]) -> None:
    assert tokens(rest) == expected


@pytest.mark.parametrize("rest", ['"no end', '"a"b', "--context=“no end", "'", '"a\\"', '“straight end"'])
def test_a_quotation_that_does_not_end_as_it_should(rest: str) -> None:
    assert tokens(rest) is None


@given(st.text(alphabet=st.sampled_from("/codex-debate review\"'“”`<>#|- \t\n\r\\=\u00a0\x00é"), max_size=200))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    for line in find(text):
        assert line.startswith(WORDS)
        assert "\n" not in line
        tokens(split(line)[1])


@given(st.lists(st.text(alphabet=st.characters(exclude_characters='"\\\r\n'), max_size=20), max_size=5))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    line = " ".join(f'"{word}"' for word in words)
    assert tokens(line) == [Token(word) for word in words]


@pytest.mark.parametrize(
    "unit", ["> ", "- ", "[", "[a]: /codex-debate\n", "`", "/codex-debate\n\n", "<", "* * ", "| a |\n", "    ", "1. \n"]
)
def test_no_comment_keeps_the_parser_busy(unit: str) -> None:
    text = "/codex-debate\n\n" + unit * (262_144 // len(unit))
    # A quadratic reading of it would run into the limit that every test has.
    assert find(text)[:1] in {("/codex-debate",), ()}
