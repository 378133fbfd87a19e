"""Git: the one function that starts it, its environment, and the errors of this room.

What a pull request brings is only ever read as objects of a bare repository of our own: no work tree, no hooks, no
filters, no attributes, no configuration but what stands here. Only object ids and full ref names reach git, and those
are checked first. No module of this room retries, and none logs.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bot.settings import LOOPBACK, authorities, proxy_of
from worker.process import Finished, Program, run

# ---- Errors ---------------------------------------------------------------------------------------------------------


class GitFailed(Exception):  # noqa: N818 - git failed, and says why
    """A git command failed for a reason of this machine: a fault of the worker, not of the pull request."""

    def __init__(self, command: str, words: str, *, code: int | None = None) -> None:
        """`command` is git's subcommand; `words` is what git said, cleaned."""
        super().__init__(f"git {command} failed: {words}")
        self.command = command
        self.words = words
        self.code = code


class GitUnavailable(GitFailed):
    """The server could not be reached, or does not know our credential: a fault of the worker, for another attempt."""


class GitUnknown(GitUnavailable):
    """The server does not take our credential, or shows it no such repository (401, 404)."""


class RefMissing(Exception):  # noqa: N818
    """The server has no such branch or commit (any more). ``str(error)`` is a sentence without a full stop."""

    def __init__(self, ref: str) -> None:
        """`ref` is what was asked for."""
        super().__init__(f"The server has no {ref}")
        self.ref = ref


class GitRefused(Exception):  # noqa: N818 - the word of interface.md 6
    """The pull request's objects are not safe to take in: the status `git-refused`.

    ``str(error)`` is one sentence without a full stop; it names the object.
    """

    def __init__(self, what: str, words: str) -> None:
        """`what` names the object; `words` says what is wrong with it."""
        super().__init__(f"Git refused {what}: {words}")
        self.what = what
        self.words = words


class NoMergeBase(Exception):  # noqa: N818 - the status `merge-base-error`
    """Two commits have no history in common. ``str(error)`` is what git says of it."""


class PushRefused(Exception):  # noqa: N818
    """The server did not take a push. ``str(error)`` is the server's reason, cleaned of control characters."""


class TooLarge(Exception):  # noqa: N818
    """A round's objects are larger than what is kept with a run."""


# ---- Where to fetch from and push to --------------------------------------------------------------------------------

NETWORK_SECONDS = 900.0
LOCAL_SECONDS = 300.0
OUTPUT_CAP = 64 * 1024 * 1024
"""Bytes of output that a git command may give back at once. What may be larger is streamed (`worker.process.pipe`)."""


Settings = tuple[tuple[str, str], ...]
"""Lines of git configuration: name and value."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A server's repository. Allowed are https, http on this machine, and the transports named in `also`."""

    url: str
    token: str | None = None
    also: tuple[str, ...] = ()
    """More transports: ``http`` where the operator's own server speaks nothing else, ``file`` in tests."""

    def settings(self) -> list[tuple[str, str]]:
        """Return the git configuration that reaches this remote as ``origin``. Raises ValueError on a url to refuse."""
        if not re.fullmatch(r"[!-~]+", self.url):
            raise ValueError("a repository's address holds characters that do not belong there")
        parts = urlsplit(self.url)
        allowed = {"https", *self.also}
        if parts.hostname in LOOPBACK:
            allowed.add("http")
        if parts.scheme not in allowed or "@" in parts.netloc:
            raise ValueError(f"a repository's address must begin with https://, without a name or password: {self.url}")
        entries = [("remote.origin.url", self.url), (f"protocol.{parts.scheme}.allow", "always")]
        # The way there is that of the environment of this process (bot.settings), and no other.
        entries.append(("http.proxy", proxy_of(self.url) or ""))
        given = zip(("http.sslCAInfo", "http.sslCAPath"), authorities(), strict=True)
        entries.extend((name, place) for name, place in given if place)
        if self.token is not None:
            secret = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
            origin = f"{parts.scheme}://{parts.netloc}/"
            entries.append((f"http.{origin}.extraHeader", f"Authorization: Basic {secret}"))
        return entries


# ---- The one function -----------------------------------------------------------------------------------------------

# Old histories hold these harmless faults (decisions.md 2.2); the names are of git's fsck-msgs documentation.
TOLERATED = ("zeroPaddedFilemode", "missingSpaceBeforeDate", "badTimezone", "nullSha1")

_SETTINGS = (
    ("protocol.allow", "never"),
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("transfer.fsckObjects", "true"),
    *((f"{part}.fsck.{fault}", "warn") for part in ("fetch", "receive") for fault in TOLERATED),
    ("core.quotePath", "true"),
    ("core.logAllRefUpdates", "false"),
    # A redirect would carry the credential to wherever it points.
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("credential.helper", ""),
)


