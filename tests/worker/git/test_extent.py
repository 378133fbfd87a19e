"""How much differs between two trees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.git import GitRefused, git
from worker.git import extent as room
from worker.git.extent import check_extent
from worker.git.mirror import Mirror, Mirrors
from worker.git.trees import read_trees


async def count(mirror: Mirror, *ends: str) -> int:
    names = [f"{end}^{{tree}}".encode() for end in ends]
    return await read_trees(mirror, lambda trees: room._Count(trees).between(names[0], names[1], 0))


async def test_files_and_the_folders_on_their_way_are_counted(mirror: Mirror, source: Any, take: Any) -> None:
    before = {b"a": b"1", b"d/b": b"2", b"d/e/c": b"3", b"same/x": b"4"}
    after = {b"a": b"1", b"d/b": b"!", b"d/e": b"3", b"same/x": b"4", b"new/f": b"5"}
    ends = [await take(source.commit(files)) for files in (before, after)]
    # d/b, d/e/c, d/e, new/f; and the root, d, d/e and new
    assert await count(mirror, *ends) == 8
    await check_extent(mirror, ends[0], ends[1])
    await check_extent(mirror, ends[0], ends[0])


async def test_a_change_at_the_limit_passes_and_one_more_does_not(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = [await take(source.commit({b"f%d" % n: text for n in range(20)})) for text in (b"1", b"2")]
    monkeypatch.setattr(room, "MAX_CHANGES", 21)
    await check_extent(mirror, base, head)
    monkeypatch.setattr(room, "MAX_CHANGES", 20)
    with pytest.raises(GitRefused, match="Git refused the pull request: it changes more than 20 files"):
        await check_extent(mirror, base, head)


@pytest.mark.threat("T13")
async def test_what_occurs_again_and_again_is_looked_at_once(mirror: Mirror, source: Any, take: Any) -> None:
    """Else a large folder that hangs in a thousand places would be compared a thousand times."""
    ends = []
    for text in (b"1", b"2"):
        large = source.tree({b"f%d" % n: text if n == 7 else b"same" for n in range(50)})
        ends.append(await take(source.commit(source.tree_of([("40000", b"d%02d" % n, large) for n in range(50)]))))
    names = [f"{end}^{{tree}}".encode() for end in ends]

    def look(trees: Any) -> tuple[int, int]:
        count = room._Count(trees)
        return count.between(names[0], names[1], 0), len(count.counted)

    assert await read_trees(mirror, look) == (101, 2)


@pytest.mark.threat("T13", 95, 96)
async def test_more_paths_than_there_are_atoms_are_counted_at_once(mirror: Mirror, source: Any, take: Any) -> None:
    """Ten folders of ten folders and so on: what is the same is looked at once, whatever it stands for."""
    trees = []
    for text in (b"1", b"2"):
        tree = source.tree_of([("100644", b"f%d" % n, source.put("blob", text)) for n in range(10)])
        for _ in range(60):
            tree = source.tree_of([("40000", b"d%d" % n, tree) for n in range(10)])
        trees.append(await take(source.commit(tree)))
    empty = await take(source.commit({}))
    for base, head in ((empty, trees[0]), (trees[0], empty), trees):
        with pytest.raises(GitRefused, match="it changes more than 200,000 files"):
            await check_extent(mirror, base, head)


async def test_huge_folders_are_refused(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = await take(source.commit({})), await take(source.commit({b"f%d" % n: b"" for n in range(60)}))
    monkeypatch.setattr("worker.git.trees.MAX_TREES", 500)
    with pytest.raises(GitRefused, match="more files than can be listed"):
        await check_extent(mirror, base, head)


PART = st.sampled_from([b"a", b"b", b"c"])
FILES = st.dictionaries(st.lists(PART, min_size=1, max_size=4).map(b"/".join), st.binary(max_size=1), max_size=8)


@given(FILES, FILES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_never_less_is_counted_than_git_lists(
    new_source: Any, tmp_path_factory: Any, before: dict[bytes, bytes], after: dict[bytes, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    source = new_source(folder.name)
    mirror = await Mirrors(folder / "m", also=("file",)).of(1)
    ends = []
    for files in (before, after):
        kept = {path: raw for path, raw in files.items() if not any(each.startswith(path + b"/") for each in files)}
        ends.append(source.commit(kept))
    await mirror.fetch(source.url, {"refs/run/r/a": ends[0], "refs/run/r/b": ends[1]})
    listed = await git(mirror.path, "diff-tree", "-r", "-t", "-z", "--name-only", *ends)
    assert await count(mirror, *ends) == listed.count(b"\0") + 1
