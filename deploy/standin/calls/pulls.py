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


async def get_pull(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/pulls/{number}."""
    issue, pull, distance = await _pull(call)
    return Answer(200, change_shapes.pull(call.site.shapes, issue, pull, distance))


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
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}", get_pull, ("pull_requests:read",)),
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}/files", list_files, ("pull_requests:read",)),
    Route("GET", "/repos/{owner}/{repo}/pulls/{number}/commits", list_commits, ("pull_requests:read",)),
)
