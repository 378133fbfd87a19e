"""What can go wrong with the real claude program in a seat, and how it is told; and programs that only pretend."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from claude_seat import Seat
from scripted_models import ModelServer, Turn, calls, faults, says
from worker.agents import claude
from worker.agents.claude import RETRIES
from worker.debate.flow import TurnFailed
from worker.process import MIB
from worker.stream import INSTALL, LINE, LOG_TAIL, WORDS
from worker.turn import TurnReply

SESSION = "054ca690-0a3b-4cb5-9f1a-f80c933a49ca"


@pytest_asyncio.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    async with ModelServer.start() as models:
        yield Seat(tmp_path, models)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program try nothing again."""
    monkeypatch.setattr(claude, "RETRIES", 0)


async def failure(seat: Seat, **fields: Any) -> TurnFailed:
    with pytest.raises(TurnFailed) as failed:
        await seat.turn(**fields)
    facts = failed.value.facts
    assert len(facts.log) <= LOG_TAIL
    assert not re.search(r"127\.0\.0\.1|\n|\.$", facts.sentence), "one sentence, without this machine's addresses"
    return failed.value


# ---- The provider ---------------------------------------------------------------------------------------------------

KEY = "the operator of this server sets `ANTHROPIC_API_KEY` to a valid key"
CREDIT = "the operator of this server adds credit to the account behind `ANTHROPIC_API_KEY`"
MODEL = "the operator of this server sets `CODEX_DEBATE_CLAUDE_MODEL` to a model "
NO_KEY, UNPAID = "the provider does not accept the claude key", "the claude account is out of credit"
REFUSES, FAULT = "the provider of claude refuses the request: ", "the provider of claude has a fault of its own: "
LIMIT, WAIT = "the provider of claude allows no more requests for now: ", "wait some minutes"
BROKE = "claude ended its turn with an error: "
FAULTS: dict[str, tuple[Turn, str, str, str]] = {
    "401": (faults.unauthorized(), "refused", NO_KEY, KEY),
    "403": (faults.forbidden(), "refused", f"{NO_KEY}: `The key may not use this model.`", KEY),
    "credit": (faults.credit_balance(), "refused", UNPAID, CREDIT),
    "402": (faults.refused(402, "Pay.", kind="billing_error"), "refused", UNPAID, CREDIT),
    "404": (
        faults.not_found(),
        "refused",
        "the provider of claude does not offer the model `claude-sonnet-5`",
        f"{MODEL}that its key may use",
    ),
    "400": (
        faults.bad_request("You have reached your `limit`."),
        "refused",
        f"{REFUSES}`400 invalid_request_error: You have reached your 'limit'.`",
        "",
    ),
    "too long": (
        faults.prompt_too_long(),
        "refused",
        "the debate does not fit into the context window of claude's model",
        f"{MODEL}with a larger one, or the pull request is split",
    ),
    "413": (faults.refused(413), "refused", f"{REFUSES}`413 request_too_large: Request too large", ""),
    "429": (faults.rate_limited(), "transport", f"{LIMIT}`429 rate_limit_error: There are too many requests.`", WAIT),
    "408": (faults.refused(408), "transport", f"{FAULT}`408 api_error: This was scripted.`", ""),
    "500": (faults.server_error(), "transport", f"{FAULT}`500 api_error: The server had an error.`", ""),
    "503": (faults.unavailable(), "transport", f"{FAULT}`503 api_error: The service is unavailable.`", ""),
    "529": (faults.overloaded(), "transport", f"{FAULT}`529 overloaded_error: Overloaded.`", ""),
    "529 late": (faults.stream_overloaded(after="Some"), "transport", f"{FAULT}`529 overloaded_error: Overloaded`", ""),
    "cut": (faults.cut(), "transport", f"{BROKE}`Connection to the API was lost (ECONNRESET).`", ""),
    "garbage": (faults.garbage(), "transport", f"{BROKE}`Stream ended without receiving any events`", ""),
    "refusal": (says("I").stopped("refusal"), "refused", "a filter of claude's provider stopped the answer", ""),
    "endless": (
        says("and so on").stopped("max_tokens"),
        "malformed",
        "claude's answer was longer than its provider allows",
        "",
    ),
}
"""agents.md 4.7, and what was found besides."""


@pytest.mark.threat("R18")
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", FAULTS)
async def test_what_the_provider_does_is_told_in_a_sentence(seat: Seat, name: str) -> None:
    turn, kind, sentence, hint = FAULTS[name]
    seat.model.plays([turn], again=True)
    failed = await failure(seat, model="claude-sonnet-5")
    assert (failed.kind, failed.facts.hint) == (kind, hint)
    assert failed.sentence.startswith(sentence)
    assert failed.facts.log


@pytest.mark.threat("R18")
@pytest.mark.usefixtures("at_once")
async def test_a_refused_key_is_not_repeated(seat: Seat) -> None:
    seat.model.plays([faults.refused(401, "This is no key: abc123.")])
    assert (await failure(seat)).sentence == NO_KEY


