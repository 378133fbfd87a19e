"""Programs end: by themselves, at their limits, and with all that they started."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worker.sandboxed import open_files
from worker.process import Program, run

PATH = {"PATH": os.defpath}


def sh(script: str, **limits: object) -> Program:
    return Program(("sh", "-c", script), env=PATH, **limits)  # type: ignore[arg-type]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


async def alive(pid: int) -> bool:
    """Tell whether a process is alive, after the kernel had the time to end one that was killed."""
    for _ in range(200):
        if state(pid) in "ZX":
            return False
        await asyncio.sleep(0.01)
    return True


async def test_a_program_gives_its_outputs_and_its_status() -> None:
    done = await run(sh("cat; echo no >&2; exit 3", stdin=b"in"))
    assert (done.code, done.stdout, done.stderr) == (3, b"in", b"no\n")
    assert not done.timed_out
    assert not done.cut


async def test_a_program_that_a_signal_ended_says_so() -> None:
    assert (await run(sh("kill -9 $$"))).code == -9


async def test_a_program_that_does_not_exist_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        await run(Program((str(tmp_path / "nothing"),)))


async def test_the_environment_is_exactly_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    done = await run(Program(("/usr/bin/env",), env={"A": "b"}))
    assert done.stdout == b"A=b\n"


async def test_no_descriptor_is_inherited(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        done = await run(sh(f"test -e /proc/self/fd/{file.fileno()} && echo open"))
    assert done.stdout == b""


async def test_much_input_and_much_output_pass_at_once() -> None:
    data = os.urandom(1_000_000)
    assert (await run(sh("cat", stdin=data))).stdout == data


async def test_input_that_nobody_reads_does_no_harm() -> None:
    assert (await run(sh("exit 0", stdin=b"x" * 1_000_000))).code == 0


@pytest.mark.parametrize("stream", ["", " >&2"])
async def test_endless_output_is_cut_and_its_program_killed(stream: str) -> None:
    """Input 127."""
    done = await run(sh(f"exec yes{stream}", output_cap=100_000))
    assert done.cut
    assert done.code is None
    assert len(done.stdout) + len(done.stderr) == 100_000


async def test_a_program_that_never_ends_is_killed_at_its_limit() -> None:
    """Inputs 128 and 132: it ignores SIGTERM, and sleeps with its outputs open."""
    done = await run(sh("trap '' TERM; echo $$; while :; do sleep 1; done", seconds=0.2, grace=0.1))
    assert done.timed_out
    assert done.code is None
    assert not await alive(int(done.stdout))


async def test_a_program_may_end_well_when_it_is_asked_to() -> None:
    done = await run(sh("trap 'echo bye; exit 0' TERM; echo on; sleep 9 & wait", seconds=0.3))
    assert done.timed_out
    assert done.stdout == b"on\nbye\n"


async def test_children_are_gone_when_their_parent_ends() -> None:
    """Input 132: `nohup … &`."""
    done = await run(sh("nohup sleep 60 >/dev/null 2>&1 & echo $!"))
    assert not await alive(int(done.stdout))


async def test_an_escaped_child_with_open_pipes_is_not_waited_for() -> None:
    """Inputs 128 and 132: what left the group keeps the pipes; a sandbox's own process space ends it."""
    script = "import os,time\nif os.fork():\n  os._exit(0)\nos.setsid(); print(os.getpid(), flush=True); time.sleep(30)"
    done = await run(Program(("python3", "-c", f"{script}"), env=PATH, grace=0.2, seconds=20))
    assert not done.timed_out
    for line in done.stdout.split():
        os.kill(int(line), 9)


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    call = asyncio.create_task(run(sh("echo $$; sleep 60", on_line=lambda line: started.set_result(int(line)))))
    pid = await started
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not await alive(pid)


async def test_lines_come_as_they_are_written() -> None:
    lines: list[bytes] = []
    done = await run(sh("printf 'a\\nb'; sleep 0.05; printf 'c\\n\\nlast'", on_line=lines.append))
    assert lines == [b"a", b"bc", b"", b"last"]
    assert done.stdout == b"a\nbc\n\nlast"


async def test_half_a_line_before_the_end_of_time_is_told() -> None:
    lines: list[bytes] = []
    done = await run(sh("printf '{\"half\"'; sleep 9", seconds=0.2, on_line=lines.append))
    assert done.timed_out
    assert lines == [b'{"half"']


async def test_a_line_that_is_not_taken_ends_the_program() -> None:
    def refuse(line: bytes) -> None:
        raise ValueError(line.decode())

    with pytest.raises(ValueError, match="no"):
        await run(sh("echo no; sleep 60", on_line=refuse))


async def test_a_program_that_lingers_after_its_last_word_is_ended() -> None:
    """Well before its time is over; what it still says until then is heard."""
    lines: list[bytes] = []

    def hear(line: bytes) -> bool:
        lines.append(line)
        return line == b"done"

    spec = sh("echo a; echo done; echo more; echo $$ >&2; exec sleep 60", on_line=hear, grace=0.2)
    done = await run(spec)
    assert (done.lingered, done.timed_out, done.cut, done.code) == (True, False, False, None)
    assert (lines, done.stdout) == ([b"a", b"done", b"more"], b"a\ndone\nmore\n")
    assert 0.2 <= done.seconds < 5
    assert not await alive(int(done.stderr))


