"""The program of the agent `scripted`: it stands on its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker.agents.scripted import PROGRAM


def test_it_imports_nothing_of_ours() -> None:
    tree = ast.parse(PROGRAM.read_text("utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= sys.stdlib_module_names


def test_it_speaks_in_lines_of_json(tmp_path: Path) -> None:
    faults = {"silent": False, "half": False, "prose": None, "never_ends": False, "endless": False, "stubborn": False}
    turn: dict[str, Any] = {"reply": "Grüße 😀", "edits": {}, "renames": {}, "sleep": 0, "exit": 4, **faults}
    finished = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM],
        input=json.dumps({"turn": turn, "session": "reviewer-1"}).encode(),
        cwd=tmp_path,
        env={},
        capture_output=True,
        check=False,
    )
    assert finished.returncode == 4
    assert [json.loads(line) for line in finished.stdout.splitlines()] == [
        {"type": "session", "id": "reviewer-1"},
        {"type": "reply", "text": "Grüße 😀"},
    ]
