"""What a commit of the debate says: the findings of its round, what became of each, and who took part.

Everything that an agent wrote stands behind ``>``, as plain text: it mentions nobody, closes nothing, steers no CI and
forges no trailer (threats.md, inputs 141 and 153). Pure: the same round gives the same bytes, and so the same commit.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from worker.debate.findings import Position, Section, Word
from worker.debate.flow import Check, CommitPlan
from worker.outputs.markdown import BREAKER, literal, plain
from worker.outputs.terms import join_ids, natural, shown_id

WIDTH = 72
"""Columns of a commit's body (git-commit(1), "Discussion", and the habit of its readers)."""
QUOTE = 2_000
"""Bytes of one quoted text."""
QUOTED = 40
"""Findings that are quoted in full; the others stand in the trailers alone."""
NOTE = """\
Made by the author seat of a debate and not yet reviewed in this round;
later commits of the same run tell how it ended."""
KEPT = "Kept with the run and not pushed: the debate was asked to commit nothing."


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What a commit message is made from."""

    run: str
    round: int
    plan: CommitPlan | None
    """None where the commit only keeps a round's objects (`--no-commit`)."""
    section: Section
    checks: tuple[Check, ...] = ()


def commit_message(facts: CommitFacts) -> str:
    """Return the whole message of a round's commit, ending in a newline."""
    if facts.plan is None:
        return f"debate round {facts.round}\n\n{KEPT}\n\nDebate-Run: {facts.run}\nDebate-Round: {facts.round}\n"
    positions = sorted(facts.section.positions, key=lambda position: natural(position.id))
    edits = [position for position in positions if position.word in {Word.FIXED, Word.PARTIAL}]
    paragraphs = [
        _subject(facts.plan.subject, [position.id for position in edits]),
        NOTE,
        *(_quoted(position, facts.plan) for position in edits[:QUOTED]),
        _unchanged(positions, facts.section.missing),
        _checks(facts.checks),
        _trailers(facts, facts.plan, positions),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _subject(template: str, ids: Sequence[str]) -> str:
    """Return the subject with the ids that were fixed: all of them, as ranges, or their number, as they fit."""
    if not ids:
        return template.replace(" ({ids})", "").replace("{ids}", "").strip()
    for shown in (", ".join(map(shown_id, ids)), join_ids(ids)):
        subject = template.replace("{ids}", shown)
        if len(subject) <= WIDTH:
            return subject
    return template.replace("{ids}", f"{len(ids)} findings")


def _quoted(position: Position, plan: CommitPlan) -> str:
    raised = next((finding for finding in plan.findings if finding.get("id") == position.id), {})
    place = f", {literal(raised['location'])}" if raised.get("location") else ""
    lines = [f"{shown_id(position.id)} {raised.get('severity', 'finding')}{place}: {position.word.value}"]
    if raised.get("issue"):
        lines += _said(plan.reviewed_with, raised["issue"])
    if position.text:
        lines += _said(plan.authored_with, position.text)
    return "\n".join(lines)


def _said(who: str, text: str) -> list[str]:
    name = _seat(who).partition(" ")[0]
    first, *rest = plain(text, budget=QUOTE, lines=True).split("\n")
    return [line for said in (f"{name}: {first}", *rest) for line in _wrapped(said, "> ")]


def _seat(text: str) -> str:
    """Return a seat's agent with its model, without the agent's own argument, which may be a path of this machine."""
    return re.sub(r"^([\w-]+):\S+", r"\1", literal(text))


def _wrapped(text: str, prefix: str = "") -> list[str]:
    """Return a text as lines, none of which git takes for a comment or for the end of the message."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [BREAKER + line if line.startswith(("#", "---")) else line for line in lines]


def _unchanged(positions: Sequence[Position], missing: Sequence[str]) -> str:
    kept = [f"{shown_id(each.id)} {each.word.value}" for each in positions if each.word in {Word.DISPUTED, Word.GATE}]
    kept += [f"{shown_id(each)} unanswered" for each in missing]
    return "\n".join(_wrapped(f"Without a change in this round: {', '.join(kept)}.")) if kept else ""


def _checks(checks: Sequence[Check]) -> str:
    said = "; ".join(f"{literal(check.command)} {check.result}" for check in checks)
    return "\n".join(_wrapped(f"Checks: {said}.")) if said else ""


def _trailers(facts: CommitFacts, plan: CommitPlan, positions: Sequence[Position]) -> str:
    lines = [f"Debate-Run: {facts.run}", f"Debate-Round: {facts.round}"]
    lines += [f"Debate-Finding: {shown_id(position.id)} {position.word.value}" for position in positions]
    lines += [f"Reviewed-with: {_seat(plan.reviewed_with)}", f"Authored-with: {_seat(plan.authored_with)}"]
    return "\n".join(lines)
