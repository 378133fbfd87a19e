"""Bodies under limits: of one, in time, and of all together."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from bot import body as module
from bot.body import Bodies, Refused


@dataclass
class Sender:
    """A request whose body comes when a test says so."""

    parts: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    @property
    def content(self) -> Sender:
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        while (part := await self.parts.get()) is not None:
            yield part

    def send(self, *parts: bytes | None) -> None:
        for part in parts:
            self.parts.put_nowait(part)


def reading(bodies: Bodies, sender: Sender, *, seconds: float = 60.0) -> asyncio.Task[bytes]:
    async def read() -> bytes:
        until = asyncio.get_running_loop().time() + seconds
        async with bodies.reading(cast("Any", sender), until=until) as raw:
            return bytes(raw)

    return asyncio.create_task(read())


async def refused(task: asyncio.Task[bytes]) -> tuple[int, str]:
    with pytest.raises(Refused) as error:
        await task
    return error.value.status, error.value.sentence


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_body_is_read_as_it_came_and_let_go() -> None:
    bodies, sender = Bodies(), Sender()
    sender.send(b"a", b"bc", None)
    assert await reading(bodies, sender) == b"abc"
    assert bodies.held == 0


async def test_a_body_counts_until_its_block_is_left() -> None:
    bodies, sender = Bodies(), Sender()
    sender.send(b"abc", None)
    async with bodies.reading(cast("Any", sender), until=asyncio.get_running_loop().time() + 60):
        assert bodies.held == 3
    assert bodies.held == 0


async def test_a_body_above_the_limit_is_refused_as_soon_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_LIMIT", 3)
    bodies, sender = Bodies(), Sender()
    sender.send(b"abc", b"d")
    assert await refused(reading(bodies, sender)) == (413, "The body is too large.")
    assert bodies.held == 0


async def test_a_body_that_does_not_come_in_time() -> None:
    bodies, sender = Bodies(), Sender()
    sender.send(b"abc")
    assert await refused(reading(bodies, sender, seconds=0.05)) == (400, "The body did not arrive in time.")
    assert bodies.held == 0


async def test_a_connection_that_breaks() -> None:
    bodies = Bodies()

    class Broken(Sender):
        async def iter_any(self) -> AsyncIterator[bytes]:
            yield b"abc"
            raise ConnectionResetError

    assert await refused(reading(bodies, Broken())) == (400, "The body did not arrive whole.")
    assert bodies.held == 0


async def test_what_goes_wrong_inside_the_block_is_not_the_bodys_fault() -> None:
    bodies, sender = Bodies(), Sender()
    sender.send(b"abc", None)
    with pytest.raises(TimeoutError, match="mine"):
        async with bodies.reading(cast("Any", sender), until=asyncio.get_running_loop().time() + 60):
            raise TimeoutError("mine")
    assert bodies.held == 0


async def test_the_oldest_gives_way_where_all_together_are_too_much() -> None:
    bodies = Bodies(limit=10)
    senders = [Sender() for _ in range(3)]
    tasks = [reading(bodies, sender) for sender in senders]
    for sender in senders:
        sender.send(b"four")
        await settled()
    assert await refused(tasks[0]) == (503, "Too much arrives at once; deliver it again later.")
    senders[1].send(None)
    senders[2].send(b"23", None)
    assert [await tasks[1], await tasks[2]] == [b"four", b"four23"]
    assert bodies.held == 0


async def test_one_gives_way_itself_where_the_others_are_whole_already() -> None:
    bodies, first, second = Bodies(limit=5), Sender(), Sender()
    first.send(b"four", None)
    async with bodies.reading(cast("Any", first), until=asyncio.get_running_loop().time() + 60):
        second.send(b"23")
        assert (await refused(reading(bodies, second)))[0] == 503
        assert bodies.held == 4
    assert bodies.held == 0


async def test_what_gave_way_and_came_whole_at_once_is_refused_all_the_same() -> None:
    """Its bytes are counted no more, so nothing may go on with them."""
    bodies, first, second = Bodies(limit=5), Sender(), Sender()
    tasks = [reading(bodies, first), reading(bodies, second)]
    first.send(b"four")
    await settled()
    second.send(b"23")
    first.send(None)
    assert (await refused(tasks[0]))[0] == 503
    second.send(None)
    assert await tasks[1] == b"23"


async def test_many_large_bodies_at_once_never_hold_more_than_the_limit() -> None:
    bodies = Bodies(limit=1_000)
    senders = [Sender() for _ in range(200)]
    tasks = [reading(bodies, sender) for sender in senders]
    most = 0
    for _ in range(20):
        for sender in senders:
            sender.send(b"x" * 50)
            await asyncio.sleep(0)
            most = max(most, bodies.held)
    for sender in senders:
        sender.send(None)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 1_000
    assert sum(isinstance(each, Refused) for each in ended) > 150
    assert not any(isinstance(each, Exception) and not isinstance(each, Refused) for each in ended)
    assert bodies.held == 0


async def test_memory_is_given_back_once_after_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(module, "TRIM", given.append)
    monkeypatch.setattr(module, "TIDY_SECONDS", 0.0)
    bodies = Bodies()
    for size in (module.LARGE + 1, module.LARGE + 1, module.LARGE):
        sender = Sender()
        sender.send(b"x" * size, None)
        async with bodies.reading(cast("Any", sender), until=asyncio.get_running_loop().time() + 60):
            pass
    await settled()
    assert given == [0]


def test_memory_can_be_given_back_here() -> None:
    """Elsewhere than with glibc nothing is done, and nothing needs to be."""
    if module.TRIM is not None:
        assert module.TRIM(0) in {0, 1}
    assert (module.TRIM is None) == (platform.libc_ver()[0] != "glibc")
