"""The agent `scripted`: it plays a scenario, so that a whole debate can be told in advance, faults included.

Named ``scripted:/path/of/scenario.json``; without a path the reviewer approves at once. Only the operator may seat it.
It starts a real program for each turn (`scripted_program`), so that what goes wrong with it goes wrong for real.

A scenario is a JSON object::

    {"reviewer": [turn, …], "author": [turn, …], "record": "/folder"}

with one list for each seat. The n-th turn of a seat plays the n-th entry, by `TurnRequest.turn`. A re-ask and a retry
are attempts at the same turn: they play the same entry again, or, where the entry is itself a list, the next of that
list and at its end the last one again. Under `record` every brief is kept as ``<seat>-<turn>-<attempt>.md``, and what
else was asked as ``.json``. A turn is an object of:

``reply``
    what the agent answers: text, or JSON that is sent as text
``edits``
    path → its new text, null (deleted), or an object of ``base64``, ``symlink``, ``fifo``, ``mode`` ("755")
``renames``
    old path → new path, before the edits
``sleep``
    seconds before it answers
``model``, ``usd``
    what it says of itself
``expect``, ``reject``
    texts that must, or must not, stand in the brief; else the turn fails and names them
``silent``, ``half``, ``prose``, ``never_ends``, ``endless``, ``exit``, ``stubborn``
    it prints nothing; breaks off in a line of JSON; prints this text and no JSON; never ends; prints without end; ends
    with this status; ignores SIGTERM
``lose_session``
    the session that this turn leaves behind cannot be resumed
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worker.debate.flow import Kind, TurnFailed, Used
from worker.process import Finished, Program
from worker.stream import ending, tail
from worker.turn import Run, SessionGone, TurnReply, TurnRequest

PROGRAM = Path(__file__).with_name("scripted_program.py")


class _Turn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    reply: str | dict[str, Any] | None = None
    edits: dict[str, str | dict[str, Any] | None] = Field(default_factory=dict)
    renames: dict[str, str] = Field(default_factory=dict)
    sleep: float = 0.0
    model: str | None = None
    usd: float = 0.0
    expect: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    silent: bool = False
    half: bool = False
    prose: str | None = None
    never_ends: bool = False
    endless: bool = False
    exit: int = 0
    stubborn: bool = False
    lose_session: bool = False


class _Scenario(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    record: Path | None = None
    seats: dict[str, tuple[_Turn | tuple[_Turn, ...], ...]]


AT_ONCE = _Scenario(
    seats={
        "reviewer": (
            _Turn(
                reply={
                    "approved": True,
                    "summary": "The scenario approves of every change.",
                    "findings": [],
                    "response_to_rebuttal": "",
                }
            ),
        )
    }
)
"""The scenario without a path."""


async def take_turn(request: TurnRequest, run: Run) -> TurnReply:
    """Play one turn.

    Raises `SessionGone` where an earlier turn lost the session, and `TurnFailed`: ``environment`` for a scenario that
    cannot be played and a brief that is not as expected, ``timeout``, and ``transport`` for a program that failed, said
    nothing, too much, or broke off. Prose where JSON was due is a reply: its codec refuses it.
    """
    scenario = _load(request.argument)
    session = request.session or f"{request.seat}-{request.turn}"
    mark = request.session_dir / f"{session}.session"
    if request.session is not None and not mark.exists():
        raise SessionGone(request.session)
    attempt = _attempt(request)
    _record(scenario.record, request, attempt=attempt)
    turn = _pick(scenario, request, attempt=attempt)
    _compare(turn, request)
    finished = await run(_program(turn, request, session=session))
    text = _text(finished, request)
    if turn.lose_session:
        mark.unlink(missing_ok=True)
    else:
        mark.touch()
    return TurnReply(text, session=session, used=Used(turn.model, turn.usd))


def _load(argument: str) -> _Scenario:
    """Return the scenario that the agent's name leads to."""
    if not argument:
        return AT_ONCE
    try:
        parts = json.loads(Path(argument).read_bytes())
        return _Scenario.model_validate({"record": parts.pop("record", None), "seats": parts})
    except OSError as error:
        _fail(f"the scenario {argument} cannot be read ({error.strerror})")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        _fail(f"the scenario {argument} is not one: {'.'.join(map(str, first['loc']))}: {first['msg']}")
    except (ValueError, AttributeError, TypeError) as error:
        _fail(f"the scenario {argument} is no JSON object ({error})")


