"""What the sandbox costs: its start, and a turn of the real claude and codex in it against the same turn outside.

Run by hand; prints figures and ratios of one run (decisions.md 3.8; aims: 50 ms for a start, 1.05 for a turn):

    python tests/bench/bench_sandbox.py [--starts 100] [--turns 7]

A start is `Sandbox.run` of /bin/true against `worker.process.run` of it, with the tree alone and with everything that
an agent's turn is given. A turn is a new session whose scripted model takes five seconds: five answers of a second,
each with a text in pieces and, but for the last, a call of a tool. Inside it is taken as the worker takes it, from the
making of its folders and its door of the gateway to their end; outside, the program is the sandbox's user's too, and
asks the scripted model itself, whose server runs in this process in both arms. The arms take turns in going first, so
that what else the machine does hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "models")]

from pydantic import SecretStr

from bot.settings import Settings
from bot.store import Store
from deploy.pricing import prices
from deploy.store import EmbeddedStore
from scripted_models import ModelServer, Turn, answers, calls, says
from scripted_models.turns import Answer, Call, pieces
from worker import process
from worker.agents import Agent, find
from worker.debate.codecs import VerdictCodec
from worker.gateway import SOCKET, Gateway, TurnBudget, upstreams
from worker.isolation import Isolation
from worker.process import Finished, Program
from worker.quarters import Lodgings, Programs, Quarters
from worker.sandbox import TREE, Room, Sandbox
from worker.turn import Box, Lodging, TurnRequest

TRUE = Program(("/bin/true",))
START_AIM, TURN_AIM = 50.0, 1.05
ANSWER, WAIT = 1.0, 0.4
"""Seconds of each of the model's answers, and how many of them go before its first piece."""
SEATS = {"codex": ("reviewer", "gpt-5.5"), "claude": ("author", "claude-sonnet-5")}
"""The default seats; codex reads and runs commands, claude edits as well."""
THOUGHT = "I look at how the sums are made, and at who calls them, before I say what is wrong with this change. " * 6
FILES = {f"src/file{n}.py": f"n = {n}\n" * 300 for n in range(200)}
EDITED = "src/file7.py"

# ---- The ground that both arms share --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ground:
    """A run's folders, its user, its lodgings and its models."""

    folder: Path
    lodgings: Lodgings
    models: ModelServer

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def budget(self, api: str) -> TurnBudget:
        return replace(self.lodgings.budget, api=api)

    @contextmanager
    def own(self, name: str, *below: str) -> Iterator[Path]:
        """Make a folder of the sandbox's user, with some below it, and remove it."""
        made = self.folder / name
        for each in (made, *(made / path for path in below)):
            each.mkdir(parents=True)
        self.lodgings.user.own(made, deep=True)
        yield made
        shutil.rmtree(made)


@asynccontextmanager
async def ground(state: Path) -> AsyncIterator[Ground]:
    """Make ready what a worker has when it starts a run, below a folder that the sandbox's user can pass through."""
    key = SecretStr("sk-bench")
    async with EmbeddedStore(state / "store") as url, ModelServer.start() as models:
        settings = Settings(
            state_dir=state,
            openai_api_key=key,
            anthropic_api_key=key,
            openai_base_url=models.openai_url,
            anthropic_base_url=models.anthropic_url,
        )
        store = await Store.connect(url)
        ways = upstreams(settings)
        async with Gateway(ways, state / "gateway", prices=prices(state), spending=store.spending) as gateway:
            quarters = Quarters(Programs(settings, state / "tools"), Isolation(state), gateway)
            with quarters.user() as user:
                sandbox = await quarters.isolation.prove(user)
                budget = TurnBudget("", run="bench", installation=1, run_usd=1000, day_usd=1000, user=user.user)
                made = Ground(state / "runs" / "bench", Lodgings(quarters, sandbox, user, budget), models)
                _lay_out(made)
                yield made
        await store.close()


def _lay_out(made: Ground) -> None:
    for folder in ("tree", "base"):
        for name, text in FILES.items():
            path = made.folder / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (made.folder / "brief").mkdir()
    (made.folder / "brief" / "change.diff").write_text("-n = 7\n+n = 8\n")
    made.folder.parent.chmod(0o711)
    made.folder.chmod(0o711)
    made.lodgings.user.own(made.tree, deep=True)


