"""What has to hold after any seed, once all is quiet: nothing lost, nothing twice, nothing left.

Each finding has a word for the summary: ``duplicate``, ``stuck``, ``lost`` or ``other``.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oracles import leftovers, refs
from oracles.places import Place
from telling import Story
from town import Town

from bot.store import RUNS
from bot.store.connection import key
from deploy.standin import CheckRun, Comment, Request
from tests.chaos.plans import TURNS, Plan

CHECK = re.compile(r"/(?:repos/[^/]+/[^/]+|repositories/\d+)/check-runs/(?P<id>\d+)")
BRANCH = re.compile(r"codex-debate/pr-\d+/(?P<run>[0-9a-z]+)")
ROUND = re.compile(r"^Debate-Round: (\d+)$", re.MULTILINE)
RUN = re.compile(r"^Debate-Run: (\w+)$", re.MULTILINE)
COMMIT = re.compile(r"\b([0-9a-f]{10}|[0-9a-f]{40})\b")
FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"run `([0-9a-z]{8})`")


@dataclass(frozen=True)
class Finding:
    """Something that does not hold."""

    sort: str
    words: str

    def __str__(self) -> str:
        return f"{self.sort}: {self.words}"


async def findings(town: Town, story: Story, place: Place, plan: Plan) -> list[Finding]:
    """Return what does not hold of one seed's repository, its store and this machine."""
    repo = town.github._site.state.repos[story.repo.id]
    checks = town.github.check_runs(repo)
    comments = [each for each in town.github.comments(repo, story.number) if each.by_app]
    held = refs.read(repo.path)
    bodies = await _messages(repo.path, held)
    found = [*_checks(checks, town.github.journal), *_comments(comments, checks)]
    found += [*_branches(held, bodies, checks), *_asked(story, plan, len(checks))]
    if town.github.issue(repo, story.number).state == "open":
        found += [*_reachable(held, bodies), *_named(held, comments)]
    found += [Finding("other", f"{each.oracle}: {each.words}") for each in place.look()]
    found += [Finding("stuck", f"{each} is in the queue still") for each in place._waiting()]
    runs = {check.external_id: check for check in checks}
    for run in runs:
        state = await town.store.runs.state(run)
        if state.status is None and await town.store.runs.get(run) is not None:
            found.append(Finding("stuck", f"run {run} has no end in the store"))
    if run_ids := await town.store.outbox.unsent():
        found.append(Finding("stuck", f"{run_ids} have something left to tell"))
    if live := place._redis.smembers(key("live")):
        found.append(Finding("stuck", f"{live} of queue {RUNS} live still"))
    return found


# ---- On GitHub ------------------------------------------------------------------------------------------------------


def _checks(checks: list[CheckRun], journal: list[Request]) -> Iterator[Finding]:
    for (run, name), times in Counter((check.external_id, check.name) for check in checks).items():
        if times > 1:
            yield Finding("duplicate", f"{times} check runs {name} of run {run}")
    for check in checks:
        if check.status != "completed" or check.conclusion is None:
            yield Finding("stuck", f"check run {check.external_id} is {check.status}: {check.title}")
        mine = [each for each in journal if (match := CHECK.fullmatch(each.path)) and int(match["id"]) == check.id]
        done = False
        for each in mine:
            effect = each.status == 200 or "after" in (each.fault or "")
            if not (each.method == "PATCH" and effect and isinstance(each.body, dict)):
                continue
            if done and each.body.get("conclusion") != check.conclusion:
                yield Finding("duplicate", f"check run {check.external_id} was changed after its end: {each.body}")
            done = done or "conclusion" in each.body


def _comments(comments: list[Comment], checks: list[CheckRun]) -> Iterator[Finding]:
    runs = {check.external_id for check in checks}
    named = Counter(match[-1] for each in comments if (match := NAMED.findall(each.body)))
    for run, times in named.items():
        if times > 1:
            yield Finding("duplicate", f"{times} comments of run {run}")
        if run not in runs:
            yield Finding("other", f"a comment names run {run}, which has no check run")
    if len(comments) > len(runs):
        yield Finding("duplicate", f"{len(comments)} comments of ours and {len(runs)} runs")


