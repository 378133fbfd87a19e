"""What `git diff` prints → the changed files as GitHub lists them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

STATUSES = {"A": "added", "D": "removed", "M": "modified", "T": "changed", "R": "renamed", "C": "copied"}
"""git's letter → GitHub's word (schema `diff-entry` of GitHub's OpenAPI description)."""

ZEROS = "0" * 40


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a pull request. `patch` holds the hunks; None for a binary file or a change without lines."""

    filename: str
    status: str
    sha: str
    """The blob at the head; at the base where the file was removed."""
    additions: int = 0
    deletions: int = 0
    previous: str | None = None
    patch: str | None = None


def changed_files(raw: bytes, patch: bytes) -> tuple[ChangedFile, ...]:
    """Join ``git diff --raw --numstat -z`` with ``git diff``: both list the same files in the same order."""
    fields = raw.decode("utf-8", "replace").split("\0")
    entries: list[ChangedFile] = []
    at = 0
    while fields[at].startswith(":"):
        _, _, before, after, letter = fields[at].split(" ")
        moved = letter[0] in "RC"
        entries.append(
            ChangedFile(
                filename=fields[at + 1 + moved],
                status=STATUSES[letter[0]],
                sha=before if after == ZEROS else after,
                previous=fields[at + 1] if moved else None,
            )
        )
        at += 2 + moved
    patches = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)[1:]
    files = []
    for index, entry in enumerate(entries):
        # A rename's paths follow as two fields of their own, after an empty one.
        added, deleted, name = fields[at].split("\t", 2)
        at += 1 if name else 3
        text = _hunks(patches[index]) if index < len(patches) else None
        numbers = (0, 0) if added == "-" else (int(added), int(deleted))
        files.append(ChangedFile(entry.filename, entry.status, entry.sha, *numbers, entry.previous, text))
    return tuple(files)


def _hunks(patch: bytes) -> str | None:
    start = re.search(rb"^@@ ", patch, flags=re.MULTILINE)
    return None if start is None else patch[start.start() :].decode("utf-8", "replace").removesuffix("\n")
