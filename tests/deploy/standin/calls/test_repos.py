"""Repositories, people's permissions, branches and comparisons over the API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from deploy.standin import Repo, StandIn


async def permission(api: Any, login: str, repo: str = "octo/demo", **more: Any) -> Any:
    return await api("GET", f"/repos/{repo}/collaborators/{login}/permission", **more)


@pytest.mark.parametrize(
    ("role", "level"),
    [("admin", "admin"), ("maintain", "write"), ("write", "write"), ("triage", "read"), ("read", "read")],
)
async def test_the_api_knows_four_words_for_six_roles(standin: StandIn, api: Any, role: str, level: str) -> None:
    ann = standin.create_user("ann")
    standin.set_permission("octo/demo", "ann", role)
    answer = await permission(api, "ANN")
    assert answer.status == 200
    assert (answer.body["permission"], answer.body["role_name"]) == (level, role)
    assert (answer.body["user"]["id"], answer.body["user"]["login"]) == (ann.id, "ann")
    assert answer.body["user"]["permissions"]["push"] == (level in ("admin", "write"))


async def test_strangers_read_what_is_public(standin: StandIn, api: Any) -> None:
    standin.create_user("ann")
    private = await standin.create_repository("octo/secret", private=True)
    auth = f"Bearer {standin.token(private)}"
    assert (await permission(api, "ann")).body["permission"] == "read"
    assert (await permission(api, "ann", "octo/secret", auth=auth)).body["permission"] == "none"
    assert (await permission(api, "octo")).body["permission"] == "admin"
    assert (await permission(api, "nobody")).status == 404
    bot = await permission(api, "codex-debate%5Bbot%5D")
    assert (bot.status, bot.body["message"]) == (404, "codex-debate[bot] is not a user")


async def test_a_login_that_changed_hands_has_another_number(standin: StandIn, api: Any) -> None:
    first = standin.create_user("ann")
    standin.set_permission("octo/demo", "ann", "write")
    standin.rename_user("ann", "anna")
    second = standin.create_user("ann")
    answer = await permission(api, "ann")
    assert (answer.body["user"]["id"], answer.body["permission"]) == (second.id, "read")
    assert (await permission(api, "anna")).body["user"]["id"] == first.id
    with pytest.raises(ValueError, match="taken"):
        standin.create_user("Anna")


async def test_a_repository_is_found_by_name_and_by_number(api: Any, repo: Repo) -> None:
    by_name, by_number = await api("GET", "/repos/OCTO/demo"), await api("GET", f"/repositories/{repo.id}")
    assert by_name.body == by_number.body
    assert (by_name.body["id"], by_name.body["full_name"]) == (repo.id, "octo/demo")
    assert (by_name.body["default_branch"], by_name.body["private"]) == ("main", False)


@pytest.mark.parametrize("written", ["feature/x", "feature%2Fx"])
async def test_a_branch_name_may_hold_slashes(standin: StandIn, api: Any, repo: Repo, written: str) -> None:
    sha = await standin.read_ref(repo, "feature/x")
    ref = await api("GET", f"/repos/octo/demo/git/ref/heads/{written}")
    assert (ref.body["ref"], ref.body["object"]["sha"]) == ("refs/heads/feature/x", sha)
    branch = await api("GET", f"/repos/octo/demo/branches/{written}")
    assert (branch.body["name"], branch.body["commit"]["sha"], branch.body["protected"]) == ("feature/x", sha, False)
    commit = await api("GET", f"/repos/octo/demo/commits/{written}")
    assert commit.body["sha"] == sha
    assert commit.body["commit"]["message"] == "second\n\nwhy"
    assert sorted(each["filename"] for each in commit.body["files"]) == ["a.py", "gone.txt"]


async def test_a_branch_name_may_hold_anything_that_git_takes(standin: StandIn, api: Any, repo: Repo) -> None:
    name = "--upload-pack=$(id)/`x`"
    sha = await standin.commit(repo, name, {"a.py": "x"}, parent="main")
    (ref, branch) = [await api("GET", f"/repos/octo/demo/{way}/{quote(name)}") for way in ("git/ref/heads", "branches")]
    assert (ref.body["ref"], ref.body["object"]["sha"]) == (f"refs/heads/{name}", sha)
    assert ref.body["url"].endswith("/git/refs/heads/--upload-pack%3D%24%28id%29/%60x%60")
    assert (branch.body["name"], branch.body["commit"]["sha"]) == (name, sha)


async def test_a_branch_that_is_not_there(standin: StandIn, api: Any, repo: Repo) -> None:
    assert (await api("GET", "/repos/octo/demo/branches/none")).body["message"] == "Branch not found"
    assert (await api("GET", "/repos/octo/demo/git/ref/heads/none")).status == 404
    assert (await api("GET", "/repos/octo/demo/commits/none")).status == 422
    # A branch of the same name as a SHA's beginning, and what only looks like one, are no branches.
    sha = await standin.read_ref(repo, "main")
    assert (await api("GET", f"/repos/octo/demo/git/ref/heads/{sha}")).status == 404


async def test_a_branch_comes_before_a_tag_of_its_name(standin: StandIn, api: Any, repo: Repo) -> None:
    main, other = await standin.read_ref(repo, "main"), await standin.read_ref(repo, "feature/x")
    await standin.create_tag(repo, "main", str(other))
    await standin.create_tag(repo, "v1", str(other))
    assert (await api("GET", "/repos/octo/demo/commits/main")).body["sha"] == main
    assert (await api("GET", "/repos/octo/demo/git/ref/heads/main")).body["object"]["sha"] == main
    assert (await api("GET", "/repos/octo/demo/git/ref/tags/main")).body["object"]["sha"] == other
    assert (await api("GET", "/repos/octo/demo/commits/v1")).body["sha"] == other
    assert (await api("GET", "/repos/octo/demo/git/ref/heads/v1")).status == 404
    assert (await api("GET", "/repos/octo/demo/compare/main...v1")).body["ahead_by"] == 1


async def test_protection_is_told(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.protect_branch(repo, "ma*")
    assert (await api("GET", "/repos/octo/demo/branches/main")).body["protected"] is True


async def test_two_branches_are_compared(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"new.txt": "x\n"})
    answer = await api("GET", "/repos/octo/demo/compare/main...feature/x")
    body = answer.body
    assert (body["status"], body["ahead_by"], body["behind_by"]) == ("diverged", 1, 1)
    assert [each["filename"] for each in body["files"]] == ["a.py", "gone.txt"]
    assert body["merge_base_commit"]["sha"] == (await standin.log(repo, "main"))[1].sha
    same = await api("GET", "/repos/octo/demo/compare/main...main")
    assert (same.body["status"], same.body["files"]) == ("identical", [])
    assert (await api("GET", "/repos/octo/demo/compare/main...none")).status == 404


async def test_unrelated_histories_have_no_comparison(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.create_repository("octo/apart")
    sha = await standin.commit("octo/apart", "main", {"b": "b"})
    await standin.add_branches(repo, standin._site.state.repo("octo/apart").path, {sha: "apart"})
    answer = await api("GET", "/repos/octo/demo/compare/main...apart")
    assert (answer.status, answer.body["message"]) == (404, "No common ancestor between main and apart.")


async def test_contents_are_read_with_their_permission(standin: StandIn, api: Any) -> None:
    auth = f"Bearer {standin.token('octo/demo', {'checks': 'write'})}"
    for path in ("git/ref/heads/main", "branches/main", "compare/main...main", "commits/main"):
        assert (await api("GET", f"/repos/octo/demo/{path}", auth=auth)).status == 403
    assert (await api("GET", "/repos/octo/demo", auth=auth)).status == 200


async def test_a_deleted_branch_closes_its_pull_request(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    path = "/repos/octo/demo/git/refs/heads/feature/x"
    reader = f"Bearer {standin.token(repo, {'contents': 'read'})}"
    assert (await api("DELETE", path, auth=reader)).status == 403
    assert (await api("DELETE", path)).status == 204
    await standin.settle()
    assert await standin.read_ref(repo, "feature/x") is None
    assert standin.issue(repo, number).state == "closed"
    push, closed = standin.deliveries[-2:]
    assert (push.event, push.payload["deleted"], push.payload["sender"]["type"]) == ("push", True, "Bot")
    assert (closed.event, closed.payload["action"]) == ("pull_request", "closed")
    again = await api("DELETE", path)
    assert (again.status, again.body["message"]) == (422, "Reference does not exist")


@pytest.mark.parametrize("ref", ["heads/main", "heads/feature/x", "pull/{number}/head"])
async def test_a_branch_that_has_to_stay_is_not_deleted(
    standin: StandIn, api: Any, repo: Repo, number: int, ref: str
) -> None:
    standin.protect_branch(repo, "feature/*")
    name = ref.format(number=number)
    before = await standin.read_ref(repo, f"refs/{name}")
    assert (await api("DELETE", f"/repos/octo/demo/git/refs/{name}")).status == 422
    assert before
    assert await standin.read_ref(repo, f"refs/{name}") == before
