"""What owners do to accounts and repositories, and what the API and git say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.standin import Repo, StandIn


async def test_an_archived_repository_can_be_read_and_not_written(
    standin: StandIn, api: Any, git: Any, repo: Repo, number: int, tmp_path: Path
) -> None:
    standin.archive_repository(repo)
    assert (await api("GET", f"/repos/octo/demo/pulls/{number}")).body["base"]["repo"]["archived"] is True
    comment = await standin.comment(repo, number, "words")
    assert standin.deliveries[-1].payload["repository"]["archived"] is True
    sha = await standin.read_ref(repo, "main")
    for method, path, data in (
        ("POST", f"issues/{number}/comments", {"body": "x"}),
        ("PATCH", f"issues/comments/{comment}", {"body": "x"}),
        ("DELETE", f"issues/comments/{comment}", None),
        ("POST", f"issues/comments/{comment}/reactions", {"content": "eyes"}),
        ("POST", "check-runs", {"name": "x", "head_sha": sha}),
        ("DELETE", "git/refs/heads/feature/x", None),
    ):
        refused = await api(method, f"/repos/octo/demo/{path}", data)
        assert (refused.status, refused.body["message"]) == (403, "Repository was archived so is read-only."), path
    token = standin.token(repo)
    assert (await git("clone", "-q", standin.clone_url(repo), "copy", token=token))[0] == 0
    code, words = await git("push", "-q", "origin", "main:other", cwd=tmp_path / "copy", token=token)
    assert (code != 0, "403" in words) == (True, True)
    standin.archive_repository(repo, archived=False)
    assert (await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "x"})).status == 201


async def test_a_deleted_fork_leaves_its_pull_request(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    sha = await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    number = await standin.open_pull_request(repo, "ann:patch", author="ann")
    standin.delete_repository(fork)
    body = (await api("GET", f"/repos/octo/demo/pulls/{number}")).body
    assert (body["state"], body["head"]["repo"], body["head"]["sha"]) == ("open", None, sha)
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == sha
    assert (await api("GET", "/repos/ann/demo")).status == 404
    await standin.close_pull_request(repo, number)
    assert standin.deliveries[-1].payload["pull_request"]["head"]["repo"] is None


async def test_a_deleted_repository_is_nowhere_and_its_name_is_free(
    standin: StandIn, api: Any, git: Any, repo: Repo, number: int
) -> None:
    token, url = standin.token(repo), standin.clone_url(repo)
    standin.delete_repository(repo)
    assert (await api("GET", "/repos/octo/demo")).status == 404
    assert (await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "x"})).status == 404
    assert "not found" in (await git("ls-remote", url, token=token))[1]
    other = await standin.create_repository("octo/demo")
    auth = f"Bearer {standin.token(other)}"
    assert (await api("GET", "/repos/octo/demo", auth=auth)).body["id"] == other.id
    assert (await api("GET", f"/repositories/{repo.id}", auth=auth)).status == 404


async def test_a_transferred_repository_belongs_to_its_new_owner_s_installation(
    standin: StandIn, api: Any, repo: Repo
) -> None:
    standin.create_user("other")
    await standin.create_repository("other/else")
    old, number = standin.installation_id(repo), standin.installation_id("other/else")
    moved = standin.transfer_repository(repo, "other")
    assert (moved.id, moved.full_name, moved.installation_id) == (repo.id, "other/demo", number)
    said = {"body": "with a token of the old installation"}
    issue = standin.create_issue(moved, "An issue")
    assert (await api("POST", f"/repos/other/demo/issues/{issue}/comments", said)).status == 404
    assert (await api("GET", "/repos/octo/demo/git/ref/heads/main")).status == 301
    place = (await api("GET", "/repos/octo/demo/installation", auth=f"Bearer {standin.jwt()}")).headers["Location"]
    found = await api("GET", place.removeprefix(standin.api_url), auth=f"Bearer {standin.jwt()}")
    assert found.body["id"] == number
    asked = {"repository_ids": [repo.id]}
    tokens = f"/app/installations/{old}/access_tokens"
    assert (await api("POST", tokens, asked, auth=f"Bearer {standin.jwt()}")).status == 422
    standin.create_user("third")
    assert standin.transfer_repository(repo, "third").installation_id is None
    standin.create_user("fourth")
    number = await standin.install("fourth")
    assert standin.transfer_repository(repo, "fourth").installation_id == number


async def test_a_suspended_installation_gets_no_token_and_hears_of_nothing(
    standin: StandIn, api: Any, receiver: Any, repo: Repo, number: int
) -> None:
    tokens = f"/app/installations/{standin.installation_id(repo)}/access_tokens"
    await standin.suspend("octo")
    assert receiver.got[-1][0]["X-GitHub-Event"] == "installation"
    assert standin.deliveries[-1].payload["action"] == "suspend"
    refused = await api("POST", tokens, {}, auth=f"Bearer {standin.jwt()}")
    assert (refused.status, refused.body["message"]) == (403, "This installation has been suspended")
    assert (await api("GET", f"/repos/octo/demo/pulls/{number}")).status == 401
    got = len(receiver.got)
    await standin.comment(repo, number, "words")
    assert len(receiver.got) == got
    await standin.unsuspend("octo")
    assert standin.deliveries[-1].payload["action"] == "unsuspend"
    assert (await api("POST", tokens, {}, auth=f"Bearer {standin.jwt()}")).status == 201
    await standin.comment(repo, number, "words")
    assert len(receiver.got) == got + 2


async def test_the_app_comes_back_under_another_number(standin: StandIn, receiver: Any, repo: Repo) -> None:
    before = standin.installation_id(repo)
    with pytest.raises(ValueError, match="installed on octo"):
        await standin.install("octo")
    await standin.uninstall("octo")
    number = await standin.install("octo")
    assert number not in {before, None}
    assert standin.installation_id(repo) == number
    assert receiver.got[-1][0]["X-GitHub-Event"] == "installation"
    told = standin.deliveries[-1].payload
    assert (told["action"], told["installation"]["id"]) == ("created", number)
    assert [each["id"] for each in told["repositories"]] == [repo.id]


async def test_a_branch_is_brought_up_to_date_by_a_merge(
    standin: StandIn, receiver: Any, repo: Repo, number: int
) -> None:
    head = await standin.read_ref(repo, "feature/x")
    base = await standin.commit(repo, "main", {"new.txt": "n\n"})
    merged = await standin.update_branch(repo, number)
    (commit, *_) = await standin.log(repo, merged)
    assert commit.parents == (head, base)
    assert await standin.read_file(repo, merged, "new.txt") == b"n\n"
    assert standin.pull(repo, number).head_sha == merged
    assert standin.deliveries[-1].payload["action"] == "synchronize"
    files = {"evil.txt": "e\n", "a/b/c.txt": "c\n", "a/d.txt": "d\n"}
    evil = await standin.update_branch(repo, number, files=files)
    (commit, *_) = await standin.log(repo, evil)
    assert commit.parents == (merged, base)
    worse = await standin.update_branch(repo, number, files={"a/b/e.txt": "e\n", "a/d.txt": "other\n"})
    for path, text in (files | {"a/b/e.txt": "e\n", "a/d.txt": "other\n", "new.txt": "n\n"}).items():
        assert await standin.read_file(repo, worse, path) == text.encode(), path


async def test_a_fork_s_branch_is_brought_up_to_date_where_it_is(standin: StandIn, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    head = await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    number = await standin.open_pull_request(repo, "ann:patch", author="ann")
    base = await standin.commit(repo, "main", {"new.txt": "n\n"})
    merged = await standin.update_branch(repo, number)
    assert (await standin.log(fork, merged))[0].parents == (head, base)
    assert await standin.read_ref(fork, "patch") == merged
    assert await standin.read_ref(repo, "patch") is None
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == merged
    assert standin.deliveries[-1].payload["action"] == "synchronize"
    standin.delete_repository(fork)
    with pytest.raises(LookupError, match="deleted"):
        await standin.update_branch(repo, number)


async def test_a_check_run_that_is_gone_is_not_found(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    sha = await standin.read_ref(repo, "feature/x")
    made = await api("POST", "/repos/octo/demo/check-runs", {"name": "x", "head_sha": sha})
    standin.delete_check_run(made.body["id"])
    path = f"/repos/octo/demo/check-runs/{made.body['id']}"
    assert (await api("PATCH", path, {"status": "queued"})).status == 404
    assert (await api("GET", path)).status == 404
    assert (await api("GET", f"/repos/octo/demo/commits/{sha}/check-runs")).body["check_runs"] == []
