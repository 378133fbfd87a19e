import time, asyncio, pytest
from scripted_models import *
from tests.worker.hijacked.conftest import *
from worker import quota
from worker.debate.flow import TurnFailed
BOMB = "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'"
HOG = "python3 -c 'kept = []\nwhile True: kept.append(bytes(range(256)) * 65536)'"
FILL = "cat /dev/zero > {0}; ls -la {0}"
S = {
 "bomb": BOMB, "hog": HOG, "tmp": FILL.format("/tmp/fill"), "home": FILL.format("/home/agent/fill"), "shm": FILL.format("/dev/shm/fill"),
 "yes": "yes", "never": "trap '' TERM INT HUP; sleep 1000; sleep 1000", "out": "yes $(head -c 100000 /dev/zero | tr '\\0' x)"
}
@pytest.mark.parametrize("name", S)
@pytest.mark.parametrize("actor", [CODEX, CLAUDE], ids=["codex", "claude"])
async def test_a(inn, lodger, actor, name, monkeypatch):
    looks=[]
    def look(r):
        looks.append(len(lodger.alive()))
        return actor.runs(S[name])
    t=time.monotonic()
    async def nb():
        async with inn.run() as n:
            t=time.monotonic()
            other = CLAUDE if actor is CODEX else CODEX
            r=await n.turn(other, [other.runs("sleep 2; echo fine"), says("neighbour done")])
            return r.text, time.monotonic()-t
    task=asyncio.ensure_future(nb())
    try:
        r = await lodger.turn(actor, [look, says("Survived.")], seconds=5)
        out = r.text
    except TurnFailed as f:
        out = (f.kind, f.sentence)
    print(name, actor.agent, out, time.monotonic()-t, looks, [x for x in lodger.left()][:3], lodger.groups)
    print(repr(lodger.asked(actor)[-1].new_text())[-300:])
    print(await task)
