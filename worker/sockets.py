"""Unix sockets in folders whose names may be long, for one user alone."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")


def bound(folder: Path, name: str, *, user: int | None = None) -> socket.socket:
    """Return a socket that lies in a folder and that only its owner can open: `user`, by number, or this process's.

    The folder becomes the owner's too. Raises OSError.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short(folder) as place:
            made.bind(f"{place}/{name}")
        (folder / name).chmod(0o600)
        if user is not None:
            os.chown(folder / name, user, user)
            os.chown(folder, user, user)
        made.settimeout(0)
    except BaseException:
        made.close()
        raise
    return made


@contextlib.contextmanager
def short(folder: Path) -> Iterator[str]:
    """Yield a short name of a folder: a socket's whole path has at most 107 bytes (unix(7)), a state folder's not."""
    own = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_OPEN_FILES}/{own}" if _OPEN_FILES.is_dir() else str(folder)
    finally:
        os.close(own)
