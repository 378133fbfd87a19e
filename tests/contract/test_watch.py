"""The watch over a test run: who breaks the contract fails, and whoever says that it has to may."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from github_contract.description import DATA

ROOT = Path(__file__).parents[2]
SECONDS = 100
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def test_a_test_answers_for_what_it_does(tmp_path: Path) -> None:
    """The tests of `tests/data/contract_breakers.py`, each named after its end."""
    # A folder of its own: in the usual one, pytest would clear up behind earlier and larger runs before it ends.
    options = ["-v", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}"]
    command = [sys.executable, "-m", "pytest", *options, str(DATA / "contract_breakers.py")]
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    ends = dict(re.findall(r"::test_(\w+) (PASSED|FAILED|ERROR)", done.stdout))
    assert ends, done.stdout + done.stderr
    assert {name: end for name, end in ends.items() if end != name.partition("_")[0].upper()} == {}
    assert len(ends) == 7
    assert "request GET /repos/octo/demo/nowhere: GitHub describes no such operation" in done.stdout
    assert "take the mark breaks_contract away" in done.stdout


def test_the_trial_keeps_the_contract(tmp_path: Path) -> None:
    """`codex-debate try` is a process of its own, which the watch of this one does not reach."""
    program = Path(__file__).parent / "watched_try.py"
    env = ENVIRONMENT | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": f"{ROOT}{os.pathsep}{program.parent}"}
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["violations"] == []
    assert told["judged"] > 20