async def test_a_program_that_ends_soon_after_its_last_word_has_not_lingered() -> None:
    """Its status is its own."""
    done = await run(sh("echo done; sleep 0.1; exit 3", on_line=lambda _: True))
    assert (done.lingered, done.code) == (False, 3)
    done = await run(sh("echo done; exit 3", on_line=lambda _: True, grace=0.0))
    assert (done.lingered, done.code, done.stdout) in {(False, 3, b"done\n"), (True, None, b"done\n")}


@pytest.mark.parametrize("word", [None, False])
async def test_only_true_is_a_last_word(word: bool | None) -> None:
    done = await run(sh("echo a; sleep 0.4; echo b", on_line=lambda _: word, grace=0.1))
    assert (done.lingered, done.code, done.stdout) == (False, 0, b"a\nb\n")


async def test_limits_hold_after_the_last_word_too() -> None:
    done = await run(sh("echo done; exec yes", on_line=lambda line: line == b"done", output_cap=10_000, grace=5.0))
    assert (done.cut, done.lingered, done.code) == (True, False, None)


async def test_the_last_word_may_come_without_its_newline() -> None:
    done = await run(sh("printf done", on_line=lambda line: line == b"done"))
    assert (done.lingered, done.code) == (False, 0)


async def test_the_grace_is_the_time_to_end_well() -> None:
    """It asks for 0.3 s: a grace of 2 s is enough, one of 0.05 s is not."""
    script = "trap 'sleep 0.3; echo bye; exit' TERM; echo on; while :; do sleep 0.01; done"
    assert (await run(sh(script, seconds=0.2, grace=2.0))).stdout == b"on\nbye\n"
    assert (await run(sh(script, seconds=0.2, grace=0.05))).stdout == b"on\n"


async def test_an_end_is_told_before_what_it_left_is_waited_for() -> None:
    """Whoever knows an escaped child may end it then, and nothing waits for the outputs that it keeps open."""
    script = (
        "import os, time\nif os.fork():\n  time.sleep(0.3); os._exit(0)\nos.setsid(); print(os.getpid(), flush=True)"
    )
    heard: list[int] = []

    def end() -> None:
        for each in heard:
            os.kill(each, 9)

    spec = Program(
        ("python3", "-c", f"{script}; time.sleep(60)"),
        env=PATH,
        grace=20.0,
        on_line=lambda line: heard.append(int(line)),
        on_end=end,
    )
    assert (await run(spec)).seconds < 10
    assert not await alive(heard[0])


async def test_open_files_are_passed_and_no_others(tmp_path: Path) -> None:
    read, write = os.pipe()
    done = await run(Program(("/bin/bash", "-c", f"echo on >&{write}; ls /proc/self/fd"), pass_fds=(write,)))
    os.close(write)
    assert os.read(read, 10) == b"on\n"
    os.close(read)
    (own,) = {int(each) for each in done.stdout.split()} - {0, 1, 2, write}
    assert own != read  # it is that of ls, which reads the folder


if os.geteuid() == 0:

    async def test_a_program_runs_as_another_user_without_any_group_of_ours() -> None:
        ours = os.getgroups()
        os.setgroups([*ours, 60_998])
        try:
            done = await run(sh("id -u; id -g; id -G; grep -E '^Cap(Eff|Prm)' /proc/self/status", user=60_999))
        finally:
            os.setgroups(ours)
        assert done.stdout.split() == [*[b"60999"] * 3, b"CapPrm:", b"0" * 16, b"CapEff:", b"0" * 16]

    async def test_another_users_program_is_ended_as_any_other() -> None:
        done = await run(sh("trap '' TERM; sleep 60 & echo $$ $!; wait; sleep 60", user=60_999, seconds=0.3, grace=0.1))
        assert done.timed_out
        assert not any([await alive(int(each)) for each in done.stdout.split()])

else:

    async def test_only_root_may_start_programs_as_others() -> None:
        with pytest.raises(PermissionError):
            await run(sh("true", user=60_999))


async def test_many_programs_side_by_side() -> None:
    done = await asyncio.gather(*(run(sh(f"echo {number}")) for number in range(40)))
    assert [int(each.stdout) for each in done] == list(range(40))


# ---- Pipes ----------------------------------------------------------------------------------------------------------


async def test_a_sealed_output_is_nobodys_to_open() -> None:
    """What runs beside a program as its user writes into a pipe of it through /proc, and not into a socket."""
    script = "import os,sys; print('own', flush=True); open(f'/proc/{os.getpid()}/fd/1', 'w').write('forged')"
    spec = Program((sys.executable, "-I", "-c", script), seconds=10)
    assert (await run(spec)).stdout == b"own\nforged"
    sealed = await run(replace(spec, sealed=True))
    assert sealed.stdout == b"own\n"
    assert b"No such device or address" in sealed.stderr


async def test_a_sealed_output_streams_and_ends_as_any_other() -> None:
    lines: list[bytes] = []
    script = "import time; [print(n, flush=True) or time.sleep(0.01) for n in range(5)]"
    spec = Program((sys.executable, "-I", "-c", script), sealed=True, on_line=lines.append, seconds=10)
    before = open_files()
    done = await run(spec)
    assert (done.code, lines) == (0, [b"0", b"1", b"2", b"3", b"4"])
    with pytest.raises(FileNotFoundError):
        await run(Program(("/nowhere/program",), sealed=True))
    assert open_files() == before
