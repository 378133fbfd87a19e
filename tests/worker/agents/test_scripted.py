"""The agent that plays a scenario, and the program that it starts for each turn."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from worker.agents import SessionGone, TurnReply, TurnRequest, scripted
from worker.debate.codecs import VerdictCodec
from worker.debate.flow import TurnFailed, Used
from worker.process import run

RequestOf = Callable[..., TurnRequest]
Play = Callable[..., Any]


@pytest.fixture
def play(tmp_path: Path, request_of: RequestOf) -> Play:
    """Play one turn of a scenario in an empty tree."""
    (tmp_path / "tree").mkdir()

    async def take(*turns: Any, seat: str = "reviewer", record: Path | None = None, **fields: Any) -> TurnReply:
        file = tmp_path / "scenario.json"
        kept = {"record": str(record)} if record else {}
        file.write_text(json.dumps({seat: turns, **kept}))
        request = request_of(argument=str(file), turn=1, seat=seat, session_dir=tmp_path / "sessions" / seat)
        return await scripted.take_turn(replace(request, **fields), run)

    return take


# ---- Replies --------------------------------------------------------------------------------------------------------


async def test_without_a_scenario_the_reviewer_approves(debate: Any, request_of: RequestOf) -> None:
    debate.begin({}, {})
    reply = await scripted.take_turn(request_of(), run)
    assert VerdictCodec().parse(reply.text).approved


async def test_text_and_json_are_sent_as_text(play: Play) -> None:
    assert (await play({"reply": "- `F1` **fixed**: schön\n"})).text == "- `F1` **fixed**: schön\n"
    assert json.loads((await play({"reply": {"approved": True}})).text) == {"approved": True}


async def test_it_tells_its_model_and_its_cost(play: Play) -> None:
    reply = await play({"reply": "x", "model": "gpt-6.1-sol", "usd": 0.25})
    assert (reply.used, reply.session) == (Used("gpt-6.1-sol", 0.25), "reviewer-1")


async def test_each_turn_plays_its_own_entry(play: Play) -> None:
    turns = [{"reply": "one"}, {"reply": "two"}]
    assert [(await play(*turns, turn=turn)).text for turn in (2, 1, 2)] == ["two", "one", "two"]


async def test_attempts_at_a_turn_play_its_list_and_then_its_last(play: Play) -> None:
    turn = [{"prose": "Sure, here it is"}, {"exit": 1}, {"reply": "at last"}]
    assert (await play(turn)).text == "Sure, here it is\n"
    with pytest.raises(TurnFailed):
        await play(turn)
    assert [(await play(turn)).text for _ in range(2)] == ["at last", "at last"]


# ---- Edits ----------------------------------------------------------------------------------------------------------


async def test_edits_of_every_kind(play: Play, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "gone.txt").touch()
    (tree / "old.txt").write_text("kept")
    edits = {
        "new/file.py": "x = 1\r\n",
        "gone.txt": None,
        "raw.bin": {"base64": "AP8=", "mode": "755"},
        "link": {"symlink": "/etc/passwd"},
        "pipe": {"fifo": True},
        "lat\udce9.txt": "",
    }
    await play({"reply": "x", "edits": edits, "renames": {"old.txt": "moved/new.txt"}}, seat="author", editing=True)
    assert (tree / "new/file.py").read_bytes() == b"x = 1\r\n"
    assert not (tree / "gone.txt").exists()
    assert (tree / "raw.bin").read_bytes() == b"\x00\xff"
    assert stat.S_IMODE((tree / "raw.bin").stat().st_mode) == 0o755
    assert (tree / "link").readlink() == Path("/etc/passwd")
    assert stat.S_ISFIFO((tree / "pipe").stat().st_mode)
    assert b"lat\xe9.txt" in [os.fsencode(path.name) for path in tree.iterdir()]
    assert (tree / "moved/new.txt").read_text() == "kept"


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn", "sentence"),
    [
        ({"silent": True, "reply": "x"}, "ended without a word"),
        ({"half": True}, "broke off in the middle of its reply"),
        ({"exit": 3, "reply": "x"}, "ended with status 3"),
        ({"endless": True}, "printed more than a program may"),
        ({}, "ended without a reply"),
        ({"reply": "x", "edits": {"missing.txt": None}}, "ended with status 1"),
    ],
)
async def test_a_program_that_fails_is_a_failed_transport(play: Play, turn: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TurnFailed, match=f"scripted, the reviewer, {sentence}") as failure:
        await play(turn)
    assert failure.value.kind == "transport"


async def test_a_program_that_never_ends_is_ended(play: Play) -> None:
    with pytest.raises(TurnFailed, match="did not answer within") as failure:
        await play({"never_ends": True}, seconds=0.3)
    assert failure.value.kind == "timeout"


async def test_prose_is_a_reply_that_its_codec_refuses(play: Play) -> None:
    reply = await play({"prose": "I think the change is fine."})
    assert VerdictCodec().problem(reply.text) is not None


async def test_a_cancelled_turn_leaves_no_program(play: Play) -> None:
    turn = asyncio.ensure_future(play({"sleep": 3600, "reply": "x"}))
    await asyncio.wait([turn], timeout=0.2)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


# ---- Sessions -------------------------------------------------------------------------------------------------------


async def test_a_session_goes_on(play: Play) -> None:
    turns = [{"reply": "one"}, {"reply": "two"}]
    first = await play(*turns)
    assert (await play(*turns, turn=2, session=first.session)).session == first.session


async def test_a_lost_session_starts_cold_at_the_same_turn(play: Play) -> None:
    turns = [{"reply": "one", "lose_session": True}, [{"reply": "two"}, {"reply": "again"}]]
    first = await play(*turns)
    with pytest.raises(SessionGone):
        await play(*turns, turn=2, session=first.session)
    second = await play(*turns, turn=2)
    assert (second.text, second.session) == ("two", "reviewer-2")


# ---- Briefs ---------------------------------------------------------------------------------------------------------


async def test_briefs_are_compared(play: Play) -> None:
    turn = {"reply": "x", "expect": ["a rationale"], "reject": ["the other's words"]}
    assert (await play(turn, brief="here is a rationale")).text == "x"
    with pytest.raises(TurnFailed, match="the brief of turn 1 of the seat reviewer lacks 'a rationale'"):
        await play(turn, brief="nothing")
    with pytest.raises(TurnFailed, match='holds "the other\'s words"') as failure:
        await play(turn, brief="a rationale and the other's words")
    assert failure.value.kind == "environment"


async def test_briefs_are_kept(play: Play, tmp_path: Path) -> None:
    for brief in ("first", "second"):
        await play({"reply": "x"}, record=tmp_path / "record", brief=brief, schema={"type": "object"})
    kept = {path.name: path.read_text() for path in (tmp_path / "record").iterdir()}
    assert (kept["reviewer-1-1.md"], kept["reviewer-1-2.md"]) == ("first", "second")
    assert json.loads(kept["reviewer-1-1.json"]) == {
        "round": 1,
        "editing": False,
        "session": None,
        "model": None,
        "schema": {"type": "object"},
    }


# ---- Scenarios that are none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read"),
        ("{", "is no JSON object"),
        ("[]", "is no JSON object"),
        ('{"reviewer": [{"repyl": "x"}]}', "is not one: seats.reviewer.0"),
        ('{"author": []}', "has no turn 1 for the seat reviewer"),
        ('{"reviewer": [[]]}', "turn 1 of the seat reviewer has no attempts"),
    ],
)
async def test_a_scenario_that_cannot_be_played(
    tmp_path: Path, request_of: RequestOf, text: str | None, sentence: str
) -> None:
    file = tmp_path / "scenario.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TurnFailed, match=sentence) as failure:
        await scripted.take_turn(request_of(argument=str(file)), run)
    assert failure.value.kind == "environment"
