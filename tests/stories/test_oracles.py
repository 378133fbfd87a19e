"""Each oracle can fail: what it must not let pass is planted, and it is seen to speak.

A story here that is marked `unlike` has a fault: what its oracle finds is taken, and if it found nothing the story
fails (`oracles.violations`).
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from oracles import leftovers, places
from oracles.calls import Calls
from oracles.canaries import Canaries
from oracles.court import Court
from oracles.refs import ENVIRONMENT
from oracles.violations import MARK
from redis.asyncio import Redis
from telling import Story, finding, section, verdict

from bot.settings import Settings
from bot.store import EVENTS
from bot.store.connection import key
from bot.telemetry import log
from deploy.machine import machine
from scripted_models import ModelServer, says
from tests.worker.sandboxed import Cell, cell, sandbox, state  # noqa: F401 - fixtures
from worker.main import run_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")

RESOLVED = finding(status="resolved")
WHY = "it is planted"
GROWTH = 1.1
"""By how much memory may have grown over twelve debates (threats.md, O9). Measured were 3 to 4 of a hundred, most of it
what the stand-in remembers."""


def planted(oracle: str, says: str, *values: object, also: str = "", name: str | None = None) -> Any:
    """Return a case with a fault, which is found as it `says`, and `also` so."""
    unlike = getattr(pytest.mark, MARK)
    marks = [unlike(oracle, says=each, why=WHY) for each in (says, also) if each]
    return pytest.param(*values, marks=marks, id=name)


async def ask(story: Story, method: str, path: str, body: dict[str, Any]) -> int:
    """Ask the stand-in as the App; return the id in the answer."""
    github = story.machine.github
    url = f"{github.api_url}/repos/{story.repo.full_name}{path}"
    headers = {"Authorization": f"Bearer {github.token(story.repo)}"}
    async with aiohttp.ClientSession() as session, session.request(method, url, json=body, headers=headers) as answer:
        assert answer.ok, await answer.text()
        return int((await answer.json())["id"])


def place(story: Story, court: Court) -> places.Place:
    """Return the court's view of the pipeline that a story runs over."""
    (found,) = (each for each in court.places if each.github is story.machine.github)
    return found


async def program(*argv: str, env: dict[str, str] | None = None) -> None:
    """Run a program to its end."""
    quiet = asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(*argv, env={"PATH": os.defpath} | (env or {}), stdout=quiet)
    assert await started.wait() == 0


# ---- O1 -------------------------------------------------------------------------------------------------------------


async def in_a_comment(story: Story, secret: str, _: Path) -> None:
    await ask(story, "POST", f"/issues/{story.number}/comments", {"body": f"It is {secret}"})


async def in_the_store(story: Story, secret: str, _: Path) -> None:
    async with Redis.from_url(story.machine.settings.redis_url or "") as redis:
        await redis.set("planted", secret, px=1)


async def in_a_file_of_the_worker(story: Story, secret: str, _: Path) -> None:
    (story.machine.settings.state_dir / "planted").write_text(secret)


async def in_a_commit(story: Story, secret: str, _: Path) -> None:
    await story.machine.github.commit(story.repo, "feature", {"deep/planted.py": f"KEY = {secret!r}\n"})


async def in_the_mirror(story: Story, secret: str, folder: Path) -> None:
    mirror = story.machine.settings.state_dir / "mirrors" / f"{story.repo.id}.git"
    (source := folder / "source").write_text(secret)
    await program("git", "init", "--quiet", "--bare", str(mirror), env=ENVIRONMENT)
    await program("git", "-C", str(mirror), "hash-object", "-w", str(source), env=ENVIRONMENT)


async def in_the_log(_: Story, secret: str, __: Path) -> None:
    log("bot.app").info("planted", answer=f"{secret[:-1]}", rest=secret)


async def in_an_argument(_: Story, secret: str, __: Path) -> None:
    await program("true", secret)


