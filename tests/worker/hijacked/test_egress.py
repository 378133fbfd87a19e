"""Whom agents whose model has turned against the machine can reach, and what they get through the gateway (T19)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from scripted_models import says
from tests.worker.hijacked.conftest import CODEX, SHELLS, Actor, House, Lodger, canary, result
from tests.worker.sandboxed import open_folder
from worker.agents import AGENTS
from worker.gateway import SOCKET
from worker.sandbox import PORT

METADATA = "169.254.169.254"
DISTANT = [(METADATA, 80), ("192.0.2.1", 443), ("8.8.8.8", 53), ("10.0.0.1", 22), ("::1", 80), ("2001:db8::1", 443)]
DATAGRAMS = [(METADATA, 53), ("8.8.8.8", 53)]
NAMES = ["api.openai.com", "metadata.google.internal"]
SERVICES = [
    "/run/dbus/system_bus_socket",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "@/tmp/.X11-unix/X0",
]


@dataclass
class Services:
    """What this machine serves on its loopback and its sockets."""

    folder: Path
    port: int
    datagrams: int
    listeners: list[socket.socket]

    @property
    def unix(self) -> list[str]:
        return [str(self.folder / "service.sock"), f"@{self.folder.name}"]

    def took(self) -> int:
        """Return how many of them somebody came to."""
        came = 0
        for each in self.listeners:
            each.setblocking(False)
            try:
                each.recv(100) if each.type == socket.SOCK_DGRAM else each.accept()[0].close()
            except BlockingIOError:
                continue
            came += 1
        return came


@contextmanager
def services() -> Iterator[Services]:
    """Serve whoever comes."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        folder.chmod(0o755)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        unix.bind(str(folder / "service.sock"))
        (folder / "service.sock").chmod(0o777)
        abstract.bind(f"\0{folder.name}")
        unix.listen()
        abstract.listen()
        yield Services(folder, tcp.getsockname()[1], udp.getsockname()[1], [tcp, udp, unix, abstract])


def ways(served: Services, **more: list[Any]) -> str:
    """Return the ways out that are tried: to what is served here, and more."""
    facts = {
        "tcp": [("127.0.0.1", served.port), *more.get("tcp", [])],
        "udp": [("127.0.0.1", served.datagrams), *more.get("udp", [])],
        "unix": [*served.unix, *more.get("unix", [])],
        "names": more.get("names", []),
        "asks": more.get("asks", []),
    }
    return json.dumps(facts)


@pytest.mark.threat("T19", 120)
@SHELLS
async def test_nobody_can_be_reached(inn: House, lodger: Lodger, actor: Actor, valkey_url: str) -> None:
    """The machine's own services, the store and the gateway of a turn beside it are out of reach, too."""
    box = AGENTS[actor.agent].box
    assert box is not None
    store = unquote(urlsplit(valkey_url).path)
    assert store.endswith(".sock")
    lodger.brings("ways")
    with services() as served:
        async with inn.run() as neighbour:
            async with neighbour.lodgings.turn(box, neighbour.request(actor)) as beside:
                other = beside.door.folder / SOCKET
                assert other.is_socket()
                sockets = [*SERVICES, store, str(other), f"/run/gateway/../{other.parent.name}/{SOCKET}"]
                given = ways(served, tcp=DISTANT, udp=DATAGRAMS, unix=sockets, names=NAMES)
                await lodger.turn(actor, [actor.tries("ways", given), says("Nobody.")])
            assert (beside.door.spent.calls, beside.door.spent.refused) == (0, 0)
        assert result(lodger.asked(actor)[1].new_text())["reached"] == []
        assert served.took() == 0


# ---- The gateway ----------------------------------------------------------------------------------------------------


def by_hand(actor: Actor, **fields: Any) -> str:
    """Return the body of a call that the agent itself did not make."""
    body: dict[str, Any] = {"model": actor.model, "stream": True}
    if actor is CODEX:
        body["input"] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "by hand"}]}]
    else:
        body |= {"max_tokens": 100, "messages": [{"role": "user", "content": "by hand"}]}
    return json.dumps(body | fields)


