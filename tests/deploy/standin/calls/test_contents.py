"""Reading a path of a repository over the API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from deploy.standin import Repo, StandIn

CONTENTS = "/repos/octo/demo/contents"


async def test_a_file_of_the_default_branch_and_of_another(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"docs/a b.txt": "one\n"})
    await standin.commit(repo, "other", {"docs/a b.txt": "two\n"}, parent="main")
    found = await api("GET", f"{CONTENTS}/docs/a%20b.txt")
    assert (found.status, found.body["type"], found.body["path"]) == (200, "file", "docs/a b.txt")
    assert base64.b64decode(found.body["content"]) == b"one\n"
    other = await api("GET", f"{CONTENTS}/docs/a%20b.txt?ref=other")
    assert base64.b64decode(other.body["content"]) == b"two\n"
    at = await api("GET", f"{CONTENTS}/docs/a%20b.txt?ref={await standin.read_ref(repo, 'other')}")
    assert at.body["sha"] == other.body["sha"]


async def test_a_tag_is_read_before_a_branch_of_its_name(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"a.txt": "branch\n"})
    await standin.create_tag(repo, "main", await standin.commit(repo, "other", {"a.txt": "tag\n"}, parent="main"))
    found = await api("GET", f"{CONTENTS}/a.txt?ref=main")
    assert base64.b64decode(found.body["content"]) == b"tag\n"


async def test_what_is_not_there(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"a.txt": "one\n"})
    assert (await api("GET", f"{CONTENTS}/b.txt")).status == 404
    assert (await api("GET", f"{CONTENTS}/a.txt?ref=nowhere")).status == 404


async def test_a_folder_is_a_list(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"docs/a.txt": "one\n", "docs/deep/b.txt": "two\n"})
    found = await api("GET", f"{CONTENTS}/docs")
    assert [(each["type"], each["path"]) for each in found.body] == [("file", "docs/a.txt"), ("dir", "docs/deep")]


async def test_a_large_file_comes_without_its_content(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"large.txt": "x" * 1_000_001, "fits.txt": "x" * 1_000_000})
    found = await api("GET", f"{CONTENTS}/large.txt")
    assert (found.body["encoding"], found.body["content"], found.body["size"]) == ("none", "", 1_000_001)
    assert (await api("GET", f"{CONTENTS}/fits.txt")).body["encoding"] == "base64"


@pytest.mark.parametrize(
    ("target", "kind"), [("a.txt", "file"), ("../a.txt", "symlink"), ("/etc/passwd", "symlink"), ("docs", "symlink")]
)
async def test_a_link_is_followed_to_a_file_of_the_repository_alone(
    standin: StandIn, api: Any, repo: Repo, target: str, kind: str
) -> None:
    await standin.commit(repo, "main", {"a.txt": "one\n", "docs/b.txt": "two\n"})
    stream = (
        "commit refs/heads/main\nmark :1\ncommitter A <a@example.org> 0 +0000\ndata 4\nlink\n"
        f"from refs/heads/main^0\nM 120000 inline link\ndata {len(target)}\n{target}\n"
    )
    await standin._site.hosting.write_commit(repo.path, "main", stream.encode())
    found = await api("GET", f"{CONTENTS}/link")
    assert found.body["type"] == kind
    assert (found.body.get("target") or "a.txt") == target


async def test_it_needs_to_read_contents(standin: StandIn, api: Any, repo: Repo) -> None:
    await standin.commit(repo, "main", {"a.txt": "one\n"})
    auth = f"Bearer {standin.token(repo, {'issues': 'write'})}"
    assert (await api("GET", f"{CONTENTS}/a.txt", auth=auth)).status == 403
