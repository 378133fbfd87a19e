"""The REST calls that we use, each a function with a typed answer, and the permission that each needs.

It owns paths and shapes. Answers are slices: the fields that are used, whatever else GitHub sends. It decides nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from bot.github.client import GitHub, GitHubError, NotFound, understood

PERMISSIONS: Mapping[str, tuple[str, str]] = {
    "pull": ("pull_requests", "read"),
    "repository_name": ("metadata", "read"),
    "repositories": ("metadata", "read"),
    "permission": ("metadata", "read"),
    "open_pulls": ("pull_requests", "read"),
    "branch_sha": ("contents", "read"),
    "delete_branch": ("contents", "write"),
    "contents": ("contents", "read"),
    "create_check_run": ("checks", "write"),
    "update_check_run": ("checks", "write"),
    "check_runs": ("checks", "read"),
    "create_comment": ("issues", "write"),
    "update_comment": ("issues", "write"),
    "comments": ("issues", "read"),
    "comment": ("issues", "read"),
    "react": ("issues", "write"),
}
"""What each verb needs, by GitHub's "Permissions required for GitHub Apps". On a pull request the comment verbs may use
``pull_requests: write`` as well; app.yml is tested against this table."""

Level = Literal["admin", "write", "read", "none"]
Reacted = Literal["eyes", "rocket", "confused"]
Id = Annotated[int, Field(gt=0, lt=2**63)]


class Slice(BaseModel):
    """The part of an answer that is used."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(Slice):
    """A user, an organisation or a bot."""

    id: Id
    login: str
    type: str = "User"


class RepositoryRef(Slice):
    """A repository, by id and name."""

    id: Id
    full_name: str
    private: bool = False
    archived: bool = False


class Side(Slice):
    """Head or base of a pull request."""

    ref: str
    sha: str
    repo: RepositoryRef | None = None
    """None where the repository is gone (a deleted fork)."""


class PullRequest(Slice):
    """A pull request. A merged one is closed, too."""

    number: Id
    state: Literal["open", "closed"]
    locked: bool = False
    draft: bool = False
    merged: bool = False
    title: str
    body: str | None = None
    user: Account | None = None
    head: Side
    base: Side

    @property
    def from_fork(self) -> bool:
        """Whether the head is in another repository, or in one that is gone."""
        return self.head.repo is None or self.base.repo is None or self.head.repo.id != self.base.repo.id


class Permission(Slice):
    """What an account may do in a repository, and whose account GitHub thinks that is."""

    level: Level
    user_id: int
    """0 where GitHub names nobody."""

    @property
    def writes(self) -> bool:
        """Whether this is write permission: GitHub counts maintain as write and triage as read."""
        return self.level in {"admin", "write"}


class AppRef(Slice):
    """The App through which something was written."""

    id: Id


class CheckRunOutput(Slice):
    """What a check run shows, besides its state."""

    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations_count: int = 0


class CheckRun(Slice):
    """A check run."""

    id: Id
    name: str
    head_sha: str
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    html_url: str | None = None
    app: AppRef | None = None
    output: CheckRunOutput = CheckRunOutput()


class Comment(Slice):
    """A comment in the conversation of an issue or pull request."""

    id: Id
    body: str | None = None
    user: Account | None = None
    html_url: str
    created_at: datetime | None = None
    updated_at: datetime | None = None
    performed_via_github_app: AppRef | None = None


def _repo(repo: str) -> str:
    return f"/repos/{quote(repo, safe='/')}"


async def pull(github: GitHub, repo: str, number: int) -> PullRequest:
    """Return a pull request as it is now. Raises `NotFound` where the number is none."""
    return understood(PullRequest, await github.get(f"{_repo(repo)}/pulls/{number}"))


async def open_pulls(github: GitHub, repo: str, *, head: str | None = None) -> tuple[PullRequest, ...]:
    """Return the open pull requests, of one head (``owner:branch``) or all, the one that changed last first.

    https://docs.github.com/en/rest/pulls/pulls#list-pull-requests
    """
    wanted: dict[str, str | int] = {"state": "open", "sort": "updated", "direction": "desc"}
    wanted |= {} if head is None else {"head": head}
    found = await github.pages(f"{_repo(repo)}/pulls", key="items", until=None, **wanted)
    return tuple(understood(PullRequest, entry) for entry in found)


async def repository_name(github: GitHub, repository_id: int) -> str | None:
    """Return the present ``owner/name`` of a repository that the credential opens: it may have been renamed."""
    named = {each.id: each.full_name for each in await repositories(github)}
    return named.get(repository_id)


async def repositories(github: GitHub) -> tuple[RepositoryRef, ...]:
    """Return the repositories that a credential opens.

    https://docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-app-installation
    """
    found = await github.pages("/installation/repositories", key="repositories")
    return tuple(understood(RepositoryRef, entry) for entry in found)


async def permission(github: GitHub, repo: str, login: str) -> Permission:
    """Return what an account may do. Somebody who is no collaborator of a private repository has none.

    https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
    """
    try:
        answer = await github.get(f"{_repo(repo)}/collaborators/{quote(login, safe='')}/permission")
    except NotFound:
        return Permission(level="none", user_id=0)
    found = understood(_Collaborator, answer)
    return Permission(level=found.permission, user_id=found.user.id if found.user else 0)


