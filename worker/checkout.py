"""From a stored run to a frozen Task: fetch, merge base, the changed files.

It owns which refs of a run exist in the mirror and what a Task holds when nothing was fetched yet. It never reads what
the pull request's files say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.replies import another_reviewer
from bot.statuses import Status
from bot.store.runs import Run
from worker.added import added_lines
from worker.agents import Agent, instead_of
from worker.debate.task import ChangedFile, Limits, Seat, Task
from worker.ended import Ended
from worker.git import GitRefused, GitUnavailable, NoMergeBase
from worker.git.brief import brief
from worker.git.guidance import read_guidance
from worker.git.merges import plain_merges
from worker.git.mirror import Mirror
from worker.git.tree import materialise

TWINS = 20
"""Names that differ from a neighbour's only in case or composition, of which a Task tells at most so many."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a repository is fetched from."""

    server_url: str
    repository: str
    token: str

    @property
    def url(self) -> str:
        """Return the address that git fetches from and pushes to."""
        return f"{self.server_url}/{self.repository}.git"


def first_task(run: Run, server_url: str) -> Task:
    """Return what is known of a run before anything was fetched: enough to report an end on it."""
    return Task(
        run=run.id,
        kind=run.kind,
        created_at=run.created_at,
        repository=run.repository.full_name,
        server_url=server_url,
        number=run.number,
        title=run.title,
        body=run.body,
        head_sha=run.head_sha,
        head_ref=run.head_ref,
        base_ref=run.base_ref,
        merge_base="",
        head_tree="",
        seats={name: Seat(agent=seat.agent, model=seat.model) for name, seat in run.seats.items()},
        limits=Limits(**run.ceilings.model_dump()),
        files=(),
        rationale=run.rationale,
        context=run.context,
        commit=run.commit,
        fork=run.fork,
        comment=run.comment,
        protect=run.protect,
    )


async def check_out(run: Run, source: Source, mirror: Mirror, folder: Path, *, reviewer: Agent) -> Task:
    """Bring the pull request's commits into the mirror, fill the run's folder, and return the run's Task.

    Raises `Ended` where the head has moved, the histories are unrelated, git refuses an object or nothing is changed;
    `worker.git.GitUnavailable` where the server does not answer.
    """
    await fetch(run, source, mirror)
    base = await mirror.resolve(refs(run.id)[0])
    try:
        merge_base = await mirror.merge_base(base, run.head_sha)
    except NoMergeBase as error:
        raise Ended(Status.MERGE_BASE_ERROR, str(error)) from error
    try:
        tree = await mirror.tree(run.head_sha)
        written = await materialise(mirror, tree, folder / "tree", base=merge_base)
        files = await brief(mirror, merge_base, run.head_sha if run.commit else tree, folder / "brief")
    except GitRefused as error:
        raise Ended(Status.GIT_REFUSED, str(error)) from error
    if not files:
        raise Ended(Status.NOTHING_TO_REVIEW)
    left_out = {each.path: each.why for each in written.skipped}
    files = await as_read(files, folder / "brief", reads=reviewer.reads, left_out=left_out)
    if reviewer.reads and all(each.coverage == "skipped" for each in files):
        raise Ended(
            Status.NOTHING_TO_REVIEW, _none_read(files, reviewer), hint=another_reviewer(instead_of(reviewer.name))
        )
    found = {
        "merge_base": merge_base,
        "head_tree": tree,
        "files": files,
        "narrowed": written.narrowed,
        "reads": reviewer.reads,
        "twins": written.twins[:TWINS],
        "guidance": await read_guidance(mirror, base, [each.path for each in files]),
    }
    return first_task(run, source.server_url).model_copy(update=found)


async def as_read(
    files: Sequence[ChangedFile], notes: Path, *, reads: tuple[str, ...], left_out: Mapping[str, str]
) -> tuple[ChangedFile, ...]:
    """Return a change's files as the reviewer covers them: none is said to be read which it cannot read.

    `notes`: the folder of their diff. `reads`: the endings that it reads, all where there are none. `left_out`: paths
    that are not in the tree, and why.
    """
    unread = await asyncio.to_thread(_unread, notes / "change.diff", reads) if reads else {}
    return tuple(
        _judged(each, reads, absent=left_out.get(each.path, ""), unread=unread.get(each.path, "")) for each in files
    )


def _unread(diff: Path, reads: tuple[str, ...]) -> dict[str, str]:
    return added_lines(diff.read_bytes(), reads).unread


def _judged(file: ChangedFile, reads: tuple[str, ...], *, absent: str, unread: str) -> ChangedFile:
    why = ""
    if reads and file.coverage != "skipped":
        why = (absent or unread) if file.path.endswith(reads) else f"not {_endings(reads)}"
    judged = {"coverage": "skipped", "why": why} if why else {}
    return file.model_copy(update={"absent": absent, **judged})


def _none_read(files: Sequence[ChangedFile], reviewer: Agent) -> str:
    """Return why a reviewer has nothing to read of a change."""
    reasons = sorted({each.why for each in files if each.path.endswith(reviewer.reads)})
    if reasons:
        return f"{reviewer.name} can read no changed {_endings(reviewer.reads)} file ({', '.join(reasons)})"
    return f"{reviewer.name} reads {_endings(reviewer.reads)} only, and none changed"


def _endings(reads: tuple[str, ...]) -> str:
    return " or ".join(f"*{ending}" for ending in reads)


async def fetch(run: Run, source: Source, mirror: Mirror) -> None:
    """Bring a run's head and base into the mirror, under refs of its own.

    Raises as `check_out` does, and `worker.git.RefMissing` where git does not show one of the two.
    """
    base, head = refs(run.id)
    wanted = {head: _pull(run), base: f"refs/heads/{run.base_ref}"}
    try:
        await mirror.fetch(source.url, wanted, token=source.token)
    except GitRefused as error:
        raise Ended(Status.GIT_REFUSED, str(error)) from error
    now = await mirror.resolve(head)
    if now != run.head_sha and not await only_merged(run, source, mirror, now):
        raise Ended(Status.SUPERSEDED)


async def only_merged(run: Run, source: Source, mirror: Mirror, head: str) -> bool:
    """Return whether the pull request's new head holds nothing but the run's head and plain merges of its base.

    Raises `worker.git.GitUnavailable` where git shows another head than that, else as `fetch` does.
    """
    now, onto = f"refs/run/{run.id}/now", f"refs/run/{run.id}/onto"
    await mirror.fetch(source.url, {now: _pull(run), onto: f"refs/heads/{run.own_base}"}, token=source.token)
    there = await mirror.resolve(now)
    if there != head:
        raise GitUnavailable("fetch", "git does not show the pull request's new head yet, or shows a newer one")
    return await plain_merges(mirror, run.head_sha, there, base=await mirror.resolve(onto))


def _pull(run: Run) -> str:
    return f"refs/pull/{run.number}/head"


def refs(run_id: str) -> tuple[str, str]:
    """Return the refs of a run in the mirror: base and head."""
    return f"refs/run/{run_id}/base", f"refs/run/{run_id}/head"
