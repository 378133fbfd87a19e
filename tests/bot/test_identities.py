"""Who may start a debate: every kind of identity at every door (threats.md T5 and T6, inputs 57 to 66 and 74)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from bot import replies

LISTED = {
    "itself": lambda number: number,
    "a part of it": lambda number: number // 10,
    "more": lambda number: number * 10,
}
"""Which number the operator lists, by the asker's own (input 65)."""


@dataclass(frozen=True)
class Identity:
    """Who asks. `starts`: they may start a debate; `heard`: they are answered at all."""

    name: str
    role: str = "none"
    type: str = "User"
    starts: bool = False
    heard: bool = True
    listed: str = ""
    association: str = "NONE"
    via_app: bool = False
    sender: str | None = None


IDENTITIES = [
    Identity("a stranger (57)"),
    Identity("a reader (57)", "read"),
    Identity("a triager whom GitHub calls collaborator (58)", "triage", association="COLLABORATOR"),
    Identity("a first-time contributor (59)", "read", association="FIRST_TIME_CONTRIBUTOR"),
    Identity("who was merged once (60)", "read", association="CONTRIBUTOR"),
    Identity("a member of the organisation (61)", "read", association="MEMBER"),
    Identity("somebody whom GitHub calls owner", "read", association="OWNER"),
    Identity("a writer (62)", "write", starts=True),
    Identity("a maintainer (62)", "maintain", starts=True),
    Identity("an admin (62)", "admin", starts=True),
    Identity("a writer in whose name an App writes (43)", "write", heard=False, via_app=True),
    Identity("a writer whose words somebody else sends", "write", heard=False, sender="hubot"),
    Identity("a bot with write permission (64)", "write", "Bot", heard=False),
    Identity("a listed bot (64), of which GitHub tells no permission", "none", "Bot", starts=True, listed="itself"),
    Identity("a bot whose number is longer (65)", "write", "Bot", heard=False, listed="a part of it"),
    Identity("a bot whose number is a part of it (65)", "write", "Bot", heard=False, listed="more"),
    Identity("an organisation (74)", "write", "Organization", heard=False),
    Identity("a mannequin (74)", "write", "Mannequin", heard=False),
]


async def asked(world: Any, who: Identity, text: str, number: int) -> None:
    """Let somebody write a comment, and the bot handle it."""
    await world.standin.comment(world.repo, number, text, login=login_of(who))
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    for each in (payload["comment"]["user"], payload["sender"]):
        each["type"] = who.type
    payload["comment"]["author_association"] = who.association
    if who.via_app:
        payload["comment"]["performed_via_github_app"] = {"id": 1, "slug": "other"}
    if who.sender is not None:
        payload["sender"]["id"] += 1
    await world.hear(payload, name="issue_comment")


def login_of(who: Identity) -> str:
    return "asker[bot]" if who.type == "Bot" else "asker"


@pytest.mark.threat("T5", "T6", 43, 57, 58, 59, 60, 61, 62, 64, 65, 74)
@pytest.mark.parametrize("who", IDENTITIES, ids=lambda who: who.name)
async def test_authz_matrix(world: Any, who: Identity) -> None:
    kind = who.type if who.type in {"User", "Bot", "Organization"} else "User"
    user = world.standin.create_user(login_of(who), kind)
    world.standin.set_permission(world.repo, user.login, who.role)
    world.use(bots=(LISTED[who.listed](user.id),) if who.listed else ())
    runs, issue = world.store.runs, world.standin.create_issue(world.repo, "Please")
    doors = [
        ("/codex-debate review", world.number),
        ("/codex-debate", world.number),
        (f"/codex-debate review {world.number}", issue),
        (f"/codex-debate approve {world.head()[:10]}", world.number),
    ]
    approves = who.starts and who.type == "User"
    for text, where in doors:
        await asked(world, who, text, where)
        running = (await runs.holders(world.repo.id, world.number)).running
        assert (running is not None) == (approves if "approve" in text else who.starts), text
        if running is not None:
            await runs.finish(running.id, 0, "stopped")
    assert len(world.checks()) == len(doors) * who.starts - (who.starts and not approves)
    told = [replies.no_permission()] if who.heard and not who.starts else []
    assert world.replies(issue) == told, "once a day on an issue"
    assert world.replies() == (told if approves or not who.starts else [replies.approved_by_persons()])
    approver = await world.store.approvals.approver(world.repo.id, world.number, head_sha=world.head())
    assert (approver is not None) == approves


@pytest.mark.threat("T5", 59)
@pytest.mark.parametrize("who", [each for each in IDENTITIES if each.type == "User" and each.heard], ids=str)
async def test_whose_pull_request_is_debated_by_itself(world: Any, who: Identity) -> None:
    """Of nobody who could not have commanded it."""
    await world.configure("auto: {on: [opened]}\n")
    world.standin.create_user("asker")
    world.standin.set_permission(world.repo, "asker", who.role)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "second", "main", "Second", "", author="asker")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    payload["pull_request"]["author_association"] = who.association
    await world.hear(payload, name="pull_request")
    assert ((await world.store.runs.holders(world.repo.id, number)).running is not None) == who.starts
    assert [check.conclusion for check in world.checks()] == [None if who.starts else "neutral"]


@pytest.mark.threat("T5", 74)
async def test_nobody_is_not_heard(world: Any) -> None:
    """A ghost's comment has no author."""
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    for field in ("sender", "user"):
        for value in (None, {}, {"id": None, "login": "ghost"}, {"id": 10137}, "ghost"):
            payload = copy.deepcopy(world.standin.deliveries[-1].payload)
            (payload if field == "sender" else payload["comment"])[field] = value
            await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"ignored": 10}
    assert world.checks() == []


@pytest.mark.threat("T5", 66)
async def test_a_login_that_another_person_registered_gives_nothing(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="hubot")
    payload = world.standin.deliveries[-1].payload
    world.standin.rename_user("hubot", "hubot-old")
    world.standin.create_user("hubot")
    world.standin.set_permission(world.repo, "hubot", "admin")
    await world.hear(payload, name="issue_comment")
    assert world.checks() == []


@pytest.mark.threat(57)
async def test_who_may_not_is_told_once_a_day_on_a_pull_request(world: Any) -> None:
    """At most one fixed reply, and no mention."""
    for login in ("hubot", "octocat"):
        if login == "octocat":
            world.standin.create_user(login)
        for _ in range(3):
            await world.say("/codex-debate review", login=login)
    assert world.replies() == [replies.no_permission()]
    assert "@" not in world.replies()[0]
