"""What `codex-debate try` debates: a user's repository, looked at without touching it, or the sample.

It owns the choice of base and head and the sentence for every repository that cannot be debated. It only reads: git is
told to take no optional lock, so that not even the index is refreshed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from bot.options import is_branch_name
from deploy import sample
from worker.process import Program, run

SECONDS = 120.0
"""Far more than git needs to look at a repository."""
DEFAULT_BASES = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
"""Where a base is sought, in this order (interface.md 1)."""


class NoDebate(Exception):  # noqa: N818 - it says what is the case
    """There is nothing that could be debated. ``str(error)`` says why, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Source:
    """A repository to debate, with the commits that are meant."""

    repo: Path
    name: str
    """What it is called: its folder's name, made fit for GitHub."""
    base: str
    """The base branch's name on the stand-in."""
    base_sha: str
    head: str
    head_sha: str
    title: str
    body: str = ""
    left_out: tuple[str, ...] = ()
    """Uncommitted paths, which are not debated."""
    is_sample: bool = False


async def sample_source(folder: Path) -> Source:
    """Build the sample repository in a folder and return it."""
    made = await sample.build(folder)
    return Source(
        repo=made.repo,
        name="ferrytimes",
        base=made.base,
        base_sha=await _commit(made.repo, f"refs/heads/{made.base}"),
        head=made.head,
        head_sha=await _commit(made.repo, f"refs/heads/{made.head}"),
        title=made.title,
        body=made.body,
        is_sample=True,
    )


async def look(path: Path, *, base: str | None = None, head: str | None = None) -> Source:
    """Return what a user's repository offers: its committed branch against its base. Raises `NoDebate`."""
    repo = await _top(path)
    shown = _shown(path)
    await _fit(repo, shown)
    head_ref = head or await _current(repo)
    head_sha = await _try_commit(repo, head_ref)
    if head_sha is None:
        if head is None:
            raise NoDebate(f"{shown} has no commit yet.\nCommit something on a branch, then try again")
        raise NoDebate(
            f"{shown} has no branch or commit {head!r}.\nGive another: codex-debate try --repo {shown} --head REF"
        )
    base_ref = base or await _default_base(repo, shown)
    base_sha = await _try_commit(repo, base_ref)
    if base_sha is None:
        raise NoDebate(
            f"{shown} has no branch or commit {base_ref!r}.\nGive another: codex-debate try --repo {shown} --base REF"
        )
    if base_sha == head_sha:
        raise NoDebate(
            f"nothing to debate in {shown}: {_short(head_ref)} and its base {_short(base_ref)} are the same commit.\n"
            f"Check out a branch that is ahead, or give --base or --head"
        )
    if await _merge_base(repo, base_sha, head_sha) == head_sha:
        raise NoDebate(
            f"nothing to debate in {shown}: {_short(head_ref)} holds nothing that its base {_short(base_ref)} lacks.\n"
            f"Check out a branch that is ahead, or give --base or --head"
        )
    base_name = await _branch(repo, base_ref, base_sha)
    if not is_branch_name(base_name):
        base_name = f"commit-{base_sha[:10]}"
    head_name = await _branch(repo, head_ref, head_sha)
    return Source(
        repo=repo,
        name=re.sub(r"[^A-Za-z0-9._-]+", "-", repo.name).strip(".-") or "repository",
        base=base_name,
        base_sha=base_sha,
        head=head_name if head_name != base_name else f"yours/{head_name}",
        head_sha=head_sha,
        title=(await _git(repo, "log", "-1", "--no-show-signature", "--format=%s", head_sha))
        .decode("utf-8", "replace")
        .strip()
        or head_name,
        left_out=() if head else await _uncommitted(repo),
    )


async def keep_branch(kept: Path, served: Path, *, ref: str, branch: str, commits: int) -> None:
    """Copy a branch of the served repository into a small repository of its own, which outlives the machine.

    It holds the debate's commits and the one below them: whoever fetches from it has the rest.
    """
    await _git(served, "init", "--quiet", "--bare", "--template=", str(kept))
    depth, wanted = f"--depth={commits + 1}", f"{ref}:refs/heads/{branch}"
    await _git(kept, "fetch", "--quiet", "--no-write-fetch-head", depth, served.as_uri(), wanted)


async def take_branch(source: Source, kept: Path, branch: str) -> None:
    """Fetch the debate's branch into the user's own repository (`--keep`)."""
    wanted = f"refs/heads/{branch}:refs/heads/{branch}"
    await _git(source.repo, "fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", str(kept), wanted)


# ---- Looking --------------------------------------------------------------------------------------------------------


async def _top(path: Path) -> Path:
    if not await asyncio.to_thread(path.is_dir):
        raise NoDebate(f"there is no folder {_shown(path)}.\nGive a git repository: codex-debate try --repo PATH")
    code, out, words = await _run(path, "rev-parse", "--path-format=absolute", "--show-toplevel")
    if code == 0 and (top := out.decode("utf-8", "surrogateescape").rstrip("\n")):
        return Path(top)
    code, out, _ = await _run(path, "rev-parse", "--path-format=absolute", "--git-dir")
    if code == 0:
        return Path(out.decode("utf-8", "surrogateescape").rstrip("\n"))
    if "dubious ownership" in words:
        place = shlex.quote(str(await asyncio.to_thread(path.resolve)))
        raise NoDebate(
            f"{_shown(path)} belongs to somebody else, and its configuration could run programs as you.\n"
            f"If you trust it: git config --global --add safe.directory {place}"
        )
    cause = "" if "not a git repository" in words else f": {words}"
    raise NoDebate(f"{_shown(path)} is no git repository{cause}.\nGive one: codex-debate try --repo PATH")


