"""What the failures of the program codex mean for people: kind, sentence, and what a person does about it. Pure.

The program tells errors in words alone, without a code (agents.md 2.4), so they are known by their words. Each sentence
is for a check run, without a full stop. The provider's own words stand in it where they help, between backticks.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from bot.redact import quotable
from worker.debate.flow import Kind
from worker.stream import INSTALL, READ, WORDS, behind, ending


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a turn failed."""

    kind: Kind
    sentence: str
    """In the tables it may hold ``{words}``, the provider's behind a colon, and ``{model}``."""
    hint: str = ""
    """What a person does about it; empty where trying again is all there is."""


def refused(message: str, model: str | None) -> Cause:
    """Return what the error of the program's last event means. `model` is the one that was asked for, if any."""
    said = message[:READ]
    cause = next(cause for shape, cause in REFUSED if re.search(shape, said, re.DOTALL))
    asked = f"the model `{quotable(model, WORDS)}`" if model else "the model that codex takes by itself"
    return replace(cause, sentence=cause.sentence.format(words=behind(_words(said)), model=asked))


def unstarted(errors: str) -> Cause | None:
    """Return why a program never began its turn, by its standard error; None where that does not say."""
    for line in errors.splitlines():
        for shape, cause in UNSTARTED:
            if re.search(shape, line):
                return replace(cause, sentence=cause.sentence.format(words=behind(line)))
    return None


def ended(code: int) -> Cause:
    """Return what the exit status of a program means that ended in the middle of its turn."""
    return Cause("transport", f"codex ended with {ending(code)} and without an answer")


# ---- The tables -----------------------------------------------------------------------------------------------------

_MODEL = "the operator of this server sets `CODEX_DEBATE_CODEX_MODEL` to a model "
_TOO_LONG = Cause("refused", "the brief is longer than codex takes", "split the pull request")

REFUSED: tuple[tuple[str, Cause], ...] = (
    (
        r"^Quota exceeded|\binsufficient_quota\b|\bbilling_\w+|billing details",
        Cause(
            "refused",
            "the codex account is out of credit",
            "the operator of this server adds credit to the account behind `OPENAI_API_KEY`",
        ),
    ),
    (
        # Without the provider's words: they repeat the end of the key.
        r"^unexpected status 401",
        Cause(
            "refused",
            "the provider does not accept the codex key",
            "the operator of this server sets `OPENAI_API_KEY` to a valid key",
        ),
    ),
    (
        r"^unexpected status 403",
        Cause(
            "refused",
            "the provider does not accept the codex key{words}",
            "the operator of this server sets `OPENAI_API_KEY` to a valid key",
        ),
    ),
    (
        r"model_not_found|^unexpected status 404.*\bmodel\b|\bmodel\b.{1,100}\bdoes not exist",
        Cause("refused", "the provider of codex does not offer {model}", _MODEL + "that its key may use"),
    ),
    (
        r"^unexpected status 404",
        Cause(
            "refused",
            "the provider of codex has nothing at its address{words}",
            "the operator of this server corrects `OPENAI_BASE_URL`",
        ),
    ),
    (
        r"^Codex ran out of room|context_length_exceeded",
        Cause(
            "refused",
            "the debate does not fit into the context window of codex's model",
            _MODEL + "with a larger one, or the pull request is split",
        ),
    ),
    (
        r"^rate limit exceeded|^exceeded retry limit, last status: 429|^unexpected status 429",
        Cause("transport", "the provider of codex allows no more requests for now{words}", "wait some minutes"),
    ),
    (
        r"^Selected model is at capacity|^We.re currently experiencing high demand",
        Cause("transport", "the provider of codex has too much to do", "wait some minutes"),
    ),
    (
        r"^unexpected status (?:5|408|409|425)|^exceeded retry limit",
        Cause("transport", "the provider of codex has a fault of its own{words}"),
    ),
    (
        r"idle timeout waiting for SSE$",
        Cause("transport", "the provider of codex fell silent in the middle of a reply"),
    ),
    (r"reason: content_filter$", Cause("refused", "a filter of codex's provider stopped the answer")),
    (r"reason: max_output_tokens$", Cause("transport", "codex's answer was longer than its provider allows")),
    (r"^Incomplete response", Cause("transport", "the provider cut codex's answer off{words}")),
    (r"^stream disconnected", Cause("transport", "the reply of codex's provider broke off{words}")),
    (r"^Connection failed|error sending request", Cause("transport", "the provider of codex cannot be reached")),
    (r"^Missing environment variable", Cause("environment", "codex was started without what it needs{words}", INSTALL)),
    (r'^\s*\{|^unexpected status 4|"error"', Cause("refused", "the provider of codex refuses the request{words}")),
    (r"\bflagged\b|usage polic", Cause("refused", "the provider of codex refuses the request{words}")),
    (r"", Cause("transport", "codex ended its turn with an error{words}")),
)
"""What the last event's error means: the first row whose expression is found in it."""

UNSTARTED: tuple[tuple[str, Cause], ...] = (
    (r"^Error: turn/start: .*Input exceeds the maximum length", _TOO_LONG),
    (
        r"^Error loading config|^Error finding codex home|^error: |^No prompt provided|cannot be started: ",
        Cause("environment", "codex does not start{words}", INSTALL),
    ),
)
"""What a line of standard error means of a program that never told how its turn ended."""

# ---- A provider's words ---------------------------------------------------------------------------------------------

_AROUND = re.compile(
    r"^(?:unexpected status \d{3} [^:]*|stream disconnected before completion|rate limit exceeded|"
    r"exceeded retry limit, last status|Incomplete response returned, reason): |, url: http.*",
    re.DOTALL,
)
"""What codex puts around them."""


def _words(message: str) -> str:
    """Return what a provider said; empty where it is a page and no sentence."""
    text = _AROUND.sub("", message)
    try:
        match json.loads(text):
            case (
                {"error": {"message": str(said)}}
                | {"error": str(said)}
                | {"message": str(said)}
                | {"detail": str(said)}
            ):
                text = said
    except (ValueError, RecursionError):
        pass
    return "" if text.lstrip().startswith("<") else text
