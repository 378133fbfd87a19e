"""Pull requests over the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from deploy.standin import Repo, StandIn
from deploy.standin.state import now

PULLS = "/repos/octo/demo/pulls"


async def test_a_pull_request_in_github_s_shape(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    body = (await api("GET", f"{PULLS}/{number}")).body
    head, base = await standin.read_ref(repo, "feature/x"), await standin.read_ref(repo, "main")
    assert (body["number"], body["title"], body["body"], body["state"]) == (number, "Two", "Because.", "open")
    assert (body["head"]["sha"], body["head"]["ref"], body["head"]["repo"]["id"]) == (head, "feature/x", repo.id)
    assert (body["base"]["sha"], body["base"]["ref"], body["base"]["repo"]["id"]) == (base, "main", repo.id)
    assert (body["head"]["label"], body["user"]["login"]) == ("octo:feature/x", "octo")
    assert (body["draft"], body["locked"], body["merged"]) == (False, False, False)
    assert (body["commits"], body["changed_files"], body["additions"], body["deletions"]) == (1, 2, 1, 4)


async def test_its_files_come_with_hunks(api: Any, number: int) -> None:
    files = (await api("GET", f"{PULLS}/{number}/files")).body
    assert [(each["filename"], each["status"]) for each in files] == [("a.py", "modified"), ("gone.txt", "removed")]
    assert files[0]["patch"] == "@@ -1,2 +1,2 @@\n one\n-two\n+2"
    one = await api("GET", f"{PULLS}/{number}/files?per_page=1&page=2")
    assert [each["filename"] for each in one.body] == ["gone.txt"]


async def test_its_commits_are_oldest_first(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    await standin.commit(repo, "feature/x", {"b": "b"}, message="third")
    commits = (await api("GET", f"{PULLS}/{number}/commits")).body
    assert [each["commit"]["message"] for each in commits] == ["second\n\nwhy", "third"]


async def test_files_are_counted_from_the_merge_base(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    await standin.commit(repo, "main", {"meanwhile": "x"})
    body = (await api("GET", f"{PULLS}/{number}")).body
    assert (body["changed_files"], body["base"]["sha"]) == (2, await standin.read_ref(repo, "main"))


async def test_a_fork_s_pull_request(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    sha = await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    number = await standin.open_pull_request(repo, "ann:patch", author="ann")
    body = (await api("GET", f"{PULLS}/{number}")).body
    assert (body["head"]["repo"]["full_name"], body["head"]["repo"]["fork"]) == ("ann/demo", True)
    assert (body["head"]["sha"], body["user"]["login"], body["maintainer_can_modify"]) == (sha, "ann", True)
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == sha
    assert await standin.read_ref(repo, "patch") is None
    assert (await api("GET", "/repos/ann/demo")).status == 200, "who may read the repository may read its public fork"


async def test_reading_needs_its_permission(standin: StandIn, api: Any, number: int) -> None:
    auth = f"Bearer {standin.token('octo/demo', {'issues': 'write'})}"
    for path in (PULLS, f"{PULLS}/{number}", f"{PULLS}/{number}/files", f"{PULLS}/{number}/commits"):
        assert (await api("GET", path, auth=auth)).status == 403


async def test_the_open_ones_are_listed_newest_first(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    await standin.commit(repo, "other", {"o": "o"}, parent="main")
    second = await standin.open_pull_request(repo, "other")
    assert [each["number"] for each in (await api("GET", PULLS)).body] == [second, number]
    await standin.close_pull_request(repo, number)
    assert [each["number"] for each in (await api("GET", PULLS)).body] == [second]
    closed = await api("GET", f"{PULLS}?state=closed")
    assert [(each["number"], each["state"]) for each in closed.body] == [(number, "closed")]
    both = await api("GET", f"{PULLS}?state=all&sort=created&direction=asc&per_page=1")
    assert [each["number"] for each in both.body] == [number]
    assert 'rel="next"' in both.headers["Link"]


async def test_a_list_is_sorted_and_narrowed_as_it_is_asked_for(
    standin: StandIn, api: Any, repo: Repo, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await standin.commit(repo, "other", {"o": "o"}, parent="main")
    second = await standin.open_pull_request(repo, "other", "feature/x")
    later = now() + timedelta(minutes=1)
    monkeypatch.setattr("deploy.standin.actions.now", lambda: later)
    await standin.set_draft(repo, number, draft=True)

    async def listed(query: str) -> list[int]:
        return [each["number"] for each in (await api("GET", f"{PULLS}?{query}")).body]

    assert await listed("sort=created") == [second, number]
    assert await listed("sort=updated") == [second, number], "upwards, unlike the others, unless it is told otherwise"
    assert await listed("sort=updated&direction=desc") == [number, second]
    assert await listed("head=octo:other") == [second]
    assert await listed("head=ann:other") == []
    assert await listed("base=main") == [number]


async def test_a_deleted_fork_s_pull_request_is_listed_without_it(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    await standin.open_pull_request(repo, "ann:patch", author="ann")
    standin.delete_repository(fork)
    (only,) = (await api("GET", PULLS)).body
    assert (only["state"], only["head"]["repo"], only["head"]["label"]) == ("open", None, "ann:patch")
