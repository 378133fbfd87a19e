"""Where agents are put up: what one turn is given, and what of it is kept. Whole turns stand in hijacked/."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from bot.settings import Settings
from worker.agents import AGENTS
from worker.quarters import SESSION_BYTES, SESSION_FILES, Lack, Programs, _clear, key_of, tidy
from worker.tools import TOOLS, Tool

CODEX, CLAUDE = AGENTS["codex"].box, AGENTS["claude"].box


def settings(**over: Any) -> Settings:
    return Settings.model_validate(over)


# ---- What is missing ------------------------------------------------------------------------------------------------


async def test_an_agent_without_a_box_lacks_nothing(tmp_path: Path) -> None:
    assert await Programs(settings(), tmp_path / "tools").lack(AGENTS["lint"]) is None
    assert not (tmp_path / "tools").exists()


async def test_a_key_that_is_not_set_is_named(tmp_path: Path) -> None:
    lack = await Programs(settings(openai_api_key="sk-1"), tmp_path).lack(AGENTS["claude"])
    said = "has no key: ANTHROPIC_API_KEY is not set"
    assert lack == Lack(f"claude {said}", "set ANTHROPIC_API_KEY", said)


async def test_a_program_is_copied_and_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(settings(openai_api_key="sk-1"), tmp_path / "tools")
    assert await programs.lack(AGENTS["codex"]) is None
    assert CODEX is not None
    found = await programs.find(CODEX)
    assert found.path.is_relative_to(tmp_path / "tools")
    monkeypatch.setitem(TOOLS, "codex", Tool("gone", "1", "codex", ("codex",)))
    assert await programs.find(CODEX) is found


async def test_a_disk_that_takes_no_copy_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lack = await Programs(settings(openai_api_key="sk-1"), tmp_path / "file" / "tools").lack(AGENTS["codex"])
    assert lack is not None
    assert lack.sentence == "the program codex cannot be copied (Not a directory)"


def test_each_agent_has_its_own_providers_key() -> None:
    assert CODEX is not None
    assert CLAUDE is not None
    known = settings(openai_api_key="sk-1", anthropic_api_key="sk-2")
    assert (key_of(CODEX, known), key_of(CLAUDE, known), key_of(CODEX, settings())) == ("sk-1", "sk-2", "")


# ---- What is kept of a session --------------------------------------------------------------------------------------


def test_only_plain_files_are_kept(tmp_path: Path) -> None:
    """decisions.md 3.3: regular files only, everything else is removed between turns."""
    folder = tmp_path / "sessions"
    (folder / "2026" / "11").mkdir(parents=True)
    kept = folder / "2026" / "11" / "rollout.jsonl"
    kept.write_text("{}\n")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "2026" / "folder").symlink_to("/etc")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket"))
    assert tidy(folder) == (3, 7)
    assert sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*")) == [
        "2026",
        "2026/11",
        "2026/11/rollout.jsonl",
    ]


def test_a_session_that_grew_too_large_is_forgotten(tmp_path: Path) -> None:
    sessions, turn = tmp_path / "sessions", tmp_path / "turn"
    for each in (sessions, turn):
        each.mkdir()
    with (sessions / "large").open("wb") as file:
        file.truncate(SESSION_BYTES + 1)
    _clear(turn, sessions)
    assert list(sessions.iterdir()) == []
    assert not turn.exists()


def test_a_session_of_too_many_files_is_forgotten(tmp_path: Path) -> None:
    sessions, turn = tmp_path / "sessions", tmp_path / "turn"
    turn.mkdir()
    for number in range(SESSION_FILES + 1):
        (sessions / str(number)).mkdir(parents=True)
    _clear(turn, sessions)
    assert list(sessions.iterdir()) == []


def test_a_session_folder_that_cannot_be_gone_through_is_forgotten(tmp_path: Path) -> None:
    sessions, turn = tmp_path / "sessions", tmp_path / "turn"
    turn.mkdir()
    sessions.mkdir()
    here = os.open(sessions, os.O_RDONLY)
    for _ in range(60):  # deeper than a path may be long
        os.mkdir("n" * 100, dir_fd=here)
        deeper = os.open("n" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    _clear(turn, sessions)
    assert list(sessions.iterdir()) == []
