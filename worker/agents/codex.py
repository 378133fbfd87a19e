"""The agent `codex`: OpenAI's own program in a seat, started in a sandbox for each turn.

It owns how the program is started, so that nothing in a pull request steers it; how its events are read; and what each
of its failures means for people. The sandbox is the boundary: codex's own cannot nest in it and is off in every seat
(threats.md 4.3a). Its answer is unchecked text, also where a schema was asked for. Facts: agents.md 2.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from bot.redact import whole
from worker.activity import of_codex
from worker.codex_failures import Cause, ended, refused, unstarted
from worker.debate.flow import TurnFailed
from worker.process import Finished, Program
from worker.stream import LOG_TAIL, OUTPUT, READ, SILENCE_MS, WORDS, event, not_started, session_id, tail
from worker.turn import Box, Lodging, Run, SessionGone, TurnReply, TurnRequest

BOX = Box(tool="codex", sessions=".codex/sessions", api="responses")

REQUEST_RETRIES = 2
STREAM_RETRIES = 2
"""How often the program asks again by itself: it knows the stream (decisions.md 1.6; the program's own are 4 and 5)."""

KEY_VARIABLE = "CODEX_DEBATE_PROVIDER_KEY"
KEY = "placeholder"
"""Stands where a key is asked for: the gateway has the real one (decisions.md 3.7)."""
_PROVIDER = "gateway"
"""Our own provider id: the built-in one tries WebSockets first and cannot be changed (agents.md 2.8)."""

NAMES_BYTES = 100_000
"""Bytes of the setting that keeps skills out. Linux takes 128 KiB in one argument (execve(2), MAX_ARG_STRLEN)."""


async def take_turn(request: TurnRequest, run: Run) -> TurnReply:
    """Take one turn.

    Raises `SessionGone` where the program cannot go on with the session, and `TurnFailed`, whose `log` ends in what the
    provider said: ``refused``, ``timeout``, ``environment`` where the program does not start, and ``transport`` for all
    that may go well the next time.
    """
    if request.session is not None and session_id(request.session) is None:
        raise SessionGone(request.session)  # the program would begin a new thread and not tell
    stream = _Stream(request.session, request.tell)
    try:
        finished = await run(_program(request, request.lodged, stream))
    except OSError as error:
        raise not_started(BOX.tool, error) from error
    if stream.ended and stream.error is None and stream.answer.strip():
        return TurnReply(stream.answer, session=stream.thread)
    if request.session is not None and not stream.begun and _NOT_RESUMED.search(_errors(finished)):
        raise SessionGone(request.session)
    cause = _cause(stream, finished, request)
    raise TurnFailed(cause.kind, cause.sentence, hint=cause.hint, log=tail(_errors(finished), *stream.notes))


# ---- The program ----------------------------------------------------------------------------------------------------


def _program(request: TurnRequest, lodging: Lodging, stream: _Stream) -> Program:
    """Return the program for a turn. Reading and editing seats differ in their sandbox alone."""
    prompt, names = _without_skills(request.brief)
    home = str(lodging.home)
    return Program(
        tuple(_argv(request, lodging, names)),
        cwd=request.tree,
        env={
            "HOME": home,
            "CODEX_HOME": f"{home}/.codex",
            "TMPDIR": str(lodging.tmp),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            KEY_VARIABLE: KEY,
        },
        stdin=whole(prompt).encode(),
        seconds=request.seconds,
        output_cap=OUTPUT,
        on_line=stream.take,
    )


def _argv(request: TurnRequest, lodging: Lodging, names: list[str]) -> Iterator[str]:
    """Yield the command. Each setting stands before ``resume``: one behind it would undo them all (agents.md 2.5)."""
    yield from (str(lodging.program), "exec", "--json", "--sandbox", "danger-full-access", "--skip-git-repo-check")
    yield from ("-C", str(request.tree), "--ignore-user-config", "--ignore-rules", "--strict-config")
    if lodging.schema is not None:
        yield from ("--output-schema", str(lodging.schema))
    for name, value in _settings(request, lodging).items():
        yield from ("-c", f"{name}={json.dumps(value, ensure_ascii=False)}")
    yield from ("-c", f"skills.config=[{','.join(map(_forbidden, names))}]")
    if request.session is not None:
        yield from ("resume", request.session)
    yield "-"  # a prompt among the arguments could be a subcommand, and would be limited to 128 kB


def _settings(request: TurnRequest, lodging: Lodging) -> dict[str, str | int | bool]:
    """Return the program's settings (agents.md 2.10). It refuses one that it does not know."""
    off = ("plugins", "apps", "hooks", "goals", "multi_agent", "sleep_tool", "shell_snapshot")
    provider: dict[str, str | int] = {
        "name": _PROVIDER,
        "base_url": f"{lodging.api}/v1",
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
        "request_max_retries": REQUEST_RETRIES,
        "stream_max_retries": STREAM_RETRIES,
        "stream_idle_timeout_ms": SILENCE_MS,
    }
    return {
        **({"model": request.model} if request.model else {}),
        **({"model_reasoning_effort": request.effort} if request.effort else {}),
        "model_provider": _PROVIDER,
        **{f"model_providers.{_PROVIDER}.{name}": value for name, value in provider.items()},
        "approval_policy": "never",
        "project_doc_max_bytes": 0,
        "skills.include_instructions": False,
        "skills.bundled.enabled": False,
        "web_search": "disabled",
        "shell_environment_policy.inherit": "core",  # a model's commands do not see the key's variable
        "allow_login_shell": False,  # no profile is read, and the program's own ripgrep stays on the PATH
        "analytics.enabled": False,
        "check_for_update_on_startup": False,
        "agents.enabled": False,  # some models get agents of their own in spite of features.multi_agent
        **{f"features.{name}": False for name in (*off, "unbounded_connection_retries")},
    }


# ---- Skills ---------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"\$([A-Za-z0-9_:-]+)")
"""What the program takes for a skill's name in a prompt, `$HOME` and `$5` too (measured with 0.163.0)."""
_LINK = re.compile(r"\[(?=\$[A-Za-z0-9_:-]+\]\s*\()")
"""Where the other way to name one begins: ``[$any](/path/of/SKILL.md)``, with or without ``skill://``."""


def _without_skills(brief: str) -> tuple[str, list[str]]:
    """Return the prompt, and the names in it that no skill may answer to.

    A skill that a prompt names is put into it whole, and no setting turns that off. So each name that occurs is
    forbidden as a skill, and ``$HOME`` or a price stays as it was written. Only what could be a link to a skill's file
    gets a space behind its bracket, and the dollar sign of a name for which the setting has no room gets one, too.
    """
    names, room = dict[str, None](), NAMES_BYTES
    for name in _NAME.findall(brief):
        need = len(_forbidden(name)) + 1
        if name not in names and need <= room:
            names[name] = None
            room -= need
    prompt = _LINK.sub("[ ", brief)
    return _NAME.sub(lambda found: found[0] if found[1] in names else f"$ {found[1]}", prompt), list(names)


def _forbidden(name: str) -> str:
    return f'{{name="{name}",enabled=false}}'


# ---- Its events -----------------------------------------------------------------------------------------------------


class _Stream:
    """What the program has told so far. Lines that are no events, or unknown ones, say nothing."""

    def __init__(self, session: str | None, tell: Callable[[str], None]) -> None:
        self.thread: str | None = None
        self.begun = False
        self.ended = False
        self.error: str | None = None
        """The last event's error. Errors before it are told of attempts that the program repeats."""
        self.answer = ""
        """The last message: exactly what ``-o`` would write. Those before it are remarks on the way."""
        self.notes = deque[str](maxlen=20)
        self._session = session
        self._tell = tell

    def take(self, line: bytes) -> bool:
        """Read a line; return whether the turn is over. Raises `SessionGone` where another thread was begun."""
        if not self.ended and (told := event(line)):
            self._read(told)
            if doing := of_codex(told):
                self._tell(doing)
        return self.ended

    def _read(self, told: dict[str, Any]) -> None:
        match told:
            case {"type": "thread.started", "thread_id": str(thread)} if self.thread is None:
                if self._session not in {None, thread}:
                    raise SessionGone(self._session)
                self.thread = session_id(thread)
            case {"type": "turn.started"}:
                self.begun = True
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                self.answer = text
                self._note(text, WORDS)
            case {"type": "item.started", "item": {"type": "command_execution", "command": str(command)}}:
                self._note(f"$ {command}", WORDS)
            case {"type": "item.completed", "item": {"type": "error", "message": str(message)}}:
                self._note(message)
            case {"type": "error", "message": str(message)}:
                self._note(message)
            case {"type": "turn.completed"}:
                self.ended = True
            case {"type": "turn.failed", **rest}:
                self.ended = True
                self.error = _message(rest)
                self._note(self.error)

    def _note(self, text: str, limit: int = LOG_TAIL) -> None:
        note = text[:limit]
        if note in self.notes:  # the last event repeats the error before it
            self.notes.remove(note)
        self.notes.append(note)


def _message(failed: object) -> str:
    match failed:
        case {"error": {"message": str(message)}}:
            return message
        case _:
            return ""


def _errors(finished: Finished) -> str:
    """Return the end of standard error: what ended the program stands there."""
    return finished.stderr[-READ:].decode("utf-8", "replace")


# ---- Its failures ---------------------------------------------------------------------------------------------------

_NOT_RESUMED = re.compile(r"^Error: thread/resume", re.MULTILINE)
"""No such thread, or a session file that cannot be read any more. The provider was not asked."""


def _cause(stream: _Stream, finished: Finished, request: TurnRequest) -> Cause:
    """Return why a turn failed. What the last event says goes before how the program ended."""
    if stream.error is not None:
        return refused(stream.error, request.model)
    if stream.ended:
        return Cause("transport", "codex ended its turn without an answer")
    if finished.timed_out:
        return Cause("timeout", f"codex did not answer within {request.seconds:.0f} s")
    if finished.cut:
        return Cause("transport", "codex printed more than a program may")
    return unstarted(_errors(finished)) or ended(finished.code or 0)
