"""The real codex and claude, lodged as a run's agents are, with a hostile model behind them.

Nothing stands between a test and the machine but what a worker has itself: `worker.seating` seats the agents, and
`worker.hands` takes their turns, in the real sandbox and through the real gateway.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from bot.settings import Settings
from bot.store import Store
from bot.store.runs import Ceilings, SeatChoice
from deploy.pricing import prices
from scripted_models import Model, ModelServer, Request, Script, Turn, calls
from tests.worker.conftest import make_run
from tests.worker.sandboxed import open_folder
from worker.agents import find
from worker.cgroup import PREFIX
from worker.debate.task import Seat
from worker.gateway import Gateway, upstreams
from worker.git.commit import Identity
from worker.hands import Bill, Desk, Hands
from worker.isolation import Isolation
from worker.process import Finished, Program
from worker.quarters import Lodgings, Programs, Quarters, Stay
from worker.sandbox import Sandbox, _python
from worker.seating import seated
from worker.turn import Box, Run, TurnReply, TurnRequest

HOSTILE = Path(__file__).with_name("hostile")
"""Programs that a hijacked agent runs: each tries something, and tells what came of it."""
CANARY = re.compile(r"canary-[0-9a-f]{16}")


def canary() -> str:
    """Return a secret that is like no other."""
    return f"canary-{secrets.token_hex(8)}"


SECRETS = {
    "OPENAI_API_KEY": f"sk-{canary()}",
    "ANTHROPIC_API_KEY": f"sk-ant-{canary()}",
    "GITHUB_WEBHOOK_SECRET": f"webhook-secret-{canary()}",
    "GITHUB_APP_PRIVATE_KEY": f"-----BEGIN PRIVATE KEY-----\n{canary()}\n-----END PRIVATE KEY-----\n",
}
"""What the worker's own environment holds."""


@dataclass(frozen=True)
class Actor:
    """Who sits in a seat, and how its model has a command run."""

    agent: str
    model: str
    seat: str
    shell: bool = True

    @property
    def key(self) -> str:
        """The real key of its provider."""
        return SECRETS["OPENAI_API_KEY" if self.agent == "codex" else "ANTHROPIC_API_KEY"]

    @property
    def sessions(self) -> str:
        """Where inside its session files lie."""
        box = find(self.agent)[0].box
        assert box is not None
        return f"/home/agent/{box.sessions}"

    def runs(self, command: str) -> Turn:
        """Have a command run, and wait for it. The sandbox's Python may lie elsewhere than on its PATH."""
        command = command.replace("python3 ", f"{_python()} ")
        if self.agent == "codex":
            return calls("exec_command", cmd=command, yield_time_ms=30_000, max_output_tokens=50_000)
        return calls("Bash", command=command)

    def tries(self, name: str, *argv: str) -> Turn:
        """Have one of the hostile programs run, which was brought into the tree."""
        words = " ".join(f"'{word}'" for word in argv)
        return self.runs(f"python3 -IS /work/{name}.py {words}")


