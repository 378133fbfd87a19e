"""Proves the sandbox before anything relies on it, and says what is missing where something is.

It owns the self-test (threats.md 4.7) and the sentences that name a missing layer and its repair: they stand on
``/healthz``, in the check run and in what the operator is told. No agent starts on a machine that fails it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from worker.process import Finished, Program
from worker.sandbox import HOME, PORT, SHARED_BYTES, TMP, TMP_BYTES, Room, Sandbox, Unfit, lay_out
from worker.slots import Slot, slot
from worker.sockets import bound
from worker.tools import INSTALL, ToolChanged, ToolMissing, pin

TEST_SECONDS = 20.0
NOWHERE = "192.0.2.1"
"""An address that nobody has (RFC 5737)."""


class IsolationMissing(Exception):  # noqa: N818 - it says what is the case
    """A layer of the isolation is missing. ``str(error)`` is a sentence without a full stop that names it."""

    def __init__(self, layer: str, sentence: str, repair: str) -> None:
        """`repair` says what the operator does about it."""
        super().__init__(sentence)
        self.layer = layer
        self.repair = repair


class Isolation:
    """The sandbox of one worker: made and proved when it is first needed, and proved again before each run."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the worker's state folder."""
        self._folder = folder
        self._sandbox: Sandbox | None = None

    @staticmethod
    def is_own_user() -> bool:
        """Return whether sandboxes run as this process's own user here, who sees whatever it sees."""
        return os.geteuid() != 0

    @property
    def slots(self) -> Path:
        """Return the folder in which users are taken."""
        return self._folder / "slots"

    async def prove(self, user: Slot) -> Sandbox:
        """Return the sandbox, after the cheap probes; the first time, and after a failure, after all of them.

        Raises `IsolationMissing`.
        """
        known = self._sandbox
        try:
            sandbox = await asyncio.to_thread(self._make) if known is None else known
            await _test(sandbox, self._folder, user, thorough=known is None)
        except IsolationMissing:
            self._sandbox = None
            raise
        except OSError as error:
            self._sandbox = None
            raise _unusable(error) from error
        self._sandbox = sandbox
        return sandbox

    async def lack(self) -> IsolationMissing | None:
        """Return what is missing here, or None."""
        try:
            with slot(self.slots) as user:
                await self.prove(user)
        except IsolationMissing as missing:
            return missing
        except OSError as error:
            return _unusable(error)
        return None

    def _make(self) -> Sandbox:
        try:
            return lay_out(_bwrap(self._folder / "tools"), self._folder)
        except Unfit as unfit:
            raise IsolationMissing(unfit.layer, str(unfit), unfit.repair) from unfit


def _bwrap(tools: Path) -> Path:
    """Return bubblewrap: the package's, else the system's where it is new enough. Raises `IsolationMissing`.

    One that was changed is no reason to take another: somebody did that.
    """
    try:
        return pin("bwrap", tools).path
    except ToolChanged as changed:
        raise IsolationMissing("bubblewrap", str(changed), changed.repair) from changed
    except ToolMissing as missing:
        found = shutil.which("bwrap")
        if found is None:
            sentence = f"bubblewrap cannot be used: {missing}"
            repair = f"{missing.repair}, or install the system's bubblewrap, 0.8 or newer"
            raise IsolationMissing("bubblewrap", sentence, repair) from missing
        return Path(found)


# ---- The self-test --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outside:
    """What the sandbox must not reach, put up for the test."""

    reached: list[tuple[str, object]]
    gateway: Path
    word: str


