"""A second pull request's checkout of a 20,000-file repository against a depth-1 clone, both over HTTP on tmpfs.

Run by hand; prints ratios of one run (decisions.md 2.9: aims of a third of the clone, and of 1.3 times of writing the
files):

    python tests/bench/bench_checkout.py [--tmp /dev/shm] [--files 20000] [--times 7]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.standin import StandIn
from worker.git.mirror import Mirror, Mirrors
from worker.git.tree import materialise
from worker.process import Program, run

WORDS = [b"alpha", b"beta", b"return", b"def", b"class", b"self", b"(x)", b"  ", b"\n", b"= 1\n", b"import"]
ENV = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


@dataclass
class Times:
    """Seconds of each alternation."""

    clone: list[float] = field(default_factory=list)
    fetch: list[float] = field(default_factory=list)
    checkout: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)

    def say(self) -> str:
        clone, fetch, checkout, writing = (
            statistics.median(each) for each in (self.clone, self.fetch, self.checkout, self.writing)
        )
        return (
            f"median of {len(self.clone)}: depth-1 clone {clone:.3f} s; second pull request {checkout:.3f} s, "
            f"of which fetch {fetch:.3f} s; writing the files alone {writing:.3f} s\n"
            f"checkout / clone = {checkout / clone:.2f} (aim 0.33)\n"
            f"materialise / writing = {(checkout - fetch) / writing:.2f} (aim 1.30)"
        )


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", *argv], cwd=folder, env=ENV, check=True, stdout=subprocess.DEVNULL)


def generate(folder: Path, files: int, branches: int) -> None:
    """Make a repository with a main branch and branches that change a few files each."""
    dice = random.Random(1)  # noqa: S311 - the same words every time
    folder.mkdir()
    for number in range(files):
        path = folder / f"m{number % 40}" / f"p{number // 40 % 25}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b" ".join(dice.choices(WORDS, k=dice.randint(20, 900))) + b"\n%d\n" % number)
    git(folder, "init", "-q", "-b", "main", ".")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    for branch in range(branches):
        git(folder, "checkout", "-q", "-b", f"pr{branch}", "main")
        for number in range(5):
            with (folder / "m1" / "p0" / "f1.py").open("a") as file:
                file.write(f"changed {branch} {number}\n")
            (folder / f"new{branch}-{number}.py").write_text(f"{branch}\n")
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "-m", f"change {number}")
    git(folder, "checkout", "-q", "main")
    git(folder, "repack", "-adq")


def write_alone(tree: Path, folder: Path) -> float:
    """Return the seconds that it takes to write the bytes of a tree, which are in memory, one file after the other."""
    content = [(path.relative_to(tree), path.read_bytes()) for path in sorted(tree.rglob("*")) if path.is_file()]
    names = [(str(folder / path), folder / path.parent, raw) for path, raw in content]
    began = time.perf_counter()
    made: set[Path] = set()
    for name, parent, raw in names:
        if parent not in made:
            parent.mkdir(parents=True, exist_ok=True)
            made.add(parent)
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, raw)
        os.close(file)
    return time.perf_counter() - began


async def clone(url: str, token: str, branch: str, folder: Path) -> float:
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    env = {
        **ENV,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {secret}",
    }
    argv = ("git", "clone", "-q", "--depth", "1", "--branch", branch, url, str(folder))
    began = time.perf_counter()
    done = await run(Program(argv, env=env, seconds=120))
    assert done.code == 0, done.stderr
    return time.perf_counter() - began


async def second(mirror: Mirror, url: str, token: str, *, number: int, folder: Path) -> tuple[float, float]:
    """Return the seconds of a fetch, and of the fetch with the tree."""
    began = time.perf_counter()
    refs = {f"refs/run/r{number}/base": "refs/heads/main", f"refs/run/r{number}/head": f"refs/heads/pr{number}"}
    await mirror.fetch(url, refs, token)
    fetched = time.perf_counter() - began
    await materialise(mirror, await mirror.resolve(f"refs/run/r{number}/head"), folder)
    return fetched, time.perf_counter() - began


async def bench(root: Path, files: int, times: int) -> Times:
    generate(root / "source", files, times + 1)
    found = Times()
    async with await StandIn.start(root / "standin") as github:
        repo = await github.create_repository("bench/large", root / "source")
        url, token = github.clone_url(repo), github.token(repo)
        mirror = await Mirrors(root / "mirrors").of(1)
        out = root / "out"
        await second(mirror, url, token, number=times, folder=out)
        await mirror.drop_refs(f"r{times}")
        for number in range(times):
            shutil.rmtree(out)
            found.clone.append(await clone(url, token, f"pr{number}", out))
            shutil.rmtree(out)
            fetched, whole = await second(mirror, url, token, number=number, folder=out)
            found.fetch.append(fetched)
            found.checkout.append(whole)
            await mirror.drop_refs(f"r{number}")
            (root / "copy").mkdir()
            found.writing.append(write_alone(out, root / "copy"))
            shutil.rmtree(root / "copy")
    return found


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tmp", default=None, help="where to work: /dev/shm for tmpfs")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.tmp) as root:
        sys.stdout.write(asyncio.run(bench(Path(root), options.files, options.times)).say() + "\n")


if __name__ == "__main__":
    main()
