"""The deliveries of the App's webhook over the API."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from deploy.standin import Repo, StandIn

DELIVERIES = "/app/hook/deliveries"


@pytest.fixture
def app(standin: StandIn, api: Any) -> Any:
    """Call the API as the App itself."""

    async def call(method: str, path: str) -> Any:
        return await api(method, path, auth=f"Bearer {standin.jwt()}")

    return call


async def test_each_try_is_a_delivery_of_its_own_newest_first(
    standin: StandIn, app: Any, receiver: Any, repo: Repo, number: int
) -> None:
    before = len((await app("GET", DELIVERIES)).body)
    receiver.status = 503
    await standin.comment(repo, number, "words")
    receiver.status = 202
    guid = standin.deliveries[-1].guid
    await standin.redeliver(guid)
    second, first, *rest = (await app("GET", DELIVERIES)).body
    assert len(rest) == before
    assert (first["guid"], second["guid"]) == (guid, guid)
    assert first["id"] < second["id"]
    assert (first["status"], first["status_code"]) == ("Invalid HTTP Response: 503 (Service Unavailable)", 503)
    assert (second["status"], second["status_code"]) == ("OK", 202)
    assert (first["redelivery"], second["redelivery"]) == (False, True)
    assert (first["event"], first["action"], first["repository_id"]) == ("issue_comment", "created", repo.id)
    assert (await app("GET", f"{DELIVERIES}?status=failure")).body == [first]


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (204, "OK", "success"),
        (302, "Invalid HTTP Response: 302 (Found)", "success"),
        (400, "Invalid HTTP Response: 400 (Bad Request)", "failure"),
        (599, "Invalid HTTP Response: 599 (Unknown)", "failure"),
    ],
)
async def test_what_is_no_2xx_is_told_as_a_failure_and_filtered_by_its_hundreds(
    standin: StandIn, app: Any, receiver: Any, repo: Repo, *, status: int, told: str, kind: str
) -> None:
    receiver.status = status
    await standin.comment(repo, standin.create_issue(repo, "x"), "words")
    newest = (await app("GET", DELIVERIES)).body[0]
    assert (newest["status"], newest["status_code"]) == (told, status)
    other = "failure" if kind == "success" else "success"
    assert newest in (await app("GET", f"{DELIVERIES}?status={kind}")).body
    assert newest not in (await app("GET", f"{DELIVERIES}?status={other}")).body


async def test_a_receiver_that_is_away_has_no_status(standin: StandIn, app: Any, repo: Repo, number: int) -> None:
    standin.webhook_url = "http://127.0.0.1:9/webhook"
    await standin.comment(repo, number, "words")
    newest = (await app("GET", DELIVERIES)).body[0]
    assert (newest["status"], newest["status_code"]) == ("failed to connect to host", 0)
    assert newest not in (await app("GET", f"{DELIVERIES}?status=failure")).body, "as GitHub's description has it"


@pytest.mark.parametrize("kind", ["", "&status=failure"])
async def test_pages_go_on_from_a_cursor_and_keep_what_was_asked_for(
    standin: StandIn, app: Any, receiver: Any, repo: Repo, number: int, kind: str
) -> None:
    receiver.status = 500
    for word in ("one", "two"):
        await standin.comment(repo, number, word)
    receiver.status = 202
    await standin.comment(repo, number, "three")
    whole = (await app("GET", f"{DELIVERIES}?per_page=100{kind}")).body
    assert (len(whole) == 2) == bool(kind)
    seen, path = [], f"{DELIVERIES}?per_page=1{kind}"
    while path:
        page = await app("GET", path)
        seen += page.body
        path = page.headers.get("Link", "").partition("<")[2].partition(">")[0].removeprefix(standin.api_url)
    assert seen == whole


async def test_it_is_sent_again_after_the_answer(
    standin: StandIn, app: Any, receiver: Any, repo: Repo, number: int
) -> None:
    await standin.comment(repo, number, "words")
    newest = (await app("GET", DELIVERIES)).body[0]
    got = len(receiver.got)
    assert (await app("POST", f"{DELIVERIES}/{newest['id']}/attempts")).status == 202
    await standin.settle()
    assert receiver.got[got][0]["X-GitHub-Delivery"] == newest["guid"]
    assert receiver.got[got][1] == receiver.got[got - 1][1]
    assert (await app("GET", f"{DELIVERIES}/{newest['id']}")).body["response"]["payload"] == "taken"


async def test_what_is_older_than_three_days_is_not_sent_again(
    standin: StandIn, app: Any, repo: Repo, number: int
) -> None:
    await standin.comment(repo, number, "words")
    attempts = standin.deliveries[-1].attempts
    attempts[-1] = replace(attempts[-1], delivered_at=attempts[-1].delivered_at - timedelta(days=3, minutes=1))
    assert (await app("POST", f"{DELIVERIES}/{attempts[-1].id}/attempts")).status == 422
    assert (await app("POST", f"{DELIVERIES}/1/attempts")).status == 404


async def test_what_had_no_receiver_is_no_delivery_yet(standin: StandIn, app: Any, repo: Repo, number: int) -> None:
    before = (await app("GET", DELIVERIES)).body
    standin.webhook_url = None
    await standin.comment(repo, number, "words")
    assert standin.deliveries[-1].attempts == []
    assert (await app("GET", DELIVERIES)).body == before


async def test_only_the_app_itself_may_look_and_ask(standin: StandIn, app: Any, api: Any, repo: Repo) -> None:
    number = (await app("GET", DELIVERIES)).body[0]["id"]
    sent = len(standin.deliveries[-1].attempts)
    for method, path in (("GET", ""), ("GET", f"/{number}"), ("POST", f"/{number}/attempts")):
        assert (await api(method, f"{DELIVERIES}{path}")).status == 401
    await standin.settle()
    assert len(standin.deliveries[-1].attempts) == sent