async def in_an_environment(_: Story, secret: str, __: Path) -> None:
    await program("true", env={"GIT_CONFIG_VALUE_0": secret})


async def in_a_request_to_a_model(_: Story, secret: str, __: Path) -> None:
    await ask_a_model(f"It is {secret}")


async def in_a_header_to_a_model(_: Story, secret: str, __: Path) -> None:
    await ask_a_model("Hello", referer=secret)


async def in_the_folder_of_a_run(story: Story, secret: str, _: Path) -> None:
    """While its agent works: the folder has gone at the end."""
    folder = story.machine.settings.state_dir / "runs" / "planted"
    folder.mkdir(parents=True)
    (folder / "brief").write_text(secret)
    await ask_a_model("Hello", authorization=f"Bearer {secret}")  # where a key belongs
    (folder / "brief").unlink()
    folder.rmdir()


async def ask_a_model(words: str, **headers: str) -> None:
    body = {"model": "gpt-5.5", "input": words}
    async with ModelServer.start() as models, aiohttp.ClientSession() as session:
        models.openai.plays([says("hello")])
        async with session.post(f"{models.openai_url}/responses", json=body, headers=headers) as answer:
            assert answer.ok


Planting = Callable[[Story, str, Path], Awaitable[None]]
PLACES = [
    # The webhook of the comment brings it into the store.
    planted("O1", "is sent to GitHub in POST /api/v3/repos/[^ ]+/comments", in_a_comment, also=r"\.aof"),
    planted("O1", r"stands in .*appendonly.*\.aof", in_the_store),
    planted("O1", "stands in .*/state/planted", in_a_file_of_the_worker),
    planted("O1", "stands in an object of", in_a_commit),
    planted("O1", "stands in an object of", in_the_mirror),
    planted("O1", "is sent to a model in /v1/responses", in_a_request_to_a_model),
    planted("O1", "is sent to a model in /v1/responses", in_a_header_to_a_model),
    planted("O1", "stands in .*/state/runs/planted/brief", in_the_folder_of_a_run),
    planted("O1", "is logged", in_the_log),
    planted("O1", "is an argument of true", in_an_argument),
    planted("O1", "is in the environment of true", in_an_environment),
]


@pytest.mark.threat("O1")
@pytest.mark.parametrize("plant", PLACES)
async def test_a_secret_in_the_wrong_place_is_found(
    story: Story, court: Court, plant: Planting, tmp_path: Path
) -> None:
    secret = story.machine.settings.github_webhook_secret.get_secret_value()
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    await plant(story, secret, tmp_path)
    await court.visit()
    (story.machine.settings.state_dir / "planted").unlink(missing_ok=True)
    async with Redis.from_url(story.machine.settings.redis_url or "") as redis:
        await redis.set("filler", "x" * places.AGAIN, px=1)  # what is read again holds it no more


@pytest.mark.threat("O1")
@pytest.mark.unlike("O1", says="stands in an object of", why=WHY)
async def test_what_was_found_is_not_found_again_in_the_next_test(story: Story, court: Court, tmp_path: Path) -> None:
    secret = story.machine.settings.github_webhook_secret.get_secret_value()
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    await in_a_commit(story, secret, tmp_path)
    await court.visit()
    found = [*court.found]
    assert found
    await in_a_comment(story, "asked for again", tmp_path)
    await court.visit()
    assert court.found == found


