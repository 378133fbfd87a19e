"""What counts as repeated."""

from __future__ import annotations

import pytest

from scripted_models.usage import Cache, Segment, Usage, tokens


def cut(text: str, marked: int | None = None) -> tuple[Segment, ...]:
    """Return a prompt whose segments are the text's words, four bytes each, with one of them marked."""
    return tuple(Segment(word.ljust(4).encode(), marked=place == marked) for place, word in enumerate(text.split()))


@pytest.mark.parametrize(("size", "count"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_four_bytes_are_a_token(size: int, count: int) -> None:
    assert tokens(b"x" * size) == count


@pytest.mark.parametrize(
    ("asked", "cached"),
    [("a b c", 3), ("a b c d", 3), ("a b", 2), ("a x c", 1), ("x b c", 0), ("b c", 0)],
)
def test_what_a_prompt_has_in_common_with_an_earlier_one_from_its_beginning_is_cached(asked: str, cached: int) -> None:
    cache = Cache()
    cache.read("s", cut("a b c"))
    usage = cache.read("s", cut(asked))
    assert (usage.input, usage.cached) == (len(asked.split()), cached)


def test_two_conversations_in_one_session_do_not_forget_each_other() -> None:
    cache = Cache()
    for asked in ("a b", "x y", "a b c", "x y z"):
        cache.read("s", cut(asked))
    assert [cache.read("s", cut(asked)).cached for asked in ("a b c d", "x y z z")] == [3, 3]


def test_a_segment_is_repeated_whole_or_not_at_all() -> None:
    cache = Cache()
    cache.read("s", (Segment(b"a" * 400),))
    assert cache.read("s", (Segment(b"a" * 404),)).cached == 0


def test_what_is_marked_and_not_yet_cached_is_written() -> None:
    cache = Cache()
    assert cache.read("s", cut("a b c", marked=1)).written == 2
    assert cache.read("s", cut("a b c d e", marked=3)).written == 1
    assert cache.read("s", cut("a b c d e", marked=1)).written == 0


def test_usages_add_up() -> None:
    one = Usage(input=10, cached=4, written=3, output=2)
    assert one + one == Usage(input=20, cached=8, written=6, output=4, calls=2)
    assert (one + one).uncached == 12