class _Collaborator(Slice):
    permission: Level
    user: Account | None = None


async def branch_sha(github: GitHub, repo: str, name: str) -> str | None:
    """Return the commit of a branch of this repository, or None where it has none of that name.

    Asked by full reference: a tag of the same name, or a commit that only a fork has, is no branch.
    """
    try:
        answer = await github.get(f"{_repo(repo)}/git/ref/heads/{quote(name, safe='/')}")
    except NotFound:
        return None
    found = understood(_Ref, answer)
    # GitHub Enterprise Server answered in older versions with references that only begin so.
    return found.object.sha if found.ref == f"refs/heads/{name}" else None


async def delete_branch(github: GitHub, repo: str, name: str) -> None:
    """Delete a branch, wherever it stands. It takes a credential that may push.

    https://docs.github.com/en/rest/git/refs#delete-a-reference
    """
    try:
        await github.delete(f"{_repo(repo)}/git/refs/heads/{quote(name, safe='/')}")
    except GitHubError as error:
        if error.status != 422 or GONE not in error.message:
            raise


GONE = "Reference does not exist"
"""What GitHub answers, under 422, to the deletion of a reference that is not there."""


class _Target(Slice):
    sha: str


class _Ref(Slice):
    ref: str
    object: _Target


async def contents(github: GitHub, repo: str, path: str, *, ref: str) -> bytes | None:
    """Return a file's bytes at a commit, or None where there is nothing.

    Raises `Unreadable` where it is something else than a file of at most a megabyte.
    https://docs.github.com/en/rest/repos/contents#get-repository-content
    """
    try:
        answer = await github.get(f"{_repo(repo)}/contents/{quote(path, safe='/')}", ref=ref)
    except NotFound:
        return None
    if not isinstance(answer, dict) or answer.get("type") != "file" or answer.get("encoding") != "base64":
        raise Unreadable(0, f"{path} is no file of at most a megabyte")
    try:
        return base64.b64decode(understood(_File, answer).content)
    except ValueError:
        raise Unreadable(0, f"the content of {path} could not be read") from None


class Unreadable(GitHubError):  # noqa: N818 - it names what the content is
    """What is at a path of a repository is no file that can be read."""


class _File(Slice):
    content: str


async def create_check_run(github: GitHub, repo: str, fields: Mapping[str, Any]) -> CheckRun:
    """Create a check run from GitHub's own field names (``name``, ``head_sha``, ``external_id``, ``output``, …).

    https://docs.github.com/en/rest/checks/runs#create-a-check-run
    """
    return understood(CheckRun, await github.post(f"{_repo(repo)}/check-runs", fields))


async def update_check_run(github: GitHub, repo: str, check_run_id: int, *, fields: Mapping[str, Any]) -> CheckRun:
    """Change a check run. Annotations are added to those that it has."""
    return understood(CheckRun, await github.patch(f"{_repo(repo)}/check-runs/{check_run_id}", fields))


async def check_runs(
    github: GitHub, repo: str, ref: str, *, name: str | None = None, app: int | None = None
) -> tuple[CheckRun, ...]:
    """Return all check runs on a commit, of a name and of an App where they are given, newest first as GitHub has it.

    https://docs.github.com/en/rest/checks/runs#list-check-runs-for-a-git-reference
    """
    path = f"{_repo(repo)}/commits/{quote(ref, safe='/')}/check-runs"
    wanted: dict[str, str | int] = {"filter": "all"}
    wanted |= {} if name is None else {"check_name": name}
    wanted |= {} if app is None else {"app_id": app}
    found = await github.pages(path, key="check_runs", until=None, **wanted)
    return tuple(understood(CheckRun, entry) for entry in found)


async def create_comment(github: GitHub, repo: str, number: int, *, body: str) -> Comment:
    """Write a comment under an issue or pull request."""
    return understood(Comment, await github.post(f"{_repo(repo)}/issues/{number}/comments", {"body": body}))


async def update_comment(github: GitHub, repo: str, comment_id: int, *, body: str) -> Comment:
    """Replace a comment's body. Raises `NotFound` where somebody deleted it."""
    return understood(Comment, await github.patch(f"{_repo(repo)}/issues/comments/{comment_id}", {"body": body}))


async def comments(github: GitHub, repo: str, number: int) -> tuple[Comment, ...]:
    """Return the comments under an issue or pull request, oldest first."""
    found = await github.pages(f"{_repo(repo)}/issues/{number}/comments")
    return tuple(understood(Comment, entry) for entry in found)


async def comment(github: GitHub, repo: str, comment_id: int) -> Comment:
    """Return a comment as it is now. Raises `NotFound` where it was deleted."""
    return understood(Comment, await github.get(f"{_repo(repo)}/issues/comments/{comment_id}"))


async def react(github: GitHub, repo: str, comment_id: int, content: Reacted) -> int:
    """React to a comment and return the reaction's id. GitHub keeps one of a kind: twice is once."""
    answer = await github.post(f"{_repo(repo)}/issues/comments/{comment_id}/reactions", {"content": content})
    return understood(_Reaction, answer).id


class _Reaction(Slice):
    id: Id
