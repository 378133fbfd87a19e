"""What a person can do now: how to take the fixes, what to decide, what to repair. Shared by comment and check run.

Every line begins with its bold word and names commands that this version has. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.statuses import Status
from worker.debate.findings import Crux, LedgerEntry, Position, Round, State
from worker.outputs import patch
from worker.outputs.markdown import code, inline, plain
from worker.outputs.parts import Page
from worker.outputs.report import Report
from worker.outputs.story import AUTHOR, REVIEWER, agent
from worker.outputs.terms import in_words, join_ids, lower_first, sentence, short, shown_id, stopped
from worker.outputs.words import again, changed, commits, counts, entries, join_rounds, open_ids, unjudged

BROKEN = frozenset({Status.REVIEWER_ERROR, Status.AGENT_ERROR, Status.ISOLATION_UNAVAILABLE})
"""Statuses whose cause lies with the server or a provider."""
KEPT = BROKEN | {Status.STOPPED, Status.AUTHORISATION_WITHDRAWN, Status.STATE_LOST, Status.TIMED_OUT}
"""Statuses after which a commit that nobody reviewed may stand on the run's branch."""


AS_COMMITS = "Write the command again without `--no-commit`, and the fixes come as commits on a branch."
FROM_A_FORK = "Open a pull request from a branch of this repository, and the fixes come as commits on a branch."
"""How the fixes can be had where their patch cannot be shown."""


def action(page: Page) -> list[str]:
    """Return the paragraphs that say what to do, in the comment."""
    report = page.report
    match report.status:
        case Status.CONSENSUS:
            return [*to_take(page), *_outside(report)]
        case Status.COMMIT_INCOMPLETE:
            return [*gaps(report), *to_take(page), f"**To go on:** write {again()}.", *_outside(report)]
        case Status.SECTION_INCOMPLETE:
            return [*to_take(page), *_outside(report)]
        case Status.UNRESOLVED:
            return to_go_on(page)
        case None:
            return []
        case _:
            return after_failure(page)


# ---- Taking the fixes -----------------------------------------------------------------------------------------------


def to_take(page: Page) -> list[str]:
    """Return how the fixes come onto the branch; nothing where there are none."""
    report = page.report
    if not changed(report):
        return []
    them = "it" if counts(report).fixed == 1 and len(commits(report)) < 2 else "them"
    if report.pushed and commits(report) and report.tip:
        return [f"**To take {them}:** fetch {holding(page)}.", commands(report, "FETCH_HEAD")]
    if report.patch is None:
        return []
    why = patch.why_not(report.patch)
    if why:
        repair = FROM_A_FORK if report.task.fork else AS_COMMITS
        return [f"**To take {them}:** the patch is not shown here: {why}. {repair}"]
    here = patch.place(report) == "comment" or not report.task.comment
    place = "the patch below" if here else f"the patch in the [check run]({report.check_url})"
    if report.task.fork:
        return [f"**To take {them}:** the contributor copies {place}, runs `git apply`, pastes it, and presses Ctrl-D."]
    return [f"**To take {them}:** copy {place}, run `git apply`, paste it, and press Ctrl-D."]


def holding(page: Page) -> str:
    """Return what is to be fetched and what it holds."""
    number = len(commits(page.report))
    these = "this" if number == 1 else "these"
    link = page.compare(page.report.tip or "", number)
    return f"{code(source(page.report))}, which holds exactly {these} {link}"


def commands(report: Report, what: str) -> str:
    """Return the two commands that bring a person's branch forward."""
    return f"```\ngit fetch origin {source(report)}\n{merge(report)} {what}\n```"


def source(report: Report) -> str:
    """Return what a person fetches: the run's branch, or the commit itself where somebody else has moved the branch."""
    moved = any(each.edited is not None and each.edited.moved for each in report.record.rounds)
    return report.tip if moved and report.tip else report.task.branch


def merge(report: Report) -> str:
    """Return the command that brings the tip into the branch: forward alone, where that can be."""
    return "git merge" if report.merged else "git merge --ff-only"


