"""Isolation is proved, or what is missing is named with its repair. What each probe sees: inside/test_probe.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worker.packaged import package
from tests.worker.sandboxed import is_root, open_folder
from worker import isolation, sandbox, seccomp, tools
from worker.isolation import Isolation, IsolationMissing
from worker.sandbox import Sandbox
from worker.slots import Slot, slot

ROOT = Path(__file__).parents[2]
WALLS = sandbox._WALLS


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages that is looked into before all others."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def unpackaged(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Take bubblewrap's package away, and return the one folder on PATH, which is empty."""
    monkeypatch.setitem(tools.TOOLS, "bwrap", replace(tools.TOOLS["bwrap"], package="bubblewrap-that-is-not-there"))
    folder = state / "programs"
    folder.mkdir()
    folder.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def installed(site: Path, script: str) -> None:
    """Install a bubblewrap that is a script, under the name and version of the real one."""
    tool = tools.TOOLS["bwrap"]
    package(site, tool.package, tool.version, {tool.program: f"#!/bin/sh\n{script}\n".encode()})


async def lack(state: Path) -> IsolationMissing:
    missing = await Isolation(state).lack()
    assert missing is not None
    assert missing.repair
    assert not str(missing).endswith(".")
    return missing


# ---- It passes ------------------------------------------------------------------------------------------------------


async def test_it_passes_here_and_leaves_nothing(state: Path) -> None:
    proved = Isolation(state)
    assert [await proved.lack() for _ in range(3)] == [None, None, None]
    assert set(os.listdir(state)) == {"kit", "tools", *(["slots"] if is_root() else [])}  # noqa: PTH208


async def test_it_passes_in_a_folder_with_a_long_name(state: Path) -> None:
    """A socket's whole name may have 107 bytes (unix(7))."""
    assert await Isolation(made(state / ("x" * 150))).lack() is None


def made(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o711)
    return folder


async def test_many_prove_it_at_once(state: Path) -> None:
    proved = Isolation(state)
    assert await asyncio.gather(*(proved.lack() for _ in range(3))) == [None] * 3


