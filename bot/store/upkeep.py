"""What the reconciler keeps: who does it, which deliveries failed, and which branches are ours until when."""

from __future__ import annotations

from collections.abc import Mapping

from bot.store.connection import Gate, Script, key
from bot.store.runs import Stored

LEAD_SECONDS = 90
"""A reconciler that gave no sign for so long is replaced; it gives one each minute."""

_LEAD = Script.of("""
-- KEYS: leader. ARGV: who asks, life in seconds. Answers 1 where it is who asks.
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'ex', ARGV[2])
return 1
""")


class Failed(Stored):
    """A delivery that GitHub counts as failed, over all its attempts."""

    id: int
    """GitHub's id of the newest attempt."""
    attempts: int
    at: float
    """When the newest attempt was made, in seconds since the epoch."""
    first: float
    """When the first attempt was made."""


class Branch(Stored):
    """A branch of ours in somebody's repository."""

    run: str
    installation: int
    repository: int
    number: int
    """The issue or pull request that it was made for."""
    name: str
    shas: tuple[str, ...]
    """Where we put it, or meant to: what stands anywhere else is somebody's work."""
    until: float
    """From when on it is of no use any more, in seconds since the epoch."""


class Upkeep:
    """The reconciler's own records. Every method raises `StoreAway`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def leads(self, who: str) -> bool:
        """Return whether `who` does what only one of all workers does, until it is silent for `LEAD_SECONDS`."""
        return bool(await self._gate.run(_LEAD, [key("leader")], who, LEAD_SECONDS))

    async def resign(self, who: str) -> None:
        """Let another one lead at once."""
        if await self.leads(who):
            await self._gate.do("DEL", key("leader"))

    # ---- Deliveries

    async def newest_delivery(self) -> int:
        """Return the id of the newest attempt to deliver that was looked at; 0 before the first look."""
        return int(await self._gate.do("GET", key("newest-delivery")) or 0)

    async def set_newest_delivery(self, number: int) -> None:
        """Remember the newest attempt to deliver that was looked at."""
        await self._gate.do("SET", key("newest-delivery"), number)

    async def failed(self) -> Mapping[str, Failed]:
        """Return the deliveries that failed so far, by their GUID."""
        table = await self._gate.table(key("failed"))
        return {guid: Failed.model_validate_json(raw) for guid, raw in table.items()}

    async def set_failed(self, guid: str, failed: Failed | None) -> None:
        """Remember that a delivery failed; None: it did not, in the end, or is given up."""
        await self._put("failed", guid, failed)

    # ---- Branches

    async def branches(self) -> tuple[Branch, ...]:
        """Return the branches that are ours."""
        table = await self._gate.table(key("branches"))
        return tuple(map(Branch.model_validate_json, table.values()))

    async def branch(self, run_id: str) -> Branch | None:
        """Return the branch of a run, if it has one."""
        raw: bytes | None = await self._gate.do("HGET", key("branches"), run_id)
        return None if raw is None else Branch.model_validate_json(raw)

    async def keep_branch(self, branch: Branch) -> None:
        """Remember a branch of a run, in place of what was known of it."""
        await self._put("branches", branch.run, branch)

    async def forget_branch(self, run_id: str) -> None:
        """Forget a branch: it is gone, or somebody else's now."""
        await self._put("branches", run_id, None)
        await self.asked(run_id)

    async def close(self, repository: int, number: int) -> None:
        """Note that an issue or pull request was closed: its branches are of no use any more, if it still is.

        It is noted beside the branches: who pushes to one at the same time writes another record.
        """
        for branch in await self.branches():
            if (branch.repository, branch.number) == (repository, number):
                await self._gate.do("SADD", key("closed"), branch.run)

    async def closed(self) -> frozenset[str]:
        """Return the runs whose issue or pull request was said to be closed: whether it still is, is to be asked."""
        found: set[bytes] = await self._gate.do("SMEMBERS", key("closed"))
        return frozenset(run.decode() for run in found)

    async def asked(self, run_id: str) -> None:
        """Take back that a run's issue or pull request was said to be closed: it was asked."""
        await self._gate.do("SREM", key("closed"), run_id)

    async def _put(self, kind: str, name: str, value: Stored | None) -> None:
        if value is None:
            await self._gate.do("HDEL", key(kind), name)
        else:
            await self._gate.do("HSET", key(kind), name, value.model_dump_json())
