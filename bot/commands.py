"""Comment text → Command, Refusal, or nothing. Pure.

Owns the option models, from which flags, their checks and the help are made, and the table of verbs. Where a command
may stand and what its words are is grammar.py's. It never asks GitHub and never starts anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo

from bot import grammar, replies
from bot.config import COMMENT_AGENTS
from bot.grammar import Token
from bot.redact import visible

LINE_LIMIT = 8000
"""Characters of the longest command line."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@#+=-]{0,199}")

# ---- Option models: one model gives the flags, their checks and their help ------------------------------------------


@dataclass(frozen=True, slots=True)
class Flag:
    """What is known of an option besides its type."""

    value: str
    """How its value is written in help; empty where it takes none."""
    takes: str
    """What it takes, to follow "`--flag` takes"; ``{max_rounds}`` stands for the ceiling."""
    example: str
    says: str


def _whole(text: object) -> object:
    if isinstance(text, str):
        if not _NUMBER.fullmatch(text):
            raise ValueError("not a whole number")
        return int(text)
    return text


def _pull_number(text: object) -> object:
    return _whole(text.removeprefix("#") if isinstance(text, str) else text)


def _rounds(text: object, info: ValidationInfo) -> object:
    number = _whole(text)
    ceiling = (info.context or {}).get("max_rounds")
    if isinstance(number, int) and ceiling is not None and number > ceiling:
        raise ValueError("more than the ceiling")
    return number


def is_branch_name(name: str) -> bool:
    """Return whether a text may be the name of a branch, by stricter rules than git's.

    No option, revision expression, range, refspec or full reference passes (threats.md, inputs 49 to 53). What passes
    is looked up as a branch by the API.
    """
    if not _BRANCH.fullmatch(name) or name.startswith("refs/") or name in {"HEAD", "@"}:
        return False
    parts = name.split("/")
    return ".." not in name and all(part and part[0] != "." and not part.endswith((".", ".lock")) for part in parts)


def _branch(name: object) -> object:
    if not isinstance(name, str) or not is_branch_name(name):
        raise ValueError("not the name of a branch")
    return name


def _comment_agent(name: object) -> object:
    if name not in COMMENT_AGENTS:
        raise ValueError("no agent that a comment may name")
    return name


def _said(text: object) -> object:
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no text")
    return visible(text)


_AGENTS = f"one of {', '.join(COMMENT_AGENTS)}"


class Review(BaseModel):
    """`/codex-debate review`: the options of a review."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: Annotated[int | None, BeforeValidator(_pull_number)] = None
    base: Annotated[
        str | None,
        BeforeValidator(_branch),
        Flag("B", "the name of a branch of this repository", "main", "compare with branch B instead of the own base"),
    ] = None
    max_rounds: Annotated[
        int | None,
        BeforeValidator(_rounds),
        Flag("N", "a whole number from 1 to {max_rounds}", "3", "end after N rounds; 1 is a review without edits"),
    ] = None
    no_commit: Annotated[bool, Flag("", "", "", "offer the fixes as a patch, make no commits")] = False
    no_comment: Annotated[bool, Flag("", "", "", "report in the check run alone")] = False
    rationale: Annotated[
        str,
        BeforeValidator(_said),
        Flag('"…"', "a text in quotation marks", '"as agreed"', "why the change is as it is"),
    ] = ""
    context: Annotated[
        str,
        BeforeValidator(_said),
        Flag('"…"', "a text in quotation marks", '"see the plan"', "what the change is for; only the author reads it"),
    ] = ""
    push: Annotated[bool, Flag("", "", "", "not in this version")] = False
    reviewer: Annotated[str | None, BeforeValidator(_comment_agent), Flag("AGENT", _AGENTS, "codex", "who reviews")] = (
        None
    )
    author: Annotated[
        str | None, BeforeValidator(_comment_agent), Flag("AGENT", _AGENTS, "claude", "who answers and fixes")
    ] = None


class Help(BaseModel):
    """`/codex-debate help`: what is explained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verb: str | None = None


