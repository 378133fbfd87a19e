"""A worker that reaches its models only through a proxy, with an authority of the company's own.

The model API is the scripted one behind TLS; its name, the one of `test_behind_a_proxy`, is known to the proxy alone.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from pydantic import SecretStr
from test_behind_a_proxy import NAME, VARIABLES, certificates, joined, serving

from bot.store import Store
from deploy.pricing import prices as shipped
from scripted_models import ModelServer, says
from worker.gateway import SOCKET, Gateway, TurnBudget, Upstream

PRICES = shipped(Path("/none"))


@dataclass
class Office:
    """The company's network."""

    models: ModelServer
    store: Store
    folder: Path
    tls_port: int = 0
    asked: list[str] = field(default_factory=list)
    """What the proxy was asked for."""
    closed: bool = False
    """The proxy lets nobody through."""

    async def through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one CONNECT."""
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode().partition(" HTTP/")[0])
        writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n" if self.closed else b"HTTP/1.1 200 Yes\r\n\r\n")
        await writer.drain()
        if not self.closed:
            await joined(reader, writer, self.tls_port)

    async def decrypt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await joined(reader, writer, self.models.port)

    async def ask(self) -> tuple[int, Any]:
        """Ask as a program inside would; return the status, and the error's words or the whole reply."""
        ways = {"responses": Upstream(SecretStr("sk-the-key"), f"https://{NAME}/v1")}
        budget = TurnBudget("responses", "run1", 7, 10.0, 100.0)
        async with (
            Gateway(ways, self.folder, prices=PRICES, spending=self.store.spending) as gateway,
            gateway.turn(budget) as turn,
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(turn.folder / SOCKET))) as session,
            session.post("http://inside/v1/responses", json={"model": "gpt-5.5", "input": "hello"}) as reply,
        ):
            text = await reply.text()
            return reply.status, json.loads(text)["error"]["message"] if reply.status >= 400 else text


@pytest_asyncio.fixture
async def office(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Office]:
    authority, own = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    async with ModelServer.start() as models:
        made = Office(models, store, tmp_path_factory.mktemp("g"))
        async with serving(made.decrypt, context) as made.tls_port, serving(made.through) as port:
            for name in VARIABLES:
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("SSL_CERT_FILE", str(authority))
            monkeypatch.delenv("SSL_CERT_DIR", raising=False)
            yield made


async def test_models_are_reached_through_the_proxy(office: Office) -> None:
    office.models.openai.plays([says("hello")])
    status, text = await office.ask()
    assert status == 200
    assert "hello" in text
    assert office.asked == [f"CONNECT {NAME}:443"]
    assert office.models.openai.keys == {"sk-the-key"}


async def test_without_the_authority_no_key_is_sent(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    status, words = await office.ask()
    assert status == 502
    assert "name your own authority's file in SSL_CERT_FILE" in words
    assert not office.models.openai.requests


async def test_a_proxy_that_lets_nobody_through_is_named(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.closed = True
    assert await office.ask() == (
        502,
        "the proxy refused the way to the model API (403): check HTTPS_PROXY and NO_PROXY",
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert await office.ask() == (
        502,
        "the proxy to the model API could not be reached: check HTTPS_PROXY and NO_PROXY",
    )
    assert not office.models.openai.requests
