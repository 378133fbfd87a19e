"""What of an author's result may enter git.

Owns the door between a folder that a hostile program may have written and the mirror. It is called when that program is
dead. It opens every component without following links, takes regular files with one name only, reads every byte (times
can lie), and keeps what the folder never held as it was. Protected paths are put back and named; any other breach
refuses the whole round, and so does what looks like a secret. It never runs git on the folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bot.redact import quotable
from worker.debate.flow import Refusal
from worker.git import GitFailed, GitRefused
from worker.git.entries import (
    CONTROLS,
    FILE,
    GITLINK,
    LINK,
    OUTSIDE,
    PROGRAM,
    SUBMODULE,
    Plan,
    Row,
    list_rows,
    plan,
    rows_at,
    stream_blobs,
)
from worker.git.leaks import Leak, encodings, find_secrets, present
from worker.git.mirror import Mirror
from worker.git.new_tree import InTheWay, NewFile, write_tree
from worker.git.paths import MAX_DEPTH, MAX_PATH, has_controls, is_generated, is_git, is_protected, join, shown
from worker.git.restore import open_folder, put_back

MAX_CHANGED = 400
"""Files that one round may change: more than the 300 of the largest pull request that is debated by itself
(`max_files:`), so that a fix may touch all of them, and fewer than anybody will look through unasked."""
MAX_CHANGED_BYTES = 20 * 1024 * 1024
MAX_NEW_FOLDERS = 2_000
MAX_OLD_BYTES = 64 * 1024 * 1024
"""Bytes of files before a round, at most, in which its secrets are sought: what stood there already is no news."""
MAX_SOUGHT = 50
"""Values, at most, that are sought there also where they do not look like a secret."""

PROTECTED = "is protected: it was put back"
LINKED = "is a link, which an author cannot change: it was put back"
UNSEEN = "was not given to the author: it was left as it is"


class RoundRefused(Exception):  # noqa: N818 - the word of decisions.md 2.8
    """A round breaks a rule of admission, and nothing of it is taken. ``str(error)`` is one sentence for people."""

    def __init__(self, reason: str) -> None:
        """`reason` is a sentence without a full stop."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AdmitRules:
    """What holds besides the built-in rules."""

    protect: tuple[str, ...] = ()
    """Globs of paths that the author may not change (`protect:`)."""
    base: str | None = None
    """The `base` that the folder was materialised with."""
    max_files: int = MAX_CHANGED
    max_bytes: int = MAX_CHANGED_BYTES
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the worker itself knows and no file may hold, as it is or in base64."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What was admitted."""

    tree: str
    """The new tree; the old one where nothing changed."""
    changed: tuple[str, ...]
    """Paths that were added, changed or removed, shown escaped."""
    refused: tuple[Refusal, ...]
    """Paths that were put back, and why."""


async def admit(mirror: Mirror, tree: str, folder: Path, rules: AdmitRules | None = None) -> Admitted:
    """Take an author's result into the mirror as a tree. The folder was materialised from `tree`.

    Protected paths are also put back in the folder, so that it stands for the admitted tree. Raises RoundRefused, or
    TooLarge where it changes huge folders; the folder is then not to be used any more.
    """
    rules = rules or AdmitRules()
    given = await plan(mirror, tree, base=rules.base)
    found = await asyncio.to_thread(_walk, folder, given, rules)
    if given.narrowed:
        await _unlisted(mirror, tree, given, found)
    refused = _refuse(given, found, rules)
    await _keep_secrets(mirror, tree, found, rules.secrets)
    try:
        await put_back(mirror, folder, given, remove=found.remove, restore=found.restore)
    except OSError as error:
        raise RoundRefused(f"a protected path cannot be put back: {error.strerror or error}") from error
    except GitFailed as failure:
        raise RoundRefused("a protected path cannot be put back: git cannot read it") from failure
    if not found.new and not found.gone:
        return Admitted(await mirror.tree(tree), (), refused)
    changed = tuple(shown(path) for path in sorted({*found.new, *found.gone}))
    try:
        made = await write_tree(mirror, tree, found.new, found.gone)
        await plan(mirror, made, base=rules.base)
        return Admitted(made, changed, refused)
    except GitRefused as refusal:
        raise RoundRefused(f"the next turn could not be given what it leaves: {refusal.words}") from refusal
    except InTheWay as error:
        raise RoundRefused(f"{shown(error.path)} stands in the place of what was not given to the author") from error
    except GitFailed as failure:
        # The last line of defence: git knows the names that are dangerous somewhere.
        if "Ignoring path" in failure.words:
            raise RoundRefused("git does not take a name in the author's result") from failure
        raise


