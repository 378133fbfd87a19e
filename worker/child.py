"""One started program: its group, and the thread that waits for its end.

It owns that a signal reaches no group but the program's own, and that its children in that group end with it. Which
program it is, and how it is started, is `worker/process.py`'s.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable


class Child:
    """A started program, which leads a group of its own."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.gone = threading.Event()
        self.code = 0
        self._lock = threading.Lock()
        self._reaped = False
        self._callbacks: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._watch, name=f"wait-{popen.pid}", daemon=True)
        self._thread.start()

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, as long as its leader is ours to name."""
        with self._lock:
            if not self._reaped:
                self._signal(number)

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back, in the waiting thread, when the program has ended; at once where it has."""
        with self._lock:
            if not self.gone.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def _watch(self) -> None:
        # The leader stays a zombie while its group is killed: only so is its number certainly still the group's.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:
                self._signal(signal.SIGKILL)
                self.code = self.popen.wait()
                self._reaped = True
        else:  # pragma: no cover - macOS
            code = self.popen.wait()
            with self._lock:
                self.code = code
                self._signal(signal.SIGKILL)
                self._reaped = True
        with self._lock:
            self.gone.set()
            callbacks = self._callbacks
        for callback in callbacks:
            callback()

    def _signal(self, number: signal.Signals) -> None:
        # PermissionError: macOS says so of a group of which only zombies are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)
