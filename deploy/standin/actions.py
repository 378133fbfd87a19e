"""What happens on GitHub, whoever causes it: comments are written, branches move, pull requests open and close.

Each action changes the records and the repositories and returns the webhook events that follow; the caller delivers
them: before it returns where a person acted in a test, after the answer where the API or git was used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deploy.standin import payloads
from deploy.standin.hosting import ZEROS
from deploy.standin.payloads import Event
from deploy.standin.record import RefUpdate
from deploy.standin.site import Site
from deploy.standin.state import Comment, Issue, Pull, Repo, User, now

PUSH_COMMITS = 2048
"""Commits that a `push` payload lists at most.

https://docs.github.com/en/webhooks/webhook-events-and-payloads#push
"""


# ---- Comments -------------------------------------------------------------------------------------------------------


def write_comment(
    site: Site, issue: Issue, *, body: str, author: User, by_app: bool = False
) -> tuple[Comment, list[Event]]:
    """Write a comment below an issue or a pull request."""
    number = site.state.next_id()
    comment = Comment(
        id=number,
        repo_id=issue.repo_id,
        number=issue.number,
        author_id=author.id,
        login=author.login,
        body=body,
        by_app=by_app,
    )
    site.state.comments[number] = comment
    site.state.put_issue(replace(issue, updated_at=now()))
    return comment, _comment_events(site, "created", comment, sender=author)


def edit_comment(site: Site, comment: Comment, *, body: str, sender: User) -> tuple[Comment, list[Event]]:
    """Give a comment another body."""
    edited = replace(comment, body=body, updated_at=now())
    site.state.comments[comment.id] = edited
    return edited, _comment_events(site, "edited", edited, sender=sender, previous=comment.body)


def delete_comment(site: Site, comment: Comment, *, sender: User) -> list[Event]:
    """Delete a comment and its reactions."""
    events = _comment_events(site, "deleted", comment, sender=sender)
    del site.state.comments[comment.id]
    for reaction in site.state.reactions_to(comment.id):
        del site.state.reactions[reaction.id]
    return events


def _comment_events(
    site: Site, action: str, comment: Comment, *, sender: User, previous: str | None = None
) -> list[Event]:
    if site.state.repos[comment.repo_id].installation_id is None:
        return []
    return [payloads.issue_comment(site.shapes, action, comment=comment, sender=sender, previous=previous)]


# ---- Pull requests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pull request to be opened. `head` is a branch, or ``owner:branch`` of a fork."""

    head: str
    base: str
    title: str
    body: str = ""
    draft: bool = False
    maintainer_can_modify: bool = True


async def open_pull(site: Site, repo: Repo, *, proposal: Proposal, author: User) -> tuple[Issue, list[Event]]:
    """Open a pull request. Raises LookupError where a branch does not exist.

    Unlike GitHub it opens one whose branches share no history or do not differ: GitHub's have come to be so later.
    """
    owner, _, branch = proposal.head.rpartition(":")
    head_repo = _fork_of(site, repo, owner) if owner and owner != repo.owner else repo
    head = await site.hosting.ref(head_repo.path, f"refs/heads/{branch}")
    base = await site.hosting.ref(repo.path, f"refs/heads/{proposal.base}")
    if head is None or base is None:
        raise LookupError(f"{repo.full_name} has no branch {proposal.head if head is None else proposal.base}")
    pull = Pull(
        head_repo_id=head_repo.id,
        head_ref=branch,
        head_sha=head,
        base_ref=proposal.base,
        base_sha=base,
        draft=proposal.draft,
        maintainer_can_modify=proposal.maintainer_can_modify and head_repo != repo,
    )
    issue = site.state.add_issue(repo, author, title=proposal.title, body=proposal.body, pull=pull)
    await site.hosting.borrow(repo.path, head_repo.path, head)
    await site.hosting.move(repo.path, f"refs/pull/{issue.number}/head", head)
    return issue, await pull_events(site, "opened", issue, sender=author)


def _fork_of(site: Site, repo: Repo, owner: str) -> Repo:
    for each in site.state.repos.values():
        if each.parent_id == repo.id and each.owner.lower() == owner.lower():
            return each
    raise LookupError(f"{owner} has no fork of {repo.full_name}")


async def change_pull(
    site: Site, issue: Issue, *, action: str, sender: User, **changes: object
) -> tuple[Issue, list[Event]]:
    """Close, reopen or otherwise change a pull request; `changes` are fields of Issue and of Pull."""
    own = {name: value for name, value in changes.items() if name in Pull.__dataclass_fields__}
    rest = {name: value for name, value in changes.items() if name not in own}
    pull = None if issue.pull is None else replace(issue.pull, **own)  # type: ignore[arg-type] # the caller's promise
    changed = replace(issue, pull=pull, updated_at=now(), **rest)  # type: ignore[arg-type] # the same
    site.state.put_issue(changed)
    return changed, await pull_events(site, action, changed, sender=sender)


