"""The real codex in a seat, without a sandbox, against a scripted model; and programs that only pretend to be codex."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from scripted_models import ModelServer, answers, calls, faults, says
from worker import process
from worker.agents import codex
from worker.debate.flow import TurnFailed, Used
from worker.process import Finished, Program
from worker.stream import LINE, LOG_TAIL
from worker.tools import TOOLS
from worker.turn import Lodging, SessionGone, TurnReply, TurnRequest

SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}
MODEL = "gpt-5.5"
"""Its tools are the classic ones (agents.md 2.3)."""
CODEX = Path(str(distribution(TOOLS["codex"].package).locate_file(TOOLS["codex"].program)))
THREAD = "01a22e3c-8664-78f2-9b18-6ddaa75cf781"


@dataclass
class Seat:
    """A seat of codex, with its folders and the server of its model."""

    root: Path
    models: ModelServer
    program: Path = CODEX
    home: str = "home"
    change: Callable[[Program], Program] = lambda program: program
    """What happens to the program before it starts."""
    started: list[Program] = field(default_factory=list)

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def sessions(self) -> Path:
        return self.root / self.home / ".codex" / "sessions"

    async def turn(self, brief: str = "Review it.", **fields: Any) -> TurnReply:
        """Take a turn. codex's home must not lie below its TMPDIR (agents.md 2.6)."""
        for folder in (self.tree, self.root / "tmp", self.sessions):
            folder.mkdir(parents=True, exist_ok=True)
        schema = fields.get("schema")
        if schema is not None:
            (self.root / "schema.json").write_text(json.dumps(schema))
        request = TurnRequest(
            run="7h2kq9xw",
            seat="reviewer",
            round=1,
            turn=1,
            brief=brief,
            schema=schema,
            editing=False,
            tree=self.tree,
            base=self.root / "base",
            notes=self.root / "notes",
            session=None,
            session_dir=self.sessions,
            seconds=30,
            model=MODEL,
            lodging=Lodging(
                program=self.program,
                home=self.root / self.home,
                tmp=self.root / "tmp",
                api=self.models.anthropic_url,
                schema=None if schema is None else self.root / "schema.json",
            ),
        )
        return await codex.take_turn(replace(request, **fields), self._run)

    async def failure(self, **fields: Any) -> TurnFailed:
        with pytest.raises(TurnFailed) as caught:
            await self.turn(**fields)
        return caught.value

    async def _run(self, program: Program) -> Finished:
        self.started.append(program)
        return await process.run(self.change(program))

    def plays(self, *lines: object, then: str = "") -> None:
        """Be a program that prints these events (or texts, as they are), and does something then."""
        printed = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n"
        (self.root / "events").write_text(printed)
        script = f"import os, sys, time\nsys.stdout.write(open({str(self.root / 'events')!r}).read())\n"
        self.program = self.root / "codex"
        self.program.write_text(f"#!{sys.executable} -IS\n{script}sys.stdout.flush()\n{then}\n")
        self.program.chmod(0o755)


@pytest_asyncio.fixture
async def seat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Seat]:
    """Return a seat. The program asks its provider once only, so that failures are quick."""
    monkeypatch.setattr(codex, "REQUEST_RETRIES", 0)
    monkeypatch.setattr(codex, "STREAM_RETRIES", 0)
    async with ModelServer.start() as models:
        yield Seat(tmp_path, models)
        assert not models.strays, "it asks for nothing but its model"


def begun(thread: str = THREAD) -> list[dict[str, Any]]:
    return [{"type": "thread.started", "thread_id": thread}, {"type": "turn.started"}]


def message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": text}}


COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 1}}


# ---- Turns ----------------------------------------------------------------------------------------------------------


async def test_the_program_is_the_one_that_this_was_measured_with(seat: Seat) -> None:
    said = await process.run(Program((str(seat.program), "--version")))
    assert said.stdout.decode().split() == ["codex-cli", TOOLS[codex.BOX.tool].version] == ["codex-cli", "0.163.0"]


