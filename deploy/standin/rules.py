"""What GitHub refuses about a request's body. Pure.

Sizes, vocabularies and required keys are those of GitHub's OpenAPI description (https://github.com/octokit/openapi) and
of the measurements in its sources; where a value differs from the description, the constant says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, assert_never

from deploy.standin.answers import Refused, invalid_request, validation_failed

OUTPUT_BYTES = 65_535
"""Summary and text of a check run. The description says characters; bytes are counted (github/docs#35252)."""
COMMENT_BYTES = 262_144
"""Body of a comment, though the refusal speaks of 65536 characters (dead-claudia/github-limits#13)."""
ANNOTATIONS = 50
ANNOTATION_BYTES = 64 * 1024
ANNOTATION_TITLE = 255
ACTIONS = 3
ACTION_LABEL, ACTION_DESCRIPTION, ACTION_IDENTIFIER = 20, 40, 20
TOKEN_REPOSITORIES = 500
"""Repositories that one installation token may be narrowed to."""

STATUSES = ("queued", "in_progress", "completed")
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out")
LEVELS = ("notice", "warning", "failure")
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")

# ---- A small schema language, as much of JSON Schema as these calls need -------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A string: at most `most` characters, one of `choices`, or a moment in ISO 8601."""

    most: int | None = None
    choices: tuple[str, ...] = ()
    moment: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of at most `most` items."""

    item: Spec
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """An object. `closed`: no other keys are permitted (else they are passed over, as GitHub does)."""

    fields: dict[str, Spec] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    closed: bool = False


Spec: TypeAlias = Text | Whole | ListOf | Keys


def conform(value: Any, spec: Spec, where: str = "") -> None:  # noqa: ANN401 - any JSON
    """Raise the 422 that GitHub answers where `value` does not fit. `where` names the place in its words."""
    match spec:
        case Text():
            _text(value, spec, where)
        case Whole():
            if not isinstance(value, int) or isinstance(value, bool):
                raise _misfit(value, where, "an integer")
        case ListOf():
            _list(value, spec, where)
        case Keys():
            _keys(value, spec, where)
        case _:
            assert_never(spec)


def _list(value: Any, spec: ListOf, where: str) -> None:  # noqa: ANN401 - any JSON
    if not isinstance(value, list):
        raise _misfit(value, where, "an array")
    if spec.most is not None and len(value) > spec.most:
        raise invalid_request(f"No more than {spec.most} items are allowed; {len(value)} were supplied.")
    for index, item in enumerate(value):
        conform(item, spec.item, f"{where}/{index}")


def _keys(value: Any, spec: Keys, where: str) -> None:  # noqa: ANN401 - any JSON
    if not isinstance(value, dict):
        raise _misfit(value, where, "an object")
    for name in spec.required:
        if name not in value:
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    for name, item in value.items():
        if name in spec.fields:
            conform(item, spec.fields[name], f"{where}/properties/{name}".lstrip("/"))
        elif spec.closed:
            raise invalid_request(f'"{name}" is not a permitted key.')


def _text(value: Any, spec: Text, where: str) -> None:  # noqa: ANN401 - any JSON
    if not isinstance(value, str):
        raise _misfit(value, where, "a string")
    if spec.choices and value not in spec.choices:
        listed = ", ".join(f'"{choice}"' for choice in spec.choices)
        raise _misfit(value, where, f"a member of [{listed}]")
    if spec.most is not None and len(value) > spec.most:
        raise invalid_request(f"Only {spec.most} characters are allowed; {len(value)} were supplied.")
    if spec.moment:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise _misfit(value, where, "a valid date-time") from None


def _misfit(value: Any, where: str, wanted: str) -> Refused:  # noqa: ANN401 - any JSON
    return invalid_request(f"For '{where}', {'nil' if value is None else value} is not {wanted}.")


# ---- Comments and reactions -----------------------------------------------------------------------------------------

COMMENT = Keys({"body": Text()}, required=("body",))
REACTION = Keys({"content": Text(choices=REACTIONS)}, required=("content",))


def comment_body(data: dict[str, Any]) -> str:
    """Return the body of a comment to be written. Raises the refusal that it earns."""
    conform(data, COMMENT)
    body: str = data["body"]
    if not body.strip():
        raise validation_failed("IssueComment", "data", code="unprocessable", message="Body cannot be blank")
    if len(body.encode("utf-8", "surrogatepass")) > COMMENT_BYTES:
        told = "Body is too long (maximum is 65536 characters)"
        raise validation_failed("IssueComment", "data", code="unprocessable", message=told)
    return body


# ---- Check runs -----------------------------------------------------------------------------------------------------

ANNOTATION = Keys(
    {
        "path": Text(),
        "start_line": Whole(),
        "end_line": Whole(),
        "start_column": Whole(),
        "end_column": Whole(),
        "annotation_level": Text(choices=LEVELS),
        "message": Text(),
        "title": Text(most=ANNOTATION_TITLE),
        "raw_details": Text(),
    },
    required=("path", "start_line", "end_line", "annotation_level", "message"),
    closed=True,
)
IMAGE = Keys({"alt": Text(), "image_url": Text(), "caption": Text()}, required=("alt", "image_url"), closed=True)
OUTPUT = Keys(
    {
        "title": Text(),
        "summary": Text(most=OUTPUT_BYTES),
        "text": Text(most=OUTPUT_BYTES),
        "annotations": ListOf(ANNOTATION, most=ANNOTATIONS),
        "images": ListOf(IMAGE),
    },
    required=("title", "summary"),
    closed=True,
)
ACTION = Keys(
    {
        "label": Text(most=ACTION_LABEL),
        "description": Text(most=ACTION_DESCRIPTION),
        "identifier": Text(most=ACTION_IDENTIFIER),
    },
    required=("label", "description", "identifier"),
    closed=True,
)
CHECK_FIELDS: dict[str, Spec] = {
    "name": Text(),
    "details_url": Text(),
    "external_id": Text(),
    "status": Text(choices=STATUSES),
    "started_at": Text(moment=True),
    "conclusion": Text(choices=CONCLUSIONS),
    "completed_at": Text(moment=True),
    "output": OUTPUT,
    "actions": ListOf(ACTION, most=ACTIONS),
}
CHECK_CREATE = Keys(CHECK_FIELDS | {"head_sha": Text()}, required=("name", "head_sha"))
CHECK_UPDATE = Keys(CHECK_FIELDS)


def check_run(data: dict[str, Any], *, new: bool) -> None:
    """Raise the refusal that a check run's body earns."""
    conform(data, CHECK_CREATE if new else CHECK_UPDATE)
    if data.get("name", "x").strip() == "":
        raise validation_failed("CheckRun", "name", code="missing_field")
    if data.get("conclusion") == "stale":
        raise validation_failed("CheckRun", "conclusion", message="only GitHub can set the conclusion stale")
    if "conclusion" not in data and (data.get("status") == "completed" or "completed_at" in data):
        raise invalid_request('"conclusion" wasn\'t supplied.')
    output = data.get("output", {})
    for name in ("summary", "text"):
        if len(output.get(name, "").encode("utf-8", "surrogatepass")) > OUTPUT_BYTES:
            told = f"{name} exceeds a maximum bytesize of {OUTPUT_BYTES}"
            raise validation_failed("CheckRun", name, message=told)
    for annotation in output.get("annotations", []):
        _annotation(annotation)


def _annotation(data: dict[str, Any]) -> None:
    start, end = data["start_line"], data["end_line"]
    if start < 1 or end < start:
        raise validation_failed("CheckRunAnnotation", "end_line", message="end_line must not be before start_line")
    if start != end and ("start_column" in data or "end_column" in data):
        told = "columns are permitted only where start_line and end_line are the same"
        raise validation_failed("CheckRunAnnotation", "start_column", message=told)
    for name in ("message", "raw_details"):
        if len(data.get(name, "").encode("utf-8", "surrogatepass")) > ANNOTATION_BYTES:
            told = f"{name} exceeds a maximum bytesize of {ANNOTATION_BYTES}"
            raise validation_failed("CheckRunAnnotation", name, message=told)


# ---- Installation tokens --------------------------------------------------------------------------------------------

TOKEN = Keys(
    {
        "repositories": ListOf(Text(), most=TOKEN_REPOSITORIES),
        "repository_ids": ListOf(Whole(), most=TOKEN_REPOSITORIES),
        "permissions": Keys(),
    }
)
