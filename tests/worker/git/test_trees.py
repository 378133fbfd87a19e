"""Tree objects, read one by one."""

from __future__ import annotations

from typing import Any

import pytest

from worker.git import GitFailed, TooLarge
from worker.git import trees as room
from worker.git.mirror import Mirror
from worker.git.trees import read_trees


async def test_a_folder_is_what_git_says(mirror: Mirror, source: Any, take: Any) -> None:
    files = {b"a": b"1", b"run": ("100755", b"2"), b"link": ("120000", b"a"), b"sub": ("160000", b"1" * 40)}
    commit = await take(source.commit({**files, b"d/e": b"3", b"bad\nname": b"4"}))
    root, below = await read_trees(
        mirror,
        lambda trees: (
            trees.read(f"{commit}^{{tree}}".encode()),
            trees.read(trees.read(f"{commit}^{{tree}}".encode())[b"d"][1]),
        ),
    )
    assert {name: mode for name, (mode, _) in root.items()} == {
        b"a": b"100644",
        b"run": b"100755",
        b"link": b"120000",
        b"sub": b"160000",
        b"d": b"40000",
        b"bad\nname": b"100644",
    }
    assert below == {b"e": (b"100644", source.put("blob", b"3").encode())}


async def test_old_ways_to_write_a_mode_are_those_of_today(mirror: Mirror, source: Any, take: Any) -> None:
    blob = source.put("blob", b"x")
    below = source.tree_of([("100664", b"f", blob)])
    commit = await take(source.commit(source.put("tree", b"040000 d\0" + bytes.fromhex(below))))
    rows = await read_trees(mirror, lambda trees: trees.read(f"{commit}^{{tree}}".encode()))
    assert rows == {b"d": (b"40000", below.encode())}
    rows = await read_trees(mirror, lambda trees: trees.read(below.encode()))
    assert rows == {b"f": (b"100644", blob.encode())}


async def test_what_is_no_tree_is_no_tree(mirror: Mirror, source: Any, take: Any) -> None:
    await take(source.commit({b"a": b"1"}))
    for name in (source.put("blob", b"1"), "1" * 40):
        with pytest.raises(GitFailed, match="is no tree"):
            await read_trees(mirror, lambda trees, name=name: trees.read(name.encode()))  # type: ignore[misc]


@pytest.mark.threat("T13")
async def test_too_much_is_not_read_and_what_was_read_is_not_read_again(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [await take(source.commit({b"%d" % n: b"" for n in range(count)})) for count in (10, 60)]
    small, large = (f"{commit}^{{tree}}".encode() for commit in commits)
    monkeypatch.setattr(room, "MAX_TREES", 500)
    assert len(await read_trees(mirror, lambda trees: [trees.read(small) for _ in range(9)][-1])) == 10
    with pytest.raises(TooLarge, match="folders"):
        await read_trees(mirror, lambda trees: trees.read(large))