async def alternately(times: int, *arms: Callable[[int], Awaitable[float]]) -> list[list[float]]:
    """Return each arm's seconds, so many of each; what is measured first is not counted."""
    found: list[list[float]] = [[] for _ in arms]
    for number in range(times + 1):
        places = list(range(len(arms)))
        turned = places[number % len(arms) :] + places[: number % len(arms)]
        for place in turned:
            seconds = await arms[place](number)
            if number:
                found[place].append(seconds)
    return found


# ---- Starts ---------------------------------------------------------------------------------------------------------


async def starts(made: Ground, times: int) -> str:
    """Compare the starts of /bin/true."""
    lodgings = made.lodgings
    box, tool = _box(find("claude")[0]), await lodgings.quarters.programs.find(_box(find("claude")[0]))

    async def timed(run: Callable[[], Awaitable[Finished]], _: int) -> float:
        began = time.perf_counter()
        done = await run()
        seconds = time.perf_counter() - began
        assert done.code == 0, done.stderr
        return seconds

    with made.own("sessions-of-starts") as sessions:
        async with lodgings.quarters.gateway.turn(made.budget(box.api)) as door:
            small = Room(made.tree)
            room = Room(
                made.tree,
                writable=True,
                base=made.folder / "base",
                notes=made.folder / "brief",
                turn=sessions,
                tool=tool.root,
                sessions=(sessions, box.sessions),
                gateway=door.folder / SOCKET,
            )
            outside, bare, whole = await alternately(
                times,
                partial(timed, lambda: process.run(TRUE)),
                partial(timed, lambda: lodgings.sandbox.run(TRUE, small, lodgings.user)),
                partial(timed, lambda: lodgings.sandbox.run(TRUE, room, lodgings.user)),
            )
    walls = lodgings.sandbox
    limits = "control groups" if isinstance(walls, Sandbox) and walls.groups else "limits of each process"
    lines = [f"start of /bin/true, {times} times each, limits by {limits}:", f"  outside: {_ms(outside)}"]
    for name, arm in (("with the tree alone", bare), ("with all that a turn has", whole)):
        added = (statistics.median(arm) - statistics.median(outside)) * 1000
        lines.append(f"  {name}: {_ms(arm)}, adds {added:.1f} ms, / aim of {START_AIM:.0f} ms: {added / START_AIM:.2f}")
    return "\n".join(lines)


def _ms(seconds: list[float]) -> str:
    ms = sorted(each * 1000 for each in seconds)
    return f"median {statistics.median(ms):.1f} ms ({ms[0]:.1f} to {ms[-1]:.1f})"


def _box(agent: Agent) -> Box:
    assert agent.box is not None
    return agent.box


# ---- Turns ----------------------------------------------------------------------------------------------------------


def script(agent: str, tree: Path) -> list[Turn]:
    """Return the five seconds of an agent's model; its program sees the tree at this path."""
    verdict = {"approved": True, "summary": THOUGHT, "findings": [], "response_to_rebuttal": ""}
    steps = {
        "codex": [
            says(THOUGHT) + calls("exec_command", cmd=f"cat {EDITED}"),
            says(THOUGHT) + calls("exec_command", cmd="grep -rn 'n = 11' src"),
            says(THOUGHT) + calls("exec_command", cmd="ls -l src; wc -l src/*"),
            says(THOUGHT) + calls("exec_command", cmd="cat src/file8.py src/file9.py"),
            answers(verdict),
        ],
        "claude": [
            says(THOUGHT) + calls("Read", file_path=f"{tree}/{EDITED}"),
            says(THOUGHT) + calls("Grep", pattern="n = 11", path=str(tree), output_mode="content"),
            says(THOUGHT) + calls("Edit", file_path=f"{tree}/{EDITED}", old_string="n = 0\n", new_string="n = 1\n"),
            says(THOUGHT) + calls("Bash", command=f"cat {EDITED}; wc -l src/*", description="Look at the files"),
            says(THOUGHT * 2),
        ],
    }
    return [_paced(turn) for turn in steps[agent]]


def _paced(turn: Turn) -> Turn:
    """Return a turn that takes `ANSWER` seconds."""
    texts = (part if isinstance(part, str) else _spelled(part) for part in turn.parts)
    count = sum(len(pieces(text, turn.chunk)) for text in texts)
    return turn.slowly(wait=WAIT, pause=(ANSWER - WAIT) / count)


def _spelled(part: Call | Answer) -> str:
    return str(dict(part.arguments) if isinstance(part, Call) else part.value)


