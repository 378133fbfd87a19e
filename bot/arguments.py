"""What follows a verb → its option model, or why it is none. Pure.

One reader for all verbs, driven by what the fields of an option model say of themselves: a `Flag`, or what stands
without one, a `Word`, a `Lead` or the `Prose` behind them. The models are options.py's, how words are told apart is
grammar.py's. Flags and words come in any order. Where there is prose, the flags come first and all on the command's
line, and the prose is all that follows: on that line, from the first word that is no flag, and below it. One pair of
quotation marks around the whole of it is taken off; within, it keeps its text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bot import grammar, replies
from bot.grammar import Token

Model = TypeVar("Model", bound=BaseModel)
_PLAIN = re.compile(r"[0-9A-Za-z]{1,64}")

_EMPTY_LINES = re.compile(r"\A(?:[ \t]*\n)+")


class MisreadError(Exception):
    """What follows a verb cannot be carried out as it stands."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply
        """Says what is wrong, and what to write."""


def read(model: type[Model], rest: str, *, below: str, start: str, max_rounds: int) -> Model:
    """Return what follows a verb as its options.

    `rest` is what follows it on its line, `below` the text under that line, which only prose takes; `start` is the
    command up to its verb, for examples; `max_rounds` is the ceiling of rounds. Raises `MisreadError` for the first
    fault of the line. Its cost grows with the length of the text and no faster.
    """
    line = _Line(model, rest, start, max_rounds)
    fault = None
    try:
        _gather(line, below)
    except MisreadError as found:
        fault = found
    try:
        options = model.model_validate(line.given, context={"max_rounds": max_rounds})
    except ValidationError as error:
        # What was given before the fault may be wrong as well, and stands before it.
        wrong = _first_wrong(line, error)
        if wrong or not fault:
            raise MisreadError(_misfit(line, wrong)) from None
    if fault:
        raise fault
    return options


def example(model: type[BaseModel], start: str, flag: str = "") -> str:
    """Return how a command is written: `start` and what it cannot do without, and a flag where one is named."""
    known = shape(model)
    parts = [start]
    if flag:
        parts += [flag, known.flags[flag][1].example]
    elif known.word and (known.needs_word or not known.flags):
        parts.append(known.word[1].example)
    if known.prose:
        parts.append(known.prose[1].example)
    return " ".join(part for part in parts if part)


# ---- What is known of a field besides its type ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flag:
    """An option that is switched on, or given a value, by its name."""

    value: str
    """How its value is written in help; empty where it takes none."""
    takes: str
    """What it takes, to follow "`--flag` takes"; ``{max_rounds}`` stands for the ceiling."""
    example: str
    says: str


@dataclass(frozen=True, slots=True)
class Word:
    """A word that needs no flag."""

    shown: str
    """How it is written in help."""
    one: str
    """What it names, to follow "takes one"."""
    takes: str
    """What it takes, to follow "`verb` takes"."""
    example: str
    says: str


@dataclass(frozen=True, slots=True)
class Lead:
    """A word that counts only before a text in quotation marks, or alone on what is left of its line."""

    shown: str
    words: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Prose:
    """The prompt: all that follows the flags, on the command's line and below it."""

    shown: str
    takes: str
    """What it is, to follow "`verb` takes"."""
    example: str
    says: str


# ---- What a model says of itself ------------------------------------------------------------------------------------

Known = TypeVar("Known", Flag, Word, Lead, Prose)


@dataclass(frozen=True, slots=True)
class Shape:
    """How the fields of a model are written: each with its name and what is known of it."""

    flags: Mapping[str, tuple[str, Flag]]
    """By their spelling, in the order of help."""
    word: tuple[str, Word] | None
    lead: tuple[str, Lead] | None
    prose: tuple[str, Prose] | None
    needs_word: bool
    """The command means nothing without its word."""


def spelled(name: str) -> str:
    """Return the flag of a field. One whose name Python keeps for itself ends with an underscore."""
    return "--" + name.rstrip("_").replace("_", "-")


@cache
def shape(model: type[BaseModel]) -> Shape:
    """Return how the fields of an option model are written in a command."""
    word = _first(model, Word)
    return Shape(
        flags={spelled(name): (name, known) for name, known in _fields(model, Flag)},
        word=word,
        lead=_first(model, Lead),
        prose=_first(model, Prose),
        needs_word=word is not None and model.model_fields[word[0]].is_required(),
    )


def _first(model: type[BaseModel], kind: type[Known]) -> tuple[str, Known] | None:
    return next(_fields(model, kind), None)


def _fields(model: type[BaseModel], kind: type[Known]) -> Iterator[tuple[str, Known]]:
    for name, info in model.model_fields.items():
        for known in info.metadata:
            if isinstance(known, kind):
                yield name, known