def refused(actor: Actor) -> list[tuple[str, str, dict[str, str], str]]:
    """Return requests that are none of the agent's."""
    own, others = ("/v1/responses", "/v1/messages") if actor is CODEX else ("/v1/messages", "/v1/responses")
    body = by_hand(actor)
    reaching = by_hand(actor, tools=[{"type": "web_search" if actor is CODEX else "web_search_20250305", "name": "w"}])
    beyond = {"previous_response_id": "resp_1"} if actor is CODEX else {"mcp_servers": [{"url": "https://x.example"}]}
    return [
        ("GET", own, {}, ""),
        ("DELETE", own, {}, ""),
        ("PUT", own, {}, body),
        ("GET", "/v1/models", {}, ""),
        ("POST", "/v1/files", {}, body),
        ("POST", others, {}, body),
        ("POST", f"{own}/", {}, body),
        ("POST", f"/{own}", {}, body),
        ("POST", f"{own}/../files", {}, body),
        ("POST", f"{own}?key=1", {}, body),
        ("POST", own.replace("v1", "%76%31"), {}, body),
        ("POST", f"http://{METADATA}/latest/meta-data", {}, body),
        ("POST", own, {"Upgrade": "websocket", "Connection": "Upgrade"}, body),
        ("POST", own, {"Content-Encoding": "gzip"}, body),
        ("POST", own, {"anthropic-beta": "\u00e9"}, body),
        ("POST", own, {}, reaching),
        ("POST", own, {}, by_hand(actor, **beyond)),
        ("POST", own, {}, "no JSON"),
    ]


@pytest.mark.threat("T19", 121)
@SHELLS
async def test_the_gateway_lets_nothing_through_but_calls_of_the_model(lodger: Lodger, actor: Actor) -> None:
    """What is refused is counted, and a call by hand is one like any other: with the real key, and no other header."""
    stolen = canary()
    headers = {"Authorization": f"Bearer {stolen}", "x-api-key": stolen, "X-Stolen": stolen, "Host": "evil.example"}
    asks = refused(actor)
    own = ("POST", asks[0][1], headers, by_hand(actor))
    lodger.brings("ways")
    with services() as served:
        given = ways(served, asks=[*asks, own])
        await lodger.turn(actor, [actor.tries("ways", given), says("Here."), says("Nothing.")])
    *answers, last = result(lodger.asked(actor)[2].new_text())["answers"]
    assert {status for status in answers if status not in {400, 403, 415}} == set(), answers
    assert last == 200
    spent = lodger.stay.door.spent
    assert (spent.refused, spent.calls, len(lodger.asked(actor))) == (len(asks), 3, 3)
    assert "by hand" in lodger.asked(actor)[1].prompt_text()
    assert {request.key for request in lodger.asked(actor)} == {actor.key}
    assert stolen not in str(dict(lodger.asked(actor)[1].headers))
    assert "evil.example" not in str([dict(request.headers) for request in lodger.asked(actor)])


# ---- That it would be noticed ---------------------------------------------------------------------------------------


async def test_a_socket_that_is_shown_inside_would_be_noticed(lodger: Lodger) -> None:
    lodger.brings("ways")
    with services() as served:
        folder = str(served.folder)
        lodger.weaken(f"at = argv.index('--remount-ro'); argv[at:at] = ['--ro-bind', {folder!r}, {folder!r}]")
        await lodger.turn(CODEX, [CODEX.tries("ways", ways(served)), says("There.")])
        assert result(lodger.asked(CODEX)[1].new_text())["reached"] == [f"unix {served.unix[0]}"]
        assert served.took() == 1


async def test_a_network_that_is_the_machines_would_be_noticed(lodger: Lodger) -> None:
    lodger.brings("ways")
    with services() as served, socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
        free.close()
        move = f"argv = [each.replace('127.0.0.1:{PORT}', '127.0.0.1:{port}') for each in argv]"
        lodger.weaken(f"{move}\nargv[argv.index('{PORT}')] = '{port}'\nargv.insert(1, '--share-net')")
        await lodger.turn(CODEX, [CODEX.tries("ways", ways(served)), says("There.")])
        reached = result(lodger.asked(CODEX)[1].new_text())["reached"]
        assert {f"tcp 127.0.0.1:{served.port}", f"udp 127.0.0.1:{served.datagrams}", f"unix {served.unix[1]}"} <= set(
            reached
        )
        assert served.took() == 3
