"""The whole way of a hostile pull request: nothing that it or an agent ships is run, and a bomb takes no room."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import subprocess
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker.git import GitRefused, GitUnavailable, Remote, git
from worker.git.admit import AdmitRules, RoundRefused, admit
from worker.git.brief import brief
from worker.git.commit import Identity, commit, pack, push, unpack
from worker.git.mirror import Mirror, Mirrors
from worker.git.tree import diffstat, materialise, patch

# ---- Traps ----------------------------------------------------------------------------------------------------------

HOOKS = ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-push")
CONFIG = """
[core]
    fsmonitor = {bin}/fsmonitor
    hooksPath = {bin}
    sshCommand = {bin}/ssh
    editor = {bin}/editor
    pager = {bin}/pager
    askPass = {bin}/askpass
    alternateRefsCommand = {bin}/alternate-refs
[include]
    path = {bin}/included
[filter "one"]
    clean = {bin}/clean
    smudge = {bin}/smudge
[filter "two"]
    process = {bin}/process
[diff "one"]
    textconv = {bin}/textconv
[diff "two"]
    command = {bin}/diff-driver
[diff]
    external = {bin}/external-diff
[merge "one"]
    driver = {bin}/merge-driver
[gpg]
    program = {bin}/gpg
[commit]
    gpgSign = true
[log]
    showSignature = true
[credential]
    helper = {bin}/credential
[remote "trap"]
    url = .
    uploadpack = {bin}/upload-pack
    receivepack = {bin}/receive-pack
[uploadpack]
    packObjectsHook = {bin}/pack-objects
"""
TRAPS = {
    *HOOKS,
    *("fsmonitor", "ssh", "editor", "pager", "askpass", "alternate-refs", "clean", "smudge", "process", "included"),
    *("textconv", "diff-driver", "external-diff", "merge-driver", "gpg", "credential"),
    *("upload-pack", "receive-pack", "pack-objects"),
}
ATTRIBUTES = (
    b"a.txt filter=one diff=one merge=one\nb.txt filter=two diff=two\nc.txt filter=included\n"
    b"*.lfs filter=lfs diff=lfs merge=lfs -text\n"
)
PULL = {
    b".gitattributes": ATTRIBUTES,
    b".lfsconfig": b"[lfs]\n\turl = ext::sh -c 'touch trapped'\n",
    b"a.txt": b"a\n" * 9,
    b"b.txt": b"b\n",
    b"c.txt": b"c\n",
    b"d.lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 12\n" % (b"1" * 64),
}


WHEN = datetime(2026, 5, 1, tzinfo=UTC)


class Traps:
    """Programs that leave a mark when they are run, and configuration that names each of them."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.marks = root / "marks"
        for folder in (self.bin, self.marks, root / "home"):
            folder.mkdir(parents=True)
        for name in TRAPS | {"of-the-include"}:
            mark = "included" if name == "of-the-include" else name
            # A filter hands on what it gets, and a monitor says that everything has changed.
            then = {"clean": "cat", "smudge": "cat", "fsmonitor": "printf 'x\\0/\\0'"}.get(name, "")
            (self.bin / name).write_text(f"#!/bin/sh\n: > {self.marks / mark}\n{then}\n")
            (self.bin / name).chmod(0o755)
        (self.bin / "included").write_text(f'[filter "included"]\n\tclean = {self.bin}/of-the-include\n')
        self.config = CONFIG.format(bin=self.bin)
        self.home = root / "home"
        (self.home / ".gitconfig").write_text(self.config)

    @property
    def sprung(self) -> set[str]:
        return {mark.name for mark in self.marks.iterdir()}

    def environment(self) -> dict[str, str]:
        """Return what a worker might have inherited."""
        return {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home),
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"),
            "GIT_CONFIG_SYSTEM": str(self.home / ".gitconfig"),
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{self.bin}/fsmonitor'",
            "GIT_TEMPLATE_DIR": str(self.home),
            "GIT_EXTERNAL_DIFF": str(self.bin / "external-diff"),
            "GIT_SSH_COMMAND": str(self.bin / "ssh"),
            "GIT_EDITOR": str(self.bin / "editor"),
            "GIT_PAGER": str(self.bin / "pager"),
            "GIT_ASKPASS": str(self.bin / "askpass"),
        }

    def lay(self, folder: Path) -> None:
        """Do what an agent can do: make a folder a repository, bare or not, that is full of traps."""
        (folder / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (folder / "objects" / "info" / "alternates").write_text("/srv/elsewhere/objects\n")
        (folder / "hooks").mkdir(exist_ok=True)
        for hook in HOOKS:
            (folder / "hooks" / hook).write_bytes((self.bin / hook).read_bytes())
            (folder / "hooks" / hook).chmod(0o755)
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_bytes(ATTRIBUTES)
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n{self.config}")


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return Traps(tmp_path / "traps")


@pytest.mark.threat("T10", 77, 81, 84)
async def test_git_trap_repo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, server: Any, traps: Traps
) -> None:
    """Over the worker's whole way none is sprung, and by a careless git in the same folder each one."""
    for name, value in traps.environment().items():
        monkeypatch.setenv(name, value)
    source.git("config", "http.receivepack", "true")
    base = source.commit(PULL)
    head = source.commit(PULL | {b"a.txt": b"A\n", b"b.txt": b"B\n", b"c.txt": b"C\n"}, base, ref="refs/pull/1/head")
    mirror = await Mirrors(tmp_path / "mirrors").of(1)
    remote = Remote(server.url(source), server.token)
    with pytest.raises(GitUnavailable):  # and nobody is asked for another token
        await mirror.fetch(remote.url, {"refs/run/r1/base": base}, "wrong")
    await mirror.fetch(remote.url, {"refs/run/r1/base": base, "refs/run/r1/head": head}, server.token)
    assert await mirror.merge_base(base, head) == base
    folder = tmp_path / "tree"
    await materialise(mirror, head, folder, base=base)
    await brief(mirror, base, head, tmp_path / "brief")
    traps.lay(folder)
    (folder / "a.txt").write_text("by the author\n")
    (folder / ".gitattributes").write_text("* filter=one diff=one merge=one\n")
    monkeypatch.chdir(folder)
    await _take_in(mirror, remote, (base, head), folder)
    (folder / ".git").mkdir()
    traps.lay(folder / ".git")
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await admit(mirror, head, folder)
    assert traps.sprung == set()
    be_careless(traps, folder, url=server.url(source))
    assert traps.sprung == TRAPS, "a trap that nothing springs proves nothing"


