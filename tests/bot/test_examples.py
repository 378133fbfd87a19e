"""GitHub's published webhook examples at the real door: each is accepted, none makes a fault, ours become events.

A few are kept with the tests (`tests/data/webhook-examples`); the whole set is read where it has been brought.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import events
from bot.events import CommentCreated, InstallationChanged, Ping, PullRequestChanged
from github_contract.deliveries import violations

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "webhook-examples"
WHOLE = Path(os.environ.get("WEBHOOK_EXAMPLES") or ROOT / ".webhook-examples")
PACKAGE = "@octokit/webhooks-examples@7.6.1"
ABSENT = (
    f"the whole set of GitHub's webhook examples was not tried: there is none in {WHOLE.name}. Bring it with "
    f"`npm pack {PACKAGE}` and unpack it into .webhook-examples at the root of the repository (.ci/run does "
    "both), or name its folder in WEBHOOK_EXAMPLES"
)
INSTALLATION = {"id": 481516, "node_id": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9uNDgxNTE2"}

Example = tuple[str, dict[str, Any]]


def read(folder: Path) -> Iterator[Example]:
    """Yield every example below a folder, in the package's own form: its event's name and its payload."""
    for path in sorted(folder.rglob("index.json")):
        for event in json.loads(path.read_text("utf-8")):
            for payload in event["examples"]:
                yield event["name"], payload


EXAMPLES = list(read(KEPT))


def named(example: Example) -> str:
    return f"{example[0]} {example[1].get('action', '')}".strip()


def of(name: str, action: str | None = None) -> list[dict[str, Any]]:
    """Return the kept examples of an event."""
    return [payload for event, payload in EXAMPLES if event == name and action in (None, payload.get("action"))]


class Door:
    """The receiver, and a look at the log: a fault of ours is no answer, and no line in it."""

    def __init__(self, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
        self._receiver = receiver
        self._caplog = caplog

    async def take(self, name: str, payload: dict[str, Any]) -> events.Event | None:
        """Deliver a payload, and return what was queued of it as the event that it is read as."""
        queued = self._receiver.queue.jobs
        queued.clear()
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        status, sentence = await self._receiver.post(body, X_GitHub_Event=name)
        assert status == 202, (named((name, payload)), sentence)
        assert [each for each in self._caplog.records if each.levelno >= logging.WARNING] == []
        if not queued:
            return None
        ((event, slim),) = queued.values()
        found = events.parse(event, json.loads(slim))
        assert found is not None, "what is queued is an event"
        return found


@pytest.fixture
def door(receiver: Any, caplog: pytest.LogCaptureFixture) -> Door:
    return Door(receiver, caplog)


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
async def test_an_example_is_accepted(door: Door, example: Example) -> None:
    name, payload = example
    assert await door.take(name, payload) == events.parse(name, payload)


async def test_the_kept_ones_are_all_that_the_app_may_hear_of(door: Door) -> None:
    kinds: dict[str, set[type]] = {}
    for name, payload in EXAMPLES:
        kinds.setdefault(named((name, payload)), set()).add(type(await door.take(name, payload)))
    understood = {kind: found for kind, found in kinds.items() if kind.partition(" ")[0] in events.EVENTS}
    changed = ("opened", "synchronize", "reopened", "ready_for_review", "closed")
    installed = ("created", "deleted", "suspend", "unsuspend", "new_permissions_accepted")
    assert understood == {
        # One of the two is from a time, or a hook, that named no installation.
        "issue_comment created": {CommentCreated, type(None)},
        "issue_comment edited": {type(None)},
        "issue_comment deleted": {type(None)},
        **{f"pull_request {action}": {PullRequestChanged} for action in changed},
        **{f"installation {action}": {InstallationChanged} for action in installed},
        "installation_repositories added": {InstallationChanged},
        "installation_repositories removed": {InstallationChanged},
        "ping": {Ping},
    }
    others = {kind.partition(" ")[0] for kind in kinds} - set(events.EVENTS)
    assert others >= {"pull_request_review", "pull_request_review_comment", "push", "security_advisory"}


def on_a_pull_request(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a comment's payload as one of an App on a pull request, which no published example is."""
    made = copy.deepcopy(payload)
    issue = made["issue"]
    page = issue["html_url"].replace("/issues/", "/pull/")
    issue["pull_request"] = {
        "url": issue["url"].replace("/issues/", "/pulls/"),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
    }
    return made | {"installation": INSTALLATION}


@pytest.mark.parametrize("payload", of("issue_comment", "created"), ids=["old", "new"])
async def test_a_comment_on_a_pull_request_becomes_an_event(door: Door, payload: dict[str, Any]) -> None:
    made = on_a_pull_request(payload)
    found = await door.take("issue_comment", made)
    assert isinstance(found, CommentCreated)
    assert found.on_pull_request
    assert (found.installation_id, found.number) == (INSTALLATION["id"], payload["issue"]["number"])
    assert (found.comment_id, found.text) == (payload["comment"]["id"], payload["comment"]["body"])
    assert (found.author.id, found.sender.id) == (payload["comment"]["user"]["id"], payload["sender"]["id"])
    assert found.repository.full_name == payload["repository"]["full_name"]


def test_the_derived_comment_is_one_that_github_may_send() -> None:
    newest = of("issue_comment", "created")[1]
    assert violations("issue_comment", newest) == []
    assert violations("issue_comment", on_a_pull_request(newest)) == []


@pytest.mark.parametrize("name", sorted({name for name, _ in EXAMPLES if name in events.EVENTS}))
@pytest.mark.parametrize("odd", ["gone", None, 5, "x", [], {}], ids=str)
async def test_a_key_may_be_gone_or_hold_anything(door: Door, name: str, odd: object) -> None:
    """Old hooks lack keys and later ones bring others: whatever stands in one's place, no delivery makes a fault."""
    payload = on_a_pull_request(of(name)[0]) if name == "issue_comment" else of(name)[0]
    for path in places(payload):
        made = copy.deepcopy(payload)
        holder = made
        for key in path[:-1]:
            holder = holder[key]
        if odd == "gone":
            del holder[path[-1]]
        else:
            holder[path[-1]] = odd
        assert await door.take(name, made) == events.parse(name, made)


def places(payload: dict[str, Any], depth: int = 3) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all keys that lead to an object or that an event is read from."""
    for key, value in payload.items():
        if isinstance(value, dict) and value and depth > 1:
            yield (key,)
            yield from ((key, *rest) for rest in places(value, depth - 1))
        elif key in {"action", "id", "number", "sha", "login", "full_name", "body", "type", "updated_at"}:
            yield (key,)


async def test_the_whole_set(door: Door) -> None:
    """Every payload that GitHub's users have published, those of older servers included."""
    whole = list(read(WHOLE))
    if not whole:
        pytest.skip(ABSENT)
    assert len(whole) >= 329
    for name, payload in whole:
        assert await door.take(name, payload) == events.parse(name, payload)
        if name == "issue_comment" and payload["action"] == "created":
            assert isinstance(await door.take(name, on_a_pull_request(payload)), CommentCreated)
        if name == "pull_request":
            made = payload | {"installation": INSTALLATION}
            assert isinstance(await door.take(name, made), PullRequestChanged)
    for example in EXAMPLES:
        assert example in whole, f"{named(example)} was changed"


def test_the_gate_brings_the_whole_set() -> None:
    gate = (ROOT / ".ci" / "run").read_text("utf-8")
    assert PACKAGE in gate
    assert ".webhook-examples*/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
