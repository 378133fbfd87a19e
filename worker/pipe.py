"""A program's pipes, for code that runs in a thread and streams more than memory should hold.

It owns how long such code and its program are at work together, and that both have ended when the call ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from worker.child import Child
from worker.process import Program, gone, started
from worker.waits import to_the_end

T = TypeVar("T")

ERRORS_KEPT = 64 * 1024
"""Bytes of standard error that `Pipe.errors` gives back."""


class Pipe:
    """A running program's pipes, for code that runs in a thread and streams more than memory should hold."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], child: Child, errors: IO[bytes]) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self._child = child
        self._errors = errors

    def finish(self) -> int:
        """Close the program's standard input, wait for its end and return its exit status."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self._child.gone.wait()
        return self._child.code

    def errors(self) -> bytes:
        """Return the beginning of what the program wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read(ERRORS_KEPT)


async def pipe(spec: Program, use: Callable[[Pipe], T]) -> T:
    """Start a program, call `use` with its pipes in a thread, end the program, and return what `use` returned.

    `spec.stdin`, `output_cap` and `on_line` play no part. Raises TimeoutError when `seconds` are over, OSError where
    the program cannot be started, and whatever `use` raises. On cancellation the program is killed and the thread
    awaited, so that `use` is not at work any more when the call ends: it sees its pipes close.
    """
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as errors, started(spec, stdin=subprocess.PIPE, stderr=errors) as child:
        stdin, stdout = child.popen.stdin, child.popen.stdout
        if stdin is None or stdout is None:  # pragma: no cover - both were asked for
            raise OSError("a program was started without its pipes")
        timed_out: list[bool] = []

        def give_up() -> None:
            timed_out.append(True)
            child.kill(signal.SIGKILL)

        timer = loop.call_later(spec.seconds, give_up)
        work = asyncio.ensure_future(asyncio.to_thread(use, Pipe(stdin, stdout, child, errors)))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            child.kill(signal.SIGKILL)
            await to_the_end(asyncio.wait([work]))
            if work.done() and not work.cancelled():
                work.exception()  # it is the cancellation's doing, and told to nobody
            raise
        except Exception as error:
            if timed_out:
                raise TimeoutError(_too_long(spec)) from error
            raise
        finally:
            timer.cancel()
            child.kill(signal.SIGKILL)
            await to_the_end(gone(child).wait())
    if timed_out:
        raise TimeoutError(_too_long(spec))
    return result


def _too_long(spec: Program) -> str:
    return f"{Path(os.fsdecode(spec.argv[0])).name} took longer than {spec.seconds:g} s"
