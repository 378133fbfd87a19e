"""git itself against the stand-in: clone, fetch, push, and what is refused."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.standin import RefUpdate, Repo, StandIn

ZEROS = "0" * 40
PUSHES = "/octo/demo.git/git-receive-pack"


@pytest.fixture
async def clone(standin: StandIn, repo: Repo, git: Any, tmp_path: Path) -> Path:
    """A clone of the repository, on `feature/x`."""
    folder = tmp_path / "clone"
    code, words = await git(
        "clone", "-q", "-b", "feature/x", standin.clone_url(repo), str(folder), token=standin.token(repo)
    )
    assert code == 0, words
    return folder


async def committed(git: Any, clone: Path, name: str = "a.py", text: str = "3\n") -> str:
    path = clone / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    await git("add", ".", cwd=clone)
    code, words = await git("commit", "-qm", f"change {name}", cwd=clone)
    assert code == 0, words
    _, sha = await git("rev-parse", "HEAD", cwd=clone)
    return str(sha.strip())


async def test_a_clone_has_the_files(clone: Path) -> None:
    assert (clone / "a.py").read_text() == "one\n2\n"
    assert not (clone / "gone.txt").exists()


async def test_no_bad_and_expired_credentials_are_401(standin: StandIn, repo: Repo, git: Any) -> None:
    url = standin.clone_url(repo)
    standin.token_seconds = 0
    for token in (None, "ghs_wrong", standin.token(repo)):
        code, words = await git("ls-remote", url, token=token)
        assert code != 0
        assert "could not read Username" in words or "Authentication failed" in words
    assert {each.status for each in standin.journal} == {401}


async def test_a_token_is_the_password_and_not_the_user(
    standin: StandIn, repo: Repo, session: aiohttp.ClientSession, basic: Any
) -> None:
    url = f"{standin.clone_url(repo)}/info/refs?service=git-upload-pack"
    token = standin.token(repo)
    for login, status in (
        (basic("x-access-token", token), 200),
        (basic(token, "x-oauth-basic"), 401),
        (f"Bearer {token}", 401),
        ("Basic !!!", 401),
        ("", 401),
    ):
        async with session.get(url, headers={"Authorization": login}) as answer:
            assert answer.status == status
            assert ("WWW-Authenticate" in answer.headers) == (status == 401)


async def test_pull_heads_and_any_commit_can_be_fetched(
    standin: StandIn, repo: Repo, number: int, git: Any, clone: Path
) -> None:
    token = standin.token(repo, {"contents": "read"})
    sha = standin.pull(repo, number).head_sha
    code, words = await git("ls-remote", standin.clone_url(repo), token=token)
    assert f"{sha}\trefs/pull/{number}/head" in words
    for wanted in (f"refs/pull/{number}/head", sha):
        code, words = await git("fetch", "-q", "origin", f"{wanted}:refs/got", cwd=clone, token=token)
        assert code == 0, words
        assert (await git("rev-parse", "refs/got", cwd=clone))[1].strip() == sha


async def test_filters_and_depth_are_supported(standin: StandIn, repo: Repo, git: Any, tmp_path: Path) -> None:
    token, url = standin.token(repo), standin.clone_url(repo)
    code, words = await git("clone", "-q", "--bare", "--filter=blob:none", url, "blobless", token=token)
    assert (code, words) == (0, "")
    _, missing = await git("rev-list", "--objects", "--all", "--missing=print", cwd=tmp_path / "blobless")
    assert "\n?" in missing
    code, words = await git("clone", "-q", "--depth=1", "-b", "feature/x", url, "shallow", token=token)
    assert code == 0
    assert (await git("rev-list", "--count", "HEAD", cwd=tmp_path / "shallow"))[1].strip() == "1"


async def test_a_push_moves_the_branch_the_pull_request_and_tells(
    standin: StandIn, repo: Repo, number: int, git: Any, clone: Path
) -> None:
    before = standin.pull(repo, number).head_sha
    new = await committed(git, clone)
    code, words = await git("push", "origin", "HEAD:refs/heads/feature/x", cwd=clone, token=standin.token(repo))
    assert code == 0, words
    assert await standin.read_ref(repo, "feature/x") == new
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == new
    assert standin.pull(repo, number).head_sha == new
    assert await standin.read_file(repo, "feature/x", "a.py") == b"3\n"
    (entry,) = [each for each in standin.journal if each.updates]
    assert entry.updates == (RefUpdate("refs/heads/feature/x", before, new),)
    assert entry.permissions is not None
    assert entry.permissions["contents"] == "write"
    await standin.settle()
    push, synchronize = standin.deliveries[-2:]
    assert (push.event, push.payload["before"], push.payload["after"]) == ("push", before, new)
    assert push.payload["sender"]["login"] == "codex-debate[bot]"
    assert [each["id"] for each in push.payload["commits"]] == [new]
    assert synchronize.payload["action"] == "synchronize"
    assert (synchronize.payload["before"], synchronize.payload["after"]) == (before, new)
    assert synchronize.payload["pull_request"]["head"]["sha"] == new
    assert synchronize.status == 202


async def test_a_new_branch_is_no_pull_request_s_business(
    standin: StandIn, repo: Repo, number: int, git: Any, clone: Path
) -> None:
    new = await committed(git, clone)
    ref = "refs/heads/codex-debate/pr-1/run"
    code, words = await git("push", "origin", f"HEAD:{ref}", cwd=clone, token=standin.token(repo))
    assert code == 0, words
    assert (await standin.branches(repo))["codex-debate/pr-1/run"] == new
    await standin.settle()
    assert [each.event for each in standin.deliveries[-2:]] == ["pull_request", "push"]
    assert standin.deliveries[-1].payload["created"] is True
    code, _ = await git("push", "origin", f":{ref}", cwd=clone, token=standin.token(repo))
    assert code == 0
    assert "codex-debate/pr-1/run" not in await standin.branches(repo)
    assert standin.pull(repo, number).head_sha != new


async def test_a_large_push_goes_through(standin: StandIn, repo: Repo, git: Any, clone: Path) -> None:
    # Above git's http.postBuffer it is sent in chunks, without a length.
    (clone / "large").write_bytes(os.urandom(3 * 1024 * 1024))
    await committed(git, clone)
    code, words = await git("push", "origin", "HEAD:refs/heads/large", cwd=clone, token=standin.token(repo))
    assert code == 0, words
    assert len(await standin.read_file(repo, "large", "large")) == 3 * 1024 * 1024


async def refused(git: Any, clone: Path, spec: str, token: str) -> str:
    code, words = await git("push", "origin", *spec.split(), cwd=clone, token=token)
    assert code != 0
    return str(words)


async def test_a_read_only_token_may_not_push(standin: StandIn, repo: Repo, git: Any, clone: Path) -> None:
    words = await refused(git, clone, "HEAD:refs/heads/y", standin.token(repo, {"contents": "read"}))
    assert "403" in words
    assert "remote: Write access to repository not granted." in words


async def test_without_contents_nothing_can_be_read(standin: StandIn, repo: Repo, git: Any) -> None:
    code, words = await git("ls-remote", standin.clone_url(repo), token=standin.token(repo, {"checks": "write"}))
    assert code != 0
    assert "403" in words


async def test_a_token_of_another_repository(standin: StandIn, repo: Repo, git: Any, clone: Path) -> None:
    other = standin.token(await standin.create_repository("octo/other"))
    words = await refused(git, clone, "HEAD:refs/heads/y", other)
    assert "Permission to octo/demo.git denied to codex-debate[bot]." in words
    secret = await standin.create_repository("octo/secret", private=True)
    for url in (standin.clone_url(secret), standin.clone_url(repo).replace("demo", "nowhere")):
        code, words = await git("ls-remote", url, token=other)
        assert code != 0
        assert "Repository not found" in words or "not found" in words


async def test_pull_refs_are_hidden_from_pushes(
    standin: StandIn, repo: Repo, number: int, git: Any, clone: Path
) -> None:
    await committed(git, clone)
    words = await refused(git, clone, f"HEAD:refs/pull/{number}/head", standin.token(repo))
    assert "deny updating a hidden ref" in words


async def test_a_branch_that_moved_meanwhile_is_not_overwritten(
    standin: StandIn, repo: Repo, git: Any, clone: Path
) -> None:
    await committed(git, clone)
    theirs = await standin.commit(repo, "feature/x", {"theirs": "x"})
    words = await refused(git, clone, "HEAD:refs/heads/feature/x", standin.token(repo))
    assert "[rejected]" in words
    assert await standin.read_ref(repo, "feature/x") == theirs


async def test_workflow_files_need_a_permission_of_their_own(
    standin: StandIn, repo: Repo, git: Any, clone: Path
) -> None:
    plain = await committed(git, clone)
    workflow = await committed(git, clone, ".github/workflows/ci.yml", "on: push\n")
    later = await committed(git, clone, "b.py")
    words = await refused(git, clone, f"{later}:refs/heads/with {plain}:refs/heads/without", standin.token(repo))
    assert (
        "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` "
        "without `workflows` permission" in words
    )
    branches = await standin.branches(repo)
    assert branches["without"] == plain
    assert "with" not in branches
    # Once a person has pushed the file, a commit on top of it changes no workflow.
    granted = standin.token(repo, {"contents": "write", "workflows": "write"})
    code, words = await git("push", "origin", f"{workflow}:refs/heads/person", cwd=clone, token=granted)
    assert code == 0, words
    code, words = await git("push", "origin", f"{later}:refs/heads/with", cwd=clone, token=standin.token(repo))
    assert code == 0, words


async def test_protected_branches_are_refused_in_github_s_words(
    standin: StandIn, repo: Repo, git: Any, clone: Path
) -> None:
    standin.protect_branch(repo, "release/*", "At least 1 approving review is required.")
    words = await refused(git, clone, "HEAD:refs/heads/release/1", standin.token(repo))
    assert "remote: error: GH006: Protected branch update failed for refs/heads/release/1." in words
    assert "remote: error: At least 1 approving review is required." in words
    assert "(protected branch hook declined)" in words
    await standin.move_branch(repo, "release/1", str(await standin.read_ref(repo, "main")))
    assert "GH006" in await refused(git, clone, ":refs/heads/release/1", standin.token(repo))


async def test_a_push_whose_answer_is_lost_has_happened(
    standin: StandIn, repo: Repo, number: int, git: Any, clone: Path
) -> None:
    new = await committed(git, clone)
    standin.fail_next("POST", PUSHES, drop=True, when="after")
    words = await refused(git, clone, "HEAD:refs/heads/feature/x", standin.token(repo))
    assert "unexpected disconnect" in words
    assert "rejected" not in words
    assert await standin.read_ref(repo, "feature/x") == new
    assert standin.pull(repo, number).head_sha == new
    (only,) = standin.requests("POST", PUSHES)
    assert (only.status, [each.new for each in only.updates]) == (None, [new])
    await standin.settle()
    assert standin.deliveries[-1].payload["action"] == "synchronize"


async def test_a_push_that_is_dropped_before_has_not_happened(
    standin: StandIn, repo: Repo, git: Any, clone: Path
) -> None:
    before, told = await standin.read_ref(repo, "feature/x"), len(standin.deliveries)
    await committed(git, clone)
    standin.fail_next("POST", PUSHES, drop=True)
    words = await refused(git, clone, "HEAD:refs/heads/feature/x", standin.token(repo))
    assert "unexpected disconnect" in words
    await standin.settle()
    assert (await standin.read_ref(repo, "feature/x"), len(standin.deliveries)) == (before, told)
    assert [each.status for each in standin.requests("POST", PUSHES)] == [None]
    code, words = await git("push", "origin", "HEAD:refs/heads/feature/x", cwd=clone, token=standin.token(repo))
    assert code == 0, words


async def test_over_a_connection_that_is_kept_git_sends_a_dropped_push_again(
    standin: StandIn, repo: Repo, git: Any, clone: Path
) -> None:
    standin.git_keeps_connections = True
    new = await committed(git, clone)
    standin.fail_next("POST", PUSHES, drop=True, when="after")
    words = await refused(git, clone, "HEAD:refs/heads/feature/x", standin.token(repo))
    assert f"is at {new} but expected" in words
    assert [each.status for each in standin.requests("POST", PUSHES)] == [None, 200]


@pytest.mark.parametrize("how", [{"status": 503}, {"drop": True}, {"status": 500, "when": "after"}])
@pytest.mark.parametrize("step", ["info/refs", "git-upload-pack"])
async def test_a_fetch_that_fails(  # two parameters and the fixtures
    standin: StandIn, repo: Repo, git: Any, clone: Path, how: Any, step: str
) -> None:
    await standin.commit(repo, "main", {"new": "x"})
    standin.fail_next("*", f"/octo/demo.git/{step}", **how)
    code, _ = await git("fetch", "-q", "origin", cwd=clone, token=standin.token(repo))
    assert code != 0
    code, words = await git("fetch", "-q", "origin", cwd=clone, token=standin.token(repo))
    assert code == 0, words


async def test_a_renamed_repository_is_served_under_both_names(standin: StandIn, repo: Repo, git: Any) -> None:
    old = standin.clone_url(repo)
    renamed = standin.rename_repository(repo, "octo/renamed")
    for url in (old, standin.clone_url(renamed), old.removesuffix(".git")):
        code, words = await git("ls-remote", url, token=standin.token(renamed))
        assert code == 0, words


async def test_other_paths_and_old_protocols_are_refused(
    standin: StandIn, repo: Repo, session: aiohttp.ClientSession, basic: Any
) -> None:
    headers = {"Authorization": basic("x-access-token", standin.token(repo))}
    for path, status in (
        ("/", 404),
        ("/octo/demo", 404),
        ("/octo/demo.git/HEAD", 404),
        ("/octo/demo.git/../../gitconfig", 404),
        ("/octo/demo.git/info/refs", 403),
        ("/octo/demo.git/info/refs?service=git-nothing", 403),
        ("/octo/demo.git/git-upload-pack", 403),
    ):
        async with session.get(f"{standin.url}{path}", headers=headers) as answer:
            assert answer.status == status, path


async def test_many_push_and_fetch_at_once(standin: StandIn, repo: Repo, git: Any, clone: Path, tmp_path: Path) -> None:
    second = await standin.create_repository("octo/second", standin._site.state.repo(repo).path)
    await committed(git, clone)

    async def push(index: int) -> None:
        target = standin.clone_url(repo if index % 2 else second)
        token = standin.token(repo if index % 2 else second)
        code, words = await git("push", target, f"HEAD:refs/heads/b{index}", cwd=clone, token=token)
        assert code == 0, words

    await asyncio.gather(*(push(index) for index in range(6)))
    assert {"b1", "b3", "b5"} <= (await standin.branches(repo)).keys()
    assert {"b0", "b2", "b4"} <= (await standin.branches(second)).keys()
    assert sorted(each.updates[0].ref for each in standin.journal if each.updates) == [
        f"refs/heads/b{index}" for index in range(6)
    ]
    assert list((tmp_path / "github" / "reports").iterdir()) == []
