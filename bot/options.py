"""What each command takes: an option model for every verb, and the checks of its values. Pure.

One model gives a command's flags, the checks of their values and their help; arguments.py reads them by what each field
says of itself. Which verbs there are is commands.py's.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationInfo

from bot.arguments import Flag, Lead, Prose, Word
from bot.config import COMMENT_AGENTS
from bot.redact import UNSEEN, visible

PROMPT_LIMIT = 60_000
"""Characters of the longest prompt: what GitHub calls the most of a comment, 65,536, less room for the flags.

("Body is too long (maximum is 65536 characters)": GitHub's answer to a longer one.)
"""

# ---- Checks ---------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@#+=-]{0,199}")
_SHA = re.compile(r"[0-9A-Fa-f]{7,40}")


def is_pull_number(word: str) -> bool:
    """Return whether a word may be the number of a pull request, with or without its mark: `412`, `#412`."""
    return _NUMBER.fullmatch(word.removeprefix("#")) is not None


def is_branch_name(name: str) -> bool:
    """Return whether a text may be the name of a branch, by stricter rules than git's.

    No option, revision expression, range, refspec or full reference passes (threats.md, inputs 49 to 53). What passes
    is looked up as a branch by the API.
    """
    if not _BRANCH.fullmatch(name) or name.startswith("refs/") or name in {"HEAD", "@"}:
        return False
    parts = name.split("/")
    return ".." not in name and all(part and part[0] != "." and not part.endswith((".", ".lock")) for part in parts)


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


def _branch(name: object) -> object:
    if not isinstance(name, str) or not is_branch_name(name):
        raise ValueError("not the name of a branch")
    return name


def _comment_agent(name: object) -> object:
    if name not in COMMENT_AGENTS:
        raise ValueError("no agent that a comment may name")
    return name


def _sha(text: object) -> object:
    if not isinstance(text, str) or not _SHA.fullmatch(text):
        raise ValueError("not the beginning of a commit's name")
    return text.lower()


def _bare(name: object) -> object:
    return name.removeprefix("/") if isinstance(name, str) else name


def _said(text: object) -> object:
    if not isinstance(text, str) or not visible(text).replace(UNSEEN, "").strip():
        raise ValueError("no text that can be seen")
    return visible(text)


# ---- Fields that several commands have ------------------------------------------------------------------------------

_AGENTS = f"one of {', '.join(COMMENT_AGENTS)}"
_TEXT = "a text in quotation marks"

Number: TypeAlias = Annotated[
    int | None,
    BeforeValidator(_pull_number),
    Word(
        "<pr>",
        "pull request",
        "the number of a pull request",
        "412",
        "the number of the pull request, where the command stands somewhere else",
    ),
]
Base: TypeAlias = Annotated[
    str | None,
    BeforeValidator(_branch),
    Flag("B", "the name of a branch of this repository", "main", "compare with branch B instead of the own base"),
]
Rounds: TypeAlias = Annotated[int | None, BeforeValidator(_rounds)]
Said: TypeAlias = Annotated[str, BeforeValidator(_said)]
Agent: TypeAlias = Annotated[str | None, BeforeValidator(_comment_agent)]
Prompt: TypeAlias = Annotated[str, StringConstraints(max_length=PROMPT_LIMIT), BeforeValidator(_said)]

PeerA: TypeAlias = Annotated[Agent, Flag("AGENT", _AGENTS, "claude", "who sits as A")]
PeerB: TypeAlias = Annotated[Agent, Flag("AGENT", _AGENTS, "codex", "who sits as B")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# ---- One model for each verb ----------------------------------------------------------------------------------------


class Review(_Strict):
    """`/codex-debate review`: the options of a review."""

    number: Number = None
    base: Base = None
    max_rounds: Annotated[
        Rounds,
        Flag("N", "a whole number from 1 to {max_rounds}", "3", "end after N rounds; 1 is a review without edits"),
    ] = None
    no_commit: Annotated[bool, Flag("", "", "", "offer the fixes as a patch, make no commits")] = False
    no_comment: Annotated[bool, Flag("", "", "", "report in the check run alone")] = False
    rationale: Annotated[Said, Flag('"…"', _TEXT, '"as agreed"', "why the change is as it is")] = ""
    context: Annotated[
        Said, Flag('"…"', _TEXT, '"see the plan"', "what the change is for; only the author reads it")
    ] = ""
    push: Annotated[bool, Flag("", "", "", "not in this version")] = False
    reviewer: Annotated[Agent, Flag("AGENT", _AGENTS, "lint", "who reviews")] = None
    author: Annotated[Agent, Flag("AGENT", _AGENTS, "lint", "who answers and fixes")] = None


class Lens(_Strict):
    """`/lens-debate`: the options of a structural review. `a` is the seat lowy, `b` the seat hickey."""

    number: Number = None
    base: Base = None
    max_rounds: Annotated[
        Rounds, Flag("N", "a whole number from 1 to {max_rounds}", "3", "end each thread after N rounds")
    ] = None
    no_commit: Annotated[bool, Flag("", "", "", "offer the fixes as a patch, make no commits")] = False
    no_apply: Annotated[bool, Flag("", "", "", "list the agreed fixes, change nothing")] = False
    no_comment: Annotated[bool, Flag("", "", "", "report in the check run alone")] = False
    with_police: Annotated[bool, Flag("", "", "", "let a third reviewer raise findings, without a vote")] = False
    rationale: Annotated[Said, Flag('"…"', _TEXT, '"as agreed"', "why the change is as it is")] = ""
    a: Annotated[Agent, Flag("AGENT", _AGENTS, "claude", "who sits as lowy")] = None
    b: Annotated[Agent, Flag("AGENT", _AGENTS, "codex", "who sits as hickey")] = None


class Answer(_Strict):
    """`/codex-debate answer`: a question and who answers it."""

    a: PeerA = None
    b: PeerB = None
    prompt: Annotated[Prompt, Prose("<prompt>", "a question behind it", "is the retry safe?", "the question")]


class Discuss(_Strict):
    """`/codex-debate discuss`: a topic and who weighs it."""

    a: PeerA = None
    b: PeerB = None
    prompt: Annotated[Prompt, Prose("<topic>", "a topic behind it", "where should retries live?", "the topic")]


class Board(_Strict):
    """`/codex-debate board`: what is to be decided, or with `continue_` a person's word to both seats."""

    rounds: Annotated[
        Rounds, Flag("N", "a whole number from 1 to {max_rounds}", "3", "end after N rounds, or N more of them")
    ] = None
    synth: Annotated[
        Literal["a", "b", "none"] | None,
        Flag("SEAT", "one of a, b, none", "none", "who writes the decision down; none: nobody"),
    ] = None
    continue_: Annotated[bool, Flag("", "", "", "go on with the last board here; the text is your word to both")] = (
        False
    )
    a: PeerA = None
    b: PeerB = None
    prompt: Annotated[
        Prompt, Prose("<topic>", "a topic behind it", "which limit should it be?", "what is to be decided")
    ]


class CodeDebate(_Strict):
    """`/code-debate`: a subject, who argues it, and which of the two seats is ours alone."""

    a: PeerA = None
    b: PeerB = None
    seat: Annotated[
        Literal["A", "B"] | None,
        Lead(
            "A|B",
            ("A", "B"),
            "fill this seat alone, the other stays open; before a quoted subject or alone on its line",
        ),
    ] = None
    prompt: Annotated[Prompt, Prose("<subject>", "a subject behind it", '"one queue or two"', "the subject")]


class Approve(_Strict):
    """`/codex-debate approve`: the commit of an outsider that is allowed, as the beginning of its name."""

    sha: Annotated[
        str,
        BeforeValidator(_sha),
        Word(
            "SHA",
            "commit",
            "7 to 40 hex digits, the beginning of the commit's name",
            "97636d1c27",
            "the commit that you have read: 7 to 40 hex digits, the beginning of its name",
        ),
    ]


class Retry(_Strict):
    """`/codex-debate retry`, which takes nothing."""


class Push(_Strict):
    """`/codex-debate push`, which takes nothing."""


class Status(_Strict):
    """`/codex-debate status`, which takes nothing."""


class Stop(_Strict):
    """`/codex-debate stop`, which takes nothing."""


class Config(_Strict):
    """`/codex-debate config`, which takes nothing."""


class Help(_Strict):
    """`/codex-debate help`: what is explained."""

    verb: Annotated[
        str | None,
        BeforeValidator(_bare),
        Word("<command>", "command", "the name of a command", "review", "the command to explain"),
    ] = None


Options: TypeAlias = (
    Review | Lens | Answer | Discuss | Board | CodeDebate | Approve | Retry | Push | Status | Stop | Config | Help
)
"""What a command asks for; each verb has one of these."""
