"""How many seeds are tried, what they are tried in, and the summary of what came of them."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from oracles.court import Court
from town import settled

from tests.chaos.forge import Forge, forge_in
from tests.chaos.told import Ground

SEEDS = 60
FIGURES = "chaos"
"""The name under which a test's report carries its figures: they come from pytest-xdist's processes so."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos-seeds", type=int, default=SEEDS, help="how many seeded faults tests/chaos tries")
    parser.addoption("--chaos-first", type=int, default=0, help="the first seed that tests/chaos tries")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        # Where pytest was not started for this folder, it has not asked it for options.
        first = metafunc.config.getoption("chaos_first", 0)
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("chaos_seeds", SEEDS)))


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the worker a home of its own."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", os.fspath(folder))
        yield folder


@pytest.fixture(scope="session")
def court() -> Iterator[Court]:
    """Watch what is moved and issued; each seed is judged by `invariants`."""
    court = Court()
    with court.everywhere():
        yield court


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def forge(home: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Forge]:
    async with forge_in(tmp_path_factory.mktemp("forge")) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ground(court: Court, home: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    """Return the town in which the seeds are told that leave the store alone."""
    async with settled(tmp_path_factory.mktemp("town")) as town:
        ground = Ground.of(town, court)
        yield ground
        ground.place.close()


# ---- The summary ----------------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [each for word in ("passed", "failed") for each in terminalreporter.getreports(word)]
    figures = [value for each in reports for name, value in getattr(each, "user_properties", []) if name == FIGURES]
    others = [value for each in reports for name, value in getattr(each, "user_properties", []) if name == "fifty"]
    for line in [*(_summary(figures) if figures else []), *others]:
        terminalreporter.write_line(line)


def _summary(figures: list[dict[str, Any]]) -> Iterator[str]:
    yield ""
    kinds = Counter(kind for each in figures for kind in each["kinds"])
    yield f"chaos: {len(figures)} seeds, {sum(kinds.values())} faults: " + ", ".join(
        f"{kind} {times}" for kind, times in sorted(kinds.items())
    )
    unmet = [f"{each['seed']}: {kind}" for each in figures for kind in each["unmet"]]
    yield f"chaos: never met, since the run was over before: {len(unmet)} ({', '.join(unmet)})"
    sums = {sort: sum(each["findings"].get(sort, 0) for each in figures) for sort in ("duplicate", "stuck", "lost")}
    yield (
        f"chaos: duplicates {sums['duplicate']}, stuck {sums['stuck']}, lost commits {sums['lost']}, "
        f"other findings {sum(each['findings'].get('other', 0) for each in figures)}"
    )
    for lease in sorted({lease for each in figures for lease, _ in each["resumed"]}):
        took = [seconds for each in figures for kept, seconds in each["resumed"] if kept == lease]
        yield (
            f"chaos: from the end of a worker to the next attempt, with a lease of {lease:g} s: "
            f"median {statistics.median(took):.1f} s, longest {max(took):.1f} s, of {len(took)}"
        )
    slowest = sorted(figures, key=lambda each: -each["took"])[:3]
    yield "chaos: slowest seeds: " + ", ".join(f"{each['seed']} ({each['took']:.0f} s)" for each in slowest)
