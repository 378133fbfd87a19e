"""Whole debates under seeded faults: whatever happens, a run ends once, and nothing is lost or there twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from oracles.court import Court
from telling import Ending, Story
from town import STEPS, settled, told

from bot.store.lease import LEASE_SECONDS
from deploy.standin import CheckRun
from tests.chaos import plans
from tests.chaos.conftest import FIGURES
from tests.chaos.forge import Forge
from tests.chaos.invariants import Finding, findings, remains
from tests.chaos.plans import Plan, draw
from tests.chaos.told import Ground, tell, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

SETTLING = 5.0
LOST = "Lost: "


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def undisturbed(ground: Ground, forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the end of the story that nothing disturbs."""
    plan = Plan(-1, (), plans.SHORT_LEASE, 0)
    _, story = await tell(ground, forge, plan, tmp_path_factory.mktemp("calm"))
    end = await story.ends()
    assert await findings(ground.town, story, ground.place, plan) == []
    _forget(ground, story)
    return await told(story, end)


async def test_an_undisturbed_debate_comes_to_consensus(undisturbed: dict[str, Any]) -> None:
    """So does the comparison of all others with it mean something."""
    assert plans.REAL_LEASE == LEASE_SECONDS
    assert (undisturbed["status"], len(undisturbed["commits"]), undisturbed["pushes"]) == ("consensus", 2, 2)


async def test_sixty_seeds_hold_every_kind_of_fault() -> None:
    drawn = {each.kind for seed in range(60) for each in draw(seed).strikes}
    assert drawn == {*plans.WORKER, *plans.STORE, *plans.WIRE, *plans.WORLD, *plans.OTHERS}
    assert len(plans.KINDS) == 60


async def test_nothing_is_lost_and_nothing_is_there_twice(
    ground: Ground,
    court: Court,
    forge: Forge,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    seed: int,
    record_property: Any,
) -> None:
    plan = draw(seed)
    began, read = time.monotonic(), forge.log.stat().st_size
    async with AsyncExitStack() as stack:
        if plan.own_town:
            town = await stack.enter_async_context(settled(tmp_path / "town"))
            ground = Ground.of(town, court)
            stack.callback(ground.place.close)
        telling, story = await tell(ground, forge, plan, tmp_path)
        await until(lambda: not list(remains(ground.town, tmp_path)), SETTLING)
        found = [*await findings(ground.town, story, ground.place, plan), *remains(ground.town, tmp_path)]
        found += await _ends(ground, story, plan, undisturbed)
        found += _logged(forge.log, read)
        _forget(ground, story)
    figures = {
        "seed": seed,
        "kinds": [each.kind for each in telling.met],
        "unmet": [str(each) for each in plan.strikes if each not in telling.met],
        "findings": dict(Counter(each.sort for each in found)),  # plain: xdist hands it on
        "resumed": telling.resumed,
        "took": time.monotonic() - began,
    }
    record_property(FIGURES, figures)
    assert not found, f"seed {seed}, {plan}:\n  " + "\n  ".join(map(str, found))


def _forget(ground: Ground, story: Story) -> None:
    """Take the App from this story's owner: the reconcilers of later seeds need not look at it."""
    state = ground.town.github._site.state
    for number, owner in list(state.installations.items()):
        if owner == story.repo.owner_id:
            del state.installations[number]


async def _ends(ground: Ground, story: Story, plan: Plan, undisturbed: dict[str, Any]) -> list[Finding]:
    """Return what is wrong with how the runs ended."""
    github = ground.town.github
    checks = github.check_runs(story.repo)
    if plan.flushed:
        return list(_after_a_loss(ground, story, undisturbed["check"][1]))
    if await ground.town.store.runs.get(checks[0].external_id) is None:  # all records of an installation go with it
        # Told before it was forgotten, or, where the App came back, found without a run behind it.
        gone = "uninstall" in {each.kind for each in plan.strikes} and checks[0].conclusion in {"cancelled", "failure"}
        return [] if gone else [Finding("lost", "the store knows nothing of the run")]
    end: Ending = await story.ends(checks[0].external_id)
    found = []
    if end.state.status not in plan.ends:
        found.append(Finding("other", f"it ended as {end.state.status}, not as {plan.ends}: {end.check.title}"))
    elif plan.goes_on:
        merged = any(each.kind == "plain-merge" for each in plan.strikes)
        now, before = (_plain(each, merged) for each in (await told(story, end), undisturbed))
        differing = [name for name in now if now[name] != before[name]]
        found += [Finding("other", f"{name} is {now[name]!r}, and undisturbed {before[name]!r}") for name in differing]
    if len(checks) != 1:
        found.append(Finding("duplicate", f"{len(checks)} check runs for one command"))
    if end.state.status != "consensus" and len(end.commits) > STEPS // 2:
        found.append(Finding("other", f"{len(end.commits)} commits"))
    return found


def _plain(facts: dict[str, Any], merged: bool) -> dict[str, Any]:
    """Return what stands on GitHub without how the branch is brought forward, where it has `merged` its base."""
    words = json.dumps(facts)
    plain: dict[str, Any] = json.loads(words.replace("git merge --ff-only", "git merge") if merged else words)
    return plain


def _after_a_loss(ground: Ground, story: Story, well: str) -> Iterator[Finding]:
    """Yield what is wrong with the debate that the store forgot, and the one after it, which is to end `well`."""
    checks = ground.town.github.check_runs(story.repo)
    first, last = checks[0], checks[-1]
    if not _lost_or_over(first, well):
        yield Finding("other", f"the lost debate ended as {first.title}: {first.conclusion}")
    for each in ground.town.github.comments(story.repo, story.number):
        if each.by_app and f"`{first.external_id}`" in each.body and "**Under way**" in each.body:
            yield Finding("stuck", f"the comment of a lost run says: {each.body[:200]}")
    if last is first or last.conclusion != well:
        yield Finding("stuck", f"the debate after the loss ended as {last.title}: {last.conclusion}")


def _lost_or_over(check: CheckRun, well: str) -> bool:
    """Tell whether the check run says that the debate was lost, or had its end just before that."""
    return (check.conclusion == "failure" and (check.title or "").startswith(LOST)) or check.conclusion == well


def _logged(log: Path, read: int) -> list[Finding]:
    """Return the faults of ours that the workers have logged since a place in their log."""
    with log.open("rb") as file:
        file.seek(read)
        lines = [json.loads(line) for line in file.read().splitlines() if line.startswith(b"{")]
    return [
        Finding("other", f"logged: {json.dumps(line)[-1500:]}")
        for line in lines
        if line.get("level") in {"error", "critical"}
    ]
