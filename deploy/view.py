"""What `codex-debate try` shows while a debate goes on.

It owns the shape of a run's progress as it is shown, the live screen (`screen`) and the plain lines of a pipe
(`plain_lines`). Rendering is pure: the time, the width and the terminal's letters are given. Only `Display` has a clock
and writes. The end is told by `deploy/ending.py`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter
from rich.cells import set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from deploy.layout import TITLE_MIN, Drawn, FindingLine, Look, clock, money, table

# ---- What is shown --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeatLine:
    """One turn of one seat."""

    agent: str
    seat: str
    text: str
    """What came of it: `raised 5 findings`. While it works, what it does: `reviewing`."""
    seconds: float = 0.0
    """How long it took."""
    usd: float = 0.0
    working: bool = False
    activity: str = ""
    """While it works, what it does just now: `reads src/retry.py`."""
    began: float = 0.0
    """When the turn began, in seconds since 1970; 0: not known."""
    detail: str = ""
    """What plain lines add behind a colon: `F1 blocking; F2 major`, `commit 5d4463e4d4`."""


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round, with a line for each turn that has begun."""

    number: int
    lines: tuple[SeatLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run stands."""

    run: str
    head_ref: str
    base_ref: str
    files: int
    added: int
    removed: int
    started: float
    """Seconds since 1970."""
    limit_seconds: float
    limit_usd: float
    rounds: tuple[RoundView, ...] = ()
    findings: tuple[FindingLine, ...] = ()
    usd: float = 0.0
    finished: bool = False
    badge: str = ""
    """At the end: the comment's badge line."""
    outside: tuple[str, ...] = ()
    """At the end: the findings that were deferred, each with its title."""


_progress = TypeAdapter(Progress)


def load(raw: str | bytes) -> Progress:
    """Return the progress that a JSON object of the fields above tells; further fields are left out.

    Raises pydantic's ValidationError.
    """
    return _progress.validate_json(raw)


NOTHING_YET = Progress("", "", "", 0, 0, 0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class View:
    """What a screen shows."""

    progress: Progress = NOTHING_YET
    source: str = ""
    """Where the change comes from: `~/src/tidebook`."""
    left_out: str = ""
    """What of the repository is left out: `2 uncommitted files, README.md and notes.txt`."""
    note: str = ""
    """A first line: `lint sits in both seats, since no key is set.`"""


FIGURES = 14
"""Columns of a turn's time and cost."""
SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPIN_ASCII = "|/-\\"
SPINS_A_SECOND = 10


# ---- The screen -----------------------------------------------------------------------------------------------------


def screen(view: View, look: Look, *, now: float) -> list[Text]:
    """Return the lines of the live screen; when the run has finished, those of its head and its rounds."""
    head = _head(view, look)
    rounds = list(_rounds(view.progress, look, now=now))
    if view.progress.finished:
        return [*head, Text(), *rounds]
    foot = _foot(view.progress, look, now=now)
    room = None if look.height is None else look.height - 1 - len(head) - len(foot) - 3
    findings = table(view.progress.findings, look, room=None if room is None else max(3, room - len(rounds)))
    if room is not None and len(rounds) + len(findings) > room:
        keep = max(2, room - len(findings) - 1)
        rounds = [Text("Earlier rounds are not shown.", "dim"), *rounds[-keep:]]
    return [*head, Text(), *rounds, Text(), *findings, Text(), *foot]


def _head(view: View, look: Look) -> list[Text]:
    """Return what is debated."""
    progress = view.progress
    files = f"{progress.files} file{'' if progress.files == 1 else 's'}, +{progress.added} -{progress.removed}"
    refs = look.clean(f"{progress.head_ref} into {progress.base_ref}")
    lines = look.flow([f"Debate {progress.run}", refs, files])
    lines[-1:] = look.sides(lines[-1], look.clean(view.source))
    left_out = f"Left out: {view.left_out}. The repository is only read." if view.left_out else ""
    below = [line for text in (view.note, left_out) if text for line in look.wrap(look.clean(text))]
    return [*(Text(line, "bold") for line in lines), *(Text(line, "dim") for line in below)]


def _rounds(progress: Progress, look: Look, *, now: float) -> Iterator[Text]:
    """Yield the rounds, a line or more for each turn."""
    names = max([6, *(len(look.clean(line.agent)) for each in progress.rounds for line in each.lines)])
    room = look.width - FIGURES - 1 - names - 4
    figures = room >= TITLE_MIN  # a terminal that is too narrow for both shows the words
    room = room if figures else max(TITLE_MIN, look.width - names - 4)
    for number, each in enumerate(progress.rounds):
        heads = f"{'time':>6}{'cost':>8}" if figures and number == 0 else ""
        yield Text("\n".join(look.sides(f"Round {each.number}", heads)), "bold")
        for line in each.lines:
            took = now - line.began if line.working and line.began else line.seconds
            told = _working(line, look, seconds=now - progress.started) if line.working else look.clean(line.text)
            first, *rest = [look.fit(told, room)] if line.working else look.wrap(told, width=room)
            text = f"  {look.clean(line.agent).ljust(names)}  {first}"
            if figures:
                text = set_cell_size(text, look.width - FIGURES) + f"{clock(took):>6}{money(line.usd):>8}"
            yield Text(text)
            yield from (Text(" " * (names + 4) + more) for more in rest)


def _working(line: SeatLine, look: Look, *, seconds: float) -> str:
    frames = SPIN_ASCII if look.ascii else SPIN
    spin = frames[int(seconds * SPINS_A_SECOND) % len(frames)]
    doing = look.clean(f"{line.text}: {line.activity}" if line.activity else line.text)
    return f"{spin} {doing}"


def _foot(progress: Progress, look: Look, *, now: float) -> list[Text]:
    """Return how much of the ceilings is used."""
    spent = f"{clock(now - progress.started)} of at most {clock(progress.limit_seconds)}"
    cost = f"{money(progress.usd)} of at most {money(progress.limit_usd)}"
    lines = look.flow([spent, cost])
    lines[-1:] = look.sides(lines[-1], "Ctrl-C stops")
    return [Text(line, "dim") for line in lines]


# ---- Plain lines ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """How a run stood at a time."""

    progress: Progress
    now: float


def plain_lines(before: Moment | None, after: Moment, *, left_out: str = "") -> list[str]:
    """Return what happened between two moments, a line each; a line for every minute that a turn goes on."""
    look, progress = Look(), after.progress
    told: list[tuple[float, str]] = []
    if before is None:
        files = f"{progress.files} file{'' if progress.files == 1 else 's'}, +{progress.added} -{progress.removed}"
        refs = f"{progress.head_ref} into {progress.base_ref}"
        told.append((progress.started, f"debate {progress.run}: {refs}, {files}"))
        if left_out:
            told.append((progress.started, f"left out: {left_out}"))
    known = {} if before is None else _turns(before.progress)
    for key, line in _turns(progress).items():
        old = known.get(key)
        began = line.began or after.now
        who = f"round {key[0]}: {line.agent}"
        if not line.working and (old is None or old.working):
            told.append((after.now, f"{who} {line.text}{f': {line.detail}' if line.detail else ''}"))
        elif old is None:
            told.append((began, f"{who} is {line.text}"))
        elif line.working and before is not None:
            origin = line.began or progress.started
            minutes = range(int((before.now - origin) // 60) + 1, int((after.now - origin) // 60) + 1)
            said = f"{who} is {line.text}, {money(progress.usd)} so far"
            told += ((origin + 60 * minute, said) for minute in minutes)
    # What began between two looks is told behind what had ended by the second, and so as of then.
    times = itertools.accumulate((when for when, _ in told), max)
    return [f"{clock(at - progress.started):>5} {look.clean(text)}" for at, (_, text) in zip(times, told, strict=True)]


def _turns(progress: Progress) -> dict[tuple[int, int], SeatLine]:
    return {(each.number, at): line for each in progress.rounds for at, line in enumerate(each.lines)}


# ---- Showing it -----------------------------------------------------------------------------------------------------


class Display:
    """Shows a run while it goes on: a live screen on a terminal, plain lines elsewhere.

    A context manager. `show` takes each new progress; on a terminal the screen lives on between two of them and stays
    when the display ends.
    """

    def __init__(self, console: Console, view: View | None = None, *, clock: Callable[[], float] = time.time) -> None:
        """`console` writes to standard error; `view` holds what does not change: source, left_out and note."""
        self.console = console
        self._view = view or View()
        self._clock = clock
        self._before: Moment | None = None
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(
                console=console,
                get_renderable=lambda: Drawn(self._lines),
                refresh_per_second=SPINS_A_SECOND,
                vertical_overflow="crop",
            )

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live is not None:
            self._live.start(refresh=True)
        elif self._view.note:
            self._write(Look().clean(self._view.note))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last screen where it stands."""
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Take note of how the run stands now."""
        moment = Moment(progress, self._clock())
        if self._live is None:
            for line in plain_lines(self._before, moment, left_out=self._view.left_out):
                self._write(line)
        self._before = moment
        self._view = replace(self._view, progress=progress)

    def _lines(self, look: Look) -> list[Text]:
        if self._before is None:
            return [Text(look.clean(line)) for line in (self._view.note, "The debate begins.") if line]
        return screen(self._view, look, now=self._clock())

    def _write(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True, highlight=False)
