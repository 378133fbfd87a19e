"""Commits, packs and pushes, by plumbing.

Owns how an admitted tree becomes a commit, how a round's objects are kept with the run, and how they reach the server.
A commit is the same bytes whoever makes it: names and times come in. Pushes are plain: one full ref name, never forced.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypedDict, Unpack

from worker.git import (
    GitFailed,
    GitUnavailable,
    PushRefused,
    Remote,
    TooLarge,
    full_ref,
    git,
    plain,
    program,
    sha,
    succeeded,
    unavailable,
)
from worker.git.mirror import Mirror
from worker.process import Finished, run

__all__ = ["GitUnavailable", "Identity", "PushRefused", "TooLarge", "commit", "pack", "push", "unpack"]

PACK_BYTES = 8 * 1024 * 1024
"""Bytes of a round's objects that are kept with the run, at most (decisions.md 2.7)."""
NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class Identity:
    """Author and committer of a commit."""

    name: str
    email: str


class Said(TypedDict):
    """What a commit says besides its tree and parent."""

    message: str
    identity: Identity
    when: datetime
    """With a time zone; whole seconds count."""


async def commit(mirror: Mirror, tree: str, parent: str, **said: Unpack[Said]) -> str:
    """Make a commit and return its id: the same for the same arguments. Raises ValueError where `when` has no zone."""
    when, identity = said["when"], said["identity"]
    if when.tzinfo is None:
        raise ValueError("a commit's time needs a time zone")
    name = _one_line(identity.name) or "codex-debate"
    signature = (("NAME", name), ("EMAIL", _one_line(identity.email)), ("DATE", f"{int(when.timestamp())} +0000"))
    env = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in signature}
    text = said["message"].replace("\0", "").encode("utf-8", "replace")
    out = await git(mirror.path, "commit-tree", sha(tree), "-p", sha(parent), "-F", "-", stdin=text, env=env)
    return out.decode().strip()


async def pack(mirror: Mirror, new: str, old: str) -> bytes:
    """Return the objects of `new` that `old` has not, as a pack that stands alone. Both: commits or trees.

    Raises TooLarge above 8 MiB.
    """
    asked = f"{sha(new)}\n^{sha(old)}\n".encode()
    spec = program(mirror.path, "pack-objects", "--revs", "--stdout", "-q", "--no-reuse-delta", stdin=asked)
    finished = await run(replace(spec, output_cap=PACK_BYTES))
    if finished.cut:
        raise TooLarge(f"The round's changes are larger than {PACK_BYTES >> 20} MiB")
    return succeeded(("pack-objects",), finished)


async def unpack(mirror: Mirror, raw: bytes) -> None:
    """Take the objects of a pack that `pack` made into the mirror; those that it has already stay."""
    await git(mirror.path, "unpack-objects", "-q", stdin=raw)


async def push(mirror: Mirror, remote: Remote, commit_sha: str, *, ref: str) -> None:
    """Push one commit to one full branch name, fast-forward only. Where it is there already, nothing is done.

    Raises PushRefused with the server's reason, GitUnavailable where the server cannot be reached.
    """
    if not full_ref(ref).startswith("refs/heads/"):
        raise ValueError(f"only branches are pushed, not {ref!r:.80}")
    remote = replace(remote, also=(*remote.also, *mirror.also))
    argv = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--no-verify", "--end-of-options")
    finished = await run(program(mirror.path, *argv, "origin", f"{sha(commit_sha)}:{ref}", remote=remote))
    if finished.code == 0:
        return
    error = _push_error(finished)
    # An answer that got lost may have been asked for twice by the transport: what counts is what stands there.
    if isinstance(error, PushRefused) and await remote_sha(remote, ref) == commit_sha:
        return
    raise error


async def remote_sha(remote: Remote, ref: str) -> str | None:
    """Return the commit that a full ref name stands for on the server, or None. Raises GitUnavailable."""
    with tempfile.TemporaryDirectory() as nowhere:
        try:
            out = await git(Path(nowhere), "ls-remote", "--quiet", "origin", full_ref(ref), remote=remote)
        except GitFailed as failure:
            raise unavailable("ls-remote", failure.words, code=failure.code) from failure
    # A pattern also matches the end of other names: refs/heads/x matches refs/heads/refs/heads/x.
    lines = [line.partition("\t") for line in out.decode("utf-8", "replace").splitlines()]
    return next((found for found, _, name in lines if name == ref), None)


MOVED = "somebody else has moved the branch"
"""Why a push is refused that would not go forward."""
_NOT_FORWARD = "[rejected]"
"""Git's own word before ``(fetch first)`` and ``(non-fast-forward)``; a server's is ``[remote rejected]`` (git's
transport.c, seen in 2.39)."""
# A refused ref in `git push --porcelain`: flag, names, and the summary with its reason.
_REFUSED = re.compile(r"^!\t[^\t]*\t(.*)$", re.MULTILINE)


def _push_error(finished: Finished) -> PushRefused | GitUnavailable:
    told = [
        plain(line.removeprefix(b"remote:"))
        for line in finished.stderr.splitlines()
        if line.startswith(b"remote:") and plain(line.removeprefix(b"remote:"))
    ]
    refused = _REFUSED.search(finished.stdout.decode("utf-8", "replace"))
    if refused is not None and refused[1].startswith(_NOT_FORWARD):
        return PushRefused(MOVED)
    if refused is not None:
        return PushRefused("; ".join([*told, plain(refused[1].encode())]))
    words = plain(finished.stderr)
    if "returned error: 403" in words and not any("rate limit" in each.lower() for each in told):
        return PushRefused("; ".join(told) or "the server does not let this App write here (403)")
    if finished.timed_out:
        words = f"it took longer than {finished.seconds:.0f} s"
    return unavailable("push", words, code=finished.code)


def _one_line(text: str) -> str:
    """Return a name that cannot break a commit's header: git would drop the same characters, or refuse it."""
    return re.sub(r"[\x00-\x1f\x7f<>]+", " ", text).encode("utf-8", "replace").decode().strip(" .,:;\"'\\")[:NAME_CHARS]
