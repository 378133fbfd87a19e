"""What holds for every program that takes a turn: its limits, its lines, and how its failures are worded. Pure.

It knows none of the agents: what only one of their programs does is read and told beside it.
"""

from __future__ import annotations

import json
import re
from signal import Signals
from typing import Any

from bot.redact import quotable, visible
from worker.debate.flow import TurnFailed

OUTPUT = 64 * 1024 * 1024
"""Bytes of events in one turn; each holds what a tool returned."""
SHORTEST, LINE = len('{"type":"result"}'), 8 * 1024 * 1024
"""Bytes of one event that is read. The last one holds the reply and little more."""
SILENCE_MS = 600_000
"""Milliseconds that a program waits for the next byte of its provider (agents.md 2.10, 4.7)."""
READ = 20_000
"""Characters of an error, and bytes of what was printed (from its end), that are looked at."""
LOG_TAIL = 2000
"""Characters of what a program said that are kept (protocols.md 1.7)."""
WORDS = 200
"""Characters of a provider's or a program's own words in a sentence for people."""
SIGNALLED = 128
"""Behind it an exit status is a signal's number, as in shells and as `worker/inside/enter.py` has it."""
INSTALL = "the operator of this server installs the agents anew: `pip install 'codex-debate[agents]'`"
"""What is done about a program that does not start."""

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# ---- What a program says --------------------------------------------------------------------------------------------


def event(line: bytes) -> dict[str, Any] | None:
    """Return the event that a line of output holds; None where it holds none.

    What cannot be one is not parsed: a program that prints without end would keep the worker busy with its short lines
    for a minute and more.
    """
    return json_object(line) if SHORTEST <= len(line) <= LINE and line.startswith(b"{") else None


def json_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def session_id(text: str | None) -> str | None:
    """Return a session's id as the programs write it; None for anything else."""
    return text if text is not None and _SESSION.fullmatch(text) else None


def tail(*said: str | bytes) -> str:
    """Return the end of what a program said, part by part, without what a terminal would obey."""
    texts = (each if isinstance(each, str) else each[-READ:].decode("utf-8", "replace") for each in said)
    return visible("\n".join(filter(None, map(str.strip, texts))))[-LOG_TAIL:]


# ---- How its failures are worded ------------------------------------------------------------------------------------


def behind(words: str) -> str:
    """Return foreign words as they stand at the end of a sentence, behind a colon; nothing where there are none."""
    line = quotable(words, WORDS)
    return f": `{line}`" if line else ""


def ending(code: int) -> str:
    """Return how a program ended, by its exit status: ``SIGKILL``, ``status 1``."""
    number = -code if code < 0 else code - SIGNALLED
    return Signals(number).name if number in set(Signals) else f"status {code}"


def not_started(agent: str, error: OSError) -> TurnFailed:
    """Return the failure of a program that this machine cannot start."""
    why = (error.strerror or str(error)).lower()
    return TurnFailed("environment", f"{agent} cannot be started: {why}", hint=INSTALL, log=str(error))
