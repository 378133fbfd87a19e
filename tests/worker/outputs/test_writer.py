"""The writer of the safe subset, piece by piece; what it is for is tested in test_markdown.py."""

from __future__ import annotations

import pytest

from worker.outputs.writer import (
    BREAKER,
    LOCATION,
    Links,
    TooDeep,
    blocks,
    fence,
    indented,
    inline,
    joined,
    span,
    words,
)


def test_blocks_know_what_they_are() -> None:
    written = blocks("a\n\n- b\n\n```\nc\n```", None)
    assert [block.kind for block in written] == ["paragraph", "bullet_list", "fence"]
    assert [block.flows for block in written] == [True, False, False]
    assert joined(written) == "a\n\n- b\n\n```\nc\n```"


def test_a_text_deeper_than_the_parser_reads_is_refused() -> None:
    with pytest.raises(TooDeep):
        blocks("> " * 20 + "x", None)


@pytest.mark.parametrize(
    ("text", "spanned"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        (" a ", "`  a  `"),
        ("a\nb", "`a b`"),
        ("", "` `"),
        ("``", "``` `` ```"),
    ],
)
def test_a_span_holds_any_text(text: str, spanned: str) -> None:
    assert span(text) == spanned


@pytest.mark.parametrize(
    ("text", "spanned"), [("a|b", "`a\\|b`"), ("a\\|b", f"`a\\{BREAKER}\\|b`"), ("a\\\\|b", "`a\\\\\\|b`")]
)
def test_a_pipe_in_a_cell_is_escaped_by_one_backslash(text: str, spanned: str) -> None:
    assert span(text, cell=True) == spanned


def test_a_fence_is_longer_than_any_run_in_it() -> None:
    assert fence("a") == "```\na\n```"
    assert fence("````\n", "py") == "`````py\n````\n`````"


def test_later_lines_are_indented_and_empty_ones_are_not() -> None:
    assert indented("a\n\nb", 2, "- ") == "- a\n\n  b"


def test_a_line_and_its_plain_words() -> None:
    assert inline("*a* `b`", None, cell=False) == "*a* `b`"
    assert words("*a* [b](c)\n\n    d\n\n<p>\n") == ["a b (c)", "d", "<p>"]


@pytest.mark.parametrize(
    ("location", "url"),
    [("a.py:3", "#L3"), ("a.py:3-5", "#L3-L5"), ("a.py:3-3", "#L3"), ("a.py", ""), ("a.py:0", ""), ("b.py:3", "")],
)
def test_a_place_of_a_known_file_has_an_address(location: str, url: str) -> None:
    links = Links("https://github.com", "o/r", "c0ffee", frozenset({"a.py"}))
    assert links.of(location) == (f"https://github.com/o/r/blob/c0ffee/a.py{url}" if url else "")


def test_an_address_is_made_for_any_path() -> None:
    links = Links("https://github.com", "o/r", "c0ffee", frozenset())
    assert links.url("a b/#?.py", "3") == "https://github.com/o/r/blob/c0ffee/a%20b/%23%3F.py#L3"


@pytest.mark.parametrize("text", ["a.py", ":3", "a.py:x", "a.py:12345678", "a\nb:3"])
def test_what_is_no_place(text: str) -> None:
    assert LOCATION.fullmatch(text) is None
