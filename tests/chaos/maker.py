"""A program that makes workers to which things happen at points of a run, for the seeds of this folder.

It imports a worker once and forks one for each line that it reads: a JSON object of `env` (settings), `lease` (seconds)
and `points`, a list of [kind, where, action]. It prints ``born PID``, and ``ended PID STATUS`` once one has ended.

At a point the worker leaves a mark with the time of the moment in the folder ``MARKS``; then it kills, stops or
terminates itself, or goes on when there is a file of the mark's name with ``.go`` behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mortal_worker import run

from bot import redelivery
from bot.github import wire
from bot.publish import Publisher
from bot.store import LeasedWorker, upkeep
from bot.telemetry import configure
from worker import job, main, reconcile
from worker.agents import AGENTS
from worker.attempt import Office
from worker.origin import Origin
from worker.turn import TurnReply

PAUSE = 0.01
INTO_A_TURN = 0.15
"""Seconds after which a turn is in its middle: the agent's program runs then."""
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}


class Points:
    """The points of one worker at which something happens, each once."""

    def __init__(self, points: list[list[str]], marks: Path) -> None:
        self._left = {(kind, where): action for kind, where, action in points}
        self._marks = marks

    async def reach(self, kind: str, where: object) -> None:
        """Have happen what shall happen here; what ends this process does so before anything else runs."""
        action = self._left.pop((kind, str(where)), None)
        if action is None:
            return
        mark = self._marks / f"{kind}-{str(where).strip('/')}"
        if mark.exists():  # it happened to an earlier worker
            return
        mark.with_suffix(".new").write_text(str(time.time()), "ascii")
        mark.with_suffix(".new").rename(mark)
        if action in SIGNALS:
            os.kill(os.getpid(), SIGNALS[action])
            return
        while not mark.with_suffix(".go").exists():
            await asyncio.sleep(PAUSE)


def arm(points: Points) -> None:
    """Have the worker's own steps come by its points."""
    _arm_publisher(points)
    _arm_pushes(points)
    _arm_turns(points)
    setattr(main, "Office", partial(Office, tap=partial(points.reach, "step")))  # noqa: B010 - as in mortal_worker.py


def _arm_publisher(points: Points) -> None:
    publish, count = Publisher.publish, 0

    async def published(self: Publisher, intent: Any) -> Any:
        nonlocal count
        number = count = count + 1
        await points.reach("before", number)
        done = await publish(self, intent)
        await points.reach("after", number)
        return done

    Publisher.publish = published  # type: ignore[method-assign]


def _arm_pushes(points: Points) -> None:
    push, count = Origin.push, 0

    async def pushed(self: Origin, intent: Any) -> str:
        nonlocal count
        number = count = count + 1
        await points.reach("committed", number)
        refused = await push(self, intent)
        await points.reach("pushed", number)
        return refused

    Origin.push = pushed  # type: ignore[method-assign]


def _arm_turns(points: Points) -> None:
    agent = AGENTS["scripted"]

    async def taken(request: Any, started: Any) -> TurnReply:
        async def middle() -> None:
            await asyncio.sleep(INTO_A_TURN)
            await points.reach("turn", 2 * request.turn - (request.seat == "reviewer"))

        reaching = asyncio.create_task(middle())
        try:
            reply = await agent.take_turn(request, started)
            await reaching
        finally:
            reaching.cancel()
        return reply

    AGENTS["scripted"] = replace(agent, take_turn=taken)


# ---- The program ----------------------------------------------------------------------------------------------------


def hasten() -> None:
    """Shorten what is waited for, where seconds in place of minutes change nothing but the time that a seed takes."""
    wire.REQUEST_SECONDS = 3.0
    job.AGAIN_SECONDS = 0.5
    reconcile.EVERY_SECONDS = 1.0
    setattr(reconcile, "Wait", partial(reconcile.Wait, seconds=1.0))  # noqa: B010 - as above
    redelivery.FIRST_SECONDS = 1.0
    upkeep.LEAD_SECONDS = 3


async def live() -> None:
    """Run a worker until it is told to stop, as `codex-debate worker` does."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run(stop)


def bear(line: str) -> int:
    """Fork a worker and return its process."""
    if child := os.fork():
        return child
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        asked = json.loads(line)
        os.environ.update(asked["env"])
        LeasedWorker.lease_seconds = asked["lease"]
        arm(Points(asked["points"], Path(os.environ["MARKS"])))
        asyncio.run(live())
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def tell(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - it is told to the test


def bury() -> None:
    """Tell of the workers that have ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            tell("ended", ended[0], os.waitstatus_to_exitcode(ended[1]))


def serve(read: Callable[[], bytes]) -> None:
    """Make workers until the input ends."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            bury()
        if 0 in ready:
            line = read()
            if not line:
                return
            tell("born", bear(line.decode()))


if __name__ == "__main__":
    configure("json")
    hasten()
    # Unbuffered: what is read ahead would not be seen by `select`.
    serve(os.fdopen(0, "rb", buffering=0, closefd=False).readline)
