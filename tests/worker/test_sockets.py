"""Unix sockets in folders with long names, for one user alone."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from tests.worker.sandboxed import is_root, open_files
from worker.sockets import bound, short


def test_a_socket_is_its_owners_alone(tmp_path: Path) -> None:
    user, group = (60_900, 60_900) if is_root() else (os.geteuid(), os.getegid())
    with bound(tmp_path, "api.sock", user=user if is_root() else None):
        about = (tmp_path / "api.sock").stat()
        assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (user, group, 0o600)
        assert tmp_path.stat().st_uid == user


async def test_a_long_folder_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    served = asyncio.Event()
    before = open_files()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set()
        writer.close()

    server = await asyncio.start_unix_server(serve, sock=bound(folder, "api.sock"))
    with short(folder) as place:
        assert len(place) < 30
        _, writer = await asyncio.open_unix_connection(f"{place}/api.sock")
    await served.wait()
    writer.close()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)
    assert open_files() <= before + 2


def test_what_cannot_be_bound_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(OSError, match="in use"), bound(tmp_path, "api.sock"):
        bound(tmp_path, "api.sock")
    with pytest.raises(FileNotFoundError):
        bound(tmp_path / "nowhere", "api.sock")
    assert open_files() == before
