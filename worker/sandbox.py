"""The sandbox: where every program runs that does what a pull request or a model wants.

It owns bubblewrap's command line, the user, the limits, and what a program sees: the system's programs read-only, the
run's folders, an empty HOME, its own processes, and no network but the way to the gateway (threats.md 4.1). It knows
no agent. What it relies on is proved by `worker/isolation.py`; it holds no secret, and passes none on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import platform
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from worker import cgroup, process, seccomp
from worker.process import MIB, Finished, Program
from worker.slots import Slot
from worker.waits import to_the_end, within

HOME = Path("/home/agent")
TREE = Path("/work")
BASE = Path("/base")
NOTES = Path("/brief")
TURN = Path("/turn")
TMP = Path("/tmp")  # noqa: S108 - the sandbox's own, empty at its start
TOOL = Path("/opt/tool")
"""Where a program finds things. The paths are the same in every run, so that what models read of them is, too."""
PORT = 8080
API = f"http://127.0.0.1:{PORT}"
"""Where the model API is inside: `worker/inside/enter.py` listens there."""
USER = 1000
"""The user inside. Outside, it is the slot's."""
_ENTER = "/opt/enter.py"
_GATEWAY = "/run/gateway"

TMP_BYTES = 256 * MIB
"""Of each of the two file systems in memory, /tmp and HOME (threats.md 4.1)."""
MEMORY_BYTES = 4096 * MIB
"""Of a sandbox as a whole where there are control groups, else of each process. Below 2 GiB of address space, claude
crashes at random (decisions.md 3.5)."""
SHARED_BYTES = 64 * MIB
"""Of /dev/shm."""
PROCESSES = 512
"""Processes and threads at once (decisions.md 3.5)."""
FILE_BYTES = 512 * MIB
"""Of one file."""
FILES = 4096
"""Open in one process."""
END_SECONDS = 10.0
"""A sandbox whose processes were all killed is waited for this long: one that hangs in the kernel may not end."""

PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
"""Where the system's Python is looked for: the first program in a sandbox runs on it."""


@dataclass(frozen=True, slots=True)
class Room:
    """What one program finds in its sandbox besides the system. Everything is read-only but what says otherwise."""

    tree: Path
    """Seen at /work, where the program starts."""
    writable: bool = False
    """The program may change the tree."""
    base: Path | None = None
    """Seen at /base."""
    notes: Path | None = None
    """Seen at /brief."""
    turn: Path | None = None
    """Seen at /turn: what this turn alone needs."""
    tool: Path | None = None
    """Seen at /opt/tool."""
    sessions: tuple[Path, str] | None = None
    """A folder that may be written, and where below HOME it is seen."""
    gateway: Path | None = None
    """The gateway's socket. Without it there is no network at all."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a program finds what its room holds."""

    tree: Path
    base: Path
    notes: Path
    turn: Path
    home: Path
    tmp: Path
    tool: Path
    api: str
    """The address of its model API."""


