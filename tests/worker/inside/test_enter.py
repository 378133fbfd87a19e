"""The first program in a sandbox, outside one: its limits, its statuses, and the bytes that it hands on."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worker.sandboxed import open_files
from worker.inside import enter
from worker.process import Finished, Program, run

ENTER = str(Path(enter.__file__))


async def entered(*command: str, limits: dict[str, int] | None = None, gateway: str = "", port: int = 0) -> Finished:
    """Run a program as it is run in a sandbox: on a Python without anything of its own."""
    words = (sys.executable, "-I", "-S", ENTER, json.dumps(limits or {}), gateway, str(port), *command)
    return await run(Program(words, env={"PATH": os.defpath}, seconds=20))


# ---- The program ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 126, 255])
async def test_it_ends_as_the_program_does(code: int) -> None:
    assert (await entered("/bin/sh", "-c", f"exit {code}")).code == code


@pytest.mark.parametrize("number", [6, 9, 11, 15])
async def test_a_signal_becomes_128_and_its_number(number: int) -> None:
    assert (await entered("/bin/sh", "-c", f"kill -{number} $$")).code == 128 + number


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/nowhere/program", "No such file or directory"),
        ("/tmp", "Permission denied"),
        (ENTER, "Permission denied"),
    ],
)
async def test_a_program_that_cannot_be_started_says_why(command: str, why: str) -> None:
    done = await entered(command)
    assert (done.code, done.stdout) == (127, b"")
    assert done.stderr.decode() == f"{command} cannot be started: {why}\n"


async def test_the_program_is_not_searched_for(tmp_path: Path) -> None:
    """A bare name is a file of the tree where it starts, which is the pull request's, and never meant."""
    done = await entered("true")
    assert done.code == 127


async def test_the_programs_signals_are_as_a_shell_sets_them() -> None:
    done = await entered("/bin/grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << (13 - 1) | 1 << (25 - 1))  # SIGPIPE, SIGXFSZ


async def test_limits_are_set_and_never_raised() -> None:
    script = 'for each in "-Sn" "-Hn" "-Sf" "-Hf" "-Hc"; do ulimit $each; done'
    done = await entered("/bin/bash", "-c", script, limits={"NOFILE": 77, "FSIZE": 4096, "CORE": 0})
    assert done.stdout.split() == [b"77", b"77", b"4", b"4", b"0"]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most != resource.RLIM_INFINITY
    done = await entered("/bin/bash", "-c", "ulimit -Hn", limits={"NOFILE": most + 1})
    assert int(done.stdout) == most


async def test_an_unknown_limit_starts_nothing() -> None:
    done = await entered("/bin/echo", "on", limits={"NOTHING": 1})
    assert done.code == 1
    assert done.stdout == b""


# ---- The way to the gateway -----------------------------------------------------------------------------------------

CLOSES, RESETS = struct.pack("ii", 0, 0), struct.pack("ii", 1, 0)
"""How a connection is ended (socket(7), SO_LINGER): in order, or broken off."""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Way:
    """A gateway, and the port that leads to it."""

    path: Path
    port: int
    serve: Serve
    ended: list[str] = field(default_factory=list)
    """How each connection ended for the gateway."""

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 5)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give back what comes, and the end after the end."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@pytest_asyncio.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    path = tmp_path / "api.sock"
    made = Way(path, 0, echo)

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await made.serve(reader, writer)
        except OSError as error:
            made.ended.append(type(error).__name__)
        else:
            made.ended.append("")
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path)
    listener = enter.forward(str(path), 0)
    made.port = listener.getsockname()[1]
    yield made
    server.close()
    await asyncio.wait_for(asyncio.gather(*filter(None, serving)), 5)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


async def test_large_bodies_pass_both_ways_at_once(way: Way) -> None:
    data = os.urandom(16 << 20)
    reader, writer = await way.open()

    async def send() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(send())
    assert hashlib.sha256(await asyncio.wait_for(reader.read(), 30)).digest() == hashlib.sha256(data).digest()
    await sending
    writer.close()


