"""Where agents that need isolation are put up: the sandbox, the pinned programs and the gateway, brought together.

It owns whether an agent can be seated on this worker, and why not; and what one turn is given: its sandbox's folders,
its own door of the gateway, and at its end what that door counted. It knows no agent by name and no debate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from bot.settings import Settings, variable
from worker.agents import Agent
from worker.gateway import APIS, SOCKET, Gateway, OpenTurn, TurnBudget
from worker.git.tree import empty
from worker.isolation import Isolation
from worker.process import Finished, Program
from worker.quota import within_quota
from worker.sandbox import Places, Room, Sandbox
from worker.slots import Slot, slot
from worker.tools import Pinned, ToolMissing, pin
from worker.turn import Box, Lodging, Run, TurnRequest
from worker.unwalled import NoIsolation, Unwalled

SESSION_BYTES = 64 * 1024 * 1024
"""Of a seat's session files (decisions.md 3.3). A session that grew larger is forgotten: the seat starts cold."""
SESSION_FILES = 1000
"""Files and folders of a seat's sessions. A turn of either program leaves fewer than ten."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Why an agent cannot be seated: what is missing, and what the operator does about it. No full stops."""

    sentence: str
    repair: str
    predicate: str = ""
    """The sentence without the agent's name at its beginning, where it begins so."""


class Programs:
    """The agents' pinned programs on this machine, and whether each can be started."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        """`folder` is where the copies lie."""
        self._settings = settings
        self._folder = folder
        self._pinned: dict[str, Pinned] = {}

    async def lack(self, agent: Agent) -> Lack | None:
        """Return what is missing to start an agent; None where nothing is, isolation apart (decisions.md 3.10)."""
        if agent.box is None:
            return None
        if not key_of(agent.box, self._settings):
            name = variable(APIS[agent.box.api].key)
            said = f"has no key: {name} is not set"
            return Lack(f"{agent.name} {said}", f"set {name}", said)
        try:
            await self.find(agent.box)
        except ToolMissing as missing:
            return Lack(str(missing), missing.repair)
        except OSError as error:
            return Lack(f"the program {agent.name} cannot be copied ({error.strerror})", "make room on the disk")
        return None

    async def find(self, box: Box) -> Pinned:
        """Return an agent's program, checked once in this process's life. Raises as `worker.tools.pin` does."""
        if box.tool not in self._pinned:
            self._pinned[box.tool] = await asyncio.to_thread(pin, box.tool, self._folder)
        return self._pinned[box.tool]


def key_of(box: Box, settings: Settings) -> str:
    """Return the key of an agent's provider; empty where there is none."""
    key: SecretStr | None = getattr(settings, APIS[box.api].key)
    return key.get_secret_value() if key else ""


@dataclass(frozen=True, slots=True)
class Quarters:
    """What one worker has to put agents up."""

    programs: Programs
    isolation: Isolation | NoIsolation
    gateway: Gateway

    @contextlib.contextmanager
    def user(self) -> Iterator[Slot]:
        """Take a user for a run. Raises OSError."""
        with slot(self.isolation.slots) as taken:
            yield taken


# ---- One run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stay:
    """One turn in a sandbox: what the agent is asked, in its own paths, and how it runs its program there."""

    request: TurnRequest
    run: Run
    door: OpenTurn


@dataclass(frozen=True, slots=True)
class Lodgings:
    """The quarters of one run: its sandboxes, its user, and whom its turns are charged to."""

    quarters: Quarters
    sandbox: Sandbox | Unwalled
    user: Slot
    budget: TurnBudget
    """Whom its turns are charged to, and up to how much; the API is each agent's own."""

    @contextlib.asynccontextmanager
    async def turn(self, box: Box, request: TurnRequest) -> AsyncIterator[Stay]:
        """Make ready for one turn of an agent. Raises OSError, and `ToolMissing` where its program was changed."""
        tool = await self.quarters.programs.find(box)
        folder = await asyncio.to_thread(self._make_ready, request)
        try:
            async with self.quarters.gateway.turn(replace(self.budget, api=box.api)) as door:
                room = Room(
                    request.tree,
                    writable=request.editing,
                    base=request.base,
                    notes=request.notes,
                    turn=folder,
                    tool=tool.root,
                    sessions=(request.session_dir, box.sessions),
                    gateway=door.folder / SOCKET,
                )
                places = await asyncio.to_thread(self.sandbox.places, room)
                yield Stay(_inside(request, tool.program, places), self._runner(room), door)
        finally:
            await asyncio.to_thread(_clear, folder, request.session_dir)

    def _make_ready(self, request: TurnRequest) -> Path:
        """Open the run's folders to its user, and return this turn's own."""
        run = request.session_dir.parent.parent
        for each in (run, request.session_dir.parent):
            self.user.admit(each)
        self.user.own(request.session_dir, deep=True)
        if request.editing:
            self.user.own(request.tree, deep=True)
        folder = Path(tempfile.mkdtemp(dir=run, prefix="turn-"))
        folder.chmod(0o755)
        if request.schema is not None:
            (folder / SCHEMA).write_text(json.dumps(request.schema), "utf-8")
        return folder

    def _runner(self, room: Room) -> Run:
        folders = [room.sessions[0]] if room.sessions else []
        if room.writable:
            folders.append(room.tree)

        async def run(spec: Program) -> Finished:
            return await within_quota(self.sandbox.run(spec, room, self.user), folders)

        return run


SCHEMA = "schema.json"


_NAMED = re.compile(r"(?<=`)/(brief|base)(?=[/`])")
"""How briefs name the two folders beside the tree (decisions.md 2.4)."""


def _inside(request: TurnRequest, program: str, places: Places) -> TurnRequest:
    """Return a request with the paths as the agent's program sees them."""
    schema = places.turn / SCHEMA if request.schema is not None else None
    lodging = Lodging(program=places.tool / program, home=places.home, tmp=places.tmp, api=places.api, schema=schema)
    known = {"brief": str(places.notes), "base": str(places.base)}
    return replace(
        request,
        brief=_NAMED.sub(lambda found: known[found[1]], request.brief),
        tree=places.tree,
        base=places.base,
        notes=places.notes,
        session_dir=places.home,
        lodging=lodging,
        tell=lambda words: request.tell(words.replace(f"{places.tree}/", "")),
    )


def _clear(folder: Path, sessions: Path) -> None:
    """Remove a turn's own folder, and of its session's what is no session file (decisions.md 3.3)."""
    empty(folder)
    try:
        size, files = tidy(sessions)
        too_much = size > SESSION_BYTES or files > SESSION_FILES
    except OSError:  # deeper than a path may be long, or a file that will not go: no session file is like that
        too_much = True
    if too_much:
        empty(sessions)
        sessions.mkdir(parents=True, exist_ok=True)


def tidy(folder: Path) -> tuple[int, int]:
    """Remove everything below a folder but folders and plain files.

    Returns the bytes of the files that are left, and how many files and folders. Whoever left them is gone by now.
    """
    size = files = 0
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        here.chmod(0o700)
        with os.scandir(here) as found:
            for each in found:
                about = each.stat(follow_symlinks=False)
                files += 1
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(here / each.name)
                elif stat.S_ISREG(about.st_mode):
                    size += about.st_size
                else:
                    (here / each.name).unlink()
    return size, files
