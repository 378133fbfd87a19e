"""Calls with the App's own credential: where it is installed, and what became of its webhook's deliveries.

It owns their paths and shapes, as verbs.py does for those of installations. It decides nothing.
"""

from __future__ import annotations

from datetime import datetime

from bot.github.client import GitHub, NotFound, understood
from bot.github.verbs import Id, Slice

REDELIVERED_SECONDS = 3 * 86400
"""For so long GitHub sends a delivery again when it is asked to; its Enterprise Server for longer (github.md A1)."""


class Installation(Slice):
    """The App on one account."""

    id: Id
    suspended_at: datetime | None = None


class Delivery(Slice):
    """One attempt to deliver an event."""

    id: Id
    guid: str
    """The same in every attempt."""
    delivered_at: datetime
    status: str
    """``OK``, or what went wrong."""

    @property
    def failed(self) -> bool:
        """Whether GitHub counts it as failed."""
        return self.status != "OK"


async def installations(github: GitHub) -> tuple[Installation, ...]:
    """Return where the App is installed.

    https://docs.github.com/en/rest/apps/apps#list-installations-for-the-authenticated-app
    """
    return tuple(understood(Installation, entry) for entry in await github.pages("/app/installations"))


async def installation_of(github: GitHub, repo: str) -> int | None:
    """Return the installation that a repository belongs to now, by a name that it has or had; None: to none.

    https://docs.github.com/en/rest/apps/apps#get-a-repository-installation-for-the-authenticated-app
    """
    try:
        return understood(Installation, await github.get(f"/repos/{repo}/installation")).id
    except NotFound:
        return None


async def deliveries(github: GitHub, *, after: int, since: datetime) -> tuple[Delivery, ...]:
    """Return the attempts to deliver since a time, newest first, up to the one whose id is `after`.

    https://docs.github.com/en/rest/apps/webhooks#list-deliveries-for-an-app-webhook
    """

    def known(entry: object) -> bool:
        found = understood(Delivery, entry)
        return found.id == after or found.delivered_at < since

    entries = await github.pages("/app/hook/deliveries", until=known)
    return tuple(understood(Delivery, entry) for entry in entries)


async def redeliver(github: GitHub, delivery_id: int) -> None:
    """Have a delivery sent again, under its GUID. Raises `NotFound` or `GitHubError` where that cannot be any more.

    https://docs.github.com/en/rest/apps/webhooks#redeliver-a-delivery-for-an-app-webhook
    """
    await github.post(f"/app/hook/deliveries/{delivery_id}/attempts")
