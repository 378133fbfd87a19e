"""Where a command may stand in a comment, and how its words are told apart."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.grammar import DEPTH, LINES_LIMIT, WORDS, Token, below, cut, find, is_flag, skip, split, unquoted, word

REVIEW = "/codex-debate review"


def commands(text: str) -> list[str]:
    return [found.line for found in find(text)]


def words(rest: str) -> list[Token] | None:
    """Return all words of a line, or None where a quotation does not end as it should."""
    found, place = [], skip(rest, 0)
    while place < len(rest):
        each = word(rest, place)
        if each is None:
            return None
        assert each[1] > place, "a word takes at least one character"
        assert is_flag(rest, place) == bool(each[0].flag)
        found.append(each[0])
        place = skip(rest, each[1])
    return found


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
    assert commands(text) == [REVIEW]


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
        f"[x]: /url\n{REVIEW}",
        f"[x]: /url 'a title\n{REVIEW}\n'",
        f"a\n\n[x]: /url\n[y]: /url\n{REVIEW}",
        f"[^1]: a footnote\n{REVIEW}",
        f"[^1]: a footnote\n\n    {REVIEW}",
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
    text = f"Hello\n\n{REVIEW}\n\n/lens-debate\n\n/code-debate A x"
    assert commands(text) == [REVIEW, "/lens-debate", "/code-debate A x"]
    assert [found.row for found in find(text)] == [2, 4, 6]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_second_command_in_the_same_paragraph_counts(end: str) -> None:
    assert commands(f"{REVIEW}{end}  /codex-debate stop{end}and more") == [REVIEW, "/codex-debate stop"]
    assert commands(f"{REVIEW}{end}and /codex-debate stop") == [REVIEW]
    assert commands(f"please{end}{REVIEW}{end}/codex-debate stop") == []


def test_a_definition_ends_with_its_paragraph() -> None:
    assert commands(f"[x]: /url\n\n{REVIEW}") == [REVIEW]
    assert commands(f"[x]: /url\n# a heading\n{REVIEW}") == [REVIEW]
    assert commands(f"[^1]: a footnote\n\n{REVIEW}") == [REVIEW]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_stands_below_a_command(end: str) -> None:
    text = end.join(["Hello", "", REVIEW, "one", "", "    two", ""])
    assert below(text, find(text)[0]) == "one\n\n    two\n"
    assert below(REVIEW, find(REVIEW)[0]) == ""


@pytest.mark.parametrize("depth", [1, 10, 19, 20, DEPTH, 5000])
@pytest.mark.parametrize("mark", ["> ", "- ", "1. "])
def test_a_deep_quotation_or_list_hides_what_is_in_it(mark: str, depth: int) -> None:
    text = f"{mark * depth}a\n\n{mark * depth}{REVIEW}\n\nand\n\n{REVIEW} 2"
    # A list and its item are a level each; where they are deeper than is read, nothing behind them counts either.
    read = mark == "> " or 2 * depth < DEPTH
    assert commands(text) == ([f"{REVIEW} 2"] if read else [])


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
    assert words(rest) == expected


@pytest.mark.parametrize("rest", ['"no end', '"a"b', "--context=“no end", "'", '"a\\"', '“straight end"'])
def test_a_quotation_that_does_not_end_as_it_should(rest: str) -> None:
    assert words(rest) is None


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ('"a"', "a"),
        ("“a\nb”", "a\nb"),
        ("\u2018a\u2019", "a"),
        ("'a'", "a"),
        ('""', ""),
        (r'"a \"b\" c"', 'a "b" c'),
        ("a", None),
        ("", None),
        ('"', None),
        ('"a', None),
        ('a"', None),
        ('"a" b', None),
        ('"a" or "b"', None),
        ('"a"\nb', None),
        ("'it's'", None),
        ("“a”b", None),
    ],
)
def test_marks_around_the_whole_of_a_text(text: str, inner: str | None) -> None:
    assert unquoted(text) == inner


def test_a_line_is_cut_at_its_first_blank() -> None:
    assert cut("a") == ("a", "")
    assert cut("a \t b  c ") == ("a", "b  c")
    assert cut("") == ("", "")


@given(st.text(alphabet=st.sampled_from("/codex-debate review\"'“”`<>#|- \t\n\r\\=\u00a0\x00é"), max_size=200))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    for line in commands(text):
        assert line.startswith(WORDS)
        assert "\n" not in line
        words(split(line)[1])


@given(st.lists(st.text(alphabet=st.characters(exclude_characters='"\\\r\n'), max_size=20), max_size=5))
def test_quoted_words_come_back_as_they_were(said: list[str]) -> None:
    line = " ".join(f'"{each}"' for each in said)
    assert words(line) == [Token(each) for each in said]


# ---- How long it takes ----------------------------------------------------------------------------------------------


def steps(text: str) -> int:
    """Return how many calls and lines reading a comment takes."""
    count = 0

    def step(_frame: FrameType, _event: str, _value: object) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        for found in find(text):
            words(split(found.line)[1])
            unquoted(below(text, found))
    finally:
        sys.settrace(before)
    return count


UNITS = [
    *("> ", "- ", "1. ", "* * ", "[", "`", "<", "    ", ">", "\\", "|", "#", "_*", "![", "&"),
    *(
        "[a]: /x\n",
        "[a]:\n",
        "| a |\n",
        "1. \n",
        "a|b\n-|-\n",
        "> a\n\n",
        "- a\n\n",
        "a\n",
        "<!--\n",
        "```\n",
        "a\n=\n",
    ),
    *("<a\n", "[^a]: x\n", "  - a\n", "\t\n", "-\n", "* a\n  * b\n", "|-\n"),
]


@pytest.mark.parametrize("unit", UNITS)
def test_twice_the_comment_takes_twice_the_steps(unit: str) -> None:
    small, large = (steps("/codex-debate x\n\n" + unit * (size // len(unit))) for size in (4000, 8000))
    assert large < 2.5 * small + 2000


@pytest.mark.parametrize("unit", ["x ", "--x ", '"x" ', '"', "--x=“", '\\"', "\t", "--x='y' "])
def test_twice_the_arguments_take_twice_the_steps(unit: str) -> None:
    small, large = (steps("/codex-debate x " + unit * (size // len(unit))) for size in (4000, 8000))
    assert large < 2.5 * small + 200


@pytest.mark.parametrize("unit", UNITS)
def test_a_comment_of_65_kb_of_anything_is_read(unit: str) -> None:
    text = "/codex-debate\n\n" + unit * (65_536 // len(unit))
    assert commands(text) == ["/codex-debate"]
    assert commands(unit * (65_000 // len(unit)) + "\n\nand\n\n/codex-debate\n") in (["/codex-debate"], [])


@pytest.mark.parametrize(
    "text",
    [
        "> [a]: b\n/codex-debate review",
        "> > [a]: b\n/codex-debate review",
        "- [a]: b\n/codex-debate review",
        "1. [a]: b\n/codex-debate review",
        "> quoted\n/codex-debate review",
        "\ufeff~~~\n\n/codex-debate review\n~~~",
        "\ufeff/codex-debate review",
        "he wrote <blockquote>\n\n/codex-debate review\n\n</blockquote>",
        "see <details>\n\n/codex-debate review",
        "# Title <pre>\n\n/codex-debate review",
        "- item <ul>\n\n/codex-debate review",
        "struck <del>\n\n/codex-debate review",
        "| a |\n| - |\n| x |\n/codex-debate review",
    ],
)
def test_what_github_shows_inside_something_is_no_command(text: str) -> None:
    assert find(text) == ()


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\n",
        "words\n\n",
        "# Title\n",
        "---\n",
        "```\ncode\n```\n",
        "> quoted\n\n",
        "- item\n\n",
        "[a]: b\n\n",
        "a `<details>` here\n\n",
        "see <https://example.com>\n\n",
        "a<br>b and H<sub>2</sub>O <!-- note -->\n\n",
        "\ufeffwords\n\n",
        "1 < 2 and 3 > 2\n\n",
    ],
)
def test_behind_what_does_not_hold_it_a_command_is_found(before: str) -> None:
    assert [found.line for found in find(f"{before}/codex-debate review")] == ["/codex-debate review"]


def test_lines_beyond_the_limit_are_not_searched() -> None:
    assert find("x\n" * (LINES_LIMIT - 2) + "\n/codex-debate review") != ()
    assert find("x\n" * (LINES_LIMIT - 1) + "\n/codex-debate review") == ()
