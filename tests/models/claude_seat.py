"""The real claude in a seat, without a sandbox: a home of its own, a tree, and a scripted model behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from scripted_models import Model, ModelServer, Request
from worker import process
from worker.agents import claude
from worker.process import Finished, Program
from worker.tools import TOOLS
from worker.turn import Lodging, Run, TurnReply, TurnRequest

CLAUDE = Path(str(distribution(TOOLS["claude"].package).locate_file(TOOLS["claude"].program)))
"""The pinned program, where its package has it."""


@dataclass
class Seat:
    """Takes turns, and remembers how its program ended."""

    root: Path
    models: ModelServer
    editing: bool = False
    home: str = "home"
    program: Path = CLAUDE
    change: Callable[[Program], Program] = lambda program: program
    """What happens to the program before it starts."""
    finished: list[Finished] = field(default_factory=list)

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def model(self) -> Model:
        return self.models.anthropic

    @property
    def asked(self) -> list[Request]:
        """What the model was asked."""
        return self.model.requests

    async def turn(self, brief: str = "Look at the change.", *, run: Run | None = None, **fields: Any) -> TurnReply:
        """Take a turn: one of the fields of its request, or another way to run the program, may be one's own."""
        for name in ("tree", "base", "notes", "tmp", self.home):
            (self.root / name).mkdir(exist_ok=True)
        api = fields.pop("api", self.models.anthropic_url)
        request = TurnRequest(
            run="7h2kq9xw",
            seat="author" if self.editing else "reviewer",
            round=1,
            turn=1,
            brief=brief,
            schema=None,
            editing=self.editing,
            tree=self.tree,
            base=self.root / "base",
            notes=self.root / "notes",
            session=None,
            session_dir=self.root / "sessions",
            seconds=30,
            lodging=Lodging(self.program, self.root / self.home, self.root / "tmp", api),
        )
        return await claude.take_turn(replace(request, **fields), run or self.run)

    async def run(self, spec: Program) -> Finished:
        """Run a program as its sandbox would: `IS_SANDBOX` stands for the unprivileged user that it has there."""
        spec = self.change(replace(spec, env={**spec.env, "IS_SANDBOX": "1"}))
        self.finished.append(await process.run(spec))
        return self.finished[-1]
