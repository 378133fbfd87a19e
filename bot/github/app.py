"""The App's credentials: its JWT, and installation tokens scoped to one repository and to what is done with them.

It owns who we are to GitHub, and by whose clock that is proven. Tokens live in memory only; they are never logged,
stored or handed to a program's arguments from here. Nothing here looks into one: they are opaque, and of any length.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import quote

import aiohttp
import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, ConfigDict, SecretStr

from bot.github.client import Credential, GitHub, GitHubError, Unavailable, understood
from bot.github.limits import WRITES, Clock, Pacer, Traffic, Writes
from bot.settings import Settings
from bot.telemetry import log

JWT_BACKDATED = 60
"""Seconds that a JWT is issued in the past, against clocks that differ."""
JWT_SECONDS = 540
"""Seconds from now until a JWT ends. GitHub takes at most 600 (docs.github.com, "Generating a JSON web token")."""
JWT_KEPT = 240
"""Seconds for which one JWT is used."""
TOKEN_MARGIN = 300
"""Seconds before a token's end from which another one is made (it lives for an hour)."""
REVOKE_SECONDS = 3.0
"""Limit for ending the tokens of a process that ends."""
SKEW_SECONDS = 30
"""Seconds by which GitHub's clock may differ from ours before that counts as the reason why a JWT was refused. Whole
seconds and the way of an answer make a few; the least that GitHub refuses is `JWT_BACKDATED`."""
CLASSIC = {"X-GitHub-Stateless-S2S-Token": "disabled"}
"""Asks for a token of the form of before 2026 (docs.github.com, "Create an installation access token for an app").
git over HTTPS was reported to answer 404 to the new form where it is scoped to one repository (github.md A5)."""

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
LOOK_PERMISSIONS: Mapping[str, str] = {"checks": "read", "metadata": "read", "pull_requests": "read"}
"""What it takes to see which check runs of ours are open."""
FETCH_PERMISSIONS: Mapping[str, str] = {"contents": "read", "metadata": "read"}
PUSH_PERMISSIONS: Mapping[str, str] = {"contents": "write", "metadata": "read"}


Why = Literal["absent", "suspended", "ungranted"]


class NotInstalled(GitHubError):  # noqa: N818 - it says what is the case
    """The App cannot act on this repository: it is not installed there, suspended, or was not granted what it needs."""

    def __init__(self, status: int, message: str, *, why: Why = "absent") -> None:
        super().__init__(status, message)
        self.why = why

    @property
    def repair(self) -> str:
        """What an operator can do about it, in a sentence."""
        return _REPAIRS[self.why]


class AppUnknown(GitHubError):  # noqa: N818 - the same
    """GitHub does not take the App's own credential (401), or it could not be made (0)."""

    repair = (
        "Check that GITHUB_APP_ID and the private key belong to the same App, that the key still stands on the App's "
        "settings page, and that GITHUB_API_URL is where the App is registered."
    )
    """What an operator can do about it, in a sentence."""


_REPAIRS: Mapping[Why, str] = {
    "absent": "Install the App on this repository, on its page under Settings, GitHub Apps.",
    "suspended": "An owner of the account can unsuspend the App under Settings, GitHub Apps, Configure.",
    "ungranted": "Compare the App's permissions with app.yml; an owner of the account has to accept new ones under "
    "Settings, GitHub Apps, Configure.",
}


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
    """Who we are: the App, and its bot account."""

    id: int
    slug: str
    bot_id: int
    """The bot account's user id: another number than the App's."""
    bot_login: str


@dataclass(frozen=True, slots=True)
class _Scope:
    installation: int
    repository: int | None
    permissions: tuple[tuple[str, str], ...]


