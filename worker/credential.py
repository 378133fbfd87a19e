"""git's credential for a run: a token for its one repository, and another one where the server does not take it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.github import AppClient
from bot.store.runs import Run
from worker.checkout import Source
from worker.git import GitUnknown

T = TypeVar("T")


async def with_credential(
    app: AppClient, run: Run, *, server_url: str, write: bool, use: Callable[[Source], Awaitable[T]]
) -> T:
    """Call `use` with a run's repository and a token for it, and return what it returns.

    Where the server does not take the token or shows it no such repository, `use` is called once more with another: a
    token may be revoked at any time, and git was reported to answer 404 to the form of 2026 (github.md A5). Raises what
    `use` raises, `bot.github.NotInstalled` and `bot.github.Unavailable`.
    """
    name = run.repository.full_name
    token = await app.git_token(run.installation_id, run.repository.id, write=write)
    try:
        return await use(Source(server_url, name, token))
    except GitUnknown:
        token = await app.git_token(run.installation_id, run.repository.id, write=write, refused=token)
        return await use(Source(server_url, name, token))
