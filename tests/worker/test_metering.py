"""What a reply used is read from its bytes, in whatever pieces they come, and guessed only where it is not told."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker import metering
from worker.debate.flow import Tokens
from worker.metering import LARGEST_COUNT, LINE_BYTES, Meter, Reading, model_name

OPENAI_USAGE = {
    "input_tokens": 2400,
    "input_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 300},
    "output_tokens": 68,
    "output_tokens_details": {"reasoning_tokens": 8},
    "total_tokens": 2468,
}
OPENAI: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"model": "gpt-5.5", "usage": None}},
    {"type": "response.output_text.delta", "delta": "he\u00e9llo 😀"},
    {"type": "response.output_item.done", "item": {"content": [{"text": "héllo"}]}},
    {"type": "response.completed", "response": {"model": "gpt-5.5-2026-04-23", "usage": OPENAI_USAGE}},
]
OPENAI_READ = Reading("gpt-5.5-2026-04-23", Tokens(2400, 2000, 68), cache_write=300)
START_USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1}
ANTHROPIC: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"model": "claude-sonnet-5", "usage": START_USAGE}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 400}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
ANTHROPIC_READ = Reading("claude-sonnet-5", Tokens(60, 30, 5), cache_write=20)
STREAMS = {"responses": (OPENAI, OPENAI_READ), "messages": (ANTHROPIC, ANTHROPIC_READ)}
BOTH = pytest.mark.parametrize("api", STREAMS)


def stream(events: list[dict[str, Any]], *, end: str = "\n", space: str = " ") -> bytes:
    lines = [
        f"event: {event['type']}{end}data:{space}{json.dumps(event, ensure_ascii=False)}{end}{end}" for event in events
    ]
    return "".join(lines).encode()


def read(api: str, *parts: bytes, asked: int = 1000) -> Reading:
    meter = Meter(api, asked=asked)
    for part in parts:
        meter.feed(part)
    return meter.reading()


@BOTH
def test_a_streams_usage_is_read(api: str) -> None:
    events, expected = STREAMS[api]
    assert read(api, stream(events)) == expected
    assert read(api, stream(events, end="\r\n")) == expected
    assert read(api, b"\r\n\r\n: hello\n", stream(events, space="")) == expected


@BOTH
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_it_does_not_matter_where_the_bytes_are_split(api: str, data: st.DataObject) -> None:
    events, expected = STREAMS[api]
    whole = stream(events)
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parts = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    assert read(api, *parts) == expected


@BOTH
def test_byte_by_byte(api: str) -> None:
    events, expected = STREAMS[api]
    assert read(api, *(bytes([byte]) for byte in stream(events))) == expected


def test_one_json_body_is_read() -> None:
    body = {"object": "response", "model": "gpt-5.5-2026-04-23", "usage": OPENAI_USAGE, "output": []}
    assert read("responses", json.dumps(body, indent=1).encode()) == OPENAI_READ
    usage = {**START_USAGE, "output_tokens": 5}
    message = json.dumps({"type": "message", "model": "claude-sonnet-5", "usage": usage}).encode()
    assert read("messages", b"\n", message[:30], message[30:]) == ANTHROPIC_READ


@pytest.mark.parametrize("kind", ["response.incomplete", "response.failed"])
def test_a_reply_that_ends_otherwise_tells_its_usage_too(kind: str) -> None:
    assert read("responses", stream([*OPENAI[:3], {**OPENAI[3], "type": kind}])) == OPENAI_READ


def test_later_counts_win_and_what_they_leave_out_stands() -> None:
    later = {"input_tokens": 11, "cache_read_input_tokens": None, "output_tokens": 7}
    events = [*ANTHROPIC[:4], {"type": "message_delta", "usage": later}, ANTHROPIC[4]]
    assert read("messages", stream(events)).tokens == Tokens(61, 30, 7)


def test_what_is_cached_for_an_hour_is_told_apart() -> None:
    usage = {**START_USAGE, "cache_creation": {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 12}}
    events = [{"type": "message_start", "message": {"model": "claude-sonnet-5", "usage": usage}}, *ANTHROPIC[3:]]
    found = read("messages", stream(events))
    assert (found.cache_write, found.cache_write_long, found.tokens.input) == (8, 12, 60)


def test_the_steps_of_a_reply_are_added_up() -> None:
    """Anthropic's "Compaction": the usage outside leaves out what compacting took, and the bill is the sum."""
    steps = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 1000, "iterations": steps}
    events = [ANTHROPIC[0], {"type": "message_delta", "usage": usage}, ANTHROPIC[4]]
    assert read("messages", stream(events)).tokens == Tokens(203_000 + 50, 30, 4500)


@pytest.mark.parametrize("cached", [2401, LARGEST_COUNT])
def test_no_more_is_cached_than_was_read(cached: int) -> None:
    usage = {**OPENAI_USAGE, "input_tokens_details": {"cached_tokens": cached}}
    event = {"type": "response.completed", "response": {"usage": usage}}
    assert read("responses", stream([event])) == Reading("", Tokens(2400, 2400, 68))
    begun = {"type": "response.created", "response": {"usage": {"input_tokens_details": {"cached_tokens": cached}}}}
    assert read("responses", stream([begun]), asked=1000) == Reading("", Tokens(250, 250, 0), estimated=True)


