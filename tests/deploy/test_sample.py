"""The sample repository: what git makes of it, and how the debate about it goes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deploy import sample
from worker.agents import TurnRequest, lint
from worker.debate.brief import ledger_block
from worker.debate.codecs import DispositionCodec, VerdictCodec
from worker.debate.findings import Record, Round, State, ledger, next_id, open_entries
from worker.debate.flow import Edited
from worker.process import run


def git(repo: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True).stdout


async def test_it_builds_the_same_commits_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody\n[core]\n\tautocrlf = true\n[broken\n")
    for name, value in {"HOME": str(tmp_path), "GIT_AUTHOR_NAME": "Somebody", "TZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(name, value)
    first, second = await sample.build(tmp_path / "one"), await sample.build(tmp_path / "two")
    monkeypatch.delenv("HOME")
    heads = [git(each.repo, "rev-parse", "main", "plan-journeys", "HEAD") for each in (first, second)]
    assert heads[0] == heads[1]
    assert (first.base, first.head, first.title) == ("main", "plan-journeys", "Plan journeys with a change of ferry")


async def test_the_branch_stands_on_its_base_and_is_checked_out(tmp_path: Path) -> None:
    built = await sample.build(tmp_path / "repo")
    assert git(built.repo, "status", "--porcelain") == b""
    assert git(built.repo, "rev-parse", "--abbrev-ref", "HEAD").strip() == b"plan-journeys"
    assert git(built.repo, "rev-list", "--count", "main").strip() == b"2"
    assert git(built.repo, "rev-list", "--count", "main..plan-journeys").strip() == b"2"
    assert git(built.repo, "fsck", "--strict") == b""
    files = {path: git(built.repo, "show", f"plan-journeys:{path}") for path in sample.head_files()}
    assert files == sample.head_files()
    assert git(built.repo, "ls-tree", "-r", "--name-only", "main").decode().split() == sorted(sample.base_files())
    changed = git(built.repo, "diff", "--name-only", "main...plan-journeys").decode().split()
    assert changed == [
        "README.md",
        "src/ferrytimes/__init__.py",
        "src/ferrytimes/journeys.py",
        "tests/test_journeys.py",
    ]


async def test_a_git_that_fails_says_what_it_said(tmp_path: Path) -> None:
    await sample.build(tmp_path / "repo")
    (tmp_path / "repo" / ".git" / "HEAD").write_text("nonsense\n")
    (tmp_path / "repo" / ".git" / "objects").rename(tmp_path / "repo" / "elsewhere")
    (tmp_path / "repo" / ".git" / "objects").touch()
    with pytest.raises(OSError, match="git init failed in the sample repository"):
        await sample.build(tmp_path / "repo")


async def test_the_debate_about_it_takes_two_commits_and_leaves_two_findings_to_a_person(tmp_path: Path) -> None:
    built = await sample.build(tmp_path / "repo")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "files.txt").touch()  # all of it is in the diff
    request = TurnRequest(
        run="7h2kq9xw",
        seat="",
        round=1,
        turn=1,
        brief="",
        schema=None,
        editing=False,
        tree=built.repo,
        base=tmp_path,
        notes=notes,
        session=None,
        session_dir=tmp_path / "sessions",
        seconds=60,
    )
    record, commits = Record(), 0
    for number in range(1, 6):
        (notes / "change.diff").write_bytes(git(built.repo, "diff", "--text", "main"))
        opened = tuple(entry.id for entry in open_entries(record))
        brief = ledger_block(record, next_id(record, 1))
        said = await lint.take_turn(replace(request, brief=brief), run)
        verdict = VerdictCodec(open=opened, known=tuple(entry.id for entry in ledger(record))).parse(said.text)
        record = Record((*record.rounds, Round(number, verdict=verdict)))
        if verdict.approved:
            break
        brief = ledger_block(record, next_id(record, 1))
        said = await lint.take_turn(replace(request, brief=brief, editing=True), run)
        section = DispositionCodec(tuple(entry.id for entry in open_entries(record))).parse(said.text)
        changed = tuple(git(built.repo, "diff", "--name-only").decode().split())
        done = replace(record.rounds[-1], section=section, edited=Edited(changed, "tree"))
        record = Record((*record.rounds[:-1], done))
        commits += bool(changed)
        git(built.repo, "-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "--quiet", "--all", "-m", "x")
    entries = ledger(record)
    assert (len(record.rounds), commits) == (3, 2)
    assert [(entry.id, entry.title, entry.state.value, entry.raised) for entry in entries] == [
        ("F1", "B904 Within an `except` clause, raise exceptions with…", "conceded", 1),
        ("F2", "B006 Do not use mutable data structures for argument…", "conceded", 1),
        ("F3", "F401 `datetime` imported but unused", "fixed", 1),
        ("F4", "E713 Test for membership should be `not in`", "fixed", 1),
        ("F5", "F401 `ferrytimes.minutes` imported but unused", "fixed", 1),
        ("F6", "UP006 Use `list` instead of `List` for type annotation", "fixed", 1),
        ("F7", "UP045 Use `X | None` for type annotations", "fixed", 1),
        ("F8", "F401 `typing.List` imported but unused", "fixed", 2),
        ("F9", "F401 `typing.Optional` imported but unused", "fixed", 2),
    ]
    left = [entry for entry in entries if entry.state is State.CONCEDED]
    assert len(left) == 2
    told = {position.id: position.text for position in record.rounds[0].section.positions}  # type: ignore[union-attr]
    assert all(told[entry.id].startswith(lint.FOR_A_PERSON) for entry in left)


def test_its_code_runs(tmp_path: Path) -> None:
    for path, raw in sample.head_files().items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
    program = (
        "from ferrytimes import Sailing, Timetable, plan\n"
        "one, two = Sailing(480, 525, 'A', 'B'), Sailing(540, 610, 'B', 'C')\n"
        "print(plan(Timetable([one, two]), 'A', 'C', '07:30'))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path / "src")},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert finished.stdout.decode() == "08:00 A to B, then 09:00 B to C, arriving 10:10\n"


def test_no_file_of_it_is_taken_for_code_of_ours() -> None:
    assert all(path.suffix == ".txt" for path in sample.FILES.rglob("*") if path.is_file())
    assert all(not path.endswith(".txt") for path in sample.head_files())
