"""What warm sessions save: uncached input tokens of a three-round debate, warm against cold.

Run by hand; prints figures and ratios of one run (aim: warm is half of cold or less):

    python tests/bench/bench_tokens.py [--rounds 3] [--lines 300] [--around 0]

The real codex reviews and the real claude edits, in the whole pipeline, until the verdict of the last round approves:
three verdicts and two edits where there are three rounds. The scripted model server counts; what repeats the session's
previous request is cached, and all else that a model reads is uncached. Nothing is shared between sessions, as it may
be at the providers. The count is the same in every run.

``warm`` is the pipeline as it is. Each agent reads the whole change in its first turn: the diff, the three changed
files, and so many `--around` them. In every later turn it reads the round's change, which shows twenty lines around
each place: all else stands in its session. ``warm, opens the file`` reads the edited file whole besides.

``cold`` loses the seat's session files before every turn, so that the pipeline starts a new session with the whole
brief and the ledger. Such a model knows nothing of what it read before. To judge or to edit the same change it must
read it all again, and the round's change, which its brief points to. This is the comparison of the aim: when a turn
ends, the models of both arms have the same files before them, as they stand then.

``warm, reads all`` is the strictest way to compare: its sessions last, and yet it reads in every turn, file by file,
what the cold one reads. What is left of the saving is the programs' own prompts, their tools, and the briefs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parents[2]),
    *(str(Path(__file__).parents[1] / name) for name in ("stories", "models")),
]

from real import Real, judges, real_machine
from telling import finding

from scripted_models import Model, Request, Turn, Usage, calls, says
from scripted_models.usage import NOTHING

AIM = 0.5
NAMES = ("orders", "prices", "report")
"""The files of the change."""
EDITED = "src/orders.py"
CHANGED_EVERY = 4
"""One function in so many is changed by the pull request."""

Entry = Turn | Callable[[Request], Turn]

# ---- The change -----------------------------------------------------------------------------------------------------


def source(name: str, lines: int, *, changed: bool) -> str:
    """Return a Python file of so many lines, the same every time; `changed`, as the pull request has it."""
    dice = random.Random(name)  # noqa: S311 - the same words every time
    words = ("total", "order", "price", "amount", "customer", "discount", "invoice", "record", "stock", "entry")
    found = [f'"""The {name} of the shop."""', "", *(f"MARK_{number} = {number}" for number in range(20)), ""]
    for number in range(lines):
        one, two, three = dice.sample(words, 3)
        more = " + 1" if changed and number % CHANGED_EVERY == 0 else ""
        found += [
            f"def {one}_of_{two}_{number}({two}, {three}=None):",
            f'    """Return the {one} of a {two}, without its {three}."""',
            f"    if {three} is None or not {two}.{three}s:",
            f"        return {two}.{one}s[{dice.randint(0, 99)}]{more}",
            f"    return sum(each.{one} for each in {two}.{three}s) - {three}.{one}{more}",
            "",
        ]
    return "\n".join([*found[:lines], ""])


@dataclass(frozen=True)
class Subject:
    """What is debated, and for how long."""

    rounds: int
    lines: int
    """Of each file."""
    around: int
    """Files that are read besides those of the change."""

    def files(self, *, changed: bool) -> dict[str, str]:
        """Return the files before the pull request, or with it."""
        more = [f"around{number}" for number in range(self.around)]
        return {
            f"src/{name}.py": source(name, self.lines, changed=changed and name in NAMES) for name in (*NAMES, *more)
        }


# ---- The arms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arm:
    """One way to hold the debate."""

    name: str
    loses: bool
    """Before every turn the seat's session files are lost."""
    again: str
    """What every turn after the first reads besides the round's change: ``nothing``, ``the file`` or ``all``."""

    def reads(self, subject: Subject, number: int) -> list[str]:
        """Return what a turn of a round reads, as paths inside."""
        whole = ["/brief/change.diff", *(f"/work/{path}" for path in subject.files(changed=True))]
        if number == 1:
            return whole
        return ["/brief/round.diff", *{"nothing": [], "the file": [f"/work/{EDITED}"], "all": whole}[self.again]]


ARMS = (
    Arm("warm", loses=False, again="nothing"),
    Arm("warm, opens the file", loses=False, again="the file"),
    Arm("warm, reads all", loses=False, again="all"),
    Arm("cold", loses=True, again="all"),
)


