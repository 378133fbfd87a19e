"""Comment text → Command, Refusal, or nothing. Pure.

Owns the table of verbs, and the help that is made from it. What each verb takes is options.py's, how that is read
arguments.py's, where a command may stand in a comment grammar.py's. It never asks GitHub and never starts anything.

Where interface.md leaves it open: `help` alone behind `/lens-debate` or `/code-debate` asks for the help of that
command; any other words there are what the command takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from bot import arguments, grammar, replies
from bot.arguments import MisreadError, shape
from bot.options import (
    PROMPT_LIMIT,
    Answer,
    Approve,
    Board,
    CodeDebate,
    Config,
    Discuss,
    Help,
    Lens,
    Options,
    Push,
    Retry,
    Review,
    Status,
    Stop,
    is_pull_number,
)

COMMENT_LIMIT = 65_536
"""Characters of a comment that are searched for commands: the most that GitHub says a comment has (see `PROMPT_LIMIT`).

It takes four times as many in ASCII letters, and parsing them would keep other deliveries waiting.
"""
LINE_LIMIT = 8000
"""Characters of the longest command line; where a prompt follows, the prompt's own limit holds."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a person asked for. Nothing is started by it yet."""

    verb: str
    options: Options
    line: str
    """The command as it was written, with its prompt where it takes one, and without the blanks around it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that cannot be carried out as it stands, and the reply that says so."""

    reply: str
    open: bool = False
    """It may be told to readers, as help is (interface.md 4)."""
    verb: str = ""
    """The verb, where what follows it is at fault."""


