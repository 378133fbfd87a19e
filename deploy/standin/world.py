"""What happens to accounts and repositories while the product works: the half of `StandIn` that pulls the rug away.

Each act is awaited until its webhooks have been answered. Most of them tell the App nothing, as on GitHub: it hears of
installations, and not of repositories that are archived, transferred or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deploy.standin import payloads
from deploy.standin.people import People
from deploy.standin.state import Repo, RepoRef, User


class World(People):
    """Acts of owners and administrators. See `StandIn`."""

    # ---- The App on accounts

    def _installation(self, owner: User) -> int:
        state = self._site.state
        for number, account in state.installations.items():
            if account == owner.id:
                return number
        number = state.next_id()
        state.installations[number] = owner.id
        return number

    async def install(self, owner: str) -> int:
        """Install the App on an account, on all its repositories, and return the installation's id.

        Raises ValueError where it is there already.
        """
        state = self._site.state
        account = state.user(owner)
        if account.id in state.installations.values():
            raise ValueError(f"the App is installed on {owner}")
        number = self._installation(account)
        repos = [repo for repo in state.repos.values() if repo.owner_id == account.id and not repo.deleted]
        for repo in repos:
            state.put_repo(replace(repo, installation_id=number))
        await self._installed("created", number, account)
        return number

    async def uninstall(self, owner: str) -> None:
        """Remove the App from an account: its tokens end, and it is told so."""
        state = self._site.state
        account = state.user(owner)
        number = self._number(account)
        event, payload = self._event("deleted", number, account)
        for repo in self._covered(number):
            state.put_repo(replace(repo, installation_id=None))
        del state.installations[number]
        state.suspended.discard(number)
        self._site.tokens.revoke_installation(number)
        await self._site.webhooks.deliver(event, payload)

    async def suspend(self, owner: str) -> None:
        """Suspend the App on an account: its tokens end, it gets no others, and hears of nothing but this."""
        account = self._site.state.user(owner)
        number = self._number(account)
        self._site.state.suspended.add(number)
        self._site.tokens.revoke_installation(number)
        await self._installed("suspend", number, account)

    async def unsuspend(self, owner: str) -> None:
        """Take a suspension back."""
        account = self._site.state.user(owner)
        number = self._number(account)
        self._site.state.suspended.discard(number)
        await self._installed("unsuspend", number, account)

    def _number(self, account: User) -> int:
        """Return the installation on an account. Raises LookupError."""
        for number, each in self._site.state.installations.items():
            if each == account.id:
                return number
        raise LookupError(f"the App is not installed on {account.login}")

    def _covered(self, number: int) -> list[Repo]:
        return [repo for repo in self._site.state.repos.values() if repo.installation_id == number]

    def _event(self, action: str, number: int, account: User) -> payloads.Event:
        repos = self._covered(number)
        return payloads.installation(self._site.shapes, action, number=number, repos=repos, sender=account)

    async def _installed(self, action: str, number: int, account: User) -> None:
        await self._site.webhooks.deliver(*self._event(action, number, account))

    # ---- Repositories

    def rename_repository(self, repo: RepoRef, full_name: str) -> Repo:
        """Rename a repository. API calls under the old name are redirected, git goes on under both."""
        return self._site.state.put_repo(replace(self._site.state.repo(repo), full_name=full_name))

    def make_public(self, repo: RepoRef) -> Repo:
        """Let everybody read a private repository."""
        return self._site.state.put_repo(replace(self._site.state.repo(repo), private=False))

    def archive_repository(self, repo: RepoRef, *, archived: bool = True) -> Repo:
        """Archive a repository: it can be read, and nothing can be written, by API or git. Or take that back."""
        return self._site.state.put_repo(replace(self._site.state.repo(repo), archived=archived))

    def transfer_repository(self, repo: RepoRef, owner: str) -> Repo:
        """Give a repository to another account. Its old name leads to it.

        It belongs to the installation on that account then, and to none where there is none: `install` makes one.
        """
        found, account = self._site.state.repo(repo), self._site.state.user(owner)
        try:
            number: int | None = self._number(account)
        except LookupError:
            number = None
        moved = replace(found, full_name=f"{account.login}/{found.name}", owner_id=account.id, installation_id=number)
        return self._site.state.put_repo(moved)

    def delete_repository(self, repo: RepoRef) -> None:
        """Delete a repository. Pull requests that come from it stay open, and say no more where they come from."""
        self._site.state.put_repo(replace(self._site.state.repo(repo), deleted=True, installation_id=None))

    def delete_check_run(self, check_run_id: int) -> None:
        """Let a check run be gone, as GitHub's own cleaning does."""
        del self._site.state.check_runs[check_run_id]

    async def update_branch(
        self, repo: RepoRef, number: int, files: Mapping[str, str] | None = None, *, login: str | None = None
    ) -> str:
        """Merge a pull request's base into its branch, as the button of that name does, and return the merge commit.

        With `files` the merge holds them besides: it is no plain one. Raises GitError on a conflict, LookupError where
        the fork is deleted.
        """
        found = self._site.state.repo(repo)
        pull = self.pull(found, number)
        head = self._site.state.repos[pull.head_repo_id]
        if head.deleted:
            raise LookupError(f"{head.full_name} is deleted")
        hosting = self._site.hosting
        base = await hosting.ref(found.path, f"refs/heads/{pull.base_ref}")
        message = f"Merge branch '{pull.base_ref}' into {pull.head_ref}"
        merged = await hosting.merge(found.path, pull.head_sha, base or "", message)
        if files:
            changed = await hosting.with_files(found.path, merged, files)
            merged = await hosting.merge(found.path, pull.head_sha, base or "", message, tree=changed)
        await hosting.borrow(head.path, found.path, merged)
        await self.move_branch(head, pull.head_ref, merged, login=login)
        return merged