@dataclass(frozen=True)
class Seat:
    """A seat, and its model's part in a debate of so many rounds."""

    name: str
    agent: str
    read: Callable[[str], Turn]
    last: Callable[[int, int], Sequence[Turn]]
    """The end of the turn of a round, of so many."""

    def turns(self, rounds: int) -> int:
        return rounds if self.name == "reviewer" else rounds - 1

    def script(self, arm: Arm, subject: Subject, lose: Callable[[str], None]) -> Iterator[Entry]:
        """Yield what its model does, request by request."""
        other = "author" if self.name == "reviewer" else "reviewer"
        for number in range(1, self.turns(subject.rounds) + 1):
            read = [self.read(path) for path in arm.reads(subject, number)]
            first, *more = (*read, *self.last(number, subject.rounds))
            yield _losing(first, lambda: lose(other)) if arm.loses else first
            yield from more


def _losing(turn: Turn, lose: Callable[[], None]) -> Entry:
    """Return a turn before which the other seat's session, whose turn is over, is lost."""

    def decide(_: Request) -> Turn:
        lose()
        return turn

    return decide


def _verdict(number: int, rounds: int) -> list[Turn]:
    """Two findings, which are open until the last round."""
    said = "The sum is wrong where the record is empty, and who calls it does not look. " * 5
    status = "resolved" if number == rounds else "open"
    found = [finding(each, status, issue=said, location=f"{EDITED}:{each * 40}") for each in (1, 2)]
    return [judges(*found, summary=said, reply=said if number > 1 else "")]


def _edit(number: int, _: int) -> list[Turn]:
    """Change a line, and say what was done."""
    line = f"MARK_{number} = {number}"
    edited = calls("Edit", file_path=f"/work/{EDITED}", old_string=f"{line}\n", new_string=f"{line}  # mended\n")
    words = "what an empty record comes to is told apart now, and who calls it was looked at, " * 3
    return [edited, says(f"I have looked at both.\n\n- `F1` **partial**: {words}\n- `F2` **fixed**: {words}\n")]


CODEX = Seat("reviewer", "codex", lambda path: calls("exec_command", cmd=f"cat {path}"), _verdict)
CLAUDE = Seat("author", "claude", lambda path: calls("Read", file_path=path), _edit)

# ---- Debates --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What a seat's model read in a debate."""

    usage: Usage
    sessions: int


async def debate(real: Real, arm: Arm, subject: Subject) -> dict[str, Counted]:
    """Hold a debate, and return what each agent's model read."""

    def lose(seat: str) -> None:
        for session in (real.folder / "state" / "runs").glob(f"*/sessions/{seat}/**/*.jsonl"):
            session.unlink()

    models = {CODEX: real.models.openai, CLAUDE: real.models.anthropic}
    before = {seat: len(model.requests) for seat, model in models.items()}
    for seat, model in models.items():
        model.plays(list(seat.script(arm, subject, lose)))
    story = await real.story(arm.name.replace(", ", "-").replace(" ", "-"))
    await story.opens(subject.files(changed=False), subject.files(changed=True))
    end = await story.reviewed()
    assert end.state.status == "consensus", end.check.summary
    assert len(end.commits) == subject.rounds - 1
    found = {}
    for seat, model in models.items():
        assert not model.unplayed, "every turn of the script was asked for"
        found[seat.agent] = _count(model, before[seat])
        assert found[seat.agent].sessions == (seat.turns(subject.rounds) if arm.loses else 1)
    return found


def _count(model: Model, since: int) -> Counted:
    asked = model.requests[since:]
    return Counted(sum((each.usage for each in asked), NOTHING), len({each.session for each in asked}))


async def bench(subject: Subject) -> str:
    """Hold the debate in each way, and return what is to be said of it."""
    async with real_machine() as real:
        found = {arm.name: await debate(real, arm, subject) for arm in ARMS}
    cold = found["cold"]
    read = len(subject.files(changed=True))
    texts = [f"uncached input tokens of {subject.rounds} rounds over {read} files of {subject.lines} lines:"]
    for name, arm in found.items():
        parts = [f"{agent} {each.usage.uncached:,} of {each.usage.input:,}" for agent, each in arm.items()]
        texts.append(f"  {name}: {_uncached(arm.values()):,} ({'; '.join(parts)} read)")
    for name, arm in found.items():
        if name != "cold":
            parts = [f"{agent} {each.usage.uncached / cold[agent].usage.uncached:.2f}" for agent, each in arm.items()]
            ratio = _uncached(arm.values()) / _uncached(cold.values())
            texts.append(f"{name} / cold = {ratio:.2f} (aim {AIM}; {', '.join(parts)})")
    return "\n".join(texts)


def _uncached(counted: Iterable[Counted]) -> int:
    return sum(each.usage.uncached for each in counted)


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--around", type=int, default=0)
    options = parser.parse_args()
    print(asyncio.run(bench(Subject(options.rounds, options.lines, options.around))))


if __name__ == "__main__":
    main()
