"""What is known of a pull request over its debates."""

from __future__ import annotations

from bot.store import Newest, Store


async def test_numbers_of_findings_go_on_and_never_back(store: Store) -> None:
    assert await store.ledger.next_finding(5, 1) == 1
    await store.ledger.keep_finding(5, 1, used=7)
    await store.ledger.keep_finding(5, 1, used=3)
    assert await store.ledger.next_finding(5, 1) == 8
    assert await store.ledger.next_finding(5, 2) == 1
    assert await store.ledger.next_finding(6, 1) == 1


async def test_the_newest_comment_is_known(store: Store) -> None:
    assert await store.ledger.newest(5, 1) is None
    for run in ("one", "two"):
        await store.ledger.keep_newest(5, 1, Newest(run=run, folded="see {newer}"))
    assert await store.ledger.newest(5, 1) == Newest(run="two", folded="see {newer}")
