"""Bad input, from the wire to the file: each gets the answer that the documents give it, and nothing is lost."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from telling import Story, finding, section, verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

BASE = {"app.py": "x = 1\n"}
CHANGE = {"app.py": "x = 2\n"}
RESOLVED = finding(status="resolved")


async def post(story: Story, body: bytes, **headers: str) -> int:
    """Send bytes to the receiver as they are; return the status."""
    sent = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "issue_comment",
        "X-GitHub-Delivery": str(uuid4()),
        "X-Hub-Signature-256": "sha256=" + "0" * 64,
    } | headers
    url = story.machine.github.webhook_url or ""
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=sent) as answer:
        return answer.status


def sign(story: Story, body: bytes) -> str:
    secret = story.machine.github.webhook_secret.encode()
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


async def test_a_bad_signature(story: Story) -> None:
    assert await post(story, b"{}") == 401


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b'{"a": NaN}', b'{"a":1,"a":2}', b"\xff", b"[" * 100_000])
async def test_malformed_json(story: Story, body: bytes) -> None:
    headers = {"X-Hub-Signature-256": sign(story, body)}
    assert await post(story, body, **headers) == 400


async def test_an_unknown_event_is_taken_and_ignored(story: Story) -> None:
    body = json.dumps({"action": "created", "installation": {"id": 1}}).encode()
    headers = {"X-Hub-Signature-256": sign(story, body), "X-GitHub-Event": "sparkle"}
    assert await post(story, body, **headers) == 202


@pytest.mark.parametrize(
    "text",
    [
        "> /codex-debate review",
        "```\n/codex-debate review\n```",
        "    /codex-debate review",
        "Please run `/codex-debate review`.",
        "- /codex-debate review",
        "<!-- /codex-debate review -->",
        "Try this: /codex-debate review",
    ],
)
async def test_what_only_looks_like_a_command_is_ignored(story: Story, text: str) -> None:
    story.plays(verdict())
    await story.opens(BASE, CHANGE)
    await story.says(text)
    # A command behind it is carried out: by then the one before it has been dealt with.
    await story.says("/codex-debate review --max-rounds 5")
    end = await story.ends()
    assert len(story.machine.github.check_runs(story.repo)) == 1
    assert story.machine.github.reactions(story.commands[0]) == []
    assert end.state.status == "consensus"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/codex-debate review --round 3", "has no flag `--round`"),
        ("/codex-debate review --max-rounds three", "takes a whole number"),
        ("/codex-debate review --no-commit --no-commit", "twice"),
        ("/codex-debate reviw", "There is no `reviw`"),
        ("/codex-debate review --base no-such-branch", "has no branch"),
        ("/codex-debate review --base=--upload-pack=touch", "nothing was started"),
        ("/codex-debate review --reviewer scripted", "nothing was started"),
        ("/codex-debate review --push", "not in this version"),
        ("/codex-debate status", "not in this version"),
        ("/codex-debate review\n\n/codex-debate help", "Two commands in one comment"),
    ],
)
async def test_a_command_that_cannot_be_carried_out_is_told_why(story: Story, text: str, said: str) -> None:
    await story.opens(BASE, CHANGE)
    comment = await story.says(text)
    reply = await story.replied()
    assert said in reply
    assert "nothing was started" in reply.lower()
    await asyncio.sleep(0)
    for _ in range(500):
        if found := [each.content for each in story.machine.github.reactions(comment)]:
            break
        await asyncio.sleep(0.02)
    assert found == ["confused"]


async def debated(story: Story, base: Any, change: Any, edits: Any) -> Any:
    """Debate a change in which the author makes these edits in its first round."""
    story.plays(verdict(finding()), section("F1 fixed", edits=edits), verdict(RESOLVED))
    await story.opens(base, change)
    return await story.reviewed()


async def test_binary_and_deleted_files(story: Story) -> None:
    base = {"logo.png": bytes(range(256)), "gone.txt": "old\n", "app.py": "x = 1\n"}
    change = {"logo.png": bytes(range(255, -1, -1)), "gone.txt": None, "app.py": "x = 2\n"}
    end = await debated(story, base, change, {"logo.png": None, "app.py": "x = 3\n"})
    assert end.state.status == "consensus"
    assert set(end.commits[0].files) == {"logo.png", "app.py"}
    assert "`logo.png` (binary)" in end.comment


@pytest.mark.threat(103)
async def test_only_deletions(story: Story) -> None:
    story.plays(verdict())
    await story.opens({"a.txt": "a\n", "b.txt": "b\n"}, {"b.txt": None})
    end = await story.reviewed()
    assert end.state.status == "consensus"


async def test_only_a_rename(story: Story) -> None:
    story.plays(verdict())
    await story.opens({"old.txt": "text\n" * 20}, {"old.txt": None, "new.txt": "text\n" * 20})
    end = await story.reviewed()
    assert end.state.status == "consensus"
    assert "read 1 of 1 file" in end.comment


async def test_line_ends_stay_as_they_are(story: Story) -> None:
    edits = {"app.py": "x = 3\r\ny = 2\r\n"}
    end = await debated(story, {"app.py": "x = 1\r\n", "w.txt": "a\r\nb\n"}, {"app.py": "x = 2\r\n"}, edits)
    github = story.machine.github
    assert await github.read_file(story.repo, end.branch, "app.py") == b"x = 3\r\ny = 2\r\n"
    assert await github.read_file(story.repo, end.branch, "w.txt") == b"a\r\nb\n"
    assert end.commits[0].files == ("app.py",)


@pytest.mark.threat(93)
async def test_paths_that_are_hard_to_say(story: Story) -> None:
    """Kept as they are, shown escaped, and none of them lost in a commit of the author's."""
    names = ["two\nlines.py", "tab\there.py", "\udcff\udcfe.bin", "-x.py", "`tick`.py", "[a](b).md", "\u202ertl.py"]
    change: dict[str, Any] = dict.fromkeys(names, "strange = 1\n") | CHANGE
    end = await debated(story, BASE, change, {"app.py": "x = 3\n"})
    assert end.state.status == "consensus"
    assert end.commits[0].files == ("app.py",)
    github = story.machine.github
    for name in names:
        assert await github.read_file(story.repo, end.branch, name) == b"strange = 1\n"
    assert "\u202e" not in end.comment
    assert "two\nlines" not in end.comment