async def _test(sandbox: Sandbox, folder: Path, user: Slot, *, thorough: bool) -> None:
    """Run the probes in a sandbox. Raises `IsolationMissing` with the first that failed."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".probe-") as name:
        place = Path(name)
        await asyncio.to_thread(_lay_out, place, user)
        async with _outside(place / "gateway", user) as outside:
            facts = {
                "thorough": thorough,
                "not_paths": [str(folder), str(place), "/root", str(Path.home())],
                "not_reached": outside.reached,
                "sizes": {str(TMP): TMP_BYTES, str(HOME): TMP_BYTES, "/dev/shm": SHARED_BYTES},  # noqa: S108 - inside
                "port": PORT,
                "word": outside.word,
            }
            spec = Program((str(sandbox.python), "-I", "-S", "/turn/probe.py", json.dumps(facts)), seconds=TEST_SECONDS)
            room = Room(place / "tree", turn=sandbox.kit, gateway=outside.gateway)
            try:
                finished = await sandbox.run(spec, room, user)
            except OSError as error:
                raise _unstarted(error) from error
    _judge(finished)


def _lay_out(place: Path, user: Slot) -> None:
    place.chmod(0o711)
    for name in ("tree", "gateway"):
        (place / name).mkdir(mode=0o755)
    user.own(place / "tree")


def _judge(finished: Finished) -> None:
    words = finished.stderr.decode("utf-8", "replace").strip()
    try:
        seen = json.loads(finished.stdout)
    except ValueError:
        raise _diagnosis(words or f"it ended with status {finished.code}") from None
    for number, what in seen.items():
        if what:
            raise IsolationMissing(LAYERS[number], f"the sandbox has a hole: {what}", REPAIRS.get(number, LOOK))


LAYERS = {
    "1": "user",
    "2": "privileges",
    "3": "environment",
    "4": "files",
    "5": "mounts",
    "6": "user namespaces",
    "7": "seccomp",
    "8": "network",
    "9": "processes",
    "11": "process limit",
    "12": "memory limit",
    "13": "gateway",
    "14": "open files",
}
"""What each probe stands for."""
LOOK = "report it, with what the worker logged about it and the versions of the kernel and of bubblewrap"
REPAIRS = {"7": "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)"}
REACHABLE = "set CODEX_DEBATE_STATE_DIR to a folder that others may pass through, such as /var/lib/codex-debate"

_NO_USERNS = (
    "allow them: `sysctl -w kernel.unprivileged_userns_clone=1` (Debian), `kernel.apparmor_restrict_unprivileged_userns"
    "=0` or a profile for bwrap (Ubuntu), `user.max_user_namespaces` above 0; in Docker, `--security-opt seccomp=…`"
)
_SAID: tuple[tuple[str, str, str, str], ...] = (
    (
        r"No permissions to creat|Creating new namespace failed|setting up uid map|RTM_NEWADDR|unshare user ns",
        "user namespaces",
        "user namespaces are off for this user",
        _NO_USERNS,
    ),
    (
        r"Can't mount proc",
        "/proc",
        "no fresh /proc can be mounted, since this container masks its own",
        "start the container with `--security-opt systempaths=unconfined` (Kubernetes: `procMount: Unmasked`)",
    ),
    (
        r"SECCOMP",
        "seccomp",
        "the kernel takes no filter of system calls",
        "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)",
    ),
    (
        r"(Can't (find source path|get type of source)|execvp) \S+: (Permission denied|No such file)",
        "state folder",
        "the sandbox's user cannot reach the state folder",
        REACHABLE,
    ),
    (
        r"Unknown option",
        "bubblewrap",
        "the system's bubblewrap is older than 0.8",
        f"{INSTALL}, or install a newer one",
    ),
)
"""bubblewrap's own words (0.8 to 0.11, seen here or in its bubblewrap.c), and what they mean."""


def _diagnosis(words: str) -> IsolationMissing:
    """Return what it means that a sandbox did not start."""
    for pattern, layer, sentence, repair in _SAID:
        if re.search(pattern, words):
            return IsolationMissing(layer, sentence, repair)
    return IsolationMissing("sandbox", f"no sandbox starts here: {words.splitlines()[-1][:200]}", LOOK)


def _unstarted(error: OSError) -> IsolationMissing:
    """Return what it means that bubblewrap itself did not start."""
    match error.errno:
        case errno.EACCES:  # it lies in the state folder, and is started as the sandbox's user
            return IsolationMissing("state folder", "the sandbox's user cannot reach the state folder", REACHABLE)
        case errno.EPERM:
            return IsolationMissing("user", str(error.strerror), LOOK)
        case _:
            return IsolationMissing("bubblewrap", f"no sandbox can be started ({error.strerror or error})", LOOK)


def _unusable(error: OSError) -> IsolationMissing:
    """Return what it means that the test could not be made ready."""
    sentence = f"the state folder cannot be used ({error.strerror or error})"
    return IsolationMissing("state folder", sentence, "see that CODEX_DEBATE_STATE_DIR can be written, and has room")


@contextlib.asynccontextmanager
async def _outside(folder: Path, user: Slot) -> AsyncIterator[_Outside]:
    """Put up what must and what must not be reached: a gateway; a local, an abstract and a distant address."""
    word = secrets.token_hex(8)
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{word}")
        abstract.listen()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(word.encode())
            await writer.drain()
            writer.close()

        path = folder / "api.sock"
        server = await asyncio.start_unix_server(answer, sock=bound(folder, path.name, user=user.user))
        try:
            reached: list[tuple[str, object]] = [
                ("inet", ("127.0.0.1", tcp.getsockname()[1])),
                ("inet", (NOWHERE, 80)),
                ("abstract", word),
            ]
            yield _Outside(reached, path, word)
        finally:
            server.close()
            await server.wait_closed()
