"""Steps, replies and the lines of a journal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from worker.debate.codecs import CruxCodec, DispositionCodec, VerdictCodec
from worker.debate.flow import (
    Ask,
    Check,
    CommitPlan,
    Edit,
    Edited,
    Entry,
    Failure,
    Refusal,
    Reply,
    Tokens,
    TurnFailed,
    Used,
    ask,
    dump_entry,
    edit,
    entry_of,
    load_entry,
    result_of,
    step_hash,
)

ROOT = Path(__file__).parents[3]
ASK = Ask("reviewer", 1, "brief", VerdictCodec(open=("F1",)))
PLAN = CommitPlan("fix ({ids})", ({"id": "F1", "issue": "i"},), "codex", "claude")
EDIT = Edit("author", 1, "brief", DispositionCodec(("F1",)), PLAN)


def test_a_step_hashes_the_same_in_every_process() -> None:
    program = (
        "from worker.debate.flow import Ask, step_hash; from worker.debate.codecs import VerdictCodec;"
        "print(step_hash(Ask('reviewer', 1, 'brief', VerdictCodec(open=('F1',)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == step_hash(ASK)


def test_every_part_of_a_step_counts() -> None:
    steps: list[Ask | Edit] = [
        ASK,
        Ask("reviewer", 2, "brief", VerdictCodec(open=("F1",))),
        Ask("author", 1, "brief", VerdictCodec(open=("F1",))),
        Ask("reviewer", 1, "other", VerdictCodec(open=("F1",))),
        Ask("reviewer", 1, "brief", VerdictCodec(open=("F2",))),
        Ask("reviewer", 1, "brief", CruxCodec(open=("F1",))),
        Ask("reviewer", 1, "brief", VerdictCodec(open=("F1",)), cold="cold"),
        EDIT,
        Edit("author", 1, "brief", DispositionCodec(("F1",)), None),
    ]
    assert len({step_hash(step) for step in steps}) == len(steps)


TOKENS = st.builds(Tokens, st.integers(0), st.integers(0), st.integers(0))
USED = st.builds(Used, st.none() | st.text(), st.floats(0, 1e6), TOKENS, unpriced=st.booleans())
REPLIES = st.builds(
    Reply,
    text=st.text(),
    used=USED,
    agent=st.text(min_size=1),
    session=st.none() | st.text(),
    seconds=st.floats(0, 1e6),
    edited=st.none()
    | st.builds(
        Edited,
        changed=st.lists(st.text()).map(tuple),
        tree=st.text(),
        refused=st.lists(st.builds(Refusal, st.text(), st.text())).map(tuple),
        checks=st.lists(st.builds(Check, st.text(), st.text(), st.text())).map(tuple),
        gap=st.none() | st.text(),
    ),
)


@given(REPLIES)
def test_a_reply_comes_out_of_the_journal_as_it_went_in(reply: Reply) -> None:
    assert result_of(load_entry(dump_entry(entry_of(ASK, reply)))) == reply


def test_a_failure_comes_out_of_the_journal_too() -> None:
    used = Used("m", 0.25, Tokens(9, 4, 2), unpriced=True)
    facts: dict[str, Any] = {"hint": "add credit", "attempts": 2, "seconds": 3.5, "used": used, "log": "tail"}
    failure = TurnFailed("timeout", "it took too long", **facts)
    again = result_of(load_entry(dump_entry(entry_of(EDIT, failure))))
    assert isinstance(again, TurnFailed)
    assert again.facts == failure.facts == Failure("timeout", "it took too long", **facts)
    assert (again.kind, again.sentence, str(again)) == ("timeout", "it took too long", "it took too long")


def test_tokens_add_up() -> None:
    assert Tokens(9, 4, 2) + Tokens(1, 0, 3) == Tokens(10, 4, 5)
    assert sum([Tokens(1, 1, 1)] * 3, Tokens()) == Tokens(3, 3, 3)


def test_what_was_used_adds_up_and_the_last_model_that_answered_stands() -> None:
    first, second = Used("a", 0.25, Tokens(9, 4, 2), unpriced=True), Used("b", 0.5, Tokens(1, 0, 3))
    assert first + second == Used("b", 0.75, Tokens(10, 4, 5), unpriced=True)
    assert second + first == Used("a", 0.75, Tokens(10, 4, 5), unpriced=True)
    assert Used() + second == second + Used() == second


def test_a_kind_of_failure_that_is_no_more_is_not_read() -> None:
    with pytest.raises(ValidationError):
        load_entry('{"step": "hash", "failure": {"kind": "budget", "sentence": "it failed"}}')


def test_a_line_without_a_result_is_an_error() -> None:
    with pytest.raises(ValueError, match="neither"):
        result_of(Entry("hash"))


def test_a_failed_turn_is_thrown_where_it_was_yielded() -> None:
    for flow in (ask(ASK), edit(EDIT)):
        next(flow)
        with pytest.raises(TurnFailed):
            flow.throw(TurnFailed("transport", "it died"))
