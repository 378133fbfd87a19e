"""Looks for secrets wherever a program in a sandbox can look; prints each with its place, and how much was read.

``hunt.py WORD…``: the words are only there to be found, among its own arguments. The expression does not match itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SECRET = re.compile(rb"c[a]nary-[0-9a-f]{16}")
FILE_BYTES = 1 << 20
MEMORY_BYTES = 64 << 20
"""Of one file, and of one process."""
PASSED_OVER = {"/usr", "/proc", "/opt/tool"}
"""The machine's programs and the agent's own are the packages' files; processes are looked at one by one."""
KERNEL = ("/proc/kcore", "/proc/kmsg", "/proc/vmcore", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/sys")
"""Where all of the machine's memory and words would be found."""


def main() -> int:
    found: dict[str, set[str]] = {}
    read: Counter[str] = Counter()
    for kind, place, content in (*in_processes(), *in_files(), *in_the_kernel()):
        read[kind] += len(content)
        for secret in SECRET.findall(content):
            found.setdefault(secret.decode(), set()).add(place)
    first = len(Path("/proc/1/environ").read_bytes())
    told = {secret: sorted(places) for secret, places in found.items()}
    sys.stdout.write(json.dumps({"found": told, "read": read, "first": first}) + "\n")
    return 0


def in_processes() -> Iterator[tuple[str, str, bytes]]:
    """Yield what is known of every process: its files in /proc, its open files, and its memory where that opens."""
    for process in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        for name in ("environ", "cmdline", "maps", "mountinfo", "comm", "status"):
            with contextlib.suppress(OSError):
                yield name, f"{process}/{name}", (process / name).read_bytes()
        with contextlib.suppress(OSError):
            for each in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    yield "fd", str(each), os.fsencode(each.readlink())
        with contextlib.suppress(OSError):
            yield "memory", f"{process}/mem", memory(process)


def memory(process: Path) -> bytes:
    """Return what of a process's memory it may change. This one's own is full of what it found."""
    if process.name == str(os.getpid()):
        return b""
    kept = bytearray()
    with (process / "mem").open("rb", buffering=0) as file:
        for line in (process / "maps").read_text().splitlines():
            place, mode, *_ = line.split()
            start, end = (int(each, 16) for each in place.split("-"))
            if mode.startswith("rw") and len(kept) + end - start < MEMORY_BYTES:
                file.seek(start)
                with contextlib.suppress(OSError):
                    kept += file.read(end - start)
    return bytes(kept)


def in_files() -> Iterator[tuple[str, str, bytes]]:
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in PASSED_OVER]  # noqa: PTH118 - "/"
        for path in (Path(folder, name) for name in files):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    with path.open("rb") as file:
                        yield "files", str(path), file.read(FILE_BYTES)


def in_the_kernel() -> Iterator[tuple[str, str, bytes]]:
    for path in map(Path, KERNEL):
        with contextlib.suppress(OSError):
            yield "kernel", str(path), b"\n".join(os.fsencode(each) for each in path.iterdir())
        with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
            yield "kernel", str(path), file.read(FILE_BYTES)


if __name__ == "__main__":
    sys.exit(main())
