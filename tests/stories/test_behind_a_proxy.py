"""A server that reaches GitHub only through a proxy, with an authority of the company's own.

GitHub is the stand-in behind TLS; its name, ``github.test``, is known to the proxy alone.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from bot.github import AppClient, Unavailable, open_session
from bot.settings import Settings
from deploy.standin import Repo, StandIn
from worker.git import GitUnavailable, Remote
from worker.git.commit import push, remote_sha
from worker.git.mirror import Mirrors

NAME = "github.test"
LOGIN = "Basic " + base64.b64encode(b"build:a word").decode()
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "ALL_PROXY", "all_proxy")

Stream = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def certificates(folder: Path) -> tuple[Path, Path]:
    """Write an authority, and a certificate for `NAME` that it signed with its key; return both files."""
    now = datetime.now(UTC)

    def made(name: str, key: Any, issuer: str, signer: Any, *, authority: bool) -> bytes:
        called = {each: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)}
        builder = x509.CertificateBuilder().subject_name(called[name]).issuer_name(called[issuer])
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if not authority:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (folder / "authority.pem").write_bytes(made("The Company", root, "The Company", root, authority=True))
    secret = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "github.pem").write_bytes(secret + made(NAME, own, "The Company", root, authority=False))
    return folder / "authority.pem", folder / "github.pem"


@asynccontextmanager
async def serving(handle: Stream, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on a port of this machine, each in a task that ends with the server."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carry bytes to a port of this machine and back until either side ends."""
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    both = [asyncio.create_task(carry(reader, there_writer)), asyncio.create_task(carry(there_reader, writer))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        there_writer.close()


@dataclass
class Office:
    """The company's network."""

    standin: StandIn
    repo: Repo
    authority: Path
    proxy: str = ""
    tls_port: int = 0
    asked: list[str] = field(default_factory=list)
    """What the proxy was asked for and let through."""
    turned: int = 0
    """How often it let nobody through."""
    closed: bool = False
    """The proxy lets nobody through."""

    async def through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one CONNECT, of somebody who logs in: git does so when it is told to."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split("\r\n")[0].split(" ")
        login = [line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("proxy-auth")]
        if login != [LOGIN] or self.closed:
            self.turned += 1
            writer.write(
                b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="The Company"\r\n'
                b"Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            await writer.drain()
            return
        self.asked.append(f"{method} {target}")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await joined(reader, writer, self.tls_port)

    async def decrypt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await joined(reader, writer, int(self.standin.url.rpartition(":")[2]))

    @asynccontextmanager
    async def app(self) -> AsyncIterator[AppClient]:
        settings = Settings(
            github_app_id=self.standin.app_id,
            github_app_private_key=SecretStr(self.standin.app_private_key),
            github_api_url=f"https://{NAME}/api/v3",
            github_server_url=f"https://{NAME}",
        )
        async with open_session(settings.github_api_url) as session:
            yield AppClient(settings, session)


@pytest_asyncio.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    """The environment names the proxy and the authority, as an operator does."""
    authority, own = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    async with await StandIn.start(tmp_path / "github") as standin:
        repo = await standin.create_repository("octo-org/tidebook", private=True)
        await standin.commit(repo, "main", {"a.txt": "one\n"})
        made = Office(standin, repo, authority)
        async with serving(made.decrypt, context) as made.tls_port, serving(made.through) as port:
            made.proxy = f"http://build:a%20word@127.0.0.1:{port}"
            for name in VARIABLES:
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("HTTPS_PROXY", made.proxy)
            monkeypatch.setenv("SSL_CERT_FILE", str(authority))
            monkeypatch.delenv("SSL_CERT_DIR", raising=False)
            yield made


async def test_the_api_is_reached_through_the_proxy(office: Office) -> None:
    async with office.app() as app:
        github = app.installation(office.standin.installation_id(office.repo), office.repo.id)
        assert (await github.get("/repos/octo-org/tidebook"))["id"] == office.repo.id
        assert (await app.identity()).bot_id == office.standin.bot.id
    assert set(office.asked) == {f"CONNECT {NAME}:443"}


async def test_git_is_reached_through_the_proxy(office: Office, tmp_path: Path) -> None:
    office.standin.git_keeps_connections = True
    main = await office.standin.read_ref(office.repo, "main")
    async with office.app() as app:
        installation = office.standin.installation_id(office.repo)
        token = await app.git_token(installation, office.repo.id, write=True)
    office.asked.clear()
    url = f"https://{NAME}/octo-org/tidebook.git"
    assert await remote_sha(Remote(url, token), "refs/heads/main") == main
    mirror = await Mirrors(tmp_path / "mirrors").of(office.repo.id)
    await mirror.fetch(url, {"refs/run/r1/head": "refs/heads/main"}, token)
    await push(mirror, Remote(url, token), str(main), ref="refs/heads/kept")
    assert await office.standin.read_ref(office.repo, "kept") == main
    assert office.asked == [f"CONNECT {NAME}:443"] * 3


async def test_without_the_authority_github_is_not_believed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    async with office.app() as app:
        with pytest.raises(Unavailable, match="name your own authority's file in SSL_CERT_FILE"):
            await app.owner_id()
    assert len(office.asked) == 1
    with pytest.raises(GitUnavailable, match="certificate"):
        await remote_sha(Remote(f"https://{NAME}/octo-org/tidebook.git", "t"), "refs/heads/main")
    assert office.standin.journal == []


async def test_a_certificate_for_another_name_is_not_believed(office: Office) -> None:
    settings = Settings(
        github_app_id="1",
        github_app_private_key=SecretStr(office.standin.app_private_key),
        github_api_url="https://github.example/api/v3",
    )
    async with open_session(settings.github_api_url) as session:
        with pytest.raises(Unavailable, match="certificate"):
            await AppClient(settings, session).owner_id()
    with pytest.raises(GitUnavailable, match="certificate"):
        await remote_sha(Remote("https://github.example/o/r.git", "t"), "refs/heads/main")
    assert office.standin.journal == []


async def test_a_proxy_that_refuses_is_named(office: Office) -> None:
    office.closed = True
    async with office.app() as app:
        with pytest.raises(Unavailable, match=r"The proxy refused the way to GitHub \(407\): check HTTPS_PROXY"):
            await app.owner_id()
    with pytest.raises(GitUnavailable, match="407"):
        await remote_sha(Remote(f"https://{NAME}/o/r.git", "t"), "refs/heads/main")
    assert office.standin.journal == []


async def test_a_proxy_that_is_away_is_named(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(office.through) as port:
        pass
    monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{port}")
    async with office.app() as app:
        with pytest.raises(Unavailable, match="The proxy could not be reached: check HTTPS_PROXY"):
            await app.owner_id()


async def test_what_is_on_this_machine_is_not_asked_for_through_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", office.proxy)
    standin = office.standin
    settings = Settings(
        github_app_id=standin.app_id,
        github_app_private_key=SecretStr(standin.app_private_key),
        github_api_url=standin.api_url,
    )
    async with open_session(standin.api_url) as session:
        app = AppClient(settings, session)
        token = await app.git_token(standin.installation_id(office.repo), office.repo.id, write=False)
    assert await remote_sha(Remote(standin.clone_url(office.repo), token), "refs/heads/main")
    assert office.asked == []
