"""Agents without walls: for `codex-debate try` on a person's own repository, where they chose no isolation.

It owns where things are that a sandbox would show at places of its own. What runs here can read and write whatever this
user can, and a command that leaves its group outlives the turn. The gateway holds the ceilings alone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from bot.settings import Settings
from worker import process
from worker.isolation import Isolation, IsolationMissing
from worker.process import Finished, Program
from worker.sandbox import FILES, Places, Room
from worker.slots import Slot

ENTER = Path(__file__).parent / "inside" / "enter.py"


@dataclass(frozen=True, slots=True)
class Unwalled:
    """Runs programs where they are."""

    _ports: dict[Path, int] = field(default_factory=dict)

    def places(self, room: Room) -> Places:
        """Make what a sandbox would make, in the turn's own folder, and return where everything is."""
        if room.turn is None or room.base is None or room.notes is None or room.tool is None:
            raise ValueError("a turn without walls has a folder of its own and a whole room")
        home, tmp = room.turn / "home", room.turn / "tmp"
        tmp.mkdir()
        home.mkdir()
        if room.sessions is not None:
            seen = home / room.sessions[1]
            seen.parent.mkdir(parents=True)
            seen.symlink_to(room.sessions[0])
        self._ports[room.turn] = _free_port()
        api = f"http://127.0.0.1:{self._ports[room.turn]}"
        return Places(room.tree, room.base, room.notes, room.turn, home=home, tmp=tmp, tool=room.tool, api=api)

    async def run(self, spec: Program, room: Room, slot: Slot) -> Finished:
        """Run a program to its end, as `worker.process.run` does, with the way to its gateway."""
        port = self._ports.pop(room.turn) if room.turn in self._ports else 0
        enter = (sys.executable, "-I", "-S", str(ENTER), json.dumps({"NOFILE": FILES, "CORE": 0}))
        way = (str(room.gateway) if room.gateway else "", str(port))
        return await process.run(replace(spec, argv=(*enter, *way, *spec.argv), user=slot.user, sealed=True))


class NoIsolation:
    """Stands where `worker.isolation.Isolation` does, and has nothing to prove."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the worker's state folder."""
        self.slots = folder / "slots"

    async def prove(self, _: Slot) -> Unwalled:
        """Return how programs are run. Raises `IsolationMissing` where they would run as root."""
        if missing := await self.lack():
            raise missing
        return Unwalled()

    async def lack(self) -> IsolationMissing | None:
        """Return what is missing here: a user who is not root."""
        if os.geteuid() == 0:
            return IsolationMissing("user", "without isolation no agent runs as root", "run it as another user")
        return None


def isolation_of(settings: Settings) -> Isolation | NoIsolation:
    """Return the isolation that the operator chose."""
    folder = settings.state_dir
    return Isolation(folder) if settings.isolation == "full" else NoIsolation(folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
