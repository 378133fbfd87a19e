"""Log lines: one a line, nothing secret, nothing hidden."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from bot.telemetry import Metrics, configure, log

TOKEN = "ghs_123456_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.abc-def_ghi"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


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
