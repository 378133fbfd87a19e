"""What somebody calls a branch stays the name of a branch: no option, no revision, no program (threats.md T9)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hostile_refs import REFUSED_BRANCHES, that_run
from telling import Story, finding, section, verdict

from bot.commands import Command, parse
from tests.worker.conftest import make_run
from tests.worker.git.conftest import Source as Repository
from tests.worker.git.conftest import new_source  # noqa: F401 - a fixture
from worker import process
from worker.checkout import Source, fetch, refs
from worker.git import RefMissing
from worker.git.mirror import Mirrors

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the arguments of every git that the worker starts."""
    seen: list[list[str]] = []

    def begins(argv: Any, **how: Any) -> Any:
        program = Path(os.fsdecode(argv[0]))
        if program.is_absolute() and program.name == "git":  # the stand-in asks for "git"
            seen.append([os.fsdecode(word) for word in argv])
        return subprocess.Popen(argv, **how)

    monkeypatch.setattr(process, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": begins}))
    return seen


def takes(origin: Repository, name: str, commit: str) -> bool:
    """Tell whether git takes a name for a branch; where it does, it is there."""
    try:
        origin.git("update-ref", f"refs/heads/{name}", commit)
    except (subprocess.CalledProcessError, ValueError):
        return False
    return True


@pytest.mark.threat("T9", 49, 50, 51, 53)
async def test_ref_corpus(
    tmp_path: Path,
    new_source: Callable[[str], Repository],  # noqa: F811 - the fixture
    started: list[list[str]],
) -> None:
    """Behind `--base` none starts anything. As a base branch's name it is that branch, in git's arguments too."""
    marker, origin = tmp_path / "marker", new_source("origin")
    places = ("refs/heads/main", "refs/heads/plain", "refs/pull/1/head")
    main, other, head = (origin.commit({}, message=ref.encode(), ref=ref) for ref in places)
    source, mirror = Source(f"file://{tmp_path}", "origin", ""), await Mirrors(tmp_path / "m", also=("file",)).of(1)
    names = [*REFUSED_BRANCHES, *that_run(str(marker))]
    taken = {name for name in names if takes(origin, name, other)}
    assert len(names) > 90
    assert 30 < len(taken) < len(names)

    async def fetched(base: str) -> str | None:
        started.clear()
        run = make_run(head, base_ref=base, own_base=base)
        try:
            await fetch(run, source, mirror)
        except (RefMissing, ValueError):
            return None
        return await mirror.resolve(refs(run.id)[0])

    assert await fetched("main") == main
    assert await fetched("plain") == other
    usual = [*started]
    for name in names:
        assert not isinstance(parse(f'/codex-debate review --base="{name}"', max_rounds=6), Command), name
        assert await fetched(name) == (other if name in taken else None), name
        expected = [[word.replace("refs/heads/plain", f"refs/heads/{name}") for word in argv] for argv in usual]
        assert started == (expected if name in taken else expected[: len(started)]), name
    assert not marker.exists()


PAIRS = range(0, len(that_run("x")), 2)


@pytest.mark.threat("T9", 114)
@pytest.mark.parametrize("pair", PAIRS)
async def test_a_debate_between_branches_with_hostile_names(
    story: Story, tmp_path: Path, started: list[list[str]], pair: int
) -> None:
    """From the check-out to the push no word of git's is one of theirs but as a whole ref."""
    marker, github = tmp_path / "marker", story.machine.github
    base, head = that_run(str(marker))[pair : pair + 2]
    story.plays(
        verdict(finding()), section("F1 fixed", edits={"app.py": "x = 3\n"}), verdict(finding(status="resolved"))
    )
    await github.commit(story.repo, "main", {"app.py": "x = 1\n"})
    await github.commit(story.repo, base, {"base.py": "y = 1\n"}, parent="main")
    story.head = await github.commit(story.repo, head, {"app.py": "x = 2\n"}, parent=base)
    story.number = await github.open_pull_request(story.repo, head, base, f"{head} onto {base}", "")
    end = await story.reviewed()
    assert end.state.status == "consensus"
    assert [commit.files for commit in end.commits] == [("app.py",)]
    theirs = [word for argv in started for word in argv if base in word or head in word]
    assert set(theirs) == {f"+refs/heads/{base}:{refs(end.run)[0]}"}
    assert not marker.exists()
