"""The oracle of webhooks is proved: payloads that GitHub has sent pass, and what it would not send is caught."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from github_contract.deliveries import violations
from github_contract.description import DATA

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    event["name"]: event["examples"]
    for event in json.loads((DATA / "webhook-examples" / "index.json").read_text("utf-8"))
}
TODAY = [
    ("check_run", 0),
    ("check_suite", 0),
    ("installation", 3),
    ("installation", 4),
    *(("issue_comment", index) for index in (1, 2, 3)),
    *(("ping", index) for index in (0, 1)),
    *(("pull_request", index) for index in (0, 1, 2, 3)),
]
"""The kept examples that have today's shape; the others are from years when GitHub sent fewer keys."""


@pytest.mark.parametrize(("event", "index"), TODAY)
def test_what_github_has_sent_passes(event: str, index: int) -> None:
    assert violations(event, EXAMPLES[event][index]) == []


def test_a_shape_of_years_ago_is_none_of_today() -> None:
    assert violations("issue_comment", EXAMPLES["issue_comment"][0]) != []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("comment", "id"), "1", '/comment/id: "1" is not of type "integer"'),
        (("comment", "body"), None, '/comment: "body" is a required property'),
        (("repository",), None, '"repository" is a required property'),
        (("sender", "site_admin"), "no", "/sender/site_admin: "),
        (("issue", "created_at"), "soon", '/issue/created_at: "soon" is not a "date-time"'),
    ],
)
def test_another_shape_is_caught(path: tuple[str, ...], value: object, said: str) -> None:
    payload = copy.deepcopy(EXAMPLES["issue_comment"][1])
    holder = payload
    for key in path[:-1]:
        holder = holder[key]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    told = [str(each) for each in violations("issue_comment", payload)]
    assert any(said in each for each in told), told
    assert all(each.startswith("webhook issue-comment-created: ") for each in told)


def test_a_deleted_fork_is_no_repository() -> None:
    payload = copy.deepcopy(EXAMPLES["pull_request"][0])
    payload["pull_request"]["head"]["repo"] = None
    assert violations("pull_request", payload) == []
    payload["pull_request"]["base"]["repo"] = None
    assert violations("pull_request", payload) != []


@pytest.mark.parametrize(("event", "payload"), [("issue_comment", {"action": "sung"}), ("song", {}), ("issues", {})])
def test_an_event_that_the_description_lacks_is_caught(event: str, payload: dict[str, Any]) -> None:
    (only,) = violations(event, payload)
    assert "the description lacks it" in str(only)