INSIDE = Places(TREE, BASE, NOTES, TURN, home=HOME, tmp=TMP, tool=TOOL, api=API)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How sandboxes are made on this machine."""

    bwrap: Path
    python: Path
    """A Python that is seen inside at the same place."""
    kit: Path
    """Our own files for the inside: `lay_out` writes them."""
    groups: cgroup.Place | None
    filter: bytes
    """The filter of system calls."""

    def places(self, _: Room) -> Places:
        """Return where things are inside, in every room alike."""
        return INSIDE

    async def run(self, spec: Program, room: Room, slot: Slot) -> Finished:
        """Run a program to its end in a sandbox of its own, as `worker.process.run` does outside.

        Its paths are those inside; its environment is what it names and no more; `spec.user` and `spec.pass_fds` play
        no part. Nothing of it is left when the call ends. Raises OSError where it cannot be started or does not end,
        and PermissionError with EPERM where it would be root (threats.md T17).
        """
        if (os.geteuid() if slot.user is None else slot.user) == 0:
            raise PermissionError(errno.EPERM, "a sandbox is never started as root")
        async with self._group() as group, _held(group) as first:
            with _memory_file(self.filter) as filter_fd:
                argv = self._argv(spec, room, filter_fd, first)
                outer = replace(
                    spec,
                    argv=tuple(argv),
                    cwd=Path("/"),
                    env={},  # threats.md T16: bubblewrap's own environment can be read inside
                    user=slot.user,
                    sealed=True,  # else what runs beside an agent could put words into its mouth
                    pass_fds=(filter_fd, first.started, first.released),
                    on_end=first.kill,
                )
                return await process.run(outer)

    @contextlib.asynccontextmanager
    async def _group(self) -> AsyncIterator[cgroup.Group | None]:
        """Make the control group of one sandbox; None where there are none on this machine."""
        if self.groups is None:
            yield None
            return
        group = cgroup.make(self.groups, cgroup.Limits(MEMORY_BYTES, PROCESSES))
        try:
            yield group
        finally:
            # Whoever waits may be cancelled; the group must go all the same, also where the thread has not begun. A
            # task of its own would be cancelled with all others where the loop is closed.
            await to_the_end(asyncio.get_running_loop().run_in_executor(None, group.remove))

    def _argv(self, spec: Program, room: Room, filter_fd: int, first: First) -> list[str | bytes]:
        """Return bubblewrap's command line."""
        limits = {"NOFILE": FILES, "CORE": 0, "FSIZE": FILE_BYTES}
        if self.groups is None:
            limits |= {"NPROC": PROCESSES, "AS": MEMORY_BYTES}
        argv: list[str | bytes] = [str(self.bwrap), *_WALLS, *self._system(), *_mounts(room)]
        # What is left of the root and of /dev lies in memory without a limit: nothing more is written there.
        argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(spec.cwd or TREE), "--clearenv"]
        for name, value in spec.env.items():
            argv += ["--setenv", name, value]
        if self.filter:
            argv += ["--seccomp", str(filter_fd)]
        argv += ["--info-fd", str(first.started), "--block-fd", str(first.released)]
        socket = f"{_GATEWAY}/{room.gateway.name}" if room.gateway else ""
        argv += ["--", str(self.python), "-I", "-S", _ENTER, json.dumps(limits), socket, str(PORT)]
        return [*argv, *spec.argv]

    def _system(self) -> list[str]:
        """Return the part that shows the system: its programs, and of /etc what they need."""
        etc = [word for name in KIT_ETC for word in ("--ro-bind", str(self.kit / "etc" / name), f"/etc/{name}")]
        python = [] if self.python.is_relative_to("/usr") else ["--ro-bind", *[str(self.python.parent.parent)] * 2]
        enter = ["--ro-bind", str(self.kit / "enter.py"), _ENTER]
        return [*_SYSTEM, *etc, *python, *enter]


