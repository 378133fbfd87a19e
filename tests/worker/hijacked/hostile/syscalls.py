"""Makes system calls by their numbers and prints, by name, what each came to: 0, or the name of its error.

``syscalls.py CALLS`` with CALLS as JSON: ``{name: [number, argument…]}``. Each is made in a child, which may die of it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys


def main(argv: list[str]) -> int:
    calls: dict[str, list[int]] = json.loads(argv[0])
    sys.stdout.write(json.dumps({name: made(call) for name, call in calls.items()}) + "\n")
    return 0


def made(call: list[int]) -> str:
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.syscall(*(ctypes.c_long(each) for each in call)) >= 0
        os._exit(0 if done else ctypes.get_errno())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return str(code) if code <= 0 else errno.errorcode.get(code, str(code))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
