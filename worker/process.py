"""The one place that starts programs.

It owns a program's whole life: its process group, its exact environment, its time and output limits, and its end. Every
program is gone, with the children that it left in its group, when a function here returns. It never uses a shell, never
passes on this process's environment, and knows nothing of what it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from worker.child import Child
from worker.waits import to_the_end, within

MIB = 1024 * 1024
CHUNK = 256 * 1024
"""Bytes that are read of an output at once."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run. `env` is its whole environment; without ``PATH`` a bare name is sought in the system's own."""

    argv: tuple[str | bytes, ...]
    cwd: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    seconds: float = 60.0
    """The wall limit. When it is over, the group gets SIGTERM, and SIGKILL after `grace`."""
    output_cap: int = 8 * MIB
    """Bytes of standard output, and of standard error, that are kept. One more, and the program is killed."""
    on_line: Callable[[bytes], bool | None] | None = None
    """Called for every line of standard output as it arrives, without its newline. True: it was the program's last
    word, and a program that has not ended by itself `grace` later is ended. What it raises ends the program."""
    on_end: Callable[[], None] | None = None
    """Called once the program itself has ended, before what it left is waited for."""
    grace: float = 2.0
    """Seconds between SIGTERM and SIGKILL; also the longest wait for output that an escaped child keeps open."""
    user: int | None = None
    """The user and group, by number, that the program runs as; None: those of this process."""
    pass_fds: tuple[int, ...] = ()
    """Open files that the program gets besides its three."""
    sealed: bool = False
    """Nobody but those who were handed it can write to the program's output. A pipe is opened anew through /proc by
    whatever runs as its owner, a socket is not (proc(5): ENXIO)."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int | None
    """The exit status; negative: the signal that ended it; None: it was ended from here (`timed_out`, `cut` or
    `lingered`)."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    lingered: bool = False
    """It had said its last word, and did not end."""
    cut: bool = False
    """It wrote more than `output_cap`, and was killed for it."""
    seconds: float = 0.0


