"""The end of `codex-debate try` on a terminal. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from deploy.layout import FindingLine, Look, clock, money, table

BADGES_ASCII = {"✅": "[ok]", "⚠️": "[!]", "❌": "[x]"}
"""Badges for a terminal that speaks no Unicode."""


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit of the debate."""

    round: int
    sha: str
    subject: str


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended."""

    status: str
    badge: str
    headline: str
    """The badge line's sentence, in plain text."""
    rounds: int
    seconds: float
    usd: float
    conclusion: str
    """The check run's conclusion."""
    title: str
    """The check run's title."""
    remarks: tuple[str, ...] = ()
    """Further lines right below the headline: `The fixes are not on retry-renewals yet.`"""
    notes: tuple[str, ...] = ()
    """Paragraphs below: `Outside this pull request: F4, …`"""
    findings: tuple[FindingLine, ...] = ()
    commits: tuple[CommitLine, ...] = ()
    comment: str = ""
    """The file that holds the comment as posted."""
    repo: str = ""
    """The user's repository; empty: the sample."""
    store: str = ""
    """The repository that holds the debate's branch."""
    branch: str = ""
    kept: bool = False
    """The branch was fetched into `repo` already (`--keep`)."""


# ---- The end --------------------------------------------------------------------------------------------------------


def ending(result: Result, look: Look) -> list[Text]:
    """Return the end on a terminal: the comment in short, and the check run. How to take the commits is `taking`'s."""
    rule = Text(("-" if look.ascii else "─") * look.width, "dim")
    badge = BADGES_ASCII.get(result.badge, "[ ]") if look.ascii else look.clean(result.badge)
    lines = [f"{badge} {look.clean(result.headline)}", *(f"   {look.clean(each)}" for each in result.remarks)]
    comment = [Text(part) for line in lines for part in look.wrap(line, 3)]
    for each in result.notes:
        comment += [Text(), *(Text(f"   {line}") for line in look.wrap(look.clean(each), width=look.width - 3))]
    if result.findings:
        comment += [Text(), *table(result.findings, look)]
    if result.commits:
        commits = (f"   Round {each.round}   {each.sha[:10]}   {look.clean(each.subject)}" for each in result.commits)
        comment += [Text(), *(Text(look.fit(line, look.width)) for line in commits)]
    if result.comment:
        comment += [Text(), Text(f"   In both sides' words: {look.clean(result.comment)}", overflow="fold")]
    check = look.wrap(f"{result.conclusion}   {look.clean(result.title)}")
    heads = (Text("The comment" if result.comment else "No comment was written", "bold"), Text("The check run", "bold"))
    return [rule, heads[0], Text(), *comment, rule, heads[1], Text(), *map(Text, check), rule, Text()]


def taking(result: Result) -> list[Text]:
    """Return what it took, and how to take the commits. A command is never cut."""
    took = f"{clock(result.seconds)}, {money(result.usd)}."
    count = len(result.commits)
    commits = f"the {count} commits" if count != 1 else "the commit"
    if not count or not result.branch:
        return [Text(took)]
    if result.kept:
        stand = "stand" if count != 1 else "stands"
        where = f"on {result.branch} in {Look().clean(result.repo)}"
        return [Text(f"{took} {commits.capitalize()} {stand} {where}.", overflow="fold")]
    store = _word(result.store)
    if result.repo:
        verb, first = "take", f"git -C {_word(result.repo)} fetch {store}"
        second = f"{result.branch}:{result.branch}"
    else:  # nobody has the sample: its commits are looked at where they are kept
        verb, first, second = "see", f"git -C {store} log -p --reverse", f"-{count} {result.branch}"
    return [
        Text(f"{took} To {verb} {commits} (kept for 24 hours):"),
        Text(),
        Text(f"   {first} \\", overflow="fold"),
        Text(f"       {second}", overflow="fold"),
    ]


def _word(path: str) -> str:
    """Return a path as a shell reads it; a leading ``~/`` keeps its meaning.

    What a terminal would obey or could not show is spelled out, as bash and zsh read it.
    """
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    if rest.isprintable():
        return home + shlex.quote(rest)
    raw = rest.encode("utf-8", "surrogateescape")
    spelled = "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in raw)
    return f"{home}$'{spelled}'"


def tilde(path: Path, home: Path) -> str:
    """Return a path as people write it: below their home with ``~``."""
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def plain_end(result: Result) -> str:
    """Return the last plain line."""
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    text = f"{result.status} after {rounds}, {money(result.usd)}: {result.title}"
    return f"{clock(result.seconds):>5} {Look().clean(text)}"
