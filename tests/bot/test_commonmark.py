"""Tables that keep within what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.commonmark import FEW, ROWS, parser


def cells(text: str) -> list[str]:
    tokens = parser().parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type in {"td_open", "th_open"}]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a|b\n-|-\nc|d", ["a", "b", "c", "d"]),
        ("| a | b | c |\n|:--|:-:|--|\n| | d | |\n||e||", ["a", "b", "c", "", "d", "", "", "e", ""]),
        ("| a | b |\n|--|--|\n| c |", ["a", "b", "c", ""]),
        ("| a | b | c |\n|--|--|--|\n| d | e | f | g |\nh|i\nj", ["a", "b", "c", "d", "e", "f"]),
        ("> | a | b | c |\n> |--|--|--|\n> | d | e | f |\n> g", ["a", "b", "c", "d", "e", "f"]),
        ("- | a | b | c |\n  |--|--|--|\n  | d \\| e | f | g |  \n", ["a", "b", "c", "d | e", "f", "g"]),
        ("a|b\nc|d", []),
    ],
)
def test_a_table_has_the_cells_that_are_written(text: str, read: list[str]) -> None:
    assert cells(text) == read


@pytest.mark.threat(127)
@given(st.integers(1, 60), st.integers(0, 300), st.sampled_from(["a\n", "a|\n", "|||||||\n", "# a\n", "a|b|c|d\n"]))
def test_there_are_never_many_more_cells_than_characters(columns: int, rows: int, row: str) -> None:
    text = f"|{'a|' * columns}\n|{'-|' * columns}\n{row * rows}\n"
    assert len(cells(text * 3)) <= FEW * len(text * 3)


def test_a_table_without_an_end_goes_on_as_words() -> None:
    assert len(cells("a|b\n-|-\n" + "c|d\n" * 2 * ROWS)) == 2 * (ROWS + 1)


@pytest.mark.threat(127)
def test_many_small_tables_are_read_to_the_end() -> None:
    """Where each had its cells filled up, these 60 kB would be 6 million cells and this test would not end."""
    table = "\n".join(["|" + "a|" * 300, "|" + "-|" * 300, *["a"] * 300, "", ""])
    assert len(cells(table * 40)) == 300 * 40