def installed() -> bool:
    """Tell whether there is a git to call."""
    return shutil.which("git") is not None


@functools.cache
def _program() -> str:
    found = shutil.which("git")
    if found is None:
        raise GitFailed("--version", "git is not installed")
    return str(Path(found).absolute())


def environment(gitdir: Path | None, *, remote: Remote | None = None, settings: Settings = ()) -> dict[str, str]:
    """Return the whole environment of a git command (threats.md T10). `settings` are more lines of configuration."""
    lines = [*_SETTINGS, *settings]
    if gitdir is not None:
        lines.append(("safe.directory", str(gitdir)))
    if remote is not None:
        lines.extend(remote.settings())
    env = {
        "PATH": os.pathsep.join([str(Path(_program()).parent), os.defpath]),
        "HOME": "/nonexistent",  # curl reads ~/.netrc
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG_COUNT": str(len(lines)),
    }
    if gitdir is not None:
        env["GIT_DIR"] = str(gitdir)
    for number, (key, value) in enumerate(lines):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


def program(
    gitdir: Path | None,
    *argv: str | bytes,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    remote: Remote | None = None,
    settings: Settings = (),
) -> Program:
    """Return a git command as a program for `worker.process`; the arguments are those of `git`."""
    return Program(
        argv=(_program(), *argv),
        cwd=gitdir,
        env={**environment(gitdir, remote=remote, settings=settings), **(env or {})},
        stdin=stdin,
        seconds=NETWORK_SECONDS if remote is not None else LOCAL_SECONDS,
        output_cap=OUTPUT_CAP,
    )


async def git(
    gitdir: Path | None,
    *argv: str | bytes,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    remote: Remote | None = None,
    settings: Settings = (),
) -> bytes:
    """Run git on a bare repository (or on none) and return its standard output.

    `env` and `settings` are added to the environment of T10 and its configuration. With `remote`, that repository is
    ``origin``, and its credential is in the environment of this one program. Raises GitFailed with git's words.
    """
    return succeeded(argv, await run(program(gitdir, *argv, stdin=stdin, env=env, remote=remote, settings=settings)))


def succeeded(argv: tuple[str | bytes, ...], finished: Finished) -> bytes:
    """Return the output of a git command that ended well; raise GitFailed for one that did not."""
    command = next((word for word in map(os.fsdecode, argv) if not word.startswith("-")), "")
    if finished.timed_out:
        raise GitFailed(command, f"it took longer than {finished.seconds:.0f} s")
    if finished.cut:
        raise GitFailed(command, f"it gave more than {OUTPUT_CAP >> 20} MiB")
    if finished.code != 0:
        raise GitFailed(command, plain(finished.stderr) or f"exit status {finished.code}", code=finished.code)
    return finished.stdout


# git's own words (remote-curl.c and credential.c; seen in 2.39): a 404, and a 401 to a credential or without one.
_UNKNOWN = re.compile(
    r"repository '[^']*' not found|Authentication failed for|could not read (?:Username|Password) for"
)


def unavailable(command: str, words: str, *, code: int | None) -> GitUnavailable:
    """Return what it means that a server did not do what a command asked."""
    kind = GitUnknown if _UNKNOWN.search(words) else GitUnavailable
    return kind(command, words, code=code)


# ---- Names and words ------------------------------------------------------------------------------------------------

_SHA = re.compile(r"[0-9a-f]{40}\Z")
# The rules of git-check-ref-format, narrowed to printable characters.
_REF = re.compile(r"refs(?:/(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.lock)){2,}(?<!\.)\Z")
_CONTROL = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")


def is_sha(text: str) -> bool:
    """Tell whether a text is a whole object id."""
    return _SHA.match(text) is not None


def sha(text: str) -> str:
    """Return an object id as it is. Raises ValueError on anything else."""
    if not is_sha(text):
        raise ValueError(f"not an object id: {text!r:.80}")
    return text


def full_ref(text: str) -> str:
    """Return a full ref name as it is. Raises ValueError on anything that is not one, options and patterns included."""
    if len(text.encode("utf-8", "replace")) > 1024 or ".." in text or "@{" in text or not _REF.match(text):
        raise ValueError(f"not a full ref name: {text!r:.80}")
    return text


def plain(raw: bytes, limit: int = 2000) -> str:
    """Return what a program said as one line of clean text."""
    lines = (_CONTROL.sub(" ", line).strip() for line in raw.decode("utf-8", "replace").splitlines())
    return "; ".join(line for line in lines if line)[:limit]
