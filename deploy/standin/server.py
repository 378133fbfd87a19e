"""The HTTP server of the stand-in: which request is whose, the journal, and the faults that a test ordered."""

from __future__ import annotations

import socket

from aiohttp import web

from deploy.standin.calls import ROUTES
from deploy.standin.faults import spoil
from deploy.standin.git_http import GitServer, Turned
from deploy.standin.record import Exchange, Request
from deploy.standin.rest import Api, parsed
from deploy.standin.site import Site

HOST = "127.0.0.1"
API_ROOT = "/api/v3"
"""Where GitHub Enterprise Server has its REST API."""
SHUTDOWN_SECONDS = 0.5
"""How long a request that is under way may still take when the stand-in stops."""
READS = ("/info/refs", "/git-upload-pack")


def listen(port: int) -> socket.socket:
    """Return a bound socket; port 0 lets the system choose one."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound


class Server:
    """Serves one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._api = Api(site, ROUTES)
        self._git = GitServer(site)
        # 0: no limit, since a push is as large as it is.
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._serve)
        # git compresses what it sends, and it is git that has to inflate it.
        self._runner = web.AppRunner(
            application, access_log=None, auto_decompress=False, shutdown_timeout=SHUTDOWN_SECONDS
        )

    async def start(self, bound: socket.socket) -> None:
        """Serve on a bound socket."""
        await self._runner.setup()
        await web.SockSite(self._runner, bound).start()

    async def stop(self) -> None:
        """Stop serving."""
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        is_api = request.path.startswith(f"{API_ROOT}/")
        path = request.path.removeprefix(API_ROOT) if is_api else request.path
        entry = Request(request.method, path, dict(request.query))
        if is_api:
            entry.body = parsed(await request.read())
        response = await self._answer(request, entry, is_api=is_api)
        if is_api:
            await self._show(request, entry, response)
        return response

    async def _answer(self, request: web.Request, entry: Request, *, is_api: bool) -> web.StreamResponse:
        fault = self._site.record.begin(entry)
        # To read with git has no effect, and its answer is on its way before it is whole.
        early = fault is not None and (fault.when == "before" or entry.path.endswith(READS))
        if fault is not None and early:
            return await spoil(request, entry, fault, answer=None)
        response = await (self._answer_api(request, entry) if is_api else self._answer_git(request, entry))
        if fault is not None:
            return await spoil(request, entry, fault, answer=response)
        entry.status = response.status
        return response

    async def _show(self, request: web.Request, entry: Request, response: web.StreamResponse) -> None:
        """Show a finished request of the API to those who watch."""
        if not self._site.record.observers:
            return
        answer = response.body if isinstance(response, web.Response) and entry.status is not None else None
        exchange = Exchange(
            method=entry.method,
            target=request.rel_url.raw_path_qs.removeprefix(API_ROOT),
            content_type=request.content_type,
            body=await request.read(),
            status=entry.status,
            answer=bytes(answer) if isinstance(answer, bytes | bytearray) else b"",
            fault=entry.fault,
        )
        for observe in self._site.record.observers:
            observe(exchange)

    async def _answer_api(self, request: web.Request, entry: Request) -> web.StreamResponse:
        return await self._api.answer(request, request.rel_url.raw_path.removeprefix(API_ROOT), entry)

    async def _answer_git(self, request: web.Request, entry: Request) -> web.StreamResponse:
        try:
            visit = self._git.admit(request, entry)
        except Turned as refusal:
            return self._git.connected(refusal.response())
        if visit.pushes:
            return self._git.connected(await self._git.push(request, visit, entry))
        return await self._git.fetch(request, visit)