async def _fit(repo: Path, shown: str) -> None:
    """Refuse a repository whose kind cannot be debated."""
    if (await _git(repo, "rev-parse", "--is-shallow-repository")).strip() == b"true":
        raise NoDebate(
            f"{shown} is a shallow clone: the commit where the branch began may be missing.\n"
            f"Complete it: git -C {shown} fetch --unshallow"
        )
    if (await _git(repo, "rev-parse", "--show-object-format")).strip() != b"sha1":
        raise NoDebate(
            f"{shown} names its objects by SHA-256, which this version does not read.\nTry another repository"
        )


async def _subject(repo: Path, sha: str) -> str:
    out = await _git(repo, "log", "-1", "--no-show-signature", "--format=%s", sha)
    return out.decode("utf-8", "replace").strip()


async def _merge_base(repo: Path, one: str, other: str) -> str | None:
    code, out, _ = await _run(repo, "merge-base", one, other)
    return out.decode().strip() if code == 0 else None


async def _current(repo: Path) -> str:
    """Return the current branch by its full name, or HEAD where none is checked out."""
    code, out, _ = await _run(repo, "symbolic-ref", "--quiet", "HEAD")
    return out.decode().strip() if code == 0 else "HEAD"


async def _default_base(repo: Path, shown: str) -> str:
    for ref in DEFAULT_BASES:
        if await _try_commit(repo, ref) is not None:
            if ref.endswith("/HEAD"):
                code, out, _ = await _run(repo, "symbolic-ref", "--quiet", ref)
                return out.decode().strip() if code == 0 else ref
            return ref
    raise NoDebate(
        f"no base found in {shown}: it has neither origin/HEAD, main nor master.\n"
        f"Give one: codex-debate try --repo {shown} --base REF"
    )


async def _uncommitted(repo: Path) -> tuple[str, ...]:
    code, out, _ = await _run(repo, "status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all")
    if code != 0:  # a bare repository has no work tree
        return ()
    return tuple(each[3:].decode("utf-8", "backslashreplace") for each in out.split(b"\0") if len(each) > 3)


async def _commit(repo: Path, ref: str) -> str:
    found = await _try_commit(repo, ref)
    if found is None:
        raise NoDebate(f"{repo} has no {ref}")
    return found


async def _try_commit(repo: Path, ref: str) -> str | None:
    code, out, _ = await _run(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    # Older gits print the option itself, too.
    words = out.decode("ascii", "replace").split()
    return words[-1] if code == 0 and words else None


# ---- Git ------------------------------------------------------------------------------------------------------------


async def _git(repo: Path, *arguments: str) -> bytes:
    code, out, words = await _run(repo, *arguments)
    if code != 0:
        raise NoDebate(f"git {arguments[0]} failed in {_shown(repo)}: {words or 'it did not end'}")
    return out


_SETTINGS = (
    # Nothing of the repository's is run; and nothing of the person's own configuration gets in the way of reading.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("safe.bareRepository", "all"),
    ("protocol.file.allow", "always"),
)


def _configured(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the variables that bring settings to git and stand before every file (git-config(1))."""
    pairs = {f"GIT_CONFIG_KEY_{n}": name for n, (name, _) in enumerate(settings)}
    pairs |= {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


async def _run(repo: Path, *arguments: str) -> tuple[int | None, bytes, str]:
    """Run git on a user's repository. It reads: no optional lock, no monitor, nothing fetched that is missing."""
    env = {
        "PATH": os.defpath,
        "HOME": str(Path.home()),
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **_configured(_SETTINGS),
    }
    program = Program((shutil.which("git") or "git", *arguments), cwd=repo, env=env, seconds=SECONDS)
    finished = await run(program)
    return finished.code, finished.stdout, finished.stderr.decode("utf-8", "replace").strip()


async def _branch(repo: Path, ref: str, sha: str) -> str:
    """Return the branch name under which a ref is offered: its own, or the commit's where it is no branch."""
    code, out, _ = await _run(repo, "rev-parse", "--symbolic-full-name", "--end-of-options", ref)
    full = out.decode("utf-8", "replace").split("\n")
    name = next((each for each in full if code == 0 and each.startswith(("refs/heads/", "refs/remotes/"))), ref)
    found = re.fullmatch(r"refs/(?:heads|remotes/[^/]+)/(.+)", name)
    return found[1] if found and found[1] != "HEAD" else f"commit-{sha[:10]}"


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _shown(path: Path) -> str:
    """Return a path as a person writes it."""
    home = Path.home()
    full = path.expanduser().absolute()
    return f"~/{full.relative_to(home)}" if full.is_relative_to(home) and full != home else str(full)
