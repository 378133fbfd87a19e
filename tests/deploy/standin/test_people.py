"""What people do, and what the stand-in makes of it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from deploy.standin import GitError, Repo, StandIn


def actions(receiver: Any) -> list[tuple[str, str | None]]:
    return [(headers["X-GitHub-Event"], json.loads(body).get("action")) for headers, body in receiver.got]


async def test_opening_is_told(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    assert actions(receiver)[-1] == ("pull_request", "opened")
    payload = json.loads(receiver.got[-1][1])
    assert (payload["number"], payload["pull_request"]["head"]["ref"]) == (number, "feature/x")
    assert payload["installation"]["id"] == standin.installation_id(repo)


async def test_a_person_s_push_moves_the_pull_request(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    standin.create_user("ann")
    before = standin.pull(repo, number).head_sha
    new = await standin.commit(repo, "feature/x", {"b.py": "b\n"}, login="ann", message="by ann")
    assert actions(receiver)[-2:] == [("push", None), ("pull_request", "synchronize")]
    payload = json.loads(receiver.got[-1][1])
    assert (payload["before"], payload["after"], payload["sender"]["login"]) == (before, new, "ann")
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == new
    # Back again, which only force can do.
    await standin.move_branch(repo, "feature/x", before)
    assert standin.pull(repo, number).head_sha == before
    assert actions(receiver)[-1] == ("pull_request", "synchronize")


async def test_a_moved_base_is_followed_in_silence(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    new = await standin.commit(repo, "main", {"c": "c"})
    assert standin.pull(repo, number).base_sha == new
    assert actions(receiver)[-1] == ("push", None)


async def test_closing_reopening_drafts_and_locks(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    await standin.close_pull_request(repo, number)
    assert (standin.issue(repo, number).state, standin.pull(repo, number).merged_at) == ("closed", None)
    assert json.loads(receiver.got[-1][1])["pull_request"]["merged"] is False
    await standin.reopen_pull_request(repo, number)
    await standin.set_draft(repo, number, draft=True)
    assert standin.pull(repo, number).draft
    await standin.set_draft(repo, number, draft=False)
    await standin.lock(repo, number)
    assert standin.issue(repo, number).locked
    told = [action for event, action in actions(receiver) if event == "pull_request"]
    assert told == ["opened", "closed", "reopened", "converted_to_draft", "ready_for_review", "locked"]


async def test_a_merge_moves_the_base_and_closes(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    head = standin.pull(repo, number).head_sha
    merged = await standin.merge_pull_request(repo, number)
    assert await standin.read_ref(repo, "main") == merged
    (commit,) = await standin.log(repo, merged, since=head)
    assert commit.parents[1] == head
    assert standin.issue(repo, number).state == "closed"
    payload = json.loads(receiver.got[-1][1])
    assert (payload["action"], payload["pull_request"]["merged"]) == ("closed", True)


async def test_a_conflict_cannot_be_merged(standin: StandIn, repo: Repo, number: int) -> None:
    await standin.commit(repo, "main", {"a.py": "other\n"})
    with pytest.raises(GitError):
        await standin.merge_pull_request(repo, number)


async def test_a_deleted_branch_closes_its_pull_request(
    standin: StandIn, receiver: Any, repo: Repo, number: int
) -> None:
    head = standin.pull(repo, number).head_sha
    await standin.delete_branch(repo, "feature/x")
    assert standin.issue(repo, number).state == "closed"
    assert actions(receiver)[-2:] == [("push", None), ("pull_request", "closed")]
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == head
    with pytest.raises(LookupError):
        await standin.delete_branch(repo, "feature/x")


async def test_a_pull_request_is_reopened_at_what_its_branches_are_now(
    standin: StandIn, receiver: Any, repo: Repo, number: int
) -> None:
    await standin.close_pull_request(repo, number)
    head = await standin.commit(repo, "feature/x", {"b.py": "b\n"})
    base = await standin.commit(repo, "main", {"c.py": "c\n"})
    await standin.reopen_pull_request(repo, number)
    assert (standin.pull(repo, number).head_sha, standin.pull(repo, number).base_sha) == (head, base)
    assert await standin.read_ref(repo, f"refs/pull/{number}/head") == head
    assert json.loads(receiver.got[-1][1])["pull_request"]["head"]["sha"] == head


async def test_without_its_branches_or_once_merged_it_stays_closed(standin: StandIn, repo: Repo, number: int) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    orphan = await standin.open_pull_request(repo, "ann:patch", author="ann")
    await standin.close_pull_request(repo, orphan)
    standin.delete_repository(fork)
    await standin.commit(repo, "old", {"o": "o"}, parent="main")
    await standin.commit(repo, "kept", {"k": "k"}, parent="main")
    lost = await standin.open_pull_request(repo, "kept", "old")
    await standin.close_pull_request(repo, lost)
    await standin.delete_branch(repo, "old")
    await standin.commit(repo, "done", {"d": "d"}, parent="main")
    merged = await standin.open_pull_request(repo, "done")
    await standin.merge_pull_request(repo, merged)
    await standin.delete_branch(repo, "feature/x")
    told = len(standin.deliveries)
    for each, words in (
        (number, "feature/x of #1 is gone"),
        (orphan, "patch of #2"),
        (lost, "old of #3"),
        (merged, "merged"),
    ):
        with pytest.raises(ValueError, match=words):
            await standin.reopen_pull_request(repo, each)
        assert standin.issue(repo, each).state == "closed"
    assert len(standin.deliveries) == told


async def test_commits_are_told_in_full(standin: StandIn, repo: Repo) -> None:
    odd = 'sp ace/"q"\\\n.txt'
    body = "Why.\n\nDebate-Run: 1\nDebate-Round: 2"
    sha = await standin.commit(repo, "feature/x", {odd: b"\0\xff", "a.py": None}, message=f"subject\n\n{body}")
    newest, older = (await standin.log(repo, "feature/x"))[:2]
    assert (newest.sha, newest.subject, newest.body) == (sha, "subject", body)
    assert newest.message == f"subject\n\n{body}"
    assert newest.files == ("a.py", odd)
    assert newest.author == newest.committer == f"octo <{repo.owner_id}+octo@users.noreply.github.com>"
    assert (newest.parents, older.subject, older.files) == ((older.sha,), "second", ("a.py", "gone.txt"))
    assert await standin.read_file(repo, "feature/x", odd) == b"\0\xff"
    assert len(await standin.log(repo, "feature/x", since="main")) == 2
    with pytest.raises(GitError):
        await standin.read_file(repo, "feature/x", "a.py")


async def test_a_path_that_is_not_utf_8(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    name = os.fsdecode(b"caf\xe9\t.txt")
    await standin.commit(repo, "feature/x", {name: "x"})
    assert await standin.read_file(repo, "feature/x", name) == b"x"
    files = (await api("GET", f"/repos/octo/demo/pulls/{number}/files")).body
    assert "caf\ufffd\t.txt" in [each["filename"] for each in files]
    assert (await standin.log(repo, "feature/x"))[0].files == ("caf\ufffd\t.txt",)


async def test_an_unknown_name_is_told_at_once(standin: StandIn, repo: Repo, number: int) -> None:
    with pytest.raises(LookupError, match="create_user"):
        await standin.comment(repo, number, "x", "nobody")
    with pytest.raises(LookupError, match="no repository"):
        standin.comments("octo/none", 1)
    with pytest.raises(LookupError, match="no #9"):
        await standin.comment(repo, 9, "x")
    with pytest.raises(LookupError, match="no branch none"):
        await standin.open_pull_request(repo, "none")
    with pytest.raises(LookupError, match="no fork"):
        await standin.open_pull_request(repo, "octo-cat:x")
    with pytest.raises(ValueError, match="no role"):
        standin.set_permission(repo, "octo", "owner")
    issue = standin.create_issue(repo, "x")
    with pytest.raises(LookupError, match="no pull request"):
        standin.pull(repo, issue)


async def test_a_push_to_a_fork_moves_the_pull_request(standin: StandIn, receiver: Any, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    number = await standin.open_pull_request(repo, "ann:patch", author="ann")
    receiver.got.clear()
    new = await standin.commit(fork, "patch", {"a.py": "4\n"})
    assert actions(receiver) == [("pull_request", "synchronize")]
    assert standin.pull(repo, number).head_sha == new
    assert await standin.read_file(repo, f"refs/pull/{number}/head", "a.py") == b"4\n"
