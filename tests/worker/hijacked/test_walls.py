"""What agents whose model has turned against the machine change of it, and ask of its kernel (T17, T18)."""

from __future__ import annotations

import json
import platform
import secrets
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from scripted_models import calls, says
from tests.worker.hijacked.conftest import CLAUDE, CODEX, READER, SHELLS, Actor, House, Lodger, result
from worker.seccomp import MACHINES

OPEN = {"/dev/shm", "/tmp", "/home/agent"}
"""What lies in memory and goes with the sandbox."""
MACHINE = [Path(place) for place in ("/", "/usr", "/usr/bin", "/etc", "/opt", "/home", "/tmp", "/dev/shm")]


# ---- T17: files and mounts ------------------------------------------------------------------------------------------


def bait(lodger: Lodger) -> Path:
    """Let anybody write this run's folders, so that nothing but the sandbox's walls protects them; return a file."""
    for name in ("tree", "base", "brief"):
        (lodger.folder / name).chmod(0o777)
    file = lodger.folder.parent / f"{lodger.folder.name}.txt"
    file.write_text("unchanged")
    file.chmod(0o666)
    return file


@pytest.mark.threat("T17", 117)
@SHELLS
async def test_nothing_of_the_machine_can_be_changed(inn: House, lodger: Lodger, actor: Actor) -> None:
    file, name = bait(lodger), f"mark-{secrets.token_hex(8)}"
    lodger.brings("walls")
    places = [str(inn.state), str(lodger.folder), str(lodger.tree), f"/proc/1/root{lodger.tree}", actor.sessions]
    try:
        await lodger.turn(actor, [actor.tries("walls", name, *places), says("Nothing.")])
        told = result(lodger.asked(actor)[1].new_text())
        own = {"/work"} if actor is CLAUDE else set()
        assert (set(told["written"]), told["done"]) == (OPEN | own | {actor.sessions}, [])
        assert file.read_text() == "unchanged"
        left = {str(path.parent) for path in lodger.folder.rglob(name)}
        assert left == {str(lodger.sessions(actor)), *([str(lodger.tree)] if own else [])}
        assert [place for place in MACHINE if (place / name).exists()] == []
    finally:
        file.unlink()


@pytest.mark.threat(117)
async def test_a_link_of_the_author_leads_nowhere_outside(lodger: Lodger) -> None:
    """What it leaves is taken in by `worker.git.admit`, which follows no link; inside, links end in the sandbox."""
    file = bait(lodger)
    command = (
        f"ln -s {file} link; ln -s ../base/app.py up; echo changed > link; echo changed > up; ln {file} hard; cat link"
    )
    await lodger.turn(CLAUDE, [CLAUDE.runs(command), says("Nothing.")])
    assert (file.read_text(), (lodger.folder / "base" / "app.py").read_text()) == ("unchanged", "x = 1\n")
    assert not (lodger.tree / "hard").exists()
    file.unlink()


@pytest.mark.threat(117)
async def test_a_seat_without_a_shell_changes_nothing(lodger: Lodger) -> None:
    bait(lodger)
    write = calls("Write", file_path="/work/new.py", content="x") + calls("Bash", command="touch /work/other.py")
    write += calls("Edit", file_path="/work/app.py", old_string="1", new_string="2")
    await lodger.turn(READER, [calls("Read", file_path="/work/app.py"), write, says("Nothing.")])
    assert {path.name: path.read_text() for path in lodger.tree.iterdir()} == {"app.py": "x = 1\n"}


HOLES = {
    "/": "at = argv.index('/', argv.index('/dev', argv.index('--remount-ro'))); del argv[at - 1 : at + 1]",
    "/work": "at = argv.index('/work'); argv[at - 2] = '--bind'",
    "/base": "at = argv.index('/base'); argv[at - 2] = '--bind'",
}


async def test_a_hole_in_the_wall_would_be_noticed(lodger: Lodger) -> None:
    bait(lodger).unlink()
    lodger.brings("walls")
    lodger.weaken("\n".join(HOLES.values()))
    await lodger.turn(CODEX, [CODEX.tries("walls", "mark"), says("Changed.")])
    assert set(HOLES) <= set(result(lodger.asked(CODEX)[1].new_text())["written"])


async def test_privileges_would_be_noticed(lodger: Lodger) -> None:
    bait(lodger).unlink()
    lodger.brings("walls")
    lodger.weaken("argv[argv.index('--cap-drop')] = '--cap-add'; argv.remove('--disable-userns')")
    lodger.sandbox = replace(lodger.sandbox, filter=b"")
    await lodger.turn(CODEX, [CODEX.tries("walls", "mark"), says("Changed.")])
    done = set(result(lodger.asked(CODEX)[1].new_text())["done"])
    assert {"chroot", "a mount namespace", "a user namespace"} <= done


# ---- T18: system calls ----------------------------------------------------------------------------------------------

NUMBERS = MACHINES[platform.machine()].numbers
NEWUSER, SIGCHLD, TIOCSTI = 0x10000000, 17, 0x5412
SOCKET, CLONE, IOCTL = {"x86_64": (41, 56, 16), "aarch64": (198, 220, 29)}[platform.machine()]
FAMILIES = {"AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40, "AF_BLUETOOTH": 31, "AF_XDP": 44}
CALLS = {
    **{name: [number, 0, 0, 0, 0, 0] for name, number in NUMBERS.items()},
    "unshare": [NUMBERS["unshare"], NEWUSER],
    "io_uring_setup": [NUMBERS["io_uring_setup"], 1, 0],
    "a clone with namespaces": [CLONE, NEWUSER | SIGCHLD, 0, 0, 0, 0],
    "words for a terminal": [IOCTL, 0, TIOCSTI, 0],
}
SOCKETS = {name: [SOCKET, number, socket.SOCK_STREAM, 0] for name, number in FAMILIES.items()}


async def asked_of_the_kernel(lodger: Lodger, actor: Actor) -> dict[str, str]:
    lodger.brings("syscalls")
    given = json.dumps({**CALLS, **SOCKETS, "clone3": [435, 0, 0]})
    await lodger.turn(actor, [actor.tries("syscalls", given), says("Nothing.")])
    told: dict[str, str] = result(lodger.asked(actor)[1].new_text())
    return told


@pytest.mark.threat("T18", 120)
@SHELLS
async def test_the_kernel_refuses_what_no_agent_needs(lodger: Lodger, actor: Actor) -> None:
    told = await asked_of_the_kernel(lodger, actor)
    assert len(told) > 50
    assert told.pop("clone3") == "ENOSYS"
    assert {name: error for name, error in told.items() if name in FAMILIES and error != "EAFNOSUPPORT"} == {}
    assert {name: error for name, error in told.items() if name not in FAMILIES and error != "EPERM"} == {}


async def test_without_the_filter_it_would_not(lodger: Lodger) -> None:
    lodger.sandbox = replace(lodger.sandbox, filter=b"")
    told = await asked_of_the_kernel(lodger, CODEX)
    let_through = {name for name, error in told.items() if error not in {"EPERM", "ENOSYS", "EAFNOSUPPORT"}}
    assert {"ptrace", "io_uring_setup"} & let_through
    assert len(let_through) > 5