async def _take_in(mirror: Mirror, remote: Remote, ends: tuple[str, str], folder: Path) -> None:
    """Go the way of a round: what the author left becomes a tree, a commit, a pack, a push and texts."""
    base, head = ends
    admitted = await admit(mirror, head, folder)
    assert {"a.txt", "config", "HEAD", "hooks/pre-commit"} < set(admitted.changed)
    assert [refusal.path for refusal in admitted.refused] == [".gitattributes"]
    made = await commit(mirror, admitted.tree, head, message="fix: a\n", identity=Identity("bot", "b@c"), when=WHEN)
    await unpack(mirror, await pack(mirror, made, head))
    await push(mirror, remote, made, ref="refs/heads/codex-debate/pr-1/r1")
    await brief(mirror, base, made, folder.parent / "brief", head)
    assert "by the author" in await patch(mirror, head, made, limit=100_000)
    assert (await diffstat(mirror, head, made)).files == len(admitted.changed)
    await mirror.drop_refs("r1")
    await mirror.tidy()


def be_careless(traps: Traps, folder: Path, *, url: str) -> None:
    """Do with a folder of an agent what no worker may: let git have it. Some commands fail at their trap."""
    terminal, screen = os.openpty()
    env = {"PATH": os.defpath, "HOME": str(traps.home), "TERM": "xterm"}
    env |= {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def git(*argv: str, out: int = subprocess.DEVNULL) -> None:
        command = ["git", "-c", "safe.directory=*", *argv]
        subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, check=False
        )

    calm = ("-c", "commit.gpgSign=false", "-c", "filter.two.process=")
    git("add", "b.txt")
    git(*calm, "add", "-A", ".")
    git(*calm, "commit", "-m", "one")
    git("-c", "filter.two.process=", "commit", "--allow-empty", "-m", "signed")
    git(*calm, "commit", "--amend")
    git(*calm, "branch", "other")
    for branch in ("main", "other"):
        git(*calm, "checkout", "-f", branch)
        (folder / "a.txt").write_text(f"{branch}\n")
        git(*calm, "commit", "-m", branch, "a.txt")
    git(*calm, "merge", "main")
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("changed\n")
    git(*calm, "diff")
    git(*calm, "diff", "--no-ext-diff")
    git("log", "--oneline", out=screen)
    git("ls-remote", "ssh://127.0.0.1:1/x")
    git("ls-remote", url)
    git("fetch", "trap")
    git("push", "trap", "HEAD:refs/heads/new")
    git("push", "--receive-pack=git-receive-pack", ".", "HEAD:refs/heads/new")
    git("clone", "--no-local", ".", str(folder.parent / "clone"))
    os.close(terminal)
    os.close(screen)


# ---- Bombs ----------------------------------------------------------------------------------------------------------

GIB = 1024**3


