"""O6: which branches moved, by whom, and where to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.standin import CheckRun

ZEROS = "0" * 40
OWN = re.compile(r"refs/heads/codex-debate/pr-\d+/(?P<run>[0-9a-z]+)")
"""A run's own branch (interface.md 7). In this version a run moves no other."""
FOLLOWED = re.compile(r"refs/pull/\d+/head")
"""What the stand-in itself moves."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_NO_LAZY_FETCH": "1",
}


@dataclass(frozen=True, slots=True)
class Move:
    """A ref that was moved, over HTTP by the App or by people."""

    ref: str
    old: str
    new: str
    by_app: bool


@dataclass(frozen=True, slots=True)
class Repository:
    """What a bare repository holds."""

    refs: dict[str, str]
    parents: dict[str, tuple[str, ...]]
    """Of each commit."""
    data: bytes
    """All objects, unpacked, one after the other."""

    def descends(self, commit: str, from_: str) -> bool:
        """Tell whether a commit is another, or has it among its ancestors."""
        waiting, seen = [commit], {commit}
        while waiting:
            if (here := waiting.pop()) == from_:
                return True
            further = set(self.parents.get(here, ())) - seen
            seen |= further
            waiting += further
        return False


def read(path: Path) -> Repository:
    """Read a bare repository: its refs, and every object that is in it."""
    listed = _git(path, "for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
    data = _git(path, "cat-file", "--batch-all-objects", "--batch", "--unordered")
    return Repository(dict(line.rsplit(" ", 1) for line in listed), dict(_commits(data)), data)


def _git(path: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=path, env=ENVIRONMENT, capture_output=True, check=True)
    return done.stdout


def _commits(data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each commit and its parents (git-cat-file(1), batch output)."""
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        sha, kind, size = data[place:end].decode().split(" ")
        place = end + 1 + int(size) + 1
        if kind == "commit":
            head = data[end + 1 : place].partition(b"\n\n")[0]
            yield sha, tuple(line[7:].decode() for line in head.split(b"\n") if line.startswith(b"parent "))


def moved(moves: Iterable[Move], runs: Mapping[str, CheckRun], repo: int, held: Repository) -> Iterator[str]:
    """Yield what is wrong with what the App pushed to one repository. `runs` are all check runs, by external id."""
    tips: dict[str, str] = {}
    branches: dict[str, str] = {}
    for move in (each for each in moves if each.by_app):
        match = OWN.fullmatch(move.ref)
        run = runs.get(match["run"]) if match else None
        if match is None or run is None or run.repo_id != repo:
            yield f"the App moved {move.ref}, which is no branch of a run of this repository"
            continue
        if branches.setdefault(match["run"], move.ref) != move.ref:
            yield f"run {match['run']} moved {move.ref} besides {branches[match['run']]}"
        if move.old != tips.get(move.ref, ZEROS):
            yield f"{move.ref} was moved from {move.old}, which nobody recorded"
        if move.new != ZEROS and not held.descends(move.new, run.head_sha if move.old == ZEROS else move.old):
            yield f"{move.ref} was moved to {move.new}, which does not follow what was there"
        tips[move.ref] = move.new


def unexplained(known: Mapping[str, str], held: Repository) -> Iterator[str]:
    """Yield the refs of a repository that are not as the moves that were seen have left them."""
    expected = {ref: sha for ref, sha in known.items() if sha != ZEROS and not FOLLOWED.fullmatch(ref)}
    found = {ref: sha for ref, sha in held.refs.items() if not FOLLOWED.fullmatch(ref)}
    for ref in sorted(expected.keys() | found.keys()):
        if expected.get(ref) != found.get(ref):
            yield f"{ref} is {found.get(ref)} and was left at {expected.get(ref)}"
