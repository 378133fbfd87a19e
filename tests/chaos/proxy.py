"""A way to the store that can be cut: a socket before the store's own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Proxy:
    """Hands bytes on both ways, while it is not cut."""

    store: str
    """The path of the store's socket."""
    url: str
    cut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        if self.cut:
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(self.store)
        ends = {writer, inner_writer}
        self._writers |= ends
        try:
            await asyncio.gather(_hand_on(reader, inner_writer), _hand_on(inner_reader, writer))
        finally:
            self._writers -= ends
            for each in ends:
                each.close()

    async def drop(self, seconds: float) -> None:
        """Break all connections, and take none for some seconds."""
        self.cut = True
        for each in list(self._writers):
            each.transport.abort()
        await asyncio.sleep(seconds)
        self.cut = False


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """Run a proxy before the store at an address."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        place = Path(folder) / "store.sock"
        proxy = Proxy(unquote(urlsplit(url).path), f"unix://{place}")
        server = await asyncio.start_unix_server(proxy.meet, place)
        try:
            yield proxy
        finally:
            server.close()
            await proxy.drop(0.0)