@dataclass(frozen=True)
class Scene:
    """One agent's turn, taken in either way."""

    made: Ground
    agent: Agent

    @property
    def editing(self) -> bool:
        return SEATS[self.agent.name][0] == "author"

    async def inside(self, number: int) -> float:
        """Take the turn as the worker does, and return its seconds."""
        sessions = self.made.folder / "sessions" / f"{self.agent.name}-{number}"
        sessions.mkdir(parents=True)
        request = self._begin(TREE, sessions)
        began = time.perf_counter()
        async with self.made.lodgings.turn(_box(self.agent), request) as stay:
            reply = await self.agent.take_turn(stay.request, stay.run)
        seconds = time.perf_counter() - began
        assert stay.door.spent.calls == len(script(self.agent.name, TREE))
        self._check(reply.text)
        return seconds

    async def outside(self, number: int) -> float:
        """Take the turn without a sandbox and without the gateway, and return its seconds."""
        tool = await self.made.lodgings.quarters.programs.find(_box(self.agent))
        user = self.made.lodgings.user.user

        async def run(spec: Program) -> Finished:
            return await process.run(replace(spec, user=user))

        below = (f"home/{_box(self.agent).sessions}", "tmp")
        with self.made.own(f"outside-{self.agent.name}-{number}", *below) as folder:
            lodging = Lodging(
                program=tool.path, home=folder / "home", tmp=folder / "tmp", api=self.made.models.anthropic_url
            )
            request = self._begin(self.made.tree, folder / "home")
            if request.schema is not None:
                lodging = replace(lodging, schema=folder / "schema.json")
                (folder / "schema.json").write_text(json.dumps(request.schema))
            began = time.perf_counter()
            reply = await self.agent.take_turn(replace(request, lodging=lodging), run)
            seconds = time.perf_counter() - began
        self._check(reply.text)
        return seconds

    def _begin(self, tree: Path, sessions: Path) -> TurnRequest:
        """Set the stage: the model at the beginning of its script, the tree as it was."""
        name = self.agent.name
        model = self.made.models.openai if name == "codex" else self.made.models.anthropic
        model.plays(script(name, tree))
        (self.made.tree / EDITED).write_text("n = 0\n" + FILES[EDITED])
        seat, asked = SEATS[name]
        return TurnRequest(
            run="bench",
            seat=seat,
            round=1,
            turn=1,
            brief="Look at the change.\n" * 100,
            schema=None if self.editing else VerdictCodec().schema(),
            editing=self.editing,
            tree=self.made.tree,
            base=self.made.folder / "base",
            notes=self.made.folder / "brief",
            session=None,
            session_dir=sessions,
            seconds=60,
            model=asked,
        )

    def _check(self, reply: str) -> None:
        """See that the turn was the one of the script: its last word came, and its edit was made."""
        assert THOUGHT.strip() in reply
        expected = "n = 1\n" if self.editing else "n = 0\n"
        assert (self.made.tree / EDITED).read_text() == expected + FILES[EDITED]


async def turns(made: Ground, name: str, times: int) -> str:
    """Compare an agent's turns."""
    scene = Scene(made, find(name)[0])
    outside, inside = await alternately(times, scene.outside, scene.inside)
    one, other = statistics.median(outside), statistics.median(inside)
    pairs = sorted(within / without for without, within in zip(outside, inside, strict=True))
    return (
        f"a turn of {name}, {times} times each: outside {one:.3f} s, inside {other:.3f} s ({(other - one) * 1000:+.0f} "
        f"ms)\n  inside / outside = {other / one:.3f} (aim {TURN_AIM}; the shortest {min(inside) / min(outside):.3f}; "
        f"pairs {pairs[0]:.3f} to {pairs[-1]:.3f})"
    )


# ---- The whole ------------------------------------------------------------------------------------------------------


async def bench(state: Path, *, times_started: int, times_asked: int) -> None:
    """Measure and print."""
    async with ground(state) as made:
        _say_load()
        if times_started:
            print(await starts(made, times_started))
        for agent in SEATS if times_asked else ():
            print(await turns(made, agent, times_asked))
        _say_load()


def _say_load() -> None:
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)


def main() -> None:
    """Run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="codex-debate-bench-") as name:
        Path(name).chmod(0o711)
        asyncio.run(bench(Path(name), times_started=options.starts, times_asked=options.turns))


if __name__ == "__main__":
    main()
