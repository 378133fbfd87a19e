"""The real codex and claude, lodged as a run's agents are, with a hostile model behind them.

Nothing stands between a test and the machine but what a worker has itself: `worker.seating` seats the agents, and
`worker.hands` takes their turns, in the real sandbox and through the real gateway.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from bot.settings import Settings
from bot.store import Store
from bot.store.runs import Ceilings, SeatChoice
from deploy.pricing import prices
from scripted_models import Model, ModelServer, Script, Turn, calls
from tests.worker.conftest import make_run
from worker.agents import find
from worker.debate.task import Seat, Task
from worker.gateway import Gateway, upstreams
from worker.git.commit import Identity
from worker.hands import Bill, Desk, Hands
from worker.isolation import Isolation
from worker.process import Finished, Program
from worker.quarters import Lodgings, Programs, Quarters, Stay
from worker.seating import seated
from worker.turn import Box, Run, TurnReply, TurnRequest

CANARY = re.compile(r"canary-[0-9a-f]{16}")


def canary() -> str:
    """Return a secret that is like no other."""
    return f"canary-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Actor:
    """Who sits in a seat, and how its model has a command run."""

    agent: str
    model: str
    editing: bool = False

    def runs(self, command: str) -> Turn:
        """Have a command run; codex waits for it as claude does."""
        if self.agent == "codex":
            return calls("exec_command", cmd=command, yield_time_ms=30_000, max_output_tokens=50_000)
        return calls("Bash", command=command)

    @property
    def sessions(self) -> str:
        """Where inside its session files lie."""
        box = find(self.agent)[0].box
        assert box is not None
        return f"/home/agent/{box.sessions}"


CODEX = Actor("codex", "gpt-5.5")
CLAUDE = Actor("claude", "claude-sonnet-5", editing=True)
READER = Actor("claude", "claude-sonnet-5")
"""claude in a seat that only reads: it has no shell."""


@dataclass(frozen=True)
class Watched(Lodgings):
    """Lodgings that remember their turns."""

    stays: list[Stay] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def turn(self, box: Box, request: TurnRequest) -> AsyncIterator[Stay]:
        """Make ready for a turn."""
        async with Lodgings.turn(self, box, request) as stay:
            self.stays.append(stay)
            yield stay


@dataclass
class Lodger:
    """One run, with its folders."""

    folder: Path
    lodgings: Watched
    models: ModelServer
    change: Callable[[Program], Program] = lambda program: program
    """What happens to the agent's program before it starts."""
    bill: Bill = field(default_factory=Bill)

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def stay(self) -> Stay:
        """The last turn's."""
        return self.lodgings.stays[-1]

    def model(self, actor: Actor) -> Model:
        return self.models.openai if actor.agent == "codex" else self.models.anthropic

    def sessions(self, actor: Actor) -> Path:
        """Where this run's session files of a seat lie."""
        return self.folder / "sessions" / ("author" if actor.editing else "reviewer")

    def write(self, files: dict[str, str]) -> None:
        """Put files into the tree."""
        for name, text in files.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)

    async def turn(self, actor: Actor, script: Script | None = None, **fields: Any) -> TurnReply:
        """Take a turn as the worker's hands do; any field of its request may be one's own."""
        if script is not None:
            self.model(actor).plays(script)
        sessions = self.sessions(actor)
        sessions.mkdir(parents=True, exist_ok=True)
        request = TurnRequest(
            run=self.folder.name,
            seat=sessions.name,
            round=1,
            turn=1,
            brief="Look at the change.",
            schema=None,
            editing=actor.editing,
            tree=self.tree,
            base=self.folder / "base",
            notes=self.folder / "brief",
            session=None,
            session_dir=sessions,
            seconds=60,
            model=actor.model,
        )
        return await self._hands(actor)._take(replace(request, **fields), self.bill)

    def _hands(self, actor: Actor) -> Hands:
        seats = {"reviewer": Seat(agent=actor.agent), "author": Seat(agent=actor.agent)}
        task = Task.model_construct(seats=seats, head_sha="", head_tree="", commit=False)
        nobody = cast("Any", None)  # a turn alone needs no repository, and publishes nothing
        return Hands(
            Desk(task, nobody, self.folder, nobody, Identity("", ""), nobody, lodgings=self.lodgings, hear=self._hear)
        )

    def _hear(self, run: Run) -> Run:
        async def heard(program: Program) -> Finished:
            return await run(self.change(program))

        return heard


@dataclass
class House:
    """One worker's quarters."""

    state: Path
    models: ModelServer
    quarters: Quarters

    @contextlib.asynccontextmanager
    async def run(self, *, usd: float = 10.0) -> AsyncIterator[Lodger]:
        """Lay out a run; its folder is gone at the end."""
        folder = self.state / "runs" / f"run-{secrets.token_hex(8)}"
        for name in ("tree", "base", "brief"):
            (folder / name).mkdir(parents=True)
            (folder / name / "app.py").write_text("x = 1\n")
        seats = {"reviewer": SeatChoice(agent="codex"), "author": SeatChoice(agent="claude")}
        ceilings = Ceilings(rounds=12, turn_seconds=60, run_seconds=60, usd=usd)
        run = make_run("0" * 40, id=folder.name, seats=seats, ceilings=ceilings)
        try:
            async with seated(self.quarters, run, day_usd=1000.0) as lodgings:
                assert lodgings is not None
                watched = Watched(lodgings.quarters, lodgings.sandbox, lodgings.user, lodgings.budget)
                yield Lodger(folder, watched, self.models)
        finally:
            shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def house(store: Store) -> AsyncIterator[House]:
    """Open a worker's quarters, with keys of the environment, and a scripted model at its gateway's other end."""
    state, programs, isolation = _machine()
    async with ModelServer.start() as models:
        settings = Settings(
            state_dir=state, openai_base_url=models.openai_url, anthropic_base_url=models.anthropic_url
        )
        programs._settings = settings
        ways = upstreams(settings)
        async with Gateway(ways, state / "gateway", prices=prices(state), spending=store.spending) as gateway:
            yield House(state, models, Quarters(programs, isolation, gateway))
        assert models.strays == [], "nobody is asked but the model"


@functools.cache
def _machine() -> tuple[Path, Programs, Isolation]:
    """Return a state folder, with the programs that are copied and the sandbox that is proved once for all tests.

    The tests' own folders are closed to the sandbox's users.
    """
    state = Path(tempfile.mkdtemp(prefix="hijacked-"))
    atexit.register(shutil.rmtree, state, ignore_errors=True)
    state.chmod(0o711)
    return state, Programs(Settings(state_dir=state), state / "tools"), Isolation(state)
