"""The real claude against the server: it takes one turn of each kind, and one fault of each kind."""

from __future__ import annotations

from typing import Any

from scripted_models import ModelServer, Usage, answers, calls, faults, says
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


async def test_a_resumed_session_repeats_its_history_and_that_is_cached(claude: Claude, models: ModelServer) -> None:
    """And the usage of each run is told as the server counted it."""
    models.anthropic.plays([calls("Bash", command="echo a-word"), says("First."), says("Second.")])
    first = await claude("One canary.")
    counted = models.anthropic.usage
    assert counted.calls == 2
    assert told(first) == Usage(
        input=counted.input, cached=counted.cached, written=counted.written, output=counted.output, calls=0
    )
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
    assert told(first) + told(second) + Usage(calls=3) == models.anthropic.usage


async def test_a_schema_that_comes_later_makes_everything_new(claude: Claude, models: ModelServer) -> None:
    """It is a tool, and the tools stand before everything else: a seat should have its schema from its first turn."""
    models.anthropic.plays([says("First."), answers({"approved": True})])
    first = await claude("One.")
    await claude("Two.", resume=result(first)["session_id"], schema=SCHEMA)
    one, two = models.anthropic.requests
    assert two.usage.cached < one.usage.input / 2


async def test_a_refusal_is_told_in_one_sentence(claude: Claude, models: ModelServer) -> None:
    """How the others read is held by tests/worker/agents/test_claude_failures.py, their wire by test_faults.py."""
    models.anthropic.plays([faults.rate_limited(retry_after=1)])
    ran = await claude("Say.")
    end = result(ran)
    assert (ran.code, end["subtype"], end["is_error"]) == (1, "success", True)
    assert [event["error"] for event in ran.of("assistant")] == ["rate_limit"]
    assert end["result"].startswith("API Error: Request rejected (429)")
    assert end["api_error_status"] == 429


async def test_a_broken_stream_is_asked_for_again_without_a_stream(claude: Claude, models: ModelServer) -> None:
    models.anthropic.plays([faults.cut("The first"), says("All of it.")])
    assert result(await claude("Say."))["result"] == "All of it."
    assert [request.body.get("stream") for request in models.anthropic.requests] == [True, False]


async def test_it_follows_a_redirect(claude: Claude, models: ModelServer) -> None:
    """Whoever stands between must not pass one on."""
    async with ModelServer.start() as elsewhere:
        models.anthropic.plays([faults.redirected(f"{elsewhere.anthropic_url}/v1/messages")])
        elsewhere.anthropic.plays([says("From elsewhere.")])
        assert result(await claude("Say."))["result"] == "From elsewhere."
    assert elsewhere.anthropic.keys == {"sk-ant-dummy"}, "and it shows its key there"