async def test_the_answer_comes_after_the_questions_end(way: Way) -> None:
    """Half-closed: the gateway sees the end of what was sent, and answers then."""

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = len(await reader.read())
        writer.write(str(size).encode())

    way.serve = count
    reader, writer = await way.open()
    writer.write(b"x" * 1000)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 5) == b"1000"
    writer.close()


async def test_what_is_streamed_arrives_piece_by_piece(way: Way) -> None:
    """The second piece is sent once the first was answered: nothing waits for a full buffer."""
    reader, writer = await way.open()
    for piece in (b"data: 1\n\n", b"data: 2\n\n", b"\x00\xff"):
        writer.write(piece)
        assert await asyncio.wait_for(reader.readexactly(len(piece)), 5) == piece
    writer.close()


async def test_many_connections_at_once(way: Way) -> None:
    opened = [await way.open() for _ in range(150)]
    for number, (_, writer) in enumerate(opened):
        writer.write(b"%d\n" % number)
    for number, (reader, writer) in reversed(list(enumerate(opened))):
        assert await asyncio.wait_for(reader.readline(), 5) == b"%d\n" % number
        writer.close()


async def test_connections_one_after_the_other_leave_nothing_open(way: Way) -> None:
    async def one() -> None:
        reader, writer = await way.open()
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        await writer.wait_closed()

    await one()
    before = open_files()
    for _ in range(50):
        await one()
    for _ in range(100):
        if open_files() <= before:
            break
        await asyncio.sleep(0.02)
    assert open_files() <= before


async def test_a_gateway_that_is_away_ends_the_connection_at_once(way: Way) -> None:
    way.path.unlink()
    for _ in range(3):
        reader, writer = await way.open()
        assert await asyncio.wait_for(ended(reader), 5) == b""
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the end, which may be a reset."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_a_gateway_that_breaks_off_is_seen(way: Way) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"half")

    way.serve = half
    reader, writer = await way.open()
    writer.write(b"question\n")
    assert await asyncio.wait_for(ended(reader), 5) == b"half"
    writer.close()


@pytest.mark.parametrize("how", [CLOSES, RESETS], ids=["closes", "resets"])
async def test_a_client_that_goes_away_is_seen_by_the_gateway(way: Way, how: bytes) -> None:
    """In the middle of a stream: the gateway must not go on paying for what nobody hears."""

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    way.serve = stream
    for _ in range(2):
        reader, writer = await way.open()
        await reader.read(10)
        go_away(writer, how)
        await seen(way)
    assert set(way.ended) <= {"BrokenPipeError", "ConnectionResetError"}


def go_away(writer: asyncio.StreamWriter, how: bytes) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, how)
    writer.transport.abort()


async def seen(way: Way) -> None:
    before = len(way.ended)
    for _ in range(500):
        if len(way.ended) > before:
            return
        await asyncio.sleep(0.01)
    pytest.fail("the gateway never learns of it")


@pytest.mark.parametrize("how", [CLOSES, RESETS], ids=["closes", "resets"])
async def test_a_client_that_hears_nothing_and_goes_away_is_seen_too(way: Way, how: bytes) -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    way.serve = wait
    _, writer = await way.open()
    go_away(writer, how)
    await seen(way)


async def test_where_no_file_is_left_connections_wait_and_are_then_taken(way: Way) -> None:
    """Limits of the program are this program's own, too: it must neither end nor compute in vain."""
    script = """
import json, os, socket, time
def way():
    return socket.create_connection(("127.0.0.1", {port}), timeout=10)
def used():
    times = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
held = [way() for _ in range(30)]
time.sleep(0.2)
before = used()
time.sleep(1)
print(json.dumps(used() - before), flush=True)
for each in held:
    each.close()
last = way()
last.sendall(b"on")
print(json.dumps(last.recv(2).decode()))
"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ("-c", script.replace("{port}", str(port)))
    done = await entered(sys.executable, *words, limits={"NOFILE": 40}, gateway=str(way.path), port=port)
    assert (done.code, done.stderr) == (0, b"")
    used, last = map(json.loads, done.stdout.split())
    assert last == "on"
    assert used < 0.1


async def test_without_a_gateway_nobody_listens() -> None:
    script = 'import socket, sys; sys.exit(socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))))'
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert (await entered(sys.executable, "-c", script, str(port), port=port)).code == 111
