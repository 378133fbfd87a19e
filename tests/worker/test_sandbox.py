"""What a program finds in a sandbox, and what is left of it afterwards. Its limits: test_sandbox_limits.py."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import random
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worker.sandboxed import Cell, children, is_root, open_files
from worker import cgroup, sandbox
from worker.process import Program
from worker.sandbox import BASE, HOME, NOTES, TOOL, TREE, TURN, Room, Sandbox, Unfit, lay_out
from worker.slots import Slot

ROOT = Path(__file__).parents[2]
ENDLESS = 'for i in $(seq 100); do setsid bash -c "trap : TERM; while :; do sleep 1; done" $0 & done; echo on; wait'
"""A hundred programs that left their group, ignore SIGTERM, and keep the outputs open."""

# ---- Running --------------------------------------------------------------------------------------------------------


async def test_a_program_gives_its_outputs_and_its_status(cell: Cell) -> None:
    done = await cell.sh("cat; echo no >&2; exit 3", stdin=b"in")
    assert (done.code, done.stdout, done.stderr) == (3, b"in", b"no\n")


async def test_a_signal_becomes_a_status_as_in_shells(cell: Cell) -> None:
    assert (await cell.sh("kill -9 $$")).code == 137


async def test_a_program_that_is_not_there_says_so(cell: Cell) -> None:
    done = await cell.run("/opt/tool/nothing")
    assert (done.code, done.stderr) == (127, b"/opt/tool/nothing cannot be started: No such file or directory\n")


async def test_a_bubblewrap_that_is_not_there_raises(cell: Cell) -> None:
    gone = replace(cell, sandbox=replace(cell.sandbox, bwrap=cell.folder / "bwrap"))
    with pytest.raises(FileNotFoundError):
        await gone.sh("echo on")


async def test_much_input_and_output_pass_at_once(cell: Cell) -> None:
    data = os.urandom(2_000_000)
    assert (await cell.sh("exec cat", stdin=data)).stdout == data


async def test_arguments_arrive_byte_by_byte(cell: Cell) -> None:
    odd = bytes(range(1, 256))
    done = await cell.run("/usr/bin/printf", "%s.", odd, "--", "")
    assert done.stdout == b"%b.--..%b." % (odd, cell.token.encode())


async def test_lines_come_as_they_are_written(cell: Cell) -> None:
    """The program waits for what is only done once its first line was heard."""
    lines: list[bytes] = []

    def hear(line: bytes) -> bool:
        lines.append(line)
        (cell.tree / "heard").touch()
        return line == b"last"

    script = "echo first; until [ -e heard ]; do sleep 0.01; done; echo last; exec sleep 60"
    done = await cell.sh(script, on_line=hear, grace=0.1)
    assert lines == [b"first", b"last"]
    assert done.lingered
    assert await cell.over()


async def test_a_program_starts_in_the_tree_or_where_it_is_told(cell: Cell) -> None:
    assert (await cell.sh("pwd")).stdout == b"/work\n"
    assert (await cell.sh("pwd", cwd=Path("/tmp"))).stdout == b"/tmp\n"
    assert (await cell.sh("pwd", cwd=Path("/nowhere"))).code == 1


async def test_nobody_else_writes_to_a_programs_output(cell: Cell) -> None:
    """Neither through its own number nor the first one's, where a pipe could be opened anew."""
    script = 'echo own; for each in $$ 1 2; do bash -c "echo forged > /proc/$each/fd/1" >/dev/null; done'
    done = await cell.sh(script)
    assert done.stdout == b"own\n"
    assert done.stderr.count(b"No such device or address") == 3


async def test_many_run_side_by_side(cell: Cell) -> None:
    done = await asyncio.gather(*(cell.sh(f"echo {number} > {number}; cat {number}") for number in range(12)))
    assert [int(each.stdout) for each in done] == list(range(12))


