"""The pipeline's own time for a round, with agents that answer at once (aim: under 150 ms besides the agent).

Run by hand; prints figures and ratios of one run:

    python tests/bench/bench_round.py [--times 7] [--files 10000] [--tmp /dev/shm]

A round is: two turns, an edit taken in, a commit, a push over HTTP, and what is told on GitHub. Its time is the slope
between debates of two and of eight rounds, so that start and end of a run do not count. The unit of the ratio is one
plain `git push` of one commit to the same stand-in, which every round holds once.

Then the way of a large tree in and out (threats.md T12): 10,000 files are written into a folder, every hundredth is
changed, and the folder becomes a commit, with every byte read. The unit is git's own checkout, add and commit of the
same files. And the search for secrets in as much text as a round may bring; its unit is one SHA-1 of that text.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "stories")]

from telling import Story, finding

from deploy.machine import Machine, machine
from worker import agents
from worker.agents import Run, TurnReply, TurnRequest
from worker.git.admit import MAX_CHANGED_BYTES, admit
from worker.git.commit import Identity, commit
from worker.git.leaks import find_secrets
from worker.git.mirror import Mirrors
from worker.git.tree import materialise
from worker.process import Program, run

SHORT, LONG = 2, 8


async def at_once(request: TurnRequest, run: Run) -> TurnReply:
    """Answer without any program: open until the last round, then approve; the author changes one line."""
    if request.editing:
        (request.tree / "app.py").write_text(f"x = {request.round + 10}\n")
        return TurnReply("- `F1` **partial**: a step further", session="s")
    last = request.round > rounds
    body = {
        "approved": last,
        "summary": "S",
        "findings": [finding(1, "resolved" if last else "open")],
        "response_to_rebuttal": "",
    }
    return TurnReply(json.dumps(body), session="s")


rounds = SHORT


async def debate(made: Machine, number: int, count: int) -> float:
    """Return the seconds of a debate of so many editing rounds, from the command to its end."""
    global rounds  # noqa: PLW0603 - the agent has no other way to know
    rounds = count
    repo = await made.github.create_repository(f"owner-{number}-{count}/bench")
    story = Story(made, Path("none"), Path("none"), repo)
    files = {f"src/file{n}.py": f"n = {n}\n" * 40 for n in range(200)}
    await story.opens(files | {"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    began = time.perf_counter()
    await story.says("/codex-debate review --max-rounds 12")
    end = await story.ends()
    assert end.state.status == "consensus"
    assert len(end.commits) == count
    return time.perf_counter() - began


async def plain_push(made: Machine, number: int, folder: Path) -> float:
    """Return the seconds of one plain push of one commit."""
    repo = await made.github.create_repository(f"you/push-{number}")
    await made.github.commit(repo, "main", {"a.txt": "a\n"})
    token = made.github.token(repo)
    url = made.github.clone_url(repo).replace("http://", f"http://x-access-token:{token}@")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    clone = folder / f"clone-{number}"
    for argv in (("clone", "-q", url, str(clone)), ("-C", str(clone), "commit", "-q", "--allow-empty", "-m", "x")):
        assert (await run(Program(("git", *argv), env=env))).code == 0
    began = time.perf_counter()
    assert (
        await run(Program(("git", "-C", str(clone), "push", "-q", "origin", "HEAD:refs/heads/b"), env=env))
    ).code == 0
    return time.perf_counter() - began


# ---- A large tree in and out ----------------------------------------------------------------------------------------

ENV = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *argv: str) -> str:
    done = subprocess.run(["git", *argv], cwd=folder, env=ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def change(folder: Path, files: int, turn: int) -> None:
    """Change every hundredth file."""
    for number in range(0, files, 100):
        (folder / f"m{number % 40}" / f"f{number}.py").write_text(f"changed = {turn}\n" * 40)


def generate(folder: Path, files: int) -> str:
    """Make a repository and return its one commit."""
    for number in range(files):
        path = folder / f"m{number % 40}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"n = {number}\n" * 60)
    git(folder, "init", "-q", "-b", "main", ".")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "repack", "-adq")
    return git(folder, "rev-parse", "HEAD")


async def in_and_out(root: Path, files: int, times: int) -> tuple[list[float], float]:
    """Return the seconds of writing, admitting and committing, and those of git's own checkout, add and commit."""
    source, folder, plain = root / "source", root / "tree", root / "plain"
    head = generate(source, files)
    mirror = await Mirrors(root / "mirrors", also=("file",)).of(1)
    await mirror.fetch(f"file://{source}", {"refs/run/r/head": head})
    ours: list[list[float]] = [[], [], []]
    theirs = []
    for turn in range(times + 1):
        marks = [time.perf_counter()]
        await materialise(mirror, head, folder)
        marks.append(time.perf_counter())
        change(folder, files, turn)
        untimed = time.perf_counter() - marks[-1]
        tree = (await admit(mirror, head, folder)).tree
        marks.append(time.perf_counter() - untimed)
        await commit(mirror, tree, head, message="x", identity=Identity("b", "b@c"), when=datetime.now(UTC))
        marks.append(time.perf_counter() - untimed)
        shutil.rmtree(plain, ignore_errors=True)
        git(root, "clone", "-q", "--no-checkout", str(source), str(plain))
        began = time.perf_counter()
        git(plain, "checkout", "-q", "-f", "main")
        checked_out = time.perf_counter()
        change(plain, files, turn)
        untimed = time.perf_counter() - checked_out
        git(plain, "add", "-A")
        git(plain, "commit", "-q", "-m", "x")
        if turn:  # the first is not counted: nothing is cached in it
            for each, (before, after) in zip(ours, itertools.pairwise(marks), strict=True):
                each.append(after - before)
            theirs.append(time.perf_counter() - began - untimed)
    return [statistics.median(each) for each in ours], statistics.median(theirs)


