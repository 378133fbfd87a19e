"""Calls about a repository: itself, who may do what in it, its branches and commits."""

from __future__ import annotations

import fnmatch
from urllib.parse import quote

from deploy.standin import actions, change_shapes
from deploy.standin.answers import Answer, Refused, not_found
from deploy.standin.hosting import ZEROS, Commit
from deploy.standin.record import RefUpdate
from deploy.standin.rest import Call, Route, in_url
from deploy.standin.shapes import node
from deploy.standin.state import Repo

FILES_MOST = 300
"""Files that a comparison lists at most.

https://docs.github.com/en/rest/commits/commits#compare-two-commits
"""


async def get_repo(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}."""
    rights = {"admin": False, "maintain": False, "push": call.credential.allows("contents", "write")}
    rights |= {"triage": False, "pull": True}
    return Answer(200, call.site.shapes.full_repo(call.repository) | {"permissions": rights})


async def get_permission(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/collaborators/{username}/permission."""
    user = call.site.state.find_user(call.params["username"])
    if user is None:
        raise not_found()
    if user.type == "Bot":
        # So github.com answers for an App's account, whatever the App may do (anthropics/claude-code-action#1133).
        raise Refused(404, f"{user.login} is not a user")
    role = call.site.state.role(call.repository, user)
    return Answer(200, call.site.shapes.permission(user, role))


async def get_ref(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/git/ref/{ref}: one ref by its whole name without ``refs/``."""
    repo, name = call.repository, call.params["ref"]
    sha = await call.site.hosting.ref(repo.path, f"refs/{name}")
    if sha is None:
        raise not_found()
    git = f"{call.site.shapes.repo_url(repo)}/git"
    body = {
        "ref": f"refs/{name}",
        "node_id": node("Ref", int(sha[:12], 16)),
        "url": f"{git}/refs/{quote(name)}",
        "object": {"sha": sha, "type": "commit", "url": f"{git}/commits/{sha}"},
    }
    return Answer(200, body)


async def delete_ref(call: Call) -> Answer:
    """DELETE /repos/{owner}/{repo}/git/refs/{ref}: what follows from it is told after the answer.

    Of the refusals GitHub's words are known for the first; of the other, that it is a 422.
    """
    site, repo, ref = call.site, call.repository, f"refs/{call.params['ref']}"
    old = await site.hosting.ref(repo.path, ref)
    if old is None:
        raise Refused(422, "Reference does not exist")
    branch = ref.removeprefix("refs/heads/")
    if ref.startswith("refs/pull/") or branch == repo.default_branch or _protected(call, branch):
        raise Refused(422, f"{ref} cannot be deleted")
    await site.hosting.move(repo.path, ref, None)
    events = await actions.pushed(site, repo, updates=(RefUpdate(ref, old, ZEROS),), sender=site.app.bot)
    site.webhooks.later(site.webhooks.deliver_all(events))
    return Answer(204)


async def get_branch(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/branches/{branch}."""
    repo, name = call.repository, call.params["branch"]
    sha = await call.site.hosting.ref(repo.path, f"refs/heads/{name}")
    if sha is None:
        raise Refused(404, "Branch not found")
    url = f"{call.site.shapes.repo_url(repo)}/branches/{in_url(name)}"
    commit = await _commit(call, repo, sha)
    protected = _protected(call, name)
    body = {
        "name": name,
        "commit": change_shapes.commit(call.site.shapes, repo, commit),
        "_links": {"self": url, "html": f"{call.site.shapes.repo_page(repo)}/tree/{quote(name)}"},
        "protected": protected,
        "protection": {"enabled": protected},
        "protection_url": f"{url}/protection",
    }
    return Answer(200, body)


def _protected(call: Call, branch: str) -> bool:
    protections = call.site.state.protections.get(call.repository.id, ())
    return any(fnmatch.fnmatchcase(branch, each.pattern) for each in protections)


async def get_commit(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/commits/{ref}."""
    repo = call.repository
    sha = await call.site.hosting.commit(repo.path, call.params["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.params['ref']}")
    commit = await _commit(call, repo, sha)
    shape = change_shapes.commit(call.site.shapes, repo, commit)
    if not commit.parents:
        return Answer(200, shape | {"files": []})
    distance = await call.site.hosting.distance(repo.path, commit.parents[0], sha)
    files = [change_shapes.file(call.site.shapes, repo, sha, each) for each in distance.files[:FILES_MOST]]
    return Answer(200, shape | {"files": files})


async def compare(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/compare/{base}...{head}."""
    repo, shapes, hosting = call.repository, call.site.shapes, call.site.hosting
    base = await hosting.commit(repo.path, call.params["base"])
    head = await hosting.commit(repo.path, call.params["head"])
    if base is None or head is None:
        raise not_found()
    distance = await hosting.distance(repo.path, base, head)
    if distance.merge_base is None:
        raise Refused(404, f"No common ancestor between {call.params['base']} and {call.params['head']}.")
    status = {(False, False): "identical", (True, False): "ahead", (False, True): "behind"}
    commits = await hosting.log(repo.path, head, f"^{base}")
    ends = in_url(call.params["base"]), in_url(call.params["head"])
    page = f"{shapes.repo_page(repo)}/compare/{ends[0]}...{ends[1]}"
    body = {
        "url": f"{shapes.repo_url(repo)}/compare/{ends[0]}...{ends[1]}",
        "html_url": page,
        "permalink_url": f"{shapes.repo_page(repo)}/compare/{repo.owner}:{base[:7]}...{repo.owner}:{head[:7]}",
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "base_commit": change_shapes.commit(shapes, repo, await _commit(call, repo, base)),
        "merge_base_commit": change_shapes.commit(shapes, repo, await _commit(call, repo, distance.merge_base)),
        "status": status.get((distance.ahead > 0, distance.behind > 0), "diverged"),
        "ahead_by": distance.ahead,
        "behind_by": distance.behind,
        "total_commits": distance.ahead,
        "commits": [change_shapes.commit(shapes, repo, each) for each in reversed(commits)],
        "files": [change_shapes.file(shapes, repo, head, each) for each in distance.files[:FILES_MOST]],
    }
    return Answer(200, body)


async def _commit(call: Call, repo: Repo, sha: str) -> Commit:
    return (await call.site.hosting.log(repo.path, sha, most=1))[0]


ROUTES = (
    Route("GET", "/repos/{owner}/{repo}", get_repo, ("metadata:read",)),
    Route("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", get_permission, ("metadata:read",)),
    Route("GET", "/repos/{owner}/{repo}/git/ref/{ref+}", get_ref, ("contents:read",)),
    Route("DELETE", "/repos/{owner}/{repo}/git/refs/{ref+}", delete_ref, ("contents:write",)),
    Route("GET", "/repos/{owner}/{repo}/branches/{branch+}", get_branch, ("contents:read",)),
    Route("GET", "/repos/{owner}/{repo}/compare/{base+}...{head+}", compare, ("contents:read",)),
)
COMMIT = Route("GET", "/repos/{owner}/{repo}/commits/{ref+}", get_commit, ("contents:read",))
"""Apart from the others, since it comes after ``…/commits/{ref}/check-runs``."""
