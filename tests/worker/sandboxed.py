"""Real sandboxes for tests, with bubblewrap's own program, in a folder that the sandbox's user can pass through."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from worker import cgroup
from worker.process import Finished, Program
from worker.sandbox import Room, Sandbox, lay_out
from worker.slots import Slot, slot
from worker.tools import pin

REGIMES = ("groups", "rlimits") if cgroup.find() else ("rlimits",)
"""How limits can be set here: for a sandbox as a whole where this process may make control groups, or by process."""


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a new folder. Those that pytest makes lie below one that nobody else may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="codex-debate-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """A sandbox that programs are put into, with its user and a tree."""

    sandbox: Sandbox
    user: Slot
    folder: Path
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """The last argument of every program: by it, processes are known from outside."""

    @property
    def tree(self) -> Path:
        """Return what is seen at /work."""
        return self.folder / "tree"

    @property
    def room(self) -> Room:
        """Return the room with the tree, which may be changed."""
        return Room(self.tree, writable=True)

    def own(self, name: str) -> Path:
        """Return a new folder of the sandbox's user."""
        made = self.folder / name
        made.mkdir()
        self.user.own(made)
        return made

    async def run(self, *argv: str | bytes, room: Room | None = None, **limits: Any) -> Finished:
        """Run a program."""
        return await self.sandbox.run(Program((*argv, self.token), **limits), room or self.room, self.user)

    async def sh(self, script: str, *, room: Room | None = None, **limits: Any) -> Finished:
        """Run a script of bash. ``$0`` is the token."""
        return await self.run("/bin/bash", "-c", script, room=room, **limits)

    async def python(self, script: str, *argv: str, room: Room | None = None, **limits: Any) -> Finished:
        """Run a script of Python."""
        return await self.run(str(self.sandbox.python), "-I", "-S", "-c", script, *argv, room=room, **limits)

    async def told(self, script: str, *argv: str, room: Room | None = None, **limits: Any) -> Any:
        """Run a script of Python, and return what it prints as JSON."""
        done = await self.python(script, *argv, room=room, **limits)
        assert (done.code, done.stderr) == (0, b""), done
        return json.loads(done.stdout)

    def left(self) -> list[int]:
        """Return the processes that have the token among their arguments."""
        return [process for process in processes() if self.token.encode() in _file(process, "cmdline").split(b"\0")]

    async def over(self) -> bool:
        """Tell whether no process has the token within two seconds."""
        for _ in range(200):
            if not self.left():
                return True
            await asyncio.sleep(0.01)
        return False

    async def beside(self, hog: Coroutine[Any, Any, Finished]) -> Finished:
        """Run a hog to its end while small programs run in a second sandbox, and are none the worse for it."""
        with slot(self.folder / "slots") as other:
            second = replace(self, user=other, folder=self.own(secrets.token_hex(4)), token=secrets.token_hex(8))
            second.own("tree")
            work, served = asyncio.ensure_future(hog), 0
            while not work.done():
                done = await second.sh("echo $((6 * 7)) > answer; cat answer; rm answer", seconds=20)
                assert (done.code, done.stdout, done.stderr) == (0, b"42\n", b"")
                served += 1
            assert served
            return await work


def processes() -> list[int]:
    """Return all processes that can be seen from here."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def children(process: int) -> dict[int, str]:
    """Return a process's children and their states (proc(5), stat)."""
    words = {each: _file(each, "stat").rpartition(b")")[2].split() for each in processes()}
    return {each: fields[0].decode() for each, fields in words.items() if fields[1:2] == [str(process).encode()]}


def _file(process: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


# ---- Fixtures -------------------------------------------------------------------------------------------------------


@pytest.fixture
def state() -> Iterator[Path]:
    """Return a worker's state folder."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """Return how sandboxes are made here."""
    with open_folder() as folder:
        yield lay_out(pin("bwrap", folder / "tools").path, folder)


@pytest.fixture
def cell(sandbox: Sandbox, state: Path) -> Iterator[Cell]:
    """Return a sandbox with a user of its own and an empty tree."""
    with slot(state / "slots") as user:
        made = Cell(sandbox, user, state)
        made.own("tree")
        yield made


@pytest.fixture(params=REGIMES)
def limited(cell: Cell, request: pytest.FixtureRequest) -> Cell:
    """Return a sandbox with its limits set in each of the two ways."""
    return cell if request.param == "groups" else replace(cell, sandbox=replace(cell.sandbox, groups=None))


def open_files() -> int:
    """Return how many files this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def is_root() -> bool:
    """Tell whether these tests are run by root, who gives every sandbox a user of its own."""
    return os.geteuid() == 0
