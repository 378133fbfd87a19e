"""The bare repositories of the stand-in, and every git command that it runs on them.

git is called directly and not through `worker/git/`, so that the stand-in can contradict what is tested with it. One
configuration file of its own holds how a hosted repository behaves; the user's and the system's are never read. A
repository that is copied from is only read.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deploy.standin import diffs
from deploy.standin.diffs import ChangedFile
from worker.process import MIB, Program, run

GIT_SECONDS = 600.0
OUTPUT_CAP = 64 * MIB
SHA = re.compile(r"[0-9a-f]{40}")
LOOSE = re.compile(r"refs/[A-Za-z0-9_./-]+")
"""Names of refs that are a file's name on every file system."""
ZEROS = "0" * 40
"""What git says in a push where there is no commit: before a ref is made, after it is deleted."""

CONFIG = """\
[safe]
\tdirectory = *
[core]
\thooksPath = {hooks}
\tquotePath = false
\tfsync = none
[gc]
\tauto = 0
[fastimport]
\tunpackLimit = 1
[http]
\treceivepack = true
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
[receive]
\tautogc = false
\thideRefs = refs/pull
\tprocReceiveRefs = refs/heads
\tprocReceiveRefs = refs/tags
[user]
\tname = GitHub
\temail = noreply@github.com
"""
"""How a hosted repository behaves. `receive.hideRefs` hides refs/pull from pushes and not from fetches; nothing here
has to outlive a loss of power."""
REPOSITORY = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
"""A repository's own configuration."""

JUDGE_HOOK = r"""#!/bin/sh
# git asks what may become of a push's refs, now that its objects are here. The stand-in has read the refs from the
# request, so it needs to hear only that it is time; its answer is packets for git, and lines with ! for people.
# What git writes to this hook is not read: somebody must hold the pipe, or a git that is slower than us gets EPIPE.
exec 9<&0
sleep 60 <&9 >/dev/null 2>&1 &
printf '000eversion=1\n0000'
echo >"/dev/fd/$STANDIN_ASK"
while IFS= read -r line; do
    case $line in
    '!'*) printf '%s\n' "${line#!}" >&2 ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"/dev/fd/$STANDIN_ANSWER"
printf 0000
"""
"""The `proc-receive` hook. It is quick: whoever measures the product waits for it. Its sleeper ends with it."""

REPORT_HOOK = r"""#!/bin/sh
# Which refs have really moved.
while IFS= read -r line; do printf '%s\n' "$line"; done >"$STANDIN_REPORT"
"""
"""The `post-receive` hook."""


class GitError(Exception):
    """A git command ended badly; its own words are the message."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, as `log` tells it."""

    sha: str
    subject: str
    body: str
    """The message below the subject, trailers included."""
    author: str
    """``Name <address>``."""
    committer: str
    authored_at: datetime
    parents: tuple[str, ...]
    tree: str
    files: tuple[str, ...]
    """Paths that it changed against its first parent; none for a merge."""

    @property
    def message(self) -> str:
        """The whole message."""
        return f"{self.subject}\n\n{self.body}".strip()


@dataclass(frozen=True, slots=True)
class Distance:
    """How two commits lie to each other. `merge_base` is None where their histories are unrelated."""

    merge_base: str | None
    ahead: int
    behind: int
    files: tuple[ChangedFile, ...]


