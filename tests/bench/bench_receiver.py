"""The receiver under load: 500 deliveries a second over 64 connections, on one core, with a real store.

Run by hand; prints figures and ratios of one run (aims: p99 under 10 ms, memory flat over 100,000 deliveries, no good
delivery later than a second beside 200 slow connections):

    python tests/bench/bench_receiver.py [--count 100000] [--rate 500] [--only load|slow|large|flood]

The receiver is a process of its own on the first core. The load, the store and this program share the second one. The
load is an open loop: a delivery's time counts from the moment at which it should have been sent. The event worker is
off, but for `flood`; in its place a drain takes jobs out of the queue unread, at the pace at which they come, so that
the store does not grow. The log goes to a file. The unit of the ratio is a bare aiohttp handler that reads the body and
answers 202, under the same load.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hashlib
import hmac
import itertools
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from aiohttp import web
from pydantic import SecretStr
from redis.asyncio import Redis

from bot import telemetry
from bot.app import create_app
from bot.body import BODY_LIMIT
from bot.listen import listen
from bot.main import run_bot
from bot.settings import Settings
from bot.store import Store
from bot.store.connection import PREFIX
from deploy.standin import Repo, StandIn
from deploy.store import EmbeddedStore

SECRET = "s" * 32
CONNECTIONS = 64
SLOW = 200
MARK = 987654321
"""Stands for the comment's id in the template of a payload."""
DRAIN = """
for _, id in ipairs(redis.call('zpopmin', KEYS[1], ARGV[1])) do redis.call('del', 'arq:job:' .. id) end
"""

# ---- The receiver's process -----------------------------------------------------------------------------------------


async def serve(kind: str, url: str) -> None:
    """Be the receiver, or what it is compared with, until this process is ended."""
    telemetry.configure("json")

    async def missing() -> Sequence[str]:
        return ()

    async def plain(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=202, text="Accepted.\n")

    if kind == "plain":
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_post("/webhook", plain)
    elif kind == "receiver":
        store = await Store.connect(url)
        app = create_app(SECRET, store.queue, missing=missing, metrics=telemetry.Metrics())
    else:
        settings = Settings.model_validate_json(sys.stdin.readline())
        settings = settings.model_copy(update={"github_webhook_secret": SecretStr(SECRET)})
        store = await Store.connect(url)
        await run_bot(settings, store, stop=asyncio.Event(), ready=lambda port: print(port, flush=True))
    listener = await listen(app, "127.0.0.1", 0)
    print(listener.port, flush=True)
    await asyncio.Event().wait()


@dataclass
class Process:
    """The receiver as this program sees it."""

    pid: int
    port: int

    def rss(self, name: str = "VmRSS") -> float:
        """Return the memory that it holds, in MiB; ``VmHWM`` is the most since `forget_peak`."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def cpu(self) -> float:
        """Return the seconds of a core that it has used."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def process(kind: str, url: str, settings: str = "") -> AsyncIterator[Process]:
    """Start a receiver on the first core."""
    with tempfile.TemporaryFile() as log:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, "--serve", kind, "--store", url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, {0}),
        )
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(settings.encode() + b"\n")
        try:
            yield Process(child.pid, int(await child.stdout.readline()))
        finally:
            child.kill()
            await child.wait()


# ---- The load -------------------------------------------------------------------------------------------------------


def head(body: bytes, delivery: str, *, signature: str | None = None, length: int | None = None) -> bytes:
    """Return the head of a delivery."""
    signed = signature or "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return (
        "POST /webhook HTTP/1.1\r\nHost: receiver\r\nAccept: */*\r\nContent-Type: application/json\r\n"
        f"User-Agent: GitHub-Hookshot/5741dab\r\nX-GitHub-Delivery: {delivery}\r\nX-GitHub-Event: issue_comment\r\n"
        "X-GitHub-Hook-ID: 481516\r\nX-GitHub-Hook-Installation-Target-Type: integration\r\n"
        f"X-Hub-Signature-256: {signed}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode()


