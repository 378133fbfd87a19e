"""Small words are the same in every sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.outputs.terms import (
    count,
    duration,
    in_words,
    join_ids,
    join_words,
    lower_first,
    money,
    natural,
    short,
    shown_id,
    stopped,
)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([], ""),
        (["F1"], "F1"),
        (["F3", "F5"], "F3 and F5"),
        (["F1", "F2", "F3"], "F1, F2 and F3"),
        (["F1", "F2", "F3", "F4"], "F1 to F4"),
        (["F10", "F2", "F9"], "F2, F9 and F10"),
        (["F1", "F2", "F3", "F4", "F7"], "F1 to F4 and F7"),
        (["F1", "F1"], "F1"),
        (["A1", "F1", "F2", "F3", "F4"], "A1 and F1 to F4"),
        (["x", "y"], "x and y"),
    ],
)
def test_ids_are_told_in_their_order(ids: list[str], told: str) -> None:
    assert join_ids(ids).replace("\u200b", "") == told


@pytest.mark.parametrize(
    ("finding_id", "shown"),
    [("GH-12", "G|H-12"), ("deadbee1", "d|eadbee|1"), ("F_1_", "F|_1_"), ("a1b2c3d4e5f6a7", "a|1b2c3d|4e5f6a|7")],
)
def test_an_id_that_github_would_link_is_broken(finding_id: str, shown: str) -> None:
    assert shown_id(finding_id) == shown.replace("|", "\u200b")
    assert "\u200b" in join_ids([finding_id])
    assert shown_id("F12") == "F12"


@given(st.lists(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,6}", fullmatch=True)))
def test_ids_in_any_order_are_told_alike(ids: list[str]) -> None:
    assert join_ids(ids) == join_ids(reversed(ids))
    assert sorted(ids, key=natural) == sorted(sorted(ids), key=natural)


def test_lists_and_counts() -> None:
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words([]) == ""
    assert (count(1, "round"), count(3, "round"), count(0, "file")) == ("1 round", "3 rounds", "0 files")
    assert (in_words(2), in_words(12), in_words(13)) == ("two", "twelve", "13")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (48.4, "48 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (650, "11 min"),
        (3599, "1 h 0 min"),
        (5000, "1 h 23 min"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_sums_commits_and_sentences() -> None:
    assert (money(1.415), money(0), money(5)) == ("$1.42", "$0.00", "$5.00")
    assert short("db511f0cf3faf43060bd7350425e61c3742d0665") == "db511f0cf3"
    assert stopped("it ended") == "it ended."
    assert stopped("it says `no.`") == "it says `no.`"
    assert stopped("did it end?") == "did it end?"
    assert lower_first("The lock") == "the lock"
    assert lower_first("A lock") == "a lock"
    assert lower_first("SQL is slow") == "SQL is slow"
    assert lower_first("`x` is") == "`x` is"