# ---- Looking --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """What differs from the plan."""

    new: dict[bytes, NewFile] = field(default_factory=dict)
    gone: set[bytes] = field(default_factory=set)
    size: int = 0
    remove: set[bytes] = field(default_factory=set)
    """Paths to remove from the folder."""
    restore: set[bytes] = field(default_factory=set)
    """Paths to put back into it."""


@dataclass(slots=True)
class _Walk:
    """A walk under way."""

    given: Plan
    rules: AdmitRules
    found: _Found
    links: set[bytes] = field(default_factory=set)
    folders: int = 0


def _walk(root: Path, given: Plan, rules: AdmitRules) -> _Found:
    walk = _Walk(given, rules, _Found())
    seen: set[bytes] = set()
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            todo = [b""]
            while todo:
                folder = todo.pop()
                seen.add(folder)
                todo += _look(walk, top, folder)
        finally:
            os.close(top)
    except OSError as error:
        raise RoundRefused(f"a file of the author's result cannot be read: {error.strerror}") from error
    for folder in given.files.keys() - seen:
        walk.found.gone.update(join(folder, row.name) for row in given.files[folder])
    walk.found.gone.update(given.links.keys() - walk.links)
    _within_budget(walk)
    return walk.found


def _look(walk: _Walk, top: int, folder: bytes) -> list[bytes]:
    """Look at one folder; return the folders in it."""
    rows = {row.name: row for row in walk.given.files.get(folder, ())}
    below = []
    here = open_folder(top, folder)
    try:
        with os.scandir(here) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                path = join(folder, name)
                if is_git(name):
                    raise RoundRefused(f"the author's result holds {shown(path)}: a repository inside the repository")
                if entry.is_symlink():
                    _look_at_link(walk, here, path)
                elif entry.is_dir(follow_symlinks=False):
                    below.append(path)
                elif entry.is_file(follow_symlinks=False):
                    _look_at_file(walk, here, path, rows.pop(name, None))
                else:
                    raise RoundRefused(f"{shown(path)} is neither a file nor a folder")
    finally:
        os.close(here)
    walk.found.gone.update(join(folder, name) for name in rows)
    if folder not in walk.given.files:
        walk.folders += 1
    if walk.folders > len(walk.given.files) + MAX_NEW_FOLDERS or (below and folder.count(b"/") + 2 > MAX_DEPTH):
        raise RoundRefused("the author's result holds too many folders, or too deep ones")
    return below


def _look_at_link(walk: _Walk, here: int, path: bytes) -> None:
    target = walk.given.links.get(path)
    if target is None or os.readlink(path.rpartition(b"/")[2], dir_fd=here) != target:
        raise RoundRefused(f"{shown(path)} was made or changed into a link")
    walk.links.add(path)


def _look_at_file(walk: _Walk, here: int, path: bytes, row: Row | None) -> None:
    name = path.rpartition(b"/")[2]
    # Not blocking: a pipe that took the file's place must not hold us.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise RoundRefused(f"{shown(path)} is neither a file nor a folder")
        if status.st_nlink != 1:
            raise RoundRefused(f"{shown(path)} has a second name (a hard link)")
        size = status.st_size
        if (row is None or size != row.size) and walk.found.size + size > walk.rules.max_bytes:
            raise RoundRefused(f"the author changed more than {walk.rules.max_bytes >> 20} MiB in one round")
        raw = os.read(file, size + 1)
        while len(raw) < size and (more := os.read(file, size - len(raw))):
            raw += more
    finally:
        os.close(file)
    oid = hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest().encode()
    mode = PROGRAM if status.st_mode & 0o100 else FILE
    if row is not None and oid == row.oid:
        # A link's stand-in has no mode of its own, and 100664 of old trees is a file like any other.
        if row.mode == LINK or (row.mode == PROGRAM) == (mode == PROGRAM):
            return
        walk.found.new[path] = NewFile(oid, mode, None)
    else:
        walk.found.new[path] = NewFile(oid, mode, raw)
        walk.found.size += len(raw)
    _within_budget(walk)


def _within_budget(walk: _Walk) -> None:
    rules, found = walk.rules, walk.found
    if found.size > rules.max_bytes:
        raise RoundRefused(f"the author changed more than {rules.max_bytes >> 20} MiB in one round")
    if len(found.new) + len(found.gone) > rules.max_files:
        raise RoundRefused(f"the author changed more than {rules.max_files:,} files in one round")


