"""Repositories made of repositories on this machine, which are only read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from deploy.standin import GitError, StandIn
from deploy.standin.hosting import Hosting


@pytest.fixture
async def source(git: Any, tmp_path: Path) -> Path:
    """Somebody's repository: two branches, uncommitted work, and a commit that no branch holds."""
    folder = tmp_path / "source"
    await git("init", "-q", "-b", "trunk", str(folder))
    for index in range(3):
        (folder / "a.txt").write_text(f"{index}\n")
        await git("add", ".", cwd=folder)
        await git("commit", "-qm", f"commit {index}", cwd=folder)
    await git("branch", "topic/one", "HEAD~1", cwd=folder)
    await git("checkout", "-q", "--detach", cwd=folder)
    await git("commit", "-q", "--allow-empty", "-m", "detached", cwd=folder)
    (folder / "a.txt").write_text("not committed\n")
    (folder / "below").mkdir()
    return folder


def fingerprint(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in files
    }


async def test_all_branches_come_and_the_source_is_untouched(standin: StandIn, source: Path) -> None:
    before = fingerprint(source)
    repo = await standin.create_repository("me/mine", source, default_branch="trunk")
    assert (await standin.branches(repo)).keys() == {"trunk", "topic/one"}
    assert await standin.read_file(repo, "trunk", "a.txt") == b"2\n"
    assert fingerprint(source) == before


async def test_any_commit_can_become_a_branch(standin: StandIn, source: Path, git: Any) -> None:
    sha = (await git("rev-parse", "HEAD", cwd=source))[1].strip()
    short = (await git("rev-parse", "--short", "trunk", cwd=source))[1].strip()
    refs = {"HEAD": "head", "refs/heads/trunk": "main", f"{short}~1": "older", "topic/one": "topic/one"}
    repo = await standin.create_repository("me/mine", source, source_refs=refs)
    branches = await standin.branches(repo)
    assert branches.keys() == {"head", "main", "older", "topic/one"}
    assert branches["head"] == sha
    assert branches["older"] == branches["topic/one"]
    assert [each.subject for each in await standin.log(repo, "head", since="main")] == ["detached"]


async def test_a_commit_that_no_ref_holds_can_become_a_branch(standin: StandIn, source: Path, git: Any) -> None:
    sha = (await git("rev-parse", "HEAD", cwd=source))[1].strip()
    await git("checkout", "-q", "-f", "trunk", cwd=source)
    repo = await standin.create_repository("me/mine", source, source_refs={sha: "lost"})
    assert await standin.read_ref(repo, "lost") == sha


async def test_a_ref_that_is_not_there(standin: StandIn, source: Path) -> None:
    with pytest.raises(GitError):
        await standin.create_repository("me/mine", source, source_refs={"none": "main"})
    with pytest.raises(GitError):
        await standin.create_repository("me/other", source, source_refs={"--all": "main"})


@pytest.mark.parametrize("kind", ["folder", "git folder", "bare", "worktree", "shallow", "odd name"])
async def test_every_kind_of_repository_can_be_a_source(
    standin: StandIn, source: Path, git: Any, tmp_path: Path, kind: str
) -> None:
    made = tmp_path / "sou rce's*"
    commands: dict[str, list[str]] = {
        "bare": ["clone", "-q", "--bare", str(source), str(made)],
        "worktree": ["-C", str(source), "worktree", "add", "-q", str(made), "trunk"],
        "shallow": ["clone", "-q", "--depth=1", "-b", "trunk", f"file://{source}", str(made)],
        "odd name": ["clone", "-q", "-b", "trunk", str(source), str(made)],
    }
    if kind in commands:
        code, words = await git(*commands[kind])
        assert code == 0, words
    where = {"folder": source / "below", "git folder": source / ".git"}.get(kind, made)
    repo = await standin.create_repository("me/mine", where, source_refs={"trunk": "main"})
    assert await standin.read_file(repo, "main", "a.txt") == b"2\n"
    code, words = await git("clone", "-q", standin.clone_url(repo), "out", token=standin.token(repo))
    assert code == 0, words


async def test_a_repository_of_another_owner_can_be_a_source(
    standin: StandIn, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # git's own tests say so to it, since only root could give the folder away.
    plain = Hosting.env
    monkeypatch.setattr(Hosting, "env", lambda self: plain(self) | {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    repo = await standin.create_repository("me/mine", source)
    assert "trunk" in await standin.branches(repo)


async def test_what_is_no_repository_is_said_so(standin: StandIn, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        await standin.create_repository("me/mine", tmp_path / "plain")


async def test_branches_are_pushed_from_a_source(standin: StandIn, source: Path, git: Any, receiver: Any) -> None:
    repo = await standin.create_repository("me/mine", source, source_refs={"topic/one": "main", "trunk": "head"})
    number = await standin.open_pull_request(repo, "head")
    receiver.got.clear()
    await standin.add_branches(repo, source, {"HEAD": "head", "topic/one": "main"})
    sha = (await git("rev-parse", "HEAD", cwd=source))[1].strip()
    assert standin.pull(repo, number).head_sha == sha
    assert [headers["X-GitHub-Event"] for headers, _ in receiver.got] == ["push", "pull_request"]
