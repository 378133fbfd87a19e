"""Mirrors: what is fetched, what is refused, and whose refs are whose."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.git import GitFailed, GitRefused, GitUnavailable, NoMergeBase, RefMissing, git
from worker.git import mirror as room
from worker.git.brief import brief
from worker.git.mirror import Mirror, Mirrors, lock
from worker.git.tree import materialise

MAIN = "refs/heads/main"


async def refs(mirror: Mirror) -> list[str]:
    return (await git(mirror.path, "for-each-ref", "--format=%(refname)")).decode().split()


@pytest.mark.threat(98)
async def test_a_fetch_brings_full_history_under_the_runs_own_refs(mirror: Mirror, source: Any) -> None:
    first = source.commit({b"a": b"1"})
    second = source.commit({b"a": b"2"}, first)
    await mirror.fetch(source.url, {"refs/run/r1/head": MAIN})
    assert await refs(mirror) == ["refs/run/r1/head"]
    assert await mirror.resolve("refs/run/r1/head") == second
    assert await mirror.resolve(first) == first
    assert not (mirror.path / "FETCH_HEAD").exists()


async def test_a_commit_is_fetched_by_its_id(mirror: Mirror, source: Any) -> None:
    commit = source.commit({b"a": b"1"}, ref="refs/pull/1/head")
    await mirror.fetch(source.url, {"refs/run/r1/head": commit})
    assert await mirror.resolve("refs/run/r1/head") == commit


@pytest.mark.threat(106)
async def test_runs_do_not_see_each_others_refs(mirror: Mirror, source: Any) -> None:
    """Two pull requests that share objects."""
    base = source.commit({b"a": b"1"})
    heads = [source.commit({b"a": body}, base, ref=f"refs/pull/{body.decode()}/head") for body in (b"2", b"3")]
    wanted = [{f"refs/run/r{n}/base": MAIN, f"refs/run/r{n}/head": f"refs/pull/{n}/head"} for n in (2, 3)]
    await asyncio.gather(*(mirror.fetch(source.url, each) for each in wanted))
    assert [await mirror.resolve(f"refs/run/r{n}/head") for n in (2, 3)] == heads
    await mirror.drop_refs("r2")
    left = await refs(mirror)
    assert [ref for ref in left if ref.startswith("refs/run/")] == ["refs/run/r3/base", "refs/run/r3/head"]


async def test_many_first_fetches_at_once_are_one_after_the_other(tmp_path: Path, source: Any) -> None:
    source.commit({b"a": b"1"})
    roots = [Mirrors(tmp_path / "m", also=("file",)) for _ in range(6)]
    mirrors = await asyncio.gather(*(each.of(7) for each in roots))
    await asyncio.gather(*(each.fetch(source.url, {f"refs/run/r{n}/head": MAIN}) for n, each in enumerate(mirrors)))
    assert len(await refs(mirrors[0])) == 6
    assert [entry.name for entry in (tmp_path / "m").iterdir() if entry.is_dir()] == ["7.git"]


async def test_what_a_death_left_of_a_mirror_in_the_making_goes_with_the_next(tmp_path: Path) -> None:
    (left := tmp_path / "5.new-1").mkdir()
    (left / "HEAD").write_text("half")
    (other := tmp_path / "51.new-1").mkdir()
    mirror = await Mirrors(tmp_path).of(5)
    assert [mirror.path.exists(), left.exists(), other.exists()] == [True, False, True]


async def test_a_second_run_fetches_only_what_is_new(mirror: Mirror, source: Any) -> None:
    base = source.commit({b"%d" % n: b"%d" % n for n in range(50)})
    await mirror.fetch(source.url, {"refs/run/r1/base": MAIN})
    await mirror.drop_refs("r1")
    source.commit({b"%d" % n: b"%d" % n for n in range(51)}, base)
    await mirror.fetch(source.url, {"refs/run/r2/base": MAIN})
    counted = (await git(mirror.path, "count-objects", "-v")).decode()
    total = int(dict(line.split(": ") for line in counted.splitlines())["in-pack"])
    assert total in {55, 56}, "52 objects, then a commit, a tree and a blob; the old tree once more, as their base"


async def test_old_tips_are_forgotten(mirror: Mirror, source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "HAVE", 2)
    tip = source.commit({b"a": b"0"})
    for n in range(4):
        tip = source.commit({b"a": b"%d" % n}, tip)
        await mirror.fetch(source.url, {f"refs/run/r{n}/head": MAIN})
        await mirror.drop_refs(f"r{n}")
    assert len(await refs(mirror)) == 2


async def test_packs_are_gathered_and_nothing_is_lost(
    mirror: Mirror, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PACKS", 3)
    tips = [source.commit({b"a": b"0"})]
    for n in range(3):
        assert not await mirror.tidy()
        await mirror.fetch(source.url, {f"refs/run/r{n}/head": MAIN})
        tips.append(source.commit({b"a": b"%d" % n}, tips[-1]))
    for n in range(3):
        await mirror.drop_refs(f"r{n}")
    assert await mirror.tidy()
    assert len(list((mirror.path / "objects/pack").glob("*.pack"))) == 1
    assert [await mirror.resolve(tip) for tip in tips[:3]] == tips[:3]


async def test_packs_are_left_while_somebody_fetches(
    mirror: Mirror, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PACKS", 0)
    async with lock(mirror.path.with_suffix(".lock"), exclusive=False):
        assert not await mirror.tidy()


async def test_locks_of_a_lost_machine_are_removed_and_fresh_ones_kept(mirror: Mirror, source: Any) -> None:
    source.commit({b"a": b"1"})
    left = mirror.path / "refs/run/r1/head.lock"
    left.parent.mkdir(parents=True)
    left.touch()
    with pytest.raises(GitUnavailable, match="lock"):
        await mirror.fetch(source.url, {"refs/run/r1/head": MAIN})
    os.utime(left, (0, 0))
    await mirror.fetch(source.url, {"refs/run/r1/head": MAIN})
    assert not left.exists()


# ---- Names and addresses --------------------------------------------------------------------------------------------


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("refs/heads/x", MAIN),
        ("refs/run/r/../x", MAIN),
        ("refs/run/r/x", "main"),
        ("refs/run/r/x", "--upload-pack=x"),
        ("refs/run/r/x", "refs/heads/*"),
        ("refs/run/*", MAIN),
        ("refs/run/r/x", "refs/heads/a:refs/heads/b"),
    ],
)
async def test_odd_names_reach_no_git(mirror: Mirror, source: Any, ours: str, theirs: str) -> None:
    with pytest.raises(ValueError, match=r"ref"):
        await mirror.fetch(source.url, {ours: theirs})


@pytest.mark.threat(100)
async def test_a_tag_and_a_twisted_branch_are_not_the_branch(mirror: Mirror, source: Any) -> None:
    main = source.commit({b"a": b"1"})
    source.commit({b"a": b"2"}, ref="refs/tags/main")
    source.commit({b"a": b"3"}, ref="refs/heads/refs/heads/main")
    await mirror.fetch(source.url, {"refs/run/r1/base": MAIN})
    assert await mirror.resolve("refs/run/r1/base") == main
    assert await refs(mirror) == ["refs/run/r1/base"]


@pytest.mark.threat(99)
async def test_replacements_are_ignored(mirror: Mirror, source: Any) -> None:
    """`refs/replace/*`, also where it stands in the mirror itself."""
    real = source.commit({b"a": b"real"})
    fake = source.commit({b"a": b"fake"}, ref="refs/heads/fake")
    source.point(f"refs/replace/{real}", fake)
    await mirror.fetch(source.url, {"refs/run/r1/base": MAIN, "refs/run/r1/fake": fake})
    assert await refs(mirror) == ["refs/run/r1/base", "refs/run/r1/fake"]
    await git(mirror.path, "update-ref", f"refs/replace/{real}", fake)
    assert await git(mirror.path, "cat-file", "blob", f"{await mirror.tree(real)}:a") == b"real"


@pytest.mark.threat(86)
async def test_other_transports_are_closed(tmp_path: Path, source: Any) -> None:
    """The production default."""
    mirror = await Mirrors(tmp_path / "closed").of(1)
    with pytest.raises(ValueError, match="address"):
        await mirror.fetch(source.url, {"refs/run/r1/head": MAIN})


async def test_missing_refs_and_commits_are_named(mirror: Mirror, source: Any) -> None:
    source.commit({b"a": b"1"})
    for name in ("refs/heads/nope", "1" * 40):
        with pytest.raises(RefMissing, match=f"^The server has no {name}$"):
            await mirror.fetch(source.url, {"refs/run/r1/head": name})
    with pytest.raises(RefMissing):
        await mirror.resolve("refs/run/r1/head")


# ---- Merge bases ----------------------------------------------------------------------------------------------------


async def test_the_merge_base_is_found(mirror: Mirror, source: Any, take: Any) -> None:
    base = source.commit({b"a": b"1"})
    one, two = (source.commit({b"a": body}, base, ref=f"refs/heads/{body.decode()}") for body in (b"2", b"3"))
    await take(one, two)
    assert await mirror.merge_base(one, two) == base


@pytest.mark.threat(102)
async def test_unrelated_histories_have_none(mirror: Mirror, source: Any, take: Any) -> None:
    one, two = (source.commit({b"a": body}, ref=f"refs/heads/{body.decode()}") for body in (b"2", b"3"))
    await take(one, two)
    with pytest.raises(NoMergeBase, match="no merge base"):
        await mirror.merge_base(one, two)


@pytest.mark.threat(102)
async def test_a_base_that_was_forced_elsewhere_has_none(mirror: Mirror, source: Any) -> None:
    """What counts is where the base stands now: what it was at an earlier fetch of the same run is gone."""
    base = source.commit({b"a": b"1"})
    head = source.commit({b"a": b"2"}, base, ref="refs/pull/1/head")
    wanted = {"refs/run/r1/base": MAIN, "refs/run/r1/head": "refs/pull/1/head"}
    await mirror.fetch(source.url, wanted)
    assert await mirror.merge_base(await mirror.resolve("refs/run/r1/base"), head) == base
    source.commit({b"else": b"1"})
    await mirror.fetch(source.url, wanted)
    with pytest.raises(NoMergeBase, match="no merge base"):
        await mirror.merge_base(await mirror.resolve("refs/run/r1/base"), head)


@pytest.mark.threat(98)
async def test_a_merge_base_lies_as_deep_as_it_lies(mirror: Mirror, source: Any) -> None:
    """The history is whole, in the mirror alone: no depth of a fetch can cut the base off."""
    base = tip = head = source.commit({b"a": b"0"})
    for number in range(300):
        tip = source.commit({b"a": b"0"}, tip, message=b"%d\n" % number)
        head = source.commit({b"a": b"0"}, head, message=b"other %d\n" % number, ref="refs/pull/1/head")
    await mirror.fetch(source.url, {"refs/run/r1/base": MAIN, "refs/run/r1/head": "refs/pull/1/head"})
    assert await mirror.merge_base(tip, head) == base
    assert not (mirror.path / "shallow").exists()
    await brief(mirror, base, head, mirror.path.parent / "brief")
    log = (mirror.path.parent / "brief" / "log.txt").read_text().splitlines()
    assert len(log) == 201
    assert log[0].endswith("other 299")


# ---- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.threat("T11", 75, 76)
@pytest.mark.parametrize("name", [b".git", b".GIT", b"git~1", ".g\u200cit".encode()])
async def test_a_repository_inside_the_tree_is_refused(mirror: Mirror, source: Any, take: Any, name: bytes) -> None:
    commit = source.commit({name + b"/hooks/post-checkout": b"#!/bin/sh\n"})
    with pytest.raises(GitRefused, match=r"Git refused object [0-9a-f]{10}: .*git.*hasDotgit"):
        await take(commit)
    assert await refs(mirror) == []


@pytest.mark.threat(104)
@pytest.mark.parametrize("author", [b"A <x <y@z>", b"Evil\nparent 123 <x@y>", b"no mail", b"<>"])
async def test_a_name_that_breaks_its_commit_is_refused(mirror: Mirror, source: Any, take: Any, author: bytes) -> None:
    with pytest.raises(GitRefused, match=r"Git refused object [0-9a-f]{10}: .*(Email|missing)"):
        await take(source.commit({b"a": b"1"}, author=author))


async def test_old_harmless_faults_pass(mirror: Mirror, source: Any, take: Any) -> None:
    """Zero-padded modes stand in old histories of honest projects (decisions.md 2.2)."""
    blob = source.put("blob", b"x")
    below = source.tree_of([("100644", b"f", blob)])
    tree = source.put("tree", b"040000 d\0" + bytes.fromhex(below))
    commit = await take(source.commit(tree))
    assert await git(mirror.path, "cat-file", "blob", f"{commit}:d/f") == b"x"


async def test_an_old_fault_does_not_cover_a_dangerous_one(mirror: Mirror, source: Any, take: Any) -> None:
    blob = source.put("blob", b"x")
    below = source.tree_of([("100644", b".git", blob)])
    tree = source.put("tree", b"040000 d\0" + bytes.fromhex(below))
    with pytest.raises(GitRefused, match="hasDotgit"):
        await take(source.commit(tree))


@pytest.mark.threat(86)
@pytest.mark.parametrize(
    "url",
    [
        b"ext::sh -c touch% /tmp/x",
        b"--upload-pack=x",
        b"ssh://-oProxyCommand=x/y",
        b"file:///etc",
        b"../..",
        b"https://example.org/x",
    ],
)
async def test_submodules_are_never_looked_at(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path, url: bytes
) -> None:
    """A harmless address is ignored, a dangerous one refused by git's own check; nothing is run."""
    files = {b".gitmodules": b'[submodule "s"]\n\tpath = s\n\turl = ' + url + b"\n", b"s": ("160000", b"1" * 40)}
    try:
        commit = await take(source.commit(files))
    except GitRefused as error:
        assert "gitmodules" in str(error)
        return
    done = await materialise(mirror, commit, tmp_path / "tree")
    assert {each.path: each.why for each in done.skipped}["s"] == "a submodule"
    assert not (tmp_path / "tree" / "s").exists()


