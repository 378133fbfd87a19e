"""Every probe of the self-test sees its wall missing: a probe that cannot fail proves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.worker.sandboxed import Cell, is_root
from worker import process, sandbox, seccomp
from worker.inside import probe
from worker.isolation import LAYERS
from worker.process import Program
from worker.sandbox import PORT, Sandbox
from worker.slots import Slot

WORD = "0123456789abcdef"
Change = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Walls:
    """A sandbox with its walls, or without some of them."""

    cell: Cell
    facts: dict[str, Any]
    gateway: Path

    async def seen(self, *, thorough: bool = False, **facts: Any) -> dict[str, str]:
        """Return what each probe saw, where it saw anything."""
        given = json.dumps(self.facts | {"thorough": thorough} | facts)
        room = replace(self.cell.room, writable=False, turn=self.cell.sandbox.kit, gateway=self.gateway)
        done = await self.cell.run(str(self.cell.sandbox.python), "-I", "-S", "/turn/probe.py", given, room=room)
        assert done.code == 0, done
        return {number: what for number, what in json.loads(done.stdout).items() if what}

    def without(self, *change: Change, **fields: Any) -> Walls:
        """Return the sandbox with its command line changed, or its fields."""
        box = self.cell.sandbox
        values = {each: getattr(box, each) for each in ("bwrap", "python", "kit", "groups", "filter")} | fields
        return replace(self, cell=replace(self.cell, sandbox=_changed(change)(**values)))


def _changed(changes: Iterable[Change]) -> type[Sandbox]:
    class Changed(Sandbox):
        def _argv(self, *words: Any) -> list[str | bytes]:
            argv = Sandbox._argv(self, *words)
            for change in changes:
                argv = change(argv)
            return argv

    return Changed


def adds(*words: str) -> Change:
    """Add options behind all others: the last mount at a place is the one that is seen."""
    return lambda argv: [*argv[: argv.index("--")], *words, *argv[argv.index("--") :]]


def drops(*words: str) -> Change:
    """Take options away."""

    def change(argv: list[Any]) -> list[Any]:
        for at in range(len(argv)):
            if tuple(argv[at : at + len(words)]) == words:
                return argv[:at] + argv[at + len(words) :]
        raise AssertionError(words)

    return change


def puts(old: str, *new: str) -> Change:
    """Put other options in one's place."""

    def change(argv: list[Any]) -> list[Any]:
        at = argv.index(old)
        return [*argv[:at], *new, *argv[at + 1 :]]

    return change


@pytest_asyncio.fixture
async def walls(cell: Cell) -> AsyncIterator[Walls]:
    """Return a sandbox with all its walls, and what must not be reached."""
    folder = cell.own("gateway")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(WORD.encode())
        writer.close()

    servers = [
        await asyncio.start_unix_server(answer, folder / "api.sock"),
        await asyncio.start_server(answer, "127.0.0.1", 0),
    ]
    cell.user.own(folder / "api.sock")
    name = socket.socket(socket.AF_UNIX)
    name.bind(f"\0{cell.token}")
    servers.append(await asyncio.start_unix_server(answer, sock=name))
    facts = {
        "not_paths": [str(cell.folder)],
        "not_reached": [],
        "sizes": {"/tmp": sandbox.TMP_BYTES, "/home/agent": sandbox.TMP_BYTES, "/dev/shm": sandbox.SHARED_BYTES},
        "port": PORT,
        "word": WORD,
    }
    facts["not_reached"] = [["inet", list(servers[1].sockets[0].getsockname())], ["abstract", cell.token]]
    yield Walls(cell, facts, folder / "api.sock")
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_with_all_walls_no_probe_sees_anything(walls: Walls) -> None:
    assert await walls.seen(thorough=True) == {}


def test_every_probe_stands_for_a_layer() -> None:
    assert set(probe.CHEAP) | set(probe.DEAR) == set(LAYERS)
    assert not set(probe.CHEAP) & set(probe.DEAR)


async def test_the_dear_probes_are_left_out_where_they_are_not_asked_for(walls: Walls) -> None:
    """Each takes a wall away that a dear probe alone would see missing."""
    size = str(sandbox.SHARED_BYTES)
    bare = walls.without(puts(size, str(2 * sandbox.SHARED_BYTES)))
    assert await bare.seen() == {}
    assert set(await bare.seen(thorough=True)) == {"12"}


# ---- Who and what ---------------------------------------------------------------------------------------------------


async def test_1_another_user_than_the_runs(walls: Walls) -> None:
    """The tree is somebody else's."""
    bare = walls.without(puts(str(walls.cell.tree), "/usr/share"))
    assert await bare.seen() == {"1": "it does not run as the run's own user"}