_WALLS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--uid", str(USER), "--gid", str(USER), "--hostname", "sandbox"),
    *("--die-with-parent", "--new-session"),
)
_SYSTEM = (
    *("--ro-bind", "/usr", "/usr"),
    *(word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")),
    *("--proc", "/proc", "--dev", "/dev", "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
    *("--size", str(TMP_BYTES), "--tmpfs", str(TMP), "--size", str(TMP_BYTES), "--tmpfs", str(HOME)),
    *(
        word
        for name in ("alternatives", "ld.so.cache", "ssl/certs", "ssl/openssl.cnf", "mime.types")
        for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    ),
)
KIT_ETC = {
    "passwd": f"agent:x:{USER}:{USER}::{HOME}:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "group": f"agent:x:{USER}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""Our own /etc: the machine's says who else is there."""


def _mounts(room: Room) -> list[str]:
    """Return the part that shows what is of this run."""
    argv = ["--bind" if room.writable else "--ro-bind", str(room.tree), str(TREE)]
    seen = ((room.base, BASE), (room.notes, NOTES), (room.turn, TURN), (room.tool, TOOL))
    for folder, place in seen:
        if folder is not None:
            argv += ["--ro-bind", str(folder), str(place)]
    if room.sessions is not None:
        folder, place = room.sessions[0], HOME / room.sessions[1]
        argv += ["--bind", str(folder), str(place)]
    if room.gateway is not None:
        argv += ["--ro-bind", str(room.gateway.parent), _GATEWAY]
    return argv


# ---- Around a sandbox -----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _held(group: cgroup.Group | None) -> AsyncIterator[First]:
    """Hold a sandbox back until it is known and in its control group; at the end, see that nothing of it is left.

    Raises TimeoutError where the sandbox does not end.
    """
    first = First(group)
    try:
        yield first
    finally:
        await to_the_end(first.end())
    if first.remains:
        raise TimeoutError(f"a sandbox did not end within {END_SECONDS:g} s")


class First:
    """The first process inside, which is bubblewrap's child: with it, the kernel ends all others (pid_namespaces(7)).

    bubblewrap ends when the program does and waits for nobody; killed as it starts, it leaves its child running (both
    seen with 0.11). So the child is held by its pidfd, which tells of its end once all the others have ended.
    """

    def __init__(self, group: cgroup.Group | None) -> None:
        self.remains = False
        self._told, self.started = os.pipe()
        """`started`: where bubblewrap writes its child's number."""
        self.released, self._release = os.pipe()
        """`released`: what that child waits for before it becomes the program."""
        self._group = group
        self._said = bytearray()
        self._file: int | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._told, self._admit)

    def _admit(self) -> None:
        self._said += os.read(self._told, 4096)
        try:
            child = int(json.loads(self._said)["child-pid"])
        except ValueError:  # it writes its words one by one
            return
        self._loop.remove_reader(self._told)
        try:
            self._file = os.pidfd_open(child)
            if self._group is not None:
                self._group.add(child)
            os.write(self._release, b"1")
        except OSError:  # nothing runs without its limits
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def kill(self) -> None:
        """End it. A child that was not let go by now is still in bubblewrap's group, and ends with that."""
        self._loop.remove_reader(self._told)
        if self._file is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._file, signal.SIGKILL)

    async def end(self) -> None:
        """Return when nothing is left; `remains` tells where that was too long to wait for."""
        self.kill()
        try:
            if self._file is not None:
                gone = asyncio.Event()
                self._loop.add_reader(self._file, gone.set)
                self.remains = not await within(gone, END_SECONDS)
                self._loop.remove_reader(self._file)
                _reap(self._file)
                os.close(self._file)
        finally:
            for fd in (self._told, self.started, self.released, self._release):
                os.close(fd)


def _reap(pidfd: int) -> None:
    """Take an orphan off the list of processes where this one is whom orphans fall to, as the first in a container."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    """Yield a file in memory with some content, open at its beginning."""
    fd = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


class Unfit(Exception):  # noqa: N818 - it says what is the case
    """This machine can have no sandbox. ``str(error)`` says why, without a full stop."""

    def __init__(self, layer: str, sentence: str, repair: str) -> None:
        """`layer` is what is missing; `repair` says what the operator does about it."""
        super().__init__(sentence)
        self.layer = layer
        self.repair = repair


def lay_out(bwrap: Path, folder: Path) -> Sandbox:
    """Return how sandboxes are made here, with our own files for them written below a folder.

    Raises OSError where they cannot be written, and `Unfit`.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in seccomp.MACHINES:
        here = f"{platform.system()} on {machine}"
        sentence = f"agents start on Linux on {' and '.join(seccomp.MACHINES)}, and this is {here}"
        raise Unfit("platform", sentence, "run the worker on Linux; here, seat lint")
    python = _python()
    kit = folder / "kit"
    for made in (kit, kit / "etc"):
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(0o755)
    own = Path(__file__).with_name("inside")
    for name, text in {
        **{f"etc/{name}": text for name, text in KIT_ETC.items()},
        **{path.name: path.read_text("utf-8") for path in own.glob("*.py")},
    }.items():
        _put(kit / name, text)
    return Sandbox(bwrap, python, kit, cgroup.find(), seccomp.program(machine))


def _put(path: Path, text: str) -> None:
    """Write a file at once, and only where it differs: a sandbox may be starting with the one that is there."""
    if path.is_file() and path.read_text("utf-8") == text and path.stat().st_mode & 0o777 == 0o644:
        return
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.write_text(text, "utf-8")
    fresh.chmod(0o644)
    fresh.replace(path)


def _python() -> Path:
    """Return a Python that programs in a sandbox see at the same place. Raises `Unfit` where there is none.

    Without the system's, it is the one that this process runs on, where the sandbox's user can reach it.
    """
    for name in PYTHONS:
        if Path(name).exists():
            return Path(name)
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if own.exists() and all(each.stat().st_mode & 0o005 == 0o005 for each in own.parents):
        return own
    sentence = f"there is no Python that a sandbox could see: neither {' nor '.join(PYTHONS)}"
    raise Unfit("python", sentence, "install the system's Python (/usr/bin/python3)")