# ---- Commands -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """What a person asked for. Nothing is started by it yet."""

    verb: str
    options: Review | Help | None
    """None: the verb is not in this version."""
    line: str
    """The command as it was written, without the blanks around it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that cannot be carried out as it stands, and the reply that says so."""

    reply: str
    open: bool = False
    """It may be told to readers, as help is (interface.md 4)."""


Reading: TypeAlias = Command | Refusal | None
Parse: TypeAlias = Callable[[list[Token], int], Review | Help | Refusal]


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table of commands."""

    usage: str
    """What to write, in help."""
    says: str
    """What it does, to follow the usage."""
    parse: Parse | None = None
    """Reads what follows the verb; None: not in this version."""


def available(verb: str) -> bool:
    """Return whether this version carries out a verb."""
    return VERBS[verb].parse is not None


def parse(text: str, *, max_rounds: int) -> Reading:
    """Return what a comment asks for: nothing, one command, or why it is none that can be carried out.

    `max_rounds` is the operator's ceiling of rounds.
    """
    lines = grammar.find(text)
    if not lines:
        return None
    if len(lines) > 1:
        return Refusal(replies.two_commands(lines[0], lines[1]))
    line = lines[0]
    if len(line) > LINE_LIMIT:
        return Refusal(replies.too_long(LINE_LIMIT))
    return _read(line, max_rounds)


def _read(line: str, max_rounds: int) -> Command | Refusal:
    word, rest = grammar.split(line)
    if word != "/codex-debate":
        return Command(word.removeprefix("/"), None, line)
    head = re.split(r"[ \t]", rest, maxsplit=1)[0]
    if head in VERBS and head not in {"lens-debate", "code-debate"}:
        verb, rest = head, rest[len(head) :]
    elif not head or head.startswith("-") or _NUMBER.fullmatch(head.removeprefix("#")):
        verb = "review"
    else:
        return _no_verb(head, rest)
    reader = VERBS[verb].parse
    if reader is None:
        return Command(verb, None, line)
    tokens = grammar.tokens(rest)
    options = Refusal(replies.open_quote()) if tokens is None else reader(tokens, max_rounds)
    return options if isinstance(options, Refusal) else Command(verb, options, line)


def _no_verb(head: str, rest: str) -> Refusal:
    """Return the reply to a first word that is no verb: a slip of the pen, or prose."""
    alone = head == rest.strip(grammar.BLANKS)
    near = get_close_matches(head[:40], [name for name in VERBS if "-" not in name], n=1, cutoff=0.6 if alone else 0.75)
    if near or alone:
        return Refusal(replies.unknown_verb(head, VERBS[near[0]].usage if near else None))
    return Refusal(replies.which_one(rest, answer=available("answer")))


# ---- Verbs ----------------------------------------------------------------------------------------------------------


def _flags(model: type[BaseModel]) -> dict[str, tuple[str, Flag]]:
    """Return the flags of an option model: how each is written, its field, and what is known of it."""
    return {
        "--" + name.replace("_", "-"): (name, known)
        for name, field in model.model_fields.items()
        for known in field.metadata
        if isinstance(known, Flag)
    }


_REVIEW = _flags(Review)


def _review(tokens: list[Token], max_rounds: int) -> Review | Refusal:
    """Read the options of a review."""
    given: dict[str, object] = {}
    waiting = list(tokens)
    while waiting:
        token = waiting.pop(0)
        if not token.flag:
            refusal = _positional(token.text, given)
        else:
            following = waiting[0] if waiting and not waiting[0].flag else None
            refusal, taken = _option(token, following, given)
            if taken:
                waiting.pop(0)
        if refusal:
            return refusal
    if given.get("push"):
        return Refusal(replies.no_push_flag())
    try:
        return Review.model_validate(given, context={"max_rounds": max_rounds})
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        flag = "--" + field.replace("_", "-")
        known = _REVIEW[flag][1]
        return Refusal(replies.bad_value(flag, known.takes.format(max_rounds=max_rounds), _example(flag)))


def _positional(word: str, given: dict[str, object]) -> Refusal | None:
    if not _NUMBER.fullmatch(word.removeprefix("#")):
        return Refusal(replies.unexpected("review", word))
    if "number" in given:
        return Refusal(replies.two_numbers("review"))
    given["number"] = word
    return None


def _option(token: Token, following: Token | None, given: dict[str, object]) -> tuple[Refusal | None, bool]:
    """Read one flag into `given`; return what is wrong with it, and whether the following word was its value."""
    if token.flag not in _REVIEW:
        return Refusal(replies.unknown_flag("review", token.flag, _nearest(token, following))), False
    name, known = _REVIEW[token.flag]
    if name in given:
        return Refusal(replies.given_twice(token.flag, _example(token.flag))), False
    if not known.value:
        given[name] = True
        return (Refusal(replies.takes_nothing(token.flag)) if token.joined else None), False
    if token.joined or following is None:
        # A value that is missing is an empty one, which no flag takes.
        given[name] = token.text
        return None, False
    given[name] = following.text
    return None, True


def _nearest(token: Token, following: Token | None) -> str | None:
    """Return our own flag that a wrong one comes closest to, with the value that was given."""
    near = get_close_matches(token.flag[:40], _REVIEW, n=1, cutoff=0.6)
    if not near:
        return None
    value = token.text if token.joined else following.text if following else ""
    return f"{near[0]} {value}".strip() if _REVIEW[near[0]][1].value else near[0]


def _example(flag: str) -> str:
    return f"/codex-debate review {flag} {_REVIEW[flag][1].example}".rstrip()


def _help(tokens: list[Token], _max_rounds: int) -> Help | Refusal:
    """Read which command is to be explained."""
    if not tokens:
        return Help()
    name = tokens[0].text.removeprefix("/")
    if len(tokens) == 1 and name in VERBS:
        return Help(verb=name)
    if len(tokens) > 1:
        return Refusal(replies.bad_value("help", "the name of one command", "/codex-debate help review"), open=True)
    word = tokens[0].text or tokens[0].flag
    near = get_close_matches(word[:40], VERBS, n=1)
    return Refusal(replies.unknown_verb(word, f"/codex-debate help {near[0]}" if near else None), open=True)


VERBS: Mapping[str, Verb] = {
    "review": Verb("/codex-debate review", "reviews and fixes this pull request", _review),
    "answer": Verb("/codex-debate answer …", "answers a question"),
    "discuss": Verb("/codex-debate discuss …", "weighs a topic with evidence"),
    "board": Verb("/codex-debate board …", "decides, or asks you"),
    "lens-debate": Verb("/lens-debate", "reviews the structure"),
    "code-debate": Verb("/code-debate …", "argues one subject in a document"),
    "status": Verb("/codex-debate status", "says how the debate here stands"),
    "stop": Verb("/codex-debate stop", "ends the debate here"),
    "retry": Verb("/codex-debate retry", "starts the last debate here again"),
    "push": Verb("/codex-debate push", "puts the agreed commits on the branch"),
    "approve": Verb("/codex-debate approve SHA", "allows an outsider's commit"),
    "config": Verb("/codex-debate config", "shows the settings and where each comes from"),
    "help": Verb("/codex-debate help", "lists the commands; `help review` lists the flags of one", _help),
}
"""Every command, in the order of help. `lens-debate` and `code-debate` are words of their own."""


def help_text(topic: Help, *, max_rounds: int) -> str:
    """Return the reply to `help`, made from the table and the option models."""
    if topic.verb is None:
        rows = [(verb.usage, verb.says) for name, verb in VERBS.items() if available(name)]
        return replies.help_overview(rows, [name for name in VERBS if not available(name)])
    verb = VERBS[topic.verb]
    if not available(topic.verb):
        return not_yet(topic.verb)
    flags = []
    if topic.verb == "review":
        flags.append(("<pr>", "the number of the pull request, where the command stands somewhere else"))
        for flag, (_, known) in _REVIEW.items():
            takes = f" ({known.takes.format(max_rounds=max_rounds)})" if known.takes else ""
            flags.append((f"{flag} {known.value}".rstrip(), known.says + takes))
    return replies.help_verb(verb.usage, verb.says, flags)


def not_yet(verb: str) -> str:
    """Return the reply to a command that is not in this version."""
    return replies.not_in_this_version(
        VERBS[verb].usage.removesuffix(" …"), [row.usage for name, row in VERBS.items() if available(name)]
    )