@pytest.mark.threat(86)
async def test_a_carriage_return_in_a_submodules_path_does_nothing(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path
) -> None:
    """CVE-2025-48384."""
    modules = b'[submodule "s"]\n\tpath = "s\r"\n\turl = https://example.org/s\n'
    commit = await take(source.commit({b".gitmodules": modules, b"s\r": ("160000", b"1" * 40), b"a": b"1"}))
    done = await materialise(mirror, commit, tmp_path / "tree")
    assert ("s\\x0d", "control characters in its name") in {(each.path, each.why) for each in done.skipped}


async def test_a_repository_of_sha256_is_refused(
    mirror: Mirror, new_source: Callable[[str], Any], tmp_path: Path
) -> None:
    other = tmp_path / "long.git"
    (await git(None, "init", "-q", "--bare", "--object-format=sha256", str(other)))
    tree = (await git(other, "mktree")).decode().strip()
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    commit = (await git(other, "commit-tree", "-m", "x", tree, env=identity)).decode().strip()
    await git(other, "update-ref", MAIN, commit)
    with pytest.raises(GitRefused, match="SHA-256"):
        await mirror.fetch(f"file://{other}", {"refs/run/r1/head": MAIN})


@pytest.mark.threat(105)
async def test_large_blobs_do_not_arrive(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    """Missing is missing, never fetched behind our back."""
    big = source.put("blob", bytes(21 * 1024 * 1024))
    small = source.put("blob", b"small")
    tree = source.tree_of([("100644", b"big", big), ("100644", b"small", small)])
    commit = await take(source.commit(tree))
    done = await materialise(mirror, commit, tmp_path / "tree")
    assert [(each.path, each.why) for each in done.skipped] == [("big", "larger than 20 MB")]
    assert [entry.name for entry in (tmp_path / "tree").iterdir()] == ["small"]
    with pytest.raises(GitFailed):
        await git(mirror.path, "cat-file", "blob", big)


async def test_a_server_without_filters_does_too(mirror: Mirror, source: Any, take: Any) -> None:
    source.git("config", "uploadpack.allowFilter", "false")
    await mirror.resolve(await take(source.commit({b"a": b"1"})))


# ---- Over HTTP ------------------------------------------------------------------------------------------------------


@pytest.mark.threat("T30")
async def test_the_token_opens_the_server_and_stays_nowhere(tmp_path: Path, source: Any, server: Any) -> None:
    commit = source.commit({b"a": b"1"})
    mirror = await Mirrors(tmp_path / "m").of(1)
    await mirror.fetch(server.url(source), {"refs/run/r1/head": MAIN}, server.token)
    assert await mirror.resolve("refs/run/r1/head") == commit
    secrets = [path for path in mirror.path.rglob("*") if path.is_file() and b"ghs_" in path.read_bytes()]
    assert secrets == []
    config = (mirror.path / "config").read_text()
    assert "127.0.0.1" not in config


@pytest.mark.parametrize("token", [None, "ghs_wrong"])
async def test_a_wrong_token_is_the_workers_trouble(
    tmp_path: Path, source: Any, server: Any, token: str | None
) -> None:
    source.commit({b"a": b"1"})
    mirror = await Mirrors(tmp_path / "m").of(1)
    with pytest.raises(GitUnavailable):
        await mirror.fetch(server.url(source), {"refs/run/r1/head": MAIN}, token)


@pytest.mark.parametrize("status", [302, 404, 500, 503])
async def test_a_server_in_trouble_is_unavailable_and_not_followed(
    tmp_path: Path, source: Any, server: Any, status: int
) -> None:
    mirror = await Mirrors(tmp_path / "m").of(1)
    server.status = status
    with pytest.raises(GitUnavailable):
        await mirror.fetch(server.url(source), {"refs/run/r1/head": MAIN}, server.token)
    assert all(path.startswith("/source.git/") for path in server.asked)


async def test_no_server_at_all_is_unavailable(tmp_path: Path) -> None:
    mirror = await Mirrors(tmp_path / "m").of(1)
    with pytest.raises(GitUnavailable, match="git fetch failed"):
        await mirror.fetch("http://127.0.0.1:1/o/r.git", {"refs/run/r1/head": MAIN}, "x")
