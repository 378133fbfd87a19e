"""Commits, packs and pushes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from worker.git import GitUnavailable, PushRefused, Remote, TooLarge, git
from worker.git import commit as room
from worker.git.commit import MOVED, Identity, _push_error, commit, pack, push, unpack
from worker.git.mirror import Mirror, Mirrors
from worker.git.new_tree import NewFile, write_tree
from worker.process import Finished

WHEN = datetime(2026, 5, 1, 12, 30, 15, tzinfo=UTC)
BOT = Identity("codex-debate[bot]", "1+codex-debate[bot]@users.noreply.github.com")
BRANCH = "refs/heads/codex-debate/pr-1/r1"


async def shown(mirror: Mirror, oid: str) -> bytes:
    return await git(mirror.path, "cat-file", "commit", oid)


@pytest.fixture
async def head(source: Any, take: Any) -> str:
    head: str = await take(source.commit({b"a": b"1\n"}))
    return head


async def child(mirror: Mirror, parent: str, text: str = "2\n") -> str:
    oid = (await git(mirror.path, "hash-object", "-w", "--stdin", stdin=text.encode())).strip()
    files = {b"a": NewFile(oid, b"100644", None)}
    tree = await write_tree(mirror, parent, files, ())
    return await commit(mirror, tree, parent, message="fix: a\n", identity=BOT, when=WHEN)


async def test_a_commit_is_the_same_whoever_makes_it(
    mirror: Mirror, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = await mirror.tree(head)
    message = "fix: debate round 1 (F1)\n\n# kept\n\nDebate-Run: r1\nDebate-Finding: F1 fixed\n"
    made = await commit(mirror, tree, head, message=message, identity=BOT, when=WHEN)
    assert (await shown(mirror, made)).decode() == (
        f"tree {tree}\nparent {head}\n"
        f"author {BOT.name} <{BOT.email}> 1777638615 +0000\n"
        f"committer {BOT.name} <{BOT.email}> 1777638615 +0000\n\n{message}"
    )
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    elsewhere = WHEN.astimezone(timezone(timedelta(hours=9)))
    assert await commit(mirror, tree, head, message=message, identity=BOT, when=elsewhere) == made


@pytest.mark.threat(104)
async def test_names_and_messages_cannot_break_a_commit(mirror: Mirror, head: str) -> None:
    tree = await mirror.tree(head)
    evil = Identity("evil\nparent 123 <x>" + "n" * 10_000, "a@b>\ncommitter x")
    made = await commit(mirror, tree, head, message="a\0b \ud800 " + "m" * 1_000_000, identity=evil, when=WHEN)
    header, _, body = (await shown(mirror, made)).partition(b"\n\n")
    assert [line.split(b" ")[0] for line in header.splitlines()] == [b"tree", b"parent", b"author", b"committer"]
    assert len(header) < 600
    assert body.startswith(b"ab ? mmm")
    await commit(mirror, tree, head, message="", identity=Identity("...", ""), when=WHEN)


async def test_a_time_without_a_zone_is_refused(mirror: Mirror, head: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        await commit(mirror, await mirror.tree(head), head, message="x", identity=BOT, when=WHEN.replace(tzinfo=None))


# ---- Packs ----------------------------------------------------------------------------------------------------------


async def test_a_rounds_objects_are_kept_and_come_back(mirror: Mirror, source: Any, head: str, tmp_path: Path) -> None:
    made = await child(mirror, head)
    raw = await pack(mirror, made, head)
    assert len(raw) < 1000
    other = await Mirrors(tmp_path / "other", also=("file",)).of(1)
    await other.fetch(source.url, {"refs/run/r1/head": head})
    await unpack(other, raw)
    await unpack(other, raw)
    assert await git(other.path, "cat-file", "blob", f"{made}:a") == b"2\n"


async def test_trees_are_packed_too(mirror: Mirror, head: str, tmp_path: Path) -> None:
    made = await child(mirror, head)
    raw = await pack(mirror, await mirror.tree(made), await mirror.tree(head))
    other = await Mirrors(tmp_path / "other").of(1)
    await unpack(other, raw)
    assert await other.tree(await mirror.tree(made))


@pytest.mark.threat(105)
async def test_a_missing_blob_beside_it_does_no_harm(mirror: Mirror, source: Any, take: Any) -> None:
    head = await take(source.commit({b"a": b"1\n", b"big": bytes(21 * 1024 * 1024)}))
    made = await child(mirror, head)
    assert len(await pack(mirror, made, head)) < 1000
    await push(mirror, Remote(source.url), made, ref=BRANCH)
    assert source.git("rev-parse", BRANCH) == made


async def test_too_large_a_round_is_not_kept(mirror: Mirror, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions 2.7."""
    monkeypatch.setattr(room, "PACK_BYTES", 100)
    with pytest.raises(TooLarge):
        await pack(mirror, await child(mirror, head), head)


