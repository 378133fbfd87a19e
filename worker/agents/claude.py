"""The agent `claude`: Anthropic's own program in a seat. It starts only in a sandbox, which is its boundary.

It owns the program's command line, environment and standard input, how its line stream is read, and what each of its
failures is called for people. Everything that it knows of the program was measured with the pinned version (agents.md
4). Tokens, money and the model's name are not read here: the gateway outside counts them, and the program says what it
likes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.redact import quotable
from worker.activity import of_claude
from worker.debate.flow import Kind, TurnFailed
from worker.process import Finished, Program
from worker.stream import (
    INSTALL,
    LOG_TAIL,
    OUTPUT,
    READ,
    SIGNALLED,
    SILENCE_MS,
    WORDS,
    behind,
    ending,
    event,
    not_started,
    session_id,
    tail,
)
from worker.turn import Box, Lodging, Run, SessionGone, TurnReply, TurnRequest

BOX = Box(tool="claude", sessions=".claude/projects", api="messages")

READING = ("Read", "Grep", "Glob")
"""The tools of a seat that changes nothing (decisions.md 3.2)."""
EDITING = ("Read", "Edit", "Write", "Grep", "Glob", "Bash")
"""The tools of a seat that edits."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""What ``--effort`` takes (its ``--help``). Another word is only warned of, and the default is taken."""
RETRIES = 2
"""How often the program tries a request again, after about half a second and one second (decisions.md 1.6)."""
_PLACEHOLDER = "the-gateway-holds-the-key"


async def take_turn(request: TurnRequest, run: Run) -> TurnReply:
    """Take one turn, in a new session or in the request's.

    A reply that is not the object which was asked for comes back as the text that it is: its codec refuses it, and the
    seat is asked again. Raises `SessionGone` where the session cannot be resumed, and `TurnFailed`: ``refused`` for
    what the provider will refuse again, ``transport`` for what it may not, ``malformed`` for a reply that the model
    cannot bring to an end, ``timeout``, and ``environment`` where the program does not start.
    """
    reader = _Reader(request.tell)
    program = _program(request, reader)
    try:
        finished = await run(program)
    except OSError as error:
        raise not_started(BOX.tool, error) from error
    final = reader.final
    if final is None:
        raise _without_end(reader, finished, seconds=request.seconds)
    if request.session is not None and any(error.startswith(NO_SESSION) for error in final.errors):
        raise SessionGone(request.session)
    if final.is_error and final.subtype != NO_OBJECT:
        raise _failure(final, request.model or reader.model, log=tail(reader.log, finished.stderr))
    return TurnReply(_text(final, request), session=session_id(final.session_id))


# ---- The program ----------------------------------------------------------------------------------------------------


def _program(request: TurnRequest, reader: _Reader) -> Program:
    """Return the program that takes the turn. Raises `SessionGone` for a session that is none of the program's."""
    lodging = request.lodged
    if request.effort is not None and request.effort not in EFFORTS:
        known = ", ".join(EFFORTS)
        raise TurnFailed("environment", f"claude knows no effort `{quotable(request.effort, WORDS)}`; it knows {known}")
    # What is no id would be sought among the titles of sessions.
    if request.session is not None and session_id(request.session) is None:
        raise SessionGone(request.session)
    return Program(
        (str(lodging.program), *_flags(request)),
        cwd=request.tree,
        env=_environment(lodging),
        stdin=_prompt(request.brief),
        seconds=request.seconds,
        output_cap=OUTPUT,
        on_line=reader,
    )


def _flags(request: TurnRequest) -> list[str]:
    """Return the command line. Values stand behind a ``=``: some options else take all words that follow.

    The program's own system prompt stays: it is one for work like this. ``--system-prompt-snapshot`` stays on: we add
    nothing that could differ from turn to turn, and what is recorded is what the provider has cached.
    """
    flags = ["-p", "--input-format=stream-json", "--output-format=stream-json", "--verbose"]
    # Nothing that a pull request may bring is read or run: settings, hooks, servers, skills, commands (agents.md 4.5).
    flags += ["--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"]
    if request.editing:
        # The sandbox is the boundary, not a list of permissions (decisions.md 3.2).
        flags += [f"--tools={','.join(EDITING)}", "--permission-mode=bypassPermissions"]
    else:
        # The base and the notes lie outside the working directory: reading is allowed wherever there is something.
        reading = ",".join(READING)
        flags += [f"--tools={reading}", f"--allowedTools={reading}", "--permission-mode=dontAsk"]
    if request.schema is not None:
        flags.append(f"--json-schema={json.dumps(request.schema)}")
    if request.session is not None:
        flags.append(f"--resume={request.session}")
    if request.model is not None:
        flags.append(f"--model={request.model}")
    if request.effort is not None:
        flags.append(f"--effort={request.effort}")
    return flags


