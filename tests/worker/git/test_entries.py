"""The plan of a tree: its limits, its links, and what is left out."""

from __future__ import annotations

import io
import signal
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.git import GitFailed, GitRefused
from worker.git import entries as room
from worker.git.brief import list_changes
from worker.git.entries import chunks, list_rows, plan, read_blobs
from worker.git.extent import check_extent
from worker.git.links import staying
from worker.git.mirror import Mirror


@pytest.mark.threat(93)
async def test_what_is_left_out_is_named_with_its_reason(mirror: Mirror, source: Any, take: Any) -> None:
    """Decisions 2.5."""
    files = {b"a": b"1", b"CLAUDE.md": b"x", b"d/.claude/hooks/x": b"x", b"bad\nname": b"x", b"dir\x1b/f": b"x"}
    found = await plan(mirror, await take(source.commit({**files, b"sub": ("160000", b"1" * 40)})))
    assert {path: why for path, (_, why) in found.absent.items()} == {
        b"CLAUDE.md": "configuration of an agent or a hook",
        b"d/.claude/hooks/x": "configuration of an agent or a hook",
        b"bad\nname": "control characters in its name",
        b"dir\x1b/f": "control characters in its name",
        b"sub": "a submodule",
    }
    assert {folder: [row.name for row in rows] for folder, rows in found.files.items()} == {b"": [b"a"]}
    assert (found.count, found.size) == (1, 1)


@pytest.mark.threat(93)
async def test_the_longest_names_are_left_out(mirror: Mirror, source: Any, take: Any) -> None:
    """A name of 4,096 bytes."""
    deep = b"/".join([b"d" * 200] * 20)
    found = await plan(mirror, await take(source.commit({b"n" * 4096: b"x", deep + b"/f": b"x", b"n" * 255: b"x"})))
    assert {why for _, why in found.absent.values()} == {"its name is too long"}
    assert found.files[b""][0].name == b"n" * 255


@pytest.mark.threat(96)
async def test_a_tree_that_is_too_deep_is_refused(mirror: Mirror, source: Any, take: Any) -> None:
    """64 folders are the limit."""
    at_limit = b"d/" * 64 + b"f"
    await plan(mirror, await take(source.commit({at_limit: b"x"})))
    deeper = await take(source.commit({b"d/" + at_limit: b"x"}))
    with pytest.raises(GitRefused, match="more than 64 deep"):
        await plan(mirror, deeper)
    empty = await take(source.commit({}))
    for look in (check_extent, list_changes):
        with pytest.raises(GitRefused, match="more than 64 deep"):
            await look(mirror, empty, deeper)


@pytest.mark.threat(96)
async def test_thousands_of_folders_deep_is_refused(mirror: Mirror, source: Any, take: Any) -> None:
    tree = source.tree_of([("100644", b"f", source.put("blob", b"x"))])
    for _ in range(3_000):
        tree = source.tree_of([("40000", b"d", tree)])
    with pytest.raises(GitRefused):
        await plan(mirror, await take(source.commit(tree)))


@pytest.mark.threat(96)
def test_a_tree_so_deep_that_git_dies_of_it_is_refused() -> None:
    """Git calls itself for each folder below: tens of thousands of them end it (2.39), and are no fault of ours."""

    class Listing:
        stdout = io.BytesIO(b"")

        def finish(self) -> int:
            return -signal.SIGSEGV

    with pytest.raises(GitRefused, match="more than 64 deep"):
        room._read_listing(Listing())  # type: ignore[arg-type]


@pytest.mark.threat(94)
async def test_two_hundred_thousand_files_are_the_limit(mirror: Mirror, source: Any, take: Any) -> None:
    blob = source.put("blob", b"")
    rows = [("100644", b"f%06d" % n, blob) for n in range(1000)]
    folder = source.tree_of(rows)
    tree = source.tree_of([("40000", b"d%03d" % n, folder) for n in range(200)] + [("100644", b"one-more", blob)])
    with pytest.raises(GitRefused, match="more than 200,000 files"):
        await plan(mirror, await take(source.commit(tree)))


async def test_a_large_tree_is_narrowed_to_the_folders_of_its_changes(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions 2.3."""
    monkeypatch.setattr(room, "MAX_ENTRIES", 10)
    files = {b"d%d/f%d" % (folder, n): b"x" for folder in range(4) for n in range(3)} | {
        b"top": b"x",
        b"d1/sub/f": b"x",
    }
    base = source.commit(files)
    head = source.commit(files | {b"d1/f0": b"changed", b"d2/-new": b"y"}, base)
    await take(head, base)
    found = await plan(mirror, head, base=base)
    assert found.narrowed
    assert {folder: sorted(row.name for row in rows) for folder, rows in found.files.items()} == {
        b"d1": [b"f0", b"f1", b"f2"],
        b"d2": [b"-new", b"f0", b"f1", b"f2"],
    }
    rooted = source.commit(files | {b"top": b"changed"}, base)
    found = await plan(mirror, await take(rooted), base=base)
    assert {folder: [row.name for row in rows] for folder, rows in found.files.items()} == {b"": [b"top"]}
    with pytest.raises(GitRefused, match="changes more than 10 files"):
        await plan(mirror, await take(source.commit({b"n%d" % n: b"x" for n in range(20)})), base=base)


async def test_entries_are_found_by_their_paths(mirror: Mirror, source: Any, take: Any) -> None:
    commit = await take(source.commit({b"a": b"1", b"d/-x": b"22", b"d/*": b"3"}))
    rows = await list_rows(mirror, commit, [b"a", b"d/-x", b"d/?", b"gone"])
    assert {path: row.size for path, row in rows.items()} == {b"a": 1, b"d/-x": 2}


async def test_what_is_no_blob_or_missing_is_a_fault_of_git(mirror: Mirror, source: Any, take: Any) -> None:
    commit = await take(source.commit({b"a": b"1"}))
    blob = (await list_rows(mirror, commit, [b"a"]))[b"a"].oid
    assert await read_blobs(mirror, {blob}) == {blob: b"1"}
    for oid, kind in ((b"1" * 40, "missing"), (commit.encode(), "commit")):
        with pytest.raises(GitFailed, match=f"not a blob: {kind}"):
            await read_blobs(mirror, {oid})


# ---- Links ----------------------------------------------------------------------------------------------------------


@pytest.mark.threat(88)
async def test_links_are_followed_in_a_thread_and_no_more_of_them_read_than_that(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a link that is too long take the others' room."""
    threads = set()

    def watched(targets: dict[bytes, bytes]) -> set[bytes]:
        threads.add(threading.current_thread())
        return staying(targets)

    monkeypatch.setattr(room, "staying", watched)
    monkeypatch.setattr(room, "MAX_FOLLOWED", 25)
    links: dict[bytes, Any] = {b"l%d" % n: ("120000", b"0123456789") for n in range(4)}
    found = await plan(mirror, await take(source.commit(links | {b"a": ("120000", b"x" * 5000)})))
    assert [*found.links] == [b"l0", b"l1"]
    assert [row.name for row in found.files[b""]] == [b"a", b"l2", b"l3"]
    assert threading.main_thread() not in threads


@given(st.lists(st.binary(min_size=1, max_size=60)))
def test_chunks_lose_nothing_and_fit(paths: list[bytes]) -> None:
    batches = list(chunks(paths, 100))
    assert [path for batch in batches for path in batch] == paths
    assert all(batches)
