"""The ledger: where each finding stands after any number of rounds."""

from __future__ import annotations

from worker.debate.findings import (
    Finding,
    LedgerEntry,
    Position,
    Record,
    Round,
    Section,
    State,
    Verdict,
    Word,
    gate_claimed,
    ledger,
    next_id,
    open_entries,
)
from worker.debate.flow import Edited


def verdict(**statuses: str) -> Verdict:
    findings = tuple(
        Finding(
            id=each,
            title=each,
            severity="major",
            location="a.py:1",
            issue="i",
            suggestion="",
            status=status,  # type: ignore[arg-type]
        )
        for each, status in statuses.items()
    )
    return Verdict(approved=False, summary="", findings=findings, response_to_rebuttal="")


def rounds(*halves: tuple[Verdict, dict[str, Word]]) -> Record:
    made = []
    for number, (said, words) in enumerate(halves, start=1):
        positions = tuple(Position(each, word, "") for each, word in words.items())
        changed = any(word in {Word.FIXED, Word.PARTIAL} for word in words.values())
        made.append(
            Round(
                number,
                verdict=said,
                section=Section("s", "", positions) if words else None,
                edited=Edited(("a.py",), f"t{number}", commit=f"c{number}") if changed else None,
            )
        )
    return Record(tuple(made))


def only(record: Record) -> LedgerEntry:
    (entry,) = ledger(record)
    return entry


def test_a_fix_that_was_verified() -> None:
    entry = only(rounds((verdict(F1="open"), {"F1": Word.FIXED}), (verdict(F1="resolved"), {})))
    assert (entry.state, entry.raised, entry.settled, entry.commits) == (State.FIXED, 1, 2, ((1, "c1"),))


def test_a_dispute_that_was_conceded() -> None:
    entry = only(rounds((verdict(F1="open"), {"F1": Word.DISPUTED}), (verdict(F1="resolved"), {})))
    assert (entry.state, entry.commits) == (State.CONCEDED, ())


def test_a_claimed_gate_is_deferred_whether_the_reviewer_says_so_or_resolved() -> None:
    """Acceptance case 18."""
    for status in ("deferred", "resolved"):
        entry = only(rounds((verdict(F1="open"), {"F1": Word.GATE}), (verdict(F1=status), {})))
        assert entry.state is State.DEFERRED
        assert gate_claimed(entry)


def test_a_deferral_that_was_kept_open_stays_open() -> None:
    entry = only(rounds((verdict(F1="deferred"), {})))
    assert entry.state is State.OPEN


def test_a_finding_that_comes_back_is_reopened() -> None:
    """Acceptance case 21."""
    record = rounds(
        (verdict(F1="open"), {"F1": Word.FIXED}),
        (verdict(F1="resolved", F2="open"), {"F2": Word.DISPUTED}),
        (verdict(F1="open", F2="resolved"), {"F1": Word.PARTIAL}),
    )
    first, second = ledger(record)
    assert (first.state, first.reopened, first.settled) == (State.OPEN, (3,), None)
    assert first.words == ((1, Word.FIXED), (3, Word.PARTIAL))
    assert second.raised == 2
    assert [entry.id for entry in open_entries(record)] == ["F1"]


def test_ids_are_in_the_order_of_their_numbers_and_go_on() -> None:
    record = rounds((verdict(F10="open", F2="open", zeta="open"), {}))
    assert [entry.id for entry in ledger(record)] == ["F2", "F10", "zeta"]
    assert next_id(record, 1) == "F11"
    assert next_id(record, 40) == "F40"
    assert next_id(Record(), 1) == "F1"


def test_an_id_far_above_the_others_takes_no_numbers_away() -> None:
    record = Record((Round(1, verdict=verdict(F2="open", F7="open", F999999999="open", F2000="open")),))
    assert next_id(record, 1) == "F8"
    assert next_id(record, 1_100) == "F2001"
