"""What people do on the stand-in GitHub, and what can be seen there: the half of `StandIn` that stories are told with.

Each act is awaited until its webhooks have been answered, so that a story goes on when the product knows of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from deploy.standin import actions
from deploy.standin.actions import Proposal
from deploy.standin.hosting import ZEROS, Commit
from deploy.standin.payloads import Event
from deploy.standin.record import RefUpdate
from deploy.standin.site import Site
from deploy.standin.state import CheckRun, Comment, Issue, Pull, Reaction, Repo, RepoRef, User, now


class PullOptions(TypedDict, total=False):
    """What else a pull request may be: whose (the repository's owner's), a draft (no), open to maintainers (yes)."""

    author: str
    draft: bool
    maintainer_can_modify: bool


class CommitOptions(TypedDict, total=False):
    """What else a commit may be: whose (the repository's owner's), and where a branch that is new begins."""

    login: str
    parent: str


class People:
    """Acts of people, and looks at what came of them. See `StandIn`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def _who(self, repo: Repo, login: str | None) -> User:
        state = self._site.state
        return state.users[repo.owner_id] if login is None else state.user(login)

    async def _tell(self, events: list[Event]) -> None:
        await self._site.webhooks.deliver_all(events)

    # ---- Branches and commits

    async def add_branches(
        self, repo: RepoRef, source: Path, source_refs: Mapping[str, str], *, login: str | None = None
    ) -> None:
        """Push branches from a git repository on this machine: `source_refs` maps its refs or commits to branches."""
        found = self._site.state.repo(repo)
        before = await self._site.hosting.branches(found.path)
        await self._site.hosting.copy(found.path, source, dict(source_refs))
        after = await self._site.hosting.branches(found.path)
        updates = [
            RefUpdate(f"refs/heads/{name}", before.get(name, ZEROS), after[name])
            for name in source_refs.values()
            if before.get(name) != after[name]
        ]
        await self._pushed(found, updates, login=login)

    async def commit(
        self,
        repo: RepoRef,
        branch: str,
        files: Mapping[str, bytes | str | None],
        *,
        message: str = "change",
        **options: Unpack[CommitOptions],
    ) -> str:
        """Push one commit and return its SHA: `files` maps paths to contents; None deletes a file.

        A path that is not UTF-8 is written as `os.fsdecode` reads it.

        A branch that does not exist begins at `parent`, a branch or a SHA: the default branch unless it is given.
        """
        found = self._site.state.repo(repo)
        hosting = self._site.hosting
        who = self._who(found, options.get("login"))
        old = await hosting.ref(found.path, f"refs/heads/{branch}")
        parent = old or await hosting.commit(found.path, options.get("parent", found.default_branch))
        stream = _commit_stream(branch, files, message=message, who=who, parent=parent)
        new = await hosting.write_commit(found.path, branch, stream)
        await self._pushed(found, [RefUpdate(f"refs/heads/{branch}", old or ZEROS, new)], login=who.login)
        return new

    async def move_branch(self, repo: RepoRef, branch: str, sha: str, *, login: str | None = None) -> None:
        """Push a branch to a commit that the repository has, forced where it has to be; a new one is made."""
        found = self._site.state.repo(repo)
        ref = f"refs/heads/{branch}"
        old = await self._site.hosting.ref(found.path, ref)
        await self._site.hosting.move(found.path, ref, sha)
        await self._pushed(found, [RefUpdate(ref, old or ZEROS, sha)], login=login)

    async def delete_branch(self, repo: RepoRef, branch: str, *, login: str | None = None) -> None:
        """Delete a branch. Open pull requests of it are closed. Raises LookupError where there is none."""
        found = self._site.state.repo(repo)
        ref = f"refs/heads/{branch}"
        old = await self._site.hosting.ref(found.path, ref)
        if old is None:
            raise LookupError(f"{found.full_name} has no branch {branch}")
        await self._site.hosting.move(found.path, ref, None)
        await self._pushed(found, [RefUpdate(ref, old, ZEROS)], login=login)

    async def create_tag(self, repo: RepoRef, name: str, sha: str) -> None:
        """Make a tag of a commit that the repository has. Nobody is told."""
        await self._site.hosting.move(self._site.state.repo(repo).path, f"refs/tags/{name}", sha)

    async def _pushed(self, repo: Repo, updates: list[RefUpdate], *, login: str | None) -> None:
        who = self._who(repo, login)
        await self._tell(await actions.pushed(self._site, repo, updates=tuple(updates), sender=who))

    async def read_ref(self, repo: RepoRef, ref: str) -> str | None:
        """Return the commit of a branch, or of a ref by its full name (``refs/pull/1/head``); None: there is none."""
        name = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
        return await self._site.hosting.ref(self._site.state.repo(repo).path, name)

    async def branches(self, repo: RepoRef) -> dict[str, str]:
        """Return branch name → commit."""
        return await self._site.hosting.branches(self._site.state.repo(repo).path)

    async def log(self, repo: RepoRef, ref: str, *, since: str | None = None) -> list[Commit]:
        """Return the commits of a branch, ref or SHA, newest first; with `since`, those that it does not have."""
        path = self._site.state.repo(repo).path
        return await self._site.hosting.log(path, ref, *([] if since is None else [f"^{since}"]))

    async def read_file(self, repo: RepoRef, ref: str, path: str) -> bytes:
        """Return a file's bytes at a branch, ref or SHA. Raises GitError where it is not there."""
        return await self._site.hosting.read_file(self._site.state.repo(repo).path, ref, path)

    # ---- Issues and pull requests

    def create_issue(self, repo: RepoRef, title: str, *, body: str = "", author: str | None = None) -> int:
        """Open an issue and return its number."""
        found = self._site.state.repo(repo)
        return self._site.state.add_issue(found, self._who(found, author), title=title, body=body).number

    async def open_pull_request(
        self,
        repo: RepoRef,
        head: str,
        base: str = "main",
        title: str = "A change",
        body: str = "",
        **options: Unpack[PullOptions],
    ) -> int:
        """Open a pull request and return its number. `head` is a branch, or ``owner:branch`` of a fork.

        Raises LookupError where a branch does not exist. Branches that do not differ, or share no history, are let
        through, unlike on GitHub: there a pull request comes to such a state later.
        """
        found = self._site.state.repo(repo)
        author = self._who(found, options.pop("author", None))
        extra = {name: bool(value) for name, value in options.items()}
        proposal = Proposal(head, base, title, body, **extra)
        issue, events = await actions.open_pull(self._site, found, proposal=proposal, author=author)
        await self._tell(events)
        return issue.number

    async def close_pull_request(self, repo: RepoRef, number: int, *, login: str | None = None) -> None:
        """Close a pull request without merging it."""
        await self._change(repo, number, "closed", login=login, state="closed", closed_at=now())

    async def reopen_pull_request(self, repo: RepoRef, number: int, *, login: str | None = None) -> None:
        """Reopen a closed pull request, at what its branches are now.

        Raises ValueError where GitHub offers no reopening: it is merged, or one of its branches is gone.
        """
        found = self._site.state.repo(repo)
        issue, who = self._site.state.issue(found, number), self._who(found, login)
        await self._tell(await actions.reopen_pull(self._site, issue, sender=who))

    async def set_draft(self, repo: RepoRef, number: int, *, draft: bool, login: str | None = None) -> None:
        """Make a pull request a draft, or ready for review."""
        action = "converted_to_draft" if draft else "ready_for_review"
        await self._change(repo, number, action, login=login, draft=draft)

    async def change_base(self, repo: RepoRef, number: int, branch: str, *, login: str | None = None) -> None:
        """Give a pull request another base branch. Raises LookupError where there is none of that name."""
        found = self._site.state.repo(repo)
        sha, old = await self.read_ref(found, branch), self.pull(found, number)
        if sha is None:
            raise LookupError(f"{found.full_name} has no branch {branch}")
        who, issue = self._who(found, login), self._site.state.issue(found, number)
        changed, _ = await actions.change_pull(
            self._site, issue, action="edited", sender=who, base_ref=branch, base_sha=sha
        )
        changes = {"base": {"ref": {"from": old.base_ref}, "sha": {"from": old.base_sha}}}
        await self._tell(await actions.pull_events(self._site, "edited", changed, sender=who, changes=changes))

    async def lock(self, repo: RepoRef, number: int, *, login: str | None = None) -> None:
        """Lock a pull request's conversation."""
        await self._change(repo, number, "locked", login=login, locked=True)

    async def _change(self, repo: RepoRef, number: int, action: str, *, login: str | None, **changes: object) -> None:
        found = self._site.state.repo(repo)
        issue = self._site.state.issue(found, number)
        who = self._who(found, login)
        _, events = await actions.change_pull(self._site, issue, action=action, sender=who, **changes)
        await self._tell(events)

    async def merge_pull_request(self, repo: RepoRef, number: int, *, login: str | None = None) -> str:
        """Merge a pull request by a merge commit, and return that. Raises GitError on a conflict."""
        found = self._site.state.repo(repo)
        pull = self.pull(found, number)
        message = f"Merge pull request #{number} from {found.owner}/{pull.head_ref}"
        merged = await self._site.hosting.merge(found.path, pull.base_sha, pull.head_sha, message)
        await self.move_branch(found, pull.base_ref, merged, login=login)
        return merged

    def issue(self, repo: RepoRef, number: int) -> Issue:
        """Return an issue or pull request as it is now. Raises LookupError."""
        return self._site.state.issue(self._site.state.repo(repo), number)

    def pull(self, repo: RepoRef, number: int) -> Pull:
        """Return what a pull request has besides its conversation, as it is now. Raises LookupError."""
        issue = self.issue(repo, number)
        if issue.pull is None:
            raise LookupError(f"#{number} is no pull request")
        return issue.pull

    # ---- Comments and checks

    async def comment(self, repo: RepoRef, number: int, body: str, login: str | None = None) -> int:
        """Write a comment and return its id."""
        found = self._site.state.repo(repo)
        issue = self._site.state.issue(found, number)
        who = self._who(found, login)
        comment, events = actions.write_comment(self._site, issue, body=body, author=who)
        await self._tell(events)
        return comment.id

    async def edit_comment(self, comment_id: int, body: str, *, login: str | None = None) -> None:
        """Give a comment another body; None: its author does."""
        comment = self._site.state.comments[comment_id]
        who = self._site.state.user(comment.login if login is None else login)
        _, events = actions.edit_comment(self._site, comment, body=body, sender=who)
        await self._tell(events)

    async def delete_comment(self, comment_id: int, *, login: str | None = None) -> None:
        """Delete a comment; None: its author does."""
        comment = self._site.state.comments[comment_id]
        who = self._site.state.user(comment.login if login is None else login)
        await self._tell(actions.delete_comment(self._site, comment, sender=who))

    def comments(self, repo: RepoRef, number: int) -> list[Comment]:
        """Return a conversation's comments, oldest first."""
        return self._site.state.comments_of(self._site.state.repo(repo), number)

    def reactions(self, comment_id: int) -> list[Reaction]:
        """Return a comment's reactions, oldest first."""
        return self._site.state.reactions_to(comment_id)

    def check_runs(self, repo: RepoRef, sha: str | None = None) -> list[CheckRun]:
        """Return the check runs of a repository, or of one commit of it, oldest first."""
        return self._site.state.checks_of(self._site.state.repo(repo), sha)


def _commit_stream(
    branch: str, files: Mapping[str, bytes | str | None], *, message: str, who: User, parent: str | None
) -> bytes:
    """Return a stream for ``git fast-import`` that makes one commit, marked ``:1``."""
    person = f"{who.login} <{who.id}+{who.login}@users.noreply.github.com> {int(time.time())} +0000"
    lines = [f"commit refs/heads/{branch}".encode(), b"mark :1", f"committer {person}".encode(), _data(message)]
    if parent is not None:
        lines.append(f"from {parent}".encode())
    for path, content in files.items():
        name = '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        if content is None:
            lines.append(_raw(f"D {name}"))
        else:
            lines += [_raw(f"M 100644 inline {name}"), _data(content)]
    return b"\n".join(lines) + b"\n\n"


def _raw(text: str) -> bytes:
    """Return the bytes of a text, in which a byte that is not UTF-8 stands as Python reads it from a file system."""
    return text.encode("utf-8", "surrogateescape")


def _data(content: bytes | str) -> bytes:
    raw = _raw(content) if isinstance(content, str) else content
    return f"data {len(raw)}\n".encode() + raw
