"""What GitHub refuses about bodies, measured at the limit and one beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.standin import rules
from deploy.standin.answers import Refused


def refusal(data: dict[str, Any], *, new: bool = True) -> str | None:
    """Return the words with which a check run's body is refused; None where it is not."""
    try:
        rules.check_run({"name": "n", "head_sha": "0" * 40} | data, new=new)
    except Refused as refused:
        assert refused.answer.status == 422
        return told(refused)
    return None


def told(refused: Refused) -> str:
    """Return all that a refusal says."""
    errors = refused.answer.body.get("errors", [])
    return " ".join([refused.answer.body["message"], *(f"{each['code']} {each.get('message')}" for each in errors)])


def output(**fields: Any) -> dict[str, Any]:
    return {"output": {"title": "t", "summary": "s"} | fields}


def annotation(**fields: Any) -> dict[str, Any]:
    plain = {"path": "a.py", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}
    return {name: value for name, value in (plain | fields).items() if value is not None}


def action(**fields: Any) -> dict[str, Any]:
    return {"label": "Push", "description": "d", "identifier": "push"} | fields


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"status": "in_progress"},
        {"conclusion": "success"},
        {"status": "completed", "conclusion": "action_required", "completed_at": "2026-11-30T12:00:00Z"},
        {"unknown": 1},
        output(summary="ж" * 32_767, text="x" * 65_535),
        output(annotations=[annotation()] * 50),
        output(annotations=[annotation(title="x" * 255, raw_details="x" * 65_536, start_column=1, end_column=2)]),
        output(annotations=[annotation(end_line=9)], images=[{"alt": "a", "image_url": "u"}]),
        {"actions": [action(label="x" * 20, description="x" * 40, identifier="x" * 20)] * 3},
    ],
)
def test_a_check_run_within_the_limits_is_taken(data: dict[str, Any]) -> None:
    assert refusal(data) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (output(summary="ж" * 32_768), "summary exceeds a maximum bytesize of 65535"),
        (output(text="ж" * 32_768), "text exceeds a maximum bytesize of 65535"),
        (output(summary="x" * 65_536), "Only 65535 characters are allowed; 65536 were supplied."),
        ({"output": {"title": "t"}}, '"summary" wasn\'t supplied.'),
        ({"output": {"summary": "s"}}, '"title" wasn\'t supplied.'),
        (output(body="x"), '"body" is not a permitted key.'),
        (output(annotations=[annotation()] * 51), "No more than 50 items are allowed; 51 were supplied."),
        (output(annotations=[annotation(annotation_level="error")]), "error is not a member of"),
        (output(annotations=[annotation(message=None)]), '"message" wasn\'t supplied.'),
        (output(annotations=[annotation(message="ж" * 32_769)]), "message exceeds a maximum bytesize of 65536"),
        (output(annotations=[annotation(title="x" * 256)]), "Only 255 characters"),
        (output(annotations=[annotation(end_line=2, start_column=1)]), "columns are permitted only"),
        (output(annotations=[annotation(start_line=0)]), "end_line"),
        (output(annotations=[annotation(start_line=3)]), "end_line"),
        (output(annotations=[annotation(start_line="1")]), "is not an integer"),
        (output(annotations=[annotation(start_line=True)]), "is not an integer"),
        (output(annotations={}), "is not an array"),
        ({"output": []}, "is not an object"),
        ({"actions": [action()] * 4}, "No more than 3 items are allowed; 4 were supplied."),
        ({"actions": [action(label="x" * 21)]}, "Only 20 characters"),
        ({"actions": [action(description="x" * 41)]}, "Only 40 characters"),
        ({"actions": [action(identifier="x" * 21)]}, "Only 20 characters"),
        ({"actions": [{"label": "x", "identifier": "y"}]}, '"description" wasn\'t supplied.'),
        ({"status": "done"}, "done is not a member of"),
        ({"status": "completed"}, '"conclusion" wasn\'t supplied.'),
        ({"completed_at": "2026-11-30T12:00:00Z"}, '"conclusion" wasn\'t supplied.'),
        ({"conclusion": "passed"}, "passed is not a member of"),
        ({"conclusion": "stale"}, "stale"),
        ({"conclusion": None}, "nil is not a string"),
        ({"external_id": 7}, "7 is not a string"),
        ({"started_at": "yesterday"}, "is not a valid date-time"),
        ({"name": ""}, "missing_field"),
    ],
)
def test_a_check_run_beyond_a_limit_is_refused(data: dict[str, Any], words: str) -> None:
    assert words in (refusal(data) or "it was taken")


def test_a_new_check_run_needs_a_name_and_a_commit_and_an_update_neither() -> None:
    with pytest.raises(Refused, match="head_sha"):
        rules.check_run({"name": "n"}, new=True)
    with pytest.raises(Refused, match="name"):
        rules.check_run({"head_sha": "0" * 40}, new=True)
    rules.check_run({}, new=False)


@pytest.mark.parametrize("body", ["x", "x" * 262_144, "😀" * 65_536])
def test_a_comment_up_to_the_limit_of_bytes_is_taken(body: str) -> None:
    assert rules.comment_body({"body": body}) == body


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"body": "x" * 262_145}, "Body is too long (maximum is 65536 characters)"),
        ({"body": "😀" * 65_536 + "x"}, "Body is too long"),
        ({"body": ""}, "Body cannot be blank"),
        ({"body": " \n\t"}, "Body cannot be blank"),
        ({"body": 5}, "5 is not a string"),
        ({"body": None}, "nil is not a string"),
        ({}, '"body" wasn\'t supplied.'),
    ],
)
def test_other_comments_are_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as caught:
        rules.comment_body(data)
    assert caught.value.answer.status == 422
    assert words in told(caught.value)
