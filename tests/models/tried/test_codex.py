"""The real codex against the server: it takes every kind of turn, and every fault reads as agents.md 2.4 has it."""

from __future__ import annotations

from time import monotonic

import pytest

from scripted_models import ModelServer, Request, Turn, Usage, answers, by_prompt, calls, faults, says
from scripted_models.programs import Codex, Ran

SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}
NEW_FILE = "*** Begin Patch\n*** Add File: new.txt\n+made by a patch\n*** End Patch\n"


def said(ran: Ran) -> list[str]:
    return [event["item"]["text"] for event in ran.of("item.completed") if event["item"]["type"] == "agent_message"]


def thread(ran: Ran) -> str:
    (started,) = ran.of("thread.started")
    return str(started["thread_id"])


def told(ran: Ran) -> dict[str, int]:
    (completed,) = ran.of("turn.completed")
    usage: dict[str, int] = completed["usage"]
    return usage


def failure(ran: Ran) -> str:
    assert ran.code == 1
    (failed,) = ran.of("turn.failed")
    return str(failed["error"]["message"])


async def test_it_hears_a_text_of_several_pieces(codex: Codex, models: ModelServer) -> None:
    text = "Ä text of several pieces — “whole” again at the end.\n" * 3
    models.openai.plays([says(text)])
    ran = await codex("Say something.")
    assert (ran.code, said(ran)) == (0, [text])
    (request,) = models.openai.requests
    assert (request.method, request.path, request.key) == ("POST", "/v1/responses", "sk-dummy")
    assert (request.session, request.turn, request.finished) == (thread(ran), 1, True)
    assert "Say something." in request.prompt_text()
    assert "Say something." in request.new_text()


async def test_it_runs_a_command_and_applies_a_patch(codex: Codex, models: ModelServer) -> None:
    command = calls("exec_command", cmd="echo made by a command > other.txt; cat other.txt")
    models.openai.plays([says("I work.") + command + calls("apply_patch", input=NEW_FILE), says("Done.")])
    ran = await codex("Work.")
    assert said(ran) == ["I work.", "Done."]
    assert (codex.root / "tree/other.txt").read_text() == "made by a command\n"
    assert (codex.root / "tree/new.txt").read_text() == "made by a patch\n"
    results = models.openai.requests[1].new_text()
    assert "made by a command" in results
    assert "Say something" not in results


async def test_a_model_in_code_mode_calls_its_free_form_tool(codex: Codex, models: ModelServer) -> None:
    codex.model = "gpt-6.1-sol"
    code = "const r = await tools.exec_command({cmd: 'echo a-word'}); text(r.output);"
    models.openai.plays([calls("exec", input=code), says("Done.")])
    assert said(await codex("Work.")) == ["Done."]
    assert "tools" not in models.openai.requests[0].body
    assert "a-word" in models.openai.requests[1].new_text()