# ---- Reading --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """What follows a verb, how far it is read, and what was found."""

    model: type[BaseModel]
    rest: str
    start: str
    max_rounds: int
    place: int = 0
    given: dict[str, object] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return shape(self.model)

    @property
    def verb(self) -> str:
        return self.start.rpartition(" ")[2].removeprefix("/")

    @property
    def without(self) -> str:
        """How to write the command where it has no flags at all, with the word that was given where one is needed."""
        if self.shape.flags:
            return ""
        if self.shape.word is None or not self.shape.needs_word:
            return self.start
        given = str(self.given.get(self.shape.word[0], ""))
        return f"{self.start} {given}" if _PLAIN.fullmatch(given) else example(self.model, self.start)


def _gather(line: _Line, below: str) -> None:
    """Read all that follows the verb into `given`."""
    line.place = grammar.skip(line.rest, 0)
    while line.place < len(line.rest):
        if grammar.is_flag(line.rest, line.place):
            _flag(line)
        elif line.shape.prose:
            break
        else:
            _word(line)
    if line.shape.prose:
        _prose(line, line.shape.prose[0], below)


def _take(line: _Line) -> Token:
    """Return the next word, and go behind it and its blanks."""
    found = grammar.word(line.rest, line.place)
    if found is None:
        raise MisreadError(replies.open_quote())
    token, end = found
    line.place = grammar.skip(line.rest, end)
    return token


def _flag(line: _Line) -> None:
    token = _take(line)
    if token.flag not in line.shape.flags:
        nearest = _nearest(line, token)
        raise MisreadError(replies.unknown_flag(line.verb, token.flag, nearest=nearest, without=line.without))
    name, known = line.shape.flags[token.flag]
    if name in line.given:
        raise MisreadError(replies.given_twice(token.flag, example(line.model, line.start, token.flag)))
    if not known.value:
        if token.joined:
            raise MisreadError(replies.takes_nothing(token.flag))
        line.given[name] = True
    elif token.joined or not _value_follows(line):
        # A value that is missing is an empty one, which no flag takes.
        line.given[name] = token.text
    else:
        line.given[name] = _take(line).text


def _value_follows(line: _Line) -> bool:
    return line.place < len(line.rest) and not grammar.is_flag(line.rest, line.place)


def _nearest(line: _Line, token: Token) -> str | None:
    """Return our own flag that a wrong one comes closest to, with the value that was given."""
    flags = line.shape.flags
    near = get_close_matches(token.flag[:40], flags, n=1, cutoff=0.6)
    if not near or not flags[near[0]][1].value:
        return near[0] if near else None
    following = grammar.word(line.rest, line.place) if _value_follows(line) else None
    value = token.text if token.joined else following[0].text if following else ""
    return f"{near[0]} {value}".strip()


def _word(line: _Line) -> None:
    text = _take(line).text
    known = line.shape.word
    if known is None:
        raise MisreadError(replies.unexpected(line.verb, text, without=line.without))
    if known[0] in line.given:
        raise MisreadError(replies.one_only(line.verb, known[1].one))
    line.given[known[0]] = text


def _prose(line: _Line, name: str, below: str) -> None:
    """Read the prompt, and the word that may lead it."""
    first, text = line.rest[line.place :], _joined(line.rest[line.place :], below)
    if line.shape.lead:
        seat, known = line.shape.lead
        word, after = grammar.cut(first)
        behind = _joined(after, below)
        if word in known.words and (not after or grammar.unquoted(behind) is not None):
            line.given[seat], text = word, behind
    quoted = grammar.unquoted(text)
    line.given[name] = text if quoted is None else quoted


def _joined(first: str, below: str) -> str:
    """Return a text without the empty lines around it. Its first line keeps its indentation: it may be code."""
    return _EMPTY_LINES.sub("", f"{first}\n{below}".rstrip())


# ---- What does not fit ----------------------------------------------------------------------------------------------


def _first_wrong(line: _Line, error: ValidationError) -> ErrorDetails | None:
    """Return what is wrong with the first of the given values that does not fit; None where only one is missing."""
    wrong = {str(each["loc"][0]): each for each in reversed(error.errors())}
    return next((wrong[name] for name in line.given if name in wrong), None)


def _misfit(line: _Line, wrong: ErrorDetails | None) -> str:
    """Return the reply to a value that does not fit, or to a word that is missing."""
    known, name = line.shape, str(wrong["loc"][0]) if wrong else None
    if known.word and name in {None, known.word[0]}:
        if known.needs_word:
            return replies.bad_value(line.verb, known.word[1].takes, example(line.model, line.start))
        return replies.unexpected(line.verb, str(line.given[known.word[0]]), without=line.without)
    if known.prose and name == known.prose[0]:
        if wrong and wrong["type"] == "string_too_long":
            return replies.too_long_text(line.verb, wrong["ctx"]["max_length"])
        return replies.bad_value(line.verb, known.prose[1].takes, example(line.model, line.start))
    flag = spelled(str(name))
    takes = known.flags[flag][1].takes.format(max_rounds=line.max_rounds)
    return replies.bad_value(flag, takes, example(line.model, line.start, flag))