@pytest.mark.threat("O1")
async def test_every_secret_is_known_in_every_form(story: Story) -> None:
    canaries, settings, github = Canaries(), story.machine.settings, story.machine.github
    pem = settings.github_app_private_key.get_secret_value()
    canaries.add("a key", pem)
    assert canaries.within(json.dumps({"key": pem})) == ["a key"]
    assert canaries.within("\n".join(line for line in pem.split("\n") if "-----" not in line)) == ["a key"]
    assert canaries.within(pem.split("\n")[5]) == []
    canaries.add("a secret", secret := settings.github_webhook_secret.get_secret_value())
    login = base64.b64encode(f"{secret}:and more".encode()).decode()
    assert secret not in login
    assert canaries.within(f"Basic {login}") == ["a secret"]
    token = github.token(story.repo)
    github.stateless_tokens = False
    short = github.token(story.repo)
    github.stateless_tokens = True
    assert canaries.within(token) == []
    for each in (token, short):
        canaries.issued(each)
        login = base64.b64encode(f"x-access-token:{each}".encode()).decode()
        for text in (each, f"https://x:{each}@h/", f"Basic {login}", f'"{login[:60]}"'):
            assert canaries.within(text) == ["an installation token"]
    assert canaries.within(token[40:100]) == ["an installation token"]
    canaries.fresh()
    assert canaries.within(token[40:100]) == []
    assert canaries.within(token) == ["an installation token"]
    assert canaries.within("ghs_" + "x" * 36) == []
    assert Canaries(every_token=True).within("ghs_" + "x" * 36) != []


@pytest.mark.threat("O1")
async def test_git_alone_may_be_given_a_token(story: Story) -> None:
    heard: list[str] = []
    canaries = Canaries()
    canaries.issued(token := story.machine.github.token(story.repo))
    calls = Calls(canaries, lambda oracle, words: heard.append(f"{oracle}: {words}"))
    calls.listening = True
    env = {"GIT_CONFIG_VALUE_3": f"Authorization: Basic {token}"}
    calls.hear("subprocess.Popen", ("/usr/bin/git", ["/usr/bin/git", "fetch"], None, env))
    assert heard == []
    calls.hear("subprocess.Popen", ("/usr/bin/git", ["/usr/bin/git", b"fetch"], None, {"TOKEN": token}))
    calls.hear("subprocess.Popen", ("git", ["git", "fetch", f"https://x:{token}@github.test/"], None, {}))
    assert heard == [
        "O1: an installation token is in the environment of git, as TOKEN",
        "O1: an installation token is an argument of git",
    ]


@pytest.mark.threat("O1")
async def test_what_a_program_in_a_sandbox_knows_is_found(
    story: Story,
    court: Court,
    cell: Cell,  # noqa: F811 - the fixture
) -> None:
    canaries = Canaries()
    settings = story.machine.settings.model_copy(update={"state_dir": cell.folder})
    there = replace(place(story, court), settings=settings, canaries=canaries)
    canaries.add("a key", f"the-key-of-{cell.token}")
    running = asyncio.ensure_future(cell.sh("export KEY=the-key-of-$0; exec sleep 20"))
    async with asyncio.timeout(20):
        while not (known := list(there.under_way())):
            await asyncio.sleep(0.02)
    assert "O1: a key is in environ of process" in str(known[0])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert list(there.under_way()) == []
    there.close()