def _environment(lodging: Lodging) -> dict[str, str]:
    return {
        "HOME": str(lodging.home),
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(lodging.tmp),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "ANTHROPIC_BASE_URL": lodging.api,
        "ANTHROPIC_API_KEY": _PLACEHOLDER,
        "API_TIMEOUT_MS": str(SILENCE_MS),
        "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": str(SILENCE_MS),
        "CLAUDE_CODE_MAX_RETRIES": str(RETRIES),
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # The provider forgets a prompt after five minutes otherwise, and the other seat's turn takes longer than that.
        "ENABLE_PROMPT_CACHING_1H": "1",
        # A command in the background outlives the final event and brings forth a second one.
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        # A memory of its own, kept in files beside the sessions, would be told to later turns.
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        # How to commit and to open pull requests: up to 7 kB of each request, and there is no git folder.
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    }


def _prompt(brief: str) -> bytes:
    """Return the line of standard input. ``client_composed`` alone keeps ``@path`` and ``/word`` text (agents.md 0)."""
    message = {"role": "user", "content": [{"type": "text", "text": brief}]}
    return json.dumps({"type": "user", "client_composed": True, "message": message}).encode() + b"\n"


# ---- Its events -----------------------------------------------------------------------------------------------------


class _Final(BaseModel):
    """The final event, as far as it matters."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    subtype: str
    is_error: bool
    """Also under the subtype ``success`` (agents.md 4.7)."""
    session_id: str | None = None
    result: str | None = None
    structured_output: Any = None
    errors: tuple[str, ...] = ()
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error: str | None = None
    api_error_status: int | None = None
    api_error_type: str | None = None

    @property
    def words(self) -> str:
        """Return what it says went wrong."""
        return "\n".join(self.errors) or self.result or self.subtype


class _Reader:
    """Takes the events as they come and keeps what matters of them. What is no event, or unknown, is passed over."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.final: _Final | None = None
        self.spoke = False
        """There was an event: the program did start."""
        self.model = ""
        self.refused = ""
        """With what the provider refused a request that is now tried again."""
        self.log = ""

    def __call__(self, line: bytes) -> bool:
        """Take a line. Return whether the program has said its last word."""
        if self.final is not None or not (told := event(line)):
            return self.final is not None
        self.spoke = self.spoke or isinstance(told.get("type"), str)
        match told:
            case {"type": "result"}:
                self._end(told)
            case {"type": "system", "subtype": "init", "model": str(model)}:
                self.model = model
            case {"type": "system", "subtype": "api_retry", "error_status": status, "error": error}:
                self.refused = f"{error if status is None else status}"
                self._note(f"A request failed ({status} {error}) and is tried again.")
            case {"type": "assistant"}:
                self.refused = ""
                if doing := of_claude(told):
                    self._tell(doing)
        return self.final is not None

    def _end(self, told: dict[str, Any]) -> None:
        try:
            self.final = _Final.model_validate(told)
        except ValidationError:
            return
        if self.final.is_error:
            self._note(self.final.words)

    def _note(self, text: str) -> None:
        self.log = f"{self.log}{text}\n"[-LOG_TAIL:]


def _text(final: _Final, request: TurnRequest) -> str:
    """Return the reply: where an object was asked for and given, the object."""
    if request.schema is not None and final.structured_output is not None:
        return json.dumps(final.structured_output, ensure_ascii=False)
    return final.words if final.is_error else final.result or ""


# ---- Its failures ---------------------------------------------------------------------------------------------------

NO_SESSION = "No conversation found with session ID"
"""How the program says that it does not have the session that it is to resume (agents.md 4.6)."""
NO_OBJECT = "error_max_structured_output_retries"
"""The subtype after five replies that do not fit the schema (agents.md 4.2). A reply like any other that does not fit:
the codec's one re-ask says so in its own words, and then ends the turn as malformed."""
PASSING = frozenset({408, 409, 425})
"""Statuses below 500 that pass by themselves."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One way in which the provider or the program ends a turn."""

    applies: Callable[[_Final], bool]
    kind: Kind
    sentence: str
    """It may hold ``{words}``, the provider's behind a colon, ``{says}``, its status before them, and ``{model}``."""
    hint: str = ""