async def test_signals_are_as_a_shell_has_them(cell: Cell) -> None:
    """Python ignores SIGPIPE, and what it starts would go on doing so: `yes | head` would complain."""
    done = await cell.sh("yes | head -1; echo ${PIPESTATUS[*]}; yes 2>&1 >/dev/full | head -1")
    assert done.stdout.splitlines()[:2] == [b"y", b"141 0"]
    assert done.stderr == b""


# ---- What is seen ---------------------------------------------------------------------------------------------------

LOOK = """
import json, os, socket, sys
print(json.dumps({
    "root": sorted(os.listdir("/")), "etc": sorted(os.listdir("/etc")), "home": os.listdir(sys.argv[1]),
    "tmp": os.listdir("/tmp"), "run": os.listdir("/run") if os.path.exists("/run") else [], "cwd": os.getcwd(),
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()], "groups": sorted(set(os.getgroups())),
    "env": dict(os.environ), "host": socket.gethostname(), "dev": sorted(os.listdir("/dev")),
    "processes": sorted(int(each) for each in os.listdir("/proc") if each.isdigit()),
    "session": os.getsid(0), "interfaces": [name for _, name in socket.if_nameindex()],
    "found": [each for each in sys.argv[2:] if os.path.lexists(each)],
}))
"""


@pytest.mark.threat(119)
async def test_a_program_sees_the_system_its_room_and_nothing_else(cell: Cell) -> None:
    host = ("/root", "/var", "/sys", "/boot", "/srv", "/mnt", "/media", str(cell.folder), str(ROOT), str(Path.home()))
    seen = await cell.told(LOOK, str(HOME), *host, env={"A": "b", "HOME": str(HOME)})
    system = {"bin", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "sbin", "tmp", "usr", "work"}
    assert set(seen["root"]) == system
    ours = {"passwd", "group", "hosts", "nsswitch.conf"}
    assert ours <= set(seen["etc"]) <= ours | {"alternatives", "ld.so.cache", "ssl", "mime.types"}
    assert (seen["home"], seen["tmp"], seen["run"], seen["found"]) == ([], [], [], [])
    assert (seen["cwd"], seen["host"], seen["interfaces"]) == ("/work", "sandbox", ["lo"])
    assert (seen["ids"], set(seen["groups"]) - {65534}) == ([1000] * 4, {1000} & set(seen["groups"]))
    assert len(seen["processes"]) == 3
    assert seen["session"] in seen["processes"]
    devices = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "core"}
    assert set(seen["dev"]) - {"stdin", "stdout", "stderr"} == devices
    # What it was given, and what bubblewrap and Python add: where it starts, and that text is UTF-8.
    assert seen["env"] == {"A": "b", "HOME": str(HOME), "PWD": "/work", "LC_CTYPE": "C.UTF-8"}


async def test_the_users_that_a_program_can_name_are_its_own_and_nobody(cell: Cell) -> None:
    done = await cell.sh("id -un; id -gn; getent passwd | wc -l; getent group | wc -l; stat -c %U /usr .")
    assert done.stdout.split() == [b"agent", b"agent", b"2", b"2", b"nobody", b"agent"]


PLACES = (BASE, NOTES, TURN, TOOL)


async def test_the_rooms_folders_are_seen_and_only_those_are_written_that_may_be(cell: Cell) -> None:
    folders = {place: cell.own(place.name) for place in PLACES}
    for place, folder in folders.items():
        (folder / "here").write_text(place.name)
    sessions = cell.own("sessions")
    room = replace(cell.room, base=folders[BASE], notes=folders[NOTES], turn=folders[TURN], tool=folders[TOOL])
    script = """
import json, os, sys
def tries(place):
    try:
        with open(f"{place}/new", "w") as file:
            file.write("written")
    except OSError as error:
        return error.errno
    return 0
print(json.dumps([[each, tries(each), sorted(os.listdir(each))] for each in sys.argv[1:-1]]))
"""
    names = [str(each) for each in (*PLACES, TREE, HOME / ".a/sessions", HOME)]
    seen = {
        name: rest
        for name, *rest in await cell.told(script, *names, room=replace(room, sessions=(sessions, ".a/sessions")))
    }
    for place in PLACES:
        assert seen[str(place)] == [errno.EROFS, ["here"]]
    assert seen["/work"] == [0, ["new"]]
    assert seen[str(HOME / ".a/sessions")] == [0, ["new"]]
    assert seen[str(HOME)] == [0, [".a", "new"]]
    assert (cell.tree / "new").read_text() == (sessions / "new").read_text() == "written"
    assert [(each / "here").read_text() for each in folders.values()] == [place.name for place in PLACES]
    assert not list(cell.folder.rglob(".a"))


