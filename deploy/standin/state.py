"""What the stand-in GitHub knows: users, repositories, conversations, pull requests, check runs.

Records are frozen; a change puts a new record in the old one's place. This module owns identity and look-up and never
talks to git, HTTP or a receiver.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

ROLES = {"admin": "admin", "maintain": "write", "write": "write", "triage": "read", "read": "read", "none": "none"}
"""Role of a person on a repository → `permission` of the API, which knows four words only.

https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
"""

FULL_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


def now() -> datetime:
    """Return the time as GitHub keeps it: UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class User:
    """An account: a person, an organization, or an App's own bot."""

    id: int
    login: str
    type: str = "User"
    """``User``, ``Organization`` or ``Bot``."""
    created_at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository. `installation_id` is None where the App is not installed."""

    id: int
    full_name: str
    path: Path
    """The bare repository on this machine."""
    owner_id: int
    default_branch: str = "main"
    private: bool = False
    installation_id: int | None = None
    parent_id: int | None = None
    """The repository that this one was forked from."""
    archived: bool = False
    """It can be read, and not written to."""
    deleted: bool = False
    """It is gone; what refers to it stays."""
    created_at: datetime = field(default_factory=now)

    @property
    def owner(self) -> str:
        """The owner's part of the name."""
        return self.full_name.split("/")[0]

    @property
    def name(self) -> str:
        """The repository's own part of the name."""
        return self.full_name.split("/")[1]


RepoRef: TypeAlias = Repo | str
"""A repository, or its full name."""


@dataclass(frozen=True, slots=True)
class Pull:
    """What a pull request has besides its conversation. Head and base are where they are now."""

    head_repo_id: int
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    maintainer_can_modify: bool = False
    merged_at: datetime | None = None
    merged_by_id: int | None = None
    merge_commit_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """A conversation: an issue, or a pull request where it has `pull`. Both share one row of numbers."""

    id: int
    repo_id: int
    number: int
    title: str
    body: str
    author_id: int
    pull: Pull | None = None
    state: str = "open"
    locked: bool = False
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a conversation."""

    id: int
    repo_id: int
    number: int
    author_id: int
    login: str
    """The author's login when it was written."""
    body: str
    by_app: bool = False
    """Written with an installation token: it belongs to the App's bot."""
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to a comment."""

    id: int
    comment_id: int
    user_id: int
    login: str
    content: str
    created_at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check run of the App on a commit."""

    id: int
    repo_id: int
    suite_id: int
    name: str
    head_sha: str
    status: str = "queued"
    conclusion: str | None = None
    external_id: str = ""
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: tuple[dict[str, Any], ...] = ()
    actions: tuple[dict[str, Any], ...] = ()
    started_at: datetime | None = None
    completed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """A branch that is not everybody's to push to. `pattern` is a shell pattern over branch names."""

    pattern: str
    reason: str = "You're not authorized to push to this branch."


