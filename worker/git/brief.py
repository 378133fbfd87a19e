"""The folder that agents are given besides the tree: what the change is, as text (decisions.md 2.4).

Owns `change.diff` (merge base to the present tree), `round.diff` (the last round), `files.txt` (what was read, cut or
skipped, and why) and `log.txt` (commit subjects). Sizes are looked at first: no diff is asked for of what is missing,
too large, binary or generated. No attribute of the repository decides what is text (threats.md, inputs 82 and 84).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from worker.debate.task import ChangedFile
from worker.git import GitFailed, GitRefused, git, plain, program, sha
from worker.git.entries import GITLINK, chunks
from worker.git.extent import check_extent
from worker.git.mirror import TOO_LARGE, Mirror
from worker.git.paths import MAX_DEPTH, is_generated, shown
from worker.pipe import Pipe, pipe
from worker.process import CHUNK

DIFF_BYTES = 200_000
"""Bytes of a diff, at most (decisions.md 6.1)."""
BEYOND = f"beyond {DIFF_BYTES // 1000} kB of diff"
"""Why a file is not in the diff whose part found no room."""
FILE_BYTES = 40_000
"""Bytes of one file's part of it, at most."""
LINE_BYTES = 4_000
"""Bytes of one line of it, at most: a minified file has lines of megabytes."""
SIDE_BYTES = 4 * 1024 * 1024
"""Bytes of a file of which a diff is made, at most."""
STREAM_BYTES = 256 * 1024 * 1024
"""Bytes of a diff that are looked through, at most, for what fits."""
NOTES = 100
"""Files that are named at the end of a diff as not in it, at most."""
ROUND_CONTEXT = 20
"""Lines around each place in `round.diff`: enough to judge most fixes without opening the file again, which a seat that
remembers the rest would pay for anew in every round."""
LOG_LINES = 200
SUBJECT_CHARS = 200

DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
_RENAMES = "-M100%"
_NONE = b"0" * 40


@dataclass(slots=True)
class Change:
    """One changed path, as git sees it."""

    status: str
    path: bytes
    old_path: bytes
    modes: tuple[bytes, bytes]
    oids: tuple[bytes, bytes]
    sizes: tuple[int, int] = (0, 0)
    """Bytes before and after; -1 where the blob is missing."""
    added: int = 0
    removed: int = 0
    binary: bool = False
    why: str = ""
    """Why there is no diff of it."""

    @property
    def paths(self) -> tuple[bytes, ...]:
        """Both names of a renamed file, the one name of any other."""
        return (self.path,) if self.path == self.old_path else (self.old_path, self.path)

    @property
    def missing(self) -> bool:
        """Tell whether a side was too large to be fetched."""
        return -1 in self.sizes


async def brief(
    mirror: Mirror, base: str, tip: str, folder: Path, previous: str | None = None
) -> tuple[ChangedFile, ...]:
    """Write the four files into a folder and return what `files.txt` says.

    `base` is the merge base, `tip` the present commit or tree, `previous` the commit or tree before the last round
    (None: there was none, and `round.diff` is empty).
    """
    changes = await list_changes(mirror, base, tip)
    change_diff, lost = await _diff(mirror, base, tip, changes)
    round_diff = b""
    if previous is not None and previous != tip:
        changed = await list_changes(mirror, previous, tip)
        round_diff, _ = await _diff(mirror, previous, tip, changed, f"-U{ROUND_CONTEXT}")
    files = tuple(_changed_file(change, lost) for change in changes)
    log = await _log(mirror, base, tip)
    await asyncio.to_thread(_write, folder, {"change.diff": change_diff, "round.diff": round_diff, "log.txt": log})
    await asyncio.to_thread(_write, folder, {"files.txt": files_text(files).encode()})
    return files


def files_text(files: tuple[ChangedFile, ...]) -> str:
    """Return `files.txt`: a line for each changed path, and the total line."""
    lines = [
        "\t".join([file.status, file.path, str(file.size), file.coverage + (f": {file.why}" if file.why else "")])
        for file in files
    ]
    counts = {word: sum(file.coverage == word for file in files) for word in ("read", "cut", "skipped")}
    size = sum(file.size for file in files)
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return "\n".join([*lines, f"total: {len(files)} changed files, {size} bytes; {told}"]) + "\n"


# ---- What changed ---------------------------------------------------------------------------------------------------