# ---- Pushes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(source: Any, server: Any) -> Remote:
    source.git("config", "http.receivepack", "true")
    source.git("config", "receive.hideRefs", "refs/pull")
    return Remote(server.url(source), server.token)


async def test_a_commit_is_pushed_to_a_new_branch_and_on(
    mirror: Mirror, source: Any, head: str, remote: Remote
) -> None:
    first = await child(mirror, head)
    second = await child(mirror, first, "3\n")
    for made in (first, second):
        await push(mirror, remote, made, ref=BRANCH)
        assert source.git("rev-parse", BRANCH) == made


@pytest.mark.threat("R28")
async def test_a_push_that_was_done_is_not_done_again(mirror: Mirror, head: str, remote: Remote, server: Any) -> None:
    made = await child(mirror, head)
    await push(mirror, remote, made, ref=BRANCH)
    server.asked.clear()
    await push(mirror, remote, made, ref=BRANCH)
    # What is asked is what stands there; nothing is sent.
    assert not any(path.endswith("/git-receive-pack") for path in server.asked)


async def test_nothing_is_ever_forced(mirror: Mirror, source: Any, head: str, remote: Remote) -> None:
    one, other = await child(mirror, head), await child(mirror, head, "3\n")
    await push(mirror, remote, one, ref=BRANCH)
    with pytest.raises(PushRefused, match=MOVED):
        await push(mirror, remote, other, ref=BRANCH)
    assert source.git("rev-parse", BRANCH) == one


@pytest.mark.threat("R27")
async def test_the_servers_reason_is_told_clean(mirror: Mirror, source: Any, head: str, remote: Remote) -> None:
    hook = source.path / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nprintf 'error: GH006: \\033[31mProtected branch\\n\\007' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushRefused, match=r"GH006: .*Protected branch.*pre-receive hook declined") as caught:
        await push(mirror, remote, await child(mirror, head), ref=BRANCH)
    assert str(caught.value).isprintable()


async def test_only_branches_are_pushed_to(mirror: Mirror, head: str, remote: Remote) -> None:
    for ref in ("refs/pull/1/head", "refs/tags/x", "main", "+refs/heads/x", "refs/heads/x:refs/heads/y", "--force"):
        with pytest.raises(ValueError, match=r"branches|full ref"):
            await push(mirror, remote, head, ref=ref)


async def test_a_token_that_may_not_write_is_refused(mirror: Mirror, source: Any, head: str, remote: Remote) -> None:
    source.git("config", "http.receivepack", "false")
    with pytest.raises(PushRefused, match="403"):
        await push(mirror, remote, await child(mirror, head), ref=BRANCH)


async def test_a_server_that_is_away_is_no_refusal(mirror: Mirror, head: str, server: Any, remote: Remote) -> None:
    server.status = 503
    with pytest.raises(GitUnavailable):
        await push(mirror, remote, head, ref=BRANCH)


def test_a_rate_limit_is_no_refusal() -> None:
    words = (
        "remote: You have exceeded a secondary rate limit.\n"
        "fatal: unable to access 'x': The requested URL returned error: 403\n"
    )
    assert isinstance(_push_error(Finished(128, b"", words.encode())), GitUnavailable)
    denied = words.replace("You have exceeded a secondary rate limit", "Permission to o/r.git denied to x[bot]")
    assert isinstance(_push_error(Finished(128, b"", denied.encode())), PushRefused)
