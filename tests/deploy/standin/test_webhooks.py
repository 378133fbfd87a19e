"""Deliveries: signed, kept, repeated only when asked."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from deploy.standin import Repo, StandIn


async def test_a_delivery_is_signed_over_its_bytes(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    await standin.comment(repo, number, "/codex-debate review — «ж»")
    headers, body = receiver.got[-1]
    for name, algorithm in (("X-Hub-Signature-256", "sha256"), ("X-Hub-Signature", "sha1")):
        expected = hmac.new(standin.webhook_secret.encode(), body, algorithm).hexdigest()
        assert headers[name] == f"{algorithm}={expected}"
    assert len(standin.webhook_secret) >= 32
    assert headers["X-GitHub-Event"] == "issue_comment"
    assert headers["X-GitHub-Delivery"] == standin.deliveries[-1].guid
    assert headers["X-GitHub-Hook-Installation-Target-Type"] == "integration"
    assert headers["X-GitHub-Hook-Installation-Target-ID"] == standin.app_id
    assert headers["User-Agent"].startswith("GitHub-Hookshot/")
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == standin.deliveries[-1].payload
    assert hashlib.sha256(body).digest() == hashlib.sha256(standin.deliveries[-1].body).digest()


async def test_a_comment_s_payload(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    ann = standin.create_user("ann")
    comment = await standin.comment(repo, number, "hello", "ann")
    payload = json.loads(receiver.got[-1][1])
    assert payload["action"] == "created"
    assert (payload["comment"]["id"], payload["comment"]["body"]) == (comment, "hello")
    assert (payload["comment"]["user"]["id"], payload["sender"]["id"]) == (ann.id, ann.id)
    assert payload["comment"]["performed_via_github_app"] is None
    assert payload["issue"]["number"] == number
    assert payload["issue"]["pull_request"]["url"].endswith(f"/repos/octo/demo/pulls/{number}")
    assert payload["repository"]["id"] == repo.id
    assert payload["installation"]["id"] == standin.installation_id(repo)
    assert "organization" not in payload


async def test_a_comment_on_an_issue_names_no_pull_request(standin: StandIn, receiver: Any, repo: Repo) -> None:
    await standin.comment(repo, standin.create_issue(repo, "Plain"), "hello")
    assert "pull_request" not in json.loads(receiver.got[-1][1])["issue"]


async def test_the_bot_s_own_comment_comes_back(standin: StandIn, receiver: Any, api: Any, number: int) -> None:
    await api("POST", f"/repos/octo/demo/issues/{number}/comments", {"body": "mine"})
    await standin.settle()
    payload = json.loads(receiver.got[-1][1])
    assert payload["sender"] | {} == payload["sender"] | {"login": "codex-debate[bot]", "type": "Bot"}
    assert payload["comment"]["performed_via_github_app"]["slug"] == "codex-debate"


async def test_edits_and_deletions_are_told(standin: StandIn, receiver: Any, repo: Repo, number: int) -> None:
    comment = await standin.comment(repo, number, "one")
    await standin.edit_comment(comment, "two")
    edited = json.loads(receiver.got[-1][1])
    assert (edited["action"], edited["changes"], edited["comment"]["body"]) == (
        "edited",
        {"body": {"from": "one"}},
        "two",
    )
    await standin.delete_comment(comment)
    assert json.loads(receiver.got[-1][1])["action"] == "deleted"
    assert standin.comments(repo, number) == []


async def test_a_redelivery_is_the_same_bytes_under_the_same_id(
    standin: StandIn, receiver: Any, repo: Repo, number: int
) -> None:
    receiver.status = 500
    await standin.comment(repo, number, "x")
    delivery = standin.deliveries[-1]
    assert delivery.status == 500
    receiver.status = 202
    assert (await standin.redeliver(delivery.guid)).status == 202
    assert [each.status for each in delivery.attempts] == [500, 202]
    first, second = receiver.got[-2:]
    assert first == second
    with pytest.raises(LookupError):
        await standin.redeliver("none")


async def test_a_receiver_that_is_away_is_noted(standin: StandIn, repo: Repo, number: int) -> None:
    standin.webhook_url = "http://127.0.0.1:1/webhook"
    await standin.comment(repo, number, "x")
    (attempt,) = standin.deliveries[-1].attempts
    assert attempt.status is None
    assert "ClientConnectorError" in attempt.answer


async def test_without_an_address_deliveries_are_kept(tmp_path: Path) -> None:
    async with await StandIn.start(tmp_path) as standin:
        await standin.create_repository("octo/demo")
        await standin.comment("octo/demo", standin.create_issue("octo/demo", "x"), "y")
        assert [(each.event, each.attempts) for each in standin.deliveries] == [("issue_comment", [])]


async def test_only_subscribed_events_of_installed_repositories_are_sent(
    standin: StandIn, receiver: Any, repo: Repo, number: int
) -> None:
    standin.events -= {"push"}
    receiver.got.clear()
    await standin.commit(repo, "feature/x", {"b": "b"})
    assert [headers["X-GitHub-Event"] for headers, _ in receiver.got] == ["pull_request"]
    bare = await standin.create_repository("octo/bare", installed=False)
    await standin.comment(bare, standin.create_issue(bare, "x"), "y")
    assert len(receiver.got) == 1


async def test_ping(standin: StandIn, receiver: Any) -> None:
    await standin.ping()
    assert [headers["X-GitHub-Event"] for headers, _ in receiver.got] == ["ping"]
    assert json.loads(receiver.got[0][1])["hook"]["config"]["url"] == receiver.url


@pytest.mark.breaks_contract("a payload of the test's own, as GitHub sends none")
async def test_any_payload(standin: StandIn, receiver: Any) -> None:
    await standin.deliver("installation", {"action": "created"})
    assert [headers["X-GitHub-Event"] for headers, _ in receiver.got] == ["installation"]
    assert json.loads(receiver.got[0][1]) == {"action": "created"}
