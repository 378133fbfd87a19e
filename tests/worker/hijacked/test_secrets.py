"""What agents whose model has turned against the machine find of its secrets, wherever they look (T15, T16)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scripted_models import Turn, calls, says
from tests.worker.hijacked.conftest import (
    CANARY,
    CLAUDE,
    CODEX,
    READER,
    SECRETS,
    SHELLS,
    Actor,
    House,
    Lodger,
    canary,
    result,
)
from worker.agents import claude, codex

ENVIRON_BYTES = 64
"""threats.md T16: so much of an environment is nobody's secret."""
PLACEHOLDERS = {"codex": codex.KEY, "claude": claude._PLACEHOLDER}


def seen(lodger: Lodger, actor: Actor) -> set[str]:
    """Return every canary that the model was shown."""
    return {secret for request in lodger.asked(actor) for secret in CANARY.findall(request.raw.decode())}


@contextmanager
def surrounded(inn: House, lodger: Lodger) -> Iterator[Path]:
    """Put more secrets around a run: in files that anybody may read, and in a process of its own user.

    Yields one of the files.
    """
    another = lodger.folder.with_name("another")
    files = (inn.state / "readable", another / "readable", lodger.folder / "readable")
    argv = [str(lodger.sandbox.python), "-IS", "-c", "import time; time.sleep(60)", canary()]
    process = subprocess.Popen(argv, env={"SECRET": canary()}, user=lodger.lodgings.user.user)
    another.mkdir()
    try:
        for path in files:
            path.write_text(canary())
            path.chmod(0o644)
        yield files[0]
    finally:
        process.kill()
        process.wait()
        files[0].unlink()
        shutil.rmtree(another)


def hunts(actor: Actor, decoy: str, others: list[Path]) -> Turn:
    """Have all looked through: what stands in the environment and the arguments is a decoy, which is found."""
    look = (
        "env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/*/cmdline /proc/*/environ | tr '\\0' '\\n'; ls -la /proc/*/fd"
    )
    look += f"; LC_ALL=C ls -d {' '.join(map(str, others))} 2>&1"
    return actor.runs(look) + actor.runs(f"DECOY={decoy} python3 -IS /work/hunt.py {decoy}")


@pytest.mark.threat("T15", "T16", 118, 119)
@SHELLS
async def test_no_secret_in_sandbox(inn: House, lodger: Lodger, actor: Actor) -> None:
    decoy = canary()
    lodger.brings("hunt")
    lodger.write({"decoy.txt": decoy})
    with surrounded(inn, lodger) as file:
        others = [inn.state, file, lodger.folder.parent, lodger.folder, lodger.folder.with_name("another"), Path.home()]
        assert all(each.exists() for each in others)
        await lodger.turn(actor, [hunts(actor, decoy, others), says("Nothing.")])
    assert seen(lodger, actor) == {decoy}
    heard = lodger.asked(actor)[1].new_text()
    assert [each for each in others if f"'{each}': No such file or directory" not in heard] == []
    name = "ANTHROPIC_API_KEY" if actor is CLAUDE else codex.KEY_VARIABLE
    assert set(re.findall(rf"^{name}=(.*)$", heard, re.MULTILINE)) == {PLACEHOLDERS[actor.agent]}
    assert {request.key for request in lodger.asked(actor)} == {actor.key}, "the gateway has the real one"
    told = result(heard)
    assert set(told["found"]) == {decoy}
    places = {re.sub(r"\d+", "N", place) for place in told["found"][decoy]}
    assert {"/work/decoy.txt", "/proc/N/environ", "/proc/N/cmdline"} <= places, "it finds what is there"
    assert told["first"] < ENVIRON_BYTES
    assert all(told["read"][kind] > 0 for kind in ("environ", "cmdline", "maps", "fd", "memory", "files"))
    assert "kernel" not in told["read"]


@pytest.mark.threat("T15", 118, 119)
async def test_a_seat_without_a_shell_reads_no_secret_either(inn: House, lodger: Lodger) -> None:
    decoy = canary()
    lodger.write({"decoy.txt": decoy})
    look = Turn()
    for name in ("1/environ", "2/environ", "self/environ", "self/cmdline", "1/cmdline", "self/maps", "self/mountinfo"):
        look += calls("Read", file_path=f"/proc/{name}")
    for place in (
        "/proc/self",
        "/proc/1",
        "/etc",
        "/home",
        "/opt/enter.py",
        "/run",
        "/tmp",
        "/base",
        "/brief",
        "/turn",
    ):
        look += calls("Grep", pattern="c[a]nary-", path=place, output_mode="content")
    look += calls("Grep", pattern="c[a]nary-", path="/work", output_mode="content")
    with surrounded(inn, lodger) as file:
        look += calls("Glob", pattern=str(inn.state / "**")) + calls("Read", file_path=str(file))
        await lodger.turn(READER, [look, says("Nothing.")])
    assert seen(lodger, READER) == {decoy}


@pytest.mark.threat("T16")
async def test_an_environment_around_the_sandbox_would_be_noticed(lodger: Lodger) -> None:
    """Bubblewrap's own environment is that of the first process inside (threats.md T16)."""
    lodger.brings("hunt")
    lodger.weaken("", env={"SECRET": SECRETS["OPENAI_API_KEY"], "PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C"})
    await lodger.turn(CODEX, [CODEX.tries("hunt"), says("Found.")])
    told = result(lodger.asked(CODEX)[1].new_text())
    assert "/proc/1/environ" in told["found"][CANARY.findall(SECRETS["OPENAI_API_KEY"])[0]]
    assert told["first"] > ENVIRON_BYTES


async def test_a_key_that_is_handed_to_the_program_would_be_noticed(lodger: Lodger) -> None:
    lodger.change = lambda program: replace(program, env=program.env | {codex.KEY_VARIABLE: CODEX.key})
    ask = "cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
    await lodger.turn(CODEX, [CODEX.runs(ask), says("Found.")])
    assert seen(lodger, CODEX) == set(CANARY.findall(CODEX.key))
