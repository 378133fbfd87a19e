"""The filter of system calls that every sandbox is started with: a table, and the program that it becomes. Pure.

It owns what is refused and how: calls that reach parts of the kernel which no agent needs (threats.md T18), sockets of
any family but the local and the internet ones, and new namespaces. What is not in the table the other layers stop.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

# ---- The table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor's name in the kernel's audit records, and its numbers of system calls."""

    audit: int
    """AUDIT_ARCH_*, of linux/audit.h."""
    numbers: dict[str, int]
    """Of arch/*/syscall tables of Linux; a call that this processor never had is absent."""
    foreign: int | None = None
    """Numbers from here on are those of another interface (x32), and refused."""


_X86_64 = {
    "ptrace": 101,
    "syslog": 103,
    "pivot_root": 155,
    "chroot": 161,
    "acct": 163,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_ARM64 = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "move_pages": 239,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
_SINCE_2019 = {
    # One number on all processors (Linux 5.1 and later).
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
MACHINES = {
    "x86_64": Machine(0xC000003E, _X86_64 | _SINCE_2019, foreign=0x40000000),
    "aarch64": Machine(0xC00000B7, _ARM64 | _SINCE_2019),
}
"""The processors that a sandbox runs on (decisions.md 3.9), by `platform.machine()`."""

_SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}
"""socket and socketpair."""
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_FALLOCATE = {"x86_64": 285, "aarch64": 47}
_IOCTL = {"x86_64": 16, "aarch64": 29}

FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK (which libraries ask for the interfaces that there are)."""
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEW* of linux/sched.h that clone takes: mounts, cgroups, names, messages, users, processes, network."""
TERMINAL_TRICKS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they put words into a terminal's mouth."""

# ---- The program ----------------------------------------------------------------------------------------------------

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
"""Offsets in struct seccomp_data; an argument's lower half is eight bytes behind that of the one before it."""
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def program(machine: str) -> bytes:
    """Return the filter for a processor, as bubblewrap's ``--seccomp`` reads it. Raises KeyError on an unknown one."""
    known = MACHINES[machine]
    refuse, absent = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    body = [_op(_LOAD, _ARCH), _op(_EQUAL, known.audit, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    if known.foreign is not None:
        body += [_op(_AT_LEAST, known.foreign, 0, 1), _op(_RETURN, refuse)]
    for number in sorted(known.numbers.values()):
        body += [_op(_EQUAL, number, 0, 1), _op(_RETURN, refuse)]
    # It takes a whole disk in a moment, before anybody can look; every library writes where it is not there.
    body += [_op(_EQUAL, _FALLOCATE[machine], 0, 1), _op(_RETURN, _ERROR | errno.EOPNOTSUPP)]
    # Its flags lie in memory, which no filter can read; every library falls back on clone.
    body += [_op(_EQUAL, _CLONE3, 0, 1), _op(_RETURN, absent)]
    body += [_op(_EQUAL, _CLONE[machine], 0, 3), _op(_LOAD, _ARGUMENT), _op(_ANY_BIT, NEW_NAMESPACES, 0, 1)]
    body += [_op(_RETURN, refuse), _op(_LOAD, _NUMBER)]
    body += _words(_IOCTL[machine], 1, TERMINAL_TRICKS, found=refuse, other=_ALLOW)
    for call in _SOCKETS[machine]:
        body += _words(call, 0, FAMILIES, found=_ALLOW, other=_ERROR | errno.EAFNOSUPPORT)
    return b"".join([*body, _op(_RETURN, _ALLOW)])


def _words(call: int, argument: int, words: tuple[int, ...], *, found: int, other: int) -> list[bytes]:
    """Return the part that looks at one argument of a call: one result for the words, another for all else."""
    inner = [_op(_LOAD, _ARGUMENT + 8 * argument)]
    for word in words:
        inner += [_op(_EQUAL, word, 0, 1), _op(_RETURN, found)]
    inner.append(_op(_RETURN, other))
    return [_op(_EQUAL, call, 0, len(inner)), *inner]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction (struct sock_filter)."""
    return struct.pack("HBBI", code, if_true, if_false, value)
