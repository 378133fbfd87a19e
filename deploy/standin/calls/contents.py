"""The call that reads a path of a repository at a commit.

https://docs.github.com/en/rest/repos/contents#get-repository-content
"""

from __future__ import annotations

import base64
import posixpath
from dataclasses import dataclass
from typing import Any

from deploy.standin.answers import Answer, Refused, not_found
from deploy.standin.hosting import GitError
from deploy.standin.rest import Call, Route, in_url

WHOLE_BYTES = 1_000_000
"""Bytes of the largest file whose content is in the answer; a larger one has ``encoding: none`` up to 100 MB."""


@dataclass(frozen=True, slots=True)
class _Entry:
    mode: str
    kind: str
    sha: str
    size: int
    path: str


async def get_content(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/contents/{path}."""
    repo, path = call.repository, call.params["path"].strip("/")
    name = call.query.get("ref") or repo.default_branch
    # Where a tag and a branch have one name GitHub does not say which is read; here it is the tag, as git reads it.
    tag = await call.site.hosting.commit(repo.path, f"tags/{name}")
    commit = tag or await call.site.hosting.commit(repo.path, name)
    if commit is None:
        raise Refused(404, f"No commit found for the ref {name}")
    entry = await _entry(call, commit, path)
    if entry is None:
        raise not_found()
    if entry.kind == "tree":
        listed = await _listing(call, f"{commit}:{path}", f"{path}/")
        return Answer(200, [_shape(call, each, name) for each in listed])
    if entry.kind == "commit":
        return Answer(200, _shape(call, entry, name) | {"submodule_git_url": None})
    if entry.mode == "120000":
        return await _link(call, entry, commit, name)
    return Answer(200, await _file(call, entry, name))


async def _link(call: Call, entry: _Entry, commit: str, name: str) -> Answer:
    """Answer with the file that a link leads to, where it is one of this repository, else with the link itself."""
    target = (await call.site.hosting.read_file(call.repository.path, commit, entry.path)).decode("utf-8", "replace")
    led = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
    found = None if led.startswith(("/", "..")) else await _entry(call, commit, led)
    if found is not None and found.kind == "blob" and found.mode != "120000":
        return Answer(200, await _file(call, found, name))
    return Answer(200, _shape(call, entry, name) | {"type": "symlink", "target": target})


async def _file(call: Call, entry: _Entry, name: str) -> dict[str, Any]:
    whole = entry.size <= WHOLE_BYTES
    raw = await call.site.hosting.git(call.repository.path, "cat-file", "blob", entry.sha) if whole else b""
    content = base64.encodebytes(raw).decode()
    return _shape(call, entry, name) | {"content": content, "encoding": "base64" if whole else "none"}


async def _entry(call: Call, commit: str, path: str) -> _Entry | None:
    found = await _listing(call, commit, "", "--", path)
    return next((each for each in found if each.path == path), None)


async def _listing(call: Call, tree: str, prefix: str, *paths: str) -> list[_Entry]:
    try:
        raw = await call.site.hosting.git(call.repository.path, "ls-tree", "-z", "-l", tree, *paths)
    except GitError:
        return []
    entries = []
    for line in raw.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        words, _, path = line.partition("\t")
        mode, kind, sha, size = words.split()
        entries.append(_Entry(mode, kind, sha, int(size) if size.isdigit() else 0, f"{prefix}{path}"))
    return entries


def _shape(call: Call, entry: _Entry, name: str) -> dict[str, Any]:
    shapes, repo = call.site.shapes, call.repository
    path = "/".join(in_url(part) for part in entry.path.split("/"))
    what = "trees" if entry.kind == "tree" else "blobs"
    links = {
        "self": f"{shapes.repo_url(repo)}/contents/{path}?ref={in_url(name)}",
        "git": f"{shapes.repo_url(repo)}/git/{what}/{entry.sha}",
        "html": f"{shapes.repo_page(repo)}/{what[:-1]}/{in_url(name)}/{path}",
    }
    return {
        "type": {"tree": "dir", "commit": "submodule"}.get(entry.kind, "file"),
        "size": entry.size,
        "name": posixpath.basename(entry.path),
        "path": entry.path,
        "sha": entry.sha,
        "url": links["self"],
        "git_url": links["git"],
        "html_url": links["html"],
        "download_url": f"{shapes.repo_page(repo)}/raw/{in_url(name)}/{path}" if entry.kind == "blob" else None,
        "_links": links,
    }


ROUTES = (Route("GET", "/repos/{owner}/{repo}/contents/{path+}", get_content, ("contents:read",)),)