@pytest.mark.usefixtures("at_once")
async def test_without_a_model_of_its_own_the_sentence_names_the_one_that_the_program_takes(seat: Seat) -> None:
    seat.model.plays([faults.not_found()], again=True)
    assert (await failure(seat)).sentence.endswith(f"does not offer the model `{seat.asked[0].model}`")


@pytest.mark.usefixtures("at_once")
async def test_the_words_of_a_provider_are_cleaned_and_cut(seat: Seat) -> None:
    seat.model.plays([faults.bad_request("sk-ant-api03-abcdefgh \x1b[31m{words}\u202e\n" + "more " * 200)], again=True)
    failed = await failure(seat)
    assert failed.sentence.startswith(f"{REFUSES}`400 invalid_request_error: [redacted] {{words}}")
    assert failed.sentence.endswith("mor…`")
    assert len(failed.sentence) <= len(f"{REFUSES}``") + WORDS


@pytest.mark.usefixtures("at_once")
async def test_a_refused_connection_is_a_failure_of_transport(seat: Seat) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    failed = await failure(seat, api=f"http://127.0.0.1:{port}")
    assert failed.kind == "transport"
    assert failed.sentence.startswith(f"{BROKE}`Connection refused")


async def test_the_program_tries_a_request_again_twice(seat: Seat) -> None:
    seat.model.plays([faults.server_error(), faults.overloaded(), says("At last.")])
    assert (await seat.turn()).text == "At last."
    assert len(seat.asked) == 3


async def test_it_then_gives_up_and_logs_what_it_tried_again(seat: Seat) -> None:
    seat.model.plays([faults.server_error(), faults.overloaded(), *[faults.unavailable()] * 9])
    failed = await failure(seat)
    assert failed.kind == "transport"
    assert len(seat.asked) == RETRIES + 1 == 3
    *again, _ = failed.facts.log.splitlines()
    assert [re.findall(r"\d+", line) for line in again] == [["500"], ["529"]]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("turn", [faults.cut(), faults.stream_overloaded(after="Some")])
async def test_what_broke_off_is_not_asked_for_once_more_without_a_stream(seat: Seat, turn: Turn) -> None:
    seat.model.plays([turn])
    await failure(seat)
    assert len(seat.asked) == 1


@pytest.mark.usefixtures("at_once")
async def test_a_failure_in_the_middle_of_an_editing_turn_is_one(seat: Seat) -> None:
    seat.editing = True
    seat.model.plays([says("I begin.") + calls("Bash", command="echo x > a.py"), faults.server_error()])
    assert (await failure(seat)).kind == "transport"
    assert (seat.tree / "a.py").exists()


# ---- Time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [faults.hang(), faults.silence(pings=0.1)])
async def test_a_turn_without_an_end_is_ended(seat: Seat, turn: Turn) -> None:
    seat.model.plays([turn])
    failed = await failure(seat, seconds=2)
    assert (failed.kind, failed.sentence) == ("timeout", "claude did not answer within 2 s")
    assert seat.finished[0].seconds < 5


@pytest.mark.threat("R16")
@pytest.mark.usefixtures("at_once")
async def test_a_provider_that_falls_silent_is_given_up(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "SILENCE_MS", 1_000)
    seat.model.plays([faults.hang()])
    failed = await failure(seat)
    assert failed.kind == "transport"
    assert 1 < seat.finished[0].seconds < 9


