"""Trees as files: byte for byte, whatever the repository says about encodings and filters."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.git import GitRefused, TooLarge, git, program
from worker.git import tree as room
from worker.git.entries import Row
from worker.git.flat import Flat
from worker.git.mirror import Mirror, Mirrors
from worker.git.tree import Stat, diffstat, materialise, patch, shown_lines
from worker.process import run

FILE, PROGRAM, LINK = "100644", "100755", "120000"


def read(root: Path) -> dict[bytes, Any]:
    """Read a folder back: bytes of files, modes of programs, targets of links."""
    found: dict[bytes, Any] = {}
    for path in root.rglob("*"):
        name = os.fsencode(path.relative_to(root))
        if path.is_symlink():
            found[name] = (LINK, os.fsencode(path.readlink()))
        elif path.is_file():
            runs = path.stat().st_mode & stat.S_IXUSR
            found[name] = (PROGRAM, path.read_bytes()) if runs else path.read_bytes()
    return found


async def test_a_tree_is_written_byte_for_byte(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    files: dict[bytes, Any] = {
        b"a.txt": b"one\r\ntwo\n",
        b"empty": b"",
        b"run.sh": (PROGRAM, b"#!/bin/sh\n"),
        b"deep/er/f": bytes(range(256)) * 10,
        b"large": os.urandom(300_000),
        b"large-twice": (PROGRAM, b"z" * 200_000),
        b"deep/large-twice": b"z" * 200_000,
        "über/日本.md".encode(): b"x",
        b"latin-\xe9\xff": b"x",
        b"-rf": b"x",
        "evil\u202egpj".encode(): b"x",
        b"link": (LINK, b"deep/er/f"),
    }
    done = await materialise(mirror, await take(source.commit(files)), tmp_path / "tree")
    assert read(tmp_path / "tree") == files
    assert (done.entries, done.skipped, done.narrowed, done.twins) == (12, (), False, ())
    assert done.size == sum(len(body if isinstance(body, bytes) else body[1]) for body in files.values()) - len(
        b"deep/er/f"
    )


async def test_a_second_tree_comes_from_the_cache_and_is_the_same(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    files = {b"f%d" % n: b"content %d" % n for n in range(20)}
    first = source.commit(files)
    second = source.commit(files | {b"f1": b"changed"}, first)
    await take(first, second)
    for commit in (first, second, first):
        await materialise(mirror, commit, tmp_path / "tree")
        expected = files if commit == first else files | {b"f1": b"changed"}
        assert read(tmp_path / "tree") == expected


@pytest.mark.threat(81, 83, 84, 85)
async def test_attributes_play_no_part(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    files = {
        b".gitattributes": b"*.lfs filter=lfs diff=lfs merge=lfs -text\n*.u16 working-tree-encoding=UTF-16\n"
        b"*.id ident\n*.crlf text eol=crlf\n*.x diff=x\nsecret export-ignore\nversion export-subst\n",
        b".lfsconfig": b"[lfs]\n\turl = https://attacker.example/lfs\n",
        b"a.lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 12\n",
        b"b.u16": b"plain utf-8\n",
        b"c.id": b"$Id$ $Id: 123 $\n",
        b"d.crlf": b"one\ntwo\r\n",
        b"e.x": b"x\n",
        b"secret": b"kept\n",
        b"version": b"$Format:%H$\n",
    }
    await materialise(mirror, await take(source.commit(files)), tmp_path / "tree")
    assert read(tmp_path / "tree") == files


@pytest.mark.threat(87)
async def test_links_that_leave_the_tree_are_small_files(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    outside = [b"/etc/passwd", b"../../x", b"/proc/self/environ", b".git/config"]
    files = {b"l%d" % number: (LINK, target) for number, target in enumerate(outside)}
    await materialise(mirror, await take(source.commit(files | {b"in": (LINK, b"l0")})), tmp_path / "tree")
    assert read(tmp_path / "tree") == {path: target for path, (_, target) in files.items()} | {b"in": b"l0"}


@pytest.mark.threat(88)
async def test_loops_and_chains_of_links_are_small_files(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    files = {b"a": (LINK, b"b"), b"b": (LINK, b"a"), **{b"c%03d" % n: (LINK, b"c%03d" % (n + 1)) for n in range(100)}}
    await materialise(mirror, await take(source.commit(files)), tmp_path / "tree")
    found = read(tmp_path / "tree")
    assert found[b"a"] == b"b"
    assert found[b"c000"] == b"c001"
    assert found[b"c099"] == (LINK, b"c100")


@pytest.mark.threat(80)
async def test_a_bare_repository_in_the_tree_is_plain_files(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    files = {
        b"x/HEAD": b"ref: refs/heads/main\n",
        b"x/config": b"[core]\n\tfsmonitor = touch x\n",
        b"x/refs/k": b"",
        b"x/objects/k": b"",
    }
    await materialise(mirror, await take(source.commit(files)), tmp_path / "tree")
    assert read(tmp_path / "tree") == files


@pytest.mark.threat(92)
async def test_twins_are_kept_and_noted(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    files = {b"d/README": b"1", b"d/readme": b"2", "é".encode(): b"3", "e\u0301".encode(): b"4"}
    done = await materialise(mirror, await take(source.commit(files)), tmp_path / "tree")
    assert read(tmp_path / "tree") == files
    assert set(done.twins) == {"d/README", "d/readme", "é", "e\u0301"}


async def test_what_one_name_cannot_hold_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    """A disk that takes two names for one, here by a file that stands there already."""
    row = Row(b"a", b"100644", b"1" * 40, 0)
    (tmp_path / "a").write_text("x")
    with pytest.raises(GitRefused, match="two of its names for one: a"):
        room._write_files(os.fsencode(tmp_path), [(b"", [row])], Flat(mirror.path))


async def test_what_was_there_before_is_gone(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "old" / "closed").mkdir(parents=True)
    (tree / "old" / "link").symlink_to(tmp_path)
    (tmp_path / "outside").write_text("stays")
    await materialise(mirror, await take(source.commit({b"a": b"1"})), tree)
    assert read(tree) == {b"a": b"1"}
    assert (tmp_path / "outside").read_text() == "stays"


@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=12).filter(
            lambda name: not set(name) & set(b"/\0") and name not in {b".", b".."}
        ),
        st.binary(max_size=300),
        max_size=6,
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_name_and_any_content(new_source: Any, tmp_path_factory: Any, files: dict[bytes, bytes]) -> None:
    folder = tmp_path_factory.mktemp("any")
    source = new_source(folder.name)
    mirror = await Mirrors(folder / "m", also=("file",)).of(1)
    commit = source.commit(files)
    await mirror.fetch(source.url, {"refs/run/r/h": commit})
    done = await materialise(mirror, commit, folder / "tree")
    found = read(folder / "tree")
    assert len(found) + len(done.skipped) == len(files)
    assert all(files[path] == raw for path, raw in found.items())


# ---- Patches --------------------------------------------------------------------------------------------------------

OLD = {
    b"crlf": b"one\r\ntwo\r\n",
    b"gone": b"x\n",
    b"latin": b"caf\xe9\n",
    b"bin": b"\0\1\2" * 50,
    b"mode": b"m\n",
    b"moved": b"same\n" * 20,
    b"no-newline": b"a",
    "日本".encode(): b"x\n",
}
NEW = {
    b"crlf": b"one\r\nTWO\r\n",
    b"latin": b"caf\xe9 au lait\n",
    b"bin": b"\0\1\3" * 50,
    b"mode": (PROGRAM, b"m\n"),
    b"elsewhere": b"same\n" * 20,
    b"no-newline": b"b",
    "日本".encode(): "é\n".encode(),
    b"new/file": b"n\n",
}


async def test_a_patch_applies_to_the_byte(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    old = source.commit(OLD)
    new = source.commit(NEW, old)
    await take(old, new)
    text = await patch(mirror, old, await mirror.tree(new), limit=10_000)
    await materialise(mirror, old, tmp_path / "tree")
    applied = await run(replace(program(None, "apply", "-", stdin=text.encode()), cwd=tmp_path / "tree"))
    assert applied.code == 0, applied.stderr
    assert read(tmp_path / "tree") == NEW
    assert await patch(mirror, old, old, limit=10_000) == ""
    for short in (100, len(text.encode()) - 1):
        with pytest.raises(TooLarge, match=f"more than {short:,} bytes"):
            await patch(mirror, old, await mirror.tree(new), limit=short)


async def test_the_lines_that_github_shows_of_a_change(mirror: Mirror, source: Any, take: Any) -> None:
    """A file of nothing but line ends, which is small in git, is not shown and costs nothing."""
    many = b"".join(b"%d\n" % n for n in range(1, 41))
    old = source.commit({b"a": many, b"gone": b"x\n"})
    new = source.commit({b"a": many.replace(b"20\n", b"x\n").replace(b"38\n", b""), b"big": b"\n" * 19_000_000}, old)
    await take(old, new)
    assert await shown_lines(mirror, old, new, "a", range(60)) == {*range(17, 24), *range(35, 40)}
    assert await shown_lines(mirror, old, new, "big", {1, 5, 10**9}) == frozenset()
    assert await shown_lines(mirror, old, new, "gone", {1}) == frozenset()


async def test_a_diffstat_counts_files_and_lines(mirror: Mirror, source: Any, take: Any) -> None:
    old = source.commit(OLD)
    new = source.commit(NEW, old)
    await take(old, new)
    assert await diffstat(mirror, old, new) == Stat(files=9, added=5, removed=5)
    assert await diffstat(mirror, old, old) == Stat(0, 0, 0)


async def test_two_trees_of_one_mirror_are_written_at_once(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    commits = [source.commit({b"f%d" % n: b"%d" % (n * k) for n in range(50)}) for k in range(3)]
    await take(*commits)
    await asyncio.gather(*(materialise(mirror, c, tmp_path / c) for c in commits))
    for k, commit in enumerate(commits):
        assert read(tmp_path / commit) == {b"f%d" % n: b"%d" % (n * k) for n in range(50)}


@pytest.mark.threat("T10")
async def test_the_mirror_itself_has_no_work_tree_and_no_index(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    await materialise(mirror, await take(source.commit({b"a": b"1"})), tmp_path / "tree")
    assert (await git(mirror.path, "rev-parse", "--is-bare-repository")).strip() == b"true"
    assert not (mirror.path / "index").exists()
    assert not (tmp_path / "tree" / ".git").exists()