async def test_a_first_turn_asks_with_its_schema_and_returns_the_answer(seat: Seat) -> None:
    seat.models.openai.plays([answers({"approved": True})])
    reply = await seat.turn("Review the change.", schema=SCHEMA)
    (request,) = seat.models.openai.requests
    assert json.loads(reply.text) == {"approved": True}
    assert request.schema == SCHEMA
    assert request.new_text().endswith("Review the change.")
    assert (request.session, request.key) == (reply.session, codex.KEY)
    assert reply.used == Used(), "the gateway knows them"


async def test_a_second_turn_goes_on_with_the_thread_where_only_its_session_files_are_left(seat: Seat) -> None:
    seat.models.openai.plays([says("The first answer."), answers({"approved": False})])
    first = await seat.turn("The first brief.", schema=SCHEMA)
    kept, seat.home = seat.sessions, "another"
    shutil.copytree(kept, seat.sessions)
    second = await seat.turn("The second brief.", schema=SCHEMA, session=first.session)
    assert second.session == first.session
    before, now = seat.models.openai.requests
    assert [request.session for request in (before, now)] == [first.session] * 2
    prompt = now.prompt_text()
    assert prompt.index("The first brief.") < prompt.index("The first answer.") < prompt.index("The second brief.")
    assert now.usage.cached > 0.9 * before.usage.input, "the beginning is what the provider has read before"
    assert now.schema == SCHEMA


async def test_an_editing_turn_changes_files(seat: Seat) -> None:
    seat.tree.mkdir()
    (seat.tree / "old.py").write_text("x = 1\n")
    (seat.tree / "gone.py").write_text("")
    patch = "*** Begin Patch\n*** Update File: old.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
    seat.models.openai.plays(
        [
            says("I patch it.") + calls("apply_patch", input=patch),
            calls("exec_command", cmd="rm gone.py && echo y > new.py"),
            says("- `F1` **fixed**: done"),
        ]
    )
    reply = await seat.turn("Fix it.", editing=True, seat="author")
    assert reply.text == "- `F1` **fixed**: done"
    assert {path.name: path.read_text() for path in seat.tree.iterdir()} == {"old.py": "x = 2\n", "new.py": "y\n"}


@pytest.mark.parametrize(
    "parts",
    [
        [says("I look first.") + calls("exec_command", cmd="true"), says("And again.") + says("The answer.")],
        [says("I look first.") + calls("exec_command", cmd="false"), says("  The answer\u2028in two lines. \n")],
    ],
)
async def test_the_answer_is_the_last_message_as_the_program_itself_would_write_it(
    seat: Seat, parts: list[Any]
) -> None:
    last = seat.root / "last"
    seat.change = lambda program: replace(program, argv=(*program.argv[:2], "-o", str(last), *program.argv[2:]))
    seat.models.openai.plays(parts)
    assert (await seat.turn()).text == last.read_bytes().decode() == parts[-1].parts[-1]


@pytest.mark.parametrize(
    ("model", "tools"),
    [
        (MODEL, {"exec_command", "write_stdin", "apply_patch", "view_image", "request_user_input"}),
        (None, {"functions", "exec", "wait", "request_user_input", "request_user_input_async"}),
    ],
)
async def test_it_has_the_tools_that_a_seat_needs_and_no_others(seat: Seat, model: str | None, tools: set[str]) -> None:
    """No search of the web, no agents of its own, no goals, no plugins, no skills, no sleep (agents.md 2.10)."""
    seat.models.openai.plays([says("Read.")])
    await seat.turn(model=model)
    body = seat.models.openai.requests[0].body
    listed = [*body.get("tools", ()), *(each for item in body["input"] for each in item.get("tools", ()))]
    listed += [each for tool in listed for each in tool.get("tools", ())]
    assert {tool.get("name", tool["type"]) for tool in listed} == tools
    assert not (seat.sessions.parent / "skills").exists()


