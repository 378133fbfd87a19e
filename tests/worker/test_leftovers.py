"""What dead runs and dead workers leave on a machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bot.store.runs import Run
from tests.worker.conftest import make_run
from worker.folder import held, taken
from worker.git.mirror import Mirror, Mirrors
from worker.leftovers import LEFT_SECONDS, USED_SECONDS, clear_folders, clear_unlocked, trim_mirrors

LIVE, ENDED, UNKNOWN = (make_run("a" * 40, id=name) for name in ("liveliv2", "endedeee", "unknown2"))


async def live(run_id: str) -> bool | None:
    return {LIVE.id: True, ENDED.id: False}.get(run_id)


async def nobody(run: Run) -> None:
    raise AssertionError(f"{run.id} is not lost")


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def left(root: Path, run: Run) -> None:
    """Leave the folder of a run, as a worker does that was killed."""
    with taken(root, run) as folder:
        (folder / "tree").mkdir()


@pytest.mark.threat("R30")
async def test_folders_of_runs_that_have_ended_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    for run in (LIVE, ENDED):
        left(tmp_path, run)
    assert await clear_folders(tmp_path, live, nobody) == 1
    assert names(tmp_path) == [LIVE.id]


async def test_a_spare_folder_goes_and_what_a_process_works_in_stays(tmp_path: Path) -> None:
    with taken(tmp_path, LIVE), taken(tmp_path, LIVE), taken(tmp_path, ENDED):
        assert await clear_folders(tmp_path, live, nobody) == 0
    assert await clear_folders(tmp_path, live, nobody) == 2
    assert names(tmp_path) == [LIVE.id]


async def test_a_run_that_the_store_has_lost_is_told_before_its_folder_goes(tmp_path: Path) -> None:
    left(tmp_path, UNKNOWN)
    (tmp_path / "strange").mkdir()
    told: list[str] = []

    async def away(run: Run) -> None:
        told.append(run.id)
        raise OSError("GitHub is away")

    with pytest.raises(OSError, match="away"):
        await clear_folders(tmp_path, live, away)
    assert (tmp_path / UNKNOWN.id).exists(), "it is told the next time"

    async def lost(run: Run) -> None:
        with held(tmp_path / run.id) as free:
            assert not free, "nobody begins to work in it meanwhile"
        told.append(run.id)

    assert await clear_folders(tmp_path, live, lost) == 1
    assert told == [UNKNOWN.id, UNKNOWN.id]
    assert names(tmp_path) == []


async def test_where_no_run_was_yet_nothing_is_cleared(tmp_path: Path) -> None:
    assert await clear_folders(tmp_path / "runs", live, nobody) == 0


@pytest.mark.threat("R30")
def test_what_has_no_lock_goes_by_its_age(tmp_path: Path) -> None:
    names = (".probe-a", "tools/.new-b", "mirrors/7.new-123")
    for name in (*names, "mirrors/7.git", "tools/abc"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("x")
    now = (tmp_path / ".probe-a").stat().st_mtime
    assert clear_unlocked(tmp_path, now + LEFT_SECONDS - 1) == 0
    assert clear_unlocked(tmp_path, now + LEFT_SECONDS + 1) == 3
    assert not any((tmp_path / name).exists() for name in names)
    assert (tmp_path / "mirrors/7.git/file").exists()


async def filled(mirrors: Mirrors, number: int, size: int, used: float) -> Mirror:
    """Return a mirror of about this many bytes, last used at a time."""
    mirror = await mirrors.of(number)
    (mirror.path / "objects" / "pack" / "pack-x.pack").write_bytes(b"x" * size)
    os.utime(mirror.path, (used, used))
    return mirror


async def ours() -> tuple[int, ...]:
    return (1, 2, 3, 5)


async def nothing() -> tuple[int, ...]:
    return ()


async def test_mirrors_that_were_used_least_recently_go_first(tmp_path: Path) -> None:
    mirrors, now = Mirrors(tmp_path), time.time()
    ages = ((1, 2 * USED_SECONDS), (2, 3 * USED_SECONDS), (3, USED_SECONDS / 2))
    old, older, fresh = [await filled(mirrors, number, 500_000, now - age) for number, age in ages]
    assert await trim_mirrors(mirrors, live, ours, most=2_000_000) == 0
    assert await trim_mirrors(mirrors, live, ours, most=1_300_000) == 1
    assert [each.path.exists() for each in (old, older, fresh)] == [True, False, True]
    assert await trim_mirrors(mirrors, live, ours, most=0) == 1
    assert fresh.path.exists(), "it was used a moment ago"


async def test_mirrors_of_repositories_that_are_not_ours_any_more_go(tmp_path: Path) -> None:
    """decisions.md 1.8: nothing of a removed installation stays; but what was just begun is not taken for that."""
    mirrors, now = Mirrors(tmp_path), time.time()
    gone = await filled(mirrors, 1, 10, now - LEFT_SECONDS - 1)
    begun = await filled(mirrors, 2, 10, now)
    assert await trim_mirrors(mirrors, live, nothing) == 1
    assert [gone.path.exists(), begun.path.exists()] == [False, True]


async def test_a_broken_mirror_keeps_no_other_from_being_looked_at(tmp_path: Path) -> None:
    mirrors = Mirrors(tmp_path)
    (tmp_path / "1.git").mkdir()
    other = await filled(mirrors, 2, 10, time.time() - 2 * USED_SECONDS)
    assert await trim_mirrors(mirrors, live, ours, most=0) == 1
    assert not other.path.exists()


async def test_refs_of_dead_runs_go_and_keep_no_mirror(tmp_path: Path, mirror_with_refs: Mirrors) -> None:
    (mirror,) = mirror_with_refs.known()
    os.utime(mirror.path, (0, 0))
    assert await trim_mirrors(mirror_with_refs, live, ours, most=0) == 0
    assert await mirror.runs() == {LIVE.id}
    await mirror.drop_refs(LIVE.id)
    os.utime(mirror.path, (0, 0))
    assert await trim_mirrors(mirror_with_refs, live, ours, most=0) == 1
    assert not mirror.path.exists()


async def test_a_folder_that_cannot_be_cleared_keeps_no_other_from_it(tmp_path: Path) -> None:
    left(tmp_path, UNKNOWN.model_copy(update={"id": "aaaaaaa2"}))
    left(tmp_path, ENDED)

    async def refuses(run: Run) -> None:
        raise OSError("GitHub is away")

    with pytest.raises(OSError, match="away"):
        await clear_folders(tmp_path, live, refuses)
    assert names(tmp_path) == ["aaaaaaa2"]


@pytest.fixture
async def mirror_with_refs(change: object, tmp_path: Path) -> Mirrors:
    """Return a mirror with refs of a live run, of one that has ended and of one that nobody knows."""
    mirrors = Mirrors(tmp_path / "mirrors", also=("file",))
    mirror = await mirrors.of(5)
    url = f"file://{tmp_path / 'server' / 'you' / 'app.git'}"
    for run in (LIVE, ENDED, UNKNOWN):
        await mirror.fetch(url, {f"refs/run/{run.id}/head": "refs/pull/1/head"})
    return mirrors


async def test_a_mirror_that_is_asked_for_meanwhile_stays(tmp_path: Path) -> None:
    """A run that has not fetched yet has no refs in it."""
    mirrors, old = Mirrors(tmp_path), time.time() - 2 * USED_SECONDS
    mirror = await filled(mirrors, 1, 10, old)
    await mirrors.of(1)
    assert not await mirrors.drop(mirror.path, since=old)
    os.utime(mirror.path, (old, old))
    assert await mirrors.drop(mirror.path, since=old)
