"""An approval belongs to one commit of one pull request."""

from __future__ import annotations

from bot.store import Store
from bot.store.runs import Person

MONA, HUBOT = Person(id=7, login="mona"), Person(id=8, login="hubot")


async def test_an_approval_is_for_exactly_one_commit(store: Store) -> None:
    approvals = store.approvals
    assert await approvals.approver(42, 12, head_sha="a" * 40) is None
    await approvals.approve(42, 12, head_sha="a" * 40, by=MONA)
    assert await approvals.approver(42, 12, head_sha="a" * 40) == MONA
    assert await approvals.approver(42, 12, head_sha="b" * 40) is None
    assert await approvals.approver(42, 13, head_sha="a" * 40) is None
    assert await approvals.approver(43, 12, head_sha="a" * 40) is None


async def test_the_newest_approval_stands(store: Store) -> None:
    await store.approvals.approve(42, 12, head_sha="a" * 40, by=MONA)
    await store.approvals.approve(42, 12, head_sha="a" * 40, by=HUBOT)
    assert await store.approvals.approver(42, 12, head_sha="a" * 40) == HUBOT
