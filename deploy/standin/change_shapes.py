"""Pull requests, files, commits and check runs → JSON in GitHub's shapes. Pure; the rest is in `shapes`."""

from __future__ import annotations

from urllib.parse import quote

from deploy.standin.diffs import ChangedFile
from deploy.standin.hosting import Commit, Distance
from deploy.standin.shapes import Json, Shapes, moment, node
from deploy.standin.state import CheckRun, Issue, Pull, Repo

# ---- Pull requests --------------------------------------------------------------------------------------------------


def pull(shapes: Shapes, issue: Issue, pull: Pull, distance: Distance) -> Json:
    """Return `pull-request`. `mergeable` stays null: the stand-in makes no test merges."""
    repo = shapes.state.repos[issue.repo_id]
    url, page = f"{shapes.repo_url(repo)}/pulls/{issue.number}", shapes.page(issue)
    issue_url = f"{shapes.repo_url(repo)}/issues/{issue.number}"
    links = {
        "self": url,
        "html": page,
        "issue": issue_url,
        "comments": f"{issue_url}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{shapes.repo_url(repo)}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{shapes.repo_url(repo)}/statuses/{pull.head_sha}",
    }
    names = ("comments", "review_comments", "review_comment", "commits", "statuses")
    return {
        "url": url,
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue_url,
        **{f"{name}_url": links[name] for name in names},
        **shapes.conversation(issue),
        "draft": pull.draft,
        "head": _end(shapes, shapes.state.repos[pull.head_repo_id], pull.head_ref, pull.head_sha),
        "base": _end(shapes, repo, pull.base_ref, pull.base_sha),
        "_links": {name: {"href": link} for name, link in links.items()},
        "requested_reviewers": [],
        "requested_teams": [],
        "auto_merge": None,
        "merged": pull.merged_at is not None,
        "merged_at": moment(pull.merged_at),
        "merged_by": None if pull.merged_by_id is None else shapes.user_by_id(pull.merged_by_id),
        "merge_commit_sha": pull.merge_commit_sha,
        "mergeable": None,
        "mergeable_state": "unknown",
        "rebaseable": None,
        "maintainer_can_modify": pull.maintainer_can_modify,
        "comments": len(shapes.state.comments_of(repo, issue.number)),
        "review_comments": 0,
        "commits": distance.ahead,
        "additions": sum(each.additions for each in distance.files),
        "deletions": sum(each.deletions for each in distance.files),
        "changed_files": len(distance.files),
    }


def _end(shapes: Shapes, repo: Repo, ref: str, sha: str) -> Json:
    owner = shapes.user_by_id(repo.owner_id)
    shape = None if repo.deleted else shapes.repo(repo)
    return {"label": f"{repo.owner}:{ref}", "ref": ref, "sha": sha, "user": owner, "repo": shape}


def file(shapes: Shapes, repo: Repo, sha: str, changed: ChangedFile) -> Json:
    """Return `diff-entry`."""
    name = quote(changed.filename)
    shape: Json = {
        "sha": changed.sha,
        "filename": changed.filename,
        "status": changed.status,
        "additions": changed.additions,
        "deletions": changed.deletions,
        "changes": changed.additions + changed.deletions,
        "blob_url": f"{shapes.repo_page(repo)}/blob/{sha}/{name}",
        "raw_url": f"{shapes.repo_page(repo)}/raw/{sha}/{name}",
        "contents_url": f"{shapes.repo_url(repo)}/contents/{name}?ref={sha}",
    }
    if changed.patch is not None:
        shape["patch"] = changed.patch
    if changed.previous is not None:
        shape["previous_filename"] = changed.previous
    return shape


# ---- Commits and check runs -----------------------------------------------------------------------------------------


def commit(shapes: Shapes, repo: Repo, commit: Commit) -> Json:
    """Return `commit`. Nobody's account is looked up by address: author and committer are null."""
    url, page = f"{shapes.repo_url(repo)}/commits/{commit.sha}", f"{shapes.repo_page(repo)}/commit/{commit.sha}"
    people = [dict(zip(("name", "email"), who.rstrip(">").rsplit(" <", 1), strict=True))
              for who in (commit.author, commit.committer)]  # fmt: skip
    dated = [{**who, "date": moment(commit.authored_at)} for who in people]
    git = f"{shapes.repo_url(repo)}/git"
    return {
        "url": url,
        "sha": commit.sha,
        "node_id": node("Commit", int(commit.sha[:12], 16)),
        "html_url": page,
        "comments_url": f"{url}/comments",
        "commit": {
            "url": f"{git}/commits/{commit.sha}",
            "author": dated[0],
            "committer": dated[1],
            "message": commit.message,
            "comment_count": 0,
            "tree": {"sha": commit.tree, "url": f"{git}/trees/{commit.tree}"},
            "verification": {"verified": False, "reason": "unsigned", "signature": None, "payload": None,
                             "verified_at": None},
        },
        "author": None,
        "committer": None,
        "parents": [{"sha": parent, "url": f"{shapes.repo_url(repo)}/commits/{parent}",
                     "html_url": f"{shapes.repo_page(repo)}/commit/{parent}"} for parent in commit.parents],
    }  # fmt: skip


def check_run(shapes: Shapes, run: CheckRun) -> Json:
    """Return `check-run`. Pull requests from forks are not listed, as on GitHub (github.md A3)."""
    repo = shapes.state.repos[run.repo_id]
    url = f"{shapes.repo_url(repo)}/check-runs/{run.id}"
    pulls = [(issue, pull) for issue, pull in shapes.state.open_pulls()
             if pull.head_sha == run.head_sha and issue.repo_id == pull.head_repo_id == repo.id]  # fmt: skip
    return {
        "id": run.id,
        "name": run.name,
        "node_id": node("CheckRun", run.id),
        "head_sha": run.head_sha,
        "external_id": run.external_id,
        "url": url,
        "html_url": f"{shapes.repo_page(repo)}/runs/{run.id}",
        "details_url": run.details_url or f"{shapes.urls.server}/apps/{shapes.app.slug}",
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": moment(run.started_at),
        "completed_at": moment(run.completed_at),
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.text,
            "annotations_count": len(run.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.suite_id},
        "app": shapes.integration(),
        "pull_requests": [_minimal_pull(shapes, repo, issue, pull) for issue, pull in pulls],
    }


def _minimal_pull(shapes: Shapes, repo: Repo, issue: Issue, pull: Pull) -> Json:
    short = {"id": repo.id, "url": shapes.repo_url(repo), "name": repo.name}
    return {
        "id": issue.id,
        "number": issue.number,
        "url": f"{shapes.repo_url(repo)}/pulls/{issue.number}",
        "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": short},
        "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": short},
    }
