"""Intents: what shall be the case on GitHub or in git, as values that are stored before they are carried out. Pure.

Each has a name of its own, so that meaning it twice is meaning it once. How one is carried out is publish.py's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, assert_never

from pydantic import ConfigDict, TypeAdapter


@dataclass(frozen=True, slots=True)
class CommentRef:
    """A comment of a repository (``owner/name``)."""

    repo: str
    id: int


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction on a comment."""

    comment: CommentRef
    content: Literal["eyes", "rocket", "confused"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A short reply to a command. `key` names the command: there is one answer to each."""

    key: str
    number: int
    body: str
    after: int = 0
    """The id of the command's comment. An answer that may have been written already is sought after it."""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """How a run's check run shall look. The first completed one stands for ever."""

    run: str
    """Its ``external_id``."""
    name: str
    head_sha: str
    status: Literal["queued", "in_progress", "completed"]
    conclusion: str | None = None
    title: str = ""
    summary: str = ""
    text: str = ""
    annotations: tuple[Mapping[str, Any], ...] = ()
    """In GitHub's own field names. Each is sent once: GitHub adds them to those that are there."""
    actions: tuple[Mapping[str, str], ...] = ()
    """Buttons, in GitHub's own field names; at most three."""


@dataclass(frozen=True, slots=True)
class Comment:
    """How one of a run's comments shall look. `slot` counts them from 0."""

    run: str
    slot: int
    body: str


@dataclass(frozen=True, slots=True)
class Push:
    """A commit that shall be durable: pushed to `ref`, or kept with the run as a pack where `ref` is None."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    run: str
    path: str
    """The path of the step that made it."""
    ref: str | None
    """A full name, ``refs/heads/…``."""
    old: str
    new: str
    pack: bytes
    """The commit's objects, for a worker that does not have them."""
    reply: bytes
    """The reply of the step, to be journaled once the commit is durable."""


Intent: TypeAlias = Reaction | Answer | CheckRun | Comment | Push

_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Reaction, Answer, CheckRun, Comment, Push)
}


def name_of(intent: Intent) -> str:
    """Return the name under which an intent is stored: one for each thing that there shall be."""
    match intent:
        case Reaction(comment, content):
            return f"-/reaction/{comment.repo}/{comment.id}/{content}"
        case Answer(key):
            return f"-/answer/{key}"
        case CheckRun(run, name):
            return f"{run}/check/{name}"
        case Comment(run, slot):
            return f"{run}/comment/{slot}"
        case Push(run, path):
            return push_name(run, path)
        case _:
            assert_never(intent)


def dump_intent(intent: Intent) -> bytes:
    """Return an intent as JSON."""
    kind = type(intent).__name__
    return json.dumps({"kind": kind, "intent": _KINDS[kind].dump_python(intent, mode="json")}).encode()


def load_intent(raw: bytes) -> Intent:
    """Return the intent that `dump_intent` wrote."""
    stored = json.loads(raw)
    # As JSON again: only so are bytes read from base64.
    intent: Intent = _KINDS[stored["kind"]].validate_json(json.dumps(stored["intent"]))
    return intent


def push_name(run: str, path: str) -> str:
    """Return the name of the push of an editing turn, by the path of its step."""
    return f"{run}/push{path}"
