"""Log lines: one a line, nothing secret, nothing hidden."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from bot.telemetry import Metrics, configure, log
from tests.worker.outputs.hostile import CORPUS, has_secret

TOKEN = "ghs_123456_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.abc-def_ghi"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.threat(146, 151, 155)
def test_a_line_is_one_json_object_without_secrets_or_ends_of_lines() -> None:
    out = io.StringIO()
    configure("json", stream=out)
    log("bot.test").info("delivery", text=f"a\r\nb \x1b[31m{TOKEN}", more={"k": [TOKEN]}, status=202)
    logging.getLogger("other").warning("said %s\n%s", TOKEN, "x")
    lines = out.getvalue().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["event"] == "delivery"
    assert first["status"] == 202
    assert first["text"] == "a b [redacted]"
    assert second["event"] == "said [redacted] x"
    assert TOKEN not in out.getvalue()
    assert set(first) == {"event", "text", "more", "status", "level", "timestamp"}


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat(146, 147, 150, 151, 155)
def test_an_event_is_one_line_whatever_others_wrote(style: Literal["json", "console"], number: int) -> None:
    """As words, as an error, as bytes, as a key or deep within: a line an event, and nothing in it is obeyed."""
    for text in CORPUS[number]:
        out = io.StringIO()
        configure(style, stream=out)
        fields = {
            "error": ValueError(text),
            "more": {text: [(text, {text})]},
            "raw": text.encode("utf-8", "replace"),
        }
        log("bot.test").warning(text, said=text, **fields)
        logging.getLogger("other").warning("said %s", text)
        lines = out.getvalue().removesuffix("\n").split("\n")
        assert len(lines) == 2, text
        for line in lines:
            assert line.isprintable(), text
            assert line.encode(), text
            assert not has_secret(line, text), text


@pytest.mark.threat(155)
def test_an_errors_words_look_like_no_event_on_a_console() -> None:
    out = io.StringIO()
    configure("console", stream=out)
    try:
        int("x\n2026-01-01T00:00:00Z [info     ] forged")
    except ValueError as error:
        again = ValueError(f"{error}\n2026-01-01T00:00:00Z [info     ] forged")
        log("bot.test").error("failed", exc_info=again)
    first, *others = out.getvalue().splitlines()
    assert "failed" in first
    assert others
    assert all(line.startswith("  ") for line in others)


@pytest.mark.threat(151)
def test_exceptions_are_told_without_secrets() -> None:
    out = io.StringIO()
    configure("json", stream=out)
    try:
        int(f"bad {TOKEN}")
    except ValueError:
        log("bot.test").exception("failed")
        logging.getLogger("other").exception("failed too")
    for line in out.getvalue().splitlines():
        assert "ValueError" in json.loads(line)["exception"]
    assert TOKEN not in out.getvalue()


def test_a_console_is_for_people_and_jobs_arguments_are_kept_out() -> None:
    out = io.StringIO()
    configure("console", stream=out)
    log("bot.test").info("delivery", status=202)
    logging.getLogger("arq.worker").info("job with arguments")
    assert "delivery" in out.getvalue()
    assert "status" in out.getvalue()
    assert "arguments" not in out.getvalue()


def test_off_a_terminal_lines_are_json() -> None:
    out = io.StringIO()
    configure(None, stream=out)
    log("bot.test").info("x")
    assert json.loads(out.getvalue())["event"] == "x"


def test_metrics_are_prometheus_text_in_a_registry_of_their_own() -> None:
    one, two = Metrics(), Metrics()
    one.deliveries.labels("202").inc()
    one.events.labels("issue_comment", "started").inc()
    body, kind = one.render()
    assert b'codex_debate_deliveries_total{status="202"} 1.0' in body
    assert b'codex_debate_events_total{event="issue_comment",outcome="started"} 1.0' in body
    assert kind.startswith("text/plain")
    assert b'status="202"' not in two.render()[0]