async def _messages(path: Path, held: refs.Repository) -> dict[str, str]:
    """Return the message of every commit."""
    listed = list(held.parents)
    if not listed:
        return {}
    form = ("git", "log", "--no-walk=unsorted", "-z", "--format=%H%n%B", "--stdin")
    text = subprocess.run(  # noqa: ASYNC221 - it is over at once
        form, cwd=path, env=refs.ENVIRONMENT, input="\n".join(listed).encode(), capture_output=True, check=True
    ).stdout.decode()
    return {each[:40]: each[41:] for each in text.split("\0") if each}


def _branches(held: refs.Repository, bodies: dict[str, str], checks: list[CheckRun]) -> Iterator[Finding]:
    """Yield what is wrong with the branches of runs: each is a straight line from its head, a commit for each round."""
    runs = {check.external_id: check for check in checks}
    for ref, tip in held.refs.items():
        match = BRANCH.fullmatch(ref.removeprefix("refs/heads/"))
        if match is None:
            continue
        check = runs.get(match["run"])
        if check is None:
            yield Finding("other", f"{ref} belongs to no check run")
            continue
        line, here = list[str](), tip
        while here != check.head_sha and len(held.parents.get(here, ())) == 1:
            line.insert(0, here)
            (here,) = held.parents[here]
        if here != check.head_sha:
            yield Finding("lost", f"{ref} is no straight line from {check.head_sha}")
        rounds = [ROUND.findall(bodies[sha]) for sha in line]
        if rounds != [[str(number)] for number in range(1, len(line) + 1)]:
            yield Finding("duplicate", f"{ref} has commits of the rounds {rounds}")
        if any(RUN.findall(bodies[sha]) != [check.external_id] for sha in line):
            yield Finding("other", f"{ref} has commits of another run")


def _reachable(held: refs.Repository, bodies: dict[str, str]) -> Iterator[Finding]:
    """Yield the commits of runs that are on no branch. When its pull request closes, a run's branch is deleted."""
    for sha, body in bodies.items():
        if (run := RUN.findall(body)) and not any(held.descends(tip, sha) for tip in held.refs.values()):
            yield Finding("lost", f"commit {sha} of run {run} is on no branch")


def _named(held: refs.Repository, comments: list[Comment]) -> Iterator[Finding]:
    for comment in comments:
        # A patch names blobs, which look like commits.
        for name in COMMIT.findall(FENCED.sub("", comment.body)):
            full = [sha for sha in held.parents if sha.startswith(name)]
            if not full or not any(held.descends(tip, full[0]) for tip in held.refs.values()):
                yield Finding("lost", f"a comment names commit {name}, which is on no branch")


def _asked(story: Story, plan: Plan, debates: int) -> Iterator[Finding]:
    asked = len(list(story.record.glob("*.md")))
    if asked > TURNS * debates + plan.kills:
        yield Finding("duplicate", f"{asked} briefs for {debates} debates of {TURNS} turns and {plan.kills} faults")


# ---- On this machine ------------------------------------------------------------------------------------------------


def run_refs(town: Town) -> Iterator[str]:
    """Yield the refs of runs that the worker's mirrors hold."""
    for mirror in sorted((town.settings.state_dir / "mirrors").glob("*.git")):
        for ref in refs.read(mirror).refs:
            if ref.startswith("refs/run/"):
                yield f"{ref} in {mirror.name}"


def remains(town: Town, folder: Path) -> Iterator[Finding]:
    """Yield what is left once no worker runs: folders of runs, refs, locks of git, processes."""
    state = town.settings.state_dir
    yield from (Finding("other", f"left: {words}") for words in leftovers.remains(state))
    yield from (Finding("other", f"left: {words}") for words in run_refs(town))
    for mirror in sorted((state / "mirrors").glob("*.git")):
        # `flat.lock` is held and not made: it stays (worker/git/flat.py).
        for lock in (each for each in mirror.rglob("*.lock") if each.name != "flat.lock"):
            yield Finding("other", f"left: {lock.relative_to(state)}")
    for made in sorted((state / "mirrors").glob("*.new-*")):
        yield Finding("other", f"left: {made.relative_to(state)}")
    for process in Path("/proc").iterdir():
        try:
            cwd = process.joinpath("cwd").readlink() if process.name.isdigit() else Path("/")
            words = process.joinpath("cmdline").read_bytes() if cwd.is_relative_to(state) else b""
        except OSError:
            continue
        if cwd.is_relative_to(state) and int(process.name) != os.getpid():
            yield Finding("other", f"left: process {process.name} in {cwd}: {words!r}")