async def test_it_edits_with_the_model_that_it_takes_by_itself(seat: Seat) -> None:
    """That one writes programs, which the program runs with a second one beside it."""
    patch = "*** Begin Patch\n*** Add File: new.py\n+x = 1\n*** End Patch\n"
    script = f"const seen = await tools.exec_command({{cmd: 'pwd'}}); await tools.apply_patch({json.dumps(patch)});"
    seat.models.openai.plays([calls("exec", input=f"{script} text(seen.output);"), says("Done.")])
    assert (await seat.turn(model=None, editing=True)).text == "Done."
    assert (seat.tree / "new.py").read_text() == "x = 1\n"
    assert f"{seat.tree}\n" in seat.models.openai.requests[1].new_text()


@pytest.mark.threat(138)
async def test_it_talks_to_nobody_but_its_provider(seat: Seat) -> None:
    """What it would ask of others it would ask by HTTPS, through the proxy that its environment names."""
    came = list[str]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readline()).decode())
        writer.close()

    proxy = await asyncio.start_server(take, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    seat.change = lambda each: replace(each, env=each.env | {"HTTPS_PROXY": address})
    seat.models.openai.plays([says("Read.").slowly(wait=1.0)])
    async with proxy:
        await seat.turn()
    assert came == []


async def test_every_setting_stands_before_the_word_resume(seat: Seat) -> None:
    """One behind it would undo all others (agents.md 2.5)."""
    seat.plays(*begun(), message("Done."), COMPLETED)
    await seat.turn("$x", session=THREAD, schema=SCHEMA)
    assert seat.started[0].argv[-3:] == ("resume", THREAD, "-")
    assert "resume" not in seat.started[0].argv[:-3]


async def test_model_and_effort_are_those_that_were_asked_for(seat: Seat) -> None:
    seat.models.openai.plays([says("one"), says("two")])
    await seat.turn(effort="xhigh")
    await seat.turn(model=None)
    asked, left = seat.models.openai.requests
    assert (asked.model, asked.body["reasoning"]["effort"]) == (MODEL, "xhigh")
    assert left.model.startswith("gpt-")
    assert left.model != MODEL


@pytest.mark.threat("T15", 118)
async def test_what_a_model_runs_sees_no_key_and_nothing_of_this_process(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "CANARY")
    monkeypatch.setenv("GITHUB_TOKEN", "CANARY")
    seat.models.openai.plays([calls("exec_command", cmd="env; echo done; which rg"), says("Seen.")])
    await seat.turn()
    output = seat.models.openai.requests[-1].new_text()
    assert "done\n" in output
    assert f"HOME={seat.root / 'home'}" in output
    assert "codex-path/rg" in output, "the program's own ripgrep is found"
    assert codex.KEY_VARIABLE not in output
    assert codex.KEY not in output
    assert "CANARY" not in output


# ---- Prompts --------------------------------------------------------------------------------------------------------


@pytest.mark.threat(107, 112)
@pytest.mark.parametrize(
    "brief", ["review", "resume", "--help", "/compact", "!touch marker", "@AGENTS.md", "\x00 \x1b[2J"]
)
async def test_a_prompt_is_never_a_command(seat: Seat, brief: str) -> None:
    seat.models.openai.plays([says("It is text.")])
    assert (await seat.turn(brief)).text == "It is text."
    assert seat.models.openai.requests[0].body["input"][-1]["content"] == [{"type": "input_text", "text": brief}]
    assert not list(seat.tree.iterdir())


async def test_a_prompt_may_be_long_and_hold_anything(seat: Seat) -> None:
    brief = "ein Stück € 🦀 " * 20_000
    seat.models.openai.plays([says("Read.")])
    await seat.turn(brief + "\udcff")
    (content,) = seat.models.openai.requests[0].body["input"][-1]["content"]
    assert content["text"] == brief + "\ufffd"


MONEY = "costs $5.00 or $1,000; echo $HOME ${x} $PATH $$ $(ls) $this->is $1 US$ $"


@pytest.mark.threat(112)
@pytest.mark.parametrize("place", [".codex/skills", ".agents/skills"])
async def test_a_skill_that_the_text_names_stays_out_and_the_text_stays_as_it_is(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for number, name in enumerate(("trap", "5", "HOME", "x:y", "this-")):
        skill(seat.tree / place / str(number), name)
    file = seat.tree / place / "0" / "SKILL.md"
    link = f"[$other]( {file} ), [$a] (skill://{file}) and [$b]"
    brief = f"{MONEY} $trap, $trap! $x:y and $imagegen {link}"
    seat.models.openai.plays([says("Text."), says("Trapped."), says("Trapped.")])
    await seat.turn(brief)
    safe = seat.models.openai.requests[0]
    assert "CANARY" not in safe.raw.decode()
    assert "image_gen.py" not in safe.raw.decode(), "nor one of the program's own"
    text = f"{MONEY} $trap, $trap! $x:y and $imagegen {link}".replace("[$other", "[ $other").replace("[$a", "[ $a")
    assert safe.body["input"][-1]["content"][0]["text"] == text
    # The traps are real: without the guard they all close.
    monkeypatch.setattr(codex, "_without_skills", lambda brief: (brief, []))
    await seat.turn(brief)
    assert {f"CANARY {name}" for name in ("trap", "5", "x:y")} <= canaries(seat.models.openai.requests[1].prompt_text())
    await seat.turn(link)
    assert canaries(seat.models.openai.requests[2].prompt_text()) == {"CANARY trap"}


async def test_no_text_takes_long_to_guard() -> None:
    for text in ("[$x](" * 200_000, "[$x] \n" * 160_000, "$" * 1_000_000, "$a:-_" * 200_000, "[$" + "x" * 1_000_000):
        began = time.monotonic()
        codex._without_skills(text)
        assert time.monotonic() - began < 2


async def test_of_very_many_names_the_last_are_broken(seat: Seat) -> None:
    skill(seat.tree / ".agents/skills/x", "name-4999")
    many = " ".join(f"$name-{number}" for number in range(5000))
    seat.models.openai.plays([says("Text.")])
    await seat.turn(f"{many} $name-0")
    request = seat.models.openai.requests[0]
    assert "CANARY" not in request.raw.decode()
    text = request.body["input"][-1]["content"][0]["text"]
    assert text.startswith("$name-0 $name-1 ")
    assert text.endswith("$ name-4999 $name-0")


def skill(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f'---\nname: "{name}"\ndescription: CANARY\n---\nCANARY {name}.\n')


def canaries(text: str) -> set[str]:
    return {line.rstrip(".") for line in text.splitlines() if line.startswith("CANARY")}


# ---- Sessions that are gone -----------------------------------------------------------------------------------------


async def test_a_session_of_another_home_is_gone(seat: Seat) -> None:
    seat.models.openai.plays([says("The first answer.")])
    first = await seat.turn()
    seat.home = "another"
    with pytest.raises(SessionGone):
        await seat.turn(session=first.session)
    assert len(seat.models.openai.requests) == 1, "the provider was not asked"


async def test_a_session_file_that_was_cut_off_is_gone_or_goes_on(seat: Seat) -> None:
    seat.models.openai.plays([says("The first answer."), says("The second.")])
    first = await seat.turn()
    (file,) = seat.sessions.rglob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert (await seat.turn(session=first.session)).session == first.session
    file.write_bytes(whole[:100])
    with pytest.raises(SessionGone):
        await seat.turn(session=first.session)


@pytest.mark.parametrize("session", ["", "-", "review", "--last", "the-first-one", THREAD.upper(), f"{THREAD}\n"])
async def test_what_is_no_id_is_a_session_that_is_gone(seat: Seat, session: str) -> None:
    """The program would begin a new thread with some of them, and not tell."""
    with pytest.raises(SessionGone):
        await seat.turn(session=session)
    assert not seat.started


async def test_a_program_that_begins_another_thread_is_ended_at_once(seat: Seat) -> None:
    seat.plays(*begun(THREAD.replace("0", "f")), then="time.sleep(60)")
    with pytest.raises(SessionGone):
        await seat.turn(session=THREAD)


# ---- Failures of the provider ---------------------------------------------------------------------------------------

KEY_HINT = "the operator of this server sets `OPENAI_API_KEY` to a valid key"
MODEL_HINT = "the operator of this server sets `CODEX_DEBATE_CODEX_MODEL` to a model "
BUSY, WAIT = "the provider of codex has too much to do", "wait some minutes"
CREDIT = "the codex account is out of credit"
CREDIT_HINT = "the operator of this server adds credit to the account behind `OPENAI_API_KEY`"
BROKE = "the reply of codex's provider broke off"
FAULT = "the provider of codex has a fault of its own"
REFUSES = "the provider of codex refuses the request"
LIMIT = "the provider of codex allows no more requests for now"
PROVIDER: dict[str, tuple[Any, str, str, str]] = {
    "401": (faults.unauthorized(), "refused", "the provider does not accept the codex key", KEY_HINT),
    "403": (
        faults.forbidden(),
        "refused",
        "the provider does not accept the codex key: `The key may not use this model.`",
        KEY_HINT,
    ),
    "404": (
        faults.not_found(),
        "refused",
        "the provider of codex does not offer the model `gpt-5.5`",
        f"{MODEL_HINT}that its key may use",
    ),
    "404 of another address": (
        faults.refused(404, "Not Found"),
        "refused",
        "the provider of codex has nothing at its address: `Not Found`",
        "the operator of this server corrects `OPENAI_BASE_URL`",
    ),
    "400": (
        faults.bad_request("Invalid schema for response_format."),
        "refused",
        f"{REFUSES}: `Invalid schema for response_format.`",
        "",
    ),
    "400 for a model": (
        faults.refused(400, "It is gone.", kind="model_not_found"),
        "refused",
        "the provider of codex does not offer the model `gpt-5.5`",
        f"{MODEL_HINT}that its key may use",
    ),
    "413": (faults.refused(413, "Too large."), "refused", f"{REFUSES}: `Too large.`", ""),
    "408": (faults.refused(408, "Too slow."), "transport", f"{FAULT}: `Too slow.`", ""),
    "429": (
        faults.rate_limited(),
        "transport",
        f"{LIMIT}: `429 Too Many Requests`",
        WAIT,
    ),
    "429 for credit": (faults.insufficient_quota(), "refused", CREDIT, CREDIT_HINT),
    "500": (faults.server_error(), "transport", BUSY, WAIT),
    "503": (faults.unavailable(), "transport", f"{FAULT}: `The service is unavailable.`", ""),
    "529": (faults.overloaded(), "transport", f"{FAULT}: `Overloaded`", ""),
    "a stream for credit": (faults.stream_insufficient_quota(), "refused", CREDIT, CREDIT_HINT),
    "a stream for the rate": (
        faults.stream_rate_limited(),
        "transport",
        f"{LIMIT}: `Rate limit reached. Please try again in 1s.`",
        WAIT,
    ),
    "a stream for the context": (
        faults.context_length_exceeded(),
        "refused",
        "the debate does not fit into the context window of codex's model",
        f"{MODEL_HINT}with a larger one, or the pull request is split",
    ),
    "a stream for its server": (
        faults.stream_server_error(),
        "transport",
        f"{BROKE}: `An error occurred while processing your request.`",
        "",
    ),
    "a stream for too much to do": (faults.broken("server_is_overloaded"), "transport", BUSY, WAIT),
    "a stream for a policy": (
        faults.broken("invalid_prompt", "Your prompt was flagged as potentially violating our usage policy."),
        "refused",
        f"{REFUSES}: `Your prompt was flagged as potentially violating our usage policy.`",
        "",
    ),
    "a cut": (faults.cut(), "transport", f"{BROKE}: `*", ""),
    "a clean cut": (faults.cut(clean=True), "transport", f"{BROKE}: `stream closed before response.completed`", ""),
    "a page": (faults.garbage(), "transport", f"{BROKE}: `stream closed before response.completed`", ""),
    "the model's limit": (
        says("The first").stopped("max_tokens"),
        "transport",
        "codex's answer was longer than its provider allows",
        "",
    ),
    "a filter": (
        says("The first").stopped("refusal"),
        "refused",
        "a filter of codex's provider stopped the answer",
        "",
    ),
    "no message": (says("").stopped(""), "transport", "codex ended its turn without an answer", ""),
    "a blank message": (says(" \n"), "transport", "codex ended its turn without an answer", ""),
}


@pytest.mark.parametrize("name", PROVIDER)
async def test_a_failure_of_the_provider_is_told_in_a_sentence(seat: Seat, name: str) -> None:
    turn, kind, sentence, hint = PROVIDER[name]
    seat.models.openai.plays([turn])
    failure = await seat.failure()
    assert failure.kind == kind
    if sentence.endswith("*"):
        assert failure.sentence.startswith(sentence[:-1])
    else:
        assert failure.sentence == sentence
    assert failure.facts.hint == hint
    assert len(seat.models.openai.requests) == 1
    words = getattr(turn.fault, "message", "")
    if kind == "refused" and turn.fault is not None and CREDIT not in sentence and "window" not in sentence:
        assert words in failure.facts.log, "the program's own log keeps what the provider said"


async def test_silence_in_a_reply_ends_it(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "SILENCE_MS", 300)
    seat.models.openai.plays([faults.silence()])
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == (
        "transport",
        "the provider of codex fell silent in the middle of a reply",
    )


async def test_it_asks_again_by_itself_and_tells_of_it_in_the_log(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "STREAM_RETRIES", 2)
    broken = [faults.cut(clean=True), faults.stream_server_error()]
    seat.models.openai.plays([*broken, says("At last."), *broken, faults.bad_request("No.")])
    assert (await seat.turn()).text == "At last."
    failure = await seat.failure()
    assert "Reconnecting... 2/2 (stream disconnected" in failure.facts.log


async def test_a_provider_that_is_not_there_cannot_be_reached(seat: Seat) -> None:
    nowhere = Lodging(seat.program, seat.root / "home", seat.root / "tmp", "http://127.0.0.1:9")
    failure = await seat.failure(lodging=nowhere)
    assert (failure.kind, failure.sentence) == ("transport", "the provider of codex cannot be reached")


async def test_a_provider_that_never_answers_is_a_timeout(seat: Seat) -> None:
    seat.models.openai.plays([faults.hang()])
    failure = await seat.failure(seconds=1.0)
    assert (failure.kind, failure.sentence) == ("timeout", "codex did not answer within 1 s")


# ---- Failures of the program ----------------------------------------------------------------------------------------


async def test_a_brief_that_is_too_long_is_refused(seat: Seat) -> None:
    failure = await seat.failure(brief="x" * (1024 * 1024 + 1))
    assert (failure.kind, failure.sentence) == ("refused", "the brief is longer than codex takes")
    assert failure.facts.hint == "split the pull request"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: replace(each, argv=(*each.argv[:-1], "-c", "new=1", "-")), "Error loading config.toml: "),
        (lambda each: replace(each, argv=(*each.argv[:-1], "--old", "-")), "error: unexpected argument '--old'"),
        (lambda each: replace(each, env=each.env | {"CODEX_HOME": "/none"}), "Error finding codex home: "),
        (lambda each: replace(each, stdin=b" "), "No prompt provided via stdin"),
    ],
)
async def test_a_program_of_another_version_does_not_start(
    seat: Seat, change: Callable[[Program], Program], words: str
) -> None:
    seat.change = change
    failure = await seat.failure()
    assert failure.kind == "environment"
    assert failure.sentence.startswith(f"codex does not start: `{words}")
    assert failure.facts.hint.endswith("installs the agents anew: `pip install 'codex-debate[agents]'`")


