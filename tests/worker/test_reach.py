"""A request may have the provider answer it and nothing else; what the real programs ask for themselves passes."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.reach import FIELDS, PIECES, Asked, asked

OPENAI: dict[str, Any] = {
    "model": "gpt-5.5",
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "tool_choice": "auto",
    "tools": [
        {"type": "function", "name": "exec_command", "parameters": {}},
        {"type": "custom", "name": "apply_patch"},
    ],
    "input": [
        {"type": "additional_tools", "tools": [{"type": "namespace", "tools": [{"type": "custom", "name": "exec"}]}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": '{"image_url": "https://x"}'}]},
        {"type": "function_call", "name": "f", "arguments": '{"file_url": "https://x"}'},
        {
            "type": "function_call_output",
            "output": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}],
        },
    ],
}
ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "stream": True,
    "max_tokens": 64000,
    "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "Read", "input_schema": {"properties": {"source": {"type": "url"}}}}, {"type": "custom"}],
    "mcp_servers": [],
    "messages": [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [{"type": "tool_use", "input": {"source": {"type": "url"}, "file_id": "x"}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}],
                }
            ],
        },
    ],
}
REQUESTS = {"responses": OPENAI, "messages": ANTHROPIC}


def fault(api: str, request: object) -> str:
    return asked(api, json.dumps(request).encode()).fault


@pytest.mark.parametrize("api", REQUESTS)
def test_what_the_programs_ask_for_passes_with_its_model(api: str) -> None:
    request = REQUESTS[api]
    assert asked(api, json.dumps(request).encode()) == Asked(request["model"])
    assert asked(api, json.dumps(request, ensure_ascii=False, indent=2).encode()) == Asked(request["model"])


OPENAI_TOOLS = ["web_search", "web_search_preview", "mcp", "code_interpreter", "file_search", "image_generation"]
OPENAI_TOOLS += ["computer_use_preview", "shell", "anything", ""]
ANTHROPIC_TOOLS = [
    "web_search_20250305",
    "web_fetch_20250910",
    "code_execution_20250825",
    "mcp_toolset",
    "anything",
    "",
]


@pytest.mark.parametrize("kind", [*OPENAI_TOOLS, 5, None, [], {}])
def test_openai_is_offered_no_tool_that_it_would_carry_out(kind: object) -> None:
    tool = {"type": kind, "server_url": "https://evil.example"}
    for tools in ([tool], tool, [*OPENAI["tools"], tool], [{"type": "namespace", "name": "n", "tools": [tool]}]):
        assert "tool" in fault("responses", {**OPENAI, "tools": tools})
        assert "tool" in fault("responses", {**OPENAI, "input": [{"type": "additional_tools", "tools": tools}]})


@pytest.mark.parametrize("kind", [*ANTHROPIC_TOOLS, 5, [], {}])
def test_anthropic_is_offered_no_tool_that_it_would_carry_out(kind: object) -> None:
    tool = {"type": kind, "name": "x"}
    for tools in ([tool], tool, [*ANTHROPIC["tools"], tool], ["x"]):
        assert "tool" in fault("messages", {**ANTHROPIC, "tools": tools})


SET = [
    ("responses", "background", True),
    ("responses", "service_tier", "priority"),
    ("responses", "service_tier", ["flex"]),
    ("responses", "previous_response_id", "resp_1"),
    ("responses", "conversation", {"id": "conv_1"}),
    ("responses", "prompt", {"id": "pmpt_1"}),
    ("messages", "service_tier", "priority"),
    ("messages", "speed", "fast"),
    ("messages", "container", "c"),
    ("messages", "container", {"skills": [1]}),
    ("messages", "mcp_servers", [{"type": "url", "url": "https://evil.example"}]),
]


@pytest.mark.parametrize(("api", "name", "value"), SET)
def test_fields_that_reach_further_are_refused(api: str, name: str, value: object) -> None:
    assert fault(api, {**REQUESTS[api], name: value}) == f"sets {name}"
    assert not fault(api, {**REQUESTS[api], name: None})


def test_every_field_that_is_held_has_a_case() -> None:
    assert {(api, name) for api, fields in FIELDS.items() for name in fields} == {(api, name) for api, name, _ in SET}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "https://evil.example/?secret"},
        {"type": "input_image", "image_url": "HTTP://evil.example"},
        {"type": "input_image", "image_url": {"url": "data:x"}},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://evil.example"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "item_reference", "id": "msg_1"},
    ],
)
def test_openai_fetches_and_looks_up_nothing(part: dict[str, Any]) -> None:
    for item in (
        part,
        {"role": "user", "content": [part]},
        {"type": "function_call_output", "output": [part]},
        {"type": "computer_call_output", "output": part},
    ):
        assert fault("responses", {**OPENAI, "input": [*OPENAI["input"], item]})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "url", "url": "https://evil.example"}},
        {"type": "document", "source": {"type": "url", "url": "https://evil.example"}},
        {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
        {"type": "document", "source": {"type": ["url"]}},
        {"type": "document", "source": {"type": "content", "content": [{"source": {"type": "url"}}]}},
        {"type": "container_upload", "file_id": "file-1"},
    ],
)
def test_anthropic_fetches_and_looks_up_nothing(part: dict[str, Any]) -> None:
    for place in ([part], [{"type": "tool_result", "content": [part]}]):
        messages = [*ANTHROPIC["messages"], {"role": "user", "content": place}]
        assert fault("messages", {**ANTHROPIC, "messages": messages})
    assert fault("messages", {**ANTHROPIC, "system": [part]})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"[]",
        b"null",
        b'"x"',
        b'{"model": "m"',
        b'{"tools": [], "tools": [{"type": "mcp"}]}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"model": "\xff"}',
        json.dumps({"tools": []}).encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": [' + b"[]," * (PIECES // 2) + b"[]]}",
    ],
)
def test_what_two_readers_could_read_differently_is_refused(body: bytes) -> None:
    for api in REQUESTS:
        assert asked(api, body).fault


def test_a_small_request_cannot_take_much_memory() -> None:
    body = b'{"a": [' + b"[],[],{}," * (11 * 1024 * 1024 // 3) + b"0]}"
    tracemalloc.start()
    assert asked("responses", body).fault == "is made of too many pieces"
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "tools", "source"]), inner),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(api=st.sampled_from(list(REQUESTS)), name=st.data(), value=JSON)
def test_whatever_stands_in_a_field_it_is_judged_and_nothing_breaks(api: str, name: st.DataObject, value: Any) -> None:
    request = copy.deepcopy(REQUESTS[api])
    request[name.draw(st.sampled_from([*request, *FIELDS[api]]))] = value
    assert isinstance(fault(api, request), str)


@pytest.mark.parametrize("depth", [100, 300, 450, 600, 800, 950, 985, 1000, 5000])
def test_no_depth_breaks_it(depth: int) -> None:
    part = b'{"a": [' * depth + b'{"type": "item_reference"}' + b"]}" * depth
    for api, name in (("responses", b"input"), ("messages", b"messages")):
        assert asked(api, b'{"%s": [%s]}' % (name, part)).fault