# ---- O2 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O2")
@pytest.mark.unlike("O2", says="the run folder left", why=WHY)
@pytest.mark.unlike("O2", says="the gateway's folder left", why=WHY)
@pytest.mark.unlike("O2", says="the control group /", why=WHY)
async def test_what_a_run_leaves_is_found(
    story: Story, court: Court, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oracles.court.SETTLING", 0.0)
    folder = story.machine.settings.state_dir
    left = [folder / "runs" / "left", folder / "gateway" / "left"]
    for each in left:
        each.mkdir(parents=True)
    court.groups.append(tmp_path)
    await court.visit()
    for each in left:
        each.rmdir()


@pytest.mark.threat("O2")
async def test_a_process_that_is_left_in_a_sandbox_is_found(cell: Cell) -> None:  # noqa: F811 - the fixture
    running = asyncio.ensure_future(cell.sh("exec sleep 20"))
    async with asyncio.timeout(20):
        while not (found := [each for each in leftovers.remains(cell.folder / "tree") if "(sleep)" in each]):
            await asyncio.sleep(0.02)
    assert "in a sandbox" in found[0]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert list(leftovers.remains(cell.folder / "tree")) == []


# ---- O4 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O4")
@pytest.mark.unlike("O4", says="is in_progress and not completed", why=WHY)
@pytest.mark.unlike("O4", says=r"was completed \d times", why=WHY)
@pytest.mark.unlike("O4", says="got several conclusions", why=WHY)
@pytest.mark.unlike("O4", says="2 check runs have the external id 'twin'", why=WHY)
async def test_check_runs_that_do_not_end_once_are_found(story: Story, court: Court) -> None:
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    fields = {"name": "codex-debate", "head_sha": story.head, "status": "in_progress"}
    first, second = [
        await ask(story, "POST", "/check-runs", fields | {"external_id": name}) for name in ("endless", "twin")
    ]
    done = {"status": "completed", "conclusion": "success"}
    for conclusion in ("success", "failure"):
        await ask(story, "PATCH", f"/check-runs/{second}", done | {"conclusion": conclusion})
    await ask(story, "POST", "/check-runs", fields | done | {"external_id": "twin"})
    await court.visit()
    await ask(story, "PATCH", f"/check-runs/{first}", done)
    del story.machine.github._site.state.check_runs[second]


# ---- O5 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O5")
@pytest.mark.unlike("O5", says="<img", why=WHY)
@pytest.mark.unlike("O5", says="a call, @somebody", why=WHY)
@pytest.mark.unlike("O5", says="a link to http://127.0.0.1:", why=WHY)
@pytest.mark.unlike("O5", says="1 comments of run abcdefgh", why=WHY)
async def test_a_comment_that_is_alive_is_found(story: Story) -> None:
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    nobodys = f"[b]({story.machine.github.server_url}/nobody/nowhere)"
    body = f"## Debate: a ⇄ b\n\n![a](x) @somebody {nobodys} run `abcdefgh`"
    await ask(story, "POST", f"/issues/{story.number}/comments", {"body": body})


@pytest.mark.threat("O5")
@pytest.mark.unlike("O5", says="a call, @summary", why=WHY)
@pytest.mark.unlike("O5", says="a call, @text", why=WHY)
@pytest.mark.unlike("O5", says="a call, @title in alive", why=WHY)
@pytest.mark.unlike("O5", says="a call, @note in alive", why=WHY)
@pytest.mark.unlike("O5", says="a call, @message in alive", why=WHY)
async def test_a_check_run_that_is_alive_is_found(story: Story) -> None:
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    lines = {"path": "app.py", "start_line": 1, "end_line": 1, "annotation_level": "notice"}
    output: dict[str, Any] = {name: f"It is @{name}" for name in ("title", "summary", "text")}
    output["annotations"] = [lines | {"title": "It is @note", "message": "It is @message"}]
    fields = {"name": "codex-debate", "head_sha": story.head, "external_id": "alive", "output": output}
    await ask(story, "POST", "/check-runs", fields | {"status": "completed", "conclusion": "neutral"})


# ---- O6 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O6")
@pytest.mark.unlike("O6", says="the App moved refs/heads/main, which is no branch of a run", why=WHY)
@pytest.mark.unlike("O6", says="refs/heads/beside is [0-9a-f]+ and was left at None", why=WHY)
async def test_a_branch_that_must_not_move_is_found(story: Story, court: Court) -> None:
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    github = story.machine.github
    login = base64.b64encode(f"x-access-token:{github.token(story.repo)}".encode()).decode()
    env = ENVIRONMENT | {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_1": "http.extraHeader",
        "GIT_CONFIG_VALUE_1": f"Authorization: Basic {login}",
    }
    words = ("push", "--quiet", github.clone_url(story.repo), f"{story.head}:refs/heads/main")
    await program("git", "-C", str(story.repo.path), *words, env=env)
    await github._site.hosting.move(story.repo.path, "refs/heads/beside", story.head)
    await court.visit()


# ---- O7 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O7")
@pytest.mark.unlike("O7", says="codex-debate:1:events:stuck has no end", why=WHY)
@pytest.mark.unlike("O7", says="#1 is held by .*planted", why=WHY)
async def test_a_job_that_is_never_done_is_found(story: Story, court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
    # What is real comes to its end in the time that it needs: nothing is left to wait for but what is planted.
    assert await place(story, court).quiet() == []
    monkeypatch.setattr(places, "PATIENCE", 0.1)
    queue, claim = key("queue", EVENTS), key("claim", story.repo.id, 1)
    async with Redis.from_url(story.machine.settings.redis_url or "") as redis:
        held: Any = redis.hset(claim, "running", "planted")
        await held
        await redis.zadd(queue, {key(EVENTS, "stuck"): 9e12})
        await court.visit()
        await redis.zrem(queue, key(EVENTS, "stuck"))
        await redis.delete(claim)


@pytest.mark.threat("O7")
@pytest.mark.unlike("O7", says="planted fault", why=WHY)
@pytest.mark.unlike("O7", says="exception was never retrieved.*planted exception", why=WHY)
@pytest.mark.unlike("O7", says="a word of another process", why=WHY)
async def test_an_error_that_is_logged_is_found(court: Court, tmp_path: Path) -> None:
    async def dies() -> None:
        raise ValueError("planted exception")

    log("worker.job").error("planted fault")
    asyncio.create_task(dies())  # noqa: RUF006 - that nobody holds it is the point
    await asyncio.sleep(0)
    gc.collect()
    other = tmp_path / "log"
    other.write_text('{"event": "fine", "level": "info"}\na word of another process\n')
    court.logs[other] = 0


# ---- O9 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O9")
@pytest.mark.unlike("O9", says="fds grew from", why=WHY)
@pytest.mark.unlike("O9", says="children grew from", why=WHY)
async def test_what_a_story_keeps_open_is_found(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    await court._counted()
    monkeypatch.setattr("oracles.court.SETTLING", 0.0)
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(leftovers.ALLOWED["fds"] * 2)]
    child = await asyncio.create_subprocess_exec("sleep", "20")
    await court._counted()
    child.kill()
    await child.wait()
    for each in kept:
        os.close(each)


def resident() -> int:
    """Return the bytes of memory that this process has (proc(5), statm)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.gate
@pytest.mark.threat("O9")
async def test_memory_is_as_before_after_many_debates(story: Story) -> None:
    async def debate() -> None:
        # In a repository of its own, and so not paced with the others (decisions.md 9).
        repo = await story.machine.github.create_repository(f"owner-{uuid4()}/app")
        told = Story(story.machine, story.scenario, story.record, repo)
        await told.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
        assert (await told.reviewed()).state.status == "consensus"

    async def debates(times: int) -> int:
        """Debate, three at a time; return the bytes of memory that this process has then."""
        for _ in range(times):
            await asyncio.gather(debate(), debate(), debate())
        return resident()

    story.plays(verdict(finding()), section("F1 fixed", edits={"app.py": "x = 3\n"}), verdict(RESOLVED))
    before = await debates(1)
    after = await debates(4)
    assert after <= before * GROWTH


# ---- The court ------------------------------------------------------------------------------------------------------


@pytest.mark.unlike("O1", says="stands in .*/own/state/planted", why=WHY)
@pytest.mark.unlike("O2", says="the run folder late", why=WHY)
async def test_a_machine_of_a_test_s_own_is_looked_at_when_it_is_closed_and_once_more_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leaving(settings: Settings, *words: Any, **more: Any) -> None:
        await run_worker(settings, *words, **more)
        (settings.state_dir / "runs" / "late").mkdir(parents=True)

    monkeypatch.setattr("deploy.machine.run_worker", leaving)
    seat = f"scripted:{tmp_path / 'scenario.json'}"
    async with machine(tmp_path / "own", reviewer=seat, author=seat) as made:
        made.settings.state_dir.mkdir(exist_ok=True)
        (made.settings.state_dir / "planted").write_text(made.settings.github_webhook_secret.get_secret_value())
