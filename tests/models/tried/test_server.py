"""The server by itself: what goes over the wire, what is kept of it, and what it does when nobody listens any more."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

import aiohttp
import pytest

from scripted_models import ModelServer, Request, Turn, answers, by_prompt, calls, faults, says
from scripted_models.asking import PROMPT, Asking


async def events(asked: Any) -> list[dict[str, Any]]:
    """Read a stream; each event's name must be its data's type."""
    found = []
    async with asked as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        for block in (await response.text()).removesuffix("\n\n").split("\n\n"):
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


async def test_openais_stream_tells_a_text_and_a_call(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([(says("I look.") + calls("look", at="a")).slowly(chunk=5)])
    heard = await events(ask.openai())
    assert [event["type"].removeprefix("response.") for event in heard] == [
        *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.delta", "output_text.done", "content_part.done", "output_item.done", "output_item.added"),
        *("function_call_arguments.delta", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done", "completed"),
    ]
    assert [event["sequence_number"] for event in heard] == list(range(16))
    assert [event["delta"] for event in heard if "delta" in event] == ["I loo", "k.", '{"at"', ': "a"', "}"]
    message, call = heard[-1]["response"]["output"]
    assert message["content"][0]["text"] == "I look."
    assert (call["name"], call["arguments"]) == ("look", '{"at": "a"}')
    assert heard[-1]["response"]["usage"]["output_tokens"] == -(-len('I look.look{"at": "a"}') // 4)


async def test_openais_free_form_tool_takes_text(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([calls("apply_patch", input="*** Begin Patch")])
    heard = await events(ask.openai(tools=[{"type": "custom", "name": "apply_patch"}]))
    (call,) = heard[-1]["response"]["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", "*** Begin Patch")


async def test_anthropics_stream_tells_a_text_and_a_call(ask: Asking, models: ModelServer) -> None:
    models.anthropic.plays([(says("I look.") + calls("look", at="a")).slowly(chunk=5)])
    heard = await events(ask.anthropic())
    assert [event["type"] for event in heard] == [
        *("message_start", "ping"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", *("content_block_delta",) * 3, "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    pieces = [list(event["delta"].values())[1] for event in heard if event["type"] == "content_block_delta"]
    assert pieces == ["I loo", "k.", '{"at"', ': "a"', "}"]
    assert heard[0]["message"]["usage"]["output_tokens"] == 1
    assert heard[-2]["delta"]["stop_reason"] == "tool_use"
    assert heard[-2]["usage"]["output_tokens"] == -(-len('I look.look{"at": "a"}') // 4)


async def test_both_answer_without_a_stream(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([answers({"a": 1})])
    models.anthropic.plays([answers({"a": 1})])
    async with ask.openai(stream=False) as response:
        assert (await response.json())["output"][0]["content"][0]["text"] == '{"a": 1}'
    tool = {"name": "StructuredOutput", "input_schema": {}}
    async with ask.anthropic(stream=False, tools=[tool]) as response:
        message = await response.json()
    assert (message["stop_reason"], message["content"][0]["input"]) == ("tool_use", {"a": 1})


async def test_what_is_marked_for_the_cache_is_written_and_then_read(ask: Asking, models: ModelServer) -> None:
    def block(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "text", "text": text} | more

    mark = {"cache_control": {"type": "ephemeral"}}
    models.anthropic.plays([says("a"), says("b")])
    before = [{"role": "user", "content": [block("1" * 400, **mark), block("2" * 400)]}]
    after = [{"role": "user", "content": [block("1" * 400), block("2" * 400), block("3" * 400, **mark)]}]
    first = (await events(ask.anthropic(messages=before)))[-2]["usage"]
    second = (await events(ask.anthropic(messages=after)))[-2]["usage"]
    size = 400 + len(json.dumps(["user", block("")], separators=(",", ":")))
    quarter = [-(-size * number // 4) for number in (1, 2, 3)]
    told = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens")
    assert [first[name] for name in told] == [0, quarter[0], quarter[1] - quarter[0]]
    assert [second[name] for name in told] == [quarter[1], quarter[2] - quarter[1], 0]


async def test_sessions_do_not_share_a_cache(ask: Asking, models: ModelServer) -> None:
    models.openai.plays(lambda _: says("a"))
    for session in ("one", "one", "two"):
        await events(ask.openai(prompt_cache_key=session))
    one, again, two = models.openai.requests
    assert [one.usage.cached, again.usage.cached, two.usage.cached] == [0, one.usage.input, 0]
    assert [one.turn, again.turn, two.turn] == [1, 2, 1]


async def test_a_changed_schema_makes_the_prompt_new(ask: Asking, models: ModelServer) -> None:
    models.openai.plays(lambda _: says("a"))
    for name in ("one", "one", "two"):
        await events(ask.openai(text={"format": {"type": "json_schema", "name": name, "schema": {}}}))
    assert [request.usage.cached > 0 for request in models.openai.requests] == [False, True, False]


async def test_requests_are_kept_with_everything(ask: Asking, models: ModelServer) -> None:
    models.anthropic.plays([says("a")])
    await events(ask.anthropic(system=[{"type": "text", "text": "the system"}], tools=[{"name": "Read"}]))
    (request,) = models.anthropic.requests
    assert (request.method, request.path) == ("POST", "/v1/messages?beta=true")
    assert (request.key, models.anthropic.keys, request.headers["x-api-key"]) == ("sk-2", {"sk-2"}, "sk-2")
    assert request.body == json.loads(request.raw)
    assert request.prompt_text() == f"Read\ntext\nthe system\nuser\n{PROMPT}"


async def test_what_is_asked_elsewhere_is_kept_too(client: aiohttp.ClientSession, models: ModelServer) -> None:
    async with client.get(f"{models.openai_url}/models?limit=1") as response:
        assert response.status == 404
    async with client.head(f"{models.anthropic_url}/api/hello") as response:
        assert response.status == 200
    assert [(stray.method, stray.path) for stray in models.strays] == [
        ("GET", "/v1/models?limit=1"),
        ("HEAD", "/api/hello"),
    ]


async def test_a_body_that_is_no_json_is_kept_as_it_came(client: aiohttp.ClientSession, models: ModelServer) -> None:
    models.openai.plays([faults.bad_request()])
    async with client.post(f"{models.openai_url}/responses", data=b"\xff{") as response:
        assert response.status == 400
    assert (models.openai.requests[0].raw, models.openai.requests[0].body) == (b"\xff{", {})


async def test_a_turn_takes_the_time_that_it_is_given(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([says("1234").slowly(wait=0.1, pause=0.05, chunk=1)])
    before = monotonic()
    await events(ask.openai())
    assert 0.3 <= monotonic() - before < 2


async def test_a_script_can_begin_anew(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([says("a"), says("b")], again=True)
    heard = [(await events(ask.openai()))[-1]["response"]["output"][0]["content"][0]["text"] for _ in range(3)]
    assert heard == ["a", "b", "a"]


async def test_turns_wait_for_a_function_and_other_requests_go_on(ask: Asking, models: ModelServer) -> None:
    both = asyncio.Barrier(2)

    async def decide(request: Request) -> Turn:
        await both.wait()
        return says(request.new_text())

    models.openai.plays(decide)
    await asyncio.gather(events(ask.openai("a")), events(ask.openai("b")))
    assert all(request.finished for request in models.openai.requests)


async def test_a_prompt_chooses_its_script_or_its_function(ask: Asking, models: ModelServer) -> None:
    async def decide(request: Request) -> Turn:
        return says(f"{request.turn}: {request.model}")

    models.openai.plays(by_prompt({"left": [says("You said left.")], "right": decide}))
    heard = [(await events(ask.openai(each)))[-1]["response"] for each in ("right", "left")]
    assert [each["output"][0]["content"][0]["text"] for each in heard] == ["1: gpt-5.5", "You said left."]


async def test_a_prompt_that_no_script_knows_is_refused(ask: Asking, models: ModelServer) -> None:
    models.anthropic.plays(by_prompt({"left": [says("a")]}))
    async with ask.anthropic() as response:
        assert (response.status, "none of ['left']" in await response.text()) == (400, True)


async def test_a_script_at_its_end_says_so(ask: Asking, models: ModelServer) -> None:
    models.openai.plays([])
    async with ask.openai() as response:
        told = await response.text()
    assert (response.status, "Not in the script: the script has 0 turns" in told) == (400, True)


async def test_an_answer_without_a_schema_is_text(ask: Asking, models: ModelServer) -> None:
    models.anthropic.plays([answers({"a": 1})])
    async with ask.anthropic(stream=False) as response:
        assert (await response.json())["content"][0]["text"] == '{"a": 1}'


async def test_what_a_function_raises_comes_out_at_the_end(client: aiohttp.ClientSession) -> None:
    def decide(_request: Request) -> Turn:
        raise AssertionError("as I thought")

    with pytest.raises(AssertionError, match="as I thought"):  # noqa: PT012 - it is raised by the end of the block
        async with ModelServer.start() as models:
            models.openai.plays(decide)
            async with Asking(client, models).openai() as response:
                assert response.status == 400
