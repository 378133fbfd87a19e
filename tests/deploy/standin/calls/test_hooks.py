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


async def test_a_receiver_that_is_away_has_no_status(standin: StandIn, app: Any, repo: Repo, number: int) -> None:
    standin.webhook_url = "http://127.0.0.1:9/webhook"
    await standin.comment(repo, number, "words")
    newest = (await app("GET", DELIVERIES)).body[0]
    assert (newest["status"], newest["status_code"]) == ("failed to connect to host", 0)
    assert newest not in (await app("GET", f"{DELIVERIES}?status=failure")).body, "as GitHub's description has it"


async def test_pages_go_on_from_a_cursor(standin: StandIn, app: Any, repo: Repo, number: int) -> None:
    whole = (await app("GET", DELIVERIES)).body
    assert len(whole) > 1
    seen, path = [], f"{DELIVERIES}?per_page=1"
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


async def test_only_the_app_itself_may_look(api: Any) -> None:
    assert (await api("GET", DELIVERIES)).status == 401
