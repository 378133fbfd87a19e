"""Deliveries that failed are asked for again, over the stand-in and a real receiver."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot import redelivery
from bot.github import Unavailable
from bot.redelivery import AT_ONCE, FIRST_SECONDS, redeliver_failed

NOWHERE = "http://127.0.0.1:9/webhook"


async def missed(world: Any, served: Any, *, text: str = "/codex-debate") -> str:
    """Comment while the receiver is down; return the delivery's GUID."""
    here, world.standin.webhook_url = world.standin.webhook_url, NOWHERE
    await world.standin.comment(world.repo, world.number, text, login="mona")
    world.standin.webhook_url = here
    guid: str = world.standin.deliveries[-1].guid
    return guid


def attempts(world: Any, guid: str) -> int:
    return len(next(each for each in world.standin.deliveries if each.guid == guid).attempts)


async def asked(world: Any, later: float) -> int:
    """Look, so many seconds from now, and wait until what was asked for has come."""
    count = await redeliver_failed(world.bot.app, world.store, now=time.time() + later)
    await world.standin.settle()
    return count


@pytest.mark.threat("R14")
async def test_what_was_missed_while_the_receiver_was_down_comes_after_all(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    assert await asked(world, 0) == 0, "not a moment later"
    assert await asked(world, FIRST_SECONDS + 1) == 1
    assert (attempts(world, guid), await world.store.queue.knows(guid)) == (2, True)
    assert await asked(world, 10 * FIRST_SECONDS) == 0
    assert await world.store.upkeep.failed() == {}


async def test_each_further_time_takes_twice_as_long(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    world.standin.webhook_url = NOWHERE
    for wait in (1, 2, 4):
        assert await asked(world, (wait - 0.5) * FIRST_SECONDS) == 0
        assert await asked(world, (wait + 0.5) * FIRST_SECONDS) == 1
    assert attempts(world, guid) == 4


async def test_one_whose_answer_alone_was_lost_is_not_asked_for(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    await world.store.queue.enqueue_event(guid, "issue_comment", "{}")
    assert await asked(world, FIRST_SECONDS + 1) == 0
    assert attempts(world, guid) == 1


async def test_one_that_came_at_a_person_s_word_is_not_asked_for(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    assert await asked(world, 0) == 0
    await world.standin.redeliver(guid)
    assert await asked(world, FIRST_SECONDS + 1) == 0
    assert attempts(world, guid) == 2


async def test_what_is_older_than_github_keeps_is_given_up(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    delivery = next(each for each in world.standin.deliveries if each.guid == guid)
    (attempt,) = delivery.attempts
    delivery.attempts[0] = replace(attempt, delivered_at=attempt.delivered_at - timedelta(days=2, hours=23))
    assert await asked(world, 0) == 1
    assert await asked(world, 2 * 3600) == 0
    assert await world.store.upkeep.failed() == {}


async def test_a_flood_of_failures_comes_in_parts_oldest_first(
    world: Any, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AT_ONCE == 30
    monkeypatch.setattr(redelivery, "AT_ONCE", 2)
    guids = [await missed(world, served, text=f"words {number}") for number in range(3)]
    assert await asked(world, FIRST_SECONDS + 1) == 2
    assert [attempts(world, guid) for guid in guids] == [2, 2, 1]


async def test_one_that_github_refuses_to_send_again_holds_up_no_other(world: Any, served: Any) -> None:
    first, second = [await missed(world, served, text=text) for text in ("one", "two")]
    path = f"/app/hook/deliveries/{next(e for e in world.standin.deliveries if e.guid == first).attempts[0].id}"
    world.standin.fail_next("POST", path, status=404)
    assert await asked(world, FIRST_SECONDS + 1) == 1
    assert (attempts(world, first), attempts(world, second)) == (1, 2)
    assert set(await world.store.upkeep.failed()) <= {second}


async def test_a_github_that_is_away_is_asked_the_next_time(world: Any, served: Any) -> None:
    guid = await missed(world, served)
    world.standin.fail_next("GET", "/app/hook", status=503, times=10)
    with pytest.raises(Unavailable):
        await asked(world, FIRST_SECONDS + 1)
    world.standin.clear_faults()
    assert await asked(world, FIRST_SECONDS + 1) == 1
    assert attempts(world, guid) == 2