async def test_a_program_without_its_key_does_not_ask(seat: Seat) -> None:
    seat.change = lambda each: replace(each, env={k: v for k, v in each.env.items() if k != codex.KEY_VARIABLE})
    failure = await seat.failure()
    assert failure.kind == "environment"
    assert codex.KEY_VARIABLE in failure.sentence


async def test_a_program_that_is_not_there_cannot_be_started(seat: Seat) -> None:
    seat.program = seat.root / "none"
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == ("environment", "codex cannot be started: no such file or directory")
    assert failure.facts.hint


async def test_it_never_starts_without_a_sandbox(seat: Seat) -> None:
    with pytest.raises(LookupError, match="only in a sandbox"):
        await seat.turn(lodging=None)
    assert not seat.started


# ---- Programs that behave badly -------------------------------------------------------------------------------------


async def test_a_program_that_lingers_after_its_last_event_is_ended(seat: Seat) -> None:
    seat.plays(*begun(), message("Done."), COMPLETED, then="time.sleep(60)")
    seat.change = lambda program: replace(program, grace=0.3)
    began = time.monotonic()
    reply = await seat.turn()
    assert (reply.text, reply.session) == ("Done.", THREAD)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("status", [1, 101])
async def test_the_last_event_counts_and_the_exit_status_does_not(seat: Seat, status: int) -> None:
    seat.plays(*begun(), message("Done."), COMPLETED, then=f"os._exit({status})")
    assert (await seat.turn()).text == "Done."


