"""The program that the agent `scripted` starts: it does what one turn of a scenario says, faults included.

It runs as a file of its own (``python -I -S scripted_program.py``) and therefore imports nothing of ours. It reads one
JSON object from standard input and answers in lines of JSON: ``{"type": "session", "id": …}`` first, then
``{"type": "reply", "text": …}``. It never decides anything: `scripted` picks the turn.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FOREVER = 3600.0
"""Seconds of one nap of a program that never ends."""


def main() -> int:
    """Play the turn that stands on standard input; return the exit status."""
    request = json.loads(sys.stdin.buffer.read())
    turn = request["turn"]
    if turn["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say({"type": "session", "id": request["session"]}, silent=turn["silent"] or turn["prose"] is not None)
    for old, new in turn["renames"].items():
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        Path(old).rename(new)
    for path, edit in turn["edits"].items():
        _edit(Path(path), edit)
    time.sleep(turn["sleep"])
    while turn["never_ends"]:
        time.sleep(FOREVER)
    while turn["endless"]:
        _say({"type": "noise", "text": "x" * 65536})
    if turn["prose"] is not None:
        _write(turn["prose"] + "\n")
    elif turn["half"]:
        _write('{"type": "reply", "text": "{\\"approved\\": tr')
    elif turn["reply"] is not None:
        _say({"type": "reply", "text": turn["reply"]}, silent=turn["silent"])
    return int(turn["exit"])


def _edit(path: Path, edit: Any) -> None:  # noqa: ANN401 - a scenario's JSON, checked by `scripted`
    """Make one edit: None deletes, text is written, an object says what else to make of the path."""
    if edit is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(edit, str):
        path.write_text(edit, encoding="utf-8", newline="")
        return
    if "base64" in edit:
        path.write_bytes(base64.b64decode(edit["base64"]))
    if "symlink" in edit:
        path.unlink(missing_ok=True)
        path.symlink_to(edit["symlink"])
    if edit.get("fifo"):
        os.mkfifo(path)
    if "mode" in edit:
        path.chmod(int(edit["mode"], 8))


def _say(line: dict[str, Any], *, silent: bool = False) -> None:
    if not silent:
        _write(json.dumps(line) + "\n")


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
