"""The App's own calls, over the stand-in and over answers that nobody expects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.github import GitHub, Unavailable, own

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def entry(number: int, **over: object) -> dict[str, object]:
    return {
        "id": number,
        "guid": f"g{number}",
        "delivered_at": (NOW - timedelta(minutes=100 - number)).isoformat(),
        "status": "OK",
        "event": "push",
    } | over


async def test_deliveries_are_read_up_to_the_one_that_is_known(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200, [entry(9), entry(8, status="failed to connect"), entry(7), entry(6)])]
    found = await own.deliveries(github, after=7, since=NOW - timedelta(days=3))
    assert [(each.id, each.failed) for each in found] == [(9, False), (8, True)]
    assert server.heard[0].path == "/api/v3/app/hook/deliveries?per_page=100"


async def test_and_up_to_the_age_that_counts(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200, [entry(9), entry(8)])]
    found = await own.deliveries(github, after=0, since=NOW - timedelta(minutes=91, seconds=30))
    assert [each.id for each in found] == [9]


async def test_no_further_page_is_asked_for_than_is_needed(server: Any, github: GitHub) -> None:
    more = {"Link": f'<{server.url}/api/v3/app/hook/deliveries?cursor=x>; rel="next"'}
    server.answers = [server.says(200, [entry(9), entry(8)], **more)]
    await own.deliveries(github, after=8, since=NOW - timedelta(days=3))
    assert len(server.heard) == 1


async def test_an_answer_of_another_shape_is_no_delivery(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200, [{"id": "9"}])]
    with pytest.raises(Unavailable):
        await own.deliveries(github, after=0, since=NOW)


async def test_a_repository_that_the_app_has_no_part_in(server: Any, github: GitHub) -> None:
    server.answers = [server.says(404)]
    assert await own.installation_of(github, "octo/demo") is None
    server.answers = [server.says(200, {"id": 7})]
    assert await own.installation_of(github, "octo/demo") == 7


async def test_installations_and_whether_they_are_suspended(server: Any, github: GitHub) -> None:
    server.answers = [server.says(200, [{"id": 7, "suspended_at": None}, {"id": 8, "suspended_at": NOW.isoformat()}])]
    assert [(each.id, each.suspended_at) for each in await own.installations(github)] == [(7, None), (8, NOW)]
