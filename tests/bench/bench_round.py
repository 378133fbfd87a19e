"""The pipeline's own time for a round, with agents that answer at once (aim: under 150 ms besides the agent).

Run by hand; prints figures and ratios of one run:

    python tests/bench/bench_round.py [--times 7]

A round is: two turns, an edit taken in, a commit, a push over HTTP, and what is told on GitHub. Its time is the slope
between debates of two and of eight rounds, so that start and end of a run do not count. The unit of the ratio is one
plain `git push` of one commit to the same stand-in, which every round holds once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "stories")]

from telling import Story, finding

from deploy.machine import Machine, machine
from worker import agents
from worker.agents import Run, TurnReply, TurnRequest
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


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
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


asyncio.run(main())
