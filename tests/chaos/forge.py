"""Workers as processes that tests start, kill, stop and end: the other side of `maker.py`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from town import ROOT, Town

from tests.chaos.plans import SHORT_LEASE

PATIENCE = 60.0
PROGRAM = Path(__file__).with_name("maker.py")

Point = tuple[str, str, str]
"""What kind of point it is, which one, and what happens there."""


@dataclass
class Mortal:
    """One worker process."""

    process: int
    ended: asyncio.Future[int]
    points: list[Point] = field(default_factory=list)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it lives."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                os.kill(self.process, number)

    async def end(self) -> int:
        """End it as a deploy does, and return its status."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(asyncio.shield(self.ended), PATIENCE)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            raise


@dataclass
class Forge:
    """The program that makes workers."""

    program: asyncio.subprocess.Process
    log: Path
    alive: dict[int, Mortal] = field(default_factory=dict)
    _births: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    _early: dict[int, int] = field(default_factory=dict)

    async def worker(
        self, town: Town, marks: Path, points: Iterable[Point] = (), *, lease: float = SHORT_LEASE, store: str = ""
    ) -> Mortal:
        """Start a worker; `store` is the address of the store that it is given in the place of the town's."""
        env = town.environment | {"MARKS": str(marks)} | ({"REDIS_URL": store} if store else {})
        line = json.dumps({"env": env, "lease": lease, "points": list(points)})
        assert self.program.stdin is not None
        self.program.stdin.write(f"{line}\n".encode())
        process = await asyncio.wait_for(self._births.get(), PATIENCE)
        made = Mortal(process, asyncio.get_running_loop().create_future(), list(points))
        if process in self._early:
            made.ended.set_result(self._early.pop(process))
        else:
            self.alive[process] = made
        return made

    async def listen(self) -> None:
        """Hear of births and ends."""
        assert self.program.stdout is not None
        async for line in self.program.stdout:
            word, process, *status = line.decode().split()
            if word == "born":
                self._births.put_nowait(int(process))
            elif known := self.alive.pop(int(process), None):
                known.ended.set_result(int(status[0]))
            else:
                self._early[int(process)] = int(status[0])

    async def end_all(self) -> list[int]:
        """End the workers that live, and return their statuses."""
        return [await each.end() for each in list(self.alive.values())]

    def kill_all(self) -> None:
        for each in list(self.alive.values()):
            each.signal(signal.SIGKILL)


@asynccontextmanager
async def forge_in(folder: Path) -> AsyncIterator[Forge]:
    """Run the program while the block goes on. What its workers log goes to ``log`` below the folder."""
    pipe = asyncio.subprocess.PIPE
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ["HOME"]}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "stories")])
    log = folder / "log"
    with log.open("wb") as errors:
        program = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), env=env, stdin=pipe, stdout=pipe, stderr=errors, limit=1 << 20
        )
    forge = Forge(program, log)
    listening = asyncio.create_task(forge.listen())
    try:
        yield forge
    finally:
        forge.kill_all()
        assert program.stdin is not None
        program.stdin.close()
        await asyncio.wait_for(program.wait(), PATIENCE)
        await listening
    assert program.returncode == 0
