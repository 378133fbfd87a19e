"""Tries to change what a program in a sandbox must not change; prints where it could, and what else it could do.

``walls.py NAME PLACE…``: a file of this name is made in each of the sandbox's places, and in those of the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 32, 4096, 16384, 1 << 18, 2
NEWUSER, NEWNS = 0x10000000, 0x20000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
HERE = -100
"""linux/mount.h, linux/sched.h, linux/fcntl.h (AT_FDCWD), and the numbers that these calls have on all processors."""
PLACES = (
    *("/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/opt", "/opt/tool", "/run", "/run/gateway", "/home", "/proc"),
    *("/dev", "/dev/shm", "/tmp", "/home/agent", "/work", "/base", "/brief", "/turn", "/work/..", "/proc/1/root/usr"),
)
SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sysrq-trigger",
    "/proc/sys/vm/drop_caches",
)
MOUNTED = ("/", "/usr", "/work", "/base", "/brief", "/turn", "/opt/tool", "/run/gateway", "/etc/passwd")
PROGRAMS = (
    *("mount -o remount,rw,bind /usr", "mount -t tmpfs none /tmp", "mount --bind /tmp /etc", "umount -l /usr"),
    *("unshare --user --map-root-user true", "unshare --mount true", "nsenter --target 1 --mount true"),
    *("nsenter --target 1 --user true", "chroot / true", "su -c true", "mknod /tmp/disk b 8 0", "swapoff -a"),
)

libc = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> int:
    name, *others = argv
    written = [place for place in (*PLACES, *others) if writes(Path(place, name))]
    could = [what for what, attempt in attempts().items() if attempt()]
    could += [line for line in PROGRAMS if runs(line)]
    sys.stdout.write(json.dumps({"written": written, "done": could}) + "\n")
    return 0


def writes(path: Path) -> bool:
    """Try to make a file."""
    try:
        path.write_text("changed")
    except OSError:
        return False
    return True


def attempts() -> dict[str, Callable[[], bool]]:
    """Return what is tried by system calls: each tells whether it could be done."""
    tried: dict[str, Callable[[], bool]] = {}
    for place in MOUNTED:
        where = place.encode()
        tried |= {
            f"remount {place}": partial(mounted, b"none", where, MS_REMOUNT | MS_BIND),
            f"remount all of {place}": partial(mounted, b"none", where, MS_REMOUNT),
            f"private {place}": partial(mounted, b"none", where, MS_PRIVATE | MS_REC),
            f"bind over {place}": partial(mounted, b"/tmp", where, MS_BIND),
            f"unmount {place}": partial(done, "umount2", where, MNT_DETACH),
            f"open_tree {place}": partial(done, "syscall", OPEN_TREE, HERE, where, 1),
        }
    tried |= {f"setns {kind}": partial(entered, kind) for kind in ("mnt", "user", "net", "pid")}
    tried |= {f"open {path}": partial(opens, path) for path in SETTINGS}
    return tried | {
        "mount_setattr": partial(done, "syscall", MOUNT_SETATTR, HERE, b"/usr", 0, None, 0),
        "move_mount": partial(done, "syscall", MOVE_MOUNT, HERE, b"/tmp", HERE, b"/etc", 0),
        "a user namespace": partial(apart, NEWUSER),
        "a mount namespace": partial(apart, NEWNS),
        "both": partial(apart, NEWUSER | NEWNS),
        "chroot": partial(done, "chroot", b"/tmp"),
        "pivot_root": partial(done, "syscall", PIVOT_ROOT[os.uname().machine], b"/tmp", b"/tmp"),
        "become root": partial(done, "setuid", 0),
        "be another": partial(done, "setuid", 60_800),
    }


def done(call: str, *arguments: object) -> bool:
    """Make a call of the C library and tell whether it was let through."""
    return bool(getattr(libc, call)(*arguments) >= 0)


def mounted(what: bytes, where: bytes, flags: int) -> bool:
    return done("mount", what, where, None, flags, None)


def entered(kind: str) -> bool:
    """Try to enter a namespace of the first process."""
    try:
        file = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
    except OSError:
        return False
    try:
        return done("setns", file, 0)
    finally:
        os.close(file)


def apart(flags: int) -> bool:
    """Try to make namespaces, in a child: what it got would be this program's else."""
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(flags) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def opens(path: str) -> bool:
    """Try to open a setting of the kernel for writing."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def runs(line: str) -> bool:
    """Try a program, where there is one."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(line.split(), capture_output=True, check=False, timeout=5).returncode == 0
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