class AppClient:
    """The App at GitHub: makes clients and tokens for installations. One per process."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        *,
        clock: Clock | None = None,
        pacer: Pacer | None = None,
        writes: Writes = WRITES,
    ) -> None:
        """`pacer` gives out the turns to write (`bot.store.Pace`); without one writes are not paced.

        `writes` says how many of an installation's, those of other processes too, leave room for one of this process.
        """
        self._settings = settings
        self._session = session
        self._clock = clock or Clock()
        self._traffic = Traffic(self._clock, pacer, writes)
        self._ahead = 0.0
        self._jwt: tuple[str, float] | None = None
        self._tokens: dict[_Scope, _Token] = {}
        self._locks: defaultdict[_Scope, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._classic: set[_Scope] = set()
        self._app: _App | None = None
        self._identity: AppIdentity | None = None
        self.own = self._with(self._app_jwt, None)
        """A client with the App's own credential, for the calls of own.py."""

    def installation(
        self, installation_id: int, repository_id: int, permissions: Mapping[str, str] = API_PERMISSIONS
    ) -> GitHub:
        """Return a client for one repository of an installation. No call is made until it is used.

        Its calls raise `NotInstalled` where the App has no such repository.
        """
        scope = _Scope(installation_id, repository_id, tuple(sorted(permissions.items())))
        return self._client(scope)

    def everywhere(self, installation_id: int) -> GitHub:
        """Return a client that can read the names of an installation's repositories, and nothing in them."""
        return self._client(_Scope(installation_id, None, (("metadata", "read"),)))

    async def git_token(
        self, installation_id: int, repository_id: int, write: bool, *, refused: str | None = None
    ) -> str:
        """Return a token for git over HTTPS (user ``x-access-token``) on one repository.

        It lives for at least five more minutes. Give the one that git just `refused` to get another: of the form of
        before 2026, here and from then on.
        """
        permissions = PUSH_PERMISSIONS if write else FETCH_PERMISSIONS
        scope = _Scope(installation_id, repository_id, tuple(sorted(permissions.items())))
        if refused is not None:
            self._classic.add(scope)
        return await self._token(scope, refused)

    async def owner_id(self) -> int:
        """Return the id of the account that owns the App, or 0 where GitHub names none; asked once in a process."""
        app = await self._describe()
        return app.owner.id if app.owner else 0

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
            self._identity = AppIdentity(app.id, app.slug, bot.id, bot.login)
        return self._identity

    async def lacking(self, installation_id: int) -> Why | None:
        """Return why the App has no use of an installation at this moment, or None where it has."""
        try:
            made = await self._mint(_Scope(installation_id, None, (("metadata", "read"),)))
        except NotInstalled as gone:
            return gone.why
        with contextlib.suppress(GitHubError):
            await self._revoke(made)
        return None

    async def revoke_tokens(self) -> None:
        """End all tokens that this process holds, as far as GitHub takes that within `REVOKE_SECONDS`.

        For the process's end (threats.md T30): they would live on for up to an hour.
        """
        held, self._tokens = list(self._tokens.values()), {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REVOKE_SECONDS):
                await asyncio.gather(*map(self._revoke, held), return_exceptions=True)

    async def _revoke(self, token: _Token) -> None:
        async def credential(_refused: str | None) -> str:
            return token.token.get_secret_value()

        # On the App's own lane: it creates no content, and waits for no turn to write.
        await self._with(credential, None).delete("/installation/token")

    async def _describe(self) -> _App:
        if self._app is None:
            with _as_app():
                self._app = understood(_App, await self.own.get("/app"))
        return self._app

    async def _any_installation(self) -> GitHub:
        with _as_app():
            installations = await self.own.pages("/app/installations")
        for installation in installations:
            return self.everywhere(understood(_Installation, installation).id)
        raise NotInstalled(404, "the App is not installed anywhere yet")

    def _client(self, scope: _Scope) -> GitHub:
        async def credential(refused: str | None) -> str:
            return await self._token(scope, refused)

        return self._with(credential, scope.installation)

    def _with(self, credential: Credential, installation: int | None) -> GitHub:
        url, lane = self._settings.github_api_url, self._traffic.lane(installation)
        return GitHub(self._session, url, credential, clock=self._clock, lane=lane)

    async def _token(self, scope: _Scope, refused: str | None) -> str:
        """Return a token of a scope: a kept one, or a new one that all who wait for it share."""
        async with self._locks[scope]:
            kept = self._tokens.get(scope)
            if kept is None or kept.token.get_secret_value() == refused or self._ends_soon(kept):
                kept = self._tokens[scope] = await self._mint(scope)
            return kept.token.get_secret_value()

    def _ends_soon(self, token: _Token) -> bool:
        return token.expires_at.timestamp() - self._now() < TOKEN_MARGIN

    async def _mint(self, scope: _Scope) -> _Token:
        """Make a token that opens one repository for the permissions of the scope and nothing else."""
        body: dict[str, object] = {"permissions": dict(scope.permissions)}
        if scope.repository is not None:
            body["repository_ids"] = [scope.repository]
        path = f"/app/installations/{scope.installation}/access_tokens"
        with _as_app(), _as_installation():
            made = await self.own.post(path, body, headers=CLASSIC if scope in self._classic else None)
        return understood(_Token, made)

    # ---- The App's own credential

    async def _app_jwt(self, refused: str | None) -> str:
        """Return the App's JWT. A refused one is made anew, by GitHub's clock where ours was the fault."""
        if refused is not None:
            self._set_clock()
        now = self._now()
        if self._jwt is None or self._jwt[0] == refused or now >= self._jwt[1]:
            self._jwt = (self._sign(int(now)), now + JWT_KEPT)
        return self._jwt[0]

    def _now(self) -> float:
        """Return the time by GitHub's clock, as far as it is known to differ from ours."""
        return self._clock.now() + self._ahead

    def _set_clock(self) -> None:
        heard = self._traffic.ahead
        if heard is not None and abs(heard - self._ahead) > SKEW_SECONDS:
            log(__name__).warning("clock differs from GitHub's: set this machine's", seconds_ahead=round(-heard))
            self._ahead = heard

    def _sign(self, now: int) -> str:
        claims = {"iat": now - JWT_BACKDATED, "exp": now + JWT_SECONDS, "iss": self._settings.github_app_id}
        pem = self._settings.github_app_private_key.get_secret_value()
        try:
            return jwt.encode(claims, _signing_key(pem), algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError):
            raise AppUnknown(0, "The App's private key cannot be read: take the whole file that GitHub gave") from None


@lru_cache(maxsize=1)
def _signing_key(pem: str) -> Any:  # noqa: ANN401 - whatever kind of key it is: PyJWT refuses all but RSA's
    """Read the App's private key. To check it takes far longer than to sign with it, so that is done once."""
    return load_pem_private_key(pem.encode(), password=None)


@contextmanager
def _as_app() -> Iterator[None]:
    """Say what it means that a call with the App's own credential is refused."""
    try:
        yield
    except GitHubError as error:
        if error.status == 401:
            raise AppUnknown(error.status, error.message) from None
        raise


@contextmanager
def _as_installation() -> Iterator[None]:
    """Say what it means that GitHub gives no token for an installation."""
    try:
        yield
    except Unavailable:
        raise
    except GitHubError as error:
        status, words = error.status, error.message.lower()
        if status == 403 and "suspended" in words:
            raise NotInstalled(status, error.message, why="suspended") from None
        if status == 403 or (status == 422 and "permission" in words):
            raise NotInstalled(status, error.message, why="ungranted") from None
        if status in {404, 410, 422}:
            raise NotInstalled(status, error.message) from None
        raise
