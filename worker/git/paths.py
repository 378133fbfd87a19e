"""Paths of a tree, as bytes: how they are shown, and which of them are special. Pure.

Owns the built-in lists: configuration of agents and hooks that is never written into a run's folder, paths that an
author may not change, and files that a program generates.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

MAX_DEPTH = 64
"""Folders above a file, at most (threats.md, input 96)."""
MAX_NAME = 255
"""Bytes of a name, at most: NAME_MAX of Linux and macOS."""
MAX_PATH = 3000
"""Bytes of a path, at most: it stands behind the folder's own path, and both must fit PATH_MAX."""

# Configuration that a coding agent, its tools or their hooks obey (threats.md 4.4), at any depth, in any case.
_UNWRITTEN = frozenset(
    b".claude .mcp.json .claude.json claude.md claude.local.md agents.md agents.override.md .codex .agents .husky "
    b".ripgreprc .gitmodules bunfig.toml .npmrc".split()
)
_UNWRITTEN_PREFIX = (b".env",)

# What the author's seat may not change, besides the above (threats.md T24): names at any depth …
_PROTECTED = frozenset(
    b".github .gitlab .forgejo .gitea .circleci .buildkite .semaphore .teamcity .woodpecker .devcontainer "
    b".gitattributes .lfsconfig codeowners .gitlab-ci.yml .gitlab-ci.yaml .travis.yml .travis.yaml azure-pipelines.yml "
    b"azure-pipelines.yaml appveyor.yml .appveyor.yml bitbucket-pipelines.yml jenkinsfile .drone.yml .drone.yaml "
    b".drone.star .drone.jsonnet .woodpecker.yml .woodpecker.yaml .cirrus.yml .cirrus.star cloudbuild.yaml "
    b"cloudbuild.yml buildspec.yml buildspec.yaml bitrise.yml .devcontainer.json .pre-commit-config.yaml "
    b".overcommit.yml .simple-git-hooks.json .simple-git-hooks.js simple-git-hooks.json simple-git-hooks.js "
    b".yarnrc .yarnrc.yml .yarnrc.yaml .yarn .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js .cursor .cursorrules gemini.md "
    b".gemini .aider.conf.yml .windsurf .windsurfrules .clinerules .roo .roorules .kiro .junie .opencode opencode.json "
    b"opencode.jsonc warp.md .continue .amazonq .trae qwen.md .qwen .goosehints".split()
)
_PROTECTED_PREFIX = (b"lefthook.", b".lefthook.", b"lefthook-local.", b".lefthook-local.")
# … and these paths, at any depth.
_PROTECTED_TAILS = (b".vscode/tasks.json", b".vscode/mcp.json")

_GENERATED = frozenset(
    b"uv.lock poetry.lock pdm.lock pipfile.lock package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml "
    b"bun.lock bun.lockb cargo.lock go.sum gemfile.lock composer.lock flake.lock mix.lock pubspec.lock podfile.lock "
    b"packages.lock.json gradle.lockfile deno.lock pixi.lock conda-lock.yml".split()
)
_MINIFIED = (b".min.js", b".min.css", b".js.map", b".css.map")

# Code points that HFS+ ignores in names, as git's protectHFS knows them (git: utf8.c, next_hfs_char).
_HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def join(folder: bytes, name: bytes) -> bytes:
    """Return the path of a name in a folder; the folder is empty for the root."""
    return folder + b"/" + name if folder else name


