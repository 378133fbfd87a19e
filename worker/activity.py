"""What an agent does just now, in a few words for those who watch: read from its program's events. Pure.

The words are the agent's own commands and paths, and as little to be believed: who shows them cleans them.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Any

WORDS = 120
"""Characters of an activity, at most."""
_EDITS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}


def of_codex(event: object) -> str:
    """Return what an event of codex tells; empty where it tells nothing of the kind (agents.md 2.1)."""
    match event:
        case {"type": "item.started", "item": {"type": "command_execution", "command": str(command)}}:
            return _cut(f"runs {_inner(command)}")
        case {"item": {"type": "file_change", "changes": [{"path": str(path)}, *_]}}:
            return _cut(f"edits {path}")
        case _:
            return ""


def of_claude(event: object) -> str:
    """Return what an event of claude tells; empty where it tells nothing of the kind (agents.md 4.1)."""
    match event:
        case {"type": "assistant", "message": {"content": [*parts]}}:
            told = [_tool(str(part.get("name")), part.get("input")) for part in parts if _is_call(part)]
            return next((each for each in reversed(told) if each), "")
        case _:
            return ""


def _is_call(part: Any) -> bool:  # noqa: ANN401 - whatever the program wrote
    return isinstance(part, dict) and part.get("type") == "tool_use"


def _tool(name: str, given: object) -> str:
    match given:
        case {"command": str(command)} if name == "Bash":
            return _cut(f"runs {command}")
        case {"file_path": str(path)} if name in _EDITS:
            return _cut(f"edits {path}")
        case {"file_path": str(path)} if name == "Read":
            return _cut(f"reads {path}")
        case {"pattern": str(pattern)} if name in {"Grep", "Glob"}:
            return _cut(f"looks for {pattern}")
        case _:
            return ""


def _inner(command: str) -> str:
    """Return the command that a shell is started for: ``/bin/bash -lc 'pytest -q'`` is ``pytest -q``."""
    try:
        words = shlex.split(command[: 4 * WORDS])
    except ValueError:  # a quotation was cut
        return command
    shell = len(words) == 3 and words[1] in {"-c", "-lc"} and PurePosixPath(words[0]).name in {"bash", "sh", "zsh"}
    return words[2] if shell else command


def _cut(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= WORDS else f"{line[: WORDS - 1]}…"
