"""The scripts are one step each: whoever comes at the same time, there is one winner."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from bot.store import LostFence, Store
from bot.store.runs import Full, Run, Started, Waiting

MakeRun = Callable[..., Run]


async def test_of_many_at_once_one_starts_one_waits_and_the_others_are_told(store: Store, make_run: MakeRun) -> None:
    claims = await asyncio.gather(*(store.runs.claim(make_run(), f"text {n}") for n in range(20)))
    assert Counter(type(claim) for claim in claims) == {Started: 1, Waiting: 1, Full: 18}


async def test_attempts_that_begin_at_once_have_different_fences(store: Store, make_run: MakeRun) -> None:
    run = make_run()
    await store.runs.claim(run, "text")
    fences = await asyncio.gather(*(store.runs.begin_attempt(run.id) for _ in range(20)))
    assert sorted(fences) == list(range(1, 21))

    async def record(fence: int) -> bool:
        try:
            await store.runs.record(run.id, fence, fingerprint=f"of {fence}")
        except LostFence:
            return False
        return True

    assert await asyncio.gather(*map(record, range(1, 21))) == [False] * 19 + [True]
    assert (await store.runs.state(run.id)).fingerprint == "of 20"


async def test_two_that_finish_at_once_promote_one_run_once(store: Store, make_run: MakeRun) -> None:
    first, second = make_run(), make_run()
    await store.runs.claim(first, "a")
    await store.runs.claim(second, "b")
    ends = await asyncio.gather(*(store.runs.finish(first.id, 0, status) for status in ("stopped", "consensus")))
    assert ends == [second.id, second.id]
    assert (await store.runs.state(first.id)).status in {"stopped", "consensus"}
    third = await store.runs.claim(make_run(), "c")
    assert isinstance(third, Waiting)
    assert third.behind == second
