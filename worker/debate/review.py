"""The review debate: a reviewer raises findings, an author fixes or disputes them, until nothing is open.

It reads like its description in the prompts beside it: verdict, answer, verdict, answer. It decides when the debate
ends and how; what a turn costs, where a commit goes and what is published are not its business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bot.redact import quotable, visible
from bot.statuses import Status
from worker.debate.brief import (
    LINE,
    NAMED,
    SECTION_BUDGET,
    TEXT_BUDGET,
    coverage,
    coverage_now,
    fill,
    guidance,
    heading,
    ledger_block,
    quoted,
    standings,
    template,
)
from worker.debate.codecs import CruxCodec, DispositionCodec, VerdictCodec
from worker.debate.findings import (
    Crux,
    Outcome,
    Record,
    Round,
    Standing,
    Turn,
    Verdict,
    gate_claimed,
    ledger,
    next_id,
    open_entries,
)
from worker.debate.flow import CEILINGS, Ask, CommitPlan, Edit, Edited, Flow, TurnFailed, ask, edit, note
from worker.debate.shown import as_shown
from worker.debate.task import Seat, Task

REVIEWER, AUTHOR = "reviewer", "author"
SAME_STATE_ROUNDS = 3
"""Rounds that must be alike before the debate ends as unresolved (decisions.md 8.1)."""

PROMPTS = ("review_first", "review_next", "author_first", "author_next", "crux")
REVIEW_FIRST, REVIEW_NEXT, AUTHOR_FIRST, AUTHOR_NEXT, CRUX = (template(name) for name in PROMPTS)


def review(task: Task) -> Flow[Outcome]:
    """Debate a change until the reviewer approves with nothing open, or a backstop or a dead seat ends it."""
    record = Record()
    while True:
        number = len(record.rounds) + 1
        if stop := _spent(record, task):
            return _unresolved(record, stop)
        yield from note(Standing(record, number, REVIEWER))
        try:
            record = yield from _review_turn(task, record, number)
        except TurnFailed as failure:
            return _failed(record, failure, REVIEWER, number)
        if not open_entries(record):
            return _agreed(record)
        if stop := ("rounds" if number >= task.limits.rounds else _spent(record, task)):
            return (yield from _ask_cruxes(record, number, stop))
        yield from note(Standing(record, number, AUTHOR))
        try:
            record = yield from _author_turn(task, record, number)
        except TurnFailed as failure:
            return _failed(record, failure, AUTHOR, number)
        yield from note(Standing(record, number, round_ended=True))
        if _same_state(record, task.head_tree):
            return (yield from _ask_cruxes(record, number, "same state"))


# ---- Turns ----------------------------------------------------------------------------------------------------------


def _review_turn(task: Task, record: Record, number: int) -> Flow[Record]:
    """One verdict, added to the record as the first half of a round."""
    entries = ledger(record)
    codec = VerdictCodec(
        open=tuple(entry.id for entry in open_entries(record)),
        known=tuple(entry.id for entry in entries),
        gated=tuple(entry.id for entry in entries if gate_claimed(entry)),
    )
    first = number == 1
    brief = _review_first(task, record) if first else _review_next(task, record)
    cold = None if first else f"{_review_first(task, record, cold=True)}\n---\n\n{brief}"
    verdict, reply = yield from ask(Ask(REVIEWER, number, brief, codec, cold))
    done = Round(number, verdict=verdict, review=Turn.of(reply))
    return replace(record, rounds=(*record.rounds, done))


def _author_turn(task: Task, record: Record, number: int) -> Flow[Record]:
    """One editing turn, added to the record as the second half of its round."""
    first = not any(each.section for each in record.rounds)
    brief = _author_first(task, record) if first else _author_next(task, record)
    cold = None if first else f"{_author_first(task, record, cold=True)}\n---\n\n{brief}"
    codec = DispositionCodec(tuple(entry.id for entry in open_entries(record)))
    plan = _commit_plan(task, record, number) if task.commit else None
    section, reply = yield from edit(Edit(AUTHOR, number, brief, codec, plan, cold))
    edited = reply.edited or Edited((), task.head_tree)
    done = replace(record.rounds[-1], section=section, edited=edited, author=Turn.of(reply))
    return replace(record, rounds=(*record.rounds[:-1], done))


def _ask_cruxes(record: Record, number: int, stop: str) -> Flow[Outcome]:
    """The last turn at a backstop: what each open finding turns on. Without a valid reply those lines are left out."""
    if stop in {"time", "money"}:
        return _unresolved(record, stop)
    codec = CruxCodec(tuple(entry.id for entry in open_entries(record)))
    brief = fill(CRUX, ledger=ledger_block(record, next_id(record, 1)))
    cruxes: tuple[Crux, ...] = ()
    try:
        cruxes, reply = yield from ask(Ask(REVIEWER, number, brief, codec, cold=brief))
        closing = Turn.of(reply)
    except TurnFailed as failure:
        closing = Turn.of(failure.facts)
    return _unresolved(replace(record, cruxes=cruxes, closing=closing), stop)


# ---- Ends -----------------------------------------------------------------------------------------------------------


def _agreed(record: Record) -> Outcome:
    """Nothing is open and the reviewer approves: consensus, unless the record of it has a gap."""
    if record.commit_gaps:
        return Outcome(Status.COMMIT_INCOMPLETE, record)
    if record.section_gaps:
        return Outcome(Status.SECTION_INCOMPLETE, record)
    return Outcome(Status.CONSENSUS, record)


def _unresolved(record: Record, stop: str) -> Outcome:
    return Outcome(Status.UNRESOLVED, record, reason=stop)


def _failed(record: Record, failure: TurnFailed, seat: str, number: int) -> Outcome:
    """A seat gave no reply: never an opinion, never agreement. A ceiling that was reached is no fault of the seat."""
    facts = failure.facts
    lost = Turn.of(facts)
    if seat == REVIEWER:
        record = replace(record, rounds=(*record.rounds, Round(number, review=lost)))
    else:
        record = replace(record, rounds=(*record.rounds[:-1], replace(record.rounds[-1], author=lost)))
    if facts.kind in CEILINGS:
        return _unresolved(record, facts.kind)
    return Outcome(
        Status.REVIEWER_ERROR if seat == REVIEWER else Status.AGENT_ERROR,
        record,
        reason=facts.sentence,
        hint=facts.hint,
        failed_seat=seat,
        attempts=facts.attempts,
        log=facts.log,
    )


def _spent(record: Record, task: Task) -> str:
    """Return which ceiling of the run is reached: ``time``, ``money`` or neither."""
    if sum(turn.seconds for turn in record.turns) >= task.limits.run_seconds:
        return "time"
    return "money" if sum(turn.used.usd for turn in record.turns) >= task.limits.usd else ""


@dataclass(frozen=True, slots=True)
class _State:
    """What two rounds must share to be the same: the tree, what is open, and where both sides stand."""

    tree: str
    open: tuple[tuple[str, str], ...]
    words: tuple[tuple[str, str], ...]


def _same_state(record: Record, head_tree: str) -> bool:
    """Return whether the last rounds only repeated themselves, without a place that was not cited before."""
    if len(record.rounds) < SAME_STATE_ROUNDS:
        return False
    last = record.rounds[-SAME_STATE_ROUNDS:]
    states = {_state(each, head_tree) for each in last}
    before = {place for each in record.rounds[: -SAME_STATE_ROUNDS + 1] for place in _places(each)}
    fresh = {place for each in last[1:] for place in _places(each)} - before
    return len(states) == 1 and not fresh


def _state(each: Round, head_tree: str) -> _State:
    findings = each.verdict.findings if each.verdict else ()
    positions = each.section.positions if each.section else ()
    return _State(
        each.edited.tree if each.edited else head_tree,
        tuple(sorted((finding.id, finding.status) for finding in findings if finding.status != "resolved")),
        tuple(sorted((position.id, position.word.value) for position in positions)),
    )


# From the begin of a word and in one go: a long word without a colon is looked at once.
_PLACE = re.compile(r"(?<![\w./+-])[\w./+-]++:\d+")


def _places(each: Round) -> set[str]:
    """Return the places (``path:line``) that a round cites."""
    words = [each.section.text] if each.section else []
    if each.verdict:
        words += [each.verdict.summary, each.verdict.response_to_rebuttal]
        words += [f"{finding.location} {finding.issue} {finding.suggestion}" for finding in each.verdict.findings]
    return {match[0] for text in words for match in _PLACE.finditer(text)}


_OF_THE_CHANGE = "What the reviewer says of the change:"
_FINDINGS = "All findings so far, with where each stands and what you last said of it:"

# ---- Briefs ---------------------------------------------------------------------------------------------------------


def _review_first(task: Task, record: Record, *, cold: bool = False) -> str:
    """The reviewer's first brief. `cold`: for a seat whose session is gone; the follow-up stands behind it."""
    free = next_id(record, task.next_finding)
    again = (
        "You have reviewed this change before, but your session is gone. What you raised stands in the ledger below, "
        "with the author's answers. Keep its ids. This is no fresh review: close out what is open."
    )
    return fill(
        REVIEW_FIRST,
        cold=again if cold else "",
        coverage=coverage(task),
        guidance=guidance(task),
        rationale=_rationale(task, "Do not raise these unless the reasoning itself is wrong; then say why."),
        ledger="" if cold else heading("The ledger", f"Nothing has been raised yet.\n\n{ledger_block(record, free)}"),
        next_id=free,
    )


