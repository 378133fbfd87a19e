"""What owners do to accounts and repositories, and what the API and git say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deploy.standin import Repo, StandIn


async def test_an_archived_repository_can_be_read_and_not_written(
    standin: StandIn, api: Any, git: Any, repo: Repo, number: int, tmp_path: Path
) -> None:
    standin.archive_repository(repo)
    assert (await api("GET", f"/repos/octo/demo/pulls/{number}")).body["base"]["repo"]["archived"] is True
    refused = await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "x"})
    assert (refused.status, refused.body["message"]) == (403, "Repository was archived so is read-only.")
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


async def test_a_transferred_repository_belongs_to_its_new_owner_s_installation(
    standin: StandIn, api: Any, repo: Repo
) -> None:
    standin.create_user("other")
    await standin.create_repository("other/else")
    old, number = standin.installation_id(repo), standin.installation_id("other/else")
    moved = standin.transfer_repository(repo, "other")
    assert (moved.id, moved.full_name, moved.installation_id) == (repo.id, "other/demo", number)
    place = (await api("GET", "/repos/octo/demo/installation", auth=f"Bearer {standin.jwt()}")).headers["Location"]
    found = await api("GET", place.removeprefix(standin.api_url), auth=f"Bearer {standin.jwt()}")
    assert found.body["id"] == number
    asked = {"repository_ids": [repo.id]}
    tokens = f"/app/installations/{old}/access_tokens"
    assert (await api("POST", tokens, asked, auth=f"Bearer {standin.jwt()}")).status == 422
    standin.create_user("third")
    assert standin.transfer_repository(repo, "third").installation_id is None


async def test_a_suspended_installation_gets_no_token_and_hears_of_nothing(
    standin: StandIn, api: Any, receiver: Any, repo: Repo, number: int
) -> None:
    tokens = f"/app/installations/{standin.installation_id(repo)}/access_tokens"
    await standin.suspend("octo")
    assert receiver.got[-1][0]["X-GitHub-Event"] == "installation"
    refused = await api("POST", tokens, {}, auth=f"Bearer {standin.jwt()}")
    assert (refused.status, refused.body["message"]) == (403, "This installation has been suspended")
    assert (await api("GET", f"/repos/octo/demo/pulls/{number}")).status == 401
    got = len(receiver.got)
    await standin.comment(repo, number, "words")
    assert len(receiver.got) == got
    await standin.unsuspend("octo")
    assert (await api("POST", tokens, {}, auth=f"Bearer {standin.jwt()}")).status == 201
    await standin.comment(repo, number, "words")
    assert len(receiver.got) == got + 2


async def test_the_app_comes_back_under_another_number(standin: StandIn, receiver: Any, repo: Repo) -> None:
    before = standin.installation_id(repo)
    await standin.uninstall("octo")
    number = await standin.install("octo")
    assert number not in {before, None}
    assert standin.installation_id(repo) == number
    assert receiver.got[-1][0]["X-GitHub-Event"] == "installation"


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
    evil = await standin.update_branch(repo, number, files={"evil.txt": "e\n"})
    (commit, *_) = await standin.log(repo, evil)
    assert commit.parents == (merged, base)
    assert await standin.read_file(repo, evil, "evil.txt") == b"e\n"
    assert await standin.read_file(repo, evil, "new.txt") == b"n\n"


async def test_a_check_run_that_is_gone_is_not_found(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    sha = await standin.read_ref(repo, "feature/x")
    made = await api("POST", "/repos/octo/demo/check-runs", {"name": "x", "head_sha": sha})
    standin.delete_check_run(made.body["id"])
    assert (await api("PATCH", f"/repos/octo/demo/check-runs/{made.body['id']}", {"status": "queued"})).status == 404
