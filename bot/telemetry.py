"""Log lines and metrics: a line for each delivery, event and run, with nothing secret in it.

Owns how lines look and what is counted. It decides nothing, and no other module writes to a log in another way.
"""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest

from bot.redact import redact, visible

QUIET = ("aiohttp.access", "arq")
"""Libraries that log every request or job, with its arguments: only their warnings are kept."""


def configure(style: Literal["json", "console"] | None, *, stream: TextIO | None = None) -> None:
    """Set up logging for this process. Without a `style`, ``console`` on a terminal and ``json`` off one."""
    out = stream or sys.stderr
    console = style == "console" or (style is None and out.isatty())
    renderers: list[structlog.types.Processor] = (
        [_indented, structlog.dev.ConsoleRenderer(colors=out.isatty())]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_steps(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _steps() -> list[structlog.types.Processor]:
    """Return what is done to every line, ours and those of libraries, before it is written."""
    return [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        clean,
    ]


def clean(_logger: object, _method: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
    """Return the fields of a line without secrets, hidden characters, and, but for tracebacks, ends of lines."""
    # structlog's own fields begin with a stroke, and are never written.
    return {
        name: value if name.startswith("_") else _cleaned(value, keep_lines=name == "exception")
        for name, value in fields.items()
    }


def _indented(_logger: object, _method: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
    """Return a line whose traceback stands indented: no line of an error's words looks like an event of its own."""
    if "exception" in fields:
        fields["exception"] = textwrap.indent(fields["exception"], "  ", lambda _: True)
    return fields


def _cleaned(value: Any, *, keep_lines: bool = False) -> Any:  # noqa: ANN401 - a field may be anything
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            # In this order: a terminal's sequence before a secret would hide where it begins.
            shown = redact(visible(value))
            return shown if keep_lines else shown.replace("\n", " ").replace("\t", " ")
        case bytes():
            return _cleaned(value.decode("utf-8", "replace"))
        case Mapping():
            return {_cleaned(str(key)): _cleaned(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_cleaned(each) for each in value]
        case _:
            # An error or a path: whatever it is, a renderer would write its words as they are.
            return _cleaned(str(value))


def log(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger for a module. A line is an event with fields: ``log("bot.app").info("delivery", status=202)``.

    It writes through the standard library's logging, so that a process that did not `configure` it stays silent below
    warnings.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            *_steps(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


class Metrics:
    """What the bot counts, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.deliveries = Counter(
            "codex_debate_deliveries", "Deliveries by HTTP status", ["status"], registry=self.registry
        )
        self.events = Counter(
            "codex_debate_events",
            "Events by kind and what became of them",
            ["event", "outcome"],
            registry=self.registry,
        )

    def render(self) -> tuple[bytes, str]:
        """Return the metrics as Prometheus reads them, and the content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
