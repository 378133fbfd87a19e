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
    query, state = call.query, call.site.state
    pulls = [(each, each.pull) for each in state.issues.values() if each.repo_id == call.repository.id and each.pull]
    found = [each for each in pulls if _is_asked_for(call, *each)]
    by_update = query.get("sort", "created") == "updated"
    found.sort(key=lambda each: (each[0].updated_at if by_update else each[0].created_at, each[0].number))
    if query.get("direction", "asc" if by_update else "desc") == "desc":
        found.reverse()
    # A list holds no figures that take a look at the change (pull-request-simple).
    shapes = [change_shapes.pull(call.site.shapes, *each, Distance(None, 0, 0, ())) for each in found]
    return call.listed([{name: value for name, value in each.items() if name not in COUNTED} for each in shapes])


def _is_asked_for(call: Call, issue: Issue, pull: Pull) -> bool:
    query = call.query
    head = f"{call.site.state.repos[pull.head_repo_id].owner}:{pull.head_ref}"
    fits = query.get("head", head) == head and query.get("base", pull.base_ref) == pull.base_ref
    return fits and query.get("state", "open") in ("all", issue.state)


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