async def test_a_tree_that_is_only_read_is_not_written(cell: Cell) -> None:
    (cell.tree / "file").write_text("old")
    cell.user.own(cell.tree, deep=True)
    script = "cat file; echo x > file; rm -f file; touch new; mkdir d; mv file other; chmod 777 ."
    done = await cell.sh(script, room=Room(cell.tree))
    assert done.stdout == b"old"
    assert done.stderr.count(b"Read-only file system") == 6
    assert [each.read_text() for each in cell.tree.iterdir()] == ["old"]


async def test_a_file_that_a_program_made_belongs_to_its_user(cell: Cell) -> None:
    await cell.sh("touch new")
    assert (cell.tree / "new").stat().st_uid == (os.geteuid() if cell.user.user is None else cell.user.user)


async def test_the_tree_is_not_imported_by_what_comes_first(cell: Cell) -> None:
    """The first program in a sandbox is Python, and starts in the tree."""
    for name in ("json", "socket", "threading", "sitecustomize", "usercustomize"):
        (cell.tree / f"{name}.py").write_text("open('/work/imported', 'w')")
    done = await cell.sh("echo on", env={"PYTHONPATH": "/work", "PYTHONSTARTUP": "/work/json.py", "HOME": "/work"})
    assert (done.stdout, (cell.tree / "imported").exists()) == (b"on\n", False)


# ---- No secret in reach (threats.md T16, T17) -----------------------------------------------------------------------


