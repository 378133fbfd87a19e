"""The option models: what their fields take, and that nothing else gets in."""

from __future__ import annotations

from typing import get_args

import pytest
from hostile_refs import REFUSED_BRANCHES
from pydantic import ValidationError

from bot.config import COMMENT_AGENTS, OPERATOR_AGENTS
from bot.options import (
    PROMPT_LIMIT,
    Answer,
    Approve,
    Board,
    CodeDebate,
    Help,
    Lens,
    Options,
    Review,
    is_branch_name,
    is_pull_number,
)

MODELS = get_args(Options)
TAKEN_BRANCHES = [
    *("main", "release/2.15", "a-b_c.d", "feature/@x", "0123abc", "v1.0", "a=b", "x#1", "c++", "x" * 200, "a/-b"),
    *("heads/main", "lock", "x.locks", "FETCH_HEAD"),
]


@pytest.mark.threat("T9", 49, 50, 51, 53)
@pytest.mark.parametrize("name", REFUSED_BRANCHES, ids=ascii)
def test_what_git_might_take_for_something_else_is_no_branch(name: str) -> None:
    assert not is_branch_name(name)
    for model in (Review, Lens):
        with pytest.raises(ValidationError):
            model(base=name)


def test_the_corpus_is_as_large_as_was_asked_for() -> None:
    assert len(set(REFUSED_BRANCHES)) == len(REFUSED_BRANCHES) >= 60


@pytest.mark.parametrize("name", TAKEN_BRANCHES)
def test_names_of_branches(name: str) -> None:
    assert is_branch_name(name)
    assert Review(base=name).base == Lens(base=name).base == name


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_frozen_and_closed(model: type[Options]) -> None:
    assert model.model_config["frozen"]
    assert model.model_config["extra"] == "forbid"


@pytest.mark.parametrize("model", MODELS)
def test_a_comment_seats_no_agent_of_the_operator(model: type[Options]) -> None:
    seats = {"reviewer", "author", "a", "b"} & set(model.model_fields)
    given = {"prompt": "x"} if "prompt" in model.model_fields else {}
    for seat in seats:
        for agent in COMMENT_AGENTS:
            assert getattr(model.model_validate({**given, seat: agent}), seat) == agent
        for agent in (*OPERATOR_AGENTS, "scripted:/tmp/x.json", "Codex", "", "bard"):
            with pytest.raises(ValidationError):
                model.model_validate({**given, seat: agent})


def test_who_sits_where() -> None:
    """interface.md 4: reviewer and author for review, a and b for the others."""
    seats = {model: {"reviewer", "author", "a", "b"} & set(model.model_fields) for model in MODELS}
    assert seats.pop(Review) == {"reviewer", "author"}
    debates = [Answer, Board, CodeDebate, Lens]
    assert all(seats[model] == {"a", "b"} for model in debates)
    assert seats[Approve] == seats[Help] == set()


@pytest.mark.parametrize("sha", ["97636d1", "97636d1c27", "0" * 40, "ABCDEF1"])
def test_the_beginning_of_a_commits_name(sha: str) -> None:
    assert Approve(sha=sha).sha == sha.lower()


@pytest.mark.parametrize(
    "sha", ["", "97636d", "0" * 41, "97636g1", "97636d1 ", " 97636d1", "\uff11" * 8, "HEAD", "0x97636d1"]
)
def test_what_is_no_beginning_of_a_commits_name(sha: str) -> None:
    with pytest.raises(ValidationError):
        Approve(sha=sha)


def test_a_prompt_is_taken_up_to_its_limit() -> None:
    assert len(Answer(prompt="é" * PROMPT_LIMIT).prompt) == PROMPT_LIMIT
    with pytest.raises(ValidationError, match="at most 60000"):
        Answer(prompt="x" * (PROMPT_LIMIT + 1))


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\u202e \ufeff", "\x00", "\U000e0041"])
def test_a_text_that_nobody_can_see_is_none(text: str) -> None:
    with pytest.raises(ValidationError):
        Answer(prompt=text)
    with pytest.raises(ValidationError):
        Review(rationale=text)


def test_a_text_is_kept_as_a_reader_sees_it() -> None:
    assert Answer(prompt="a\r\n\x1b[31mred\u202e é 🙂").prompt == "a\nred\ufffd é 🙂"
    assert Review(rationale="two\rlines").rationale == "two\nlines"


def test_rounds_are_held_under_the_ceiling_that_is_given() -> None:
    for model, name in ((Review, "max_rounds"), (Lens, "max_rounds"), (Board, "rounds")):
        given = {"prompt": "x"} if model is Board else {}
        assert getattr(model.model_validate({**given, name: "6"}, context={"max_rounds": 6}), name) == 6
        with pytest.raises(ValidationError):
            model.model_validate({**given, name: "7"}, context={"max_rounds": 6})
        with pytest.raises(ValidationError):
            model.model_validate({**given, name: "0"}, context={"max_rounds": 6})


@pytest.mark.parametrize("synth", ["A", "both", "", "none "])
def test_who_may_write_a_decision_down(synth: str) -> None:
    assert Board.model_validate({"prompt": "x", "synth": "none"}).synth == "none"
    with pytest.raises(ValidationError):
        Board.model_validate({"prompt": "x", "synth": synth})


def test_numbers_of_pull_requests() -> None:
    assert all(map(is_pull_number, ("1", "#412", "999999999")))
    assert not any(map(is_pull_number, ("", "#", "0", "##1", "1.0", "-1", "+1", "1e3", "\u0661", "9999999999", "1 ")))


def test_a_name_of_help_may_be_written_as_the_command() -> None:
    assert Help.model_validate({"verb": "/lens-debate"}) == Help(verb="lens-debate")
