"""The parts of one stand-in, as its calls and its git server use them."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.standin.auth import App, Tokens
from deploy.standin.hosting import Distance, Hosting
from deploy.standin.record import Record
from deploy.standin.shapes import Shapes, Urls
from deploy.standin.state import Pull, Repo, State
from deploy.standin.webhooks import Webhooks


@dataclass(frozen=True, slots=True)
class Site:
    """One stand-in GitHub."""

    app: App
    urls: Urls
    state: State
    shapes: Shapes
    hosting: Hosting
    tokens: Tokens
    webhooks: Webhooks
    record: Record
    grants: dict[str, str]
    """What the App's installations are granted; it may be changed at any time and holds for tokens issued then."""

    async def distance(self, repo: Repo, pull: Pull) -> Distance:
        """Return how a pull request's head lies to its base."""
        return await self.hosting.distance(repo.path, pull.base_sha, pull.head_sha)
