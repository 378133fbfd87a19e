"""What a turn may spend: looked at before each call, and counted once, also where the store was away for a while."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.store import Store, StoreAway
from bot.store.spending import Spending
from worker.account import Account, Stopped, TurnBudget
from worker.debate.flow import Tokens
from worker.metering import Reading
from worker.prices import Prices, load

PRICES = load(
    "\n".join(
        f'[[price]]\napi = "{api}"\nmodel = "m"\ninput = {price}\ncached_input = 0.0\noutput = {price}\n'
        'source = "here"\ndate = 2026-11-30\n'
        for api, price in (("responses", 1.0), ("messages", 2.0))
    )
)
DOLLAR = Reading("m", Tokens(1_000_000, 0, 0))


def budget(**over: Any) -> TurnBudget:
    fields: dict[str, Any] = {"api": "responses", "run": "run1", "installation": 7, "run_usd": 10.0, "day_usd": 100.0}
    return TurnBudget(**(fields | over))


def account(store: Store, prices: Prices = PRICES, **over: Any) -> Account:
    return Account(budget(**over), prices=prices, counters=store.spending)


async def day(store: Store, installation: int = 7) -> Spending:
    return await store.spending.of_day(installation, datetime.now(UTC).date())


async def test_a_call_is_counted_in_the_turn_the_run_and_the_day(store: Store) -> None:
    mine = account(store)
    assert await mine.may_call()
    assert await mine.count(Reading("m", Tokens(500_000, 100_000, 200_000))) == pytest.approx(0.6)
    spent = mine.spent
    assert (spent.calls, spent.used.tokens, spent.used.model) == (1, Tokens(500_000, 100_000, 200_000), "m")
    assert spent.used.usd == pytest.approx(0.6)
    assert not spent.used.unpriced
    kept = Spending(calls=1, input=500_000, cached=100_000, output=200_000, micro=600_000)
    assert await store.spending.of_run("run1") == await day(store) == kept


@pytest.mark.parametrize(("run_usd", "calls"), [(0.0, 0), (0.5, 1), (2.0, 2), (2.5, 3)])
async def test_a_run_stops_at_its_ceiling_and_goes_beyond_by_one_reply_at_most(
    store: Store, run_usd: float, calls: int
) -> None:
    mine, made = account(store, run_usd=run_usd), 0
    while await mine.may_call():
        await mine.count(DOLLAR)
        made += 1
    assert made == mine.spent.calls == calls
    assert mine.stopped == Stopped("money", run_usd, float(calls))
    assert not await mine.may_call()


async def test_the_ceiling_is_the_runs_over_all_its_turns(store: Store) -> None:
    await account(store).count(DOLLAR)
    again = account(store, run_usd=1.0)
    assert not await again.may_call()
    assert again.stopped == Stopped("money", 1.0, 1.0)
    assert again.stopped.sentence == "ceiling reached: this run may spend $1.00 on models and spent $1.00"
    assert await account(store, run="run2", run_usd=1.0).may_call()


async def test_an_installation_stops_at_the_days_ceiling(store: Store) -> None:
    await account(store, run="run2").count(DOLLAR)
    mine = account(store, day_usd=1.0)
    assert not await mine.may_call()
    assert mine.stopped == Stopped("day", 1.0, 1.0)
    assert "in a day (UTC) and spent $1.00 today" in mine.stopped.sentence
    assert await account(store, installation=8, day_usd=1.0).may_call()


async def test_a_turn_stops_at_its_number_of_calls(store: Store) -> None:
    mine = account(store, calls=3)
    assert [await mine.may_call() for _ in range(5)] == [True, True, True, False, False]
    assert mine.stopped == Stopped("calls", 3, 3)
    assert mine.stopped.sentence == "ceiling reached: one turn may call its model 3 times"
    assert budget().calls == 1000


async def test_calls_at_once_cannot_all_take_the_last_one(store: Store) -> None:
    mine = account(store, calls=3)
    assert sum(await asyncio.gather(*(mine.may_call() for _ in range(10)))) == 3


async def test_a_call_waits_for_those_before_it_to_be_counted(store: Store) -> None:
    mine = account(store, run_usd=1.0)
    assert await mine.may_call()
    counting = mine.count(DOLLAR)
    assert not await mine.may_call()
    assert counting.done()


async def test_an_unknown_model_is_said(store: Store) -> None:
    mine = account(store)
    await mine.count(Reading("other", Tokens(1, 0, 0)))
    await mine.count(Reading("m", Tokens(1, 0, 0)))
    assert (mine.spent.used.model, mine.spent.used.unpriced) == ("m", True)


async def test_a_call_that_used_nothing_says_nothing(store: Store) -> None:
    mine = account(store)
    await mine.count(Reading("m", Tokens(1, 0, 0)))
    await mine.count(Reading())
    assert mine.spent.used.model == "m"
    assert not mine.spent.used.unpriced


class Away:
    """The counters, away for so many answers."""

    def __init__(self, store: Store, answers: int) -> None:
        self.store = store.spending
        self.answers = answers
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        if self.answers:
            self.answers -= 1
            raise StoreAway("away")
        return getattr(self.store, name)


async def test_what_the_store_did_not_hear_it_hears_before_the_next_call(store: Store) -> None:
    mine = Account(budget(run_usd=1.0), prices=PRICES, counters=Away(store, 2))
    await mine.count(DOLLAR)
    with pytest.raises(StoreAway):
        await mine.may_call()
    assert mine.stopped is None
    assert not await mine.may_call()
    assert (await store.spending.of_run("run1")).micro == 1_000_000


async def test_what_the_store_heard_it_is_not_told_again(store: Store) -> None:
    counters = Away(store, 0)
    mine = Account(budget(), prices=PRICES, counters=counters)
    for _ in range(5):
        await mine.count(DOLLAR)
    assert counters.asked == ["add"] * 5


async def test_what_the_store_never_heard_is_said_in_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    mine = Account(budget(), prices=PRICES, counters=Away(store, 99))
    counting = mine.count(DOLLAR)
    with caplog.at_level(logging.INFO):
        await mine.close()
    assert counting.done()
    (line,) = [record.msg for record in caplog.records if record.levelno == logging.ERROR]
    assert line["event"] == "spending lost"  # type: ignore[index]
    assert line["usd"] == 1.0  # type: ignore[index]


async def test_an_account_closes_when_all_is_kept(store: Store) -> None:
    mine = account(store)
    for _ in range(20):
        mine.count(DOLLAR)
    await mine.close()
    assert (await store.spending.of_run("run1")).calls == 20
