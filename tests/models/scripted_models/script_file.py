"""A script as a JSON file: what ``python -m scripted_models`` plays. The docstring of the package describes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from scripted_models import faults
from scripted_models.model import Deciding, by_prompt
from scripted_models.server import ModelServer
from scripted_models.turns import CHUNK, Answer, Call, Turn
from scripted_models.usage import Usage

FAULTS: Mapping[str, Callable[..., Turn]] = {
    name: made for name, made in vars(faults).items() if inspect.isfunction(made) and made.__module__ == faults.__name__
}
"""Every fault by its name."""


class ScriptError(Exception):
    """The file holds no script."""


def _short(kind: type, whole: Callable[[Any], Any]) -> BeforeValidator:
    """Let a value of this kind stand for what it is short for."""
    return BeforeValidator(lambda value: whole(value) if isinstance(value, kind) else value)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Usage(_Model):
    input: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)
    written: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)


class _Turn(_Model):
    say: str = ""
    calls: tuple[dict[str, dict[str, Any]], ...] = ()
    answer: Any = None
    fault: Annotated[dict[str, dict[str, Any]], _short(str, lambda name: {name: {}})] = Field(default_factory=dict)
    wait: float = Field(default=0.0, ge=0)
    pause: float = Field(default=0.0, ge=0)
    chunk: int = Field(default=CHUNK, ge=1)
    stop: Literal["", "max_tokens", "refusal"] = ""
    usage: _Usage | None = None


_Turns = tuple[Annotated[_Turn, _short(str, lambda text: {"say": text})], ...]
_Scripts = Annotated[dict[str, _Turns], _short(list, lambda turns: {"": turns})]
"""A text in the prompt → what is played then. Every prompt holds the empty text."""


class _Script(_Model):
    openai: _Scripts = Field(default_factory=dict)
    anthropic: _Scripts = Field(default_factory=dict)
    again: bool = False


def play_file(path: Path, server: ModelServer) -> None:
    """Let a server play a file. Raises `ScriptError` with a sentence for people."""
    try:
        script = _Script.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ScriptError(f"{path} is not a script. {place}: {first['msg']}.") from error
    server.openai.plays(_decider(script.openai, again=script.again))
    server.anthropic.plays(_decider(script.anthropic, again=script.again))


def _decider(told: dict[str, _Turns], *, again: bool) -> Deciding:
    return by_prompt({text: [_turn(each) for each in turns] for text, turns in told.items()}, again=again)


def _turn(told: _Turn) -> Turn:
    parts: list[str | Call | Answer] = [told.say] if told.say else []
    parts += [Call(name, arguments) for call in told.calls for name, arguments in call.items()]
    parts += [Answer(told.answer)] if told.answer is not None else []
    timed = Turn(parts=tuple(parts), wait=told.wait, pause=told.pause, chunk=told.chunk, stop=told.stop)
    costing = timed.costing(Usage(**told.usage.model_dump())) if told.usage else timed
    return costing + _fault(told.fault) if told.fault else costing


def _fault(told: dict[str, dict[str, Any]]) -> Turn:
    (name, arguments), *more = told.items()
    if more or name not in FAULTS:
        raise ScriptError(f"There is no fault {' and '.join(told)!r}. The faults are {', '.join(FAULTS)}.")
    try:
        return FAULTS[name](**arguments)
    except TypeError as error:
        raise ScriptError(f"The fault {name} cannot be made so: {error}.") from error
