"""Who may, where and when: a command and the facts → a decision. Pure.

Owns the rules by which a debate is started or refused. It asks nobody: handlers gather the facts and carry
out the decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from bot import commands, replies
from bot.commands import Command, Help, Reading, Refusal, Review
from bot.events import CommentCreated
from bot.github.verbs import Permission, PullRequest

DAY = 86400
HOUR = 3600

Reaction: TypeAlias = Literal["eyes", "rocket", "confused"]

# ---- Decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """A debate may start on this pull request, as it was when it was looked at."""

    review: Review
    pull: PullRequest
    base: str
    """The branch to compare with."""


@dataclass(frozen=True, slots=True)
class Tell:
    """A reply, and nothing is started."""

    reply: str
    reaction: Reaction = "confused"
    once: str = ""
    """Where not empty: given once in `seconds` for this name; later, neither reply nor reaction is given."""
    seconds: int = DAY


@dataclass(frozen=True, slots=True)
class Ignore:
    """Nothing is done and nothing is said. `reason` is for the log."""

    reason: str


Decision: TypeAlias = Start | Tell | Ignore

# ---- Facts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read in order to decide. None: it was not asked, since nothing depended on it."""

    served: bool
    """This server works for the repository."""
    permission: Permission | None = None
    """The commander's, asked of GitHub now."""
    pull: PullRequest | None = None
    """The pull request that the command is about, or None where there is none."""
    author_permission: Permission | None = None
    """That of the pull request's author."""
    base_exists: bool = True
    """`--base` names a branch of this repository, or was not given."""
    refused: str = ""
    """Where GitHub refused for good to show what a review depends on: its answer."""


@dataclass(frozen=True, slots=True)
class Server:
    """What the operator decided, as far as policy goes."""

    bots: frozenset[int] = field(default=frozenset())
    """Ids of bots that may command."""


def hears(event: CommentCreated, server: Server, own_id: int | None) -> Ignore | None:
    """Return why a comment is not heard at all, before it is read; None where it is.

    Only a person's own hand is heard, or a bot that the operator lists by number; never our own (threats.md T5, T6).
    `own_id` is our bot account, or None where it was not asked: it matters for bots alone.
    """
    if event.author.id != event.sender.id:
        return Ignore("the sender is not the author")
    if event.author.type == "Bot":
        if event.author.id not in server.bots:
            return Ignore("a bot")
        return Ignore("our own comment") if event.author.id == own_id else None
    if event.author.type != "User":
        return Ignore("no person")
    return Ignore("written through an App") if event.via_app else None


def serves(full_name: str, owner_id: int, *, allow: Iterable[str], app_owner_id: int) -> bool:
    """Return whether this server works for a repository: by the operator's list, else for the App owner's account."""
    globs = tuple(allow)
    if not globs:
        return owner_id == app_owner_id
    name = full_name.lower()
    owner = name.partition("/")[0]
    return any(fnmatchcase(name if "/" in glob else owner, glob.lower()) for glob in globs)


def target(event: CommentCreated, command: Command) -> int | None:
    """Return the number of the pull request that a review is about, or None where none was named on an issue."""
    named = command.options.number if isinstance(command.options, Review) else None
    return named or (event.number if event.on_pull_request else None)


# ---- The decision ---------------------------------------------------------------------------------------------------


def decide(  # noqa: PLR0911 - one return a rule, in the order in which they hold
    event: CommentCreated, reading: Reading, facts: Facts, *, max_rounds: int
) -> Decision:
    """Return what is to be done about a comment that was heard.

    A fact that is missing because it could not be read counts against the command.
    """
    if reading is None:
        return Ignore("no command")
    place = f"{event.repository.id}:{event.number}"
    if not facts.served:
        return Tell(replies.not_served(event.repository.full_name), once=f"not-served:{place}")
    if isinstance(reading, Command) and isinstance(reading.options, Help):
        text = commands.help_text(reading.options, max_rounds=max_rounds)
        return Tell(text, reaction="rocket", once=f"help:{place}:{event.author.id}", seconds=HOUR)
    if isinstance(reading, Refusal) and reading.open:
        return Tell(reading.reply, once=f"help:{place}:{event.author.id}", seconds=HOUR)
    if not writes(facts.permission, event.author.id):
        return Tell(replies.no_permission(), once=f"no-permission:{place}")
    if isinstance(reading, Refusal):
        return Tell(reading.reply)
    if not isinstance(reading.options, Review):
        return Tell(commands.not_yet(reading.verb))
    return _review(event, reading, reading.options, facts)


def writes(permission: Permission | None, user_id: int) -> bool:
    """Return whether an account may write, by number: a name that changed hands gives nothing (threats.md, 66)."""
    return permission is not None and permission.writes and permission.user_id == user_id


def _review(  # noqa: PLR0911 - the same
    event: CommentCreated, command: Command, review: Review, facts: Facts
) -> Decision:
    """Return what is to be done about a review that somebody with write permission asked for."""
    number = target(event, command)
    if number is None:
        return Tell(replies.needs_pull_request())
    if facts.refused:
        return Tell(replies.unreadable(facts.refused))
    pull = facts.pull
    if pull is None:
        return Tell(replies.no_such_pull_request(number))
    if pull.state != "open":
        return Tell(replies.not_open(number, merged=pull.merged))
    if pull.locked:
        return Tell(replies.locked(number))
    if not inside(pull, facts.author_permission):
        return Tell(replies.from_outside())
    if not facts.base_exists:
        return Tell(replies.no_such_base(review.base or "", pull.base.ref))
    return Start(review, pull, review.base or pull.base.ref)


def inside(pull: PullRequest, author: Permission | None) -> bool:
    """Return whether a pull request comes from inside: its head is in this repository, its author may write here."""
    head, base = pull.head.repo, pull.base.repo
    if head is None or base is None or head.id != base.id:
        return False
    return pull.user is not None and writes(author, pull.user.id)


# ---- After the claim ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Running:
    """What is known of the debate that stands in the way."""

    created_at: datetime
    round: int | None
    url: str | None
    """Where its check run is shown."""
    ended: bool


def waits(running: Running, now: datetime) -> str:
    """Return the reply to a command whose run waits behind another."""
    minute = max(1, int((now - running.created_at).total_seconds() // 60))
    return replies.running(running.round, minute, url=running.url, stop=commands.available("stop"))


def full() -> str:
    """Return the reply to a command for which there is no place."""
    return replies.third(stop=commands.available("stop"))


def repeat(running: Running) -> str:
    """Return the reply to a command that was given a moment ago."""
    return replies.repeated(url=running.url, ended=running.ended, stop=commands.available("stop"))
