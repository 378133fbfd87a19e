"""The connection to the store: one gate for every command, its errors in our words, and the names of keys.

It is what the other modules of this room stand on. It never knows what a key means.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis names it so, and it is no OSError
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - the same
)

Word: TypeAlias = str | bytes | int | float
"""What may stand in a command."""

PREFIX = "codex-debate:1"
"""Stands before every key. The number is the version of what is stored: a new shape gets a new one."""
PATIENCE = 5.0
"""Seconds for which a command is tried again. GitHub waits 10 s for the receiver's answer (github.md A1)."""
PAUSE = 0.1
"""Seconds between two tries of a command."""
NOT_NOW = ("MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY")
"""First words of a server's refusals that speak of its own state and not of the command. redis-py takes some of them
off and raises a class instead (redis/_parsers/base.py)."""


class StoreAway(Exception):  # noqa: N818 - it names a state of the world
    """The store does not answer, or takes no writes at present. Whether the last write was done is not known."""


class StoreRefused(Exception):  # noqa: N818 - the store is refused by us
    """The store answers but cannot be used. ``str(error)`` is one sentence for the operator, with the repair."""


class LostFence(Exception):  # noqa: N818 - the design's own word
    """A later attempt at the run has begun: this one has nothing to say any more, and nothing was written."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, which the store runs as one atomic step."""

    source: str
    sha: str

    @classmethod
    def of(cls, source: str) -> Self:
        """Return a script with the digest by which the store knows it."""
        return cls(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def key(*parts: object) -> str:
    """Return the name of a key."""
    return ":".join((PREFIX, *map(str, parts)))


def pool(url: str) -> ConnectionPool:
    """Return a pool of connections that wait for a store that is away (github.md D2); who calls gives it a limit.

    No `socket_timeout`: redis-py 5 would send through `asyncio.wait_for`, which in Python 3.11 loses a cancellation
    that comes as the sending ends (python/cpython#86296), and a job that was told to stop would go on.
    """
    made: ConnectionPool = ConnectionPool.from_url(
        url,
        retry=Retry(ConstantBackoff(PAUSE), -1),
        retry_on_error=[ConnectionError, TimeoutError, BusyLoadingError, OSError],
        socket_connect_timeout=2.0,
        socket_timeout=None,
        **({} if urlsplit(url).scheme == "unix" else {"socket_keepalive": True}),
    )
    return made


class Gate:
    """The way to the store. Every command goes through `do` or `run`, and fails as `StoreAway` where the store does."""

    def __init__(self, url: str, *, keep_seconds: int) -> None:
        """Open nothing yet. `keep_seconds` is how long a record is kept after it was last written."""
        self.url = url
        self.keep_ms = keep_seconds * 1000
        self._pool = pool(url)
        self._redis: Redis = Redis(connection_pool=self._pool)

    async def do(self, *words: Word) -> Any:  # noqa: ANN401 - the store's answers have no types; callers give them one
        """Return the store's answer to a command. Raises `StoreAway`."""
        with translated():
            async with asyncio.timeout(PATIENCE):
                return await self._redis.execute_command(*words)  # type: ignore[no-untyped-call]

    async def table(self, name: str) -> dict[str, bytes]:
        """Return the fields of a hash; there are none where there is no such key. Raises StoreAway."""
        flat: list[bytes] | dict[bytes, bytes] = await self.do("HGETALL", name)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {field.decode(): value for field, value in pairs}

    async def run(self, script: Script, keys: Sequence[str], *words: Word) -> Any:  # noqa: ANN401 - as above
        """Return what a script answers. Raises `StoreAway`."""
        try:
            return await self.do("EVALSHA", script.sha, len(keys), *keys, *words)
        except NoScriptError:
            return await self.do("EVAL", script.source, len(keys), *keys, *words)

    async def check(self) -> None:
        """Raise `StoreRefused` where the store would lose records or lets us not in, `StoreAway` where it is away."""
        await self._check_password()
        try:
            with translated():
                async with asyncio.timeout(PATIENCE):
                    memory: dict[str, Any] = await self._redis.info("memory")
        except ResponseError as error:
            raise StoreRefused(
                f"The store at {place(self.url)} refuses the command INFO ({error}). Allow it for the user in "
                "`REDIS_URL`"
            ) from error
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise StoreRefused(
                f"The store at {place(self.url)} drops keys when its memory is full (maxmemory-policy {policy}), and "
                "with them the record of a debate. Set `maxmemory-policy noeviction` there, or leave `REDIS_URL` unset"
            )

    async def _check_password(self) -> None:
        # Once, without the pool's patience: to redis-py a wrong password is an error of the connection like any other.
        redis = Redis.from_url(self.url, socket_connect_timeout=PATIENCE, socket_timeout=PATIENCE)
        try:
            await redis.ping()
        except (RedisError, OSError) as error:
            if isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError):
                raise StoreRefused(
                    f"The store at {place(self.url)} does not accept the user or password in `REDIS_URL`. Correct them"
                ) from error
            # Anything else is met again by the next command, which is patient.
        finally:
            await redis.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose()
        await self._pool.disconnect()


@contextmanager
def translated() -> Iterator[None]:
    """Raise `StoreAway` in the place of what redis-py raises when the store is away."""
    try:
        yield
    except (ConnectionError, TimeoutError, OSError) as error:  # the built-in TimeoutError is an OSError
        raise StoreAway(f"The store does not answer: {error or type(error).__name__}") from error
    except NoScriptError:
        raise
    except ResponseError as error:
        if isinstance(error, OutOfMemoryError | ReadOnlyError | MasterDownError) or str(error).startswith(NOT_NOW):
            raise StoreAway(f"The store takes no writes at present: {error}") from error
        raise


def place(url: str) -> str:
    """Return where a store is, without its password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


__all__ = [
    "Gate",
    "LostFence",
    "Script",
    "StoreAway",
    "StoreRefused",
    "key",
    "place",
    "pool",
    "translated",
]
