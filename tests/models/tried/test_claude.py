"""The real claude against the server: it takes every kind of turn, and every fault reads as agents.md 4.7 has it."""

from __future__ import annotations

from typing import Any

import pytest

from scripted_models import ModelServer, Turn, Usage, answers, calls, faults, says
from scripted_models.programs import Claude, Ran

SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}


def result(ran: Ran) -> dict[str, Any]:
    (found,) = ran.of("result")
    return found


def told(ran: Ran) -> Usage:
    usage = result(ran)["usage"]
    cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    whole = usage["input_tokens"] + cached + written
    return Usage(input=whole, cached=cached, written=written, output=usage["output_tokens"], calls=0)


async def test_it_hears_a_text_of_several_pieces(claude: Claude, models: ModelServer) -> None:
    text = "Ä text of several pieces — “whole” again at the end. " * 3 + "."
    models.anthropic.plays([says(text)])
    ran = await claude("Say something.")
    assert (ran.code, result(ran)["is_error"], result(ran)["result"]) == (0, False, text)
    (request,) = models.anthropic.requests
    assert (request.method, request.path) == ("POST", "/v1/messages?beta=true")
    assert (request.key, request.session) == ("sk-ant-dummy", result(ran)["session_id"])
    assert "Say something." in request.prompt_text()
    assert not models.strays


async def test_it_edits_a_file_and_runs_a_command(claude: Claude, models: ModelServer) -> None:
    path = claude.root / "tree" / "app.py"
    path.parent.mkdir()
    path.write_text("x = 1\n")
    edit = calls("Edit", file_path=str(path), old_string="x = 1", new_string="x = 2")
    read = says("I read.") + calls("Read", file_path=str(path)) + calls("Bash", command="echo a-word")
    models.anthropic.plays([read, edit, says("Done.")])
    ran = await claude("Work.")
    assert result(ran)["result"] == "Done."
    assert path.read_text() == "x = 2\n"
    assert {"x = 1", "a-word"} <= set(models.anthropic.requests[1].new_text().replace("\t", "\n").split("\n"))


async def test_a_schema_is_answered_through_its_tool(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([answers({"approved": True})])
    ran = await claude("Judge.", schema=SCHEMA)
    assert result(ran)["structured_output"] == {"approved": True}
    assert models.anthropic.requests[0].schema == SCHEMA


async def test_an_answer_without_a_schema_is_text(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([answers({"approved": True})])
    assert result(await claude("Judge."))["result"] == '{"approved": true}'


async def test_a_resumed_session_repeats_its_history_and_that_is_cached(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([calls("Bash", command="echo a-word"), says("First."), says("Second.")])
    first = await claude("One canary.")
    second = await claude("Two.", resume=result(first)["session_id"])
    one, two, three = models.anthropic.requests
    assert result(second)["session_id"] == result(first)["session_id"]
    assert list(models.anthropic.sessions) == [result(first)["session_id"]]
    assert "One canary." in three.prompt_text()
    assert "One canary." not in three.new_text()
    assert one.usage.cached == 0
    assert two.usage.cached == one.usage.input
    assert three.usage.cached == two.usage.input
    assert 0 < three.usage.uncached < 1000


async def test_a_schema_that_comes_later_makes_everything_new(claude: Claude, models: ModelServer) -> None:
    """It is a tool, and the tools stand before everything else: a seat should have its schema from its first turn."""
    models.anthropic.plays([says("First."), answers({"approved": True})])
    first = await claude("One.")
    await claude("Two.", resume=result(first)["session_id"], schema=SCHEMA)
    one, two = models.anthropic.requests
    assert two.usage.cached < one.usage.input / 2


async def test_claude_tells_the_usage_of_its_run_as_the_server_counted_it(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([calls("Bash", command="true"), says("First."), says("Second.")])
    first = await claude("One.")
    counted = models.anthropic.usage
    assert counted.calls == 2
    assert told(first) == Usage(
        input=counted.input, cached=counted.cached, written=counted.written, output=counted.output, calls=0
    )
    second = await claude("Two.", resume=result(first)["session_id"])
    assert told(first) + told(second) + Usage(calls=3) == models.anthropic.usage


async def test_usage_can_be_told(claude: Claude, models: ModelServer) -> None:
    usage = Usage(input=2400, cached=2000, written=300, output=68)
    models.anthropic.plays([says("Dear.").costing(usage)])
    assert told(await claude("Say.")) + Usage() == usage


FAULTS: dict[str, tuple[Turn, str, int | None, str, int]] = {
    # name: turn, error of the message, status, beginning of the result, requests
    "401": (faults.unauthorized(), "authentication_failed", 401, "Failed to authenticate. API Error: 401 ", 1),
    "403": (faults.forbidden(), "authentication_failed", 403, "Failed to authenticate. API Error: 403 ", 1),
    "404": (faults.not_found(), "model_not_found", 404, "There's an issue with the selected model", 2),
    "400": (faults.bad_request("No."), "unknown", 400, "API Error: 400 No.", 3),
    "credit": (faults.credit_balance(), "billing_error", 400, "Credit balance is too low", 1),
    "context": (faults.prompt_too_long(), "invalid_request", 400, "Prompt is too long", 1),
    "429": (faults.rate_limited(retry_after=1), "rate_limit", 429, "API Error: Request rejected (429)", 1),
    "500": (faults.server_error(), "server_error", 500, "API Error: 500 ", 1),
    "503": (faults.unavailable(), "server_error", 503, "API Error: 503 ", 1),
    "529": (faults.overloaded(), "server_error", 529, "API Error: 529 Overloaded", 1),
    "stream 529": (faults.stream_overloaded(after="I"), "server_error", 529, "API Error: 529 Overloaded", 2),
    "cut": (faults.cut(), "server_error", None, "API Error: Connection dropped", 2),
    "garbage": (faults.garbage(), "unknown", None, "API Error: API returned an empty or malformed response", 2),
    "hang": (faults.hang(), "server_error", None, "Request timed out", 1),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_told_in_one_sentence(claude: Claude, models: ModelServer, name: str) -> None:
    turn, error, status, sentence, requests = FAULTS[name]
    claude.env |= {"API_TIMEOUT_MS": "1000"} if name == "hang" else {}
    models.anthropic.plays([turn], again=True)
    ran = await claude("Say.")
    end = result(ran)
    assert (ran.code, end["subtype"], end["is_error"]) == (1, "success", True)
    assert [event["error"] for event in ran.of("assistant")] == [error]
    assert end["result"].startswith(sentence)
    assert end["api_error_status"] == status
    assert len(models.anthropic.requests) == requests


async def test_a_broken_stream_is_asked_for_again_without_a_stream(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([faults.cut("The first"), says("All of it.")])
    assert result(await claude("Say."))["result"] == "All of it."
    assert [request.body.get("stream") for request in models.anthropic.requests] == [True, False]


async def test_it_comes_back_after_a_refusal(claude: Claude, models: ModelServer) -> None:
    claude.retries = 1
    models.anthropic.plays([faults.rate_limited(retry_after=0), says("At last.")])
    assert result(await claude("Say."))["result"] == "At last."


async def test_it_follows_a_redirect(claude: Claude, models: ModelServer) -> None:
    """Whoever stands between must not pass one on."""
    async with ModelServer.start() as elsewhere:
        models.anthropic.plays([faults.redirected(f"{elsewhere.anthropic_url}/v1/messages")])
        elsewhere.anthropic.plays([says("From elsewhere.")])
        assert result(await claude("Say."))["result"] == "From elsewhere."
    assert elsewhere.anthropic.keys == {"sk-ant-dummy"}, "and it shows its key there"