def _attempt(request: TurnRequest) -> int:
    """Count this attempt at the turn; return its number, from 1."""
    request.session_dir.mkdir(parents=True, exist_ok=True)
    count = request.session_dir / f"{request.seat}-{request.turn}.attempts"
    number = int(count.read_text("ascii")) + 1 if count.exists() else 1
    count.write_text(str(number), "ascii")
    return number


def _record(folder: Path | None, request: TurnRequest, *, attempt: int) -> None:
    """Keep the brief, and what else was asked, for those who wrote the scenario."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{request.seat}-{request.turn}-{attempt}"
    asked = {"round": request.round, "editing": request.editing, "session": request.session, "model": request.model}
    (folder / f"{name}.md").write_text(request.brief, "utf-8", errors="surrogateescape")
    (folder / f"{name}.json").write_text(json.dumps({**asked, "schema": request.schema}, indent=1), "utf-8")


def _pick(scenario: _Scenario, request: TurnRequest, *, attempt: int) -> _Turn:
    """Return what the scenario says for this attempt."""
    turns = scenario.seats.get(request.seat, ())
    if not 1 <= request.turn <= len(turns):
        _fail(f"the scenario has no turn {request.turn} for the seat {request.seat}")
    entry = turns[request.turn - 1]
    attempts = (entry,) if isinstance(entry, _Turn) else entry
    if not attempts:
        _fail(f"turn {request.turn} of the seat {request.seat} has no attempts")
    return attempts[min(attempt, len(attempts)) - 1]


def _compare(turn: _Turn, request: TurnRequest) -> None:
    """Fail where the brief is not as the scenario expects."""
    whose = f"the brief of turn {request.turn} of the seat {request.seat}"
    if lacking := [text for text in turn.expect if text not in request.brief]:
        _fail(f"{whose} lacks {lacking[0]!r}")
    if unwanted := [text for text in turn.reject if text in request.brief]:
        _fail(f"{whose} holds {unwanted[0]!r}")


def _program(turn: _Turn, request: TurnRequest, *, session: str) -> Program:
    """Return the program that plays a turn in the tree."""
    told = turn.model_dump()
    if isinstance(turn.reply, dict):
        told["reply"] = json.dumps(turn.reply, ensure_ascii=False)
    return Program(
        (sys.executable, "-I", "-S", str(PROGRAM)),
        cwd=request.tree,
        stdin=json.dumps({"turn": told, "session": session}).encode(),
        seconds=request.seconds,
    )


def _text(finished: Finished, request: TurnRequest) -> str:
    """Return the reply in what the program printed."""

    def failed(kind: Kind, sentence: str) -> TurnFailed:
        return TurnFailed(kind, f"scripted, the {request.seat}, {sentence}", log=tail(finished.stdout, finished.stderr))

    if finished.timed_out:
        raise failed("timeout", f"did not answer within {request.seconds:.0f} s")
    if finished.cut:
        raise failed("transport", "printed more than a program may")
    if finished.code != 0:
        raise failed("transport", f"ended with {ending(finished.code or 0)}")
    output = finished.stdout.decode("utf-8", "replace")
    if not output.startswith("{"):
        if not output.strip():
            raise failed("transport", "ended without a word")
        return output
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            raise failed("transport", "broke off in the middle of its reply") from None
        if event["type"] == "reply":
            return str(event["text"])
    raise failed("transport", "ended without a reply")


def _fail(sentence: str) -> NoReturn:
    raise TurnFailed("environment", sentence)
