"""The real codex against the server: it takes one turn of each kind, and one fault of each kind."""

from __future__ import annotations

from time import monotonic

import pytest

from scripted_models import ModelServer, Turn, answers, calls, faults, says
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


async def test_a_schema_is_answered_with_text_that_fits(codex: Codex, models: ModelServer) -> None:
    models.openai.plays([answers({"approved": True})])
    ran = await codex("Judge.", schema=SCHEMA)
    assert said(ran) == ['{"approved": true}']
    assert models.openai.requests[0].schema == SCHEMA


async def test_a_resumed_thread_repeats_its_history_and_that_is_cached(codex: Codex, models: ModelServer) -> None:
    """And its usage is told as the server counted it: cumulative over the thread (agents.md 2.1)."""
    models.openai.plays([calls("exec_command", cmd="echo a-word"), says("First."), says("Second.")])
    first = await codex("One canary.")
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
    one, two, three = models.openai.requests
    assert [each.session for each in models.openai.requests] == [thread(first)] * 3
    assert thread(second) == thread(first)
    assert "One canary." in three.prompt_text()
    assert "One canary." not in three.new_text()
    assert one.usage.cached == 0
    assert two.usage.cached == one.usage.input
    assert three.usage.cached == two.usage.input
    assert 0 < three.usage.uncached < 1000
    assert told(second)["input_tokens"] == models.openai.usage.input
    assert told(second)["cached_input_tokens"] == models.openai.usage.cached


FAULTS: dict[str, tuple[Turn, str]] = {
    "429": (faults.rate_limited(retry_after=1), "exceeded retry limit, last status: 429 Too Many Requests"),
    "cut": (faults.cut(), "stream disconnected before completion: Transport error: "),
}
"""One of each kind; how all others read is held by tests/worker/agents/test_codex.py, their wire by test_faults.py."""


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_one_request_and_one_sentence(codex: Codex, models: ModelServer, name: str) -> None:
    turn, sentence = FAULTS[name]
    models.openai.plays([turn])
    assert failure(await codex("Say.")).startswith(sentence)
    assert len(models.openai.requests) == 1


async def test_it_asks_again_after_the_seconds_that_it_was_told_and_after_a_broken_stream(
    codex: Codex, models: ModelServer
) -> None:
    codex.retries = 2
    models.openai.plays([faults.rate_limited(retry_after=1), faults.cut(), says("At last.")])
    before = monotonic()
    assert said(await codex("Say.")) == ["At last."]
    assert monotonic() - before >= 1
    assert models.openai.unplayed == 0


async def test_it_follows_a_redirect(codex: Codex, models: ModelServer) -> None:
    """Whoever stands between must not pass one on."""
    async with ModelServer.start() as elsewhere:
        models.openai.plays([faults.redirected(f"{elsewhere.openai_url}/responses")])
        elsewhere.openai.plays([says("From elsewhere.")])
        assert said(await codex("Say.")) == ["From elsewhere."]
    assert elsewhere.openai.keys == {""}, "the key stayed behind: it was another port"
