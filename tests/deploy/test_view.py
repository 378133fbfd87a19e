"""The live screen and the plain lines of `codex-debate try`, against the screens of the design."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import termios
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from bot.redact import visible, whole
from deploy.ending import ending, taking
from deploy.layout import Drawn, FindingLine, Look
from deploy.view import Display, Moment, Progress, RoundView, SeatLine, View, load, plain_lines, screen
from tests.deploy import results
from tests.worker.outputs.hostile import CORPUS, has_secret

START = 1_772_436_600.0

F1 = FindingLine("F1", "blocking", "A retry after a timeout charges the card twice", "src/retry.py:118", "open")
F2 = FindingLine("F2", "major", "The row lock is held while the bank answers", "src/retry.py:97", "open")
F3 = FindingLine("F3", "major", "Retries go on after the berth was given away", "src/schedule.py:64", "open")
F4 = FindingLine("F4", "major", "Production has no renewals queue", "src/settings.py:31", "open")
F5 = FindingLine("F5", "minor", "The wait that the bank asks for is ignored", "src/retry.py:140", "open")
RAISED = SeatLine(
    "codex",
    "reviewer",
    "raised 5 findings",
    158,
    0.34,
    detail="F1 blocking; F2, F3, F4 major; F5 minor",
    began=START + 7,
)
ANSWERED = SeatLine(
    "claude",
    "author",
    "fixed F1, fixed F5 in part, disputed F2, F3 and F4",
    131,
    0.37,
    began=START + 165,
    detail="commit 5d4463e4d4",
)
SECOND = SeatLine("codex", "reviewer", "accepted F1, conceded F2, deferred F4, kept F3 and F5", 112, 0.27)

BEGUN = Progress("7h2kq9xw", "retry-renewals", "main", 15, 412, 96, START, 10800, 10.0)


def at_work(agent: str, text: str, began: float, usd: float, activity: str = "") -> SeatLine:
    seat = "reviewer" if agent == "codex" else "author"
    return SeatLine(agent, seat, text, 0, usd, working=True, activity=activity, began=START + began)


def view(progress: Progress) -> View:
    return View(progress, "~/src/tidebook", "2 uncommitted files, README.md and notes.txt")


def text(lines: list[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


def shown(progress: Progress, now: float, look: Look | None = None) -> str:
    return text(screen(view(progress), look or Look(), now=START + now))


FIRST = replace(
    BEGUN,
    rounds=(RoundView(1, (at_work("codex", "reviewing", 7, 0.06, "reads src/tidebook/renewals/retry.py"),)),),
    usd=0.06,
)
ANSWERING = replace(
    BEGUN,
    rounds=(RoundView(1, (RAISED, at_work("claude", "answering", 165, 0.21, "runs pytest -q tests/renewals"))),),
    findings=(F1, F2, F3, F4, F5),
    usd=0.55,
)
THIRD = replace(
    BEGUN,
    rounds=(
        RoundView(1, (RAISED, ANSWERED)),
        RoundView(2, (SECOND, SeatLine("claude", "author", "fixed F3 and F5", 150, 0.26))),
        RoundView(3, (at_work("codex", "reviewing", 558, 0.11, "reads the change of round 2"),)),
    ),
    findings=(
        replace(F1, state="fixed"),
        replace(F2, state="conceded"),
        replace(F3, state="fixed, unreviewed"),
        replace(F4, state="deferred"),
        replace(F5, state="fixed, unreviewed"),
    ),
    usd=1.35,
)

# ---- The screen -----------------------------------------------------------------------------------------------------


def test_the_screen_while_the_first_turn_goes_on() -> None:
    assert (
        shown(FIRST, 48.25)
        == """\
Debate 7h2kq9xw   retry-renewals into main   15 files, +412 -96                       ~/src/tidebook
Left out: 2 uncommitted files, README.md and notes.txt. The repository is only read.

Round 1                                                                                 time    cost
  codex   ⠹ reviewing: reads src/tidebook/renewals/retry.py                             0:41   $0.06

No findings yet.

0:48 of at most 180:00   $0.06 of at most $10.00                                        Ctrl-C stops"""
    )


def test_the_screen_with_findings() -> None:
    assert (
        shown(ANSWERING, 247)
        == """\
Debate 7h2kq9xw   retry-renewals into main   15 files, +412 -96                       ~/src/tidebook
Left out: 2 uncommitted files, README.md and notes.txt. The repository is only read.

Round 1                                                                                 time    cost
  codex   raised 5 findings                                                             2:38   $0.34
  claude  ⠋ answering: runs pytest -q tests/renewals                                    1:22   $0.21

