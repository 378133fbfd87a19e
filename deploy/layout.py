"""How lines are laid out for a terminal: widths, letters, tables. Pure; it knows nothing of debates.

Whatever agents and strangers wrote is cleaned here before it is laid out: no control character, no sequence of a
terminal and no secret gets through `Look.clean`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from bot.redact import redact, visible

TITLE_MIN = 16
"""Columns of a finding's title below which other columns give way."""
TO_ASCII = str.maketrans(
    {
        "…": "...",
        "─": "-",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "⇄": "<->",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "“": '"',
        "”": '"',
    }
)
"""How frequent letters are written where there is no Unicode; any other becomes a question mark."""
SEVERITY, TITLE, PLACE, STATE = 1, 2, 3, 4
"""Columns of the table; the first is the id."""
COLOURS = {"blocking": "red", "major": "yellow", "open": "yellow", "fixed": "green", "nit": "dim"}


@dataclass(frozen=True, slots=True)
class Look:
    """The terminal to draw for."""

    width: int = 100
    height: int | None = None
    """Rows, where the whole must be seen at once."""
    ascii: bool = False
    """The terminal speaks no Unicode."""

    def clean(self, text: str) -> str:
        """Return text of anybody as one line without control characters, secrets, or letters that cannot be shown."""
        line = " ".join(redact(visible(text)).split())
        return line.translate(TO_ASCII).encode("ascii", "replace").decode() if self.ascii else line

    def fit(self, text: str, width: int) -> str:
        """Return text cut to a width, and told so."""
        if cell_len(text) <= width:
            return text
        end = "..." if self.ascii else "…"
        return set_cell_size(text, max(0, width - len(end))).rstrip() + end if width > len(end) else text[:width]

    def wrap(self, text: str, indent: int = 0, *, width: int | None = None) -> list[str]:
        """Return text as lines that keep to the width, all but the first indented."""
        room = max(1, (width or self.width) - indent)
        first, *rest = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        return [first, *(" " * indent + line for line in rest)]

    def sides(self, left: str, right: str, *, gap: int = 2) -> list[str]:
        """Return a line with both ends filled; two lines where they do not fit."""
        space = self.width - cell_len(left) - cell_len(right)
        if not right:
            return [left]
        return [left + " " * space + right] if space >= gap else [left, self.fit(right, self.width)]

    def flow(self, parts: list[str]) -> list[str]:
        """Return parts side by side, in as many lines as they need."""
        lines = [self.fit(parts[0], self.width)]
        for part in parts[1:]:
            if cell_len(lines[-1]) + 3 + cell_len(part) <= self.width:
                lines[-1] += "   " + part
            else:
                lines.append(self.fit(part, self.width))
        return lines


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds: `0:48`, `180:00`."""
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02}"


def money(usd: float) -> str:
    """Return an amount: `$0.06`."""
    return f"${usd:.2f}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Lines that rich prints: drawn anew for the terminal that they are printed on."""

    draw: Callable[[Look], Iterable[Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        look = Look(options.max_width, options.max_height if console.is_terminal else None, ascii=options.ascii_only)
        for line in self.draw(look):
            line.no_wrap = line.overflow != "fold"
            yield line


# ---- The table of findings ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A finding, as a row of the table."""

    id: str
    severity: str
    title: str
    place: str
    """``path:line``; its last part is shown."""
    state: str
    """`open`, `fixed`, `fixed, unreviewed`, `conceded`, `deferred`, …"""


def table(findings: tuple[FindingLine, ...], look: Look, *, room: int | None = None) -> list[Text]:
    """Return the findings as a table: at most `room` rows, those that are open first."""
    if not findings:
        return [Text("No findings yet.")]
    shown = list(findings)
    if room is not None and len(shown) > room:
        first = sorted(shown, key=lambda each: each.state != "open")[: room - 1]
        shown = [each for each in shown if each in first]
    rows = [
        [look.clean(part) for part in (each.id, each.severity, each.title, each.place.rsplit("/", 1)[-1], each.state)]
        for each in shown
    ]
    columns = [0, 1, 2, 3, 4]
    widths = [max(cell_len(row[column]) for row in rows) for column in columns]

    def room_of_title() -> int:
        return look.width - sum(widths[column] + 2 for column in columns if column != TITLE)

    for spare in (PLACE, SEVERITY):
        if room_of_title() < min(TITLE_MIN, widths[TITLE]):
            columns.remove(spare)
    widths[TITLE] = max(1, min(widths[TITLE], room_of_title()))
    lines = []
    for row in rows:
        cells = ((look.fit(row[each], widths[each]), widths[each], _colour(row, each)) for each in columns)
        line = Text("  ").join(Text(set_cell_size(cell, width), colour) for cell, width, colour in cells)
        line.rstrip()
        lines.append(line)
    if len(shown) < len(findings):
        lines.append(Text(f"and {len(findings) - len(shown)} more", "dim"))
    return lines


def _colour(row: list[str], column: int) -> str:
    return COLOURS.get(row[column].partition(",")[0], "") if column in {SEVERITY, STATE} else ""
