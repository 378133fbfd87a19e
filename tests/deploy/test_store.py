"""The embedded store: it keeps what it was given, dies with us, and shares its folder with nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from redis.asyncio import Redis

from bot.store import Store
from deploy import store as module
from deploy.store import EmbeddedStore, StoreFailed, find_server

ROOT = Path(__file__).parents[2]


async def ask(url: str, *words: str) -> object:
    redis = Redis.from_url(url)
    try:
        return await redis.execute_command(*words)
    finally:
        await redis.aclose()


async def server_process(url: str) -> int:
    redis = Redis.from_url(url)
    try:
        info = await redis.info("server")
    finally:
        await redis.aclose()
    return int(info["process_id"])


def runs(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pid: int) -> None:
    while runs(pid):
        await asyncio.sleep(0.01)


async def test_it_writes_each_command_to_disk_and_evicts_nothing(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path) as url:
        for name, value in {
            "appendonly": b"yes",
            "appendfsync": b"always",
            "maxmemory-policy": b"noeviction",
            "port": b"0",
            "save": b"",
        }.items():
            assert await ask(url, "CONFIG", "GET", name) == [name.encode(), value]
        opened = await Store.connect(url)
        await opened.close()


async def test_only_its_user_can_reach_it(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "store"
    async with EmbeddedStore(folder) as url:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        # Below a long path the socket stands elsewhere.
        socket = await asyncio.to_thread(os.stat, unquote(urlsplit(url).path))
        assert stat.S_IMODE(socket.st_mode) == 0o700


async def test_what_was_written_is_there_after_the_next_start(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path) as url:
        pid = await server_process(url)
        await ask(url, "SET", "kept", "yes")
    await gone(pid)
    assert not (tmp_path / "store.sock").exists()
    async with EmbeddedStore(tmp_path) as url:
        assert await ask(url, "GET", "kept") == b"yes"


async def test_a_killed_server_is_started_again_with_all_that_was_written(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path) as url:
        opened = await Store.connect(url)
        assert not await opened.runs.seen("delivery", None, by="a")
        pid = await server_process(url)
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        assert await opened.runs.seen("delivery", None, by="b")
        assert await server_process(url) != pid
        await opened.close()


async def test_a_socket_that_a_crash_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "store.sock").write_text("stale")
    (tmp_path / "store.lock").write_text("1 stale")
    async with EmbeddedStore(tmp_path) as url:
        assert await ask(url, "PING") is True


async def test_a_long_path_gets_its_socket_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    async with EmbeddedStore(folder) as url:
        assert str(folder) not in url
        await ask(url, "SET", "kept", "yes")
        elsewhere = Path(url.removeprefix("unix://")).parent
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    assert not elsewhere.exists()
    async with EmbeddedStore(folder) as url:
        assert await ask(url, "GET", "kept") == b"yes"


async def test_a_path_with_odd_characters_is_reached(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path / "a b?c#d%e") as url:
        opened = await Store.connect(url)
        await opened.health.lacks()
        await opened.close()


async def test_a_folder_has_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TETHER", module.TETHER.replace(f"+ {module.LOCK_SECONDS}", "+ 0"))
    async with EmbeddedStore(tmp_path) as url:
        pid = await server_process(url)
        with pytest.raises(StoreFailed, match=rf"Another store \(process {pid}\) is at work in .* Stop that one, or"):
            async with EmbeddedStore(tmp_path):
                pass
        assert await ask(url, "PING") is True


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path) as url:
        await ask(url, "SET", "kept", "yes")
    for part in (tmp_path / "appendonlydir").glob("*.aof"):
        part.write_bytes(b"this is no log of ours\r\n" + part.read_bytes())
    with pytest.raises(StoreFailed, match=r"The store did not start: .*Bad file format.* Its log is"):
        async with EmbeddedStore(tmp_path):
            pass


async def test_a_machine_without_a_server_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_from_wheel", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreFailed, match="install `valkey-server` or `redis-server`"):
        find_server()
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_server() == str(program)


PARENT = """
import asyncio, sys
from pathlib import Path
from deploy.store import EmbeddedStore

async def main() -> None:
    async with EmbeddedStore(Path(sys.argv[1])) as url:
        print(url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent (prctl)")
async def test_it_dies_with_its_parent_and_the_next_one_takes_over(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), cwd=ROOT, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    url = (await parent.stdout.readline()).decode().strip()
    await ask(url, "SET", "kept", "yes")
    pid = await server_process(url)
    parent.kill()
    await parent.wait()
    # No wait here: a server that is just ending is waited for by the next one.
    async with EmbeddedStore(tmp_path) as again:
        assert await ask(again, "GET", "kept") == b"yes"
    await gone(pid)


async def test_a_server_that_answers_as_it_ends_is_not_taken_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedStore(tmp_path):
        late = EmbeddedStore(tmp_path)
        late._token = "late"
        ping = Redis.ping

        async def ended(redis: Redis) -> object:
            answer = await ping(redis)
            late._lock.write_text("1 late")
            return answer

        monkeypatch.setattr(Redis, "ping", ended)
        assert not await late._answers()
        late._lock.write_text("1 late")
        assert await late._answers()