def _review_next(task: Task, record: Record) -> str:
    """The reviewer's follow-up: the author's section as it was written, and the ledger."""
    last = record.rounds[-1]
    free = next_id(record, task.next_finding)
    usable = last.section if last.section and not last.section.missing else None
    missing = (
        "The author's message did not answer every finding, so it is not shown. Judge the tree as it stands, and keep "
        "open what is not fixed."
    )
    return fill(
        REVIEW_NEXT,
        host=_host_note(last),
        coverage=coverage_now(record),
        rebuttal=quoted(usable.text, budget=SECTION_BUDGET) if usable else missing,
        next_id=free,
        ledger=ledger_block(record, free),
    )


def _author_first(task: Task, record: Record, *, cold: bool = False) -> str:
    """The author's first brief. `cold`: for a seat whose session is gone; the follow-up stands behind it."""
    verdict = _verdict(record)
    free = next_id(record, task.next_finding)
    summary = quoted(verdict.summary, budget=SECTION_BUDGET)
    shown = f"{_OF_THE_CHANGE}\n\n{summary}\n\n{_FINDINGS}\n\n{ledger_block(record, free)}"
    return fill(
        AUTHOR_FIRST,
        words=quoted(as_shown(f"{task.title}\n\n{task.body}").strip(), budget=TEXT_BUDGET),
        coverage=coverage(task),
        guidance=guidance(task),
        protected=_protected(task),
        context=_context(task),
        rationale=_rationale(task, "The person who asked for this debate has decided these."),
        verdict="" if cold else heading("The verdict", shown),
        shape=_shape(record),
    )


