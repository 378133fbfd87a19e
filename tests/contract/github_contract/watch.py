"""The contract at work in a test run: every stand-in of the process is watched, and each test answers for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.standin import Delivery, Exchange, StandIn
from deploy.standin.webhooks import Webhooks
from github_contract import deliveries, exchanges
from github_contract.violation import Violation

MARK = "breaks_contract"
SHOWN = 20
"""Violations that a failed test lists."""


class Watch:
    """Collects what was wrong since it was last asked."""

    def __init__(self) -> None:
        self.seen = 0
        """Exchanges and deliveries that were judged."""
        self._found: list[Violation] = []

    def exchange(self, exchange: Exchange) -> None:
        """Judge a request and its answer."""
        self.seen += 1
        self._found += exchanges.violations(exchange)

    def delivery(self, delivery: Delivery) -> None:
        """Judge a webhook."""
        self.seen += 1
        self._found += deliveries.violations(delivery.event, delivery.payload)

    def taken(self) -> list[Violation]:
        """Return what was found, and forget it."""
        found, self._found = self._found, []
        return found

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Watch every stand-in that is started while this lasts."""
        start, deliver = StandIn.start, Webhooks.deliver

        async def watched(root: Path, **options: Any) -> StandIn:
            started = await start(root, **options)
            started.observers.append(self.exchange)
            return started

        async def delivered(webhooks: Webhooks, event: str, payload: dict[str, Any]) -> Delivery | None:
            if (delivery := await deliver(webhooks, event, payload)) is not None:
                self.delivery(delivery)
            return delivery

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StandIn, "start", watched)
            patch.setattr(Webhooks, "deliver", delivered)
            yield

    def judge(self, item: pytest.Item, *, over: bool) -> None:
        """Fail a test that broke the contract since the last call; `over`: it has run, and its fixtures have ended.

        A test that has to send what GitHub refuses says so with ``@pytest.mark.breaks_contract("why")``: it may, and it
        has to; the answers that it gets may not. What is done in the background counts for the test that is running.
        """
        found = self.taken()
        if item.get_closest_marker(MARK):
            if not found and not over:
                pytest.fail(f"this breaks no contract: take the mark {MARK} away", pytrace=False)
            found = [each for each in found if each.side == "answer"]
        if found:
            more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
            lines = "\n  ".join([*(str(each) for each in found[:SHOWN]), *more])
            pytest.fail(f"this breaks the contract with GitHub:\n  {lines}", pytrace=False)