# ---- What is not told -----------------------------------------------------------------------------------------------


def test_a_stream_that_was_cut_counts_as_what_was_asked_and_written() -> None:
    found = read("responses", stream([OPENAI[0], *[{"type": "response.output_text.delta", "delta": "x" * 40}] * 10]))
    assert found == Reading("gpt-5.5", Tokens(250, 0, 100), estimated=True)


def test_a_cut_stream_keeps_what_it_told_before() -> None:
    assert read("messages", stream(ANTHROPIC[:3])) == Reading(
        "claude-sonnet-5", Tokens(60, 30, 100), cache_write=20, estimated=True
    )
    cut = stream(ANTHROPIC)[: -len(stream(ANTHROPIC[4:])) - 2]
    assert read("messages", cut).estimated


@pytest.mark.parametrize("field", ["thinking", "partial_json"])
def test_all_that_a_model_writes_counts(field: str) -> None:
    delta = {"type": "content_block_delta", "delta": {"type": f"{field}_delta", field: "é" * 200, "signature": "x"}}
    assert read("messages", stream([ANTHROPIC[0], delta])).tokens.output == 100


def test_a_call_without_any_answer_counts_as_what_was_asked() -> None:
    assert read("responses", asked=999) == Reading("", Tokens(250, 0, 0), estimated=True)


def test_a_reply_in_another_dialect_counts_by_its_bytes() -> None:
    assert read("responses", b'{"text": "' + b"x" * 388 + b'"}', asked=0).tokens.output == 100
    assert read("responses", b"data: [" + b"x" * 393 + b"\n", asked=0).tokens.output == 100


def test_a_reply_that_failed_before_its_first_word_cost_nothing() -> None:
    failed = {"type": "response.failed", "response": {"model": "gpt-5.5", "usage": None}}
    assert read("responses", stream([OPENAI[0], failed])) == Reading("gpt-5.5")
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert read("messages", stream([error])) == Reading()
    begun = read("messages", stream([*ANTHROPIC[:3], error]))
    assert (begun.tokens, begun.estimated) == (Tokens(60, 30, 100), True)


# ---- Hostile bytes --------------------------------------------------------------------------------------------------


@BOTH
@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(
        st.binary(max_size=60)
        | st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "usage", "message", "response", "delta", "model", "input_tokens", "text"]),
                    inner | st.sampled_from(["message_start", "message_delta", "response.completed", "error"]),
                    max_size=5,
                )
            ),
            max_leaves=12,
        ).map(lambda value: b"data: " + json.dumps(value).encode() + b"\n"),
        max_size=8,
    )
)
def test_nothing_that_comes_can_break_it(api: str, parts: list[bytes]) -> None:
    found = read(api, *parts)
    assert min(found.tokens.input, found.tokens.cached, found.tokens.output, found.cache_write) >= 0
    assert found.tokens.cached <= found.tokens.input


@pytest.mark.parametrize("count", [True, -1, 1.5, "5", None, [], {}, LARGEST_COUNT + 1, 10**400])
def test_a_count_that_is_none_is_not_taken(count: object) -> None:
    event = {"type": "response.completed", "response": {"usage": {"input_tokens": 7, "output_tokens": count}}}
    assert read("responses", stream([event])) == Reading("", Tokens(250, 0, 0), estimated=True)


def test_deep_nesting_and_huge_numbers_are_no_events() -> None:
    deep = b'data: {"usage": ' + b"[" * 200_000 + b"\n"
    number = b'data: {"usage": ' + b"9" * 200_000 + b"}\n"
    assert read("responses", deep, number, stream(OPENAI)) == OPENAI_READ


@pytest.mark.parametrize("start", [b"data: ", b"{"])
def test_memory_stays_bounded_and_what_is_skipped_still_counts(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "LINE_BYTES", 64 * 1024)
    meter = Meter("responses", asked=0)
    meter.feed(start)
    tracemalloc.start()
    for _ in range(1000):
        meter.feed(b"x" * 16_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000
    assert meter.reading().tokens.output == pytest.approx(4_000_000, abs=2)
    meter.feed(b"\n" + stream(OPENAI))
    if start == b"data: ":
        assert meter.reading() == OPENAI_READ  # the next line is read again


def test_the_longest_line_is_long_enough_for_a_whole_reply() -> None:
    event = {"type": "response.completed", "response": {"usage": OPENAI_USAGE, "output": "x" * (128_000 * 8)}}
    assert len(stream([event])) < LINE_BYTES / 4
    assert read("responses", stream([event])).tokens == OPENAI_READ.tokens


@pytest.mark.parametrize("name", ["a b", "", "x" * 101, "<b>", "a\n", None, 5, "ä"])
def test_a_name_that_is_none_is_not_shown(name: object) -> None:
    assert not model_name(name)
    event = {"type": "message_start", "message": {"model": name, "usage": START_USAGE}}
    assert read("messages", stream([event, *ANTHROPIC[3:]])).model == ""


def test_usual_names_are_shown() -> None:
    for name in ("claude-haiku-4-5-20251001", "gpt-6.1-sol", "us.anthropic.claude-opus-5:0", "claude-opus-5[1m]"):
        assert model_name(name) == name
