"""What can go wrong at GitHub, in types that callers tell apart."""

from __future__ import annotations

from bot.redact import redact, visible

MESSAGE_CHARS = 300
"""Characters of GitHub's words that are passed on."""


class GitHubError(Exception):
    """GitHub did not do what it was asked. ``status`` is HTTP's, 0 where there was no answer."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        self.message = redact(visible(message))[:MESSAGE_CHARS]
        super().__init__(f"GitHub answered {status}: {self.message}" if status else self.message)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the call may work, where that is known."""


class NotFound(GitHubError):  # noqa: N818 - the contract's word
    """It is not there, or this credential may not see it (404, 410)."""


class Forbidden(GitHubError):  # noqa: N818 - the same
    """This credential may not do that (403)."""


class Unavailable(GitHubError):  # noqa: N818 - the same
    """GitHub is away, too slow, or asks to wait (5xx, network, rate limits): the same call may work later.

    Whether a write was done is not known: look before it is done again.
    """
