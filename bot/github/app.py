"""The App's credentials: its JWT, and installation tokens scoped to one repository and to what is done with them.

It owns who we are to GitHub. Tokens live in memory only; they are never logged, stored or handed to a program's
arguments from here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import aiohttp
import jwt
from pydantic import BaseModel, ConfigDict, SecretStr

from bot.github.client import Clock, GitHub, GitHubError, Unavailable, understood
from bot.settings import Settings

JWT_BACKDATED = 60
"""Seconds that a JWT is issued in the past, against clocks that differ."""
JWT_SECONDS = 540
"""Seconds from now until a JWT ends. GitHub takes at most 600 (docs.github.com, "Generating a JSON web token")."""
JWT_KEPT = 240
"""Seconds for which one JWT is used."""
TOKEN_MARGIN = 300
"""Seconds before a token's end from which another one is made (it lives for an hour)."""

API_PERMISSIONS: Mapping[str, str] = {
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What the REST calls of verbs.py need."""
REPLY_PERMISSIONS: Mapping[str, str] = {"issues": "write", "metadata": "read"}
"""What a short reply needs: it can be given where the rest of app.yml is not granted (yet)."""
FETCH_PERMISSIONS: Mapping[str, str] = {"contents": "read", "metadata": "read"}
PUSH_PERMISSIONS: Mapping[str, str] = {"contents": "write", "metadata": "read"}


class NotInstalled(GitHubError):  # noqa: N818 - it says what is the case
    """The App is not, or no longer, installed on this repository, or its installation is suspended."""


class _Token(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    token: SecretStr
    expires_at: datetime


class _Account(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    id: int
    login: str


class _Installation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    id: int


class _App(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    id: int
    slug: str
    owner: _Account | None = None


@dataclass(frozen=True, slots=True)
class AppIdentity:
    """Who we are: the App, its bot account, and the account that owns the App."""

    id: int
    slug: str
    bot_id: int
    """The bot account's user id: another number than the App's."""
    bot_login: str
    owner_id: int
    owner_login: str


@dataclass(frozen=True, slots=True)
class _Scope:
    installation: int
    repository: int | None
    permissions: tuple[tuple[str, str], ...]


class AppClient:
    """The App at GitHub: makes clients and tokens for installations. One per process."""

    def __init__(self, settings: Settings, session: aiohttp.ClientSession, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._session = session
        self._clock = clock or Clock()
        self._jwt: tuple[str, float] | None = None
        self._tokens: dict[_Scope, _Token] = {}
        self._locks: defaultdict[_Scope, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._app: _App | None = None
        self._identity: AppIdentity | None = None
        self._api = GitHub(session, settings.github_api_url, self._app_jwt, clock=self._clock)

    def installation(
        self, installation_id: int, repository_id: int, permissions: Mapping[str, str] = API_PERMISSIONS
    ) -> GitHub:
        """Return a client for one repository of an installation. No call is made until it is used.

        Its calls raise `NotInstalled` where the App has no such repository.
        """
        scope = _Scope(installation_id, repository_id, tuple(sorted(permissions.items())))
        return self._client(scope)

    async def git_token(
        self, installation_id: int, repository_id: int, write: bool, *, refused: str | None = None
    ) -> str:
        """Return a token for git over HTTPS (user ``x-access-token``) on one repository.

        It lives for at least five more minutes. Give the one that was just `refused` to get another.
        """
        permissions = PUSH_PERMISSIONS if write else FETCH_PERMISSIONS
        return await self._token(_Scope(installation_id, repository_id, tuple(sorted(permissions.items()))), refused)

    async def owner(self) -> tuple[int, str]:
        """Return the id and login of the account that owns the App; asked once in a process."""
        app = await self._describe()
        return (app.owner.id, app.owner.login) if app.owner else (0, "")

    async def identity(self, via: GitHub | None = None) -> AppIdentity:
        """Return who we are; asked once in a process.

        The bot account is looked up with an installation's credential, since the App's own opens App endpoints only:
        `via` is a client to use for it, and without one any installation serves.
        """
        if self._identity is None:
            app = await self._describe()
            login = f"{app.slug}[bot]"
            client = via or await self._any_installation()
            bot = understood(_Account, await client.get(f"/users/{quote(login, safe='')}"))
            owner_id, owner_login = await self.owner()
            self._identity = AppIdentity(app.id, app.slug, bot.id, bot.login, owner_id, owner_login)
        return self._identity

    async def _describe(self) -> _App:
        if self._app is None:
            self._app = understood(_App, await self._api.get("/app"))
        return self._app

    async def _any_installation(self) -> GitHub:
        for installation in await self._api.pages("/app/installations"):
            scope = _Scope(understood(_Installation, installation).id, None, (("metadata", "read"),))
            return self._client(scope)
        raise NotInstalled(404, "the App is not installed anywhere yet")

    def _client(self, scope: _Scope) -> GitHub:
        async def credential(refused: str | None) -> str:
            return await self._token(scope, refused)

        return GitHub(self._session, self._settings.github_api_url, credential, clock=self._clock)

    async def _token(self, scope: _Scope, refused: str | None) -> str:
        """Return a token of a scope: a kept one, or a new one that all who wait for it share."""
        async with self._locks[scope]:
            kept = self._tokens.get(scope)
            if kept is None or kept.token.get_secret_value() == refused or self._ends_soon(kept):
                kept = self._tokens[scope] = await self._mint(scope)
            return kept.token.get_secret_value()

    def _ends_soon(self, token: _Token) -> bool:
        return token.expires_at.timestamp() - self._clock.now() < TOKEN_MARGIN

    async def _mint(self, scope: _Scope) -> _Token:
        """Make a token that opens one repository for the permissions of the scope and nothing else."""
        body: dict[str, object] = {"permissions": dict(scope.permissions)}
        if scope.repository is not None:
            body["repository_ids"] = [scope.repository]
        try:
            made = await self._api.post(f"/app/installations/{scope.installation}/access_tokens", body)
        except Unavailable:
            raise
        except GitHubError as error:
            if error.status in {403, 404, 410, 422}:
                raise NotInstalled(error.status, error.message) from None
            raise
        return understood(_Token, made)

    async def _app_jwt(self, refused: str | None) -> str:
        """Return the App's JWT. A refused one is made anew, in case that its time was the fault."""
        now = self._clock.now()
        if self._jwt is None or self._jwt[0] == refused or now >= self._jwt[1]:
            self._jwt = (self._sign(int(now)), now + JWT_KEPT)
        return self._jwt[0]

    def _sign(self, now: int) -> str:
        claims = {"iat": now - JWT_BACKDATED, "exp": now + JWT_SECONDS, "iss": self._settings.github_app_id}
        return jwt.encode(claims, self._settings.github_app_private_key.get_secret_value(), algorithm="RS256")
