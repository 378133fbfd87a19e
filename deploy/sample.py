"""The sample repository of `codex-debate try`: a small library, and a branch that adds a feature to it.

Its files stand in ``sample/base`` and, where the branch adds or changes them, in ``sample/change``, each with ``.txt``
behind its name so that no tool takes them for code of ours. It builds the same commits every time, and reads neither
the user's git configuration nor anything else of the machine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from worker.process import Program, run

FILES = Path(__file__).with_name("sample")
BASE, HEAD = "main", "plan-journeys"
AUTHOR = "Mara Lindqvist <mara@skerryline.example>"
BEGAN = 1_772_436_600
"""When the first commit was made, in seconds since 1970; each later one an hour after."""
SECONDS = 60.0
"""Far more than git needs for a handful of files."""
TITLE = "Plan journeys with a change of ferry"
BODY = """\
The timetable knows single sailings. People ask how to get from Ardholm to Great Skerry, which often means a change at
Little Skerry, and is sometimes faster than the direct ferry.

`plan()` looks at every way that calls at no port twice and returns the one that arrives first. A change takes at least
ten minutes.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """A repository with two branches, and the words of the pull request that asks to merge one into the other."""

    repo: Path
    """Its folder; `head` is checked out."""
    base: str
    head: str
    title: str
    body: str


async def build(folder: Path) -> Sample:
    """Make the sample repository in a folder that does not exist yet, or is empty. Raises OSError where git fails."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await _git(folder, "init", "--quiet", f"--initial-branch={BASE}", "--template=")
    await _git(folder, "fast-import", "--quiet", stdin=_history())
    await _git(folder, "checkout", "--quiet", "--force", HEAD)
    return Sample(folder, BASE, HEAD, TITLE, BODY)


def base_files() -> dict[str, bytes]:
    """Return the files of the base branch, by path."""
    return _files("base")


def head_files() -> dict[str, bytes]:
    """Return the files of the branch with the feature, by path."""
    return base_files() | _files("change")


def _files(part: str) -> dict[str, bytes]:
    found = sorted(path for path in (FILES / part).rglob("*.txt") if path.is_file())
    return {path.relative_to(FILES / part).as_posix().removesuffix(".txt"): path.read_bytes() for path in found}


def _history() -> bytes:
    """Return both branches as git-fast-import reads them."""
    base, change = _files("base"), _files("change")
    start = {path: raw for path, raw in base.items() if path.endswith(("pyproject.toml", "clock.py"))}
    feature = {path: raw for path, raw in change.items() if path.startswith("src/")}
    return b"".join(
        (
            _commit(1, BASE, message="Read times of day", files=start.items()),
            _commit(2, BASE, message="Find the next ferry", files=(base.items() - start.items())),
            _commit(3, HEAD, message=TITLE, files=feature.items()),
            _commit(
                4,
                HEAD,
                message="Test journeys, and tell of them in the README",
                files=(change.items() - feature.items()),
            ),
        )
    )


def _commit(number: int, branch: str, *, message: str, files: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a commit on top of the one before it."""
    parent = f"from :{number - 1}\n" if number > 1 else ""
    head = f"commit refs/heads/{branch}\nmark :{number}\ncommitter {AUTHOR} {BEGAN + 3600 * number} +0000\n"
    body = b"".join(f"M 100644 inline {path}\n".encode() + _data(raw) for path, raw in sorted(files))
    return head.encode() + _data(f"{message}\n".encode()) + parent.encode() + body


def _data(raw: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(raw), raw)


async def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> None:
    """Run git in a folder, without any configuration but its own."""
    env = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": str(folder),
        "LC_ALL": "C",
    }
    finished = await run(
        Program((shutil.which("git") or "git", *arguments), cwd=folder, env=env, stdin=stdin, seconds=SECONDS)
    )
    if finished.code != 0:
        words = finished.stderr.decode("utf-8", "replace").strip()
        raise OSError(f"git {arguments[0]} failed in the sample repository: {words or 'it did not end'}")