def holding_command(page: Page) -> str:
    """Return the sentence with the two commands that add the run's commits to the branch."""
    report, number = page.report, len(commits(page.report))
    how = f"`git fetch origin {source(report)}` and `{merge(report)} FETCH_HEAD`"
    these = "this" if number == 1 else "these"
    return f"{how} add exactly {these} {page.compare(report.tip or '', number)} to {code(report.task.head_ref)}."


def _outside(report: Report) -> list[str]:
    line = outside(report)
    return [line] if line else []


def outside(report: Report) -> str:
    """Return the findings that are a step outside the pull request, in one line; empty where there are none."""
    found = [entry for entry in entries(report) if entry.state is State.DEFERRED]
    if not found:
        return ""
    told = [f"{shown_id(entry.id)}, {lower_first(inline(entry.title, cell=False))}" for entry in found]
    return stopped(f"**Outside this pull request:** {'; '.join(told)}")


def gaps(report: Report) -> list[str]:
    """Return why rounds could not be committed."""
    reasons = {each.number: each.edited.gap for each in report.record.rounds if each.edited and each.edited.gap}
    told = [
        stopped(f"**Not committed:** {join_rounds([number])}, {lower_first(inline(why or '', cell=False))}")
        for number, why in sorted(reasons.items())
    ]
    return ["\n".join(told)] if told else []


# ---- Deciding -------------------------------------------------------------------------------------------------------


CEILINGS = {
    "money": "`CODEX_DEBATE_RUN_BUDGET_USD`, the money of one debate",
    "day": "`CODEX_DEBATE_DAY_BUDGET_USD`, the money of one day (UTC)",
}
"""The operator's settings behind ceilings of money."""


def to_go_on(page: Page) -> list[str]:
    """Return what a person does after a debate without agreement: take what is agreed, then decide the rest."""
    ceiling = CEILINGS.get(page.report.reason)
    higher = [f"**For a longer debate:** the operator of this server raises {ceiling}."] if ceiling else []
    return [*_deciding(page), *higher]


def _deciding(page: Page) -> list[str]:
    report = page.report
    still, cruxes = open_ids(report), {each.id: each for each in report.record.cruxes}
    asked = [cruxes[each] for each in still if each in cruxes]
    take = _agreed_part(page)
    if not still:
        return [f"**To go on:** write {again()}."] if not take else [f"**To go on:** {take}"]
    ask = _question(still, asked)
    answer = f'```\n/codex-debate --rationale "{_answer(still, cruxes)}"\n```'
    if not take:
        return [f"**To go on:** {ask}:", answer]
    inner = answer.replace("\n", "\n   ")
    return ["**To go on:**", f"1. {take}\n2. Then {ask}:\n\n   {inner}"]


def _question(still: Sequence[str], asked: Sequence[Crux]) -> str:
    if not asked:
        return f"decide {join_ids(still)}, and a new debate starts from your decision"
    answers = "answers" if len(asked) > 1 else "answer"
    questions = f"{in_words(len(asked))} questions" if len(asked) > 1 else "question"
    each = " each" if len(asked) > 1 else ""
    return f"answer the {questions} below in a word{each}, and a new debate starts from your {answers}"


def _answer(still: Sequence[str], cruxes: dict[str, Crux]) -> str:
    """Return an answer to fill in: the words that a question offers, in turn, else a place to write in."""
    told = []
    for number, each in enumerate(still):
        question = plain(cruxes[each].question).lower() if each in cruxes else ""
        offered = ("no", "yes")[number % 2] if "yes or no" in question else "…"
        told.append(f"{each} {offered}")
    return ", ".join(told)


