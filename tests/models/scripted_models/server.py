"""The server: both APIs on one port of 127.0.0.1, and the way to where else it was asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from scripted_models import anthropic_messages, openai_responses
from scripted_models.model import Model
from scripted_models.playing import Answering
from scripted_models.request import Request, parsed

LOG = logging.getLogger("scripted_models")
LARGEST_BODY = 256 * 1024 * 1024
HELLO = "/api/hello"
"""claude asks here whether its server is there (agents.md 4.9)."""


@dataclass
class ModelServer:
    """Two scripted models. Get a running one from `start`."""

    port: int = 0
    openai: Model = field(default_factory=lambda: Model(openai_responses))
    anthropic: Model = field(default_factory=lambda: Model(anthropic_messages))
    strays: list[Request] = field(default_factory=list)
    """Requests to neither API. They are answered 404."""
    _ending: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    @asynccontextmanager
    async def start(cls, *, port: int = 0) -> AsyncIterator[ModelServer]:
        """Serve until the block ends, which ends every open answer. Raises then the first of the failures."""
        server = cls()
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", server._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            server.port = runner.addresses[0][1]
            yield server
        finally:
            server._ending.set()
            await runner.cleanup()
        for failure in server.openai.failures + server.anthropic.failures:
            raise failure

    @property
    def openai_url(self) -> str:
        """The base URL for a provider of codex."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for claude."""
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        raw = await http.read()
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Request("", http.method, http.path_qs, headers, raw, parsed(raw))
        models = {model.api.PATH: model for model in (self.openai, self.anthropic)}
        model = models.get(http.path) if http.method == "POST" else None
        if model is None:
            self.strays.append(request)
            LOG.info("%s %s: neither of the APIs", request.method, request.path)
            return web.Response(status=200 if http.path == HELLO else 404)
        request = model.arrived(request)
        turn = await model.decide(request)
        try:
            answer = await Answering(http, request, model, self._ending).play(turn)
        except (asyncio.CancelledError, ConnectionError):
            request.left = True
            raise
        except Exception as error:
            model.failures.append(error)
            raise
        else:
            request.finished = turn.fault is None
            return answer
        finally:
            LOG.info("%s %s: session %s, request %d, %s", *_line(request))


def _line(request: Request) -> tuple[object, ...]:
    return request.method, request.path, request.session or "without a name", request.turn, request.usage
