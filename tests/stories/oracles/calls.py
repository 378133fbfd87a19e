"""What this process does by itself: whom it asks over the network (O8), and what it hands to programs (O1).

Python tells its audit hooks of every such call. A hook cannot be taken out again: it is put in once, and hears only
while somebody listens. It needs nothing but the standard library, since worker processes of stories use it, too.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from oracles.canaries import Canaries

LOOK_UPS = {
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyname_ex",
    "socket.gethostbyaddr",
}
SENDINGS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.exec"}
CREDENTIAL = "GIT_CONFIG_VALUE_"
"""Where git, and no other program, is given the token of one command (decisions.md 2.1)."""
WORKER = "mortal_worker.py"
"""A worker that is a process of its own: its settings come by its environment."""


class Calls:
    """Listens to the audit events of this process."""

    def __init__(self, canaries: Canaries, tell: Callable[[str, str], None]) -> None:
        """`tell` is called with the oracle and what it has found."""
        self.listening = False
        self._canaries = canaries
        self._tell = tell

    def begin(self) -> None:
        """Put the hook in. It stays until the process ends."""
        sys.addaudithook(self.hear)
        self.listening = True

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear of one event; events are those of Python's table of audit events."""
        if not self.listening:
            return
        if event in LOOK_UPS:
            self._met(event, arguments[0])
        elif event in SENDINGS:
            self._sent(event, *arguments[:2])
        elif event in STARTS:
            self._started(arguments[1], arguments[-1])

    def _met(self, event: str, host: object) -> None:
        if not on_this_machine(host):
            self._tell("O8", f"{event} {host!r}")

    def _sent(self, event: str, by: socket.socket, address: object) -> None:
        if by.family in {socket.AF_INET, socket.AF_INET6}:
            if isinstance(address, tuple):  # None: where the socket was connected to before
                self._met(event, address[0])
        elif by.family != socket.AF_UNIX:
            self._tell("O8", f"{event} {address!r} of family {by.family!r}")

    def _started(self, words: Iterable[Any], environment: Mapping[Any, Any] | None) -> None:
        argv = [os.fsencode(word) for word in words]
        name = PurePath(os.fsdecode(argv[0])).name
        for secret in self._canaries.within(b"\0".join(argv)):
            self._tell("O1", f"{secret} is an argument of {name}")
        if any(os.fsdecode(word).endswith(WORKER) for word in argv):
            return
        for key, value in (os.environ if environment is None else environment).items():
            if name == "git" and os.fsdecode(key).startswith(CREDENTIAL):
                continue
            for secret in self._canaries.within(os.fsencode(value)):
                self._tell("O1", f"{secret} is in the environment of {name}, as {os.fsdecode(key)}")


def on_this_machine(host: object) -> bool:
    """Tell whether a host is this machine."""
    name = os.fsdecode(host) if isinstance(host, bytes | str) else host
    if name is None or name == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(name)).is_loopback
    except ValueError:
        return False
