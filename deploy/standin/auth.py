"""Who asks: the App by its JWT, an installation by its token.

This module owns the App's identity and the tokens that live. It decides whether a credential is good and what it
covers, never what a call needs.
"""

from __future__ import annotations

import functools
import itertools
import secrets
import string
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from deploy.standin.answers import Refused, bad_credentials, invalid_request
from deploy.standin.state import Repo, User

KEY_BITS = 2048
JWT_SECONDS = 600
"""An App's JWT may expire at most ten minutes ahead.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
"""
CLOCK_SKEW = 60
"""Seconds that clocks may differ: GitHub advises to set `iat` that far back."""
TOKEN_SECONDS = 3600
CLASSIC_CHARS = 40
"""Characters of a token in the form of before 2026."""
LEVELS = {"read": 1, "write": 2, "admin": 3}

PERMISSIONS = {"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "write"}
"""What the App is granted unless a test says otherwise. Not `workflows`: the product does not ask for it."""

EVENTS = frozenset({"issue_comment", "pull_request", "push", "check_run"})
"""What the App hears of unless a test says otherwise."""

_APP_IDS = itertools.count(700_001)
"""Each stand-in of a process is an App of its own, so that none takes the other's JWT."""


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    # One for the whole process: making it takes longer than all the rest of a start.
    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)


@dataclass(frozen=True, slots=True)
class App:
    """The GitHub App: who it is and what only it and GitHub know."""

    id: int
    client_id: str
    slug: str
    name: str
    owner: User
    bot: User
    private_key: str
    webhook_secret: str
    created_at: datetime


def new_app(slug: str, *, owner: User, bot: User) -> App:
    """Register an App."""
    pem = _key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    number = next(_APP_IDS)
    return App(
        id=number,
        client_id=f"Iv23{number:016d}",
        slug=slug,
        name=slug,
        owner=owner,
        bot=bot,
        private_key=pem.decode(),
        webhook_secret=secrets.token_hex(32),
        created_at=datetime.now(UTC).replace(microsecond=0),
    )


def check_jwt(app: App, token: str) -> None:
    """Return where `token` is a good JWT of the App. Raises the 401 that it earns."""
    try:
        options: Any = {"require": ["exp", "iat", "iss"], "verify_iat": False, "verify_iss": False}
        claims = jwt.decode(token, _key().public_key(), algorithms=["RS256"], options=options, leeway=0)
    except jwt.ExpiredSignatureError:
        raise bad_credentials(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the "
            "assertion expires"
        ) from None
    except jwt.MissingRequiredClaimError as error:
        raise bad_credentials(f"Missing '{error.claim}' claim in assertion") from None
    except jwt.PyJWTError:
        raise bad_credentials("A JSON web token could not be decoded") from None
    present = time.time()
    if claims["exp"] > present + JWT_SECONDS:
        raise bad_credentials("'Expiration time' claim ('exp') is too far in the future")
    if not isinstance(claims["iat"], int | float) or claims["iat"] > present + CLOCK_SKEW:
        raise bad_credentials(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        )
    if claims["iss"] not in (str(app.id), app.client_id):
        raise bad_credentials("Integration not found: the 'iss' claim names another App")


@dataclass(frozen=True, slots=True)
class Token:
    """An installation token that was issued."""

    value: str
    installation_id: int
    repo_ids: frozenset[int] | None
    """None: all repositories of the installation."""
    permissions: dict[str, str]
    expires_at: float
    """Seconds since the epoch."""

    def covers(self, repo: Repo) -> bool:
        """Tell whether the token reaches a repository at all."""
        ours = repo.installation_id == self.installation_id
        return ours and (self.repo_ids is None or repo.id in self.repo_ids)

    def allows(self, permission: str, level: str) -> bool:
        """Tell whether the token holds a permission at a level or above it."""
        return LEVELS.get(self.permissions.get(permission, ""), 0) >= LEVELS[level]


class Tokens:
    """The installation tokens of one App."""

    def __init__(self, app: App) -> None:
        self.seconds: float = TOKEN_SECONDS
        """How long a token lives that is issued from now on."""
        self.stateless = True
        """Tokens have the long form unless the other is asked for."""
        self.git_takes_stateless = True
        self._app = app
        self._tokens: dict[str, Token] = {}

    def issue(
        self,
        installation_id: int,
        repo_ids: frozenset[int] | None,
        *,
        permissions: dict[str, str],
        classic: bool = False,
    ) -> Token:
        """Issue a token. `classic` asks for the short form of before 2026."""
        token = Token(
            value=_classic() if classic or not self.stateless else _stateless(self._app.id),
            installation_id=installation_id,
            repo_ids=repo_ids,
            permissions=permissions,
            expires_at=time.time() + self.seconds,
        )
        self._tokens[token.value] = token
        return token

    def find(self, value: str) -> Token:
        """Return a token that lives. Raises a 401."""
        token = self._tokens.get(value)
        if token is None or token.expires_at <= time.time():
            raise bad_credentials()
        return token

    def find_for_git(self, value: str) -> Token | None:
        """Return a token that git takes; None where it is one that git does not know. Raises a 401."""
        token = self.find(value)
        return token if self.git_takes_stateless or len(value) == CLASSIC_CHARS else None

    def revoke(self, token: Token) -> None:
        """End a token."""
        self._tokens.pop(token.value, None)

    def revoke_installation(self, number: int) -> None:
        """End all tokens of an installation."""
        self._tokens = {value: token for value, token in self._tokens.items() if token.installation_id != number}

    def revoke_all(self) -> None:
        """End all tokens, as if their hour were over."""
        self._tokens.clear()


def narrowed(granted: dict[str, str], wanted: dict[str, Any] | None) -> dict[str, str]:
    """Return the permissions of a token: what was granted, or the part of it that is wanted. Raises a 422 for more."""
    if wanted is None:
        return {"metadata": "read"} | granted
    for name, level in wanted.items():
        if not isinstance(level, str) or level not in LEVELS:
            raise invalid_request(
                f'For \'properties/permissions/{name}\', {level} is not a member of ["read", "write"].'
            )
        if LEVELS[level] > LEVELS.get(granted.get(name, "read" if name == "metadata" else ""), 0):
            raise Refused(422, "The permissions requested are not granted to this installation.")
    return {"metadata": "read"} | wanted


def _stateless(app_id: int) -> str:
    """Return the long form: ``ghs_<app>_`` and a JWT; its length and inside are nobody's business but GitHub's."""
    header, claims, signature = (secrets.token_urlsafe(count) for count in (27, 190, 160))
    return f"ghs_{app_id}_-{header}.{claims}.{signature}"


def _classic() -> str:
    return "ghs_" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(CLASSIC_CHARS - 4))
