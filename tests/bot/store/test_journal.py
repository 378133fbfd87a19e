"""The journal: written once, by the newest attempt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.store import AlreadyJournaled, LostFence, Store
from bot.store.runs import Run

MakeRun = Callable[..., Run]


async def test_lines_are_kept_by_their_path(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    journal = store.journal(run.id, await store.runs.begin_attempt(run.id))
    assert await journal.all() == {}
    assert await journal.get("/0") is None
    await journal.put("/0", b"\x00\xff")
    await journal.put("/1.0/0", b"{}")
    assert await journal.get("/0") == b"\x00\xff"
    assert await journal.all() == {"/0": b"\x00\xff", "/1.0/0": b"{}"}
    assert await store.journal("another", 1).all() == {}


async def test_a_line_is_never_changed(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    journal = store.journal(run.id, await store.runs.begin_attempt(run.id))
    await journal.put("/0", b"first")
    await journal.put("/0", b"first")  # the answer was lost, and the command is sent again
    with pytest.raises(AlreadyJournaled, match="/0 of run run1 is journaled already"):
        await journal.put("/0", b"second")
    assert await journal.get("/0") == b"first"


async def test_an_older_attempt_writes_no_line(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    old = store.journal(run.id, await store.runs.begin_attempt(run.id))
    new = store.journal(run.id, await store.runs.begin_attempt(run.id))
    with pytest.raises(LostFence):
        await old.put("/0", b"old")
    await new.put("/0", b"new")
    assert await old.all() == {"/0": b"new"}


async def test_a_new_line_counts_the_deaths_anew_from_this_attempt(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "a")
    fence = await store.runs.begin_attempt(run.id)
    await store.runs.record(run.id, fence, deaths=2)
    await store.journal(run.id, fence).put("/0", b"line")
    assert (await store.runs.state(run.id)).deaths == 1
