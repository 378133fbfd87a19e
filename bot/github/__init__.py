"""The only room that speaks to GitHub."""

from __future__ import annotations

from bot.github.app import AppClient, AppIdentity, NotInstalled
from bot.github.client import Clock, Forbidden, GitHub, GitHubError, NotFound, Unavailable, open_session

__all__ = [
    "AppClient",
    "AppIdentity",
    "Clock",
    "Forbidden",
    "GitHub",
    "GitHubError",
    "NotFound",
    "NotInstalled",
    "Unavailable",
    "open_session",
]
