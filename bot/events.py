"""What GitHub's deliveries mean to us: payload → Event, or nothing. Pure.

Owns the closed list of events and how strictly their fields are read. A payload says *look*; what is true is asked of
the API afterwards. Unknown events and actions, and shapes that do not fit, are no events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

# ---- Events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repository:
    """Where something happened. The id stays when a repository is renamed."""

    id: int
    full_name: str

    @property
    def owner(self) -> str:
        """The account that it belongs to."""
        return self.full_name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Actor:
    """An account that did something. The id stays when it is renamed; names change hands."""

    id: int
    login: str
    type: str
    """``User``, ``Bot``, ``Organization`` or ``Mannequin``."""


@dataclass(frozen=True, slots=True)
class CommentCreated:
    """Somebody wrote a comment under an issue or a pull request."""

    installation_id: int
    repository: Repository
    owner_id: int
    """The numeric id of the account that owns the repository."""
    number: int
    on_pull_request: bool
    comment_id: int
    text: str
    author: Actor
    sender: Actor
    via_app: bool
    """It was written through an App on the author's behalf: not the author's own hand."""


@dataclass(frozen=True, slots=True)
class PullRequestChanged:
    """A pull request was opened, moved, closed, or changed in another way."""

    installation_id: int
    repository: Repository
    owner_id: int
    """The numeric id of the account that owns the repository."""
    number: int
    action: str
    head_sha: str
    updated_at: str
    sender: Actor


@dataclass(frozen=True, slots=True)
class InstallationChanged:
    """The App was installed, removed, suspended, or given other permissions or repositories."""

    installation_id: int
    action: str


@dataclass(frozen=True, slots=True)
class Ping:
    """GitHub tries the webhook."""


Event: TypeAlias = CommentCreated | PullRequestChanged | InstallationChanged | Ping

SUBSCRIBED = ("issue_comment", "pull_request")
"""The events that app.yml asks for; a test holds the two equal. GitHub sends ``ping`` and the installation events to
every App unasked (docs.github.com, "Webhook events and payloads")."""

# ---- Slices of payloads ---------------------------------------------------------------------------------------------

Id = Annotated[int, Field(strict=True, gt=0, lt=2**63)]
"""An id or number. Strict: ``"1"``, ``1.0`` and ``true`` are none."""
Word = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=256)]
Action = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z_]{1,64}$")]
Login = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_.\[\]-]{1,100}$")]


def _no_dots(name: str) -> str:
    """Refuse a repository called ``.`` or ``..``: the name becomes part of a path."""
    if name.rpartition("/")[2] in {".", ".."}:
        raise ValueError("no repository is called so")
    return name


FullName = Annotated[
    str,
    StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.-]{1,100}$"),
    AfterValidator(_no_dots),
]
Sha = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Text = Annotated[str, StringConstraints(strict=True)]


class _Slice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Present(_Slice):
    """Something of which only its presence counts."""


class _Installation(_Slice):
    id: Id


class _Actor(_Slice):
    id: Id
    login: Login
    type: Word

    def value(self) -> Actor:
        return Actor(self.id, self.login, self.type)


class _Owner(_Slice):
    id: Id


class _Repository(_Slice):
    id: Id
    full_name: FullName
    owner: _Owner

    def value(self) -> Repository:
        return Repository(self.id, self.full_name)


class _Comment(_Slice):
    id: Id
    body: Text
    user: _Actor
    performed_via_github_app: _Present | None = None


class _Issue(_Slice):
    number: Id
    pull_request: _Present | None = None


class _IssueComment(_Slice):
    action: Literal["created"]
    installation: _Installation
    repository: _Repository
    issue: _Issue
    comment: _Comment
    sender: _Actor


class _Head(_Slice):
    sha: Sha


class _PullRequest(_Slice):
    number: Id
    head: _Head
    updated_at: Word


class _PullRequestEvent(_Slice):
    action: Action
    installation: _Installation
    repository: _Repository
    pull_request: _PullRequest
    sender: _Actor


class _WholeInstallation(_Installation):
    app_id: Id
    """Only events about installations say it: no other event's body passes for one (its name is not signed)."""


class _InstallationEvent(_Slice):
    action: Action
    installation: _WholeInstallation


class _PingEvent(_Slice):
    pass


def _comment_created(found: _IssueComment) -> CommentCreated:
    return CommentCreated(
        installation_id=found.installation.id,
        repository=found.repository.value(),
        owner_id=found.repository.owner.id,
        number=found.issue.number,
        on_pull_request=found.issue.pull_request is not None,
        comment_id=found.comment.id,
        text=found.comment.body,
        author=found.comment.user.value(),
        sender=found.sender.value(),
        via_app=found.comment.performed_via_github_app is not None,
    )


def _pull_request_changed(found: _PullRequestEvent) -> PullRequestChanged:
    return PullRequestChanged(
        installation_id=found.installation.id,
        repository=found.repository.value(),
        owner_id=found.repository.owner.id,
        number=found.pull_request.number,
        action=found.action,
        head_sha=found.pull_request.head.sha,
        updated_at=found.pull_request.updated_at,
        sender=found.sender.value(),
    )


def _installation_changed(found: _InstallationEvent) -> InstallationChanged:
    return InstallationChanged(found.installation.id, found.action)


def _ping(_found: _PingEvent) -> Ping:
    return Ping()


_Reader: TypeAlias = tuple[type[_Slice], Callable[[Any], Event]]

EVENTS: Mapping[str, _Reader] = {
    "issue_comment": (_IssueComment, _comment_created),
    "pull_request": (_PullRequestEvent, _pull_request_changed),
    "installation": (_InstallationEvent, _installation_changed),
    "installation_repositories": (_InstallationEvent, _installation_changed),
    "ping": (_PingEvent, _ping),
}
"""The events that are understood, by GitHub's names: the slice of the payload that is read, and what it becomes."""


def slim(name: str, payload: Mapping[str, Any]) -> str | None:
    """Return the part of a payload that is read, as JSON of the same shape, or None where it tells of no event.

    That part is what is queued: `parse` reads it as it reads the payload, and it holds no 25 MB.
    """
    found = _read(name, payload)
    return None if found is None else found[0].model_dump_json()


def parse(name: str, payload: Mapping[str, Any]) -> Event | None:
    """Return the event that a delivery tells of, or None where it tells of none that we understand."""
    found = _read(name, payload)
    return None if found is None else found[1](found[0])


def _read(name: str, payload: Mapping[str, Any]) -> tuple[_Slice, Callable[[Any], Event]] | None:
    if name not in EVENTS:
        return None
    model, make = EVENTS[name]
    try:
        return model.model_validate(payload), make
    except ValidationError:
        return None