F1  blocking  A retry after a timeout charges the card twice  retry.py:118    open
F2  major     The row lock is held while the bank answers     retry.py:97     open
F3  major     Retries go on after the berth was given away    schedule.py:64  open
F4  major     Production has no renewals queue                settings.py:31  open
F5  minor     The wait that the bank asks for is ignored      retry.py:140    open

4:07 of at most 180:00   $0.55 of at most $10.00                                        Ctrl-C stops"""
    )


def test_the_screen_in_a_later_round() -> None:
    assert (
        shown(THIRD, 616)
        == """\
Debate 7h2kq9xw   retry-renewals into main   15 files, +412 -96                       ~/src/tidebook
Left out: 2 uncommitted files, README.md and notes.txt. The repository is only read.

Round 1                                                                                 time    cost
  codex   raised 5 findings                                                             2:38   $0.34
  claude  fixed F1, fixed F5 in part, disputed F2, F3 and F4                            2:11   $0.37
Round 2
  codex   accepted F1, conceded F2, deferred F4, kept F3 and F5                         1:52   $0.27
  claude  fixed F3 and F5                                                               2:30   $0.26
Round 3
  codex   ⠋ reviewing: reads the change of round 2                                      0:58   $0.11

F1  blocking  A retry after a timeout charges the card twice  retry.py:118    fixed
F2  major     The row lock is held while the bank answers     retry.py:97     conceded
F3  major     Retries go on after the berth was given away    schedule.py:64  fixed, unreviewed
F4  major     Production has no renewals queue                settings.py:31  deferred
F5  minor     The wait that the bank asks for is ignored      retry.py:140    fixed, unreviewed

10:16 of at most 180:00   $1.35 of at most $10.00                                       Ctrl-C stops"""
    )


def test_the_last_screen_holds_the_rounds_alone() -> None:
    last = shown(replace(THIRD, finished=True), 657)
    assert last.endswith(
        "  codex   ⠋ reviewing: reads the change of round 2                                      1:39   $0.11"
    )
    assert "F1  blocking" not in last
    assert "Ctrl-C" not in last


def test_a_narrow_terminal_wraps_what_it_must_and_cuts_what_it_can() -> None:
    assert (
        shown(ANSWERING, 247, Look(60))
        == """\
Debate 7h2kq9xw   retry-renewals into main
15 files, +412 -96                            ~/src/tidebook
Left out: 2 uncommitted files, README.md and notes.txt. The
repository is only read.

Round 1                                         time    cost
  codex   raised 5 findings                     2:38   $0.34
  claude  ⠋ answering: runs pytest -q tests/…   1:22   $0.21

F1  blocking  A retry after a timeout…  retry.py:118    open
F2  major     The row lock is held wh…  retry.py:97     open
F3  major     Retries go on after the…  schedule.py:64  open
F4  major     Production has no renew…  settings.py:31  open
F5  minor     The wait that the bank…   retry.py:140    open