def _agreed_part(page: Page) -> str:
    """Return how to take the commits before the first that holds something that is not agreed (decisions.md 5.5)."""
    report = page.report
    if not report.pushed:
        return ""
    settled = {entry.id for entry in entries(report) if entry.state is State.FIXED}
    taken: list[Round] = []
    for each in report.record.rounds:
        if each.edited is None or each.edited.commit is None:
            continue
        fixed = _fixed_in(each)
        if not fixed or not fixed <= settled:
            break
        taken.append(each)
    if not taken or taken[-1].edited is None or taken[-1].edited.commit is None:
        return ""
    tip = taken[-1].edited.commit
    ids = {each for done in taken for each in _fixed_in(done)}
    fixes = "fix" if len(ids) == 1 else "fixes"
    fetch = f"`git fetch origin {source(report)}`, then `{merge(report)} {short(tip)}`"
    return f"Take the {fixes} of {join_ids(ids)} ({page.compare(tip, len(taken))}): {fetch}."


def _fixed_in(each: Round) -> set[str]:
    if each.section is None:
        return set()
    return {position.id for position in each.section.positions if position.word in {"fixed", "partial"}}


def open_findings(page: Page) -> list[str]:
    """Return each open finding with its lines, both positions and, where the reviewer said it, what it turns on."""
    report = page.report
    cruxes = {each.id: each for each in report.record.cruxes}
    parts: list[str] = []
    for entry in entries(report):
        if entry.state is State.OPEN:
            parts.append(f"### {shown_id(entry.id)} · {inline(entry.title, cell=False)}")
            parts += _lines(entry, page)
            parts.append("\n".join(_positions(entry, cruxes.get(entry.id), page)))
    return parts


def _lines(entry: LedgerEntry, page: Page) -> list[str]:
    """Return the bare permalink of a place, which GitHub shows as the lines themselves."""
    url = page.head.of(entry.location)
    return [url] if url else []


def _positions(entry: LedgerEntry, crux: Crux | None, page: Page) -> list[str]:
    report, links = page.report, page.head
    lines = [page.item(links, f"**{agent(report, REVIEWER)}** ({entry.severity}): ", entry.issue)]
    last = _stand(entry, report)
    if last is not None:
        lines.append(page.item(links, f"**{agent(report, AUTHOR)}**: ", last.text))
    if crux is not None:
        told = (("Crux:", crux.crux), ("Would settle it:", crux.fact), ("Question:", crux.question))
        lines += [page.item(links, f"**{word}** ", text) for word, text in told if text.strip()]
    return lines


def _stand(entry: LedgerEntry, report: Report) -> Position | None:
    """Return where the author took the stand that it holds now: later rounds only repeat it."""
    said = [
        position
        for each in report.record.rounds
        if each.section is not None
        for position in each.section.positions
        if position.id == entry.id and position.text.strip()
    ]
    return next((position for position in said if position.word is said[-1].word), None)


# ---- Repairing ------------------------------------------------------------------------------------------------------


def after_failure(page: Page) -> list[str]:
    """Return what caused a failure, how to repair it, and what must not be taken yet."""
    report = page.report
    parts: list[str] = []
    if report.status in BROKEN and report.reason:
        cause = sentence(inline(report.reason, cell=False))
        parts.append(f"**The cause is not in this pull request.** {cause}")
    lines = []
    if report.hint:
        then = "" if "write" in report.hint else f" Then write {again()}."
        lines.append(f"**To go on:** {stopped(inline(report.hint, cell=False))}{then}")
    elif report.status in BROKEN:
        lines.append(f"**To go on:** write {again()}.")
    kept = _unreviewed(page)
    if kept and report.status in KEPT:
        lines.append(kept)
    return [*parts, *(["\n".join(lines)] if lines else [])]


def _unreviewed(page: Page) -> str:
    """Return the warning about a commit that the reviewer has not seen; empty where there is none."""
    report = page.report
    judged = max((each.number for each in report.record.rounds if each.verdict is not None), default=0)
    done = [each for each in report.record.rounds if each.edited and each.edited.commit and each.number >= judged]
    if not done or not report.pushed or not any(unjudged(entry, report) for entry in entries(report)):
        return ""
    last = done[-1]
    sha = page.commit(last.edited.commit or "") if last.edited else ""
    seen = f"{agent(report, REVIEWER)} has not looked at it"
    return f"**Do not push yet:** round {last.number}'s commit {sha} is kept, but {seen}."