def searching(times: int) -> tuple[float, float]:
    """Return the seconds of looking for secrets in as much text as a round may bring, and of one SHA-1 of it."""
    sources = b"".join(path.read_bytes() for path in sorted((Path(__file__).parents[2]).glob("[bw]*/**/*.py")))
    raw = (sources * (MAX_CHANGED_BYTES // len(sources) + 1))[:MAX_CHANGED_BYTES]
    sought, hashed = [], []
    for _ in range(times):
        began = time.perf_counter()
        find_secrets(raw, ("a credential that is known",) * 20)
        sought.append(time.perf_counter() - began)
        began = time.perf_counter()
        hashlib.sha1(raw, usedforsecurity=False)
        hashed.append(time.perf_counter() - began)
    return statistics.median(sought), statistics.median(hashed)


async def rounds_of_a_debate(times: int) -> None:
    """Measure and print what a round takes besides its agents."""
    agents.AGENTS["scripted"] = replace(agents.AGENTS["scripted"], take_turn=at_once)
    slopes, pushes = [], []
    with tempfile.TemporaryDirectory() as name:
        async with machine(Path(name), reviewer="scripted", author="scripted") as made:
            await debate(made, 0, SHORT)
            for number in range(1, times + 1):
                short, long = await debate(made, number, SHORT), await debate(made, number, LONG)
                slopes.append((long - short) / (LONG - SHORT))
                pushes.append(await plain_push(made, number, Path(name)))
    ms, push = statistics.median(slopes) * 1000, statistics.median(pushes) * 1000
    print(f"a round: {ms:.0f} ms (of {times}: {min(slopes) * 1000:.0f} to {max(slopes) * 1000:.0f})")
    print(f"one plain push: {push:.0f} ms")
    print(f"round / aim of 150 ms: {ms / 150:.2f}")
    print(f"round / plain push: {ms / push:.2f}")


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tmp", default=None, help="where the large tree is written: /dev/shm for tmpfs")
    options = parser.parse_args()
    await rounds_of_a_debate(options.times)
    with tempfile.TemporaryDirectory(dir=options.tmp) as name:
        (written, admitted, committed), own = await in_and_out(Path(name), options.files, options.times)
    told = f"written {written * 1000:.0f} ms, admitted {admitted * 1000:.0f} ms, committed {committed * 1000:.0f} ms"
    print(f"{options.files:,} files: {told}; git's own way {own * 1000:.0f} ms")
    print(f"in and out / git's own way: {(written + admitted + committed) / own:.2f}")
    sought, hashed = searching(options.times)
    print(f"secrets in {MAX_CHANGED_BYTES >> 20} MiB: {sought * 1000:.0f} ms; / one SHA-1: {sought / hashed:.1f}")


asyncio.run(main())
