"""What a program in a sandbox cannot use up (threats.md T20), nor reach (T18, T19)."""

from __future__ import annotations

import asyncio
import errno
import json
import platform
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.worker.sandboxed import Cell
from worker import process, sandbox, seccomp
from worker.process import MIB, Program
from worker.sandbox import API, FILE_BYTES, FILES, HOME, PORT, PROCESSES, SHARED_BYTES, TMP, TMP_BYTES

# ---- Processes and memory -------------------------------------------------------------------------------------------

FORKS = """
import json, os, signal
children = []
try:
    while len(children) < 2000:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    pass
print(json.dumps(len(children)))
"""


async def test_the_number_of_processes_ends(limited: Cell) -> None:
    assert PROCESSES - 10 < await limited.told(FORKS) < PROCESSES


@pytest.mark.threat("T20", 129)
async def test_fork_bomb(limited: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROCESSES", 100)
    bomb = limited.sh("bomb() { bomb | bomb & }; bomb; while :; do :; done", seconds=1.5)
    most = asyncio.create_task(watch(limited))
    done = await limited.beside(bomb)
    assert done.timed_out
    assert done.seconds < 1.5 + 2
    assert limited.left() == []
    # bubblewrap itself, outside, is one more.
    assert 50 < await most <= 101


async def watch(cell: Cell) -> int:
    """Return the most processes that there were at once in the first second."""
    most = 0
    for _ in range(10):
        await asyncio.sleep(0.1)
        most = max(most, len(cell.left()))
    return most


HOG = """
import sys
held = []
while True:
    held.append(bytearray(8 << 20))
    print(len(held) * 8, flush=True)
"""


@pytest.mark.threat("T20", 130)
async def test_memory_hog(limited: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process."""
    monkeypatch.setattr(sandbox, "MEMORY_BYTES", 384 * MIB)
    done = await limited.beside(limited.python(HOG))
    assert done.code in {1, 137}
    assert 200 < int(done.stdout.split()[-1]) < 384


@pytest.mark.threat("T20", 130)
async def test_memory_hog_of_many(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together, as far as anything counts them together: else each has the limit of one."""
    monkeypatch.setattr(sandbox, "MEMORY_BYTES", 384 * MIB)
    script = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b"x") * (100 << 20)
        print("held", flush=True)
        time.sleep(60)
os.wait()
"""
    done = await cell.beside(cell.python(script, seconds=2.5))
    held = done.stdout.count(b"held")
    if cell.sandbox.groups:
        assert held < 4
    else:
        assert held == 8
    assert cell.left() == []


async def test_memory_that_no_process_has_counts_too(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in memory are a sandbox's own memory, as long as anything counts it."""
    monkeypatch.setattr(sandbox, "MEMORY_BYTES", 128 * MIB)
    done = await cell.sh("head -c 200M /dev/zero > /tmp/big; echo wrote $?")
    if cell.sandbox.groups:
        assert b"wrote 0" not in done.stdout
    else:
        assert done.stdout == b"wrote 0\n"


async def test_endless_computing_harms_nobody(limited: Cell) -> None:
    done = await limited.beside(limited.sh("for i in 1 2 3 4; do (while :; do :; done) & done; wait", seconds=1))
    assert done.timed_out


# ---- Files ----------------------------------------------------------------------------------------------------------

FILL = """
import json, os, sys
seen = {}
for place in sys.argv[1:-1]:
    size = 0
    try:
        with open(f"{place}/fill", "wb", buffering=0) as file:
            while size < 400 << 20:
                size += file.write(bytes(4 << 20))
    except OSError as error:
        seen[place] = [error.errno, size >> 20]
    else:
        seen[place] = [0, size >> 20]
    finally:
        if os.path.lexists(f"{place}/fill"):
            os.unlink(f"{place}/fill")
print(json.dumps(seen))
"""


@pytest.mark.threat("T20", 131)
async def test_disk_fill(limited: Cell) -> None:
    """All that can be written besides the run's own folders lies in memory, and ends."""
    closed = ("/", "/dev", "/run", "/opt", "/opt/tool", "/usr", "/etc", "/home", "/brief", "/turn", "/run/gateway")
    given = limited.own("given")
    room = replace(limited.room, notes=given, turn=given, tool=given, gateway=given / "api.sock")
    places = {str(TMP): TMP_BYTES, str(HOME): TMP_BYTES, "/dev/shm": SHARED_BYTES}
    filling = limited.python(FILL, *places, *closed, room=room, seconds=30)
    seen = json.loads((await limited.beside(filling)).stdout)
    assert {place: [errno.ENOSPC, size // MIB] for place, size in places.items()} == {
        each: seen[each] for each in places
    }
    assert {each: seen[each][0] for each in closed} == dict.fromkeys(closed, errno.EROFS)


async def test_one_file_is_not_larger_than_its_limit(limited: Cell) -> None:
    done = await limited.sh(f"truncate -s {FILE_BYTES} file && echo on; exec truncate -s {FILE_BYTES + 1} file")
    assert done.stdout == b"on\n"
    assert done.code == 128 + 25  # SIGXFSZ
    assert (limited.tree / "file").stat().st_size == FILE_BYTES


async def test_a_process_opens_so_many_files(limited: Cell) -> None:
    script = """
import os
opened = []
try:
    while True:
        opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print([error.errno, opened[-1]])
"""
    assert await limited.told(script) == [errno.EMFILE, FILES - 1]


async def test_no_limit_can_be_raised(limited: Cell) -> None:
    done = await limited.sh("ulimit -n 9999; ulimit -f unlimited; ulimit -c unlimited; ulimit -c; ulimit -n")
    assert done.stdout.split() == [b"0", str(FILES).encode()]
    assert done.stderr.count(b"Operation not permitted") == 3


@pytest.mark.threat("T20", 127)
@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_infinite_stdout(limited: Cell, stream: str) -> None:
    done = await limited.beside(limited.sh(f"yes {stream} & yes {stream}", output_cap=8 * MIB))
    assert (done.cut, done.code) == (True, None)
    assert len(done.stdout) + len(done.stderr) == 8 * MIB
    assert limited.left() == []


# ---- System calls (threats.md T18) ----------------------------------------------------------------------------------

CALLS = """
import ctypes, fcntl, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def says(result):
    return 0 if result >= 0 else ctypes.get_errno()
def opens(family, make):
    try:
        made = make(family, socket.SOCK_RAW if family == 16 else socket.SOCK_STREAM)
    except OSError as error:
        return error.errno
    for each in made if isinstance(made, tuple) else (made,):
        each.close()
    return 0
def pushes(code):
    try:
        fcntl.ioctl(terminal, code, b"x")
    except OSError as error:
        return error.errno
    return 0
os.setsid()
_, terminal = os.openpty()
fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY: a process may do more with the terminal that is its own
calls, clone = json.loads(sys.argv[1]), int(sys.argv[2])
print(json.dumps({
    "calls": {name: says(libc.syscall(number, -1, -1, -1, -1, -1, -1)) for name, number in calls.items()},
    "clone3": says(libc.syscall(435, None, 0)),
    "fallocate": says(libc.syscall(int(sys.argv[4]), 1, 0, 0, 1)),
    "spaces": {flag: says(libc.syscall(clone, int(flag) | 17, None, None, None, None)) for flag in sys.argv[3].split()},
    "sockets": {family: opens(family, socket.socket) for family in range(46)},
    "pairs": {family: opens(family, socket.socketpair) for family in range(46)},
    "terminal": [pushes(0x5412), pushes(0x541C)],
}))
"""
MACHINE = seccomp.MACHINES[platform.machine()]
SPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


async def probe_calls(cell: Cell) -> dict[str, Any]:
    flags = " ".join(map(str, SPACES))
    clone = str(seccomp._CLONE[platform.machine()])
    fallocate = str(seccomp._FALLOCATE[platform.machine()])
    seen: dict[str, Any] = await cell.told(CALLS, json.dumps(MACHINE.numbers), clone, flags, fallocate)
    return seen


@pytest.mark.threat("T18")
async def test_syscall_matrix(cell: Cell) -> None:
    """Each call of the table is refused by the filter itself, and without it most are answered otherwise."""
    seen = await probe_calls(cell)
    assert len(seen["calls"]) + len(SPACES) + 2 >= 27
    assert seen["calls"] == dict.fromkeys(MACHINE.numbers, errno.EPERM)
    assert seen["clone3"] == errno.ENOSYS
    assert seen["fallocate"] == errno.EOPNOTSUPP
    assert seen["spaces"] == {str(flag): errno.EPERM for flag in SPACES}
    assert seen["terminal"] == [errno.EPERM, errno.EPERM]
    allowed = {str(each) for each in seccomp.FAMILIES}
    refused = dict.fromkeys(seen["sockets"].keys() - allowed, errno.EAFNOSUPPORT)
    assert seen["sockets"] == refused | dict.fromkeys(allowed, 0)
    assert {family: said for family, said in seen["pairs"].items() if family not in allowed} == refused
    bare = await probe_calls(replace(cell, sandbox=replace(cell.sandbox, filter=b"")))
    answered = [name for name, said in bare["calls"].items() if said not in {errno.EPERM, errno.ENOSYS}]
    assert len(answered) > 15
    assert bare["clone3"] == errno.EINVAL
    assert bare["fallocate"] != errno.EOPNOTSUPP
    assert errno.EPERM not in bare["terminal"]


FOREIGN = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(0x40000000 | 39), ctypes.get_errno(), flush=True)  # getpid of x32
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid of i386); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
if platform.machine() == "x86_64":  # of the two, the one that has other interfaces in the same program

    async def test_no_other_interface_to_the_kernel_leads_past_the_filter(cell: Cell) -> None:
        """They number the calls otherwise. SIGSYS: the filter; SIGSEGV: this kernel has no i386."""
        done = await cell.python(FOREIGN)
        assert done.stdout == b"-1 1\n"
        assert done.code in {128 + 31, 128 + 11}