async def test_the_dear_probes_are_tried_first_and_after_a_failure(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = Isolation(state)
    assert await proved.lack() is None
    monkeypatch.setattr(sandbox, "_SYSTEM", larger())
    assert await proved.lack() is None  # only the cheap ones are tried before a run
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_WALLS", (*WALLS, "--share-net"))
        missing = await proved.lack()
        assert missing is not None
        assert missing.layer == "network"
    monkeypatch.setattr(sandbox, "_WALLS", WALLS)
    missing = await proved.lack()
    assert missing is not None
    assert missing.layer == "memory limit"
    monkeypatch.undo()
    assert await proved.lack() is None


def larger() -> tuple[str, ...]:
    """Return the system with a /dev/shm that is twice as large as it should be."""
    size = str(sandbox.SHARED_BYTES)
    return tuple(str(2 * sandbox.SHARED_BYTES) if word == size else word for word in sandbox._SYSTEM)


async def test_each_lack_is_told_of_the_sandbox_that_is_handed_out(state: Path) -> None:
    proved = Isolation(state)
    with slot(proved.slots) as user:
        first = await proved.prove(user)
        assert await proved.prove(user) is first
        assert isinstance(first, Sandbox)
        assert first.filter == seccomp.program(os.uname().machine)


# ---- It refuses (threats.md T35) ------------------------------------------------------------------------------------


@pytest.mark.threat("T35")
async def test_no_bwrap_refuses(state: Path, unpackaged: Path) -> None:
    missing = await lack(state)
    assert missing.layer == "bubblewrap"
    assert str(missing) == "bubblewrap cannot be used: the program bwrap is not installed"
    assert "install the system's bubblewrap, 0.8 or newer" in missing.repair


async def test_the_systems_bwrap_will_do(state: Path, unpackaged: Path, sandbox: Sandbox) -> None:
    (unpackaged / "bwrap").symlink_to(sandbox.bwrap)
    assert await Isolation(state).lack() is None
    assert not (state / "tools").exists()


async def test_a_bwrap_that_is_too_old_refuses(state: Path, site: Path) -> None:
    """Before 0.8 it did not know --disable-userns, and said so in these words."""
    installed(
        site, 'for each in "$@"; do [ "$each" = --disable-userns ] && exec echo "bwrap: Unknown option $each" >&2; done'
    )
    missing = await lack(state)
    assert (missing.layer, str(missing)) == ("bubblewrap", "the system's bubblewrap is older than 0.8")


@pytest.mark.threat("T34")
async def test_a_bwrap_that_was_changed_refuses(
    state: Path, site: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is taken instead."""
    installed(site, "exit 0")
    (site / tools.TOOLS["bwrap"].program).write_bytes(b"#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(sandbox.bwrap.parent))
    missing = await lack(state)
    assert missing.layer == "bubblewrap"
    assert "was changed" in str(missing)


@pytest.mark.threat("T35")
async def test_userns_off_refuses(state: Path, site: Path, sandbox: Sandbox) -> None:
    """Where they are off for this user: here since another bubblewrap has forbidden them."""
    installed(site, f'exec {sandbox.bwrap} --unshare-user --disable-userns --dev-bind / / -- {sandbox.bwrap} "$@"')
    missing = await lack(state)
    assert (missing.layer, str(missing)) == ("user namespaces", "user namespaces are off for this user")
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in missing.repair


async def test_a_masked_proc_refuses(state: Path, site: Path, sandbox: Sandbox) -> None:
    """As in containers: something is mounted over a part of /proc, so that the kernel allows no fresh one."""
    outer = "--unshare-user --dev-bind / / --ro-bind /dev/null /proc/version"
    installed(site, f'exec {sandbox.bwrap} {outer} -- {sandbox.bwrap} "$@"')
    missing = await lack(state)
    assert (missing.layer, str(missing)) == (
        "/proc",
        "no fresh /proc can be mounted, since this container masks its own",
    )
    assert "systempaths=unconfined" in missing.repair


@pytest.mark.threat("T35")
async def test_seccomp_missing_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "program", lambda machine: b"")
    missing = await lack(state)
    assert (missing.layer, str(missing)) == (
        "seccomp",
        "the sandbox has a hole: the filter of system calls is not in force",
    )
    assert missing.repair == "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)"


async def test_a_kernel_that_takes_no_filter_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "program", lambda machine: bytes(8))
    missing = await lack(state)
    assert (missing.layer, str(missing)) == ("seccomp", "the kernel takes no filter of system calls")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """Return a folder below one like pytest's own; a worker that is not root may not enter itself."""
    (tmp_path / "state").mkdir(mode=0o711)
    tmp_path.chmod(0o700 if is_root() else 0o000)
    yield tmp_path / "state"
    tmp_path.chmod(0o700)


async def test_a_state_folder_that_the_user_does_not_reach_refuses(closed: Path) -> None:
    missing = await lack(closed)
    assert missing.layer == "state folder"
    assert "CODEX_DEBATE_STATE_DIR" in missing.repair


async def test_a_state_folder_that_cannot_be_used_refuses(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    missing = await lack(tmp_path / "state")
    assert (missing.layer, str(missing)) == ("state folder", "the state folder cannot be used (Not a directory)")


async def test_no_free_user_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.slots.USERS", 0)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert str(await lack(state)) == "the state folder cannot be used (all 0 users for sandboxes are taken)"


async def test_a_missing_python_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PYTHONS", ("/nowhere/python3",))
    monkeypatch.setattr(sys, "base_prefix", str(state / "nowhere"))
    missing = await lack(state)
    assert missing.layer == "python"
    assert missing.repair == "install the system's Python (/usr/bin/python3)"


async def test_another_platform_refuses(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    missing = await lack(state)
    assert missing.layer == "platform"
    assert "and this is Darwin" in str(missing)


if is_root():

    @pytest.mark.threat("T17")
    @pytest.mark.parametrize("number", [0, None])
    async def test_root_refuses(state: Path, number: int | None) -> None:
        with pytest.raises(IsolationMissing, match="never started as root") as missing:
            await Isolation(state).prove(Slot(number))
        assert missing.value.layer == "user"


@pytest.mark.parametrize(
    ("script", "layer", "sentence"),
    [
        ("echo what? >&2; exit 1", "sandbox", "no sandbox starts here: what?"),
        ("exit 3", "sandbox", "no sandbox starts here: it ended with status 3"),
        ("kill -9 $$", "sandbox", "no sandbox starts here: it ended with status -9"),
    ],
)
async def test_what_nobody_knows_is_told_as_it_is(
    state: Path, site: Path, script: str, layer: str, sentence: str
) -> None:
    installed(site, script)
    missing = await lack(state)
    assert (missing.layer, str(missing)) == (layer, sentence)


async def test_a_bwrap_that_is_no_program_refuses(state: Path, site: Path) -> None:
    tool = tools.TOOLS["bwrap"]
    package(site, tool.package, tool.version, {tool.program: b"\x7fELF of another machine"})
    missing = await lack(state)
    assert (missing.layer, str(missing)) == ("bubblewrap", "no sandbox can be started (Exec format error)")


async def test_a_test_that_takes_too_long_refuses(state: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "TEST_SECONDS", 0.2)
    installed(site, "exec sleep 60")
    assert (await lack(state)).layer == "sandbox"


# ---- A worker that is not root --------------------------------------------------------------------------------------

WORKER = """
import asyncio, json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from worker import sandbox
from worker.isolation import Isolation
from worker.process import Program
from worker.sandbox import Room
from worker.slots import slot

async def work(state):
    proved = Isolation(state)
    lacks = [await proved.lack() for _ in range(2)]
    if any(lacks):
        return {"lacks": [str(each) for each in lacks]}
    tree = state / "tree"
    tree.mkdir(exist_ok=True)
    with slot(proved.slots) as user:
        user.own(tree)
        box = await proved.prove(user)
        async def sh(script, **limits):
            done = await box.run(Program(("/bin/bash", "-c", script), **limits), Room(tree, writable=True), user)
            return [done.code, done.stdout.decode(), done.stderr.decode(), done.timed_out]
        seen = await sh(sys.argv[2])
        (tree / "grows").unlink(missing_ok=True)
        await sh("(trap : TERM; while :; do echo x >> grows; done) </dev/null >/dev/null 2>&1 & sleep 0.1")
        sizes = [(tree / "grows").stat().st_size]
        await asyncio.sleep(0.05)
        sizes.append((tree / "grows").stat().st_size)
        sandbox.PROCESSES = 100
        bomb = await sh("bomb() { bomb | bomb & }; bomb; while :; do :; done", seconds=1)
        again = await sh("echo on")
    owner = (tree / "grows").stat().st_uid
    return {"seen": seen, "sizes": sizes, "bomb": bomb[3], "again": again, "user": user.user, "owner": owner}

if os.geteuid() == 0:  # once as root: then all that is imported late has been
    asyncio.run(work(Path(sys.argv[3])))
    os.setgroups([])
    os.setgid(int(sys.argv[5]))
    os.setuid(int(sys.argv[5]))
print(json.dumps(asyncio.run(work(Path(sys.argv[4])))))
"""
OTHER_USER = 61_100
"""A worker that is not root: a number that nobody has, and no slot."""
SEES = "id -u; cat /proc/1/environ | wc -c; ls ~ / | wc -l; echo x > made; ls /root; echo x > /usr/x"


@pytest.fixture
def others(state: Path) -> Iterator[Path]:
    """Return the state folder of a worker that is not root."""
    with open_folder() as folder:
        if is_root():
            os.chown(folder, OTHER_USER, OTHER_USER)
        yield folder


async def test_a_worker_that_is_not_root_has_sandboxes_too(state: Path, others: Path, sandbox: Sandbox) -> None:
    """They run as its own user, and everything else holds."""
    # The package is looked for again after root is left behind, who alone may see where these tests run.
    site = others / "site"
    tool = tools.TOOLS["bwrap"]
    root = sandbox.bwrap.parents[tool.program.count("/")]
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    package(site, tool.package, tool.version, files)
    site.chmod(0o755)
    words = (str(ROOT), SEES, str(state), str(others), str(OTHER_USER))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, *words, env={"PYTHONPATH": str(site), "HOME": "/nonexistent"}, stdout=-1
    )
    seen = json.loads((await worker.communicate())[0])
    code, out, err, _ = seen["seen"]
    assert (code, out.split()[:2]) == (1, ["1000", "0"])
    assert "ls: cannot access '/root': No such file or directory" in err
    assert "/usr/x: Read-only file system" in err
    assert seen["sizes"][0] == seen["sizes"][1] > 0
    assert seen["bomb"]
    assert seen["again"] == [0, "on\n", "", False]
    assert (seen["user"], seen["owner"]) == (None, OTHER_USER if is_root() else os.geteuid())
