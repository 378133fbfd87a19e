"""Tries, inside a sandbox, what must not be possible there; prints what was possible after all.

``probe.py FACTS`` with FACTS as JSON (`worker/isolation.py` writes it): what a run must not see or reach. It prints one
JSON object: the number of each probe (threats.md 4.7), and what was seen; an empty text where the wall held.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, CLONE_NEWUSER = 2, 4, 32, 4096, 0x10000000
"""linux/mount.h and linux/sched.h."""
FAMILIES = {"AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40}
NOBODY = 65534
"""/proc/sys/kernel/overflowuid: the owner of files whose owner has no number in here."""
OWN_NAMES = {"PWD", "LC_CTYPE"}
"""What bubblewrap and Python set by themselves."""
SECONDS = 0.5
"""For so long a connection is tried."""
MOST_FORKS = 1000

Facts = dict[str, Any]


def main(argv: list[str]) -> int:
    """Try each probe and print the results."""
    facts: Facts = json.loads(argv[0])
    tried = {**CHEAP, **(DEAR if facts["thorough"] else {})}
    seen = {number: probe(facts) for number, probe in tried.items()}
    sys.stdout.write(json.dumps(seen) + "\n")
    return 0


# ---- Who and what ---------------------------------------------------------------------------------------------------


def user(_: Facts) -> str:
    """Probe 1: it runs as the run's own user: whom nobody knows here is nobody, and root is one of them."""
    if os.getuid() == 0 or Path("/usr").stat().st_uid != NOBODY:
        return "it runs as root of this machine"
    return "" if Path("/work").stat().st_uid == os.getuid() else "it does not run as the run's own user"


def privileges(_: Facts) -> str:
    """Probe 2: no capabilities, and no way to get any."""
    lines = Path("/proc/self/status").read_text("utf-8", "replace").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    wanted = {"CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    return ", ".join(f"{name} is {status.get(name)}" for name, value in wanted.items() if status.get(name) != value)


def environments(_: Facts) -> str:
    """Probe 3: no process's environment holds anything but what it was started with, and the first one's nothing."""
    for process in _processes():
        try:
            words = (Path("/proc") / process / "environ").read_bytes()
        except OSError:
            continue
        names = {word.partition(b"=")[0].decode("utf-8", "replace") for word in words.split(b"\0") if word}
        if (process == "1" and names) or names - OWN_NAMES:
            return f"the environment of process {process} holds {min(names - OWN_NAMES, default='a word')}"
    return ""


def files(_: Facts) -> str:
    """Probe 4: what is to be read is not to be written, whoever owns it."""
    places = ("/usr", "/etc", "/work", "/opt", "/", "/dev")
    return next((f"{place} can be written" for place in places if _writable(place)), "")


def _writable(place: str) -> bool:
    if not os.statvfs(place).f_flag & os.ST_RDONLY:
        return True
    try:
        file = os.open(f"{place}/probe", os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError:
        return False
    os.close(file)
    return True


def others(facts: Facts) -> str:
    """Probes 9 and 10: no processes and no files but its own."""
    if len(_processes()) > 5:
        return "processes of others can be seen"
    found = [path for path in facts["not_paths"] if os.path.lexists(path)]
    return f"{found[0]} can be seen" if found else ""


def open_files(_: Facts) -> str:
    """Probe 14: nothing is open but the three outputs and inputs."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - the listing is itself one of them
    return f"file {max(found)} is open" if len([each for each in found if each > 2]) > 1 else ""


# ---- The kernel -----------------------------------------------------------------------------------------------------


def remount(_: Facts) -> str:
    """Probe 5: no mount can be changed."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV
    anew = libc.mount(b"none", b"/usr", None, flags, None) == 0
    return "/usr was mounted anew, to be written" if anew else ""


def namespaces(_: Facts) -> str:
    """Probe 6: no further user namespace can be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        os._exit(1 if libc.unshare(CLONE_NEWUSER) == 0 else 0)
    status = os.waitpid(child, 0)[1]
    return "a new user namespace could be made" if os.waitstatus_to_exitcode(status) else ""


def system_calls(_: Facts) -> str:
    """Probes 2 and 7: the filter of system calls is in force, and no socket leads past the network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Without flags it does nothing and is refused by nobody but the filter: not every kernel has the families.
    if libc.unshare(0) == 0:
        return "the filter of system calls is not in force"
    for name, number in FAMILIES.items():
        try:
            socket.socket(number, socket.SOCK_RAW if name == "AF_PACKET" else socket.SOCK_STREAM).close()
        except OSError:
            continue
        return f"a socket of the family {name} could be opened"
    return ""


# ---- The network ----------------------------------------------------------------------------------------------------


def network(facts: Facts) -> str:
    """Probe 8: nobody can be reached."""
    for family, address in facts["not_reached"]:
        target = f"\0{address}" if family == "abstract" else tuple(address)
        kind = socket.AF_UNIX if family == "abstract" else socket.AF_INET
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.settimeout(SECONDS)
            try:
                probe.connect(target)
            except OSError:
                continue
        return f"{address} can be reached"
    return ""


def gateway(facts: Facts) -> str:
    """Probe 13: the gateway answers, and nobody else does."""
    try:
        with socket.create_connection(("127.0.0.1", facts["port"]), timeout=5) as way:
            way.sendall(b"probe\n")
            said = way.recv(100)
    except OSError as error:
        return f"the gateway cannot be reached ({error.strerror or error})"
    if not said:
        return "the gateway cannot be reached (the connection ends)"
    return "" if said == facts["word"].encode() else "somebody else answers for the gateway"


# ---- Limits ---------------------------------------------------------------------------------------------------------


def forks(_: Facts) -> str:
    """Probe 11: the number of processes ends."""
    children: list[int] = []
    try:
        while len(children) < MOST_FORKS:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        return ""
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
    return f"{len(children)} processes could be started"


def memory_files(facts: Facts) -> str:
    """Probe 12: what lies in memory has a size."""
    for place, size in facts["sizes"].items():
        path = Path(place) / "probe"
        with path.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size + 1)
            except OSError:
                continue
            finally:
                path.unlink()
        return f"{place} holds more than {size} bytes"
    return ""


def _processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


CHEAP: dict[str, Callable[[Facts], str]] = {
    "1": user,
    "2": privileges,
    "3": environments,
    "4": files,
    "5": remount,
    "7": system_calls,
    "8": network,
    "9": others,
    "13": gateway,
    "14": open_files,
}
"""Tried before each run. The first of them that failed is told."""
DEAR: dict[str, Callable[[Facts], str]] = {"6": namespaces, "11": forks, "12": memory_files}
"""Tried at the worker's start."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
