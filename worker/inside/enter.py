"""The first program in a sandbox: sets the limits, opens the way to the gateway, starts what is to run, and stays.

``enter.py LIMITS SOCKET PORT PROGRAM ARGUMENT…``. LIMITS is JSON, the names of RLIMIT_* with their values. SOCKET is
where the gateway's socket is seen, or empty: then nothing is forwarded. It exits as the program does; a program that a
signal ended becomes 128 and the signal's number, as in shells. It trusts nothing that comes through: it copies bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
import threading
import time

CHUNK = 256 * 1024
WAITING = 512
"""Connections that may wait to be taken."""
NOT_STARTED = 127
"""The exit status where the program cannot be started, as in shells."""
SIGNALLED = 128
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these two, and a program would go on doing so: in ``yes | head`` the first would not be ended."""
PAUSE = 0.05
"""Seconds before the next try where no connection can be taken."""


def main(argv: list[str]) -> int:
    """Run the program to its end and return the exit status."""
    limits, gateway, port, *command = argv
    for name, value in json.loads(limits).items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, most = resource.getrlimit(number)
        wanted = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (wanted, wanted))
    if gateway:
        forward(gateway, int(port))
    try:
        child = os.posix_spawn(command[0], command, os.environ, setsigdef=IGNORED)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        return NOT_STARTED
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code


def forward(gateway: str, port: int) -> socket.socket:
    """Take connections on this network's only address, and join each to one of the gateway's; return the listener."""
    listener = socket.create_server(("127.0.0.1", port), backlog=WAITING)
    threading.Thread(target=_take, args=(listener, gateway), daemon=True).start()
    return listener


def _take(listener: socket.socket, gateway: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # closed, or no file is left: then it waits until one is
            if listener.fileno() < 0:
                return
            time.sleep(PAUSE)
            continue
        try:
            threading.Thread(target=_join, args=(client, gateway), daemon=True).start()
        except RuntimeError:  # no process is left, and a thread is one
            client.close()


def _join(client: socket.socket, gateway: str) -> None:
    """Join a connection to a new one of the gateway's until both have ended; where that cannot be, end it."""
    with client, contextlib.suppress(OSError, RuntimeError), socket.socket(socket.AF_UNIX) as server:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.connect(gateway)
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join()


def _copy(one: socket.socket, other: socket.socket) -> None:
    """Copy what comes from one to the other, and tell it the end. Where that fails, both have ended."""
    try:
        while data := one.recv(CHUNK):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
