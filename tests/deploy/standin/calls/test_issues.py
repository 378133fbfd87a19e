"""Comments and reactions over the API."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.standin import Repo, StandIn

ISSUES = "/repos/octo/demo/issues"


async def test_a_comment_of_the_app_belongs_to_its_bot(standin: StandIn, api: Any, number: int) -> None:
    made = await api("POST", f"{ISSUES}/{number}/comments", {"body": "Hello"})
    assert made.status == 201
    assert made.headers["Location"] == made.body["url"]
    assert made.body["user"] | {} == made.body["user"] | {"login": "codex-debate[bot]", "type": "Bot"}
    assert made.body["performed_via_github_app"]["slug"] == "codex-debate"
    assert str(made.body["performed_via_github_app"]["id"]) == standin.app_id
    assert made.body["html_url"].endswith(f"/octo/demo/pull/{number}#issuecomment-{made.body['id']}")
    account = await api("GET", "/users/codex-debate%5Bbot%5D")
    assert account.body["id"] == made.body["user"]["id"] == standin.bot.id
    assert str(standin.bot.id) != standin.app_id


async def test_a_person_s_comment_belongs_to_the_person(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    standin.create_user("ann")
    found = await api("GET", f"{ISSUES}/comments/{await standin.comment(repo, number, 'Hi', 'ann')}")
    assert (found.body["user"]["login"], found.body["performed_via_github_app"]) == ("ann", None)
    assert found.body["author_association"] == "NONE"


async def test_a_comment_is_changed_and_deleted(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    made = await api("POST", f"{ISSUES}/{number}/comments", {"body": "one"})
    path = f"{ISSUES}/comments/{made.body['id']}"
    assert (await api("PATCH", path, {"body": "two"})).body["body"] == "two"
    assert [each.body for each in standin.comments(repo, number)] == ["two"]
    assert (await api("PATCH", path, {"body": " "})).status == 422
    assert (await api("DELETE", path)).status == 204
    assert standin.comments(repo, number) == []
    assert (await api("PATCH", path, {"body": "three"})).status == 404


async def test_refusals_reach_the_caller(api: Any, number: int) -> None:
    refused = await api("POST", f"{ISSUES}/{number}/comments", {"body": "x" * 262_145})
    assert refused.status == 422
    assert refused.body["message"] == "Validation Failed"
    assert refused.body["errors"][0]["message"].startswith("Body is too long")


async def test_comments_since_a_moment(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    await standin.comment(repo, number, "x")
    path = f"{ISSUES}/{number}/comments"
    stamp = (await api("GET", path)).body[0]["updated_at"]
    assert len((await api("GET", f"{path}?since={stamp}")).body) == 1
    assert (await api("GET", f"{path}?since=2999-01-01T00:00:00Z")).body == []


@pytest.mark.breaks_contract("a moment that is none")
async def test_a_moment_has_to_be_one(api: Any, number: int) -> None:
    assert (await api("GET", f"{ISSUES}/{number}/comments?since=soon")).status == 422


async def test_a_locked_conversation_takes_no_comment(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    await standin.lock(repo, number)
    refused = await api("POST", f"{ISSUES}/{number}/comments", {"body": "x"})
    assert (refused.status, "locked" in refused.body["message"]) == (403, True)


async def test_a_reaction_is_made_once(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    comment = await standin.comment(repo, number, "/codex-debate")
    path = f"{ISSUES}/comments/{comment}/reactions"
    first = await api("POST", path, {"content": "eyes"})
    again = await api("POST", path, {"content": "eyes"})
    other = await api("POST", path, {"content": "rocket"})
    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert first.body == again.body
    assert [(each.content, each.login) for each in standin.reactions(comment)] == [
        ("eyes", "codex-debate[bot]"),
        ("rocket", "codex-debate[bot]"),
    ]
    rollup = (await api("GET", f"{ISSUES}/comments/{comment}")).body["reactions"]
    assert (rollup["eyes"], rollup["total_count"]) == (1, 2)
    assert (await api("DELETE", f"{path}/{first.body['id']}")).status == 204
    assert [each["content"] for each in (await api("GET", path)).body] == ["rocket"]


@pytest.mark.breaks_contract("a reaction that GitHub does not know")
async def test_a_reaction_is_one_of_eight(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    comment = await standin.comment(repo, number, "x")
    assert (await api("POST", f"{ISSUES}/comments/{comment}/reactions", {"content": "tada"})).status == 422


@pytest.mark.parametrize(
    ("permissions", "on_pull", "on_issue"),
    [
        ({"issues": "write"}, 201, 201),
        ({"pull_requests": "write"}, 201, 403),
        ({"issues": "read", "pull_requests": "read"}, 403, 403),
        ({"contents": "write"}, 403, 403),
    ],
)
async def test_which_permission_lets_comment(  # a row of the table and the fixtures
    standin: StandIn, api: Any, number: int, permissions: dict[str, str], on_pull: int, on_issue: int
) -> None:
    issue = standin.create_issue("octo/demo", "Plain")
    auth = f"Bearer {standin.token('octo/demo', permissions)}"
    for where, expected in ((number, on_pull), (issue, on_issue)):
        answer = await api("POST", f"{ISSUES}/{where}/comments", {"body": "x"}, auth=auth)
        assert answer.status == expected


async def test_issues_and_pull_requests_share_their_numbers(standin: StandIn, api: Any, number: int) -> None:
    issue = standin.create_issue("octo/demo", "Plain", body="text")
    assert issue == number + 1
    plain, pull = await api("GET", f"{ISSUES}/{issue}"), await api("GET", f"{ISSUES}/{number}")
    assert "pull_request" not in plain.body
    assert pull.body["pull_request"]["url"].endswith(f"/pulls/{number}")
    assert (await api("GET", f"/repos/octo/demo/pulls/{issue}")).status == 404


async def test_a_comment_of_another_repository_is_not_found_here(standin: StandIn, api: Any, number: int) -> None:
    await standin.create_repository("octo/other")
    issue = standin.create_issue("octo/other", "x")
    comment = await standin.comment("octo/other", issue, "x")
    assert (await api("GET", f"{ISSUES}/comments/{comment}")).status == 404
