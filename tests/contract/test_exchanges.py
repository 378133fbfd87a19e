"""The oracle is proved: a good exchange passes, and each way to break the contract is caught, in words that name it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from deploy.standin import Exchange, StandIn
from github_contract.exchanges import violations


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def good(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Exchange]]:
    """Real exchanges with the stand-in, by a short name."""
    folder: Path = tmp_path_factory.mktemp("good")
    seen: list[Exchange] = []
    async with await StandIn.start(folder) as standin, aiohttp.ClientSession() as session:
        standin.observers.append(seen.append)
        repo = await standin.create_repository("octo/demo")
        sha = await standin.commit(repo, "main", {"a": "a"})
        number = standin.create_issue(repo, "An issue")
        headers = {"Authorization": f"Bearer {standin.token(repo)}"}

        async def ask(method: str, path: str, data: Any = None) -> None:
            url = f"{standin.api_url}/repos/octo/demo{path}"
            async with session.request(method, url, json=data, headers=headers) as answer:
                await answer.read()

        output = {"title": "t", "summary": "s", "annotations": []}
        await ask("POST", "/check-runs", {"name": "x", "head_sha": sha, "output": output})
        await ask("PATCH", f"/check-runs/{json.loads(seen[0].answer)['id']}", {"conclusion": "success"})
        await ask("POST", f"/issues/{number}/comments", {"body": "Hello"})
        await ask("GET", f"/issues/{number}/comments?per_page=50")
        await ask("GET", "/git/ref/heads/none")
        await ask("DELETE", f"/issues/comments/{json.loads(seen[2].answer)['id']}")
    names = ("create", "update", "comment", "comments", "nothing", "delete")
    yield dict(zip(names, seen, strict=True))


def changed(exchange: Exchange, part: str, change: dict[str, Any]) -> Exchange:
    """Return an exchange with other keys in its body or answer; None takes one away."""
    value = json.loads(getattr(exchange, part)) | change
    changes: dict[str, Any] = {
        part: json.dumps({key: each for key, each in value.items() if each is not None}).encode()
    }
    return replace(exchange, **changes)


def found(exchange: Exchange) -> list[str]:
    return [str(each) for each in violations(exchange)]


def test_good_exchanges_pass(good: dict[str, Exchange]) -> None:
    assert [each.status for each in good.values()] == [201, 200, 201, 200, 404, 204]
    for exchange in good.values():
        assert found(exchange) == []


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("create", {"colour": 1}, "request POST /repos/octo/demo/check-runs (checks/create): body: ('colour'"),
        ("create", {"output": {"title": "t", "summary": "s", "body": "x"}}, "body/output: ('body'"),
        ("create", {"output": {"title": "t", "summary": "s", "annotations": [{"line": 1}]}}, "annotations/0: ('line'"),
        ("create", {"name": None}, 'body: "name" is a required property'),
        ("create", {"name": 5}, 'body/name: 5 is not of type "string"'),
        ("create", {"output": {"title": "t"}}, 'body/output: "summary" is a required property'),
        ("create", {"conclusion": "fine"}, 'body/conclusion: "fine" is not one of'),
        ("create", {"started_at": "yesterday"}, 'body/started_at: "yesterday" is not a "date-time"'),
        ("create", {"actions": [{"label": "l", "description": "d", "identifier": "i"}] * 4}, "body/actions: "),
        ("update", {"colour": 1}, "request PATCH"),
        ("update", {"conclusion": None, "status": "completed"}, "is not valid under any of the schemas"),
        ("comment", {"body": None}, 'body: "body" is a required property'),
        ("comment", {"body": ["x"]}, 'body/body: ["x"] is not of type "string"'),
    ],
)
def test_a_wrong_body_is_caught(good: dict[str, Exchange], name: str, change: dict[str, Any], said: str) -> None:
    told = [
        each.replace("Unevaluated properties are not allowed ", "")
        for each in found(changed(good[name], "body", change))
    ]
    assert any(said in each for each in told), told
    assert all(each.startswith("request ") for each in told)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("comment", {"target": "/repos/octo/demo/issues/1/replies"}, "GitHub describes no such operation"),
        ("comment", {"method": "PUT"}, "GitHub describes no such operation"),
        ("comments", {"target": "/repos/octo/demo/issues/1/comments?limit=5"}, "the query parameter 'limit' is not"),
        ("comments", {"target": "/repos/octo/demo/issues/1/comments?since=soon"}, "the query parameter 'since'"),
        ("comments", {"target": "/repos/octo/demo/issues/1/comments?per_page=many"}, "the query parameter 'per_page'"),
        ("comments", {"target": "/repos/octo/demo/issues/one/comments"}, "the path parameter 'issue_number'"),
        ("comments", {"body": b"{}"}, "a body is sent where none is described"),
        ("comment", {"body": b""}, "the body is missing"),
        ("comment", {"body": b"{"}, "the body is no JSON"),
        ("comment", {"content_type": "text/plain"}, "the body is sent as text/plain"),
    ],
)
def test_a_wrong_request_is_caught(good: dict[str, Exchange], name: str, change: dict[str, Any], said: str) -> None:
    first = found(replace(good[name], **change))[0]
    assert said in first
    assert first.startswith("request ")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("comment", {"status": 200}, "200: this status is described neither"),
        ("comment", {"status": 409}, "409: this status is described neither"),
        ("comment", {"status": 204}, "204: this status is described neither"),
        ("comment", {"answer": b""}, "201: the answer is no JSON"),
        ("comment", {"answer": b"[]"}, '201: answer: [] is not of type "object"'),
        ("delete", {"answer": b"{}"}, "204: a body is answered where none is described"),
        ("update", {"status": 500, "answer": b"{}"}, '500: answer: "message" is a required property'),
        ("update", {"status": 403, "answer": b'{"message": 5}'}, "403: answer: "),
        ("update", {"status": 503, "answer": b'{"message": "x", "secret": 1}'}, "503: answer: "),
        ("nothing", {"answer": b'{"message": 5}'}, '404: answer/message: 5 is not of type "string"'),
    ],
)
def test_a_wrong_answer_is_caught(good: dict[str, Exchange], name: str, change: dict[str, Any], said: str) -> None:
    told = found(replace(good[name], **change))
    assert said in told[0]
    assert all(each.startswith("answer ") for each in told)


def test_an_error_that_is_described_without_a_body_holds_a_message(good: dict[str, Exchange]) -> None:
    refused = replace(good["delete"], target="/repos/octo/demo/git/refs/heads/x", status=422)
    assert found(replace(refused, answer=b'{"message": "Reference does not exist"}')) == []
    assert found(replace(refused, answer=b"")) == []
    assert "422: answer: " in found(replace(refused, answer=b'{"reason": "gone"}'))[0]


def test_a_wrong_shape_is_caught(good: dict[str, Exchange]) -> None:
    assert '201: answer: "user" is a required property' in found(changed(good["comment"], "answer", {"user": None}))[0]
    assert "201: answer/id: " in found(changed(good["comment"], "answer", {"id": "1"}))[0]
    listed = replace(good["comments"], answer=b'[{"id": 1}]')
    assert any(": answer/0: " in each for each in found(listed))


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422, 429, 500, 503])
def test_what_any_operation_may_answer_passes(good: dict[str, Exchange], status: int) -> None:
    error = json.dumps({"message": "m", "documentation_url": "u", "status": str(status)}).encode()
    assert found(replace(good["update"], status=status, answer=error)) == []
    assert found(replace(good["update"], status=status, answer=b"")) == []


def test_a_request_that_was_not_answered_is_judged_all_the_same(good: dict[str, Exchange]) -> None:
    silent = replace(good["comment"], status=None, answer=b"", fault="drop before the effect")
    assert found(silent) == []
    (only,) = found(changed(silent, "body", {"colour": 1}))
    assert only.startswith("request ")


def test_an_ordered_fault_may_garble_an_answer_and_is_an_error_else(good: dict[str, Exchange]) -> None:
    garbled = replace(good["comment"], answer=b'{"id": \xff', fault="garbage after the effect")
    assert found(garbled) == []
    assert found(replace(garbled, status=502, answer=b'{"message": "Server Error"}')) == []
    assert found(replace(garbled, status=502, answer=b'{"id": 1}'))[0].startswith("answer ")


def test_a_repository_may_be_given_by_its_number(good: dict[str, Exchange]) -> None:
    assert found(replace(good["comments"], target="/repositories/1001/issues/1/comments?page=2")) == []
    assert "no such operation" in found(replace(good["comments"], target="/repositories/x/issues/1/comments"))[0]
    assert "no such operation" in found(replace(good["comments"], target="/x/repositories/1/issues/1/comments"))[0]