def shown(path: bytes) -> str:
    """Return a path as text in which nothing is invisible: what is not printable UTF-8 stands escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def fold(name: bytes) -> str:
    """Return what a name is to a disk that does not tell cases or compositions apart."""
    if name.isascii():
        return name.lower().decode()
    return unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape")).casefold()


def has_controls(path: bytes) -> bool:
    """Tell whether a path holds control characters (C0, DEL, or C1 in UTF-8)."""
    if any(byte < 0x20 or byte == 0x7F for byte in path):
        return True
    return any(0x80 <= ord(char) < 0xA0 for char in path.decode("utf-8", "replace"))


def is_git(name: bytes) -> bool:
    """Tell whether some file system would take a path component, or what a backslash cuts from it, for ``.git``."""
    text = _HFS_IGNORED.sub("", name.decode("utf-8", "replace"))
    text = unicodedata.normalize("NFKC", text).casefold()
    # NTFS drops dots and spaces at the end, and what follows a colon names a stream.
    return any(part.split(":", 1)[0].rstrip(". ") in {".git", "git~1"} for part in text.split("\\"))


def is_unwritten(path: bytes) -> bool:
    """Tell whether a path is configuration of an agent or a hook, which is not written into a run's folder."""
    return any(part in _UNWRITTEN or part.startswith(_UNWRITTEN_PREFIX) for part in _spelled(path).split(b"/"))


def is_protected(path: bytes, rules: tuple[str, ...] = ()) -> bool:
    """Tell whether an author may not change a path: by the built-in list, or by the globs of `protect:`."""
    plain = _spelled(path)
    parts = plain.split(b"/")
    if is_unwritten(path) or any(part in _PROTECTED or part.startswith(_PROTECTED_PREFIX) for part in parts):
        return True
    if any(plain == tail or plain.endswith(b"/" + tail) for tail in _PROTECTED_TAILS):
        return True
    return bool(rules) and _named(rules)(fold(path))


def _spelled(path: bytes) -> bytes:
    """Return a path as a disk may read it that tells no cases apart, ignores characters, or drops dots at the end."""
    if path.isascii():
        text = path.decode().lower()
    else:
        text = _HFS_IGNORED.sub("", path.decode("utf-8", "surrogateescape"))
        text = unicodedata.normalize("NFKC", text).casefold()
    return "/".join(part.rstrip(". ") for part in text.split("/")).encode("utf-8", "surrogateescape")


_TOKEN = re.compile(r"\*{3,}/(?:\*\*/)*|(?:\*\*/)+|\*+|\[!?+\]?+(?:(?!\*\*/)[^]])*+\]|.", re.DOTALL)
"""A part of a glob: stars, two stars and a slash, a set of characters as `fnmatch` reads it, or one character."""


@lru_cache(maxsize=8)
def _named(rules: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether some globs name a path.

    A star stands for any characters, a folder for all that is in it, two stars and a slash also for no folder at all.
    Cases and compositions play no part, since some disks tell none apart.

    All globs are followed at once, in one pass over the path: each of their places is a bit. An expression would be
    tried in ever more ways, the more stars it has.
    """
    # Sets of places: where globs begin; where any character may pass (a star); what may be left out (two stars and a
    # slash); where a glob has matched. `takers`: from which places a token leads on to the next.
    takers: dict[str, int] = {}
    starts = stays = skips = ends = 0
    place = 1
    for rule in rules:
        glob = fold(rule.strip("/").encode("utf-8", "surrogateescape")).removesuffix("/**")
        starts |= place
        for token in [*_TOKEN.findall(glob), "/"]:
            taken = token
            if token.startswith("*"):
                stays |= place
                if not token.startswith("**/"):
                    continue
                skips |= place
                taken = "/"
            takers[taken] = takers.get(taken, 0) | place
            place <<= 1
        ends |= place
        stays |= place
        place <<= 1
    patterns = [(re.compile(fnmatch.translate(token)), places) for token, places in takers.items()]

    @lru_cache(maxsize=1000)
    def taking(char: str) -> int:
        return sum(places for pattern, places in patterns if pattern.match(char))

    def named(path: str) -> bool:
        here = starts | (starts & skips) << 1
        for char in path + "/":  # then a folder's own path is in the folder, too
            gone = (here & taking(char)) << 1
            here = here & stays | gone | (gone & skips) << 1
        return bool(here & ends)

    return named


def is_generated(path: bytes) -> bool:
    """Tell whether a program writes this file: lock files and minified bundles."""
    name = path.rpartition(b"/")[2].lower()
    return name in _GENERATED or name.endswith(_MINIFIED)
