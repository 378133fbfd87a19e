"""O7: every delivery that was accepted comes to an end that is written down, and nothing fails beside it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from bot import telemetry

Line = dict[str, Any]
FAILED = {"error", "critical"}


class Log:
    """All log lines of this process, exactly as the product writes them."""

    def __init__(self) -> None:
        self._stream = io.StringIO()

    @contextmanager
    def written(self) -> Iterator[None]:
        """Let the product set its logging up, beside whatever else listens."""
        root = logging.getLogger()
        loggers = [root, *map(logging.getLogger, telemetry.QUIET)]
        levels, others = [each.level for each in loggers], root.handlers[:]
        telemetry.configure("json", stream=self._stream)
        (ours,) = root.handlers
        ours.addFilter(lambda record: not _left(record))
        root.handlers[:0] = others
        try:
            yield
        finally:
            root.removeHandler(ours)
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)

    @property
    def text(self) -> str:
        """The lines."""
        return self._stream.getvalue()


def _left(record: logging.LogRecord) -> bool:
    """Tell whether a client left the stand-in or the model server while it was answered: the product's log for itself.

    git does so with an object that it refuses.
    """
    fault = record.exc_info[1] if record.exc_info else None
    return record.name == "aiohttp.server" and isinstance(fault, ConnectionError)


def lines(text: str) -> list[Line]:
    """Return the lines of a log as what they say; what is no line of ours is an error."""
    return [_line(line) for line in text.splitlines()]


def _line(text: str) -> Line:
    try:
        said: Line = json.loads(text)
    except ValueError:
        return {"event": text, "level": "error"}
    return said


def errors(said: Iterable[Line]) -> Iterator[str]:
    """Yield the errors of a log; an exception that nobody took is one (asyncio's own words)."""
    for line in said:
        if line.get("level") in FAILED:
            yield f"an error is logged: {json.dumps(line)}"


def endless(said: Iterable[Line]) -> Iterator[str]:
    """Yield the deliveries that were accepted, and of which no line says what became of them."""
    known = list(said)
    ended = {line["delivery"] for line in known if line["event"] == "event" and line.get("outcome")}
    for line in known:
        # Where there is nothing to do, or it is a repetition, the answer says so, and that is its end.
        if line["event"] == "delivery" and line.get("answer") == "Accepted." and line["delivery"] not in ended:
            yield f"delivery {line['delivery']} ({line['name']}) was accepted and has no end"
