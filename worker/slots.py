"""The users that sandboxes run as: one for each run that a machine debates at a time.

Owns the numbers and who has which. A worker that is root gives every run a user of its own, so that limits which the
kernel counts by user are a run's own, and no run could see another's files even outside its sandbox. Any other worker
has only itself to give.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FIRST_USER = 60_800
"""The first of the users. Nobody has these numbers: systemd.io/UIDS-GIDS leaves 60706 to 61183 free."""
USERS = 256


@dataclass(frozen=True, slots=True)
class Slot:
    """A user to run as."""

    user: int | None
    """Its number, and its group's; None: this process's own."""

    def own(self, folder: Path, *, deep: bool = False) -> None:
        """Give a folder to the user, `deep`: with all in it. Raises OSError. Links are given, never followed."""
        if self.user is None:
            return
        os.chown(folder, self.user, self.user, follow_symlinks=False)
        for root, folders, files in os.walk(folder) if deep else ():
            for name in (*folders, *files):
                os.chown(Path(root, name), self.user, self.user, follow_symlinks=False)

    def admit(self, folder: Path) -> None:
        """Let the user, and nobody else, pass through a folder of ours to what lies in it. Raises OSError."""
        if self.user is None:
            folder.chmod(0o700)
            return
        os.chown(folder, -1, self.user)
        folder.chmod(0o710)


@contextlib.contextmanager
def slot(folder: Path) -> Iterator[Slot]:
    """Take a user that no other run has, on this machine and with this folder. Raises OSError where none is free."""
    if os.geteuid() != 0:
        yield Slot(None)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(USERS):
        file = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        try:
            yield Slot(FIRST_USER + number)
        finally:
            os.close(file)
        return
    raise OSError(f"all {USERS} users for sandboxes are taken")
