"""The title of a check run: one line of plain text for each state that a run can be in. Pure."""

from __future__ import annotations

from bot import lost
from bot.statuses import Status
from worker.ended import RETARGETED
from worker.outputs import patch
from worker.outputs.markdown import literal, plain
from worker.outputs.report import Report
from worker.outputs.story import AUTHOR, REVIEWER, agent
from worker.outputs.terms import count, join_ids, join_words, lower_first, money
from worker.outputs.words import (
    changed,
    commits,
    counts,
    join_rounds,
    open_ids,
    present_round,
    tally,
    unanswered,
)

LONGEST = 120
"""Characters of a title. GitHub shows about as many in the list of checks."""
AGREED = frozenset({Status.CONSENSUS, Status.COMMIT_INCOMPLETE, Status.SECTION_INCOMPLETE})
NAME = 40
"""Characters of a file's name in a title: of a longer path the end is shown."""


def title(report: Report) -> str:
    """Return a report's title. One that speaks of agreement names the files that nobody read."""
    line = _title(report)
    more = _unread(report, LONGEST - len(line)) if report.status in AGREED else ""
    room = LONGEST - len(more)
    return (line if len(line) <= room else f"{line[: room - 1].rstrip()}…") + more


def _title(report: Report) -> str:
    base = literal(report.task.base_ref)
    reason = lower_first(plain(report.reason)).rstrip(".")
    match report.status:
        case None:
            return _under_way(report)
        case Status.CONSENSUS:
            return f"Consensus: {_fixes(report) if changed(report) else tally(report) or 'nothing to fix'}"
        case Status.UNRESOLVED:
            return f"Not agreed: {_open(report)}"
        case Status.COMMIT_INCOMPLETE | Status.SECTION_INCOMPLETE:
            gap = f"{join_rounds(report.record.commit_gaps)} could not be committed"
            return f"Consensus, but {gap if report.status is Status.COMMIT_INCOMPLETE else unanswered(report)}"
        case status:
            return {
                Status.REVIEWER_ERROR: f"No verdict: {reason or _silent(report, REVIEWER)}",
                Status.AGENT_ERROR: f"No answer: {reason or _silent(report, AUTHOR)}",
                Status.NOTHING_TO_REVIEW: f"Nothing to review: {reason or f'no change against {base}'}",
                Status.SUPERSEDED: f"Superseded: {_moved(report)}",
                Status.STOPPED: f"Stopped by a maintainer in round {present_round(report)}",
                Status.CLOSED: f"Ended: {reason or 'the pull request was closed'}",
                Status.AUTHORISATION_WITHDRAWN: f"Ended: {reason or 'its starter may no longer write here'}",
                Status.MERGE_BASE_ERROR: f"Not started: no common commit with {base}",
                Status.GIT_REFUSED: "Not started: git refuses an object",
                Status.ISOLATION_UNAVAILABLE: "Not started: this worker cannot isolate agents",
                Status.STATE_LOST: lost.TITLE,
                Status.TIMED_OUT: "Lost: the worker went away, run it again",
            }[status]


def _unread(report: Report, room: int) -> str:
    """Return which files of the change were not read, or not to their end: as many names as find room, and a number."""
    lacking = report.coverage.lacking
    if not lacking:
        return ""
    unread = [each.path for each in sorted(lacking, key=lambda each: each.coverage == "cut")]
    kinds = {each.coverage for each in lacking}
    word = {frozenset({"skipped"}): "not read", frozenset({"cut"}): "read in part"}.get(
        frozenset(kinds), "not all read"
    )
    # A name takes two characters and a comma at least: more of them never find room.
    paths = [literal(path) for path in unread[: LONGEST // 3]]
    names = [path if len(path) <= NAME else f"…{path[1 - NAME :]}" for path in paths]
    for shown in range(len(names), 0, -1):
        more = [f"{len(unread) - shown} more"] if len(unread) > shown else []
        said = f"; {word}: {join_words([*names[:shown], *more])}"
        if len(said) <= room:
            return said
    return f"; {word}: {count(len(unread), 'file')}"


def _moved(report: Report) -> str:
    return "its base branch was changed" if report.reason == RETARGETED else "the branch moved on"


def _under_way(report: Report) -> str:
    live = report.live
    if live is None:
        return f"Round {present_round(report)}: {agent(report, REVIEWER)} is reviewing"
    answering = live.seat == AUTHOR and open_ids(report)
    what = f" {join_ids(open_ids(report))}" if answering else ""
    return f"Round {live.round}: {live.agent.partition(':')[0]} is {live.doing}{what}"


def _fixes(report: Report) -> str:
    """Return what waits outside the debated commit, and where."""
    number = counts(report).fixed
    fixes = f"{number} fix" if number == 1 else f"{number} fixes"
    if not number:
        number = len(commits(report)) or 1
        fixes = f"{number} commit" if number == 1 else f"{number} commits"
    wait, are = ("waits", "is") if number == 1 else ("wait", "are")
    if report.pushed or report.patch is None:
        return f"{fixes} {wait} to be pushed"
    return f"{fixes} {are} offered {'in the comment' if patch.place(report) == 'comment' else 'here'}"


def _open(report: Report) -> str:
    still = open_ids(report)
    are = f"{join_ids(still)} {'is' if len(still) == 1 else 'are'} open" if still else "nothing was settled"
    before = {
        "money": f"{money(report.task.limits.usd)} spent, ",
        "day": "the money for today is spent, ",
        "calls": "too many calls, ",
        "time": "out of time, ",
    }.get(report.reason)
    if before is None and still:
        return f"{join_ids(still)} {'needs' if len(still) == 1 else 'need'} a person"
    return f"{before or ''}{are}"


def _silent(report: Report, seat: str) -> str:
    times = f", {report.attempts} times" if report.attempts > 1 else ""
    return f"{agent(report, seat)} ended without one{times}"
