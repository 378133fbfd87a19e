"""The parts of briefs."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.debate.brief import fill, heading, ledger_block, quoted, sources, template
from worker.debate.findings import Finding, Record, Round, Verdict
from worker.debate.review import PROMPTS


def test_what_a_slot_brings_is_never_read_for_slots() -> None:
    assert fill("{{a}} {{b}}", a="{{b}}", b="{{a}}") == "{{b}} {{a}}"


def test_a_line_with_nothing_but_an_empty_slot_goes_away() -> None:
    assert fill("one\n\n{{a}}\n\ntwo {{a}}", a="") == "one\n\ntwo "


def test_a_slot_that_nobody_fills_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("{{missing}}")


def test_a_heading_needs_text() -> None:
    assert heading("Title", "") == ""
    assert heading("Title", "text") == "## Title\n\ntext"


@given(st.text(), st.integers(10, 200))
def test_quoted_text_stays_in_its_block_and_its_budget(text: str, budget: int) -> None:
    first, *lines, last = quoted(text, budget=budget).split("\n")
    fence = first.removesuffix("text")
    assert set(fence) == {"`"}
    assert last == fence
    assert not any(line.strip().startswith(fence) for line in lines)
    assert len("\n".join(lines).encode()) <= budget + 40


@given(st.text(), st.text())
def test_the_ledger_reads_back_whatever_agents_wrote(title: str, issue: str) -> None:
    finding = Finding(
        id="F1", title=title, severity="nit", location="a:1", issue=issue, suggestion="```", status="open"
    )
    verdict = Verdict(approved=False, summary="", findings=(finding,), response_to_rebuttal="")
    block = ledger_block(Record((Round(1, verdict=verdict),)), "F2")
    found = re.fullmatch(r"```json ledger\n(.*)\n```", block, re.DOTALL)
    assert found
    assert "```" not in found[1]
    read = json.loads(found[1])
    assert read["next_id"] == "F2"
    assert (read["findings"][0]["title"], read["findings"][0]["issue"]) == (title, issue)


def test_a_fingerprint_is_made_from_code_and_prompts() -> None:
    parts = sources("review", prompts=PROMPTS)
    assert template("crux").encode() in parts
    assert any(b"def review(task: Task)" in part for part in parts)
    assert any(b"def step_hash" in part for part in parts)
