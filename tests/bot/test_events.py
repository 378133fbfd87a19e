"""What deliveries mean: strict fields, closed list, and a part that is all that is queued."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.events import (
    EVENTS,
    Actor,
    CommentCreated,
    InstallationChanged,
    Ping,
    PullRequestChanged,
    Repository,
    parse,
    slim,
)

USER = {"id": 7, "login": "mona", "type": "User", "site_admin": False}
REPOSITORY = {"id": 42, "full_name": "octo-org/tide.book", "owner": {"id": 5, "login": "octo-org"}, "private": True}
COMMENT: dict[str, Any] = {
    "action": "created",
    "installation": {"id": 3, "node_id": "x"},
    "repository": REPOSITORY,
    "issue": {"number": 12, "title": "t", "pull_request": {"url": "u"}},
    "comment": {"id": 99, "body": "/codex-debate", "user": USER, "performed_via_github_app": None},
    "sender": USER,
}
PULL: dict[str, Any] = {
    "action": "opened",
    "installation": {"id": 3},
    "repository": REPOSITORY,
    "pull_request": {"number": 12, "head": {"sha": "a" * 40, "ref": "x"}, "updated_at": "2026-01-02T03:04:05Z"},
    "sender": USER,
}
MONA = Actor(7, "mona", "User")


def changed(payload: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    found = copy.deepcopy(payload)
    *way, last = path.split(".")
    place = found
    for step in way:
        place = place[step]
    place[last] = value
    return found


def test_a_new_comment() -> None:
    assert parse("issue_comment", COMMENT) == CommentCreated(
        installation_id=3,
        repository=Repository(42, "octo-org/tide.book"),
        owner_id=5,
        number=12,
        on_pull_request=True,
        comment_id=99,
        text="/codex-debate",
        author=MONA,
        sender=MONA,
        via_app=False,
    )


def test_a_comment_on_an_issue_and_one_through_an_app() -> None:
    issue = copy.deepcopy(COMMENT)
    del issue["issue"]["pull_request"]
    found = parse("issue_comment", issue)
    assert isinstance(found, CommentCreated)
    assert not found.on_pull_request
    through = parse("issue_comment", changed(COMMENT, "comment.performed_via_github_app", {"id": 1, "slug": "x"}))
    assert isinstance(through, CommentCreated)
    assert through.via_app


def test_pull_requests_installations_and_pings() -> None:
    assert parse("pull_request", PULL) == PullRequestChanged(
        3, Repository(42, "octo-org/tide.book"), 5, 12, "opened", "a" * 40, "2026-01-02T03:04:05Z", MONA
    )
    assert parse("installation", {"action": "deleted", "installation": {"id": 3, "app_id": 9}}) == InstallationChanged(
        3, "deleted"
    )
    assert parse("ping", {"zen": "…"}) == Ping()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("action", "edited"),
        ("action", "deleted"),
        ("action", None),
        ("repository", 5),
        ("repository", None),
        ("sender", None),
        ("installation", None),
        ("comment", []),
        ("comment.body", None),
        ("comment.body", 5),
        ("comment.user", None),
        ("issue.number", "12"),
        *(("comment.id", value) for value in ("1", 1.0, True, -1, 0, 2**63, None, [1])),
        *(("repository.id", value) for value in ("1", 1.0, True, -1, 0, 2**63, None)),
        *(
            ("repository.full_name", value)
            for value in ("tidebook", "a/b/c", "../x", "octo-org/..", "octo-org/.", "a b/c", "a/b\n")
        ),
        ("sender.login", "mo na"),
        ("sender.login", "mona\n"),
    ],
)
def test_what_does_not_fit_is_no_event(path: str, value: object) -> None:
    assert parse("issue_comment", changed(COMMENT, path, value)) is None


@pytest.mark.parametrize("place", ["sender", "user"])
def test_an_account_that_does_not_say_what_it_is_is_nobody(place: str) -> None:
    """It might be a bot."""
    payload = copy.deepcopy(COMMENT)
    del (payload if place == "sender" else payload["comment"])[place]["type"]
    assert parse("issue_comment", payload) is None


@pytest.mark.threat("T2")
def test_only_a_whole_installation_makes_an_event_of_installations() -> None:
    """A captured body of another event has no `app_id`: its name is not signed."""
    assert parse("installation", {"action": "deleted", "installation": {"id": 3}}) is None
    assert parse("installation", COMMENT | {"action": "deleted"}) is None


@pytest.mark.parametrize("key", ["action", "installation", "repository", "issue", "comment", "sender"])
def test_a_missing_part_is_no_event(key: str) -> None:
    assert parse("issue_comment", {name: value for name, value in COMMENT.items() if name != key}) is None


@pytest.mark.parametrize("name", ["star", "check_run", "Issue_comment", "issue_comment ", ""])
def test_unknown_events_are_none(name: str) -> None:
    assert parse(name, COMMENT) is None


@pytest.mark.threat("T2", 29)
def test_a_body_of_another_event_is_no_event() -> None:
    assert parse("pull_request", COMMENT) is None
    assert parse("issue_comment", PULL) is None


@pytest.mark.parametrize(("name", "payload"), [("issue_comment", COMMENT), ("pull_request", PULL)])
def test_the_queued_part_means_the_same_and_holds_no_more(name: str, payload: dict[str, Any]) -> None:
    part = slim(name, {**payload, "noise": "x" * 1000})
    assert part is not None
    assert parse(name, json.loads(part)) == parse(name, payload)
    assert "noise" not in part
    assert "site_admin" not in part


def test_what_is_no_event_has_no_part() -> None:
    assert slim("star", {}) is None
    assert slim("issue_comment", {}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda of: (
        st.lists(of, max_size=3) | st.dictionaries(st.sampled_from([*COMMENT, "id", "number", "body"]), of, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from([*EVENTS, "other"]), st.dictionaries(st.sampled_from(list(COMMENT)), anything))
def test_any_payload_is_an_event_or_none(name: str, payload: dict[str, Any]) -> None:
    parse(name, payload)