def blob_of_zeros(source: Any, size: int) -> str:
    """Put a blob of so many zeros into a source, without ever holding it: the same packed piece again and again."""
    header = b"blob %d\0" % size
    piece = bytes(1 << 20)
    digest = hashlib.sha1(header, usedforsecurity=False)
    pack = zlib.compressobj(9)
    packed = [pack.compress(header) + pack.flush(zlib.Z_FULL_FLUSH)]
    for _ in range(size // len(piece)):
        digest.update(piece)
    packed += [pack.compress(piece) + pack.flush(zlib.Z_FULL_FLUSH)] * (size // len(piece))
    # What ends the stream, and Adler's sum of it all (RFC 1950): of zeros, the second half grows by the first each.
    one = zlib.adler32(header)
    low, high = one & 0xFFFF, ((one >> 16) + size * (one & 0xFFFF)) % 65521
    packed.append(b"\x03\x00" + ((high << 16) | low).to_bytes(4, "big"))
    oid = digest.hexdigest()
    place = source.path / "objects" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"".join(packed))
    return oid


def tree_of_many(source: Any) -> str:
    """Return a tree of 10¹² paths, each of a megabyte, in a few kilobytes."""
    blob = source.put("blob", bytes(1 << 20))
    tree = source.tree_of([("100644", b"f%d" % n, blob) for n in range(10)])
    for _ in range(11):
        tree = source.tree_of([("40000", b"d%d" % n, tree) for n in range(10)])
    return str(tree)


def room_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(each.lstat().st_blocks * 512 for each in folder.rglob("*"))


def without_diffs(where: str) -> Callable[..., Any]:
    """Return a function of git's room as it is, but for comparing trees."""
    real = pkgutil.resolve_name(where)

    def asked(gitdir: Path, *argv: str | bytes, **more: Any) -> Any:
        assert "diff-tree" not in argv
        return real(gitdir, *argv, **more)

    return asked


@pytest.mark.threat("T13", 95)
@pytest.mark.parametrize("bomb", ["10¹² paths", "a blob of 1 GiB"])
async def test_git_bomb(
    mirror: Mirror, source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    """What is small to ship and huge to unfold: it is refused, or left out by name, and takes no room at all."""
    rows = [("100644", b"a", source.put("blob", b"x"))]
    base = source.commit(source.tree_of(rows))
    paths = bomb == "10¹² paths"
    rows.append(("40000", b"b", tree_of_many(source)) if paths else ("100644", b"b", blob_of_zeros(source, GIB)))
    head = source.commit(source.tree_of(rows), base, ref="refs/pull/1/head")
    assert room_of(source.path) < 4 << 20
    await mirror.fetch(source.url, {"refs/run/r1/base": base, "refs/run/r1/head": head})
    if paths:
        # git must not be asked what differs: it would gather all of it in memory first.
        for where in ("worker.git.entries.program", "worker.git.brief.git"):
            monkeypatch.setattr(where, without_diffs(where))
        with pytest.raises(GitRefused, match="it changes more than 200,000 files"):
            await materialise(mirror, head, tmp_path / "tree", base=base)
        with pytest.raises(GitRefused, match="it changes more than 200,000 files"):
            await brief(mirror, base, head, tmp_path / "brief")
        with pytest.raises(GitRefused, match="it has more than 200,000 files or 2 GiB"):
            await materialise(mirror, head, tmp_path / "tree")
    else:
        done = await materialise(mirror, head, tmp_path / "tree", base=base)
        assert [(each.path, each.why) for each in done.skipped] == [("b", "larger than 20 MB")]
        (file,) = await brief(mirror, base, head, tmp_path / "brief")
        assert (file.path, file.coverage, file.why) == ("b", "skipped", "larger than 20 MB")
    assert room_of(mirror.path) + room_of(tmp_path / "tree") < 1 << 20


@pytest.mark.threat("T13", 95)
async def test_a_bomb_that_was_there_before_does_not_hide_the_change(
    mirror: Mirror, source: Any, tmp_path: Path
) -> None:
    """A tree of 10¹² paths of which one is changed: that one's folder is read, and the rest is not even listed."""
    many = ("40000", b"b", tree_of_many(source))
    base, head = (
        source.commit(source.tree_of([("100644", b"a", source.put("blob", text)), many]), *parents, ref=ref)
        for text, parents, ref in ((b"1\n", (), "refs/heads/main"), (b"2\n", (), "refs/pull/1/head"))
    )
    await mirror.fetch(source.url, {"refs/run/r1/base": base, "refs/run/r1/head": head})
    done = await materialise(mirror, head, tmp_path / "tree", base=base)
    assert (done.narrowed, done.entries) == (True, 1)
    assert [file.path for file in await brief(mirror, base, head, tmp_path / "brief")] == ["a"]
    (tmp_path / "tree" / "a").write_text("3\n")
    admitted = await admit(mirror, head, tmp_path / "tree", AdmitRules(base=base))
    assert admitted.changed == ("a",)
    assert (await git(mirror.path, "ls-tree", admitted.tree)).split()[-2:] == [many[2].encode(), b"b"]
    assert room_of(mirror.path) + room_of(tmp_path / "tree") < 1 << 20