# ---- The network (threats.md T19) -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outside:
    """What is there outside: each program that tries to reach it names what answered."""

    targets: dict[str, list[Any]]
    heard: list[str]


REACH = """
import json, socket, sys
def reaches(kind, *address):
    family = {"tcp6": socket.AF_INET6, "path": socket.AF_UNIX, "abstract": socket.AF_UNIX}.get(kind, socket.AF_INET)
    if kind == "name":
        return bool(socket.getaddrinfo(*address))
    with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as way:
        way.settimeout(2)
        target = {"path": address[0], "abstract": "\\0" + address[0]}.get(kind, tuple(address))
        way.connect(target)
        way.sendall(b"anybody?")
        return way.recv(10) == b"yes"
seen = {}
for name, target in json.loads(sys.argv[1]).items():
    try:
        seen[name] = reaches(*target)
    except OSError:
        seen[name] = False
print(json.dumps(seen))
"""


@pytest_asyncio.fixture
async def outside(state: Path) -> AsyncIterator[Outside]:
    """Put up what a machine has, such as a store and a resolver, on its addresses and its sockets."""
    heard: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.read(100)).decode())
        writer.write(b"yes")
        await writer.drain()
        writer.close()

    class Datagrams(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            heard.append(data.decode())
            self.transport.sendto(b"yes", address)

    loop, word = asyncio.get_running_loop(), secrets.token_hex(8)
    name = socket.socket(socket.AF_UNIX)
    name.bind(f"\0{word}")
    path = state / "host.sock"
    servers = [
        await asyncio.start_server(answer, "127.0.0.1", 0),
        await asyncio.start_server(answer, "0.0.0.0", 0),  # noqa: S104 - to be reached by
        await asyncio.start_unix_server(answer, path),
        await asyncio.start_unix_server(answer, sock=name),
    ]
    path.chmod(0o666)
    udp, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    local, everywhere = (each.sockets[0].getsockname()[1] for each in servers[:2])
    targets: dict[str, list[Any]] = {
        "service": ["tcp", "127.0.0.1", local],
        "service of all addresses": ["tcp", "127.0.0.2", everywhere],
        "resolver": ["udp", *udp.get_extra_info("sockname")],
        "path": ["path", str(path)],
        "abstract": ["abstract", word],
        "own name": ["name", "localhost", local],
    }
    yield Outside(targets, heard)
    udp.close()
    for server in servers:
        server.close()
        await server.wait_closed()


NOBODY = {
    "metadata": ["tcp", "169.254.169.254", 80],
    "metadata 6": ["tcp6", "fd00:ec2::254", 80],
    "name server": ["tcp", "8.8.8.8", 53],
    "name": ["name", "github.com", 443],
    "itself": ["tcp", "127.0.0.1", PORT],
    "itself 6": ["tcp6", "::1", PORT],
}


@pytest.mark.threat("T19", 120)
async def test_egress_matrix(cell: Cell, outside: Outside) -> None:
    """The same program reaches all of it outside, and nothing of it inside."""
    program = Program((sys.executable, "-c", REACH, json.dumps(outside.targets)))
    assert json.loads((await process.run(program)).stdout) == dict.fromkeys(outside.targets, True)
    outside.heard.clear()
    seen = await cell.told(REACH, json.dumps(outside.targets | NOBODY))
    assert seen == dict.fromkeys(outside.targets | NOBODY, False) | {"own name": True}
    assert outside.heard == []


@pytest.mark.threat("T19", 120)
async def test_the_gateway_of_its_own_is_all_that_a_program_reaches(cell: Cell, outside: Outside) -> None:
    """Its own socket by two ways, and no other run's, whose folder lies beside."""
    own, other = cell.own("gateway"), cell.own("other")
    servers = []
    for folder, word in ((own, b"own"), (other, b"other")):

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: bytes = word) -> None:
            await reader.readline()
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + word)
            writer.close()

        servers.append(await asyncio.start_unix_server(answer, folder / "api.sock"))
        cell.user.own(folder / "api.sock")
    script = f"""
import glob, json, socket, urllib.request
with socket.socket(socket.AF_UNIX) as way:
    way.connect("/run/gateway/api.sock")
    way.sendall(b"GET / HTTP/1.0\\r\\n")
    direct = way.recv(100).decode()[-3:]
print(json.dumps([urllib.request.urlopen("{API}").read().decode(), direct, glob.glob("/run/*/*")]))
"""
    room = replace(cell.room, gateway=own / "api.sock")
    assert await cell.told(script, room=room) == ["own", "own", ["/run/gateway/api.sock"]]
    seen = await cell.told(REACH, json.dumps(outside.targets), room=room)
    assert seen == dict.fromkeys(outside.targets, False) | {"own name": True}
    for server in servers:
        server.close()
        await server.wait_closed()