Reading: TypeAlias = Command | Refusal | None


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table of commands."""

    options: type[Options]
    says: str
    """What it does, to follow the usage."""
    here: bool = False
    """This version carries it out."""
    open: bool = False
    """It is open to those who may only read (interface.md 4)."""


VERBS: Mapping[str, Verb] = {
    "review": Verb(Review, "reviews and fixes this pull request", here=True),
    "answer": Verb(Answer, "answers a question"),
    "discuss": Verb(Discuss, "weighs a topic with evidence"),
    "board": Verb(Board, "decides, or asks you"),
    "lens-debate": Verb(Lens, "reviews the structure"),
    "code-debate": Verb(CodeDebate, "argues one subject in a document"),
    "status": Verb(Status, "says how the debate here stands", open=True),
    "stop": Verb(Stop, "ends the debate here"),
    "retry": Verb(Retry, "starts the last debate here again"),
    "push": Verb(Push, "puts the agreed commits on the branch"),
    "approve": Verb(Approve, "allows an outsider's commit", here=True),
    "config": Verb(Config, "shows the settings and where each comes from"),
    "help": Verb(Help, "lists the commands; `help review` lists the flags of one", here=True, open=True),
}
"""Every command, in the order of help."""

_OWN_WORDS = ("lens-debate", "code-debate")
"""Verbs that are written as words of their own, without `/codex-debate`."""


def available(verb: str) -> bool:
    """Return whether this version carries out a verb."""
    return VERBS[verb].here


# ---- Reading --------------------------------------------------------------------------------------------------------


def parse(text: str, *, max_rounds: int) -> Reading:
    """Return what a comment asks for: nothing, one command, or why it is none that can be carried out.

    `max_rounds` is the operator's ceiling of rounds.
    """
    found = grammar.find(text[:COMMENT_LIMIT])
    if not found:
        return None
    if len(text) > COMMENT_LIMIT:
        return Refusal(replies.too_long("comment", COMMENT_LIMIT))
    if grammar.count_lines(text) > grammar.LINES_LIMIT:
        return Refusal(replies.too_long("comment", grammar.LINES_LIMIT, unit="lines"))
    if len(found) > 1:
        return Refusal(replies.two_commands(found[0].line, found[1].line))
    return _read(found[0], text, max_rounds=max_rounds)


def _read(found: grammar.Found, text: str, *, max_rounds: int) -> Command | Refusal:
    """Read the one command of a comment."""
    verb, rest = _verb(found.line)
    prompted = verb is not None and shape(VERBS[verb].options).prose is not None
    if not prompted and len(found.line) > LINE_LIMIT:
        return Refusal(replies.too_long("command", LINE_LIMIT))
    if verb is None:
        return _no_verb(rest)
    row, below = VERBS[verb], grammar.below(text, found) if prompted else ""
    try:
        options = arguments.read(row.options, rest, below=below, start=_start(verb), max_rounds=max_rounds)
    except MisreadError as error:
        return Refusal(error.reply, open=row.open, verb=verb)
    return _refused(options) or Command(verb, options, f"{found.line}\n{below}".rstrip())


def _verb(line: str) -> tuple[str | None, str]:
    """Return the verb of a command line and what follows it; no verb where its first word is none."""
    word, rest = grammar.split(line)
    head, behind = grammar.cut(rest)
    own = word.removeprefix("/")
    if own in _OWN_WORDS:
        return ("help", own) if rest == "help" else (own, rest)
    if head in VERBS and head not in _OWN_WORDS:
        return head, behind
    if not head or head.startswith("-") or is_pull_number(head):
        return "review", rest
    return None, rest


def _refused(options: Options) -> Refusal | None:
    """Return the reply to options that fit and cannot be carried out all the same."""
    match options:
        case Review(push=True):
            return Refusal(replies.no_push_flag())
        case Help(verb=str(name)) if name not in VERBS:
            near = _near(name, 0.6)
            return Refusal(replies.unknown_verb(name, f"/codex-debate help {near}" if near else None), open=True)
        case _:
            return None


def _no_verb(rest: str) -> Refusal:
    """Return the reply to a first word that is no verb: a slip of the pen, or prose."""
    head, behind = grammar.cut(rest)
    near = _near(head, 0.75 if behind else 0.6)
    if near or not behind:
        return Refusal(replies.unknown_verb(head, usage(near) if near else None))
    return Refusal(replies.which_one(rest, answer=available("answer")))


def _near(word: str, cutoff: float) -> str | None:
    """Return the verb that a word comes closest to; the short names of `lens-debate` and `code-debate` count."""
    names = {verb: verb for verb in VERBS} | {verb.removesuffix("-debate"): verb for verb in _OWN_WORDS}
    near = get_close_matches(word[:40], names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def _named(verb: str) -> str:
    """Return a verb as people speak of it."""
    return f"/{verb}" if verb in _OWN_WORDS else verb


def _start(verb: str) -> str:
    """Return how a verb is written in a comment."""
    return f"/{verb}" if verb in _OWN_WORDS else f"/codex-debate {verb}"


# ---- Help -----------------------------------------------------------------------------------------------------------


def usage(verb: str) -> str:
    """Return what to write for a verb: itself, a word that it needs, and `…` where a text follows."""
    known = shape(VERBS[verb].options)
    needed = known.word[1].shown if known.word and known.needs_word else ""
    return " ".join(filter(None, [_start(verb), needed, "…" if known.prose else ""]))


def help_text(topic: Help, *, max_rounds: int) -> str:
    """Return the reply to `help`, made from the table and the option models."""
    if topic.verb is None:
        rows = [(usage(name), verb.says) for name, verb in VERBS.items() if verb.here]
        return replies.help_overview(rows, [_named(name) for name, verb in VERBS.items() if not verb.here])
    verb = VERBS[topic.verb]
    return replies.help_verb(usage(topic.verb), verb.says, _takes(verb.options, max_rounds), here=verb.here)


def _takes(model: type[Options], max_rounds: int) -> list[tuple[str, str]]:
    """Return what a command takes, each with its meaning, in the order in which it is written."""
    known = shape(model)
    rows = [(known.word[1].shown, known.word[1].says)] if known.word else []
    for flag, (_, each) in known.flags.items():
        takes = f" ({each.takes.format(max_rounds=max_rounds)})" if each.takes else ""
        rows.append((f"{flag} {each.value}".rstrip(), each.says + takes))
    if known.lead:
        rows.append((known.lead[1].shown, known.lead[1].says))
    if known.prose:
        rows.append(
            (known.prose[1].shown, replies.help_prompt(known.prose[1].says, PROMPT_LIMIT, lines=grammar.LINES_LIMIT))
        )
    return rows


def not_yet(verb: str) -> str:
    """Return the reply to a command that is not in this version."""
    return replies.not_in_this_version(_start(verb), [usage(name) for name, row in VERBS.items() if row.here])
