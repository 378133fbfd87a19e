"""The only room that speaks to GitHub."""

from __future__ import annotations

from bot.github.app import REPLY_PERMISSIONS, AppClient, AppIdentity, AppUnknown, NotInstalled
from bot.github.client import GitHub
from bot.github.errors import Forbidden, GitHubError, NotFound, Unavailable
from bot.github.limits import WORKERS_WRITES, Clock, Pacer
from bot.github.wire import open_session

__all__ = [
    "REPLY_PERMISSIONS",
    "WORKERS_WRITES",
    "AppClient",
    "AppIdentity",
    "AppUnknown",
    "Clock",
    "Forbidden",
    "GitHub",
    "GitHubError",
    "NotFound",
    "NotInstalled",
    "Pacer",
    "Unavailable",
    "open_session",
]