async def _unlisted(mirror: Mirror, tree: str, given: Plan, found: _Found) -> None:
    """Look up what looks new where the plan of a large tree has nothing: what stands there was not given either."""
    unplanned = found.new.keys() - rows_at(given, found.new).keys() - given.links.keys() - given.absent.keys()
    for path, row in (await list_rows(mirror, tree, unplanned)).items():
        new = found.new[path]
        if row.oid == new.oid and (row.mode == PROGRAM) == (new.mode == PROGRAM):
            del found.new[path]
        else:
            given.absent[path] = (row, SUBMODULE if row.mode == GITLINK else OUTSIDE)


# ---- Judging --------------------------------------------------------------------------------------------------------


def _refuse(given: Plan, found: _Found, rules: AdmitRules) -> tuple[Refusal, ...]:
    """Take out of what was found what is not admitted, and say why. Raises RoundRefused."""
    rows = rows_at(given, (*found.new, *found.gone))
    refused: dict[bytes, str] = {}
    for path in found.new:
        absent = given.absent.get(path)
        if (absent is not None and absent[1] == SUBMODULE) or _in_the_way(given, path):
            raise RoundRefused(f"{shown(path)} stands in the place of a submodule or of a file that was not given")
        if is_protected(path, rules.protect):
            refused[path] = PROTECTED
        elif absent is not None and absent[1] != CONTROLS:
            refused[path] = UNSEEN
        elif path in rows and rows[path].mode == LINK:
            refused[path] = LINKED
        elif has_controls(path):
            raise RoundRefused(f"the name of {shown(path)} holds control characters")
        elif len(path) > MAX_PATH:
            raise RoundRefused(f"the name of {shown(path)[:100]}… is too long for many disks")
    refused |= {path: PROTECTED for path in found.gone if is_protected(path, rules.protect)}
    for path in refused:
        (found.restore if path in rows or path in given.links else found.remove).add(path)
        found.new.pop(path, None)
        found.gone.discard(path)
    return tuple(Refusal(shown(path), why) for path, why in sorted(refused.items()))


def _in_the_way(given: Plan, path: bytes) -> bool:
    """Tell whether a folder on the way to a file is, in the tree, something that was not written."""
    if not given.absent:
        return False
    while path := path.rpartition(b"/")[0]:
        absent = given.absent.get(path)
        if absent is not None and not is_protected(path):
            return True
    return False


# ---- Secrets --------------------------------------------------------------------------------------------------------


async def _keep_secrets(mirror: Mirror, tree: str, found: _Found, secrets: tuple[str, ...]) -> None:
    """Raise RoundRefused where a new file, or its name, holds a secret that stood nowhere in what it comes from."""
    own = encodings(secrets)
    suspects = await asyncio.to_thread(_suspects, found.new, own)
    if not suspects:
        return
    rows = await list_rows(mirror, tree, [*found.new, *found.gone])
    known = set(find_secrets(b"\n".join(rows), own, names=False))
    oids: dict[bytes, None] = {}
    room = MAX_OLD_BYTES
    for row in rows.values():
        if row.mode != GITLINK and row.oid not in oids and 0 <= row.size <= room:
            oids[row.oid] = None
            room -= row.size

    def take(blobs: Iterator[tuple[bytes, int, IO[bytes]]]) -> None:
        for _, size, stream in blobs:
            raw = stream.read(size)
            known.update(find_secrets(raw, own))
            known.update(present(raw, [value for value in suspects if value not in known][:MAX_SOUGHT]))

    await stream_blobs(mirror, oids, take)
    news = [place for value, place in suspects.items() if value not in known]
    if news:
        path, leak = min(news, key=lambda place: (place[0] or b"", place[1].line))
        raise RoundRefused(f"{_place(path, leak)} holds what looks like {leak.kind}")


def _suspects(new: dict[bytes, NewFile], own: tuple[str, ...]) -> dict[str, tuple[bytes | None, Leak]]:
    """Return what looks like a secret in new files, by its value, and in which one; None: in the name of one."""
    names = find_secrets(b"\n".join(new), own, names=False)
    suspects: dict[str, tuple[bytes | None, Leak]] = {value: (None, leak) for value, leak in names.items()}
    for path, file in new.items():
        for value, leak in find_secrets(file.raw or b"", own, names=not is_generated(path)).items():
            suspects.setdefault(value, (path, leak))
    return suspects


def _place(path: bytes | None, leak: Leak) -> str:
    return "the name of a changed file" if path is None else f"`{quotable(shown(path), MAX_PATH)}` line {leak.line}"
