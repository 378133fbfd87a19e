"""Repositories for these tests: a source that may hold anything, made object by object, and a mirror of it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from worker.git import git
from worker.git.admit import AdmitRules, Admitted, admit
from worker.git.brief import list_changes
from worker.git.mirror import Mirror, Mirrors
from worker.git.tree import materialise

FILE, PROGRAM, LINK, GITLINK, FOLDER = "100644", "100755", "120000", "160000", "40000"
Body = bytes | tuple[str, bytes]
"""A file's bytes; or a mode and what stands behind it: bytes, or an object id for a gitlink."""


@dataclass
class Source:
    """A bare repository without git's own checks in the way of what is put into it."""

    path: Path
    written: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *argv: str) -> str:
        env = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
        done = subprocess.run(["git", *argv], cwd=self.path, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def put(self, kind: str, body: bytes) -> str:
        raw = f"{kind} {len(body)}\0".encode() + body
        oid = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        if oid not in self.written:
            place = self.path / "objects" / oid[:2] / oid[2:]
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(zlib.compress(raw, 1))
            self.written.add(oid)
        return oid

    def tree_of(self, rows: list[tuple[str, bytes, str]]) -> str:
        rows = sorted(rows, key=lambda row: row[1] + (b"/" if row[0] == FOLDER else b""))
        return self.put("tree", b"".join(b"%s %s\0%s" % (m.encode(), n, bytes.fromhex(o)) for m, n, o in rows))

    def tree(self, files: Mapping[bytes, Body]) -> str:
        below: dict[bytes, dict[bytes, Body]] = {}
        rows = []
        for path, body in files.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = body
                continue
            mode, raw = body if isinstance(body, tuple) else (FILE, body)
            rows.append((mode, name, raw.decode() if mode == GITLINK else self.put("blob", raw)))
        rows += [(FOLDER, name, self.tree(inside)) for name, inside in below.items()]
        return self.tree_of(rows)

    def commit(
        self,
        files: Mapping[bytes, Body] | str,
        *parents: str,
        message: bytes = b"a commit\n",
        author: bytes = b"A <a@example.org>",
        ref: str = "refs/heads/main",
    ) -> str:
        tree = files if isinstance(files, str) else self.tree(files)
        lines = [f"tree {tree}".encode(), *(f"parent {parent}".encode() for parent in parents)]
        lines += [b"author " + author + b" 1700000000 +0000", b"committer " + author + b" 1700000000 +0000"]
        oid = self.put("commit", b"\n".join(lines) + b"\n\n" + message)
        self.point(ref, oid)
        return oid

    def point(self, ref: str, oid: str) -> None:
        place = self.path / ref
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(oid + "\n")


@pytest.fixture
def new_source(tmp_path: Path) -> Callable[[str], Source]:
    def make(name: str) -> Source:
        path = tmp_path / f"{name}.git"
        path.mkdir()
        source = Source(path)
        source.git("init", "-q", "--bare", "-b", "main", ".")
        source.git("config", "uploadpack.allowFilter", "true")
        source.git("config", "uploadpack.allowAnySHA1InWant", "true")
        return source

    return make


@pytest.fixture
def source(new_source: Callable[[str], Source]) -> Source:
    return new_source("source")


@pytest.fixture
async def mirror(tmp_path: Path) -> Mirror:
    return await Mirrors(tmp_path / "mirrors", also=("file",)).of(1)


@pytest.fixture
def take(mirror: Mirror, source: Source) -> Callable[..., Any]:
    """Fetch commits of the source by their ids, and return the first."""

    async def fetch(*commits: str) -> str:
        await mirror.fetch(source.url, {f"refs/run/r1/c{number}": each for number, each in enumerate(commits)})
        return commits[0]

    return fetch


# ---- A round of an author -------------------------------------------------------------------------------------------

FILES: dict[bytes, Body] = {
    b"a.txt": b"one\n",
    b"crlf.txt": b"one\r\ntwo\r\n",
    b"run.sh": (PROGRAM, b"#!/bin/sh\n"),
    b"src/b.py": b"b = 1\n",
    b"src/deep/c.py": b"c = 1\n",
    b"link": (LINK, b"src/b.py"),
    b"out": (LINK, b"/etc/passwd"),
    b"sub": (GITLINK, b"1" * 40),
    b"CLAUDE.md": b"be nice\n",
    b".claude/settings.json": b"{}\n",
    b".github/workflows/ci.yml": b"on: push\n",
    b"bad\nname": b"kept\n",
    b"src/latin-\xe9": b"caf\xe9\n",
}


@dataclass
class Round:
    """A materialised tree that an author works on."""

    mirror: Mirror
    commit: str
    folder: Path

    async def admit(self, **rules: Any) -> Admitted:
        return await admit(self.mirror, self.commit, self.folder, AdmitRules(**rules))

    async def changes(self, admitted: Admitted) -> list[tuple[str, bytes]]:
        """Return what git says that was changed."""
        return [(c.status, c.path) for c in await list_changes(self.mirror, self.commit, admitted.tree)]

    async def content(self, admitted: Admitted, path: str) -> bytes:
        return await git(self.mirror.path, "cat-file", "blob", f"{admitted.tree}:{path}")


@pytest.fixture
def round_of(mirror: Mirror, source: Source, take: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Make a round that begins with some files."""

    async def make(files: Mapping[bytes, Body]) -> Round:
        commit = await take(source.commit(files))
        await materialise(mirror, commit, tmp_path / "tree")
        return Round(mirror, commit, tmp_path / "tree")

    return make


@pytest.fixture
async def round_(round_of: Callable[..., Any]) -> Round:
    made: Round = await round_of(FILES)
    return made


# ---- A server -------------------------------------------------------------------------------------------------------


class _Handler(http.server.BaseHTTPRequestHandler):
    """`git http-backend` behind HTTP, with a password."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: GitServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self._body()
        self.server.asked.append(self.path)
        wanted = b"Basic " + base64.b64encode(b"x-access-token:" + self.server.token.encode())
        if self.headers.get("Authorization", "").encode() != wanted:
            self._reply(401, [("WWW-Authenticate", "Basic")], b"")
            return
        if self.server.status:
            self._reply(self.server.status, [("Location", "http://127.0.0.1:1/elsewhere")], b"remote words")
            return
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.defpath,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "x-access-token",
        }
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for key, value in headers if key == "Status"), 200)
        self._reply(status, [(key, value) for key, value in headers if key != "Status"], content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class GitServer(http.server.ThreadingHTTPServer):
    """A server of the repositories below a folder."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.token = "ghs_invented.token-1"
        self.status = 0
        self.asked: list[str] = []

    def url(self, source: Source) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{source.path.name}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
