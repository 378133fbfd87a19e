"""A small GitHub on this machine: REST, webhooks and git over HTTP, for `try`, for development and for tests.

It answers in GitHub's shapes and refuses what GitHub refuses. It stands in for GitHub towards the product, so it shares
no code with the product's own GitHub client and git rooms. `StandIn` is its whole public face.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import jwt

from deploy.standin import payloads
from deploy.standin.auth import EVENTS, JWT_SECONDS, PERMISSIONS, Tokens, new_app
from deploy.standin.hosting import Commit, GitError, Hosting
from deploy.standin.record import Exchange, Fault, FaultOptions, Record, RefUpdate, Request
from deploy.standin.server import API_ROOT, HOST, Server, listen
from deploy.standin.shapes import Shapes, Urls
from deploy.standin.site import Site
from deploy.standin.state import (
    FULL_NAME,
    CheckRun,
    Comment,
    Issue,
    Protection,
    Pull,
    Reaction,
    Repo,
    RepoRef,
    State,
    User,
)
from deploy.standin.webhooks import HOOK_ID, Attempt, Delivery, Webhooks
from deploy.standin.world import World

__all__ = [
    "Attempt",
    "CheckRun",
    "Comment",
    "Commit",
    "Delivery",
    "Exchange",
    "Fault",
    "GitError",
    "Issue",
    "Pull",
    "Reaction",
    "RefUpdate",
    "Repo",
    "Request",
    "StandIn",
    "User",
]

APP_SLUG = "codex-debate"
APP_OWNER = "octo-org"
"""Who owns the App unless a test says otherwise."""


class RepositoryOptions(TypedDict, total=False):
    """What else a repository may be: `private` (no), and without the App (`installed`: yes)."""

    private: bool
    installed: bool


class StandIn(World):
    """A GitHub of one's own: ``standin = await StandIn.start(root, webhook_url=…)``; several may run in one process.

    Where it is: `url`, `api_url` (for GITHUB_API_URL), `server_url` (for GITHUB_SERVER_URL and git), `clone_url(repo)`.

    The App: `app_id` (a string), `client_id`, `app_slug`, `app_private_key` (PEM), `webhook_secret`, `bot` (its
    account). `permissions` (a dict: what is granted to tokens issued from now on), `events` (a set: what is delivered),
    `webhook_url`, `token_seconds`, `stateless_tokens`, `git_takes_stateless` and `git_keeps_connections` may be changed
    at any time.
    `expire_tokens()` ends all tokens; `jwt()` and `token(repo, …)` make credentials for a test's own calls.

    The world: `create_user`, `rename_user`, `create_repository`, `fork`, `add_branches`, `set_permission`,
    `protect_branch`, `create_issue`. A repository's owner is made with it and is its admin; others are strangers until
    they are given a role: `read` on a public repository, `none` on a private one. The rug: `install`, `uninstall`,
    `suspend`, `unsuspend`, `rename_repository`, `transfer_repository`, `archive_repository`, `delete_repository`,
    `make_public`, `delete_check_run`.

    What people do; each delivers its webhooks before it returns: `open_pull_request`, `close_pull_request`,
    `reopen_pull_request`, `merge_pull_request`, `set_draft`, `change_base`, `lock`, `comment`, `edit_comment`,
    `delete_comment`, `commit`, `move_branch`, `update_branch`, `delete_branch`, `create_tag`. `login` is who does it;
    None: the repository's owner.

    What came of it: `comments`, `check_runs`, `reactions`, `issue`, `pull`, `read_ref`, `branches`, `log`, `read_file`;
    `journal` and `requests(method, prefix)` (every request, with its body, the token's permissions, the answer, and
    what a push moved), `deliveries` (every webhook with its answers); `observers` are called with each finished request
    of the API.

    Trouble: `fail_next(method, path_prefix, …)`, `clear_faults`, `redeliver`, `deliver` (any payload). What the API and
    git cause is delivered after their answer: `await settle()` waits for it.

    It belongs to the event loop that started it. Repositories are given as a `Repo` or by full name.
    """

    def __init__(self, site: Site, server: Server) -> None:
        super().__init__(site)
        self._server = server
        self.api_url = site.urls.api
        self.server_url = self.url = site.urls.server
        self.app_id = str(site.app.id)
        self.client_id = site.app.client_id
        self.app_slug = site.app.slug
        self.app_private_key = site.app.private_key
        self.webhook_secret = site.app.webhook_secret
        self.bot = site.app.bot
        self.permissions = site.grants
        self.events = site.webhooks.events
        self.journal = site.record.journal
        self.deliveries = site.webhooks.deliveries
        self.observers = site.record.observers

    @classmethod
    async def start(
        cls, root: Path, *, webhook_url: str | None = None, port: int = 0, app_owner: str = APP_OWNER
    ) -> StandIn:
        """Start a GitHub whose repositories are below `root`. Without `webhook_url` deliveries are kept, not sent."""
        bound = listen(port)
        server_url = f"http://{HOST}:{bound.getsockname()[1]}"
        urls = Urls(api=f"{server_url}{API_ROOT}", server=server_url)
        state = State()
        owner = state.add_user(app_owner)
        app = new_app(APP_SLUG, owner=owner, bot=state.add_user(f"{APP_SLUG}[bot]", "Bot"))
        grants, events = dict(PERMISSIONS), set(EVENTS)
        site = Site(
            app=app,
            urls=urls,
            state=state,
            shapes=Shapes(state, app, urls, grants, events),
            hosting=Hosting(root),
            tokens=Tokens(app),
            webhooks=Webhooks(app, webhook_url, events, state.suspended),
            record=Record(),
            grants=grants,
        )
        site.hosting.prepare()
        server = Server(site)
        await server.start(bound)
        return cls(site, server)

    async def stop(self) -> None:
        """Stop. Requests under way are given half a second, deliveries under way are given up."""
        await self._server.stop()
        await self._site.webhooks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- The App

    @property
    def webhook_url(self) -> str | None:
        """Where webhooks go."""
        return self._site.webhooks.url

    @webhook_url.setter
    def webhook_url(self, url: str | None) -> None:
        self._site.webhooks.url = url

    @property
    def token_seconds(self) -> float:
        """How long a token lives that is issued from now on."""
        return self._site.tokens.seconds

    @token_seconds.setter
    def token_seconds(self, seconds: float) -> None:
        self._site.tokens.seconds = seconds

    @property
    def stateless_tokens(self) -> bool:
        """Whether tokens are issued in the long form, unless the other is asked for: GitHub rolls it out by degrees."""
        return self._site.tokens.stateless

    @stateless_tokens.setter
    def stateless_tokens(self, issued: bool) -> None:
        self._site.tokens.stateless = issued

    @property
    def git_takes_stateless(self) -> bool:
        """Whether git takes the long form. Where not it answers 404, as was reported (github.md A5)."""
        return self._site.tokens.git_takes_stateless

    @git_takes_stateless.setter
    def git_takes_stateless(self, taken: bool) -> None:
        self._site.tokens.git_takes_stateless = taken

    @property
    def git_keeps_connections(self) -> bool:
        """Whether git's connections serve more than one request; then git itself sends again what is dropped.

        They do not at first: what `fail_next` drops is lost.
        """
        return self._site.record.git_keeps_connections

    @git_keeps_connections.setter
    def git_keeps_connections(self, kept: bool) -> None:
        self._site.record.git_keeps_connections = kept

    def expire_tokens(self) -> None:
        """End all installation tokens, as if their hour were over."""
        self._site.tokens.revoke_all()

    def jwt(self) -> str:
        """Return a JWT of the App."""
        moment = int(time.time())
        claims = {"iat": moment - 60, "exp": moment + JWT_SECONDS - 60, "iss": self.app_id}
        return jwt.encode(claims, self.app_private_key, algorithm="RS256")

    def token(self, repo: RepoRef, permissions: Mapping[str, str] | None = None) -> str:
        """Return an installation token for one repository with these permissions; None: all that are granted."""
        found = self._site.state.repo(repo)
        granted = dict(self.permissions if permissions is None else permissions)
        issued = self._site.tokens.issue(
            self.installation_id(found), frozenset({found.id}), permissions={"metadata": "read"} | granted
        )
        return issued.value

    def installation_id(self, repo: RepoRef) -> int:
        """Return the id of the installation that a repository belongs to. Raises LookupError where there is none."""
        found = self._site.state.repo(repo)
        if found.installation_id is None:
            raise LookupError(f"the App is not installed on {found.full_name}")
        return found.installation_id

    # ---- Accounts and repositories

    def create_user(self, login: str, kind: str = "User") -> User:
        """Create a ``User``, an ``Organization`` or a ``Bot``. Raises ValueError where the login is taken."""
        return self._site.state.add_user(login, kind)

    def rename_user(self, login: str, new: str) -> User:
        """Give an account another login; the old one is free for anybody then."""
        return self._site.state.rename_user(self._site.state.user(login), new)

    def set_permission(self, repo: RepoRef, login: str, level: str) -> None:
        """Give a person a role: admin, maintain, write, triage, read or none."""
        state = self._site.state
        state.set_role(state.repo(repo), state.user(login), level)

    async def create_repository(
        self,
        full_name: str,
        source: Path | None = None,
        *,
        default_branch: str | None = None,
        source_refs: Mapping[str, str] | None = None,
        **options: Unpack[RepositoryOptions],
    ) -> Repo:
        """Create a repository with the branches of `source`, a git repository that is only read; empty without one.

        `source_refs` maps refs or commits of `source` to the branches that are made of them; None: all branches as they
        are. `default_branch` is ``main`` unless it is given. The owner's account is made where it does not exist.
        """
        state = self._site.state
        taken = state.find_repo(full_name)
        # A name that a repository had before is free: whoever takes it ends the redirects.
        if not FULL_NAME.fullmatch(full_name) or (taken and taken.full_name.lower() == full_name.lower()):
            raise ValueError(f"{full_name} is taken, or no name of a repository")
        login = full_name.partition("/")[0]
        owner = state.find_user(login) or state.add_user(login)
        number = state.next_id()
        repo = Repo(
            id=number,
            full_name=full_name,
            path=self._site.hosting.repositories / f"{number}.git",
            owner_id=owner.id,
            default_branch=default_branch or "main",
            private=options.get("private", False),
            installation_id=self._installation(owner) if options.get("installed", True) else None,
        )
        await self._site.hosting.create(repo.path, repo.default_branch)
        if source is not None:
            await self._site.hosting.copy(repo.path, source, None if source_refs is None else dict(source_refs))
        return state.put_repo(repo)

    async def fork(self, repo: RepoRef, login: str) -> Repo:
        """Fork a repository to a person's account. The App is not installed there."""
        parent = self._site.state.repo(repo)
        made = await self.create_repository(
            f"{login}/{parent.name}",
            parent.path,
            default_branch=parent.default_branch,
            private=parent.private,
            installed=False,
        )
        return self._site.state.put_repo(replace(made, parent_id=parent.id))

    def protect_branch(self, repo: RepoRef, pattern: str, reason: str | None = None) -> None:
        """Refuse pushes over HTTP to the branches that a shell pattern fits."""
        protection = Protection(pattern) if reason is None else Protection(pattern, reason)
        protections = self._site.state.protections
        number = self._site.state.repo(repo).id
        protections[number] = (*protections.get(number, ()), protection)

    def clone_url(self, repo: RepoRef) -> str:
        """Return the address for git; the user is ``x-access-token``, the password a token."""
        return f"{self.server_url}/{self._site.state.repo(repo).full_name}.git"

    # ---- Webhooks, faults, journal

    async def ping(self) -> Delivery | None:
        """Greet the webhook, as GitHub does when it is set up."""
        event, payload = payloads.ping(self._site.shapes, HOOK_ID, self.webhook_url, sorted(self.events))
        return await self._site.webhooks.deliver(event, payload)

    async def deliver(self, event: str, payload: dict[str, Any]) -> Delivery | None:
        """Sign and deliver any payload."""
        return await self._site.webhooks.deliver(event, payload)

    async def redeliver(self, guid: str) -> Delivery:
        """Send a delivery once more, under the same id, as a person or GitHub's API can ask for."""
        return await self._site.webhooks.redeliver(guid)

    async def settle(self) -> None:
        """Return when no delivery is under way any more."""
        await self._site.webhooks.settle()

    def fail_next(self, method: str, path_prefix: str, **how: Unpack[FaultOptions]) -> None:
        """Let the next requests fail whose method (``*``: any) and path fit; paths are those of the `journal`.

        How they fail, and how many, say the options; each is described in `FaultOptions`. Faults are taken in the order
        in which they were given.
        """
        self._site.record.faults.append(Fault(method, path_prefix, **how))

    def clear_faults(self) -> None:
        """Take back the faults that no request has met yet."""
        self._site.record.faults.clear()

    def requests(self, method: str = "*", path_prefix: str = "") -> list[Request]:
        """Return the requests of the journal that fit, oldest first."""
        return [each for each in self.journal if method in ("*", each.method) and each.path.startswith(path_prefix)]
