"""Deliveries to the App's webhook: signed, kept with their answers, never repeated unless somebody asks.

It owns the transport alone; what a payload says is `payloads`. A delivery that fails stays failed, as on GitHub.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import uuid
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp

from deploy.standin.auth import App

ANSWER_SECONDS = 10.0
"""A delivery that is not answered by then has failed.

https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks
"""
ALWAYS = ("ping", "installation", "installation_repositories")
"""Events that no App can unsubscribe from."""
USER_AGENT = "GitHub-Hookshot/5741dab"
HOOK_ID = 481516


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to deliver. `status` is None where there was no answer; `answer` then says why."""

    status: int | None
    answer: str
    id: int = 0
    """GitHub's id of the try: it rises."""
    delivered_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def good(self) -> bool:
        """Tell whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to the App. `attempts` is empty while it has no receiver."""

    guid: str
    """``X-GitHub-Delivery``: the same in every attempt."""
    event: str
    payload: dict[str, Any]
    body: bytes
    headers: dict[str, str]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def status(self) -> int | None:
        """The newest answer's status; None where there is none."""
        return self.attempts[-1].status if self.attempts else None


class Webhooks:
    """The App's webhook: where it is, what was sent, and the deliveries that are under way."""

    def __init__(self, app: App, url: str | None, events: set[str], suspended: Collection[int] = ()) -> None:
        """`suspended` are the installations that nothing is told of."""
        self.url = url
        self.suspended = suspended
        self.events = events
        self.deliveries: list[Delivery] = []
        self._app = app
        self._ids = itertools.count(9_000_001)
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def deliver(self, event: str, payload: dict[str, Any]) -> Delivery | None:
        """Deliver an event and return it with its answer. None where the App is not subscribed to it."""
        if event not in self.events and event not in ALWAYS:
            return None
        if event not in ALWAYS and payload.get("installation", {}).get("id") in self.suspended:
            return None
        body = json.dumps(payload, separators=(",", ":")).encode()
        delivery = Delivery(str(uuid.uuid4()), event, payload, body, {})
        delivery.headers.update(self._headers(delivery))
        self.deliveries.append(delivery)
        await self._attempt(delivery)
        return delivery

    async def deliver_all(self, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Deliver events one after the other."""
        for event, payload in events:
            await self.deliver(event, payload)

    def later(self, work: Awaitable[object]) -> None:
        """Do something after the present answer is given, as GitHub delivers after it has answered the API call."""

        async def do() -> None:
            await work

        task = asyncio.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def redeliver(self, guid: str) -> Delivery:
        """Send a delivery once more: the same bytes under the same id. Raises LookupError."""
        for delivery in self.deliveries:
            if delivery.guid == guid:
                await self._attempt(delivery)
                return delivery
        raise LookupError(f"there is no delivery {guid}")

    async def settle(self) -> None:
        """Return when no delivery is under way any more."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await self.settle()
        if self._session is not None:
            await self._session.close()

    def _headers(self, delivery: Delivery) -> dict[str, str]:
        secret = self._app.webhook_secret.encode()
        return {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Hook-ID": str(HOOK_ID),
            "X-GitHub-Hook-Installation-Target-ID": str(self._app.id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature": f"sha1={hmac.new(secret, delivery.body, hashlib.sha1).hexdigest()}",
            "X-Hub-Signature-256": f"sha256={hmac.new(secret, delivery.body, hashlib.sha256).hexdigest()}",
        }

    async def _attempt(self, delivery: Delivery) -> None:
        if self.url is None:
            return
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))
        status: int | None
        try:
            async with self._session.post(
                self.url, data=delivery.body, headers=delivery.headers, allow_redirects=False
            ) as response:
                status, answer = response.status, await response.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status, answer = None, f"{type(error).__name__}: {error}"
        delivery.attempts.append(Attempt(status, answer, next(self._ids)))
