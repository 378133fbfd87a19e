"""Trees that come of others: what changes, what stays, and what is never written over."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.git import GitFailed, git
from worker.git.mirror import Mirror, Mirrors
from worker.git.new_tree import InTheWay, NewFile, pack_of, write_tree


def new_file(raw: bytes, mode: bytes = b"100644") -> NewFile:
    oid = hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest().encode()
    return NewFile(oid, mode, raw)


async def listed(mirror: Mirror, tree: str) -> list[str]:
    lines = (await git(mirror.path, "ls-tree", "-r", tree)).decode().splitlines()
    return [f"{line[:6]} {line.partition(chr(9))[2]}" for line in lines]


async def test_a_tree_is_written_from_another(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"a": b"1", b"d/b": b"2", b"d/c": b"3", b"sub": ("160000", b"1" * 40)}))
    tree = await write_tree(mirror, head, {b"e/-f": new_file(b"new\r\n", b"100755")}, {b"d/b"})
    assert await listed(mirror, tree) == ["100644 a", "100644 d/c", "100755 e/-f", "160000 sub"]
    assert await git(mirror.path, "cat-file", "blob", f"{tree}:e/-f") == b"new\r\n"
    assert await write_tree(mirror, tree, {b"d/b": new_file(b"2")}, {b"e/-f"}) == await mirror.tree(head)


async def test_what_is_empty_is_gone(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"a/b/c": b"1", b"a/b/d": b"1"}))
    assert await listed(mirror, await write_tree(mirror, head, {}, [b"a/b/c"])) == ["100644 a/b/d"]
    empty = await write_tree(mirror, head, {}, [b"a/b/c", b"a/b/d"])
    assert await listed(mirror, empty) == []
    assert empty == hashlib.sha1(b"tree 0\0", usedforsecurity=False).hexdigest()


async def test_files_and_folders_change_places(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"a": b"1", b"d/e/f": b"2", b"d.x": b"3", b"d/g": b"4"}))
    new = {b"a/b/c": new_file(b"x"), b"d/e": new_file(b"y")}
    tree = await write_tree(mirror, head, new, [b"a", b"d/e/f"])
    assert await listed(mirror, tree) == ["100644 a/b/c", "100644 d.x", "100644 d/e", "100644 d/g"]
    await git(mirror.path, "fsck", "--strict", "--no-dangling", tree)


async def test_what_only_the_tree_knows_is_not_written_over(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"seen/a": b"1", b"seen/unseen": b"2", b"other/b": b"3", b"file": b"4"}))
    for new, gone, where in (
        (b"seen", [b"seen/a"], b"seen"),
        (b"other", [], b"other"),
        (b"file/below", [], b"file"),
        (b"seen/unseen/deep/er", [], b"seen/unseen"),
    ):
        with pytest.raises(InTheWay) as caught:
            await write_tree(mirror, head, {new: new_file(b"x")}, gone)
        assert caught.value.path == where


async def test_old_modes_become_those_of_today_only_where_a_folder_is_written(
    mirror: Mirror, source: Any, take: Any
) -> None:
    blob = source.put("blob", b"x")
    old = source.tree_of([("100664", b"f", blob), ("100644", b"g", blob)])
    raw = b"".join(b"%s %s\0%s" % (b"040000", name, bytes.fromhex(old)) for name in (b"d", b"e"))
    head = await take(source.commit(source.put("tree", raw)))
    tree = await write_tree(mirror, head, {}, [b"d/g"])
    assert await git(mirror.path, "rev-parse", f"{tree}:e") == f"{old}\n".encode()
    assert b"100644 f\0" in await git(mirror.path, "cat-file", "tree", f"{tree}:d")
    assert b"040000" not in await git(mirror.path, "cat-file", "tree", tree)


async def test_a_name_that_git_calls_dangerous_is_not_written(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"a": b"1"}))
    with pytest.raises(GitFailed, match="Ignoring path"):
        await write_tree(mirror, head, {b"d/.git/config": new_file(b"x")}, [])


@pytest.mark.parametrize("size", [0, 1, 15, 16, 2047, 2048, 300_000])
async def test_a_pack_is_understood_by_git(mirror: Mirror, size: int) -> None:
    raw = bytes(n % 251 for n in range(size))
    await git(mirror.path, "unpack-objects", "-q", stdin=pack_of([(3, raw), (3, b"other"), (2, b"")]))
    oid = new_file(raw).oid.decode()
    assert await git(mirror.path, "cat-file", "blob", oid) == raw


# ---- Against git's own way ------------------------------------------------------------------------------------------

PART = st.sampled_from([b"a", b"b", b"a.b", b"a-b", b"a0"])
FILES = st.dictionaries(st.lists(PART, min_size=1, max_size=4).map(b"/".join), st.binary(max_size=3), max_size=8)


def possible(files: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Drop each file that another one stands below."""
    return {path: raw for path, raw in files.items() if not any(each.startswith(path + b"/") for each in files)}


@given(FILES.map(possible), FILES.map(possible))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_tree_becomes_any_other(
    new_source: Any, tmp_path_factory: Any, before: dict[bytes, bytes], after: dict[bytes, bytes]
) -> None:
    """What comes out is the tree that git's own rules give to these files."""
    folder: Path = tmp_path_factory.mktemp("any")
    source = new_source(folder.name)
    mirror = await Mirrors(folder / "m", also=("file",)).of(1)
    commit = source.commit(before)
    await mirror.fetch(source.url, {"refs/run/r/h": commit})
    changed = {path: new_file(raw) for path, raw in after.items() if before.get(path) != raw}
    gone = before.keys() - after.keys()
    assert await write_tree(mirror, commit, changed, gone) == source.tree(after)