async def test_a_schema_is_answered_with_text_that_fits(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([answers({"approved": True})])
    ran = await codex("Judge.", schema=SCHEMA)
    assert said(ran) == ['{"approved": true}']
    assert models.openai.requests[0].schema == SCHEMA


async def test_a_resumed_thread_repeats_its_history_and_that_is_cached(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([calls("exec_command", cmd="echo a-word"), says("First."), says("Second.")])
    first = await codex("One canary.")
    second = await codex("Two.", resume=thread(first))
    one, two, three = models.openai.requests
    assert [each.session for each in models.openai.requests] == [thread(first)] * 3
    assert thread(second) == thread(first)
    assert "One canary." in three.prompt_text()
    assert "One canary." not in three.new_text()
    assert one.usage.cached == 0
    assert two.usage.cached == one.usage.input
    assert three.usage.cached == two.usage.input
    assert 0 < three.usage.uncached < 1000


async def test_codex_tells_the_usage_of_its_thread_as_the_server_counted_it(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([calls("exec_command", cmd="true"), says("First."), says("Second.")])
    first = await codex("One.")
    counted = models.openai.usage
    assert counted.calls == 2
    assert told(first) == {
        "input_tokens": counted.input,
        "cached_input_tokens": counted.cached,
        "cache_write_input_tokens": 0,
        "output_tokens": counted.output,
        "reasoning_output_tokens": 0,
    }
    second = await codex("Two.", resume=thread(first))
    assert told(second)["input_tokens"] == models.openai.usage.input, "cumulative over the thread (agents.md 2.1)"
    assert told(second)["cached_input_tokens"] == models.openai.usage.cached


async def test_a_new_thread_finds_nothing_cached(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([says("One."), says("Two.")])
    await codex("The same.")
    await codex("The same.")
    assert len(models.openai.sessions) == 2
    assert models.openai.usage.cached == 0


async def test_usage_can_be_told(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([says("Dear.").costing(Usage(input=2400, cached=2000, written=300, output=68))])
    usage = told(await codex("Say."))
    del usage["reasoning_output_tokens"]
    assert list(usage.values()) == [2400, 2000, 300, 68]
    assert models.openai.usage == Usage(input=2400, cached=2000, written=300, output=68)


async def test_a_function_decides_by_what_is_asked(codex: Codex, models: ModelServer) -> None:
    async def decide(request: Request) -> Turn:
        return says(f"{request.turn}: {'exec_command' in request.tools}, {request.model}")

    models.openai.plays(by_prompt({"left": [says("You said left.")], "right": decide}))
    assert said(await codex("right")) == ["1: True, gpt-5.5"]
    assert said(await codex("left")) == ["You said left."]


FAULTS: dict[str, tuple[Turn, str]] = {
    "401": (faults.unauthorized(), "unexpected status 401 Unauthorized: The key is not valid., url: "),
    "403": (faults.forbidden(), "unexpected status 403 Forbidden: "),
    "404": (faults.not_found(), "unexpected status 404 Not Found: "),
    "400": (faults.bad_request("No."), '{"error": {"message": "No.", "type": "invalid_request_error", '),
    "429": (faults.rate_limited(retry_after=1), "exceeded retry limit, last status: 429 Too Many Requests"),
    "quota": (faults.insufficient_quota(), "Quota exceeded. Check your plan and billing details."),
    "500": (faults.server_error(), "We’re currently experiencing high demand"),  # noqa: RUF001 - codex writes it so
    "503": (faults.unavailable(), "unexpected status 503 Service Unavailable: "),
    "rate": (faults.stream_rate_limited(), "rate limit exceeded: Rate limit reached. "),
    "stream quota": (faults.stream_insufficient_quota(), "Quota exceeded. Check your plan and billing details."),
    "context": (faults.context_length_exceeded(), "Codex ran out of room in the model's context window."),
    "server": (faults.stream_server_error(), "stream disconnected before completion: An error occurred"),
    "cut": (faults.cut(), "stream disconnected before completion: Transport error: "),
    "clean cut": (faults.cut(clean=True), "stream disconnected before completion: stream closed before "),
    "silence": (faults.silence(), "stream disconnected before completion: idle timeout waiting for SSE"),
    "garbage": (faults.garbage(), "stream disconnected before completion: stream closed before "),
    "limit": (says("I had to").stopped("max_tokens"), "Incomplete response returned, reason: max_output_tokens"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_one_request_and_one_sentence(codex: Codex, models: ModelServer, name: str) -> None:
    turn, sentence = FAULTS[name]
    codex.idle = 0.5 if name == "silence" else codex.idle
    models.openai.plays([turn])
    assert failure(await codex("Say.")).startswith(sentence)
    assert len(models.openai.requests) == 1


async def test_it_comes_back_after_the_seconds_that_it_was_told(codex: Codex, models: ModelServer) -> None:
    codex.retries = 1
    models.openai.plays([faults.rate_limited(retry_after=1), says("At last.")])
    before = monotonic()
    assert said(await codex("Say.")) == ["At last."]
    assert monotonic() - before >= 1


async def test_it_asks_again_after_an_error_and_again_after_a_broken_stream(codex: Codex, models: ModelServer) -> None:
    codex.retries = 1
    models.openai.plays([faults.server_error(), faults.cut(), says("At last.")])
    assert said(await codex("Say.")) == ["At last."]
    assert models.openai.unplayed == 0


async def test_a_script_at_its_end_says_so_to_the_program(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([])
    assert "Not in the script: the script has 0 turns" in failure(await codex("Say."))


async def test_it_follows_a_redirect(codex: Codex, models: ModelServer) -> None:
    """Whoever stands between must not pass one on."""
    async with ModelServer.start() as elsewhere:
        models.openai.plays([faults.redirected(f"{elsewhere.openai_url}/responses")])
        elsewhere.openai.plays([says("From elsewhere.")])
        assert said(await codex("Say.")) == ["From elsewhere."]
    assert elsewhere.openai.keys == {""}, "the key stayed behind: it was another port"