if is_root():

    async def test_1_root(walls: Walls, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("worker.sandbox.os.geteuid", lambda: 1)  # the guard before it is taken away, too
        bare = replace(walls, cell=replace(walls.cell, user=Slot(None)))
        assert (await bare.seen())["1"] == "it runs as root of this machine"


async def test_2_capabilities(walls: Walls) -> None:
    """--cap-add alone: some capabilities come back. Of all others --cap-drop keeps it clear."""
    bare = walls.without(puts("--cap-drop", "--cap-add"), filter=b"")
    seen = await bare.seen()
    assert seen["2"].startswith("CapPrm is ")
    assert "CapEff is " in seen["2"]
    assert "CapBnd is " in seen["2"]


async def test_3_an_environment(walls: Walls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first process (threats.md T16), or of those after it."""
    run = process.run

    async def leak(spec: Program) -> Any:
        return await run(replace(spec, env={"SECRET": "x"}))

    assert await walls.without(adds("--setenv", "TOKEN", "x")).seen() == {
        "3": "the environment of process 2 holds TOKEN"
    }
    monkeypatch.setattr(process, "run", leak)
    assert await walls.seen() == {"3": "the environment of process 1 holds SECRET"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (adds("--bind", "/usr", "/usr"), "/usr"),
        (drops("--remount-ro", "/"), "/etc"),
        (drops("--remount-ro", "/dev"), "/dev"),
        (adds("--tmpfs", "/etc"), "/etc"),
    ],
)
async def test_4_a_place_that_can_be_written(walls: Walls, change: Change, place: str) -> None:
    assert await walls.without(change).seen() == {"4": f"{place} can be written"}


async def test_4_a_tree_that_can_be_written(walls: Walls) -> None:
    tree = str(walls.cell.tree)
    assert await walls.without(adds("--bind", tree, "/work")).seen() == {"4": "/work can be written"}


async def test_4_a_folder_that_only_says_that_it_is_read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a kernel of another make might: what can be written is found by writing."""
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([0] * 8 + [os.ST_RDONLY, 0]))
    assert probe._writable(str(tmp_path))


async def test_4_a_folder_of_tools_that_can_be_written(walls: Walls) -> None:
    enter = ("--ro-bind", str(walls.cell.sandbox.kit / "enter.py"), "/opt/enter.py")
    assert await walls.without(adds("--tmpfs", "/opt", *enter)).seen() == {"4": "/opt can be written"}


async def test_5_mounts(walls: Walls) -> None:
    """All capabilities over its own mounts, and no filter."""
    changes = (
        puts("--cap-drop", "--cap-add"),
        drops("--disable-userns"),
        drops("--uid", str(sandbox.USER)),
        drops("--gid", str(sandbox.USER)),
        adds("--uid", "0", "--gid", "0"),
    )
    assert (await walls.without(*changes, filter=b"").seen())["5"] == "/usr was mounted anew, to be written"


async def test_6_user_namespaces(walls: Walls) -> None:
    seen = await walls.without(drops("--disable-userns"), filter=b"").seen(thorough=True)
    assert seen["6"] == "a new user namespace could be made"


async def test_7_the_filter(walls: Walls) -> None:
    assert (await walls.without(filter=b"").seen())["7"] == "the filter of system calls is not in force"


async def test_7_a_filter_that_lets_families_through(walls: Walls) -> None:
    """One that refuses unshare and no more, and a family that every kernel has."""
    unshare = seccomp.MACHINES[os.uname().machine].numbers["unshare"]
    op = seccomp._op
    little = b"".join([op(0x20, 0), op(0x15, unshare, 0, 1), op(0x06, 0x00050001), op(0x06, 0x7FFF0000)])
    seen = await walls.without(filter=little).seen()
    if any_family():
        assert seen["7"].startswith("a socket of the family AF_")
    else:
        assert seen == {}


def any_family() -> bool:
    """Tell whether the kernel has a family that an unprivileged process may open."""
    for family in (38, 40):
        try:
            socket.socket(family, 5 if family == 38 else 1).close()
        except OSError:
            continue
        return True
    return False


# ---- Whom it reaches ------------------------------------------------------------------------------------------------


async def test_8_the_machines_network(walls: Walls) -> None:
    """Without a network of its own it reaches the machine's services and the names of its sockets."""
    bare = walls.without(adds("--share-net"))
    local, name = walls.facts["not_reached"]
    assert (await bare.seen())["8"] == f"{local[1]} can be reached"
    assert (await bare.seen(not_reached=[name]))["8"] == f"{name[1]} can be reached"


async def test_9_processes_of_others(walls: Walls) -> None:
    parts = ("--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    seen = await walls.without(puts("--unshare-all", *parts)).seen()
    assert seen["9"] == "processes of others can be seen"


async def test_9_files_of_others(walls: Walls) -> None:
    folder = str(walls.cell.folder)
    seen = await walls.without(adds("--ro-bind", folder, folder)).seen()
    assert seen["9"] == f"{folder} can be seen"


async def test_13_a_gateway_that_is_away(walls: Walls) -> None:
    walls.gateway.unlink()
    assert (await walls.seen())["13"].startswith("the gateway cannot be reached")


async def test_13_another_gateway(walls: Walls) -> None:
    assert await walls.seen(word="another") == {"13": "somebody else answers for the gateway"}


async def test_14_an_open_file(walls: Walls, monkeypatch: pytest.MonkeyPatch) -> None:
    run = process.run

    file = os.open("/dev/null", os.O_RDONLY)

    async def leak(spec: Program) -> Any:
        return await run(replace(spec, pass_fds=(*spec.pass_fds, file)))

    monkeypatch.setattr(process, "run", leak)
    assert await walls.seen() == {"14": f"file {file} is open"}
    os.close(file)


# ---- Limits ---------------------------------------------------------------------------------------------------------


async def test_11_no_limit_of_processes(walls: Walls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROCESSES", 3000)
    assert await walls.seen(thorough=True) == {"11": "1000 processes could be started"}


@pytest.mark.parametrize("place", ["/tmp", "/home/agent", "/dev/shm"])
async def test_12_no_limit_of_files_in_memory(walls: Walls, place: str) -> None:
    size = walls.facts["sizes"][place]
    seen = await walls.without(adds("--tmpfs", place)).seen(thorough=True)
    assert seen["12"] == f"{place} holds more than {size} bytes"