def _author_next(task: Task, record: Record) -> str:
    """The author's follow-up: the record, what is settled, and the new verdict."""
    verdict = _verdict(record)
    free = next_id(record, task.next_finding)
    answer = verdict.response_to_rebuttal.strip()
    settled = standings(record)
    return fill(
        AUTHOR_NEXT,
        host=_host_note(record.rounds[-2]),
        context=_context(task),
        rationale=_rationale(task, "The person who asked for this debate has decided these."),
        record=quoted(_sections(record), budget=SECTION_BUDGET),
        settled=f"Settled:\n\n{settled}" if settled else "",
        summary=f"{_OF_THE_CHANGE}\n\n{quoted(verdict.summary, budget=SECTION_BUDGET)}",
        response=f"Its answer to you:\n\n{quoted(answer, budget=SECTION_BUDGET)}" if answer else "",
        ledger=f"{_FINDINGS}\n\n{ledger_block(record, free)}",
        shape=_shape(record),
    )


def _verdict(record: Record) -> Verdict:
    verdict = record.rounds[-1].verdict
    if verdict is None:
        raise ValueError("an author's turn follows a verdict")
    return verdict


def _rationale(task: Task, what: str) -> str:
    words = f"{what}\n\n{quoted(task.rationale, budget=TEXT_BUDGET)}" if task.rationale else ""
    return heading("Decided on purpose", words)


def _context(task: Task) -> str:
    return heading("What the change is for", quoted(task.context, budget=TEXT_BUDGET) if task.context else "")


def _protected(task: Task) -> str:
    """Return the repository's own protected paths, to stand behind those that are protected everywhere."""
    named = ", ".join(f"`{quotable(each, LINE)}`" for each in task.protect)
    return f", and {named}" if named else ""


def _shape(record: Record) -> str:
    """The form of the author's message, with the ids that are open."""
    return "\n".join(f"- `{entry.id}` **fixed**: …" for entry in open_entries(record))


def _sections(record: Record) -> str:
    """All sections so far, oldest first; where the budget does not hold them, the newest matter most."""
    told = [f"Round {each.number}\n\n{each.section.text.strip()}" for each in record.rounds if each.section]
    text = "\n\n".join(told)
    while len(told) > 1 and len(text.encode("utf-8", "replace")) > SECTION_BUDGET:
        told.pop(0)
        text = "\n\n".join(["[cut: the rounds before]", *told])
    return text


def _host_note(each: Round) -> str:
    """What the host has to say of a round: what was refused, and the project's own checks."""
    edited = each.edited
    if edited is None:
        return ""
    lines = []
    if edited.gap:
        lines.append(
            f"The edits of round {each.number} could not be kept, so they are not in the tree: {visible(edited.gap)}."
        )
    lines += [f"`{quotable(refusal.path, LINE)}` {refusal.reason}." for refusal in edited.refused[:NAMED]]
    if len(edited.refused) > NAMED:
        lines.append(f"So it is with {len(edited.refused) - NAMED} more files.")
    lines += [f"The project's check `{quotable(check.command, LINE)}`: {check.result}." for check in edited.checks]
    if not edited.changed and not edited.gap:
        lines.append(f"No file changed in round {each.number}.")
    return heading("From the host", "\n".join(lines)) if lines else ""


def _commit_plan(task: Task, record: Record, number: int) -> CommitPlan:
    """What the round's commit will say besides the author's words."""
    return CommitPlan(
        subject=f"fix: debate round {number} ({{ids}})",
        findings=tuple(
            {"id": entry.id, "severity": entry.severity, "location": entry.location, "issue": entry.issue}
            for entry in open_entries(record)
        ),
        reviewed_with=_seat(task.seats[REVIEWER]),
        authored_with=_seat(task.seats[AUTHOR]),
    )


def _seat(seat: Seat) -> str:
    """How a seat is named in a commit: the agent, its model and its effort."""
    known = [seat.model or "", f"effort {seat.effort}" if seat.effort else ""]
    detail = ", ".join(each for each in known if each)
    return f"{seat.agent} ({detail})" if detail else seat.agent
