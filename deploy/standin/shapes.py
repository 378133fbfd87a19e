"""Accounts, repositories and conversations → JSON in GitHub's shapes, for answers and for webhooks. Pure.

The keys are those of the schemas in GitHub's OpenAPI description (https://github.com/octokit/openapi); what is not
modelled here holds GitHub's own empty value.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import quote

from deploy.standin.auth import App
from deploy.standin.state import ROLES, Comment, Issue, Reaction, Repo, State, User

Json: TypeAlias = dict[str, Any]

USER_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}
REPO_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}
REPO_COUNTS = ("forks", "forks_count", "open_issues", "open_issues_count", "stargazers_count", "watchers",
               "watchers_count", "size")  # fmt: skip
REPO_FEATURES = {
    "has_issues": True,
    "has_projects": False,
    "has_downloads": False,
    "has_wiki": False,
    "has_pages": False,
    "has_discussions": False,
    "archived": False,
    "disabled": False,
    "allow_forking": True,
    "is_template": False,
    "web_commit_signoff_required": False,
}


def moment(value: datetime | None) -> str | None:
    """Return a moment as GitHub writes it."""
    return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")


def node(kind: str, number: int) -> str:
    """Return a node id: opaque, and other than the number."""
    return base64.b64encode(f"{kind}{number}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the stand-in answers."""

    api: str
    server: str


