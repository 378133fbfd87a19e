"""A worker that ends itself with SIGKILL at one point of a run, for the stories of `test_kill.py`.

The program imports a worker once, and forks one for each line that it reads: ``step:/1`` dies after that step is
journaled, ``before:3`` and ``after:3`` around the third effect on GitHub; a line may name several points, and an empty
one lives. It prints the process id of each, and its status once it has ended. The settings come from the environment,
as those of any worker. What it logs goes to standard error, as lines of JSON; what the oracles of its calls have found,
as errors.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from oracles.calls import Calls
from oracles.canaries import Canaries

from bot.publish import Publisher
from bot.settings import load_settings
from bot.store import LeasedWorker, Store
from bot.telemetry import configure, log
from deploy.pricing import prices
from worker import main
from worker.attempt import Office

LEASE_SECONDS = 1.0
"""A sixth of the real lease: a story should not take minutes. The real one is held by tests/bot/store."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(kind: str, where: str) -> None:
    """Make this process die at a point."""
    if kind == "step":
        make = Office

        async def tap(path: str) -> None:
            if path == where:
                die()

        def mortal(*parts: Any, **more: Any) -> Office:
            return make(*parts, **(more | {"tap": tap}))

        setattr(main, "Office", mortal)  # noqa: B010 - mypy takes no assignment to what another module imported
        return
    publish, count = Publisher.publish, 0

    async def counted(self: Publisher, intent: Any) -> Any:
        nonlocal count
        count += 1
        if kind == "before" and count == int(where):
            die()
        done = await publish(self, intent)
        if kind == "after" and count == int(where):
            die()
        return done

    Publisher.publish = counted  # type: ignore[method-assign]


async def run(stop: asyncio.Event) -> None:
    """Run a worker with the settings of the environment, until `stop` is set."""
    settings = load_settings(receiver=False)
    canaries = Canaries(every_token=True)
    canaries.add("the App's private key", settings.github_app_private_key.get_secret_value())
    Calls(canaries, lambda oracle, words: log(__name__).error(oracle, words=words)).begin()
    store = await Store.connect(settings.redis_url or "")
    await main.run_worker(settings, store, main.Supplies(prices(settings.state_dir)), stop=stop)


def serve() -> None:
    """Make a worker for each line that is read."""
    LeasedWorker.lease_seconds = LEASE_SECONDS
    configure("json")
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            for point in line.split():
                arm(*point.split(":", 1))
            asyncio.run(run(asyncio.Event()))
            os._exit(0)
        print(child, flush=True)  # noqa: T201 - it is told to the test
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    serve()
