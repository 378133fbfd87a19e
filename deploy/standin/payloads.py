"""The payloads of webhooks, in GitHub's shapes. Pure.

https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

from typing import TypeAlias

from deploy.standin import change_shapes
from deploy.standin.hosting import ZEROS, Commit, Distance
from deploy.standin.record import RefUpdate
from deploy.standin.shapes import Json, Shapes, moment, node
from deploy.standin.state import Comment, Issue, Pull, Repo, User

Event: TypeAlias = tuple[str, Json]
"""An event's name and its payload."""


def _common(shapes: Shapes, repo: Repo, sender: User) -> Json:
    common: Json = {"repository": shapes.repo(repo) | {"custom_properties": {}}, "sender": shapes.user(sender)}
    owner = shapes.state.users[repo.owner_id]
    if owner.type == "Organization":
        common["organization"] = organization(shapes, owner)
    if repo.installation_id is not None:
        common["installation"] = {
            "id": repo.installation_id,
            "node_id": node("IntegrationInstallation", repo.installation_id),
        }
    return common


def organization(shapes: Shapes, owner: User) -> Json:
    """Return `organization-simple`."""
    url = f"{shapes.urls.api}/orgs/{owner.login}"
    return {
        "login": owner.login,
        "id": owner.id,
        "node_id": node("Organization", owner.id),
        "url": url,
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events",
        "hooks_url": f"{url}/hooks",
        "issues_url": f"{url}/issues",
        "members_url": f"{url}/members{{/member}}",
        "public_members_url": f"{url}/public_members{{/member}}",
        "avatar_url": f"{shapes.urls.server}/avatars/u/{owner.id}",
        "description": None,
    }


def ping(shapes: Shapes, hook_id: int, url: str | None, events: list[str]) -> Event:
    """Return the greeting that GitHub sends to a new webhook."""
    hook = {
        "type": "App",
        "id": hook_id,
        "name": "web",
        "active": True,
        "events": events,
        "config": {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": url or ""},
        "updated_at": moment(shapes.app.created_at),
        "created_at": moment(shapes.app.created_at),
        "app_id": shapes.app.id,
        "deliveries_url": f"{shapes.urls.api}/app/hook/deliveries",
    }
    return "ping", {"zen": "Keep it logically awesome.", "hook_id": hook_id, "hook": hook}


def installation(shapes: Shapes, action: str, *, number: int, repos: list[Repo], sender: User) -> Event:
    """Return `installation`: the App came to an account, or left it."""
    listed = [
        {
            "id": repo.id,
            "node_id": node("Repository", repo.id),
            "name": repo.name,
            "full_name": repo.full_name,
            "private": repo.private,
        }
        for repo in repos
    ]
    shape = shapes.installation(number)
    return "installation", {
        "action": action,
        "installation": shape,
        "repositories": listed,
        "sender": shapes.user(sender),
    }


def issue_comment(shapes: Shapes, action: str, *, comment: Comment, sender: User, previous: str | None = None) -> Event:
    """Return `issue_comment`. `previous` is the body before an edit."""
    repo = shapes.state.repos[comment.repo_id]
    issue = shapes.state.issue(repo, comment.number)
    payload: Json = {
        "action": action,
        "issue": shapes.issue(issue),
        "comment": shapes.comment(comment),
        **_common(shapes, repo, sender),
    }
    if previous is not None:
        payload["changes"] = {"body": {"from": previous}}
    return "issue_comment", payload


def pull_request(
    shapes: Shapes, action: str, *, issue: Issue, distance: Distance, sender: User, **more: object
) -> Event:
    """Return `pull_request`; `more` are the keys that an action has of its own: `before` and `after` of synchronize."""
    if issue.pull is None:
        raise ValueError(f"#{issue.number} is no pull request")
    pull: Pull = issue.pull
    repo = shapes.state.repos[issue.repo_id]
    shape = change_shapes.pull(shapes, issue, pull, distance)
    return "pull_request", {
        "action": action,
        "number": issue.number,
        "pull_request": shape,
        **more,
        **_common(shapes, repo, sender),
    }


def push(shapes: Shapes, repo: Repo, *, update: RefUpdate, commits: list[Commit], sender: User) -> Event:
    """Return `push`. `commits` are the new ones, newest first."""
    page = shapes.repo_page(repo)
    listed = [_pushed(page, commit) for commit in reversed(commits)]
    payload: Json = {
        "ref": update.ref,
        "before": update.old,
        "after": update.new,
        **_common(shapes, repo, sender),
        "pusher": {"name": sender.login, "email": f"{sender.login}@users.noreply.github.com"},
        "created": update.old == ZEROS,
        "deleted": update.new == ZEROS,
        "forced": False,
        "base_ref": None,
        "compare": f"{page}/compare/{update.old[:12]}...{update.new[:12]}",
        "commits": listed,
        "head_commit": listed[-1] if listed else None,
    }
    payload["repository"] |= {
        "created_at": int(repo.created_at.timestamp()),
        "pushed_at": int(repo.created_at.timestamp()),
        "master_branch": repo.default_branch,
        "stargazers": 0,
    }
    payload["repository"]["owner"] |= {"name": repo.owner, "email": None}
    return "push", payload


def _pushed(page: str, commit: Commit) -> Json:
    people = []
    for who in (commit.author, commit.committer):
        name, address = who.rstrip(">").rsplit(" <", 1)
        people.append({"name": name, "email": address, "date": moment(commit.authored_at)})
    return {
        "id": commit.sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": commit.message,
        "timestamp": commit.authored_at.isoformat(),
        "url": f"{page}/commit/{commit.sha}",
        "author": people[0],
        "committer": people[1],
        "added": [],
        "removed": [],
        "modified": list(commit.files),
    }
