"""What the gateway adds to a streamed reply: to each of its pieces (aim: 2 ms), to its beginning and to a call whole.

Run by hand; prints figures and ratios of one run:

    python tests/bench/bench_gateway.py [--times 7] [--pieces 200]

The model API, the gateway (with a real store) and this program are processes of their own. The model API sends a piece
every 5 ms, with the time at which it was sent; all processes of a machine share that clock. Direct calls and calls
through the gateway take turns, and the unit of the ratio is the direct one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import aiohttp
from aiohttp import web
from pydantic import SecretStr

from bot.store import Store
from deploy.pricing import prices as shipped
from deploy.store import EmbeddedStore
from worker.gateway import SOCKET, Gateway, TurnBudget, Upstream

EVERY = 0.005
BODY = {"model": "gpt-6.1-sol", "stream": True, "input": "x" * 200_000}
"""A request as it is in the middle of a turn."""
USAGE = {"input_tokens": 50_000, "input_tokens_details": {"cached_tokens": 49_000}, "output_tokens": 1000}


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


async def model_api(pieces: int) -> None:
    """Serve the model API until this process is ended."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        async for _ in request.content.iter_any():
            pass
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        due = time.monotonic()
        for _ in range(pieces):
            due += EVERY
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            delta = event("response.output_text.delta", delta="some words", sent=time.monotonic())
            await reply.write(delta)
        await reply.write(event("response.completed", response={"model": BODY["model"], "usage": USAGE}))
        await reply.write_eof()
        return reply

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("http://{}:{}".format(*runner.addresses[0]), flush=True)
    await asyncio.Event().wait()


async def gateway(url: str) -> None:
    """Serve a turn until this process is ended."""
    prices = shipped(Path("/none"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with EmbeddedStore(folder / "store") as address:
            store = await Store.connect(address)
            ways = {"responses": Upstream(SecretStr("sk-key"), f"{url}/v1")}
            async with (
                Gateway(ways, folder / "gateway", prices=prices, spending=store.spending) as made,
                made.turn(TurnBudget("responses", "run", 1, 1e6, 1e6, calls=1_000_000)) as turn,
            ):
                print(turn.folder / SOCKET, flush=True)
                await asyncio.to_thread(sys.stdin.read)
            await store.close()


@asynccontextmanager
async def process(*argv: str) -> AsyncIterator[str]:
    """Run this program in another role; yield the first line that it prints."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, __file__, *argv, stdin=pipe, stdout=pipe)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield (await child.stdout.readline()).decode().strip()
    finally:
        child.stdin.close()
        if "model-api" in argv:
            child.terminate()
        await child.wait()


async def call(session: aiohttp.ClientSession) -> tuple[list[float], float, float]:
    """Make a call; return the delay of each piece, the seconds until it began and until it was over."""
    began, delays, rest = time.monotonic(), list[float](), b""
    async with session.post("/v1/responses", json=BODY) as reply:
        head = time.monotonic() - began
        async for data in reply.content.iter_any():
            now = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            delays += [now - json.loads(line[6:])["sent"] for line in lines if b'"sent"' in line]
    return delays, head, time.monotonic() - began


def show(name: str, direct: list[float], through: list[float]) -> None:
    """Print one comparison, in ms."""
    one, other = statistics.median(direct) * 1000, statistics.median(through) * 1000
    print(f"{name}: direct {one:.2f} ms, through {other:.2f} ms, added {other - one:.2f} ms, ratio {other / one:.3f}")


async def main(times: int, pieces: int) -> None:
    """Measure and print."""
    async with (
        process("--role", "model-api", "--pieces", str(pieces)) as url,
        process("--role", url) as path,
        aiohttp.ClientSession(url) as direct,
        aiohttp.ClientSession("http://inside", connector=aiohttp.UnixConnector(path)) as through,
    ):
        for session in (direct, through):
            await call(session)
        runs = [(await call(direct), await call(through)) for _ in range(times)]
    plain, relayed = ([run[side] for run in runs] for side in (0, 1))
    all_plain, all_relayed = ([delay for run in each for delay in run[0]] for each in (plain, relayed))
    show(f"a piece, median of {len(all_plain)}", all_plain, all_relayed)
    tails = [sorted(each)[int(len(each) * 0.99)] * 1000 for each in (all_plain, all_relayed)]
    print(f"a piece, 99th of 100: direct {tails[0]:.2f} ms, through {tails[1]:.2f} ms")
    show("the beginning of a reply", [run[1] for run in plain], [run[1] for run in relayed])
    show("a call", [run[2] for run in plain], [run[2] for run in relayed])
    added = statistics.median(all_relayed) - statistics.median(all_plain)
    print(f"added to a piece / aim of 2 ms: {added * 1000 / 2:.2f}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--times", type=int, default=7)
parser.add_argument("--pieces", type=int, default=200)
parser.add_argument("--role", default="")
options = parser.parse_args()
if options.role == "model-api":
    asyncio.run(model_api(options.pieces))
elif options.role:
    asyncio.run(gateway(options.role))
else:
    asyncio.run(main(options.times, options.pieces))
