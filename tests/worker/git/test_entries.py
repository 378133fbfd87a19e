"""The plan of a tree: its limits, its links, and what is left out."""

from __future__ import annotations

import io
import signal
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.git import GitRefused
from worker.git import entries as room
from worker.git.brief import list_changes
from worker.git.entries import Links, chunks, list_rows, plan
from worker.git.extent import check_extent
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


# ---- Links ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [b"b", b"./b", b"../d/b", b"b/../c", b"not/there", b"..", b"e/up", b"n" * 255, b"x/" * 1499]
)
def test_a_link_within_the_tree_stays(target: bytes) -> None:
    assert Links({b"d/a": target, b"d/e/up": b"../.."}).stays(b"d/a")


@pytest.mark.threat(87, 88)
@pytest.mark.parametrize(
    "target",
    [
        b"/etc/passwd",
        b"../../x",
        b"/proc/self/environ",
        b"../..",
        b"",
        b"a\0b",
        b"../.git/config",
        b".GIT/x",
        b"e/up/../x",
        b"loop",
        b"a",
        b"out/x",
        b"n" * 256 + b"/../b",
        b"x/" * 1500 + b"../" * 1500 + b"b",
    ],
)
def test_a_link_that_leaves_the_tree_does_not_stay(target: bytes) -> None:
    """Also by way of another link, in a circle, into git's own folder, or to where no file can be."""
    links = {b"d/a": target, b"d/e/up": b"../..", b"d/loop": b"loop", b"d/out": b"../../.."}
    assert not Links(links).stays(b"d/a")


@pytest.mark.threat(88)
def test_a_long_chain_of_links_ends() -> None:
    links = {b"l%d" % n: b"l%d" % (n + 1) for n in range(5000)}
    assert not Links(links).stays(b"l0")
    assert Links(links).stays(b"l4990")


class Counted(dict[bytes, bytes]):
    """Links that count how often one is looked for."""

    looks = 0

    def get(self, path: bytes, default: Any = None) -> Any:
        self.looks += 1
        return super().get(path, default)


@pytest.mark.threat(88)
def test_links_that_multiply_each_other_take_no_more_work_than_a_few() -> None:
    """Three hundred that each walk eight hundred folders down and up again, forty times over."""
    links = Counted({b"l%d" % n: b"x/" * 800 + b"../" * 800 + b"l%d" % (n + 1) for n in range(41)})
    links |= {b"m%d" % n: links[b"l0"] for n in range(300)}
    followed = Links(links)
    followed.left //= 16  # for a test in no time
    assert not any(map(followed.stays, [path for path in links if path.startswith(b"m")]))
    assert 0 < links.looks < room.MAX_FOLLOWED / 16 / 4
    assert not followed.stays(b"l40"), "what would stay is no longer followed"


@pytest.mark.threat(88)
def test_tens_of_thousands_of_ordinary_links_stay() -> None:
    links = {b"node_modules/.bin/program-%d" % n: b"../@scope/package-%d/bin/program.js" % n for n in range(20_000)}
    links |= {b"packages/%d/node_modules/@scope" % n: b"../../../node_modules/@scope" for n in range(20_000)}
    assert all(map(Links(links).stays, links))


@pytest.mark.threat(88)
async def test_the_links_of_a_tree_are_followed_together_and_in_a_thread(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()

    class Few(Links):
        def __init__(self, targets: dict[bytes, bytes]) -> None:
            super().__init__(targets, left=20)
            threads.add(threading.current_thread())

        def stays(self, path: bytes) -> bool:
            threads.add(threading.current_thread())
            return super().stays(path)

    monkeypatch.setattr(room, "Links", Few)
    links: dict[bytes, Any] = {b"l%d" % n: ("120000", b"0123456789") for n in range(4)}
    found = await plan(mirror, await take(source.commit(links)))
    assert found.links == {b"l0": b"0123456789", b"l1": b"0123456789"}
    assert [row.name for row in found.files[b""]] == [b"l2", b"l3"]
    assert threading.main_thread() not in threads


PART = st.sampled_from([b"..", b".", b"a", b"b", b"", b"c"])


@given(
    st.dictionaries(st.lists(PART, min_size=1, max_size=3).map(b"/".join), st.lists(PART, max_size=5).map(b"/".join))
)
def test_every_question_about_links_has_an_answer(links: dict[bytes, bytes]) -> None:
    for path in links:
        assert Links(links).stays(path) in {True, False}


@given(st.lists(st.binary(min_size=1, max_size=60)))
def test_chunks_lose_nothing_and_fit(paths: list[bytes]) -> None:
    batches = list(chunks(paths, 100))
    assert [path for batch in batches for path in batch] == paths
    assert all(batches)