CODEX = Actor("codex", "gpt-5.5", "reviewer")
CLAUDE = Actor("claude", "claude-sonnet-5", "author")
READER = Actor("claude", "claude-sonnet-5", "reader", shell=False)
"""claude in a seat that only reads."""
SHELLS = pytest.mark.parametrize(
    "actor", [pytest.param(CODEX, id="codex"), pytest.param(CLAUDE, id="claude", marks=pytest.mark.gate)]
)
"""For each that has a shell."""


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
    groups: set[Path] = field(default_factory=set)
    """The control groups in which its processes were seen."""
    bill: Bill = field(default_factory=Bill)

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def stay(self) -> Stay:
        """The last turn."""
        return self.lodgings.stays[-1]

    @property
    def sandbox(self) -> Sandbox:
        """How its next sandboxes are made."""
        assert isinstance(self.lodgings.sandbox, Sandbox)
        return self.lodgings.sandbox

    @sandbox.setter
    def sandbox(self, sandbox: Sandbox) -> None:
        self.lodgings = replace(self.lodgings, sandbox=sandbox)

    def model(self, actor: Actor) -> Model:
        return self.models.openai if actor.agent == "codex" else self.models.anthropic

    def asked(self, actor: Actor) -> list[Request]:
        """What the actor's model was asked."""
        return self.model(actor).requests

    def sessions(self, actor: Actor) -> Path:
        """Where outside its session files lie."""
        return self.folder / "sessions" / actor.seat

    def brings(self, name: str) -> None:
        """Put one of the hostile programs into the tree."""
        shutil.copy(HOSTILE / f"{name}.py", self.tree)

    def write(self, files: dict[str, str]) -> None:
        """Put files into the tree."""
        for name, text in files.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)

    def weaken(self, change: str, env: dict[str, str] | None = None) -> None:
        """Have the next sandboxes started with less than their walls.

        `change` is Python that changes ``argv``, bubblewrap's command line; `env` is its environment.
        """
        sandbox = self.sandbox
        launcher = self.folder / "launcher"
        launcher.write_text(
            f"#!{sandbox.python} -IS\nimport os, sys\nargv = sys.argv[1:]\n{change}\n"
            f"os.execve({str(sandbox.bwrap)!r}, ['bwrap', *argv], {env or {}!r})\n"
        )
        launcher.chmod(0o755)
        self.sandbox = replace(sandbox, bwrap=launcher)

    async def turn(self, actor: Actor, script: Script | None = None, **fields: Any) -> TurnReply:
        """Take a turn as the worker's hands do; any field of its request may be one's own."""
        if script is not None:
            self.model(actor).plays(script)
        return await self._hands(actor)._take(replace(self.request(actor), **fields), self.bill)

    def request(self, actor: Actor) -> TurnRequest:
        """Return what an actor is asked, with its folder for session files."""
        self.sessions(actor).mkdir(parents=True, exist_ok=True)
        return TurnRequest(
            run=self.folder.name,
            seat=actor.seat,
            round=1,
            turn=1,
            brief="Look at the change.",
            schema=None,
            editing=actor.seat == "author",
            tree=self.tree,
            base=self.folder / "base",
            notes=self.folder / "brief",
            session=None,
            session_dir=self.sessions(actor),
            seconds=60,
            model=actor.model,
        )

    def _hands(self, actor: Actor) -> Hands:
        nobody: Any = None  # a turn alone needs no repository, and publishes nothing
        task: Any = SimpleNamespace(
            seats={actor.seat: Seat(agent=actor.agent)}, head_sha="", head_tree="", commit=False
        )
        identity = Identity("", "")
        return Hands(Desk(task, nobody, self.folder, nobody, identity, nobody, lodgings=self.lodgings, hear=self._hear))

    def _hear(self, run: Run) -> Run:
        async def heard(program: Program) -> Finished:
            return await run(self.change(program))

        return heard

    # ---- What is there of it ----------------------------------------------------------------------------------------

    def alive(self) -> set[int]:
        """Return its processes: bubblewrap's own, and all that see its folders mounted.

        Their arguments are not read: the kernel lets nobody read those of a fork bomb for minutes.
        """
        token, found = self.folder.name.encode(), set()
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            outside = _read(path / "comm") == b"bwrap\n" and token in _read(path / "cmdline")
            if outside or token in _read(path / "mountinfo"):
                found.add(int(path.name))
                self.groups |= set(_groups(path))
        return found

    def left(self) -> list[str]:
        """Return what is left of its turns, besides the files that may be."""
        found = [f"process {each}: {_read(Path(f'/proc/{each}/stat'))!r}" for each in self.alive()]
        found += [f"group {each}" for each in self.groups if each.exists()]
        found += [f"socket {stay.door.folder}" for stay in self.lodgings.stays if stay.door.folder.exists()]
        return found + [f"folder {each}" for each in self.folder.glob("turn-*")]


def _groups(process: Path) -> list[Path]:
    """Return the control groups of ours that a process is in."""
    lines = [line.split(":", 2) for line in _read(process / "cgroup").decode().splitlines()]
    roots = [Path("/sys/fs/cgroup", names.removeprefix("name="), path.lstrip("/")) for _, names, path in lines]
    return [each for each in roots if each.name.startswith(PREFIX)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is ending
        return b""


@dataclass
class House:
    """One worker's quarters."""

    state: Path
    models: ModelServer
    quarters: Quarters

    @contextlib.asynccontextmanager
    async def run(self, *, usd: float = 10.0) -> AsyncIterator[Lodger]:
        """Lay out a run; nothing of it is left at the end."""
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
                watched = Watched(**{each.name: getattr(lodgings, each.name) for each in fields(lodgings)})
                lodger = Lodger(folder, watched, self.models)
                yield lodger
                assert lodger.left() == []
        finally:
            shutil.rmtree(folder)


def result(text: str) -> Any:
    """Return what a hostile program told: the last JSON object among the lines of a text."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    assert lines, text
    return json.loads(lines[-1])


# ---- Fixtures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """What a worker has once: its state folder, checked copies of the programs, and the sandbox, once it is proved."""

    state: Path
    programs: Programs
    isolation: Isolation


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Return what all tests of a process share."""
    with open_folder() as folder:
        settings = Settings(openai_api_key=SecretStr(CODEX.key), anthropic_api_key=SecretStr(CLAUDE.key))
        yield Machine(folder, Programs(settings, folder / "tools"), Isolation(folder))


@pytest_asyncio.fixture
async def inn(machine: Machine, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """Return a worker's quarters. Its environment holds secrets, and its gateway leads to a scripted model."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    state = machine.state
    async with ModelServer.start() as models:
        settings = Settings(state_dir=state, openai_base_url=models.openai_url, anthropic_base_url=models.anthropic_url)
        gateway = Gateway(upstreams(settings), state / "gateway", prices=prices(state), spending=store.spending)
        async with gateway:
            yield House(state, models, Quarters(machine.programs, machine.isolation, gateway))
        assert models.strays == [], "nobody is asked but the model"


@pytest_asyncio.fixture
async def lodger(inn: House) -> AsyncIterator[Lodger]:
    """Return a run."""
    async with inn.run() as run:
        yield run