async def status(reader: asyncio.StreamReader) -> int:
    """Return the status of the next answer, read to its end."""
    raw = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(raw.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
    return int(raw.split(b" ", 2)[1])


@dataclass
class Load:
    """Deliveries in an open loop, and how long each took from when it was due."""

    made: Process
    body: Callable[[int], bytes]
    rate: float
    times: list[float] = field(default_factory=list)
    refused: int = 0

    async def run(self, count: int, *, connections: int = CONNECTIONS) -> Load:
        """Send so many deliveries at the rate."""
        began, numbers = time.perf_counter() + 0.1, iter(range(count))

        async def work() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.made.port)
            for number in numbers:
                body = self.body(number)
                raw = head(body, str(uuid.uuid4())) + body
                due = began + number / self.rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                writer.write(raw)
                self.refused += await status(reader) != 202
                self.times.append(time.perf_counter() - due)
            writer.close()

        await asyncio.gather(*(work() for _ in range(connections)))
        return self

    def ms(self, share: float) -> float:
        """Return the time within which a share of the deliveries was answered, in milliseconds."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000

    def say(self) -> str:
        refused = f", {self.refused} not accepted" if self.refused else ""
        return f"p50 {self.ms(0.5):.2f} ms, p99 {self.ms(0.99):.2f} ms, max {self.ms(1):.1f} ms{refused}"


def comments(template: bytes) -> Callable[[int], bytes]:
    """Return a maker of payloads that differ in their comment's id."""
    ids, mark = itertools.count(1), str(MARK).encode()
    return lambda _number: template.replace(mark, str(next(ids)).encode())


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Redis]:
    """Return a connection to the store."""
    redis = Redis.from_url(url)
    yield redis
    await redis.aclose()


@asynccontextmanager
async def drained(url: str, rate: float) -> AsyncIterator[None]:
    """Take jobs out of the queue unread, as fast as they come."""

    async def drain() -> None:
        while True:
            await redis.eval(DRAIN, 1, f"{PREFIX}:queue:events", str(int(rate * 0.06)))  # type: ignore[misc]
            await asyncio.sleep(0.05)

    async with bare(url) as redis:
        task = asyncio.create_task(drain())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# ---- What is measured -----------------------------------------------------------------------------------------------


async def measure_load(url: str, body: Callable[[int], bytes], *, count: int, rate: float) -> None:
    """Compare the receiver with a bare handler, and watch its memory over all deliveries."""
    async with process("plain", url) as made:
        await Load(made, body, rate).run(2_000)
        used = made.cpu()
        bare = await Load(made, body, rate).run(10_000)
        bare_ms = (made.cpu() - used) / 10_000 * 1000
        print(f"bare handler, 10,000 at {rate:g}/s: {bare.say()}; {bare_ms:.2f} ms of the core each")
    async with process("receiver", url) as made, drained(url, rate):
        await Load(made, body, rate).run(5_000)
        before, used = made.rss(), made.cpu()
        load = await Load(made, body, rate).run(count)
        each = (made.cpu() - used) / count * 1000
        print(f"receiver, {count:,} at {rate:g}/s: {load.say()}; {each:.2f} ms of the core each")
        print(f"p99 / aim of 10 ms: {load.ms(0.99) / 10:.2f}")
        ratios = [load.ms(share) / bare.ms(share) for share in (0.5, 0.99)]
        print(f"receiver / bare handler: p50 {ratios[0]:.2f}, p99 {ratios[1]:.2f}")
        print(f"memory: {before:.1f} MiB after 5,000, {made.rss():.1f} MiB after {count + 5_000:,}")