async def list_changes(mirror: Mirror, base: str, tip: str) -> list[Change]:
    """Return what differs between two commits or trees, with sizes and counts of lines. Renames: of the same blob."""
    await check_extent(mirror, base, tip)
    argv = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", _RENAMES, *DIFF, sha(base), sha(tip))
    try:
        out = await git(mirror.path, *argv)
    except GitFailed as failure:
        if failure.code is None:
            raise GitRefused("the pull request", "it changes more files than can be listed") from failure
        raise
    changes = list(_raw(out.split(b"\0")))
    if any(change.path.count(b"/") > MAX_DEPTH for change in changes):
        raise GitRefused("the pull request", f"its folders are more than {MAX_DEPTH} deep")
    await _measure(mirror, changes)
    for change in changes:
        change.why = _too_much(change)
    countable = [change for change in changes if not change.why or change.why == "generated"]
    for paths in _pathspecs(changes, countable):
        numstat = ("diff-tree", "-r", "-z", "--numstat", _RENAMES, *DIFF, sha(base), sha(tip), *paths)
        _count(await git(mirror.path, *numstat), {change.path: change for change in countable})
    for change in changes:
        if change.binary and not change.why:
            change.why = "binary"
    return changes


def _raw(fields: list[bytes]) -> Iterator[Change]:
    at = 0
    while at + 1 < len(fields):
        old_mode, new_mode, old_oid, new_oid, status = fields[at].lstrip(b":").split(b" ")
        old_path = path = fields[at + 1]
        at += 2
        if status.startswith((b"R", b"C")):
            path = fields[at]
            at += 1
        yield Change(chr(status[0]), path, old_path, (old_mode, new_mode), (old_oid, new_oid))


async def _measure(mirror: Mirror, changes: list[Change]) -> None:
    blobs = {
        oid
        for change in changes
        for oid, mode in zip(change.oids, change.modes, strict=True)
        if oid != _NONE and mode != GITLINK
    }
    if not blobs:
        return
    out = await git(mirror.path, "cat-file", "--batch-check", stdin=b"".join(oid + b"\n" for oid in blobs))
    sizes = {_NONE: 0}
    for line in out.splitlines():
        oid, kind, *rest = line.split(b" ")
        sizes[oid] = int(rest[0]) if kind == b"blob" else -1
    for change in changes:
        old, new = (sizes[oid] if mode != GITLINK else 0 for oid, mode in zip(change.oids, change.modes, strict=True))
        change.sizes = (old, new)


def _too_much(change: Change) -> str:
    if change.missing:
        return TOO_LARGE
    if max(change.sizes) > SIDE_BYTES:
        return f"larger than {SIDE_BYTES >> 20} MB"
    return "generated" if is_generated(change.path) else ""


def _pathspecs(changes: list[Change], wanted: list[Change]) -> Iterator[tuple[bytes | str, ...]]:
    """Return the arguments that narrow a diff to what is wanted: none where that is all of it."""
    if len(wanted) == len(changes):
        if changes:
            yield ()
        return
    # Both names of a renamed file must stand in the same list.
    pairs = {b"\0".join(change.paths): change.paths for change in wanted}
    for batch in chunks(pairs):
        yield ("--", *(path for pair in batch for path in pairs[pair]))


def _count(out: bytes, changes: dict[bytes, Change]) -> None:
    fields = out.split(b"\0")
    at = 0
    while at + 1 < len(fields):
        added, removed, path = fields[at].split(b"\t", 2)
        at += 1
        if not path:  # renamed: both names follow
            path = fields[at + 1]
            at += 2
        change = changes.get(path)
        if change is None:
            continue
        if added == b"-":
            change.binary = True
        else:
            change.added, change.removed = int(added), int(removed)


def _changed_file(change: Change, lost: Lost) -> ChangedFile:
    coverage, why = ("skipped", change.why) if change.why else lost.get(change.path, ("read", ""))
    return ChangedFile(
        status=change.status,
        path=shown(change.path),
        size=max(change.sizes[1], 0),
        coverage=coverage,
        why=why,
        added=change.added,
        removed=change.removed,
    )


# ---- The diff within its budget -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """One file's part of a diff, within its budget."""

    lines: list[bytes]
    size: int = 0
    lost: int = 0
    """Bytes that found no room."""
    full: bool = False
    """Whole lines are missing at the end, and not only the ends of long ones."""


Lost = dict[bytes, tuple[str, str]]
"""For each path that found no room in full: ``cut`` where a part of it is in the diff, else ``skipped``; and why."""


