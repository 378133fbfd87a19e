"""Starting and stopping, and the world that is made for a story."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from deploy.standin import StandIn


async def test_several_live_side_by_side_and_are_gone_when_stopped(tmp_path: Path) -> None:
    first, second = [await StandIn.start(tmp_path / name) for name in ("a", "b")]
    assert first.url != second.url
    assert first.api_url == f"{first.url}/api/v3"
    await asyncio.gather(first.create_repository("octo/demo"), second.create_repository("octo/demo"))
    await asyncio.gather(first.stop(), second.stop())
    async with aiohttp.ClientSession() as session:
        for url in (first.url, second.url):
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)


async def test_it_can_be_given_its_port_and_an_owner_of_the_app(tmp_path: Path) -> None:
    async with await StandIn.start(tmp_path / "a") as first:
        port = int(first.url.rsplit(":", 1)[1])
    async with await StandIn.start(tmp_path / "b", port=port, app_owner="me") as second:
        assert second.url.endswith(f":{port}")
        await second.create_repository("me/mine")
        headers = {"Authorization": f"Bearer {second.jwt()}"}
        async with aiohttp.ClientSession() as session, session.get(f"{second.api_url}/app", headers=headers) as answer:
            assert (await answer.json())["owner"]["login"] == "me"


async def test_stopping_gives_up_a_delivery_that_hangs(tmp_path: Path) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    standin = await StandIn.start(tmp_path, webhook_url=f"http://127.0.0.1:{port}/")
    await standin.create_repository("octo/demo")
    number = standin.create_issue("octo/demo", "x")
    url = f"{standin.api_url}/repos/octo/demo/issues/{number}/comments"
    headers = {"Authorization": f"Bearer {standin.token('octo/demo')}"}
    async with aiohttp.ClientSession() as session, session.post(url, json={"body": "x"}, headers=headers) as answer:
        assert answer.status == 201
    await standin.stop()
    assert standin.deliveries[0].status is None
    server.close()
    await server.wait_closed()


async def test_names_are_unique_and_well_formed(tmp_path: Path) -> None:
    async with await StandIn.start(tmp_path) as standin:
        await standin.create_repository("octo/demo")
        for name in ("octo/demo", "OCTO/Demo", "octo", "octo/de mo", "../x/y"):
            with pytest.raises(ValueError, match="taken"):
                await standin.create_repository(name)
        bare = await standin.create_repository("octo/bare", installed=False)
        with pytest.raises(LookupError, match="not installed"):
            standin.token(bare)
