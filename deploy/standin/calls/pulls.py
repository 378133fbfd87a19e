"""Calls about pull requests."""

from __future__ import annotations

from deploy.standin import change_shapes
from deploy.standin.answers import Answer, not_found
from deploy.standin.hosting import Distance
from deploy.standin.rest import Call, Route
from deploy.standin.state import Issue, Pull

FILES_MOST = 3000
"""Files of a pull request that are listed at most.

https://docs.github.com/en/rest/pulls/pulls#list-pull-requests-files
"""

COUNTED = frozenset(
    {"merged", "merged_by", "mergeable", "mergeable_state", "rebaseable", "maintainer_can_modify", "comments"}
    | {"review_comments", "commits", "additions", "deletions", "changed_files"}
)
"""What one pull request tells and a list of them does not."""


async def get_pull(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/pulls/{number}."""
    issue, pull, distance = await _pull(call)
    return Answer(200, change_shapes.pull(call.site.shapes, issue, pull, distance))


async def list_pulls(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/pulls: the open ones, newest first, unless it is asked for otherwise."""
    query, repo = call.query, call.repository
    wanted = query.get("state", "open")
    found = [
        (issue, issue.pull) for issue in call.site.state.issues.values() if issue.repo_id == repo.id and issue.pull
    ]
    found = [each for each in found if wanted in ("all", each[0].state)]
    if "head" in query:
        repos = call.site.state.repos
        found = [
            (issue, pull)
            for issue, pull in found
            if query["head"] == f"{repos[pull.head_repo_id].owner}:{pull.head_ref}"
        ]
    by_update = query.get("sort", "created") == "updated"
    found.sort(key=lambda each: (each[0].updated_at if by_update else each[0].created_at, each[0].number))
    if query.get("direction", "asc" if "sort" in query and not by_update else "desc") == "desc":
        found.reverse()
    shapes = call.site.shapes
    listed = [change_shapes.pull(shapes, issue, pull, await call.site.distance(repo, pull)) for issue, pull in found]
    # A list holds no figures that take a look at the change (pull-request-simple).
    return call.listed([{name: value for name, value in each.items() if name not in COUNTED} for each in listed])


async def list_files(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/pulls/{number}/files."""
    _, pull, distance = await _pull(call)
    shapes = call.site.shapes
    files = [change_shapes.file(shapes, call.repository, pull.head_sha, each) for each in distance.files[:FILES_MOST]]
    return call.listed(files)


async def list_commits(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/pulls/{number}/commits."""
    _, pull, _ = await _pull(call)
    commits = await call.site.hosting.log(call.repository.path, pull.head_sha, f"^{pull.base_sha}")
    shapes = call.site.shapes
    return call.listed([change_shapes.commit(shapes, call.repository, each) for each in reversed(commits)])


async def _pull(call: Call) -> tuple[Issue, Pull, Distance]:
    issue = call.issue()
    if issue.pull is None:
        raise not_found()
    return issue, issue.pull, await call.site.distance(call.repository, issue.pull)


ROUTES = (
    Route("GET", "/repos/{owner}/{repo}/pulls", list_pulls, ("pull_requests:read",)),
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}", get_pull, ("pull_requests:read",)),
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}/files", list_files, ("pull_requests:read",)),
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}/commits", list_commits, ("pull_requests:read",)),
)