async def measure_slow(url: str, body: Callable[[int], bytes], *, rate: float) -> None:
    """Hold 200 slow connections open, each begun anew when it is cut, beside the same load."""
    slow_body = head(b"", str(uuid.uuid4()), length=1_000_000) + b"{"
    starts = (b"POST /web", slow_body, b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    cut = 0

    async def slow(start: bytes) -> None:
        nonlocal cut
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(start)
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1000), 1.0)
                    if start and not start.startswith(b"GET"):
                        writer.write(b"x")
            cut += 1
            writer.close()

    async with process("receiver", url) as made, drained(url, rate):
        await Load(made, body, rate).run(2_000)
        before = made.rss()
        tasks = [asyncio.create_task(slow(starts[n % 4])) for n in range(SLOW)]
        await asyncio.sleep(1)
        load = await Load(made, body, rate).run(int(rate * 25))
        print(f"beside {SLOW} slow connections, 25 s at {rate:g}/s: {load.say()}; {cut} were cut meanwhile")
        print(f"worst / aim of 1 s: {load.ms(1) / 1000:.3f}; memory {before:.1f} → {made.rss():.1f} MiB")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure_large(url: str, body: Callable[[int], bytes]) -> None:
    """Send large bodies, good ones one after the other and unsigned ones all at once, and watch the memory."""
    large = body(0).replace(b'{"action"', b'{"noise": "' + b"x" * 24_900_000 + b'", "action"', 1)

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(head(large, str(uuid.uuid4())) + large)
        answer = await status(reader)
        writer.close()
        return answer

    async def unsigned() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        answer = 0
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(head(b"", str(uuid.uuid4()), length=BODY_LIMIT))
            for _ in range(BODY_LIMIT // 65_536):
                writer.write(b"x" * 65_536)
                await writer.drain()
            answer = await status(reader)
        writer.close()
        return answer

    async with process("receiver", url) as made, drained(url, 500):
        await Load(made, body, 500).run(2_000)
        before = made.rss()
        began = time.perf_counter()
        answers = {await one() for _ in range(20)}
        each = (time.perf_counter() - began) / 20
        await asyncio.sleep(1)
        print(f"20 bodies of 24.9 MB: {answers}, {each:.2f} s each; peak {made.rss('VmHWM'):.0f} MiB")
        print(f"memory: {before:.1f} MiB before, {made.rss():.1f} MiB after")
        made.forget_peak()
        tasks = [asyncio.create_task(unsigned()) for _ in range(SLOW)]
        load = await Load(made, body, 50).run(250)
        ends = await asyncio.gather(*tasks)
        seen = {answer: ends.count(answer) for answer in sorted(set(ends))}
        await asyncio.sleep(1)
        print(f"{SLOW} unsigned senders of 25 MiB at once: answers {seen} (0: cut); peak {made.rss('VmHWM'):.0f} MiB")
        print(f"good deliveries beside them, at 50/s: {load.say()}; memory after {made.rss():.1f} MiB")


async def measure_flood(url: str, standin: StandIn, repo: Repo, number: int) -> None:
    """Give 10,000 signed commands for one pull request within a minute to a whole bot, and count the runs."""
    settings = {
        "github_app_id": standin.app_id,
        "github_app_private_key": standin.app_private_key,
        "github_webhook_secret": SECRET,
        "github_api_url": standin.api_url,
        "github_server_url": standin.server_url,
        "reviewer": "lint",
        "author": "lint",
        "port": 0,
    }
    bodies = []
    for n in range(10_000):
        await standin.comment(repo, number, f"/codex-debate --max-rounds {n % 12 + 1}", login="mona")
        bodies.append(standin.deliveries.pop().body)
    async with process("bot", url, json.dumps(settings)) as made, bare(url) as redis:
        await Load(made, bodies.__getitem__, 10_000 / 60).run(2_000)
        before = made.rss()
        load = await Load(made, lambda n: bodies[n + 2_000], 10_000 / 60).run(8_000)
        store = await Store.connect(url)
        held = await store.runs.holders(repo.id, number)
        await store.close()
        waiting, queued = [await redis.zcard(f"{PREFIX}:queue:{name}") for name in ("events", "runs")]
        print(f"10,000 commands in a minute: {load.say()}; {waiting} events wait still (60 writes a minute)")
        print(f"runs: {held.running is not None:d} running, {held.waiting is not None:d} waiting, {queued} queued")
        print(f"memory of the bot: {before:.1f} MiB after 2,000, {made.rss():.1f} MiB after 10,000")


# ---- All of it ------------------------------------------------------------------------------------------------------


async def main(only: str | None, *, count: int, rate: float) -> None:
    """Measure and print."""
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as name:
        async with EmbeddedStore(Path(name) / "store") as url, await StandIn.start(Path(name) / "github") as standin:
            repo = await standin.create_repository("octo-org/tidebook")
            await standin.commit(repo, "main", {"a.txt": "one\n"})
            await standin.commit(repo, "retry", {"a.txt": "two\n"}, parent="main")
            standin.create_user("mona")
            standin.set_permission(repo, "mona", "write")
            text = "The tide [x] rises and {falls}, see #12 and `code`.\n" * 200
            number = await standin.open_pull_request(repo, "retry", "main", "Retry renewals", text)
            comment = await standin.comment(repo, number, "/codex-debate review", login="mona")
            template = standin.deliveries[-1].body.replace(f'"id":{comment},'.encode(), f'"id":{MARK},'.encode())
            print(f"a payload: {len(template):,} bytes")
            gc.freeze()
            gc.disable()  # what the load costs is no part of the answer
            body = comments(template)
            parts: dict[str, Callable[[], Awaitable[None]]] = {
                "load": lambda: measure_load(url, body, count=count, rate=rate),
                "slow": lambda: measure_slow(url, body, rate=rate),
                "large": lambda: measure_large(url, body),
                "flood": lambda: measure_flood(url, standin, repo, number),
            }
            for part, measure in parts.items():
                if only in {None, part}:
                    await measure()


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--only", choices=("load", "slow", "large", "flood"))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    if asked.serve:
        asyncio.run(serve(asked.serve, asked.store))
    else:
        asyncio.run(main(asked.only, count=asked.count, rate=asked.rate))
