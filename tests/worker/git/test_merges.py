"""Which heads hold nothing new but plain merges of the base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from worker.git import merges as room
from worker.git.merges import plain_merges
from worker.git.mirror import Mirror


@dataclass
class Branches:
    """A base that has moved on, and the head of a pull request before it was brought up to date."""

    mirror: Mirror
    source: Any
    take: Any
    base: str
    head: str

    async def merged(self, files: dict[bytes, bytes], *parents: str) -> bool:
        """Return what is said of a merge with these files."""
        made = await self.take(self.source.commit(files, *(parents or (self.head, self.base))))
        return await plain_merges(self.mirror, self.head, made, base=self.base)


@pytest.fixture
async def branches(mirror: Mirror, source: Any, take: Any) -> Branches:
    start = await take(source.commit({b"a": b"1\n", b"b": b"1\n"}))
    head = await take(source.commit({b"a": b"2\n", b"b": b"1\n"}, start))
    base = await take(source.commit({b"a": b"1\n", b"b": b"2\n"}, start))
    return Branches(mirror, source, take, base, head)


async def test_a_merge_of_the_base_is_plain(branches: Branches) -> None:
    assert await branches.merged({b"a": b"2\n", b"b": b"2\n"})


async def test_a_second_merge_on_top_is_plain_too(branches: Branches) -> None:
    once = await branches.take(branches.source.commit({b"a": b"2\n", b"b": b"2\n"}, branches.head, branches.base))
    further = await branches.take(branches.source.commit({b"a": b"1\n", b"b": b"3\n"}, branches.base))
    branches.base = further
    assert await branches.merged({b"a": b"2\n", b"b": b"3\n"}, once, further)


async def test_a_merge_that_holds_more_than_its_sides_is_not(branches: Branches) -> None:
    assert not await branches.merged({b"a": b"2\n", b"b": b"evil\n"})
    assert not await branches.merged({b"a": b"2\n", b"b": b"2\n", b"c": b"evil\n"})


async def test_a_merge_of_another_branch_is_not(branches: Branches) -> None:
    other = await branches.take(branches.source.commit({b"a": b"1\n", b"b": b"1\n", b"c": b"x\n"}, branches.base))
    assert not await branches.merged({b"a": b"2\n", b"b": b"1\n", b"c": b"x\n"}, branches.head, other)


async def test_a_merge_the_other_way_round_is_not(branches: Branches) -> None:
    """The head's own history would not be the first parents' any more."""
    assert not await branches.merged({b"a": b"2\n", b"b": b"2\n"}, branches.base, branches.head)


async def test_a_conflict_that_somebody_resolved_is_not(branches: Branches) -> None:
    branches.base = await branches.take(branches.source.commit({b"a": b"3\n", b"b": b"2\n"}, branches.base))
    assert not await branches.merged({b"a": b"2\n", b"b": b"2\n"})


async def test_a_commit_on_top_or_below_is_not(branches: Branches) -> None:
    assert not await branches.merged({b"a": b"2\n", b"b": b"2\n"}, branches.head)
    assert not await plain_merges(branches.mirror, branches.head, branches.base, base=branches.base)


async def test_the_same_head_holds_nothing_new(branches: Branches) -> None:
    assert await plain_merges(branches.mirror, branches.head, branches.head, base=branches.base)


async def test_more_merges_than_are_followed_are_not_believed(
    branches: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MERGES", 1)
    once = await branches.take(branches.source.commit({b"a": b"2\n", b"b": b"2\n"}, branches.head, branches.base))
    assert await plain_merges(branches.mirror, branches.head, once, base=branches.base)
    assert not await branches.merged({b"a": b"2\n", b"b": b"2\n"}, once, branches.base)


async def test_a_name_that_looks_like_a_parent_is_none(branches: Branches) -> None:
    """Names may hold what other readers take for the end of a line; git does not."""
    for junk in ("\x0c", "\x0b", "\x1c", "\x85", "\u2028"):
        author = f"A{junk}parent {branches.base}{junk}B <a@example.org>".encode()
        one = await branches.take(branches.source.commit({b"a": b"2\n", b"b": b"2\n"}, branches.head, author=author))
        assert not await plain_merges(branches.mirror, branches.head, one, base=branches.base)
        both = (branches.head, branches.base)
        two = await branches.take(branches.source.commit({b"a": b"2\n", b"b": b"2\n"}, *both, author=author))
        assert await plain_merges(branches.mirror, branches.head, two, base=branches.base)
