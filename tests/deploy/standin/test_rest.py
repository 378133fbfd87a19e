"""The door of the API: credentials, paths, bodies, pages, redirects, faults, journal."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from deploy.standin import Exchange, Repo, StandIn


async def test_a_request_without_credentials_or_agent_is_refused(
    standin: StandIn, repo: Repo, session: aiohttp.ClientSession
) -> None:
    url = f"{standin.api_url}/repos/octo/demo"
    async with session.get(url) as answer:
        assert (answer.status, (await answer.json())["message"]) == (401, "Requires authentication")
    headers = {"Authorization": f"Bearer {standin.token(repo)}"}
    async with session.get(url, headers=headers, skip_auto_headers=["User-Agent"]) as answer:
        assert answer.status == 403
        assert "User-Agent" in (await answer.json())["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/repos/octo/none"),
        ("GET", "/repos/nobody/demo"),
        ("GET", "/repositories/1"),
        ("GET", "/repos/octo/demo/pulls/99"),
        ("GET", "/repos/octo/demo/check-runs/1"),
        ("GET", "/repos/octo/demo/issues/comments/1"),
        ("GET", "/users/nobody"),
        ("GET", "/repos/octo/demo/git/ref/heads/feature"),
    ],
)
async def test_what_is_not_there_is_a_bare_404(api: Any, method: str, path: str) -> None:
    answer = await api(method, path)
    assert answer.status == 404
    assert answer.body == {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}


@pytest.mark.breaks_contract("GitHub describes none of these")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("GET", "/repos/octo/demo/nowhere"),
        ("PUT", "/repos/octo/demo"),
        ("GET", "/repos/octo/demo/pulls/one"),
    ],
)
async def test_what_github_does_not_describe_is_not_served(api: Any, method: str, path: str) -> None:
    assert (await api(method, path)).status == 404


@pytest.mark.breaks_contract("neither body is what GitHub asks for")
async def test_bodies_are_json_objects(api: Any, number: int) -> None:
    path = f"/repos/octo/demo/issues/{number}/comments"
    broken = await api("POST", path, b'{"body": "x"')
    assert (broken.status, broken.body["message"]) == (400, "Problems parsing JSON")
    listed = await api("POST", path, [])
    assert (listed.status, listed.body["message"]) == (400, "Body should be a JSON object")


async def test_an_api_version_that_does_not_exist_is_refused(api: Any) -> None:
    good = await api("GET", "/repos/octo/demo", headers={"X-GitHub-Api-Version": "2022-11-28"})
    bad = await api("GET", "/repos/octo/demo", headers={"X-GitHub-Api-Version": "2021-01-01"})
    assert (good.status, bad.status) == (200, 400)


async def test_lists_come_in_pages_with_links(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    for index in range(5):
        await standin.comment(repo, number, f"comment {index}")
    path = f"/repos/octo/demo/issues/{number}/comments"
    first = await api("GET", f"{path}?per_page=2")
    assert [each["body"] for each in first.body] == ["comment 0", "comment 1"]
    root = f"{standin.api_url}/repositories/{repo.id}/issues/{number}/comments"
    assert first.headers["Link"] == (f'<{root}?per_page=2&page=2>; rel="next", <{root}?per_page=2&page=3>; rel="last"')
    middle = await api("GET", f"{path}?per_page=2&page=2")
    for rel in ("prev", "next", "last", "first"):
        assert f'rel="{rel}"' in middle.headers["Link"]
    follow = first.headers["Link"].split(">")[0].removeprefix(f"<{standin.api_url}")
    assert (await api("GET", follow)).body == middle.body
    last = await api("GET", f"{path}?per_page=2&page=3")
    assert [each["body"] for each in last.body] == ["comment 4"]
    assert 'rel="next"' not in last.headers["Link"]
    assert "Link" not in (await api("GET", f"{path}?per_page=100")).headers
    assert (await api("GET", f"{path}?page=9")).body == []


async def test_a_page_holds_thirty_and_at_most_a_hundred(standin: StandIn, api: Any, repo: Repo, number: int) -> None:
    standin.events.clear()
    for index in range(101):
        await standin.comment(repo, number, str(index))
    path = f"/repos/octo/demo/issues/{number}/comments"
    assert len((await api("GET", path)).body) == 30
    assert len((await api("GET", f"{path}?per_page=1000")).body) == 100


async def test_a_renamed_repository_is_redirected_to_its_number(
    standin: StandIn, api: Any, repo: Repo, number: int
) -> None:
    standin.rename_repository(repo, "octo/renamed")
    moved = await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "lost?"})
    assert moved.status == 301
    place = moved.headers["Location"].removeprefix(standin.api_url)
    assert place == f"/repositories/{repo.id}/issues/{number}/comments"
    assert standin.comments(repo, number) == []
    assert (await api("POST", place, {"body": "found"})).status == 201
    assert (await api("GET", "/repos/octo/renamed")).body["full_name"] == "octo/renamed"


async def test_a_fault_before_has_no_effect_and_a_fault_after_has(
    standin: StandIn, api: Any, repo: Repo, number: int
) -> None:
    path = f"/repos/octo/demo/issues/{number}/comments"
    standin.fail_next("POST", path, status=502)
    standin.fail_next("POST", path, status=503, when="after", message="busy", headers={"Retry-After": "1"})
    assert (await api("GET", path)).status == 200
    assert (await api("POST", path, {"body": "one"})).status == 502
    assert standin.comments(repo, number) == []
    late = await api("POST", path, {"body": "two"})
    assert (late.status, late.body["message"], late.headers["Retry-After"]) == (503, "busy", "1")
    assert [each.body for each in standin.comments(repo, number)] == ["two"]
    assert (await api("POST", path, {"body": "three"})).status == 201


@pytest.mark.parametrize(("when", "kept"), [("before", 0), ("after", 2)])
async def test_a_dropped_connection_has_no_answer(
    standin: StandIn, api: Any, repo: Repo, number: int, when: Any, kept: int
) -> None:
    standin.fail_next("*", "/repos/octo/demo/issues", drop=True, when=when, times=2)
    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "x"})
    assert len(standin.comments(repo, number)) == kept
    assert (await api("GET", f"/repos/octo/demo/issues/{number}/comments")).status == 200
    assert [each.fault is not None for each in standin.requests("*", "/repos/octo/demo/issues")] == [True, True, False]


async def test_the_journal_tells_everything_about_a_request(standin: StandIn, api: Any, number: int) -> None:
    path = f"/repos/octo/demo/issues/{number}/comments"
    await api("GET", f"{path}?page=1")
    await api("POST", path, {"body": "x"})
    read, entry = standin.journal[-2:]
    assert (read.method, read.path, read.query, read.body) == ("GET", path, {"page": "1"}, None)
    assert (entry.method, entry.path, entry.query, entry.body) == ("POST", path, {}, {"body": "x"})
    assert (entry.status, entry.fault) == (201, None)
    assert entry.permissions is not None
    assert entry.permissions["issues"] == "write"
    assert standin.requests("POST") == [entry]


async def test_who_watches_sees_requests_and_answers_as_they_were_on_the_wire(
    standin: StandIn, api: Any, number: int
) -> None:
    seen: list[Exchange] = []
    standin.observers.append(seen.append)
    path = f"/repos/octo/demo/issues/{number}/comments"
    await api("POST", path, {"body": "x"})
    await api("GET", "/repos/octo/demo/git/ref/heads/feature%2Fx")
    standin.fail_next("POST", path, drop=True)
    with pytest.raises(aiohttp.ClientError):
        await api("POST", path, {"body": "lost"})
    told = [(each.method, each.target, each.content_type, each.status) for each in seen]
    assert told == [
        ("POST", path, "application/json", 201),
        ("GET", "/repos/octo/demo/git/ref/heads/feature%2Fx", "application/octet-stream", 200),
        ("POST", path, "application/json", None),
    ]
    assert [json.loads(each.body or b"null") for each in seen] == [{"body": "x"}, None, {"body": "lost"}]
    assert json.loads(seen[0].answer)["body"] == "x"
    assert (seen[2].answer, seen[2].fault) == (b"", "drop before the effect")
