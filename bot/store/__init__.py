"""The only room that knows Redis.

It keeps runs, their journals, their outward effects and the queues; it hands out typed values and three errors.
"""

from __future__ import annotations

from typing import Self

from bot.store.approvals import Approvals
from bot.store.connection import Gate, LostFence, StoreAway, StoreRefused
from bot.store.health import Health
from bot.store.installations import Installations
from bot.store.journal import AlreadyJournaled, Journal
from bot.store.lease import Lease
from bot.store.ledger import Ledger, Newest
from bot.store.outbox import Outbox, Writer
from bot.store.pace import Pace
from bot.store.queue import EVENTS, RUNS, LeasedWorker, Queue, TryAgain
from bot.store.runs import Runs
from bot.store.spending import Spendings
from bot.store.upkeep import Branch, Failed, Upkeep

KEEP_DAYS = 30
"""Days for which records are kept after they were last written, unless the operator says otherwise."""


class Store:
    """One connection to the store. Open it with `connect`, in the event loop that uses it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.runs = Runs(gate)
        self.outbox = Outbox(gate)
        self.ledger = Ledger(gate)
        self.approvals = Approvals(gate)
        self.installations = Installations(gate)
        self.pace = Pace(gate)
        self.health = Health(gate)
        self.spending = Spendings(gate)
        self.queue = Queue(gate)
        self.upkeep = Upkeep(gate)

    @classmethod
    async def connect(cls, url: str, *, keep_days: int = KEEP_DAYS) -> Self:
        """Return a store that answers.

        `url` begins with ``redis://``, ``rediss://`` or ``unix://``. Raises `StoreAway` where nothing answers within
        five seconds, and `StoreRefused` where what answers would lose records.
        """
        gate = Gate(url, keep_seconds=keep_days * 86400)
        try:
            await gate.check()
        except BaseException:
            await gate.close()
            raise
        return cls(gate)

    def journal(self, run_id: str, fence: int) -> Journal:
        """Return a run's journal as the attempt with this fence sees it."""
        return Journal(self._gate, run_id, fence)

    async def close(self) -> None:
        """Close all connections."""
        await self._gate.close()


__all__ = [
    "EVENTS",
    "RUNS",
    "AlreadyJournaled",
    "Branch",
    "Failed",
    "Journal",
    "Lease",
    "LeasedWorker",
    "Ledger",
    "LostFence",
    "Newest",
    "Outbox",
    "Pace",
    "Queue",
    "Runs",
    "Store",
    "StoreAway",
    "StoreRefused",
    "TryAgain",
    "Upkeep",
    "Writer",
]