async def _diff(mirror: Mirror, base: str, tip: str, changes: list[Change], *options: str) -> tuple[bytes, Lost]:
    """Return the diff, and what found no room in it."""
    wanted = [change for change in changes if not change.why]
    parts: list[_Part] = []
    for paths in _pathspecs(changes, wanted):
        argv = (
            "diff-tree",
            "-r",
            "-p",
            "--text",
            "--full-index",
            _RENAMES,
            *DIFF,
            *options,
            sha(base),
            sha(tip),
            *paths,
        )
        parts += await pipe(program(mirror.path, *argv), _read_parts)
    text: list[bytes] = []
    why: dict[bytes, str] = {}
    begun: set[bytes] = set()
    notes = [f"[skipped: {shown(change.path)} ({change.why})]" for change in changes if change.why]
    room = DIFF_BYTES
    # A changed type (a file that becomes a link) comes as two parts: one that removes and one that adds.
    owners = [change for change in wanted for _ in range(2 if change.status == "T" else 1)]
    for change, part in zip_longest(owners, parts[: len(owners)]):
        if part is None or part.size > room:
            why[change.path] = BEYOND
            notes.append(f"[skipped: {shown(change.path)} ({BEYOND}: +{change.added} -{change.removed})]")
            continue
        begun.add(change.path)
        text += part.lines
        room -= part.size
        if part.lost:
            why[change.path] = f"at {FILE_BYTES // 1000} kB" if part.full else "a line is too long"
            text.append(f"[cut: {part.lost} more bytes of the diff of {shown(change.path)}]\n".encode())
    if len(notes) > NOTES:
        notes[NOTES:] = [f"[and {len(notes) - NOTES} more: files.txt names them all]"]
    lost = {path: ("cut" if path in begun else "skipped", words) for path, words in why.items()}
    return b"".join(text) + "".join(note + "\n" for note in notes).encode(), lost


def _read_parts(diff: Pipe) -> list[_Part]:
    parts: list[_Part] = []
    seen = 0
    start = True
    for line in _pieces(diff.stdout):
        seen += len(line)
        if seen > STREAM_BYTES:
            return parts
        # Lines of content begin with a blank, a sign or a backslash: this one is git's own.
        if start and line.startswith(b"diff --git "):
            parts.append(_Part([]))
        part = parts[-1]
        whole = line.endswith(b"\n")
        if not start or part.full or part.size + len(line) > FILE_BYTES:
            part.lost += len(line)
            part.full = part.full or start
        elif not whole and len(line) >= LINE_BYTES:
            part.lines.append(line + b" [the rest of this line is cut]\n")
            part.size += len(line) + 32
        else:
            part.lines.append(line)
            part.size += len(line)
        start = whole
    if diff.finish() != 0:
        raise GitFailed("diff-tree", plain(diff.errors()))
    return parts


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Read lines; one that is too long comes in pieces, of which only the last ends in a newline."""
    while first := stream.readline(LINE_BYTES):
        yield first
        if first.endswith(b"\n"):
            continue
        while rest := stream.readline(CHUNK):
            yield rest
            if rest.endswith(b"\n"):
                break


# ---- The log --------------------------------------------------------------------------------------------------------

_CONTROL = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")


async def _log(mirror: Mirror, base: str, tip: str) -> bytes:
    """Return the subjects of the commits since the base, newest first; nothing where base or tip is a tree."""
    kinds = await git(
        mirror.path, "cat-file", "--batch-check=%(objecttype)", stdin=f"{sha(base)}\n{sha(tip)}\n".encode()
    )
    if kinds.split() != [b"commit", b"commit"]:
        return b""
    log = ("log", "-z", "--format=%h %<(400,trunc)%s", "--abbrev=10", "--encoding=UTF-8", "--no-show-signature")
    limits = ("--no-mailmap", f"--max-count={LOG_LINES + 1}", "--end-of-options", f"{base}..{tip}")
    try:
        out = await git(mirror.path, *log, *limits)
    except GitFailed as failure:
        if failure.code is not None:
            raise
        # Git counts columns, and there are characters that take none: a subject of them is as long as it likes.
        return b"[cut: the subjects of the commits are too long to be listed]\n"
    subjects = [line for line in out.split(b"\0") if line]
    text = [_clean(line) for line in subjects[:LOG_LINES]]
    if len(subjects) > LOG_LINES:
        text.append(f"[cut: more than {LOG_LINES} commits]")
    return "".join(line + "\n" for line in text).encode()


def _clean(raw: bytes) -> str:
    text = _CONTROL.sub(" ", raw.decode("utf-8", "replace")).rstrip()
    return text if len(text) <= SUBJECT_CHARS else text[: SUBJECT_CHARS - 1] + "…"


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
