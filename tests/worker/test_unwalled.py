"""Agents without walls, where a person chose so: programs run where they are, and reach the gateway all the same."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bot.settings import Settings
from worker.isolation import Isolation, IsolationMissing
from worker.process import Program
from worker.sandbox import Room
from worker.slots import Slot
from worker.sockets import bound
from worker.unwalled import NoIsolation, Unwalled, isolation_of

ASKS = """
import os, socket, sys
port = int(sys.argv[1].rpartition(":")[2])
with socket.create_connection(("127.0.0.1", port)) as way:
    way.sendall(b"hello\\n")
    print(way.recv(100).decode(), os.getcwd(), sorted(os.environ))
"""


def room(tmp_path: Path) -> Room:
    for name in ("tree", "base", "brief", "turn", "tool", "sessions", "gateway"):
        (tmp_path / name).mkdir()
    return Room(
        tmp_path / "tree",
        base=tmp_path / "base",
        notes=tmp_path / "brief",
        turn=tmp_path / "turn",
        tool=tmp_path / "tool",
        sessions=(tmp_path / "sessions", ".codex/sessions"),
        gateway=tmp_path / "gateway" / "api.sock",
    )


async def test_a_program_finds_everything_where_it_is(tmp_path: Path) -> None:
    inside, walls = room(tmp_path), Unwalled()
    places = walls.places(inside)
    assert (places.tree, places.base, places.notes) == (tmp_path / "tree", tmp_path / "base", tmp_path / "brief")
    assert (places.home / ".codex" / "sessions").resolve() == tmp_path / "sessions"
    assert not places.home.is_relative_to(places.tmp), "codex's home lies nowhere below TMPDIR (agents.md 2.6)"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + (await reader.readline()).strip())
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, sock=bound(tmp_path / "gateway", "api.sock"))
    spec = Program(
        (sys.executable, "-I", "-S", "-c", ASKS, places.api), cwd=places.tree, env={"HOME": "/x"}, seconds=20
    )
    done = await walls.run(spec, inside, Slot(None))
    server.close()
    await server.wait_closed()
    assert done.stderr == b""
    assert done.stdout.startswith(f"heard hello {places.tree} ['HOME'".encode())


async def test_two_turns_have_two_ways(tmp_path: Path) -> None:
    walls, folders = Unwalled(), [tmp_path / "a", tmp_path / "b"]
    for each in folders:
        each.mkdir()
    assert len({walls.places(room(each)).api for each in folders}) == 2


async def test_nothing_runs_so_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = isolation_of(Settings(isolation="none", state_dir=tmp_path))
    assert isinstance(chosen, NoIsolation)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(IsolationMissing, match="without isolation no agent runs as root") as missing:
        await chosen.prove(Slot(None))
    assert missing.value.repair == "run it as another user"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert await chosen.lack() is None
    assert isinstance(await chosen.prove(Slot(None)), Unwalled)


def test_isolation_is_full_where_nobody_chose(tmp_path: Path) -> None:
    assert isinstance(isolation_of(Settings(state_dir=tmp_path)), Isolation)
