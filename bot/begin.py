"""Beginning a debate: the pull request is claimed, the run is shown, and a worker is told.

Owns the order of these, and that any of them may happen twice: a claim's first answer is its answer. Who may begin one
is policy.py's and rules.py's; what is said to a command that found no place is its handler's.
"""

from __future__ import annotations

import json

from bot import check_runs, commands, policy
from bot.context import Scene, attempt
from bot.intents import CheckRun
from bot.policy import Running
from bot.statuses import CHECK_NAME
from bot.store import LostFence
from bot.store.runs import Claim, Run, Started, Waiting
from bot.telemetry import log


async def begin(scene: Scene, run: Run, *, text_key: str, cause: str = "") -> tuple[Claim, str]:
    """Claim the pull request for a run and do what the claim allows; return it, and a word or two for the log."""
    claim = await scene.bot.store.runs.claim(run, text_key, cause=cause)
    return claim, await _go_on(scene, claim)


async def resume(scene: Scene, cause: str) -> str | None:
    """Go on where an earlier try of this job had claimed a run; None where it had not.

    The run holds its place, whatever GitHub says by now of who asked for it: it must get to a worker.
    """
    claim = await scene.bot.store.runs.claimed(scene.repository.id, cause)
    return await _go_on(scene, claim) if isinstance(claim, Started | Waiting) else None


async def _go_on(scene: Scene, claim: Claim) -> str:
    match claim:
        case Started(run):
            return await _announce(scene, run, behind=None)
        case Waiting(run, behind):
            return await _announce(scene, run, behind=behind)
        case _:
            return "no place"


async def _announce(scene: Scene, run: Run, *, behind: Run | None) -> str:
    """Show that a run was taken on, and hand it to the workers unless it waits for another."""
    bot = scene.bot
    if (await bot.store.runs.state(run.id)).status is not None:
        await scene.react(await scene.publisher(), "eyes")  # late, if GitHub did not take it before
        return f"ended: {run.id}"
    try:
        publisher = await scene.publisher()
        await scene.react(publisher, "eyes")
        await _show_queued(scene, run, behind=behind)
    finally:
        # The claim is held: whatever GitHub says, the run must get to a worker.
        if behind is None:
            await bot.store.queue.enqueue_run(run.id)
    if behind is not None:
        await scene.reply(publisher, policy.waits(await running(scene, behind), bot.now()))
        return f"waiting: {run.id}"
    return f"started: {run.id}"


async def _show_queued(scene: Scene, run: Run, *, behind: Run | None) -> None:
    """Create the run's check run, queued, and note its id.

    From its first attempt on the check run is the worker's: a late "queued" would take back what it shows. The worker
    waits with its first look until this is done.
    """
    runs = scene.bot.store.runs
    await runs.show(run.id)
    try:
        if (await runs.state(run.id)).fence == 0:
            await _create_queued(scene, run, behind=behind)
    finally:
        await runs.show_done(run.id)


async def _create_queued(scene: Scene, run: Run, *, behind: Run | None) -> None:
    server, stop = scene.bot.settings.github_server_url, commands.available("stop")
    intent = CheckRun(
        run=run.id,
        name=CHECK_NAME,
        head_sha=run.head_sha,
        status="queued",
        title=check_runs.queued_title(1 if behind else 0),
        summary=check_runs.queued_summary(server, scene.repo, run.head_sha, behind=behind is not None, stop=stop),
    )
    shown = await attempt(await scene.publisher(run.id), intent)
    if shown is None or shown.id is None:
        return
    try:
        await scene.bot.store.runs.record(run.id, 0, check_run_id=shown.id)
    except LostFence:
        log(__name__).info("the run began before its check run was noted", run=run.id)


async def running(scene: Scene, run: Run) -> Running:
    """Return what is known of another run of this pull request."""
    bot = scene.bot
    state = await bot.store.runs.state(run.id)
    check = state.check_run_id
    url = f"{bot.settings.github_server_url}/{run.repository.full_name}/runs/{check}" if check else None
    return Running(run.created_at, _round(await bot.store.runs.progress(run.id)), url, state.status is not None)


def _round(progress: str | None) -> int | None:
    """Return the round that a worker wrote last, where it wrote one."""
    try:
        found = json.loads(progress or "null")
    except ValueError:
        return None
    number = found.get("round") if isinstance(found, dict) else None
    return number if isinstance(number, int) and number > 0 else None