@dataclass(frozen=True, slots=True)
class Shapes:
    """Renders records; looks up what they refer to."""

    state: State
    app: App
    urls: Urls
    grants: dict[str, str]
    """What the App is granted at present."""
    events: set[str]
    """What the App is subscribed to at present."""

    # ---- Accounts and repositories

    def user(self, user: User) -> Json:
        """Return `simple-user`."""
        url = f"{self.urls.api}/users/{quote(user.login, safe='')}"
        page = user.login.replace("[bot]", "")
        return {
            "login": user.login,
            "id": user.id,
            "node_id": node("User", user.id),
            "avatar_url": f"{self.urls.server}/avatars/u/{user.id}",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.urls.server}/{'apps/' if user.type == 'Bot' else ''}{page}",
            **{key: url + path for key, path in USER_LINKS.items()},
            "type": user.type,
            "user_view_type": "public",
            "site_admin": False,
        }

    def user_by_id(self, number: int) -> Json:
        """Return `simple-user` of an account that a record refers to."""
        return self.user(self.state.users[number])

    def public_user(self, user: User) -> Json:
        """Return `public-user`."""
        empty = dict.fromkeys(("name", "company", "blog", "location", "email", "hireable", "bio", "twitter_username"))
        counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
        times = {"created_at": moment(user.created_at), "updated_at": moment(user.created_at)}
        return self.user(user) | empty | counts | times

    def repo_url(self, repo: Repo) -> str:
        """Return a repository's address in the API."""
        return f"{self.urls.api}/repos/{repo.full_name}"

    def repo_page(self, repo: Repo) -> str:
        """Return a repository's page."""
        return f"{self.urls.server}/{repo.full_name}"

    def repo(self, repo: Repo) -> Json:
        """Return `repository`."""
        url, page = self.repo_url(repo), self.repo_page(repo)
        return {
            "id": repo.id,
            "node_id": node("Repository", repo.id),
            "name": repo.name,
            "full_name": repo.full_name,
            "private": repo.private,
            "owner": self.user_by_id(repo.owner_id),
            "html_url": page,
            "description": None,
            "fork": repo.parent_id is not None,
            "url": url,
            **{key: url + path for key, path in REPO_LINKS.items()},
            "git_url": f"{page}.git",
            "ssh_url": f"{page}.git",
            "clone_url": f"{page}.git",
            "svn_url": page,
            **dict.fromkeys(("homepage", "language", "mirror_url", "license")),
            **dict.fromkeys(REPO_COUNTS, 0),
            **REPO_FEATURES,
            "archived": repo.archived,
            "topics": [],
            "visibility": "private" if repo.private else "public",
            "default_branch": repo.default_branch,
            "created_at": moment(repo.created_at),
            "updated_at": moment(repo.created_at),
            "pushed_at": moment(repo.created_at),
        }

    def full_repo(self, repo: Repo) -> Json:
        """Return `full-repository`."""
        full = self.repo(repo) | {"network_count": 0, "subscribers_count": 0, "custom_properties": {}}
        if repo.parent_id is not None:
            full["parent"] = full["source"] = self.repo(self.state.repos[repo.parent_id])
        return full

    def permission(self, user: User, role: str) -> Json:
        """Return `repository-collaborator-permission`."""
        level = ROLES[role]
        rights = {"admin": 4, "maintain": 3, "write": 2, "triage": 1, "read": 0, "none": -1}[role]
        names = ("pull", "triage", "push", "maintain", "admin")
        flags = {name: rights >= index for index, name in enumerate(names)}
        shape = self.user(user) | {"permissions": flags, "role_name": role}
        return {"permission": level, "role_name": role, "user": shape}

    # ---- App

    def integration(self) -> Json:
        """Return `integration`: the App as it appears in comments, check runs and GET /app."""
        return {
            "id": self.app.id,
            "slug": self.app.slug,
            "node_id": node("App", self.app.id),
            "client_id": self.app.client_id,
            "owner": self.user(self.app.owner),
            "name": self.app.name,
            "description": "",
            "external_url": self.urls.server,
            "html_url": f"{self.urls.server}/apps/{self.app.slug}",
            "created_at": moment(self.app.created_at),
            "updated_at": moment(self.app.created_at),
            **self.granted(),
        }

    def installation(self, number: int) -> Json:
        """Return `installation`: the App in an account."""
        account = self.state.users[self.state.installations[number]]
        suspended = number in self.state.suspended
        return {
            "id": number,
            "account": self.user(account),
            "access_tokens_url": f"{self.urls.api}/app/installations/{number}/access_tokens",
            "repositories_url": f"{self.urls.api}/installation/repositories",
            "html_url": f"{self.urls.server}/settings/installations/{number}",
            "app_id": self.app.id,
            "client_id": self.app.client_id,
            "app_slug": self.app.slug,
            "target_id": account.id,
            "target_type": "Organization" if account.type == "Organization" else "User",
            **self.granted(),
            "repository_selection": "selected",
            "single_file_name": None,
            "has_multiple_single_files": False,
            "single_file_paths": [],
            "created_at": moment(self.app.created_at),
            "updated_at": moment(self.app.created_at),
            "suspended_by": self.user(account) if suspended else None,
            "suspended_at": moment(self.app.created_at) if suspended else None,
        }

    def granted(self) -> Json:
        """Return what the App may do and what it hears of."""
        return {"permissions": {"metadata": "read"} | self.grants, "events": sorted(self.events)}

    # ---- Conversations

    def association(self, repo: Repo, user_id: int) -> str:
        """Return `author_association`, which is no permission: it tells what is public (github.md A8)."""
        if user_id == repo.owner_id:
            return "OWNER"
        role = self.state.role(repo, self.state.users[user_id])
        return "COLLABORATOR" if role in ("admin", "maintain", "write", "triage") else "NONE"

    def reactions(self, comment: Comment | None, url: str) -> Json:
        """Return `reaction-rollup`."""
        counts = dict.fromkeys(("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"), 0)
        found = [] if comment is None else self.state.reactions_to(comment.id)
        for reaction in found:
            counts[reaction.content] += 1
        return {"url": f"{url}/reactions", "total_count": len(found), **counts}

    def comment(self, comment: Comment) -> Json:
        """Return `issue-comment`."""
        repo = self.state.repos[comment.repo_id]
        issue = self.state.issue(repo, comment.number)
        url = f"{self.repo_url(repo)}/issues/comments/{comment.id}"
        return {
            "url": url,
            "html_url": f"{self.page(issue)}#issuecomment-{comment.id}",
            "issue_url": f"{self.repo_url(repo)}/issues/{comment.number}",
            "id": comment.id,
            "node_id": node("IssueComment", comment.id),
            "user": self.user_by_id(comment.author_id),
            "created_at": moment(comment.created_at),
            "updated_at": moment(comment.updated_at),
            "body": comment.body,
            "author_association": self.association(repo, comment.author_id),
            "reactions": self.reactions(comment, url),
            "performed_via_github_app": self.integration() if comment.by_app else None,
        }

    def reaction(self, reaction: Reaction) -> Json:
        """Return `reaction`."""
        return {
            "id": reaction.id,
            "node_id": node("Reaction", reaction.id),
            "user": self.user_by_id(reaction.user_id),
            "content": reaction.content,
            "created_at": moment(reaction.created_at),
        }

    def issue(self, issue: Issue) -> Json:
        """Return `issue`; a pull request's has the key `pull_request`."""
        repo = self.state.repos[issue.repo_id]
        url = f"{self.repo_url(repo)}/issues/{issue.number}"
        shape = {
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "html_url": self.page(issue),
            "timeline_url": f"{url}/timeline",
            **self.conversation(issue),
            "comments": len(self.state.comments_of(repo, issue.number)),
            "reactions": self.reactions(None, url),
            "performed_via_github_app": None,
            "state_reason": None,
        }
        if issue.pull is not None:
            page = self.page(issue)
            shape["draft"] = issue.pull.draft
            shape["pull_request"] = {
                "url": f"{self.repo_url(repo)}/pulls/{issue.number}",
                "html_url": page,
                "diff_url": f"{page}.diff",
                "patch_url": f"{page}.patch",
                "merged_at": moment(issue.pull.merged_at),
            }
        return shape

    def page(self, issue: Issue) -> str:
        """Return a conversation's page."""
        kind = "issues" if issue.pull is None else "pull"
        return f"{self.repo_page(self.state.repos[issue.repo_id])}/{kind}/{issue.number}"

    def conversation(self, issue: Issue) -> Json:
        """Return what issues and pull requests have in common."""
        repo = self.state.repos[issue.repo_id]
        return {
            "id": issue.id,
            "node_id": node("Issue" if issue.pull is None else "PullRequest", issue.id),
            "number": issue.number,
            "state": issue.state,
            "locked": issue.locked,
            "active_lock_reason": None,
            "title": issue.title,
            "body": issue.body,
            "user": self.user_by_id(issue.author_id),
            "labels": [],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "author_association": self.association(repo, issue.author_id),
            "created_at": moment(issue.created_at),
            "updated_at": moment(issue.updated_at),
            "closed_at": moment(issue.closed_at),
        }