class Hosting:
    """The repositories below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.repositories = self.root / "repositories"
        self._config = self.root / "gitconfig"
        git = shutil.which("git")
        self._path = os.defpath if git is None else f"{Path(git).parent}{os.pathsep}{os.defpath}"
        # What was found out about commits, which do not change or go.
        self._distances: dict[tuple[Path, str, str], Distance] = {}
        self._logs: dict[tuple[Path, tuple[str, ...], int | None], list[Commit]] = {}
        self._commits: set[tuple[Path, str]] = set()

    def prepare(self) -> None:
        """Write the folders, the configuration and the hooks."""
        hooks = self.root / "hooks"
        for folder in (self.repositories, hooks, self.root / "reports"):
            folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(CONFIG.format(hooks=_quoted(str(hooks))))
        for name, text in (("proc-receive", JUDGE_HOOK), ("post-receive", REPORT_HOOK)):
            (hooks / name).write_text(text)
            (hooks / name).chmod(0o755)

    def env(self) -> dict[str, str]:
        """Return the whole environment of a git program."""
        return {
            "PATH": self._path,
            "HOME": str(self.root),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            # Not by GIT_CONFIG_COUNT: git drops that for the upload-pack that it starts in another repository, and
            # `safe.directory` has to hold there too.
            "GIT_CONFIG_GLOBAL": str(self._config),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }

    async def git(self, path: Path, *args: str, stdin: bytes = b"") -> bytes:
        """Run a git command in a repository and return its output. Raises GitError."""
        done = await run(
            Program(
                argv=("git", *args),
                cwd=path,
                env=self.env(),
                stdin=stdin,
                seconds=GIT_SECONDS,
                output_cap=OUTPUT_CAP,
            )
        )
        if done.code != 0:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise GitError(words or f"git {args[0]} ended with {done.code}")
        return done.stdout

    async def line(self, path: Path, *args: str) -> str | None:
        """Run a git command that answers one line; None where it has no answer."""
        try:
            return (await self.git(path, *args)).decode().strip() or None
        except GitError:
            return None

    # ---- Repositories and refs

    async def create(self, path: Path, default_branch: str) -> None:
        """Make an empty bare repository, as `git init` would (gitrepository-layout(5)), and much sooner."""
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (path / folder).mkdir(parents=True)
        (path / "HEAD").write_text(f"ref: refs/heads/{default_branch}\n")
        (path / "config").write_text(REPOSITORY)

    async def copy(self, path: Path, source: Path, refs: dict[str, str] | None) -> None:
        """Fetch from a repository, which is only read: `refs` maps its refs or commits to branch names here; None: all.

        `source` may be a work tree, a folder in one, or a bare repository, of any owner.
        """
        git_dir = (await self.git(source, "rev-parse", "--absolute-git-dir")).decode().removesuffix("\n")
        specs = ["+refs/heads/*:refs/heads/*"]
        if refs is not None:
            wanted = [(await self._commit_of(source, ref), branch) for ref, branch in refs.items()]
            specs = [f"+{sha}:refs/heads/{branch}" for sha, branch in wanted]
        if specs:
            # A shallow source stays shallow here: without --update-shallow its refs would be passed over in silence.
            options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--update-shallow")
            await self.git(path, "fetch", *options, git_dir, *specs)

    async def _commit_of(self, source: Path, ref: str) -> str:
        found = await self.git(source, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return found.decode().strip()

    async def ref(self, path: Path, ref: str) -> str | None:
        """Return what a full ref name points at."""
        if (sha := _loose(path, ref)) is not None:
            return sha or None
        return await self.line(path, "show-ref", "--verify", "--hash", ref)

    async def branches(self, path: Path) -> dict[str, str]:
        """Return branch name → commit."""
        listing = await self.git(path, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads")
        pairs = (line.split(" ", 1) for line in listing.decode().splitlines())
        return {name: sha for sha, name in pairs}

    async def commit(self, path: Path, name: str) -> str | None:
        """Return the commit that a branch, a ref without ``refs/``, a tag or a SHA names, branches first."""
        if "\n" in name:
            return None
        if sha := _loose(path, f"refs/heads/{name}"):
            return sha
        if (path, name) in self._commits:
            return name
        names = [f"refs/heads/{name}", f"refs/{name}", f"refs/tags/{name}"]
        names += [name] if re.fullmatch(r"[0-9a-f]{7,40}", name) else []
        asked = "".join(f"{each}^{{commit}}\n" for each in names)
        told = await self.git(path, "cat-file", "--batch-check", stdin=asked.encode())
        found = (re.fullmatch(rb"([0-9a-f]{40}) commit \d+", line) for line in told.split(b"\n"))
        sha = next((each[1].decode() for each in found if each), None)
        if sha == name:
            self._commits.add((path, sha))
        return sha

    async def move(self, path: Path, ref: str, new: str | None) -> None:
        """Point a ref at a commit; None deletes it."""
        if new is None:
            await self.git(path, "update-ref", "-d", ref)
        else:
            await self.git(path, "update-ref", ref, new)

    async def borrow(self, path: Path, other: Path, sha: str) -> None:
        """Bring a commit of another hosted repository here, as a pull request from a fork does."""
        if path != other:
            await self.git(path, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(other), sha)

    # ---- Contents

    async def read_file(self, path: Path, commit: str, name: str) -> bytes:
        """Return a file's bytes. Raises GitError where the commit has no such file."""
        return await self.git(path, "cat-file", "blob", f"{commit}:{name}")

    async def log(self, path: Path, *revisions: str, most: int | None = None) -> list[Commit]:
        """Return commits with what they changed, newest first."""
        lasting = all(SHA.fullmatch(each.removeprefix("^")) for each in revisions)
        if lasting and (known := self._logs.get((path, revisions, most))) is not None:
            return [*known]
        limit = [] if most is None else [f"--max-count={most}"]
        form = "--format=%x01%H%x02%s%x02%b%x02%an <%ae>%x02%cn <%ce>%x02%at%x02%P%x02%T%x02"
        out = await self.git(
            path, "log", "-z", "--name-only", "--no-renames", *limit, form, "--end-of-options", *revisions
        )
        found = [_commit(entry.split("\x02")) for entry in out.decode("utf-8", "replace").split("\x01")[1:]]
        if lasting:
            self._logs[path, revisions, most] = [*found]
        return found

    async def write_commit(self, path: Path, branch: str, stream: bytes) -> str:
        """Run a fast-import stream that makes one commit marked ``:1`` on a branch; return the commit."""
        out = await self.git(path, "fast-import", "--quiet", stdin=stream + b"get-mark :1\n")
        if not (sha := out.decode().strip()):
            raise GitError(f"no commit was made on {branch}")
        return sha

    async def merge(self, path: Path, base: str, head: str, message: str, *, tree: str | None = None) -> str:
        """Return a merge commit of two commits, with another tree if one is given. Raises GitError on a conflict."""
        if tree is None:
            tree = (await self.git(path, "merge-tree", "--write-tree", base, head)).decode().splitlines()[0]
        made = await self.git(path, "commit-tree", tree, "-p", base, "-p", head, "-m", message)
        return made.decode().strip()

    async def with_files(self, path: Path, commit: str, files: Mapping[str, str]) -> str:
        """Return a tree with other files in it: that of `commit`, which may be a tree itself; "" is the empty one."""
        listed = (await self.git(path, "ls-tree", "-z", commit) if commit else b"").split(b"\0")[:-1]
        rows = {os.fsdecode(row.partition(b"\t")[2]): row for row in listed}
        folders: dict[str, dict[str, str]] = {}
        for name, text in files.items():
            folder, inside, rest = name.partition("/")
            if inside:
                folders.setdefault(folder, {})[rest] = text
                continue
            blob = await self.git(path, "hash-object", "-w", "--stdin", stdin=text.encode())
            rows[name] = b"100644 blob %b\t%b" % (blob.strip(), os.fsencode(name))
        for folder, below in folders.items():
            kind, sha = rows[folder].split()[1:3] if folder in rows else (b"", b"")
            tree = await self.with_files(path, sha.decode() if kind == b"tree" else "", below)
            rows[folder] = b"040000 tree %b\t%b" % (tree.encode(), os.fsencode(folder))
        made = await self.git(path, "mktree", "-z", stdin=b"".join(row + b"\0" for row in rows.values()))
        return made.decode().strip()

    async def workflow_files(self, path: Path, new: str) -> list[str]:
        """Return the workflow files that commits reachable from `new`, and from no branch yet, change."""
        out = await self.git(
            path, "log", "-z", "-m", "--format=", "--name-only", "--no-renames",
            new, "--not", "--branches", "--", ".github/workflows/",
        )  # fmt: skip
        return [name for name in out.decode("utf-8", "replace").split("\0") if name]

    async def distance(self, path: Path, base: str, head: str) -> Distance:
        """Return how `head` lies to `base`, and what it changes since their merge base."""
        key = (path, base, head)
        if key not in self._distances:
            merge_base, counts = await asyncio.gather(
                self.line(path, "merge-base", base, head),
                self.git(path, "rev-list", "--left-right", "--count", f"{base}...{head}"),
            )
            behind, ahead = counts.decode().split()
            since = merge_base or base
            raw, patch = await asyncio.gather(
                self.git(path, "diff", "--raw", "--numstat", "-z", "-M", "--abbrev=40", since, head),
                self._patch(path, since, head),
            )
            files = diffs.changed_files(raw, patch)
            self._distances[key] = Distance(merge_base, int(ahead), int(behind), files)
        return self._distances[key]

    async def _patch(self, path: Path, base: str, head: str) -> bytes:
        try:
            return await self.git(path, "diff", "-M", "--no-ext-diff", "--no-textconv", base, head)
        except GitError:
            # More than OUTPUT_CAP. GitHub shows no hunks of a change that is too large either.
            return b""


def _loose(path: Path, ref: str) -> str | None:
    """Return what a ref points at that lies in a file of its own, "" where there is none; None: git has to be asked.

    A git for each of the many questions would be most of what a stand-in costs.
    """
    if not LOOSE.fullmatch(ref) or ".." in ref:
        return None
    try:
        text = (path / ref).read_text("ascii").strip()
    except FileNotFoundError:
        return None if (path / "packed-refs").exists() else ""
    except (OSError, UnicodeDecodeError):
        return None
    return text if SHA.fullmatch(text) else None


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _commit(fields: list[str]) -> Commit:
    sha, subject, body, author, committer, seconds, parents, tree, files = fields
    return Commit(
        sha=sha,
        subject=subject,
        body=body.strip("\n"),
        author=author,
        committer=committer,
        authored_at=datetime.fromtimestamp(int(seconds), UTC),
        parents=tuple(parents.split()),
        tree=tree,
        files=tuple(name for name in files.replace("\0\n", "\0").split("\0") if name.strip("\n")),
    )
