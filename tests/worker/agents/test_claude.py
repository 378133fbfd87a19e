"""The real claude program in a seat: what it is given, what it may do, and what it never reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from claude_seat import Seat
from scripted_models import Call, ModelServer, Turn, answers, calls, says
from worker.agents import claude
from worker.agents.claude import BOX, EDITING, EFFORTS, READING
from worker.debate.codecs import VerdictCodec
from worker.debate.flow import TurnFailed, Used
from worker.process import Finished, Program
from worker.turn import SessionGone

VERDICT = {"approved": True, "summary": "Schön: ☃", "findings": [], "response_to_rebuttal": ""}
SCHEMA = VerdictCodec().schema()


@pytest_asyncio.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    async with ModelServer.start() as models:
        yield Seat(tmp_path, models)
        assert models.strays == []


@pytest.fixture
def author(seat: Seat) -> Seat:
    seat.editing = True
    return seat


# ---- Turns and sessions ---------------------------------------------------------------------------------------------


async def test_a_turn_answers_with_text_and_leaves_a_session(seat: Seat) -> None:
    seat.model.plays([says("- `F1` **fixed**: schön\n")])
    reply = await seat.turn("Look at `a.py`.")
    assert reply.text == "- `F1` **fixed**: schön\n"
    assert "Look at `a.py`." in seat.asked[0].new_text()
    assert seat.asked[0].session == reply.session
    assert reply.used == Used()


async def test_the_model_and_the_effort_are_those_of_the_request(seat: Seat) -> None:
    seat.model.plays([says("x")], again=True)
    for effort in EFFORTS:
        await seat.turn(model="claude-sonnet-5", effort=effort)
        assert (seat.asked[-1].model, seat.asked[-1].body["output_config"]["effort"]) == ("claude-sonnet-5", effort)


async def test_a_resumed_turn_repeats_the_whole_history_from_the_cache(seat: Seat) -> None:
    seat.model.plays([says("The first reply."), says("The second reply.")])
    brief = "The first brief. " * 2000
    first = await seat.turn(brief)
    second = await seat.turn("The second brief.", session=first.session)
    assert (second.text, second.session) == ("The second reply.", first.session)
    history = seat.asked[1].prompt_text()
    assert all(text in history for text in (brief, "The first reply.", "The second brief."))
    assert seat.asked[0].usage.uncached > 10_000
    assert seat.asked[1].usage.uncached < 100


async def test_what_the_provider_keeps_outlasts_the_other_seats_turn(seat: Seat) -> None:
    """A prompt is forgotten after five minutes unless an hour is asked for."""
    seat.model.plays([says("x"), says("y")])
    first = await seat.turn()
    await seat.turn(session=first.session)
    for request in seat.asked:
        marks = re.findall(r'"cache_control": (\{[^}]*\})', json.dumps(request.body))
        assert marks
        assert {json.loads(mark)["ttl"] for mark in marks} == {"1h"}


async def test_the_session_lies_where_the_box_says(seat: Seat) -> None:
    seat.model.plays([says("x")])
    reply = await seat.turn()
    assert [path.stem for path in (seat.root / "home" / BOX.sessions).rglob("*.*")] == [reply.session]


async def test_a_damaged_session_is_gone(seat: Seat) -> None:
    seat.model.plays([says("x")])
    reply = await seat.turn()
    [file] = (seat.root / "home" / BOX.sessions).rglob("*.jsonl")
    file.write_bytes(b"\x00\xff" * 1000)
    with pytest.raises(SessionGone):
        await seat.turn(session=reply.session)


async def test_a_session_of_another_home_is_gone(seat: Seat) -> None:
    seat.model.plays([says("x")])
    reply = await seat.turn()
    seat.home = "another"
    with pytest.raises(SessionGone):
        await seat.turn(session=reply.session)
    assert len(seat.asked) == 1


@pytest.mark.parametrize("session", ["a title", "--continue", "", "C0FFEE00-0000-4000-8000-000000000000"])
async def test_what_the_program_never_wrote_is_no_session(seat: Seat, session: str) -> None:
    with pytest.raises(SessionGone):
        await seat.turn(session=session)
    assert seat.finished == []


async def test_a_memory_that_a_turn_left_is_not_told_to_the_next(seat: Seat) -> None:
    seat.model.plays([says("x")], again=True)
    reply = await seat.turn()
    [folder] = (seat.root / "home" / BOX.sessions).iterdir()
    (folder / "memory").mkdir()
    (folder / "memory" / "MEMORY.md").write_text("CANARY")
    await seat.turn(session=reply.session)
    assert not any("CANARY" in request.prompt_text() or "memory/" in request.prompt_text() for request in seat.asked)


# ---- Objects --------------------------------------------------------------------------------------------------------


async def test_an_object_comes_back_as_its_json(seat: Seat) -> None:
    seat.model.plays([says("I look.") + answers(VERDICT)])
    reply = await seat.turn(schema=SCHEMA)
    assert seat.asked[0].schema == SCHEMA
    assert VerdictCodec().parse(reply.text).summary == "Schön: ☃"


async def test_an_object_that_does_not_fit_is_corrected_within_the_turn(seat: Seat) -> None:
    seat.model.plays([answers(VERDICT | {"approved": "yes"}), answers(VERDICT)])
    reply = await seat.turn(schema=SCHEMA)
    assert VerdictCodec().problem(reply.text) is None
    assert "must be boolean" in seat.asked[1].new_text()


async def test_text_where_an_object_was_asked_for_is_for_the_codec_to_refuse(seat: Seat) -> None:
    seat.model.plays([says("I approve."), says("I said that I approve.")])
    reply = await seat.turn(schema=SCHEMA)
    assert reply.text == "I said that I approve."
    assert "not one JSON object" in (VerdictCodec().problem(reply.text) or "")


async def test_five_objects_that_do_not_fit_are_for_the_codec_to_refuse(seat: Seat) -> None:
    seat.model.plays([answers(VERDICT | {"approved": "yes"})] * 5)
    reply = await seat.turn(schema=SCHEMA)
    assert "must be boolean" in reply.text
    assert VerdictCodec().problem(reply.text)
    seat.model.plays([answers(VERDICT)])
    again = await seat.turn("Send it again.", schema=SCHEMA, session=reply.session)
    assert VerdictCodec().problem(again.text) is None


async def test_an_object_that_nobody_asked_for_is_no_reply() -> None:
    reader = claude._Reader(print)
    assert reader(b'{"type":"result","subtype":"success","is_error":false,"result":"x","structured_output":{"a":1}}')
    assert reader.final is not None
    request: Any = type("Request", (), {"schema": None})
    assert claude._text(reader.final, request) == "x"


# ---- What it may do -------------------------------------------------------------------------------------------------


async def test_an_editing_turn_edits_writes_deletes_and_renames(author: Seat) -> None:
    author.tree.mkdir()
    for name in ("a.py", "gone.py", "old.py"):
        (author.tree / name).write_text(f"# {name}\nx = 1\n")
    path = str(author.tree / "a.py")
    author.model.plays(
        [
            calls("Read", file_path=path),
            calls("Edit", file_path=path, old_string="x = 1", new_string="x = 2"),
            calls("Write", file_path=str(author.tree / "new" / "b.py"), content="y = 1\n"),
            calls("Bash", command="rm gone.py"),
            calls("Bash", command="mv old.py new/name.py"),
            says("- `F1` **fixed**"),
        ]
    )
    assert (await author.turn()).text == "- `F1` **fixed**"
    now = {str(each.relative_to(author.tree)): each.read_text() for each in author.tree.rglob("*.py")}
    assert now == {"a.py": "# a.py\nx = 2\n", "new/b.py": "y = 1\n", "new/name.py": "# old.py\nx = 1\n"}


@pytest.mark.parametrize("editing", [False, True])
async def test_a_seat_has_its_own_tools_and_no_other(seat: Seat, editing: bool) -> None:
    seat.editing = editing
    others = ("Task", "Agent", "WebFetch", "WebSearch", "Skill", "NotebookEdit", "TodoWrite", "Monitor")
    seat.model.plays([Turn(parts=tuple(Call(name, {}) for name in others)), says("x")])
    await seat.turn(model="claude-sonnet-5")
    assert set(seat.asked[0].tools) == set(EDITING if editing else READING)
    assert "git commit" not in seat.asked[0].prompt_text()
    refused = seat.asked[1].new_text()
    assert all(f"No such tool available: {name}." in refused for name in others)


async def test_a_reading_seat_changes_nothing_not_even_in_a_session_that_edited(seat: Seat) -> None:
    seat.tree.mkdir()
    (seat.tree / "a.py").write_text("x = 1\n")
    path = str(seat.tree / "a.py")
    write = calls("Read", file_path=path) + calls("Edit", file_path=path, old_string="1", new_string="2")
    write += calls("Write", file_path=str(seat.tree / "b.py"), content="y") + calls("Bash", command="touch c.py")
    seat.model.plays([says("x"), write, answers(VERDICT)])
    edited = await seat.turn(editing=True)
    reply = await seat.turn(schema=SCHEMA, session=edited.session)
    assert VerdictCodec().problem(reply.text) is None
    assert all(f"No such tool available: {name}" in seat.asked[2].new_text() for name in ("Edit", "Write", "Bash"))
    assert {each.name: each.read_text() for each in seat.tree.iterdir()} == {"a.py": "x = 1\n"}


async def test_a_reading_seat_reads_and_searches_the_base_and_the_notes(seat: Seat) -> None:
    for name, text in (("base", "what was before"), ("notes", "what the change is")):
        (seat.root / name).mkdir()
        (seat.root / name / "file.txt").write_text(text)
    look = calls("Read", file_path=str(seat.root / "notes" / "file.txt"))
    look += calls("Grep", pattern="before", path=str(seat.root / "base"), output_mode="content")
    look += calls("Glob", pattern=str(seat.root / "base" / "*.txt"))
    seat.model.plays([look, says("x")])
    await seat.turn()
    seen = seat.asked[1].new_text()
    assert all(text in seen for text in ("what was before", "what the change is", str(seat.root / "base" / "file.txt")))


async def test_a_command_in_the_background_keeps_no_turn_open_and_begins_no_other(author: Seat) -> None:
    """What is left of it ends with the sandbox."""
    background = calls("Bash", command="sleep 5", run_in_background=True)
    author.model.plays([background, calls("Bash", command="sleep 5 & echo begun"), says("The last word.")])
    assert (await author.turn()).text == "The last word."
    assert "unexpected parameter `run_in_background`" in author.asked[1].new_text()
    assert "begun" in author.asked[2].new_text()
    assert (author.finished[0].code, author.finished[0].seconds < 4) == (0, True)


async def test_a_command_of_the_author_sees_the_environment_that_is_meant_for_it(author: Seat) -> None:
    author.model.plays([calls("Bash", command="echo $ANTHROPIC_API_KEY $PATH $TMPDIR $LANG; echo $HOME"), says("x")])
    await author.turn()
    key = author.asked[0].key
    assert f"{key} /usr/bin:/bin {author.root}/tmp C.UTF-8\n{author.root}/home" in author.asked[1].new_text()
    assert "sk-" not in key


# ---- What the brief may hold ----------------------------------------------------------------------------------------

REFERENCES = [
    "@README.md what is it?",
    'See @"README.md".',
    "/compact",
    "/help",
    "/init x",
    "/memory\nmore",
    "!ls",
    "# x",
]


@pytest.mark.threat(107, 112)
@pytest.mark.parametrize("brief", REFERENCES)
async def test_what_looks_like_a_reference_or_a_command_stays_text(seat: Seat, brief: str) -> None:
    seat.tree.mkdir()
    (seat.tree / "README.md").write_text("CANARY")
    seat.model.plays([says("x")])
    assert (await seat.turn(brief)).text == "x"
    [asked] = seat.asked
    said = [each["content"] for each in asked.body["messages"] if each["role"] == "user"]
    assert [[block["text"] for block in content] for content in said] == [[brief]]
    assert "CANARY" not in asked.prompt_text()


async def test_without_its_mark_the_same_line_is_a_reference_or_a_command(seat: Seat) -> None:
    seat.tree.mkdir()
    (seat.tree / "README.md").write_text("CANARY")
    seat.model.plays([says("x")], again=True)

    async def unmarked(spec: Program) -> Finished:
        message = json.loads(spec.stdin)
        assert message.pop("client_composed") is True
        return await seat.run(replace(spec, stdin=json.dumps(message).encode() + b"\n"))

    await seat.turn(REFERENCES[0], run=unmarked)
    assert "CANARY" in seat.asked[0].prompt_text()
    await seat.turn("/help", run=unmarked)
    assert len(seat.asked) == 1, "the program answered by itself"


async def test_a_brief_may_be_large_and_hold_any_character(seat: Seat) -> None:
    brief = 'Zeile\u2028mit\u0000\x1b[31m ☃ 𝄞 \\n"\n' * 12_000
    seat.model.plays([says("x")])
    await seat.turn(brief)
    assert len(brief) > 200_000
    assert brief in seat.asked[0].prompt_text()


# ---- Before it starts -----------------------------------------------------------------------------------------------


async def test_an_effort_that_the_program_does_not_know_is_named(seat: Seat) -> None:
    with pytest.raises(TurnFailed, match=r"no effort `minimal`; it knows low, medium, high, xhigh, max") as failed:
        await seat.turn(effort="minimal")
    assert (failed.value.kind, seat.finished) == ("environment", [])


async def test_it_does_not_start_without_a_lodging(seat: Seat) -> None:
    with pytest.raises(LookupError, match="only in a sandbox"):
        await seat.turn(lodging=None)
    assert seat.finished == []
