"""Fills the seats of a run, or says why one stays empty (decisions.md 3.10).

It owns the order of these questions and the end that each refusal is: an agent that nobody knows, a machine that cannot
isolate agents, a program or a key that is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bot.statuses import Status
from bot.store.runs import Run
from worker import agents
from worker.debate import review
from worker.ended import Ended
from worker.gateway import TurnBudget
from worker.isolation import IsolationMissing
from worker.quarters import Lodgings, Quarters

WITH_LINT = "or write `/codex-debate review --reviewer lint --author lint`"


@contextlib.asynccontextmanager
async def seated(quarters: Quarters, run: Run, *, day_usd: float) -> AsyncIterator[Lodgings | None]:
    """Yield where the run's agents are put up; None where none of them needs isolation.

    `day_usd` is the ceiling of the run's installation for a day (UTC).

    Raises `Ended` where a seat cannot be filled: before anything was asked of a model, and before the sandbox is
    relied on.
    """
    needy = False
    for seat, chosen in run.seats.items():
        try:
            agent, _ = agents.find(chosen.agent)
        except agents.UnknownAgent as error:
            raise Ended(_unfilled(seat), str(error), failed_seat=seat) from error
        needy = needy or agent.box is not None
        if lack := await quarters.programs.lack(agent):
            raise Ended(
                _unfilled(seat), lack.sentence, hint=f"on this server, {lack.repair}; {WITH_LINT}", failed_seat=seat
            )
    if not needy:
        yield None
        return
    with quarters.user() as user:
        try:
            sandbox = await quarters.isolation.prove(user)
        except IsolationMissing as missing:
            raise Ended(
                Status.ISOLATION_UNAVAILABLE, str(missing), hint=f"on this server, {missing.repair}; {WITH_LINT}"
            ) from missing
        budget = TurnBudget(
            api="",
            run=run.id,
            installation=run.installation_id,
            run_usd=run.ceilings.usd,
            day_usd=day_usd,
            user=user.user,
        )
        yield Lodgings(quarters, sandbox, user, budget)


def _unfilled(seat: str) -> Status:
    return Status.REVIEWER_ERROR if seat == review.REVIEWER else Status.AGENT_ERROR
