"""What is known of a pull request over all its debates: which findings were numbered, and which comment is the newest.

The findings themselves are not kept in this version.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from bot.store.connection import Gate, key


class Newest(BaseModel):
    """The newest comment of a pull request's debates, and what it becomes when a newer debate writes its own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    folded: str
    """Its folded body; ``{newer}`` stands for the newer comment's address."""


class Ledger:
    """The ledgers of pull requests, each known by its repository's id and its number. Raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def next_finding(self, repository_id: int, number: int) -> int:
        """Return the first free number of a finding."""
        raw: bytes | None = await self._gate.do("GET", key("findings", repository_id, number))
        return int(raw or 0) + 1

    async def keep_finding(self, repository_id: int, number: int, *, used: int) -> None:
        """Remember the highest number of a finding: ids continue over a pull request's debates (decisions.md 5.1)."""
        if used >= await self.next_finding(repository_id, number):
            await self._gate.do("SET", key("findings", repository_id, number), used, "PX", self._gate.keep_ms)

    async def newest(self, repository_id: int, number: int) -> Newest | None:
        """Return the newest debate's comment, if one is known."""
        raw: bytes | None = await self._gate.do("GET", key("newest", repository_id, number))
        return None if raw is None else Newest.model_validate_json(raw)

    async def keep_newest(self, repository_id: int, number: int, newest: Newest) -> None:
        """Remember a comment as the newest one."""
        name = key("newest", repository_id, number)
        await self._gate.do("SET", name, newest.model_dump_json(), "PX", self._gate.keep_ms)
