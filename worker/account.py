"""What a turn may spend and what it spent: ceilings that are looked at before each call, and each call counted once.

It knows calls by what they used, and not how they are made.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Protocol

from bot.store import StoreAway
from bot.store.spending import MICRO, Spending
from bot.telemetry import log
from worker.debate.flow import Ceiling, Tokens, Used
from worker.metering import Reading
from worker.prices import Prices

CALLS = 1000
"""Calls of one turn (threats.md 121)."""

_log = log("worker.account")


@dataclass(frozen=True, slots=True)
class TurnBudget:
    """Who asks in a turn, for what, and how much may be spent."""

    api: str
    """A name in `worker.gateway.APIS`."""
    run: str
    installation: int
    run_usd: float
    """Ceiling of the run over all its turns and attempts, in US dollars. 0: nothing may be spent."""
    day_usd: float
    """Ceiling of the installation for a day (UTC)."""
    user: int | None = None
    """The user and group, by number, that the sandbox runs as; None: this process's own."""
    calls: int = CALLS


@dataclass(frozen=True, slots=True)
class Stopped:
    """The ceiling at which a turn was stopped."""

    ceiling: Ceiling
    amount: float
    """US dollars, or calls."""
    reached: float
    """What had come together when it was looked at."""

    @property
    def sentence(self) -> str:
        """Return what happened, without a full stop."""
        match self.ceiling:
            case "money":
                return f"ceiling reached: this run may spend ${self.amount:.2f} on models and spent ${self.reached:.2f}"
            case "day":
                return (
                    f"ceiling reached: this installation may spend ${self.amount:.2f} on models in a day (UTC) and "
                    f"spent ${self.reached:.2f} today"
                )
            case _:
                return f"ceiling reached: one turn may call its model {self.amount:.0f} times"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a turn came to by now."""

    calls: int = 0
    """Calls that were let through, whatever came of them."""
    used: Used = Used()
    refused: int = 0
    """Requests that were not let through, those behind a ceiling not counted."""


class Counters(Protocol):
    """Where spending is kept: `bot.store.Store.spending`. Its methods raise `StoreAway`."""

    async def add(self, call: str, run_id: str, *, installation_id: int, day: date, spent: Spending) -> None:
        """Count a call for its run and its day."""

    async def of_run(self, run_id: str) -> Spending:
        """Return what a run came to."""

    async def of_day(self, installation_id: int, day: date) -> Spending:
        """Return what an installation's day came to."""


class Account:
    """The account of one turn."""

    def __init__(self, budget: TurnBudget, *, prices: Prices, counters: Counters) -> None:
        self.spent = Spent()
        self.stopped: Stopped | None = None
        """The first ceiling that was reached. It stands: nothing more is spent in the turn."""
        self._budget = budget
        self._prices = prices
        self._counters = counters
        self._counting: set[asyncio.Future[float]] = set()
        self._owed: dict[str, tuple[date, Spending]] = {}  # counted here, and not in the store yet

    async def may_call(self) -> bool:
        """Take one call, or say that a ceiling is reached. Raises `StoreAway`: what was spent is not known.

        Calls under way are not waited for: each of them may go beyond the ceiling by its reply.
        """
        if self.stopped is None and self._counting:
            await asyncio.wait(self._counting)
        if self.stopped is None:
            await self._tell()
            budget = self._budget
            run = await self._counters.of_run(budget.run)
            day = await self._counters.of_day(budget.installation, _today())
            # Nothing is awaited from here on, so that calls at once cannot all take the last one.
            self.stopped = self.stopped or _reached(budget, run=run, day=day, calls=self.spent.calls)
        if self.stopped is None:
            self.spent = replace(self.spent, calls=self.spent.calls + 1)
        return self.stopped is None

    def refuse(self) -> None:
        """Count a request that was not let through."""
        self.spent = replace(self.spent, refused=self.spent.refused + 1)

    def count(self, reading: Reading) -> asyncio.Future[float]:
        """Count what a call used. What is returned ends when it is kept, with its US dollars, and never fails."""
        counting = asyncio.ensure_future(self._count(reading))
        self._counting.add(counting)
        counting.add_done_callback(self._counting.discard)
        return counting

    async def close(self) -> None:
        """Wait until everything is kept, as far as the store takes it."""
        if self._counting:
            await asyncio.wait(self._counting)
        try:
            await self._tell()
        except StoreAway:
            usd = sum(spending.usd for _, spending in self._owed.values())
            _log.error("spending lost", run=self._budget.run, calls=len(self._owed), usd=round(usd, 6))

    async def _count(self, reading: Reading) -> float:
        tokens = reading.tokens
        cost = self._prices.cost(self._budget.api, reading.model, tokens, reading.cache_write, reading.cache_write_long)
        unpriced = tokens != Tokens() and not cost.known
        used = Used(reading.model or None, cost.usd, tokens, unpriced=unpriced)
        self.spent = replace(self.spent, used=self.spent.used + used)
        micro = round(cost.usd * MICRO)
        self._owed[uuid.uuid4().hex] = (
            _today(),
            Spending(calls=1, input=tokens.input, cached=tokens.cached, output=tokens.output, micro=micro),
        )
        try:
            await self._tell()
        except StoreAway:  # told again before the next call
            _log.warning("spending not kept yet", run=self._budget.run)
        return cost.usd

    async def _tell(self) -> None:
        """Have the store count what it does not know yet. Raises `StoreAway`."""
        budget = self._budget
        for call, (day, spent) in list(self._owed.items()):
            await self._counters.add(call, budget.run, installation_id=budget.installation, day=day, spent=spent)
            self._owed.pop(call, None)


def _reached(budget: TurnBudget, *, run: Spending, day: Spending, calls: int) -> Stopped | None:
    if run.micro >= budget.run_usd * MICRO:
        return Stopped("money", budget.run_usd, run.usd)
    if day.micro >= budget.day_usd * MICRO:
        return Stopped("day", budget.day_usd, day.usd)
    if calls >= budget.calls:
        return Stopped("calls", budget.calls, calls)
    return None


def _today() -> date:
    return datetime.now(UTC).date()