class State:
    """All records, and how they are found. Nothing here awaits, so that no reader ever sees half of a change."""

    def __init__(self) -> None:
        self.users: dict[int, User] = {}
        self.repos: dict[int, Repo] = {}
        self.issues: dict[tuple[int, int], Issue] = {}
        self.comments: dict[int, Comment] = {}
        self.reactions: dict[int, Reaction] = {}
        self.check_runs: dict[int, CheckRun] = {}
        self.protections: dict[int, tuple[Protection, ...]] = {}
        self.installations: dict[int, int] = {}
        """Installation id → id of the account that it is on."""
        self.suspended: set[int] = set()
        """Ids of the installations that are suspended."""
        self._suites: dict[tuple[int, str], int] = {}
        self._logins: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._roles: dict[tuple[int, int], str] = {}
        self._ids = itertools.count(1001)
        self._numbers: dict[int, itertools.count[int]] = {}

    def next_id(self) -> int:
        """Return a number that no other record has."""
        return next(self._ids)

    # ---- Accounts

    def add_user(self, login: str, kind: str = "User") -> User:
        """Add an account. Raises ValueError where the login is taken."""
        if login.lower() in self._logins:
            raise ValueError(f"the login {login} is taken")
        user = User(id=self.next_id(), login=login, type=kind)
        self.users[user.id] = user
        self._logins[login.lower()] = user.id
        return user

    def rename_user(self, user: User, login: str) -> User:
        """Give an account another login. The old one is free for anybody."""
        if login.lower() in self._logins:
            raise ValueError(f"the login {login} is taken")
        del self._logins[user.login.lower()]
        renamed = User(id=user.id, login=login, type=user.type, created_at=user.created_at)
        self.users[user.id] = renamed
        self._logins[login.lower()] = user.id
        return renamed

    def find_user(self, login: str) -> User | None:
        """Return the account that has a login now."""
        number = self._logins.get(login.lower())
        return None if number is None else self.users[number]

    def user(self, login: str) -> User:
        """Return the account that has a login now. Raises LookupError."""
        if (user := self.find_user(login)) is None:
            raise LookupError(f"nobody is called {login}: create_user({login!r}) first")
        return user

    # ---- Repositories

    def put_repo(self, repo: Repo) -> Repo:
        """Store a repository under its id and its name. Names that it had before go on leading to it."""
        self.repos[repo.id] = repo
        self._names[repo.full_name.lower()] = repo.id
        self._numbers.setdefault(repo.id, itertools.count(1))
        return repo

    def find_repo(self, full_name: str) -> Repo | None:
        """Return the repository that has this name, or had it."""
        number = self._names.get(full_name.lower())
        return None if number is None or self.repos[number].deleted else self.repos[number]

    def repo(self, ref: RepoRef) -> Repo:
        """Return a repository as it is now. Raises LookupError."""
        repo = self.repos.get(ref.id) if isinstance(ref, Repo) else self.find_repo(ref)
        if repo is None:
            raise LookupError(f"there is no repository {ref}")
        return repo

    def set_role(self, repo: Repo, user: User, role: str) -> None:
        """Give a person a role on a repository: one of ROLES."""
        if role not in ROLES:
            raise ValueError(f"{role!r} is no role; one of {', '.join(ROLES)} is")
        self._roles[repo.id, user.id] = role

    def role(self, repo: Repo, user: User) -> str:
        """Return a person's role: what was given, else the owner's `admin`, else what any stranger has."""
        stranger = "none" if repo.private else "read"
        return self._roles.get((repo.id, user.id), "admin" if user.id == repo.owner_id else stranger)

    # ---- Conversations

    def add_issue(self, repo: Repo, author: User, **fields: Any) -> Issue:  # noqa: ANN401 - Issue's own fields
        """Open an issue or a pull request under the repository's next number."""
        number = next(self._numbers[repo.id])
        issue = Issue(id=self.next_id(), repo_id=repo.id, number=number, author_id=author.id, **fields)
        self.issues[repo.id, number] = issue
        return issue

    def put_issue(self, issue: Issue) -> Issue:
        """Store a conversation that has changed."""
        self.issues[issue.repo_id, issue.number] = issue
        return issue

    def issue(self, repo: Repo, number: int) -> Issue:
        """Return an issue or pull request. Raises LookupError."""
        if (issue := self.issues.get((repo.id, number))) is None:
            raise LookupError(f"{repo.full_name} has no #{number}")
        return issue

    def open_pulls(self) -> list[tuple[Issue, Pull]]:
        """Return the open pull requests of all repositories, oldest first."""
        return [(issue, issue.pull) for issue in self.issues.values() if issue.pull and issue.state == "open"]

    def comments_of(self, repo: Repo, number: int) -> list[Comment]:
        """Return a conversation's comments, oldest first."""
        return [each for each in self.comments.values() if (each.repo_id, each.number) == (repo.id, number)]

    def reactions_to(self, comment_id: int) -> list[Reaction]:
        """Return a comment's reactions, oldest first."""
        return [each for each in self.reactions.values() if each.comment_id == comment_id]

    # ---- Checks

    def suite(self, repo: Repo, sha: str) -> int:
        """Return the id of the App's check suite on a commit, made when it is first asked for."""
        if (repo.id, sha) not in self._suites:
            self._suites[repo.id, sha] = self.next_id()
        return self._suites[repo.id, sha]

    def checks_of(self, repo: Repo, sha: str | None = None) -> list[CheckRun]:
        """Return the check runs of a repository, or of one commit of it, oldest first."""
        runs = [each for each in self.check_runs.values() if each.repo_id == repo.id]
        return [each for each in runs if sha is None or each.head_sha == sha]