4:07 of at most 180:00   $0.55 of at most $10.00
Ctrl-C stops"""
    )


def test_long_words_of_a_seat_go_on_below() -> None:
    lines = shown(THIRD, 616, Look(60)).splitlines()
    at = lines.index("  claude  fixed F1, fixed F5 in part,           2:11   $0.37")
    assert lines[at + 1] == "          disputed F2, F3 and F4"


@pytest.mark.parametrize("width", [20, 28, 30, 40, 50, 60, 79, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in screen(view(THIRD), Look(width), now=START + 616):
        assert width < 28 or cell_len(line.plain) <= width


def test_a_terminal_without_unicode_sees_ascii_alone() -> None:
    strange = replace(ANSWERING, findings=(replace(F1, title="Größe … 漢字 ⇄"),))
    seen = shown(strange, 247.25, Look(ascii=True))
    assert seen.isascii()
    assert "| answering: runs pytest" in seen
    assert "Gr??e ... ?? <->" in seen


def test_a_low_terminal_folds_findings_and_old_rounds() -> None:
    many = tuple(replace(F1, id=f"F{number}", state="open" if number > 30 else "fixed") for number in range(1, 41))
    low = replace(THIRD, findings=many)
    lines = shown(low, 616, Look(height=24)).splitlines()
    assert len(lines) <= 23
    assert any(line.startswith("and ") and line.endswith(" more") for line in lines)
    assert any(line.startswith("F31 ") for line in lines), "what is open comes first"
    lines = shown(low, 616, Look(height=14)).splitlines()
    assert "Earlier rounds are not shown." in lines
    assert any("reviewing: reads the change of round 2" in line for line in lines)
    assert lines[-1].endswith("Ctrl-C stops")


def test_without_a_repository_of_ones_own_there_is_no_word_of_it() -> None:
    lines = text(screen(View(FIRST, note="lint sits in both seats."), Look(), now=START)).splitlines()
    assert lines[:3] == [
        "Debate 7h2kq9xw   retry-renewals into main   15 files, +412 -96",
        "lint sits in both seats.",
        "",
    ]


def hostile(text: str) -> Progress:
    """A run of which every word that others choose is the same."""
    done = replace(RAISED, agent=text, seat=text, text=text, detail=text)
    return replace(
        THIRD,
        head_ref=text,
        base_ref=text,
        rounds=(RoundView(1, (done, at_work("codex", text, 0, 0, text))),),
        findings=(FindingLine(text, text, text, text, text),),
        badge=text,
        outside=(text,),
    )


@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat(146, 147, 150, 151, 155)
def test_what_others_wrote_cannot_steer_the_terminal(number: int) -> None:
    """On the screen and in plain lines: as many lines as of harmless words, each printable, none with a secret."""
    tame = len(plain_lines(None, Moment(hostile("tame"), START), left_out="tame"))
    for text_ in CORPUS[number]:
        evil = hostile(text_)
        seen = [screen(View(evil, text_, text_, text_), look, now=START) for look in (Look(300), Look(60, ascii=True))]
        plain = plain_lines(None, Moment(evil, START), left_out=text_)
        assert len(plain) == tame
        for line in [*plain, *(each.plain for lines in seen for each in lines)]:
            assert line.isprintable(), text_
            assert not has_secret(line, text_), text_


def typed_into_a_terminal(show: Callable[[Console], None]) -> str:
    """What a program writes into a real terminal of 100 columns and 40 rows."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (40, 100))
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while chunk := os.read(master, 65_536):
                written.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8") as file:
        show(Console(file=file, _environ={"TERM": "xterm-256color"}))
    reader.join()
    os.close(master)
    return b"".join(written).decode()


SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x1b\x07]*(?:\x07|\x1b\\)?|.)|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""All that a terminal obeys (ECMA-48), but for ends of lines."""


@pytest.mark.threat(146, 155)
def test_nothing_that_others_say_is_obeyed_by_a_real_terminal() -> None:
    """No cursor moved, no title set, no link opened: of what a terminal obeys there is what our own screen needs."""

    def shown(texts: list[str]) -> set[str]:
        def show(console: Console) -> None:
            assert console.is_terminal
            with Display(console, View(source=texts[0], note=texts[0]), clock=lambda: START) as display:
                for each in texts:
                    display.show(hostile(each))
            for each in texts:
                path = whole(each)  # it has been a file's name
                evil = replace(results.hostile(each), comment=path, repo=path, store=path)
                console.print(Drawn(lambda look, evil=evil: ending(evil, look)))  # type: ignore[misc]
                for line in taking(evil):
                    console.print(line, soft_wrap=True)

        return set(SEQUENCE.findall(typed_into_a_terminal(show)))

    ours = shown(["tame"])
    assert any("\x1b[" in each for each in ours), "the screen is drawn"
    evil = ["\x1b[9A\x1b]0;title\x07", *CORPUS[146], *CORPUS[147], *CORPUS[150], *CORPUS[155]]
    assert shown(evil) <= ours


@given(st.text(max_size=200), st.integers(40, 120))
def test_any_title_keeps_the_table_in_shape(title: str, width: int) -> None:
    lines = screen(view(replace(ANSWERING, findings=(F2, replace(F1, title=title)))), Look(width), now=START)
    assert all(cell_len(line.plain) <= width and visible(line.plain) == line.plain for line in lines)


# ---- Plain lines ----------------------------------------------------------------------------------------------------


def test_plain_lines_tell_what_happened_since() -> None:
    steps: list[tuple[float, Progress]] = [
        (7, replace(BEGUN, rounds=(RoundView(1, (at_work("codex", "reviewing", 7, 0),)),))),
        (30, FIRST),
        (67.4, replace(FIRST, usd=0.12)),
        (127, replace(FIRST, usd=0.27)),
        (165, ANSWERING),
        (250, replace(ANSWERING, usd=0.49)),
        (285.2, replace(ANSWERING, usd=0.66)),
        (
            296,
            replace(
                ANSWERING,
                rounds=(RoundView(1, (RAISED, ANSWERED)), RoundView(2, (at_work("codex", "reviewing", 296, 0),))),
            ),
        ),
    ]
    moments = [None, *(Moment(progress, START + now) for now, progress in steps)]
    left_out = "2 uncommitted files, README.md and notes.txt"
    lines = [
        line
        for before, after in pairwise(moments)
        if after is not None
        for line in plain_lines(before, after, left_out=left_out)
    ]
    assert "\n".join(lines) == (
        """\
 0:00 debate 7h2kq9xw: retry-renewals into main, 15 files, +412 -96
 0:00 left out: 2 uncommitted files, README.md and notes.txt
 0:07 round 1: codex is reviewing
 1:07 round 1: codex is reviewing, $0.12 so far
 2:07 round 1: codex is reviewing, $0.27 so far
 2:45 round 1: codex raised 5 findings: F1 blocking; F2, F3, F4 major; F5 minor
 2:45 round 1: claude is answering
 3:45 round 1: claude is answering, $0.49 so far
 4:45 round 1: claude is answering, $0.66 so far
 4:56 round 1: claude fixed F1, fixed F5 in part, disputed F2, F3 and F4: commit 5d4463e4d4
 4:56 round 2: codex is reviewing"""
    )


def test_the_clock_of_plain_lines_never_goes_back() -> None:
    """The next turn began before the look that told the end of the one before."""
    after = replace(ANSWERING, rounds=(RoundView(1, (RAISED, at_work("claude", "answering", 8, 0))),))
    lines = plain_lines(Moment(FIRST, START + 7), Moment(after, START + 9))
    assert [line.partition(" round 1: ")[::2] for line in lines] == [
        (" 0:09", "codex raised 5 findings: F1 blocking; F2, F3, F4 major; F5 minor"),
        (" 0:09", "claude is answering"),
    ]


def test_a_turn_that_nobody_saw_at_work_is_told_once() -> None:
    both = replace(BEGUN, rounds=(RoundView(1, (RAISED, ANSWERED)),))
    lines = plain_lines(Moment(BEGUN, START), Moment(both, START + 300))
    assert [line.partition("round 1: ")[2][:12] for line in lines] == ["codex raised", "claude fixed"]
    assert plain_lines(Moment(both, START + 300), Moment(both, START + 900)) == []


# ---- Progress, and showing it ---------------------------------------------------------------------------------------


def test_progress_is_read_from_json_and_further_fields_are_left_out() -> None:
    assert load(json.dumps({**asdict(THIRD), "round": 3})) == THIRD
    with pytest.raises(ValidationError):
        load("{}")


def console(**options: object) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    settings: dict[str, object] = {"file": file, "width": 100, "height": 40, "_environ": {}, **options}
    return Console(**settings), file  # type: ignore[arg-type]


def test_a_pipe_gets_plain_lines() -> None:
    where, file = console(width=40)
    now = iter([START + 7, START + 67, START + 165])
    with Display(where, View(note="lint sits in both seats."), clock=lambda: next(now)) as display:
        display.show(FIRST)
        display.show(FIRST)
        display.show(ANSWERING)
    assert file.getvalue().splitlines()[:5] == [
        "lint sits in both seats.",
        " 0:00 debate 7h2kq9xw: retry-renewals into main, 15 files, +412 -96",
        " 0:07 round 1: codex is reviewing",
        " 1:07 round 1: codex is reviewing, $0.06 so far",
        " 2:45 round 1: codex raised 5 findings: F1 blocking; F2, F3, F4 major; F5 minor",
    ]


def test_a_dumb_terminal_gets_plain_lines() -> None:
    where, file = console(force_terminal=True, _environ={"TERM": "dumb"})
    with Display(where, clock=lambda: START) as display:
        display.show(FIRST)
    assert "\x1b[2K" not in file.getvalue()
    assert " 0:00 debate 7h2kq9xw" in file.getvalue()


def test_a_terminal_gets_a_screen_that_stays() -> None:
    where, file = console(force_terminal=True, color_system="standard", _environ={"TERM": "xterm"})
    with Display(where, view(FIRST), clock=lambda: START + 247) as display:
        display.show(ANSWERING)
    assert "\x1b[" in file.getvalue()
    seen = Text.from_ansi(file.getvalue()).plain
    assert "F5  minor     The wait that the bank asks for is ignored      retry.py:140    open" in seen


def test_no_color_is_respected() -> None:
    where, file = console(force_terminal=True, no_color=True, _environ={"TERM": "xterm"})
    where.print(Drawn(lambda look: screen(view(ANSWERING), look, now=START)))
    assert not [code for code in ("\x1b[31m", "\x1b[33m", "\x1b[32m") if code in file.getvalue()]


def test_a_console_without_unicode_is_drawn_for_in_ascii() -> None:
    raw = io.BytesIO()
    where = Console(file=io.TextIOWrapper(raw, "ascii"), width=60, _environ={})
    where.print(Drawn(lambda look: screen(view(ANSWERING), look, now=START)))
    where.file.flush()
    assert b"answering: runs pytest" in raw.getvalue()
