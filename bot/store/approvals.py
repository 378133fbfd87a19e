"""Which commits of outsiders' pull requests a maintainer has approved, and who did.

An approval belongs to one commit of one pull request and dies with it (interface.md 4). Who may approve is policy.py's.
"""

from __future__ import annotations

from bot.store.connection import Gate, key
from bot.store.runs import Person


class Approvals:
    """The approved commits. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def approve(self, repository_id: int, number: int, *, head_sha: str, by: Person) -> None:
        """Remember that somebody approved exactly this commit. The newest approval stands."""
        await self._gate.do(
            "SET", _key(repository_id, number, head_sha), by.model_dump_json(), "PX", self._gate.keep_ms
        )

    async def approver(self, repository_id: int, number: int, *, head_sha: str) -> Person | None:
        """Return who approved this commit, or None where nobody did."""
        raw: bytes | None = await self._gate.do("GET", _key(repository_id, number, head_sha))
        return None if raw is None else Person.model_validate_json(raw)


def _key(repository_id: int, number: int, head_sha: str) -> str:
    return key("approved", repository_id, number, head_sha)
