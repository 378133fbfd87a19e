"""Who may, where and when: a command and the facts → a decision. Pure.

Owns the rules by which a debate is started or refused. It asks nobody: handlers gather the facts and carry
out the decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from bot import commands, replies
from bot.commands import Command, Reading, Refusal
from bot.config import BadConfig, Config
from bot.events import Actor, CommentCreated
from bot.github.verbs import Permission, PullRequest
from bot.options import Approve, Help, Review

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
    authority: Actor
    """Whose write permission it stands on."""
    approved: bool = False
    """It stands on an approval of exactly this commit."""
    approves: bool = False
    """This command is that approval."""
    protect: tuple[str, ...] = ()
    """Paths that the author may not change, as the base branch's configuration says."""


@dataclass(frozen=True, slots=True)
class Tell:
    """A reply, and nothing is started."""

    reply: str
    reaction: Reaction = "confused"
    once: str = ""
    """Where not empty: a reply of this name is given once in `seconds`; later, nothing is. Without a name the same
    words are given once in a minute under an issue or pull request."""
    seconds: int = DAY
    open: bool = False
    """It may be given to those who may only read (interface.md 4), each thing once an hour."""


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
    approver: Actor | None = None
    """Who approved exactly the commit that is the head now."""
    config: Config | BadConfig = field(default_factory=Config)
    """The file of the pull request's base branch."""
    base_exists: bool = True
    """`--base` names a branch of this repository, or was not given."""
    refused: str = ""
    """Where GitHub refused for good to show what a review depends on: its answer."""


def hears(event: CommentCreated, bots: Collection[int], own_id: int | None) -> Ignore | None:
    """Return why a comment is not heard at all, before it is read; None where it is.

    Only a person's own hand is heard, or a bot that the operator lists by number; never our own (threats.md T5, T6).
    `own_id` is our bot account, or None where it was not asked: it matters for bots alone.
    """
    if event.author.id != event.sender.id:
        return Ignore("the sender is not the author")
    if event.author.type == "Bot":
        if event.author.id not in bots:
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
    """Return the number of the pull request that a command is about, or None where none was named on an issue."""
    named = command.options.number if isinstance(command.options, Review) else None
    return named or (event.number if event.on_pull_request else None)


# ---- The decision ---------------------------------------------------------------------------------------------------


def decide(event: CommentCreated, reading: Reading, facts: Facts, *, max_rounds: int) -> Decision:
    """Return what is to be done about a comment that was heard.

    A fact that is missing because it could not be read counts against the command.
    """
    if reading is None:
        return Ignore("no command")
    place = f"{event.repository.id}:{event.number}"
    if not facts.served:
        return Tell(replies.not_served(event.repository.full_name), once=f"not-served:{place}")
    told = _told(reading, max_rounds=max_rounds)
    if told is not None and told.open and not may(event, facts.permission):
        return replace(told, once=f"help:{place}:{event.author.id}:{_topic(reading)}", seconds=HOUR)
    if not may(event, facts.permission):
        return Tell(replies.no_permission(), once=f"no-permission:{place}")
    if told is not None:
        return told
    if not isinstance(reading, Command) or not isinstance(reading.options, Review | Approve):
        raise TypeError(f"{reading} starts nothing")  # pragma: no cover - it was told
    return _debate(event, reading, reading.options, facts)


def _told(reading: Command | Refusal, *, max_rounds: int) -> Tell | None:
    """Return the reply to what starts nothing, whoever asks; None where it starts something."""
    match reading:
        case Refusal(reply, is_open, verb):
            later = bool(verb) and not commands.available(verb)
            return Tell(commands.not_yet(verb) if later else reply, open=is_open)
        case Command(_, Help() as topic):
            return Tell(commands.help_text(topic, max_rounds=max_rounds), reaction="rocket", open=True)
        case Command(verb, options) if not isinstance(options, Review | Approve):
            return Tell(commands.not_yet(verb), open=commands.VERBS[verb].open)
        case _:
            return None


def _topic(reading: Command | Refusal) -> str:
    """Return what a reader asked about, of few possible things: each is answered once in a while."""
    match reading:
        case Command(_, Help(verb=topic)):
            return topic or "all"
        case Command(verb):
            return f"of {verb}"
        case _:
            return "misread"


def may(event: CommentCreated, permission: Permission | None) -> bool:
    """Return whether who wrote a comment that is heard may start a debate.

    A person needs write permission. A bot that is heard was listed by the operator, which is its permission: GitHub
    tells none of an App's bot ("… is not a user").
    """
    return event.author.type == "Bot" or writes(permission, event.author.id)


def writes(permission: Permission | None, user_id: int) -> bool:
    """Return whether an account may write, by number: a name that changed hands gives nothing (threats.md, 66)."""
    return permission is not None and permission.writes and permission.user_id == user_id


def _debate(  # noqa: PLR0911 - one return a rule, in the order in which they hold
    event: CommentCreated, command: Command, options: Review | Approve, facts: Facts
) -> Decision:
    """Return what is to be done about a command that starts a review, from somebody with write permission."""
    number = target(event, command)
    if number is None:
        on_issue = replies.needs_pull_request() if isinstance(options, Review) else replies.approve_elsewhere()
        return Tell(on_issue)
    if facts.refused:
        return Tell(replies.unreadable(facts.refused))
    pull = facts.pull
    if pull is None:
        return Tell(replies.no_such_pull_request(number))
    if pull.state != "open":
        return Tell(replies.not_open(number, merged=pull.merged))
    if pull.locked:
        return Tell(replies.locked(number))
    if isinstance(options, Approve) and not pull.head.sha.startswith(options.sha):
        return Tell(replies.not_the_head(options.sha, pull.head.sha))
    return _begin(event, options, pull, facts)


def _begin(event: CommentCreated, options: Review | Approve, pull: PullRequest, facts: Facts) -> Decision:
    """Return what is to be done about an open pull request that somebody with write permission wants debated."""
    approves, base = isinstance(options, Approve), pull.base.ref
    ours = inside(pull, facts.author_permission)
    if approves and event.author.type == "Bot":
        return Tell(replies.approved_by_persons())
    if not (approves or facts.approver or ours):
        elsewhere = pull.number if pull.number != event.number else None
        return Tell(replies.from_outside(pull.head.sha, elsewhere=elsewhere))
    if isinstance(facts.config, BadConfig):
        return Tell(replies.bad_config(base, facts.config.line, facts.config.fault))
    if pull.draft and not facts.config.auto.drafts:
        return Tell(replies.draft(pull.number, base))
    review = options if isinstance(options, Review) else Review()
    if not facts.base_exists:
        return Tell(replies.no_such_base(review.base or "", base))
    authority = event.author if event.author.type != "Bot" else stands_on(pull, ours=ours, approver=facts.approver)
    return Start(
        review,
        pull,
        review.base or base,
        authority,
        approved=approves or not ours,
        approves=approves,
        protect=facts.config.protect,
    )


def stands_on(pull: PullRequest, *, ours: bool, approver: Actor | None) -> Actor:
    """Return on whose write permission a debate stands that no person commanded: its author's, else the approver's."""
    if ours and pull.user is not None:
        return Actor(pull.user.id, pull.user.login, pull.user.type)
    if approver is None:
        raise ValueError("it comes from outside, and nobody has approved it")
    return approver


def inside(pull: PullRequest, author: Permission | None) -> bool:
    """Return whether a pull request comes from inside: its head is in this repository, its author may write here."""
    return not pull.from_fork and pull.user is not None and writes(author, pull.user.id)


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