@pytest.mark.threat("T16")
async def test_no_environment_of_this_process_is_seen(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of the first process, which bubblewrap does not clear."""
    monkeypatch.setenv("CANARY", "0123canary4567")
    done = await cell.sh("cat /proc/1/environ | wc -c; cat /proc/*/environ /proc/*/cmdline | grep -c 0123[c]anary; env")
    sizes = done.stdout.split()
    assert sizes[:2] == [b"0", b"0"]
    assert b"CANARY" not in done.stdout


@pytest.mark.threat("T16")
async def test_bubblewrap_itself_has_no_environment(cell: Cell) -> None:
    heard: list[bytes] = []

    def look(_: bytes) -> bool:
        heard.extend(Path(f"/proc/{each}/environ").read_bytes() for each in cell.left() if bwrap(each))
        return True

    await cell.sh("echo on; exec sleep 60", on_line=look, grace=0.05)
    assert heard
    assert set(heard) == {b""}


def bwrap(number: int) -> bool:
    return Path(f"/proc/{number}/comm").read_text() == "bwrap\n"


@pytest.mark.threat("T16")
async def test_no_file_of_this_process_is_open_inside(cell: Cell, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        done = await cell.sh("ls /proc/self/fd /proc/1/fd")
    # Of the first process: its three, and that on which it tells bubblewrap of the program's end.
    first, _, own = done.stdout.partition(b"/proc/self/fd:\n")
    assert len(first.split()) == 5
    assert own.split() == [b"0", b"1", b"2", b"3"]


REMOUNT = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def says(result):
    return 0 if result == 0 else ctypes.get_errno()
anew = says(libc.mount(b"none", b"/usr", None, 32 | 4096 | 2 | 4, None))
try:
    open("/usr/written", "w")
    written = 0
except OSError as error:
    written = error.errno
print(json.dumps([anew, written, says(libc.umount2(b"/usr", 2))]))
"""
"""MS_REMOUNT with MS_BIND, MS_NOSUID and MS_NODEV, without MS_RDONLY: `mount -o remount,rw,bind /usr`."""


@pytest.mark.threat("T17")
async def test_remount_escape(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, and without dropping capabilities, this wrote to the machine's own /usr."""
    assert await cell.told(REMOUNT) == [errno.EPERM, errno.EROFS, errno.EPERM]
    # The walls behind it: with all capabilities and no filter, /usr is mounted anew, and is still not this user's.
    walls = [each for each in sandbox._WALLS if each != "--disable-userns"]
    walls[walls.index("--cap-drop")] = "--cap-add"
    walls[walls.index("--uid") + 1] = walls[walls.index("--gid") + 1] = "0"
    monkeypatch.setattr(sandbox, "_WALLS", tuple(walls))
    bare = replace(cell, sandbox=replace(cell.sandbox, filter=b""))
    assert await bare.told(REMOUNT) == [0, errno.EACCES, 0]
    assert "written" not in names("/usr")


def names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


@pytest.mark.threat("T17")
async def test_no_user_namespace_is_made_even_without_the_filter(cell: Cell) -> None:
    """threats.md 4.1, L2: --disable-userns stands by itself."""
    script = "import ctypes; print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000), ctypes.get_errno())"
    bare = replace(cell, sandbox=replace(cell.sandbox, filter=b""))
    assert (await bare.python(script)).stdout == b"-1 %d\n" % errno.ENOSPC
    assert (await cell.python(script)).stdout == b"-1 %d\n" % errno.EPERM


@pytest.mark.threat("T17")
@pytest.mark.parametrize("user", [Slot(0), *([Slot(None)] if is_root() else [])])
async def test_refuse_root(cell: Cell, user: Slot) -> None:
    with pytest.raises(PermissionError, match="never started as root"):
        await cell.sandbox.run(Program(("/bin/true",)), cell.room, user)


# ---- Ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.threat("T20", 128)
async def test_never_ends(limited: Cell) -> None:
    """When the time is over, everything ends, whatever it ignores and holds open."""
    done = await limited.sh(ENDLESS, seconds=1.5)
    assert (done.timed_out, done.code, done.stdout) == (True, None, b"on\n")
    assert limited.left() == []
    assert done.seconds < 1.5 + 2


async def test_a_cancelled_call_leaves_nothing_behind(limited: Cell) -> None:
    on = asyncio.Event()
    call = asyncio.create_task(limited.sh(ENDLESS, on_line=lambda _: on.set()))
    await on.wait()
    assert limited.left()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert limited.left() == []


async def test_a_call_that_is_cancelled_while_it_starts_leaves_nothing_behind(limited: Cell) -> None:
    """Killed in its first milliseconds, bubblewrap knows of its child before the child knows of it."""
    chance = random.Random(4)  # noqa: S311 - any moment will do
    for _ in range(25):
        call = asyncio.create_task(limited.sh("exec -a $0 sleep 60"))
        await asyncio.sleep(chance.random() * 0.04)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await limited.over()


async def test_its_group_goes_although_all_is_cancelled_again_before_a_thread_is_free(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker is that is told to stop twice while it is busy."""
    gone = asyncio.Event()
    group = cgroup.Group(())
    monkeypatch.setattr(group, "remove", gone.set)
    monkeypatch.setattr(cgroup, "make", lambda *_: group)
    place = cgroup.Place((), unified=True)
    with ThreadPoolExecutor(1) as busy:
        asyncio.get_running_loop().set_default_executor(busy)
        released = threading.Event()
        busy.submit(released.wait)
        call = asyncio.create_task(used(replace(cell.sandbox, groups=place)))
        for _ in range(3):
            await asyncio.sleep(0.01)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert gone.is_set()


async def used(limited: Sandbox) -> None:
    async with limited._group():
        await asyncio.Event().wait()


async def test_a_sandbox_that_bubblewrap_leaves_behind_is_ended(limited: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it may where it is killed while it starts: here since it was not told to take its child along."""
    monkeypatch.setattr(sandbox, "_WALLS", tuple(each for each in sandbox._WALLS if each != "--die-with-parent"))
    done = await limited.sh(ENDLESS, seconds=0.5, grace=20.0)
    assert limited.left() == []
    assert done.timed_out
    assert done.seconds < 10


@pytest.mark.threat("T21", 132)
async def test_daemon_does_not_survive(limited: Cell) -> None:
    """What a program leaves running is gone before anybody looks at the tree."""
    script = "(trap : TERM; while :; do echo x >> grows; done) </dev/null >/dev/null 2>&1 & disown; sleep 0.1"
    for _ in range(3):
        await limited.sh(f"setsid bash -c '{script}' $0")
        size = (limited.tree / "grows").stat().st_size
        assert limited.left() == []
        await asyncio.sleep(0.02)
        assert (limited.tree / "grows").stat().st_size == size > 0


@pytest.mark.threat("T21")
async def test_a_second_run_sees_nothing_of_the_first(cell: Cell) -> None:
    """Files where they may be written, names of sockets, shared memory, and processes."""
    script = """
import ctypes, os, socket
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0left")
for place in ("/tmp", "/dev/shm", "/home/agent"):
    open(f"{place}/left", "w").close()
print(ctypes.CDLL(None, use_errno=True).shmget(0x1234, 4096, 0o1000 | 0o600), flush=True)
if os.fork():
    os._exit(0)
os.setsid()
"""
    first = await cell.python(script)
    assert (int(first.stdout), first.stderr) == (0, b"")
    look = """
find / -xdev -name left 2>/dev/null; ls /tmp /dev/shm ~; grep left /proc/net/unix; tail -n +2 /proc/sysvipc/shm
for each in /proc/[0-9]*; do echo process; done
"""
    seen = await cell.sh(look, env={"HOME": str(HOME)})
    assert seen.stdout.split() == [b"/dev/shm:", b"/home/agent:", b"/tmp:", *[b"process"] * 3]


async def test_the_end_of_the_worker_is_that_of_its_sandboxes(cell: Cell) -> None:
    """SIGKILL, as by the kernel where memory is short."""
    script = f"""
import asyncio, pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
from worker import cgroup
from worker.sandbox import Program, Room, Sandbox
from worker.slots import Slot
walls = Sandbox(*map(pathlib.Path, sys.argv[1:4]), cgroup.find() if sys.argv[4] else None, b"")
program = Program(("/bin/bash", "-c", sys.argv[5], sys.argv[6]), on_line=lambda _: print("on", flush=True))
user = Slot(int(sys.argv[7]) if sys.argv[7] else None)
asyncio.run(walls.run(program, Room(pathlib.Path(sys.argv[8])), user))
"""
    box = cell.sandbox
    words = (
        box.bwrap,
        box.python,
        box.kit,
        "yes" if box.groups else "",
        ENDLESS,
        cell.token,
        cell.user.user or "",
        cell.tree,
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *map(str, words), stdout=-1)
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"on\n"
    worker.kill()
    await worker.wait()
    assert await cell.over()


async def test_nothing_is_left_after_many_runs(limited: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a control group, nor an open file, nor a folder."""
    made: list[cgroup.Group] = []
    make = cgroup.make

    def keep(place: cgroup.Place, limits: cgroup.Limits) -> cgroup.Group:
        made.append(make(place, limits))
        return made[-1]

    monkeypatch.setattr(cgroup, "make", keep)
    await limited.sh("true")
    before = (open_files(), sorted(limited.folder.rglob("*")))
    for _ in range(20):
        await limited.sh("echo on; (sleep 60 &)")
    assert before == (open_files(), sorted(limited.folder.rglob("*")))
    assert len(made) == (21 if limited.sandbox.groups else 0)
    assert not [folder for group in made for folder in group.folders if folder.exists()]
    assert limited.left() == []


async def test_what_falls_to_this_process_is_reaped(cell: Cell) -> None:
    """Orphans fall to the first process in a container: bubblewrap does not wait for its child, which is one."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(SUBREAPER, 1, 0, 0, 0) == 0
    try:
        await cell.sh("(sleep 60 &)")
        assert not [state for state in children(os.getpid()).values() if state == "Z"]
    finally:
        libc.prctl(SUBREAPER, 0, 0, 0, 0)


SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of linux/prctl.h."""


async def test_a_sandbox_that_cannot_be_limited_runs_nothing(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(group: cgroup.Group, number: int) -> None:
        raise OSError(errno.ENOSPC, "no")

    @contextlib.asynccontextmanager
    async def groups(box: Sandbox) -> AsyncIterator[cgroup.Group]:
        yield cgroup.Group(())

    monkeypatch.setattr(cgroup.Group, "add", full)
    monkeypatch.setattr(Sandbox, "_group", groups)
    done = await cell.sh("touch ran")
    assert done.code != 0
    assert list(cell.tree.iterdir()) == []
    assert await cell.over()


async def test_a_sandbox_that_was_never_let_go_runs_nothing(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where this process is too busy to answer before the time is over: bubblewrap ends, and its child waits."""
    monkeypatch.setattr(sandbox.First, "_admit", lambda first: os.read(first._told, 4096))
    done = await cell.sh("touch ran", seconds=0.3)
    assert done.timed_out
    assert await cell.over()
    assert list(cell.tree.iterdir()) == []


async def test_a_sandbox_that_does_not_end_is_told(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can hang in the kernel. What it might still write is not to be taken for its result."""
    monkeypatch.setattr(sandbox, "END_SECONDS", 0.0)
    monkeypatch.setattr(sandbox, "_reap", lambda _: None)
    with pytest.raises(TimeoutError, match="a sandbox did not end within 0 s"):
        await cell.sh("for i in $(seq 200); do sleep 60 & done")


# ---- The kit --------------------------------------------------------------------------------------------------------


def test_the_kit_can_be_read_whatever_the_umask(state: Path) -> None:
    before = os.umask(0o077)
    try:
        kit = lay_out(Path("/bin/bwrap"), state).kit
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode)[-3:] for path in (kit, *kit.rglob("*"))} == {"755", "644"}


async def test_the_kit_may_be_written_while_sandboxes_start(cell: Cell) -> None:
    """By a worker that starts beside another one: a first program that is cut short or gone would run nothing."""
    over = asyncio.Event()

    async def write() -> None:
        while not over.is_set():
            await asyncio.to_thread(lay_out, cell.sandbox.bwrap, cell.folder)

    box = lay_out(cell.sandbox.bwrap, cell.folder)
    writing = asyncio.create_task(write())
    try:
        for _ in range(10):
            done = await replace(cell, sandbox=replace(box, groups=None)).sh("echo on")
            assert (done.code, done.stdout) == (0, b"on\n")
    finally:
        over.set()
        await writing


def test_a_machine_that_no_sandbox_runs_on_is_named(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(Unfit, match="agents start on Linux on x86_64 and aarch64, and this is Linux on riscv64"):
        lay_out(Path("/bin/bwrap"), state)


def test_a_python_of_ones_own_is_taken_where_the_system_has_none(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """threats.md 4.5: a machine with a Python under /opt alone."""
    own = state / "python" / "bin" / f"python3.{sys.version_info.minor}"
    own.parent.mkdir(parents=True, mode=0o755)
    own.parents[1].chmod(0o755)
    own.touch(0o755)
    state.chmod(0o755)
    monkeypatch.setattr(sandbox, "PYTHONS", ("/nowhere/python3",))
    monkeypatch.setattr(sys, "base_prefix", str(own.parents[1]))
    found = lay_out(Path("/bin/bwrap"), state)
    assert found.python == own
    assert str(own.parents[1]) in found._system()
    state.chmod(0o711)
    with pytest.raises(Unfit, match="there is no Python that a sandbox could see"):
        lay_out(Path("/bin/bwrap"), state)
