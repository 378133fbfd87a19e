"""What a commit of the debate says, and what no agent can make it say."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.outputs import hostile
from tests.worker.outputs.hostile import CORPUS, always, has_secret
from tests.worker.outputs.judge import calls, hidden
from worker.debate.findings import Position, Section, Word
from worker.debate.flow import Check, CommitPlan
from worker.outputs.commit_message import CommitFacts, commit_message
from worker.outputs.report import Report

EXPECTED = """\
fix: debate round 1 (F1, F5)

Made by the author seat of a debate and not yet reviewed in this round;
later commits of the same run tell how it ended.

F1 blocking, src/tidebook/renewals/retry.py:118: fixed
> codex: attempt() makes a new idempotency key on every call. When the
> bank accepts a charge and the answer times out, the next attempt is a
> second charge.
> claude: the key is now renewal:<id>:<period>, written with the claim
> at retry.py:92. A new test lets the first call time out after the bank
> accepted it, and sees one charge.

F5 minor, src/tidebook/renewals/retry.py:140: partial
> codex: the back-off doubles from 1 s and ignores Retry-After.
> claude: Retry-After is read on 429. On 503 the bank's documentation
> does not mention it.

Without a change in this round: F2 disputed, F3 disputed, F4 disputed
(gate).

Checks: ruff check . passed; pytest -q tests/renewals passed.