async def test_without_a_last_event_a_message_is_no_answer(seat: Seat) -> None:
    seat.plays(*begun(), message("Done."))
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == ("transport", "codex ended with status 0 and without an answer")
    assert failure.facts.log == "Done."


@pytest.mark.parametrize("then", ["os.kill(os.getpid(), 9)", "os._exit(137)"])
async def test_a_program_that_is_killed_is_told_so(seat: Seat, then: str) -> None:
    seat.plays(*begun(), then=then)
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == ("transport", "codex ended with SIGKILL and without an answer")


@pytest.mark.threat(127)
async def test_too_much_output_ends_it(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "OUTPUT", 1024 * 1024)
    seat.plays(*begun(), then="while True: sys.stdout.write('x' * 65536)")
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == ("transport", "codex printed more than a program may")


async def test_output_that_is_no_event_says_nothing(seat: Seat) -> None:
    item: dict[str, Any] = {"type": "item.completed", "item": {"type": "agent_message", "text": 5}}
    hostile: list[object] = [
        "",
        "no JSON",
        '{"type":',
        "[" * 100_000,
        "9" * 10_000,
        '"\\ud800"',
        [],
        None,
        {"type": None},
        {"type": "thread.started", "thread_id": 7},
        {"type": "item.completed", "item": None},
        item,
        {"type": "error", "message": {}},
        {"type": "turn.invented", "error": {"message": "x"}},
        message("x" * LINE),
    ]
    seat.plays(*hostile, *begun(), message("Done."), *hostile, COMPLETED, message("Too late."), *hostile)
    reply = await seat.turn()
    assert (reply.text, reply.session) == ("Done.", THREAD)


async def test_an_id_that_is_none_is_not_kept(seat: Seat) -> None:
    seat.plays(*begun("--last"), message("Done."), COMPLETED)
    assert (await seat.turn()).session is None


async def test_the_log_is_a_tail_without_what_a_terminal_would_obey(seat: Seat) -> None:
    failed = {"type": "turn.failed", "error": {"message": "unexpected status 418 I'm a teapot: \x1b[31mred\ud800"}}
    then = "sys.stderr.write('noise ' * 10_000)"
    seat.plays(*begun(), *({"type": "error", "message": f"{n} " * 900} for n in range(50)), failed, then=then)
    failure = await seat.failure()
    assert failure.sentence == "the provider of codex refuses the request: `red\ufffd`"
    assert len(failure.facts.log) == LOG_TAIL
    assert failure.facts.log.endswith("unexpected status 418 I'm a teapot: red\ufffd")
    assert failure.facts.log.encode()


async def test_a_failure_without_words_is_one(seat: Seat) -> None:
    seat.plays(*begun(), message("Done."), {"type": "turn.failed", "error": None})
    failure = await seat.failure()
    assert (failure.kind, failure.sentence) == ("transport", "codex ended its turn with an error")