async def reopen_pull(site: Site, issue: Issue, *, sender: User) -> list[Event]:
    """Reopen a pull request, which nobody moved while it was closed. Raises ValueError where that cannot be."""
    pull, repo = issue.pull, site.state.repos[issue.repo_id]
    if pull is None or pull.merged_at is not None:
        raise ValueError(f"#{issue.number} is merged, or no pull request")
    fork = site.state.repos[pull.head_repo_id]
    head = None if fork.deleted else await site.hosting.ref(fork.path, f"refs/heads/{pull.head_ref}")
    base = await site.hosting.ref(repo.path, f"refs/heads/{pull.base_ref}")
    if head is None or base is None:
        raise ValueError(f"the branch {pull.base_ref if head else pull.head_ref} of #{issue.number} is gone")
    await site.hosting.borrow(repo.path, fork.path, head)
    await site.hosting.move(repo.path, f"refs/pull/{issue.number}/head", head)
    changes = {"state": "open", "closed_at": None, "head_sha": head, "base_sha": base}
    _, events = await change_pull(site, issue, action="reopened", sender=sender, **changes)
    return events


async def pull_events(site: Site, action: str, issue: Issue, *, sender: User, **more: object) -> list[Event]:
    """Return the `pull_request` event of an action."""
    repo = site.state.repos[issue.repo_id]
    if repo.installation_id is None or issue.pull is None:
        return []
    distance = await site.distance(repo, issue.pull)
    return [payloads.pull_request(site.shapes, action, issue=issue, distance=distance, sender=sender, **more)]


# ---- Pushes ---------------------------------------------------------------------------------------------------------


async def pushed(site: Site, repo: Repo, *, updates: tuple[RefUpdate, ...], sender: User) -> list[Event]:
    """Let pull requests follow branches that have moved."""
    events: list[Event] = []
    for update in updates:
        events += await _push_event(site, repo, update, sender=sender)
        if update.ref.startswith("refs/heads/"):
            branch = update.ref.removeprefix("refs/heads/")
            for issue, pull in site.state.open_pulls():
                if (pull.head_repo_id, pull.head_ref) == (repo.id, branch):
                    events += await _head_moved(site, issue, pull, update=update, sender=sender)
                elif (issue.repo_id, pull.base_ref) == (repo.id, branch) and update.new != ZEROS:
                    events += await _base_moved(site, issue, pull, new=update.new, sender=sender)
    return events


async def _push_event(site: Site, repo: Repo, update: RefUpdate, *, sender: User) -> list[Event]:
    if repo.installation_id is None:
        return []
    commits = []
    if update.new != ZEROS:
        known = f"^{update.old}" if update.old != ZEROS else f"^{repo.default_branch}"
        if update.old != ZEROS or await site.hosting.ref(repo.path, f"refs/heads/{repo.default_branch}"):
            commits = await site.hosting.log(repo.path, update.new, known, most=PUSH_COMMITS)
    return [payloads.push(site.shapes, repo, update=update, commits=commits, sender=sender)]


async def _head_moved(site: Site, issue: Issue, pull: Pull, *, update: RefUpdate, sender: User) -> list[Event]:
    if update.new == ZEROS:
        _, events = await change_pull(site, issue, action="closed", sender=sender, state="closed", closed_at=now())
        return events
    base = site.state.repos[issue.repo_id]
    await site.hosting.borrow(base.path, site.state.repos[pull.head_repo_id].path, update.new)
    await site.hosting.move(base.path, f"refs/pull/{issue.number}/head", update.new)
    moved = replace(issue, pull=replace(pull, head_sha=update.new), updated_at=now())
    site.state.put_issue(moved)
    return await pull_events(site, "synchronize", moved, sender=sender, before=update.old, after=update.new)


async def _base_moved(site: Site, issue: Issue, pull: Pull, *, new: str, sender: User) -> list[Event]:
    """Follow the base in silence; where it has come to hold the whole head, the pull request is merged."""
    base = site.state.repos[issue.repo_id]
    site.state.put_issue(replace(issue, pull=replace(pull, base_sha=new)))
    if (await site.hosting.distance(base.path, new, pull.head_sha)).ahead:
        return []
    merged = {"merged_at": now(), "merged_by_id": sender.id, "merge_commit_sha": new, "base_sha": new}
    _, events = await change_pull(
        site, issue, action="closed", sender=sender, state="closed", closed_at=now(), **merged
    )
    return events
