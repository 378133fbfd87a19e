"""What became of each finding, and how a debate ended, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.statuses import Status
from worker.debate.findings import LedgerEntry, Record, State, Word
from worker.debate.flow import Edited
from worker.outputs.report import Report
from worker.outputs.words import (
    badge_line,
    changed,
    commits,
    counts,
    entries,
    join_rounds,
    open_ids,
    outcome_word,
    present_round,
    standing,
    tally,
)


def outcomes(report: Report) -> list[str]:
    return [outcome_word(entry, report) for entry in entries(report)]


def test_outcomes_of_a_consensus(consensus: Report) -> None:
    assert outcomes(consensus) == [
        "fixed",
        "conceded by codex",
        "fixed after a dispute",
        "deferred",
        "fixed in two steps",
    ]


def test_outcomes_without_agreement(unresolved: Report) -> None:
    assert outcomes(unresolved) == ["fixed", "open", "conceded by codex", "open"]


def test_outcomes_that_nobody_reviewed(stopped: Report) -> None:
    assert outcomes(stopped) == ["fixed, unreviewed", "disputed by claude", "disputed by claude"]


ENTRY = LedgerEntry("F1", "t", "minor", "a.py:1", "i", "", raised=1, state=State.FIXED)


@pytest.mark.parametrize(
    ("words", "reopened", "word"),
    [
        ((Word.FIXED,), (), "fixed"),
        ((), (), "fixed"),
        ((Word.PARTIAL,), (), "fixed in part"),
        ((Word.PARTIAL, Word.PARTIAL, Word.FIXED), (), "fixed in three steps"),
        ((Word.GATE, Word.FIXED), (), "fixed after a dispute"),
        ((Word.DISPUTED, Word.PARTIAL), (), "fixed in part"),
        ((Word.FIXED, Word.FIXED), (3,), "fixed, reopened in round 3"),
    ],
)
def test_how_a_finding_was_fixed(
    consensus: Report, words: tuple[Word, ...], reopened: tuple[int, ...], word: str
) -> None:
    entry = replace(ENTRY, words=tuple(enumerate(words, 1)), reopened=reopened)
    assert outcome_word(entry, consensus) == word


def test_a_part_that_nobody_reviewed(stopped: Report) -> None:
    entry = replace(ENTRY, state=State.OPEN, words=((1, Word.PARTIAL),))
    assert outcome_word(entry, stopped) == "fixed in part, unreviewed"


def test_counts_and_their_sentence(consensus: Report, unresolved: Report, clean: Report) -> None:
    assert counts(consensus) == (3, 1, 1, 0, 0)
    assert tally(consensus) == "3 findings fixed, 1 conceded, 1 deferred"
    assert tally(unresolved) == "1 finding fixed, 1 conceded, 2 open"
    assert tally(clean) == ""


def test_how_it_stands(consensus: Report, unresolved: Report, clean: Report) -> None:
    assert standing(consensus) == "5 of 5 findings are settled"
    assert standing(unresolved) == "2 of 4 findings are settled, F2 and F4 are open"
    assert standing(clean) == "no findings yet"
    assert open_ids(unresolved) == ["F2", "F4"]


def test_what_the_debated_commit_lacks(consensus: Report, clean: Report) -> None:
    assert changed(consensus)
    assert not changed(clean)
    assert not changed(replace(clean, tip=clean.task.head_sha))
    assert changed(replace(clean, tip="f" * 40))
    assert commits(consensus) == [
        "5d4463e4d4f1501e8d93e1be5f4ac721224aab11",
        "6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a",
    ]


def test_a_change_without_a_commit_counts(clean: Report) -> None:
    only = replace(clean.record.rounds[0], edited=Edited(("a.py",), "1" * 40, gap="too large"))
    assert changed(replace(clean, record=Record((only,))))


def test_the_present_round(consensus: Report, stopped: Report) -> None:
    assert present_round(consensus) == 3
    assert present_round(replace(consensus, status=None, record=Record())) == 1
    assert present_round(replace(consensus, status=None, record=Record(consensus.record.rounds[:2]))) == 3
    assert present_round(stopped) == 2
    assert join_rounds([4, 2]) == "rounds 2 and 4"


def test_a_single_fix_is_told_in_the_singular(stopped: Report) -> None:
    first = stopped.record.rounds[0]
    assert first.verdict is not None
    assert first.section is not None
    one = replace(first.section, positions=first.section.positions[:1])
    said = first.verdict.model_copy(update={"findings": first.verdict.findings[:1]})
    done = said.findings[0].model_copy(update={"status": "resolved"})
    last = replace(first, number=2, section=None, edited=None, verdict=said.model_copy(update={"findings": (done,)}))
    record = Record((replace(first, verdict=said, section=one), last))
    report = replace(stopped, record=record, status=Status.CONSENSUS, failed_seat="", attempts=0, reason="")
    assert badge_line(report) == (
        "✅ **Consensus** on db511f0cf3 after 2 rounds: 1 finding fixed. **The fix is not on `retry-renewals` yet.**"
    )


def test_a_reason_of_its_own_stands_in_the_badge(stopped: Report) -> None:
    moved = replace(stopped, status=Status.SUPERSEDED, reason="the rules changed with an update of this server")
    assert badge_line(moved) == "⚠️ **Ended** in round 2: the rules changed with an update of this server. No agreement."
    unsafe = replace(stopped, status=Status.GIT_REFUSED, reason="@user <b>")
    assert badge_line(unsafe) == "⚠️ **Stopped** in round 2: @\u200buser `<b>`. No agreement."