Debate-Run: 7h2kq9xw
Debate-Round: 1
Debate-Finding: F1 fixed
Debate-Finding: F2 disputed
Debate-Finding: F3 disputed
Debate-Finding: F4 disputed (gate)
Debate-Finding: F5 partial
Reviewed-with: codex (gpt-6.1-sol, effort xhigh)
Authored-with: claude (claude-sonnet-5)
"""


@pytest.fixture
def facts(consensus: Report) -> CommitFacts:
    first = consensus.record.rounds[0]
    assert first.verdict is not None
    assert first.section is not None
    assert first.edited is not None
    plan = CommitPlan(
        subject="fix: debate round 1 ({ids})",
        findings=tuple(
            {"id": each.id, "severity": each.severity, "location": each.location, "issue": each.issue}
            for each in first.verdict.findings
        ),
        reviewed_with="codex (gpt-6.1-sol, effort xhigh)",
        authored_with="claude (claude-sonnet-5)",
    )
    return CommitFacts("7h2kq9xw", 1, plan, first.section, first.edited.checks)


def test_the_message_of_a_round(facts: CommitFacts) -> None:
    assert commit_message(facts) == EXPECTED
    assert commit_message(facts) == commit_message(facts)


def test_the_order_of_bullets_does_not_matter(facts: CommitFacts) -> None:
    turned = replace(facts.section, positions=facts.section.positions[::-1])
    assert commit_message(replace(facts, section=turned)) == EXPECTED


def test_a_commit_that_only_keeps_objects(facts: CommitFacts) -> None:
    assert commit_message(replace(facts, plan=None)) == (
        "debate round 1\n\nKept with the run and not pushed: the debate was asked to commit nothing.\n\n"
        "Debate-Run: 7h2kq9xw\nDebate-Round: 1\n"
    )


def test_changes_without_a_fix_have_a_subject_all_the_same(facts: CommitFacts) -> None:
    section = replace(facts.section, positions=facts.section.positions[1:3], missing=("F1",))
    told = commit_message(replace(facts, section=section, checks=()))
    assert told.startswith("fix: debate round 1\n\nMade by")
    assert "\nWithout a change in this round: F2 disputed, F3 disputed, F1 unanswered.\n" in told
    assert "Checks:" not in told


@pytest.mark.parametrize(
    ("ids", "subject"),
    [
        ([f"F{number}" for number in range(1, 30)], "fix: debate round 1 (F1 to F29)"),
        ([f"F{number}" for number in range(1, 80, 2)], "fix: debate round 1 (40 findings)"),
    ],
)
def test_a_subject_stays_short(facts: CommitFacts, ids: list[str], subject: str) -> None:
    section = Section("", "", tuple(Position(each, Word.FIXED, "done.") for each in ids))
    assert commit_message(replace(facts, section=section)).split("\n")[0] == subject


def test_an_agents_argument_stays_at_home(facts: CommitFacts) -> None:
    assert facts.plan is not None
    plan = replace(facts.plan, reviewed_with="scripted:/srv/secret.json", authored_with="scripted:/srv/secret.json")
    told = commit_message(replace(facts, plan=plan))
    assert "/srv" not in told
    assert "> scripted: attempt() makes" in told
    assert told.endswith("Reviewed-with: scripted\nAuthored-with: scripted\n")


STEERS = re.compile(
    r"\[ ?(?:skip[ _-]?(?:ci|actions|netlify)|(?:ci|actions)[ _-]?skip|no[ _-]?(?:ci|actions)) ?\]|\*\*\*NO_CI\*\*\*"
    r"|\b(?:skip|request)-checks ?:|\b[a-z]+-by ?:|on-behalf-of ?:",
    re.IGNORECASE,
)
"""What keeps CI from running, signs, or shares the authorship (docs.github.com, "Skipping workflow runs", and others).
"""
KEYS = ["Debate-Run", "Debate-Round", *["Debate-Finding"] * 4, "Reviewed-with", "Authored-with"]


def trailers_of(message: str) -> list[str]:
    """What git itself takes for trailers."""
    command = ["git", "interpret-trailers", "--parse"]
    done = subprocess.run(command, input=message.encode(), capture_output=True, check=True)
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat("T27", 141, 153)
def test_commit_message_corpus(number: int) -> None:
    """Every string in every place: git sees our trailers alone, and nobody is called, nothing closed, no CI skipped."""
    for text in CORPUS[number]:
        told = commit_message(hostile.facts(always(text)))
        trailers = trailers_of(told)
        assert [each.partition(": ")[0] for each in trailers] == KEYS, text
        assert trailers[:3] == ["Debate-Run: 7h2kq9xw", "Debate-Round: 1", "Debate-Finding: F1 fixed"], text
        assert told.startswith("fix: debate round 1 (F1, F4)\n\n"), text
        assert not calls(told), text
        assert not hidden(told), text
        assert not STEERS.search(" ".join(told.split())), text
        assert not re.search(r"^(?:#|---)", told, re.MULTILINE), text
        assert not has_secret(told, text), text


@pytest.mark.threat("T27", 154)
def test_a_path_and_a_command_stand_as_they_are(facts: CommitFacts) -> None:
    """As Markdown they would lose what looks like markup."""
    assert facts.plan is not None
    findings = tuple(each | {"location": "src/__init__.py:3"} for each in facts.plan.findings)
    told = commit_message(
        replace(facts, plan=replace(facts.plan, findings=findings), checks=(Check("test *a* `b`", "passed"),))
    )
    assert "F1 blocking, src/__init__.py:3: fixed" in told
    assert "\nChecks: test *a* `b` passed.\n" in told


@pytest.mark.threat(153)
def test_a_text_of_100_kb_is_cut(facts: CommitFacts) -> None:
    positions = tuple(replace(each, text="word " * 20_000) for each in facts.section.positions)
    assert len(commit_message(replace(facts, section=replace(facts.section, positions=positions)))) < 10_000


@given(st.text(max_size=300))
@pytest.mark.threat("T27", 153)
def test_whatever_an_agent_says_stands_behind_a_mark_and_above_the_trailers(text: str) -> None:
    plan = CommitPlan("fix: x ({ids})", ({"id": "F1", "severity": "nit", "location": text, "issue": text},), "a", "b")
    section = Section(text, text, (Position("F1", Word.FIXED, text),))
    told = commit_message(CommitFacts("run", 1, plan, section))
    *_, quoted, trailers = told.split("\n\n")
    assert (
        trailers == "Debate-Run: run\nDebate-Round: 1\nDebate-Finding: F1 fixed\nReviewed-with: a\nAuthored-with: b\n"
    )
    assert all(line.startswith("> ") or line.rstrip() == ">" for line in quoted.split("\n")[1:])
    assert told.encode()
