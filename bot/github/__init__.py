"""The only room that speaks to GitHub."""

from __future__ import annotations

from bot.github.app import REPLY_PERMISSIONS, AppClient, AppIdentity, NotInstalled
from bot.github.client import Clock, Forbidden, GitHub, GitHubError, NotFound, Unavailable, open_session

__all__ = [
    "REPLY_PERMISSIONS",
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