async def run(spec: Program) -> Finished:
    """Run a program to its end and return how it ended. Raises OSError where it cannot be started.

    Cancelling the call ends the program (SIGTERM, after `grace` SIGKILL) before the cancellation goes on.
    """
    began = time.monotonic()
    with started(spec, stdin=subprocess.PIPE if spec.stdin else subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        session = _Session(spec, child)
        try:
            await session.connect()
            await session.wait()
        finally:
            await to_the_end(session.end())
    if session.fault is not None:
        raise session.fault
    ended_here = session.timed_out or session.cut or session.lingered
    return Finished(
        code=None if ended_here else child.code,
        stdout=bytes(session.outputs[0].kept),
        stderr=bytes(session.outputs[1].kept),
        timed_out=session.timed_out,
        lingered=session.lingered,
        cut=session.cut,
        seconds=time.monotonic() - began,
    )


# ---- One child ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(spec: Program, *, stdin: int, stderr: int | IO[bytes]) -> Iterator[Child]:
    """Start a program, yield it, and close what is open of it. Raises OSError where it cannot be started."""
    with contextlib.ExitStack() as stack:
        ours, theirs = _sealed(stack) if spec.sealed else (None, None)
        popen = subprocess.Popen(  # noqa: S603 - argv lists only, never a shell; what is run is the caller's part
            spec.argv,
            cwd=spec.cwd,
            env=spec.env,
            stdin=stdin,
            stdout=theirs.fileno() if theirs else subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            close_fds=True,
            pass_fds=spec.pass_fds,
            user=spec.user,
            group=spec.user,
            extra_groups=None if spec.user is None else (),
        )
        if theirs is not None:
            theirs.close()
            popen.stdout = ours
        try:
            yield Child(popen)
        finally:
            for stream in (popen.stdin, popen.stdout, popen.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


def _sealed(stack: contextlib.ExitStack) -> tuple[IO[bytes], socket.socket]:
    """Return the two ends of an output that nobody else can open, the reading one first."""
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    return stack.enter_context(os.fdopen(ours.detach(), "rb", buffering=0)), theirs


def gone(child: Child) -> asyncio.Event:
    """Return an event of this loop that is set when a child has ended."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(event.set)

    child.when_gone(tell)
    return event


# ---- One run --------------------------------------------------------------------------------------------------------


class _Output:
    """What one output has given so far."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.line = bytearray()
        self.open = True


class _Session:
    """A program in the loop's care: reads both outputs, feeds the input, watches the clock and the end."""

    def __init__(self, spec: Program, child: Child) -> None:
        self.spec = spec
        self.child = child
        self.outputs = (_Output(), _Output())
        self.timed_out = False
        self.lingered = False
        self.cut = False
        self.fault: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()  # the program is to be ended: a limit was reached, or a line was not taken
        self._said = asyncio.Event()  # the program has said its last word
        self._gone = gone(child)
        self._drained = asyncio.Event()
        self._rest = memoryview(spec.stdin)

    async def connect(self) -> None:
        popen = self.child.popen
        for stream in (popen.stdout, popen.stderr, popen.stdin):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        if popen.stdin is not None:
            self._loop.add_writer(popen.stdin.fileno(), self._write)
        for output, stream in zip(self.outputs, (popen.stdout, popen.stderr), strict=True):
            if stream is not None:
                self._loop.add_reader(stream.fileno(), self._read, stream, output)

    async def wait(self) -> None:
        """Return when the program has ended, its time is over, a limit was reached, or it lingers."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._gone, self._stop, self._said)]
        try:
            done, _ = await asyncio.wait(waits, timeout=self.spec.seconds, return_when=asyncio.FIRST_COMPLETED)
            self.timed_out = not done
            if done == {waits[2]}:
                done, _ = await asyncio.wait(waits[:2], timeout=self.spec.grace, return_when=asyncio.FIRST_COMPLETED)
                self.lingered = not done
        finally:
            for wait in waits:
                wait.cancel()

    async def end(self) -> None:
        """End what is left of the program, then take what its outputs still hold."""
        if not self._gone.is_set():
            self.child.kill(signal.SIGTERM)
            if not await within(self._gone, self.spec.grace):
                self.child.kill(signal.SIGKILL)
                await self._gone.wait()
        if self.spec.on_end is not None:
            self.spec.on_end()
        # The group is dead. An output that stays open belongs to a child that left it: that is not waited for long.
        if any(output.open for output in self.outputs):
            await within(self._drained, self.spec.grace)
        popen = self.child.popen
        for stream, output in zip((popen.stdout, popen.stderr), self.outputs, strict=True):
            self._close(stream, output)
        self._close_input()
        self._tell(self.outputs[0], b"", last=True)

    def _write(self) -> None:
        stdin = self.child.popen.stdin
        if stdin is None:  # pragma: no cover - it is written to only where there is one
            return
        try:
            self._rest = self._rest[os.write(stdin.fileno(), self._rest[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # the program does not want the rest
            self._rest = self._rest[:0]
        if not self._rest:
            self._close_input()

    def _close_input(self) -> None:
        stdin = self.child.popen.stdin
        if stdin is not None and not stdin.closed:
            self._loop.remove_writer(stdin.fileno())
            with contextlib.suppress(OSError):
                stdin.close()

    def _read(self, stream: IO[bytes], output: _Output) -> None:
        try:
            data = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(stream, output)
            return
        room = self.spec.output_cap - len(output.kept)
        output.kept += data[:room]
        if output is self.outputs[0]:
            self._tell(output, data[:room])
        if len(data) > room:
            self.cut = True
            self._stop.set()

    def _tell(self, output: _Output, data: bytes, *, last: bool = False) -> None:
        """Hand on the lines that are whole by now; at the end, the last one also without its newline."""
        if self.spec.on_line is None or self.fault is not None:
            return
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(output.line) + lines[0]
            output.line.clear()
        output.line += rest
        if last and output.line:
            lines.append(bytes(output.line))
        try:
            for line in lines:
                if self.spec.on_line(line):
                    self._said.set()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends first and `run` raises it
            self.fault = error
            self._stop.set()

    def _close(self, stream: IO[bytes] | None, output: _Output) -> None:
        if output.open and stream is not None:
            output.open = False
            self._loop.remove_reader(stream.fileno())
        if not any(each.open for each in self.outputs):
            self._drained.set()
