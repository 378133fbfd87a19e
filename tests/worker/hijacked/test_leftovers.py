"""What agents whose model has turned against the machine leave behind for later turns, and for each other (T21)."""

from __future__ import annotations

import asyncio
import stat

import pytest

from scripted_models import Request, Turn, calls, says
from tests.worker.hijacked.conftest import CLAUDE, CODEX, READER, SHELLS, Actor, Lodger, canary
from worker import quarters
from worker.turn import SessionGone


def daemon(actor: Actor) -> str:
    """Return a command that leaves a process behind which wants to stay, and shows that it lives."""
    loop = f'trap "" TERM HUP INT QUIT; while :; do date +%N >> {actor.sessions}/alive; sleep 0.02; done'
    return f"setsid nohup sh -c '{loop}' > /dev/null 2>&1 < /dev/null & sleep 0.3"


LITTER = """cd {0}; mkdir -p deep/er; echo x > deep/er/plain; echo x > one; ln one two
ln -s /etc/passwd link; mkfifo pipe
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
echo x > program; chmod 6777 program; mkdir closed; echo x > closed/in; chmod 0 closed
echo x > /tmp/litter; echo x > /home/agent/litter; mkdir -p /home/agent/.config; echo x > /home/agent/.config/litter"""
LOOK = "find /tmp /home/agent -name '*litter*'; cd {0}; find . ! -type f ! -type d; echo looked"


@pytest.mark.threat("T21", 132)
@SHELLS
async def test_a_daemon_does_not_survive(lodger: Lodger, actor: Actor) -> None:
    seen: list[set[int]] = []

    def last(request: Request) -> Turn:
        seen.append(lodger.alive())
        return says("Done.")

    first = await lodger.turn(actor, [actor.runs(daemon(actor)), last])
    assert lodger.left() == []
    assert len(seen[0]) > 4, "bubblewrap, the agent and the daemon were seen while they were there"
    alive = lodger.sessions(actor) / "alive"
    before = alive.read_bytes()
    await asyncio.sleep(0.2)
    assert (alive.read_bytes(), before.count(b"\n") > 3) == (before, True)
    again = await lodger.turn(actor, [says("It is gone.")], session=first.session)
    assert again.session == first.session


@pytest.mark.threat("T21")
@SHELLS
async def test_what_a_turn_leaves_is_gone_or_tidied_before_the_next(lodger: Lodger, actor: Actor) -> None:
    first = await lodger.turn(actor, [actor.runs(LITTER.format(actor.sessions)), says("Done.")])
    folder = lodger.sessions(actor)
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in folder.rglob("*")}
    assert kinds == {stat.S_IFDIR, stat.S_IFREG}
    left = {path.name for path in folder.rglob("*")}
    assert {"link", "pipe", "socket"} & left == set()
    assert {"deep", "er", "plain", "program", "closed"} <= left
    again = await lodger.turn(actor, [actor.runs(LOOK.format(actor.sessions)), says("Clean.")], session=first.session)
    assert again.session == first.session
    seen = lodger.asked(actor)[-1].new_text()
    assert "looked" in seen
    assert not any(f"/{name}" in seen for name in ("litter", "link", "pipe", "socket"))


DEEP = 'python3 -c \'import os\nos.chdir("{0}")\nfor n in range(400):\n  os.mkdir("d" * 100)\n  os.chdir("d" * 100)\''
LARGE = "head -c 3000000 /dev/zero > {0}/large"


@pytest.mark.parametrize(("actor", "command"), [(CODEX, DEEP), (CLAUDE, LARGE)], ids=["codex, deep", "claude, large"])
async def test_session_files_beyond_measure_are_forgotten_with_the_session(
    lodger: Lodger, monkeypatch: pytest.MonkeyPatch, actor: Actor, command: str
) -> None:
    monkeypatch.setattr(quarters, "SESSION_BYTES", 2_000_000)
    first = await lodger.turn(actor, [actor.runs(command.format(actor.sessions)), says("Done.")])
    assert list(lodger.sessions(actor).iterdir()) == []
    with pytest.raises(SessionGone):
        await lodger.turn(actor, [says("Again.")], session=first.session)
    assert (await lodger.turn(actor, [says("Anew.")])).text == "Anew."


@pytest.mark.threat(139)
async def test_author_and_reviewer_never_see_each_others_sessions(lodger: Lodger) -> None:
    """Nor do a reviewer of another program, and one of the same."""
    words = {actor: canary() for actor in (CODEX, CLAUDE, READER)}
    everywhere = "grep -rhoE 'c[a]nary-[0-9a-f]{16}' /home /tmp /work /base /brief /turn /run /dev/shm; echo looked"
    look = calls("Grep", pattern="c[a]nary-", path="/home/agent", output_mode="content")
    look += calls("Glob", pattern="/home/agent/**/*")
    sessions = {}
    for actor in (CODEX, CLAUDE, READER):
        reply = await lodger.turn(actor, [says("Noted.")], brief=f"Remember {words[actor]}.")
        sessions[actor] = reply.session
        del lodger.asked(actor)[:]
    for actor in (CODEX, CLAUDE, READER):
        looks = actor.runs(everywhere) if actor.shell else look
        await lodger.turn(actor, [looks, says("Looked.")], session=sessions[actor])
        seen = lodger.asked(actor)[-1].raw.decode()
        assert words[actor] in lodger.asked(actor)[-1].new_text(), "it finds its own"
        assert not any(words[other] in seen for other in words if other != actor)
        del lodger.asked(actor)[:]