_MODEL = "the operator of this server sets `CODEX_DEBATE_CLAUDE_MODEL` to a model "

CASES = (
    _Case(
        # Without the provider's words: they may repeat a part of the key.
        lambda final: final.api_error_status == 401,
        "refused",
        "the provider does not accept the claude key",
        "the operator of this server sets `ANTHROPIC_API_KEY` to a valid key",
    ),
    _Case(
        lambda final: final.api_error_status == 403,
        "refused",
        "the provider does not accept the claude key{words}",
        "the operator of this server sets `ANTHROPIC_API_KEY` to a valid key",
    ),
    _Case(
        # Status 400 and "Credit balance is too low", 402, or the provider's own word for it.
        lambda final: (
            final.api_error_status == 402
            or final.api_error_type == "billing_error"
            or (final.api_error_status == 400 and "credit balance" in final.words.lower())
        ),
        "refused",
        "the claude account is out of credit",
        "the operator of this server adds credit to the account behind `ANTHROPIC_API_KEY`",
    ),
    _Case(
        lambda final: final.api_error_status == 404,
        "refused",
        "the provider of claude does not offer {model}",
        _MODEL + "that its key may use",
    ),
    _Case(
        lambda final: final.terminal_reason == "prompt_too_long",
        "refused",
        "the debate does not fit into the context window of claude's model",
        _MODEL + "with a larger one, or the pull request is split",
    ),
    _Case(lambda final: final.stop_reason == "refusal", "refused", "a filter of claude's provider stopped the answer"),
    _Case(
        # The program has asked the model three times to go on by then.
        lambda final: final.api_error == "max_output_tokens",
        "malformed",
        "claude's answer was longer than its provider allows",
    ),
    _Case(
        lambda final: final.api_error_status == 429,
        "transport",
        "the provider of claude allows no more requests for now{says}",
        "wait some minutes",
    ),
    _Case(
        lambda final: 400 <= (final.api_error_status or 0) < 500 and final.api_error_status not in PASSING,
        "refused",
        "the provider of claude refuses the request{says}",
    ),
    _Case(
        lambda final: final.api_error_status is not None,
        "transport",
        "the provider of claude has a fault of its own{says}",
    ),
    # No connection, one that broke off, an answer that is none, or a fault of the program's own.
    _Case(lambda final: True, "transport", "claude ended its turn with an error{words}"),  # noqa: ARG005 - the row for all others
)
"""How failures are told; the first row that applies counts (agents.md 4.6, 4.7)."""


def _failure(final: _Final, model: str, *, log: str) -> TurnFailed:
    """Return what a final event that tells of a failure means."""
    case = next(case for case in CASES if case.applies(final))
    words = _FRAME.sub("", final.words[:READ])
    says = " ".join(str(part) for part in (final.api_error_status, final.api_error_type) if part is not None)
    asked = f"the model `{quotable(model, WORDS)}`" if model else "the model that claude takes by itself"
    sentence = case.sentence.format(words=behind(words), says=behind(f"{says}: {words}"), model=asked)
    return TurnFailed(case.kind, sentence, hint=case.hint, log=log)


def _without_end(reader: _Reader, finished: Finished, *, seconds: float) -> TurnFailed:
    """Return the failure of a program that never came to its final event."""
    log, code = tail(reader.log, finished.stdout, finished.stderr), finished.code or 0
    if finished.timed_out:
        busy = f"; its provider answered `{quotable(reader.refused, WORDS)}`, and it waited" if reader.refused else ""
        return TurnFailed("timeout", f"claude did not answer within {seconds:.0f} s{busy}", log=log)
    if finished.cut:
        return TurnFailed("transport", "claude printed more than a program may", log=log)
    if not reader.spoke and 0 < code < SIGNALLED:
        # It refuses its command line, or something around it fails: the same happens again.
        words = behind(finished.stderr[:READ].decode("utf-8", "replace")) or f": it ended with {ending(code)}"
        return TurnFailed("environment", f"claude does not start{words}", hint=INSTALL, log=log)
    return TurnFailed("transport", f"claude ended with {ending(code)} and without an answer", log=log)


_FRAME = re.compile(
    r"^(?:Failed to authenticate\. )?API Error:\s*(?:Request rejected \(\d+\) · )?(?:\d{3} )?"
    r"|(?<!\s)\s*(?:This is a server-side issue|This is usually temporary|To configure this behavior)\b.*\Z",
    re.DOTALL,
)
"""What the program puts around the provider's words: for a person at a terminal, and with addresses of this machine."""
