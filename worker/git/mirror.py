"""Mirrors: one bare repository for each repository, with full history, from which every run reads.

Owns fetching, the refs of runs, and merge bases. Refs belong to one run (`refs/run/<id>/…`) and are never shared, so
that fetches side by side do not meet. A mirror stores no address and no credential: both come with each fetch, so that
no other command can reach the network. Blobs over 20 MB are not fetched; they are missing, and said to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from worker.git import (
    NETWORK_SECONDS,
    TOLERATED,
    GitFailed,
    GitRefused,
    GitUnavailable,
    NoMergeBase,
    RefMissing,
    Remote,
    Settings,
    full_ref,
    git,
    is_sha,
    sha,
    unavailable,
)

__all__ = ["GitRefused", "GitUnavailable", "Mirror", "Mirrors", "NoMergeBase", "RefMissing"]

BLOB_LIMIT = "20m"
TOO_LARGE = "larger than 20 MB"
"""Why a blob is missing, in the words of the coverage line."""

# Not stored in the mirror: with these lines a fetch knows that blobs may be missing, and without them no command that
# reads tries to fetch one (git before 2.44 does not know GIT_NO_LAZY_FETCH).
_PARTIAL = (("remote.origin.promisor", "true"), ("remote.origin.partialCloneFilter", f"blob:limit={BLOB_LIMIT}"))

HAVE = 16
"""Tips of former runs that are kept, so that the next fetch brings only what is new."""
PACKS = 40
"""Packs from which on a mirror is repacked: each fetch leaves one."""

_ATTRIBUTES = b"* !text !eol !crlf !filter !ident !working-tree-encoding !export-subst !export-ignore !merge\n"
_LOCK_POLL = 0.02


class Mirror:
    """A bare repository of our own. Its methods may run side by side, in this process and in others."""

    def __init__(self, path: Path, *, also: tuple[str, ...] = ()) -> None:
        """`also` names transports besides https and http on this machine (see `Remote`)."""
        self.path = path
        self.also = also

    async def fetch(self, url: str, refs: Mapping[str, str], token: str | None = None) -> None:
        """Fetch into refs of a run: `refs` maps each local ref to the remote's full ref name, or to a commit's id.

        Raises RefMissing, GitRefused (the objects break git's rules), GitUnavailable, ValueError on a bad name.
        """
        specs = [f"+{_source(theirs)}:{_run_ref(ours)}" for ours, theirs in refs.items()]
        remote = Remote(url, token, self.also)
        async with self._locked(exclusive=not self._filled()):
            self._unlock_refs(refs)
            try:
                await self._fetch(remote, specs, _PARTIAL)
            except GitFailed as failure:
                if not _only_tolerated(failure):
                    raise _fetch_error(failure) from failure
                # git before 2.44 forgets what is tolerated when it filters: such an old history comes whole.
                try:
                    await self._fetch(remote, specs, ())
                except GitFailed as second:
                    raise _fetch_error(second) from second

    async def _fetch(self, remote: Remote, specs: list[str], settings: Settings) -> None:
        await git(
            self.path,
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
            *("--no-recurse-submodules", "--no-show-forced-updates", "--end-of-options", "origin", *specs),
            remote=remote,
            settings=settings,
        )

    async def resolve(self, name: str) -> str:
        """Return the commit that a full ref name or an object id stands for. Raises RefMissing."""
        return await self._peel(name, "commit")

    async def tree(self, name: str) -> str:
        """Return the tree of a commit (or a tree itself), by full ref name or object id. Raises RefMissing."""
        return await self._peel(name, "tree")

    async def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor of two commits. Raises NoMergeBase with git's words."""
        try:
            out = await git(self.path, "merge-base", "--end-of-options", sha(one), sha(other))
        except GitFailed as failure:
            if failure.code == 1:
                raise NoMergeBase(f"{one[:10]}...{other[:10]}: no merge base") from failure
            raise
        return out.decode().split()[0]

    async def drop_refs(self, run: str) -> None:
        """Remove a run's refs. The newest tips are remembered (`refs/have/…`), so that later fetches stay small."""
        listed = await self._refs(_run_ref(f"refs/run/{run}/x")[:-1])
        lines = [f"update refs/have/{tip} {tip}\n" for tip in {tip for _, tip in listed}]
        lines += [f"delete {ref}\n" for ref, _ in listed]
        await git(self.path, "update-ref", "--stdin", stdin="".join(lines).encode())
        old = (await self._refs("refs/have/", "--sort=-committerdate"))[HAVE:]
        if old:
            # Two runs that end together may drop the same one: the second finds it gone, which is what it wanted.
            with contextlib.suppress(GitFailed):
                await git(self.path, "update-ref", "--stdin", stdin=b"".join(f"delete {r}\n".encode() for r, _ in old))

    async def runs(self) -> frozenset[str]:
        """Return the ids of the runs that have refs here."""
        return frozenset(ref.split("/")[2] for ref, _ in await self._refs("refs/run/"))

    async def tidy(self) -> bool:
        """Repack where fetches have left many packs and nobody is fetching; tell whether it was done."""
        packs = [entry for entry in (self.path / "objects" / "pack").iterdir() if entry.suffix == ".pack"]
        if len(packs) < PACKS:
            return False
        with contextlib.suppress(BlockingIOError):
            async with self._locked(exclusive=True, wait=False):
                # Unreachable objects stay: a run's commits may hang on no ref yet.
                await git(self.path, "repack", "-a", "-d", "-k", "-q", settings=_PARTIAL)
                for left in (self.path / "objects" / "pack").glob("tmp_*"):  # of fetches that were killed
                    left.unlink(missing_ok=True)
                return True
        return False

    async def _peel(self, name: str, kind: str) -> str:
        asked = name if is_sha(name) else full_ref(name)
        out = await git(self.path, "cat-file", "--batch-check", stdin=f"{asked}^{{{kind}}}\n".encode())
        oid, _, rest = out.decode("utf-8", "replace").partition(" ")
        if not rest.startswith(kind):
            raise RefMissing(name)
        return oid

    async def _refs(self, under: str, *options: str) -> list[tuple[str, str]]:
        out = await git(self.path, "for-each-ref", "--format=%(refname) %(objectname)", *options, under)
        return [(ref, tip) for ref, _, tip in (line.partition(" ") for line in out.decode().splitlines())]

    def _unlock_refs(self, refs: Iterable[str]) -> None:
        """Remove locks that a lost machine left on a run's refs: no fetch lives this long."""
        for ref in refs:
            left = self.path / f"{ref}.lock"
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > NETWORK_SECONDS:
                    left.unlink()

    def _filled(self) -> bool:
        """Tell whether there was a fetch: the first one is the only one that others should wait for."""
        return any((self.path / "objects" / "pack").glob("*.pack"))

    @contextlib.asynccontextmanager
    async def _locked(self, *, exclusive: bool, wait: bool = True) -> AsyncIterator[None]:
        async with lock(self.path.with_suffix(".lock"), exclusive=exclusive, wait=wait):
            yield


class Mirrors:
    """All mirrors of a worker, below one folder."""

    def __init__(self, root: Path, *, also: tuple[str, ...] = ()) -> None:
        """`also`: see `Mirror`."""
        self.root = root
        self.also = also

    async def of(self, repository_id: int) -> Mirror:
        """Return a repository's mirror; an empty one is made where there is none."""
        path = self.root / f"{int(repository_id)}.git"
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One that is there is only held, so that it is not dropped before it is known to be of use.
        async with lock(path.with_suffix(".lock"), exclusive=not path.exists()):
            if not path.exists():
                await _create(path)
            os.utime(path)  # those that were used least recently go first
        return Mirror(path, also=self.also)

    def known(self) -> tuple[Mirror, ...]:
        """Return the mirrors that are there."""
        return tuple(Mirror(path, also=self.also) for path in sorted(self.root.glob("*.git")))

    async def drop(self, path: Path, *, since: float) -> bool:
        """Remove a mirror that no fetch and no run uses, nor was asked for `since` a time; tell whether it was done."""
        with contextlib.suppress(BlockingIOError):
            async with lock(path.with_suffix(".lock"), exclusive=True, wait=False):
                mirror = Mirror(path, also=self.also)
                if mirror.path.stat().st_mtime > since or await mirror.runs():
                    return False
                await asyncio.to_thread(shutil.rmtree, path)
                return True
        return False


async def _create(path: Path) -> None:
    """Make an empty mirror under its lock: what is in the making beside it was left by a process that died."""
    for left in path.parent.glob(f"{path.stem}.new-*"):
        await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
    made = path.with_suffix(f".new-{os.getpid()}")
    await git(None, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--", str(made))
    (made / "info").mkdir(exist_ok=True)
    (made / "info" / "attributes").write_bytes(_ATTRIBUTES)
    made.rename(path)


@contextlib.asynccontextmanager
async def lock(path: Path, *, exclusive: bool, wait: bool = True) -> AsyncIterator[None]:
    """Hold a lock of a file, shared or not, against all processes of this machine.

    Raises BlockingIOError where it is taken and `wait` is False.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait:
                    raise
                await asyncio.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(handle)


def _source(name: str) -> str:
    return name if is_sha(name) else full_ref(name)


def _run_ref(name: str) -> str:
    if not name.startswith("refs/run/"):
        raise ValueError(f"a run fetches into its own refs only, not into {name!r:.80}")
    return full_ref(name)


_FSCK = re.compile(r"error:? (?:in )?(tree|blob|commit|tag|object) ([0-9a-f]{40}): (\w+): ([^;]*)")
_MISSING = re.compile(r"couldn't find remote ref (\S+)|not our ref ([0-9a-f]{40})")


def _only_tolerated(failure: GitFailed) -> bool:
    """Tell whether a fetch failed for a fault that is a warning only."""
    found = _FSCK.search(failure.words)
    return found is not None and found[3] in TOLERATED


def _fetch_error(failure: GitFailed) -> Exception:
    """Return what a failed fetch means. The texts are git's own (fetch.c, fsck.c, upload-pack.c; seen in 2.39)."""
    words = failure.words
    if found := _MISSING.search(words):
        return RefMissing(found[1] or found[2])
    if "mismatched algorithms" in words:
        return GitRefused("the repository", "its object ids are SHA-256, which this version cannot read")
    if found := _FSCK.search(words):
        return GitRefused(f"object {found[2][:10]}", f"{found[4].strip()} ({found[3]})")
    if "fsck error" in words or "exceeded maximum allowed tree depth" in words:
        return GitRefused("the pull request's objects", words)
    return unavailable("fetch", words, code=failure.code)