async def test_within_an_answer_the_same_silence_is_given_up(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program takes ten seconds at the least for it, so that the setting alone is looked at here."""
    monkeypatch.setattr(claude, "SILENCE_MS", 123_000)
    pretend(seat, INIT, END, then="env >env")
    await seat.turn()
    [told] = seat.root.rglob("env")
    names = ("API_TIMEOUT_MS", "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS")
    assert {f"{name}=123000" for name in names} <= set(told.read_text().splitlines())


async def test_a_turn_that_waits_for_its_provider_says_so(seat: Seat) -> None:
    seat.model.plays([faults.rate_limited(retry_after=60)])
    failed = await failure(seat, seconds=3)
    assert failed.sentence == "claude did not answer within 3 s; its provider answered `429`, and it waited"


# ---- The program itself ---------------------------------------------------------------------------------------------


async def test_a_program_that_is_not_there(seat: Seat) -> None:
    seat.program = seat.root / "claude"
    failed = await failure(seat)
    assert (failed.kind, failed.sentence) == (
        "environment",
        "claude cannot be started: no such file or directory",
    )
    assert failed.facts.hint == INSTALL


async def test_a_command_line_that_it_refuses(seat: Seat) -> None:
    failed = await failure(seat, schema={"type": "frob"})
    assert failed.kind == "environment"
    assert failed.sentence.startswith("claude does not start: `Error: --json-schema is not a valid JSON Schema")


# ---- Programs that only pretend -------------------------------------------------------------------------------------

INIT = {"type": "system", "subtype": "init", "model": "claude-x"}
END = {"type": "result", "subtype": "success", "is_error": False, "result": "The reply.", "session_id": SESSION}


def pretend(seat: Seat, *lines: bytes | dict[str, Any], then: str = "exit 0") -> None:
    """Put a program in claude's place that prints these lines, and then does that."""
    said = seat.root / "said"
    said.write_bytes(
        b"\n".join(json.dumps(each).encode() if isinstance(each, dict) else each for each in lines) + b"\n"
    )
    seat.program = seat.root / "pretender"
    seat.program.write_text(f"#!/bin/sh\ncat {said}\n{then}\n")
    seat.program.chmod(0o755)


async def test_a_program_that_lingers_after_its_last_word_is_ended(seat: Seat) -> None:
    pretend(seat, INIT, END, then="exec sleep 60")
    seat.change = lambda program: replace(program, grace=0.3)
    assert await seat.turn() == TurnReply("The reply.", session=SESSION)
    assert seat.finished[0].lingered
    assert seat.finished[0].seconds < 10


async def test_lines_that_are_no_events_are_passed_over(seat: Seat) -> None:
    noise = (b"", b"{", b"\xff\xfe\x00 no text at all", b"null", b"[1, 2]", b'"result"', b"[" * 200_000, b"9" * 10_000)
    wrong = (
        {"type": "result"},
        {"type": "result", "subtype": "success"},
        {"type": "result", "subtype": "success", "is_error": [], "result": "no"},
        {"type": "result", "subtype": "success", "is_error": False, "result": {"no": 1}},
        {"type": ["result"], "subtype": "success", "is_error": False, "result": "no"},
        {"type": "assistant", "message": {"type": "result", "subtype": "success", "is_error": False, "result": "no"}},
        {"type": "system", "subtype": "api_retry"},
        {"type": "tomorrow", "result": "no"},
    )
    pretend(seat, *noise, *wrong, b'{"type": "' + b"x" * LINE + b'"}', END)
    assert await seat.turn() == TurnReply("The reply.", session=SESSION)


async def test_the_first_last_word_counts(seat: Seat) -> None:
    pretend(seat, END, {**END, "result": "Another reply."})
    assert (await seat.turn()).text == "The reply."


async def test_a_session_that_is_no_id_is_not_kept(seat: Seat) -> None:
    pretend(seat, {**END, "session_id": "--dangerously-skip-permissions"})
    assert (await seat.turn()).session is None


async def test_an_error_under_the_word_success_is_a_failure(seat: Seat) -> None:
    pretend(seat, {**END, "is_error": True, "result": "Out of luck"}, then="exit 0")
    assert (await failure(seat)).sentence == f"{BROKE}`Out of luck`"


async def test_what_no_file_can_hold_does_not_leave_the_agent(seat: Seat) -> None:
    pretend(seat, {**END, "is_error": True, "result": "Out of \ud800 luck"})
    failed = await failure(seat)
    assert "Out of" in failed.sentence.encode().decode()
    assert "Out of" in failed.facts.log.encode().decode()


async def test_the_programs_own_errors(seat: Seat) -> None:
    error = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["So it is."]}
    pretend(seat, error, then="exit 1")
    failed = await failure(seat)
    assert (failed.kind, failed.sentence) == ("transport", f"{BROKE}`So it is.`")


async def test_a_long_error_is_judged_at_once(seat: Seat) -> None:
    pretend(seat, {**END, "is_error": True, "result": "x" + " " * (LINE - 1000) + "y"})
    await failure(seat)
    began = time.monotonic()
    claude._FRAME.sub("", "x" + " " * 100_000 + "y")
    assert time.monotonic() - began < 1


@pytest.mark.threat("R17")
@pytest.mark.parametrize(
    ("then", "kind", "sentence"),
    [
        ("exit 0", "transport", "claude ended with status 0 and without an answer"),
        ("exit 1", "transport", "claude ended with status 1 and without an answer"),
        ("kill -9 $$", "transport", "claude ended with SIGKILL and without an answer"),
    ],
)
async def test_a_program_that_ends_without_its_last_word(seat: Seat, then: str, kind: str, sentence: str) -> None:
    pretend(seat, INIT, b'{"type": "result", "subtype": "succ', then=f"echo what it said >&2; {then}")
    failed = await failure(seat)
    assert (failed.kind, failed.sentence) == (kind, sentence)
    assert "succ" in failed.facts.log
    assert failed.facts.log.endswith("what it said")


async def test_a_program_that_ends_before_its_first_word(seat: Seat) -> None:
    for then, kind in (("echo no >&2; exit 1", "environment"), ("exit 1", "environment"), ("exit 137", "transport")):
        pretend(seat, then=then)
        assert (await failure(seat)).kind == kind


@pytest.mark.threat(127)
async def test_a_program_that_prints_without_end(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "OUTPUT", 16 * MIB)
    pretend(seat, INIT, then=f"exec yes {'x' * 10_000}")
    failed = await failure(seat)
    assert (failed.kind, failed.sentence) == ("transport", "claude printed more than a program may")
    assert len(seat.finished[0].stdout) == 16 * MIB
