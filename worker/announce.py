"""Tells GitHub and whoever watches how a run stands: it makes reports of it and has them published.

It owns when a comment appears and when it changes (interface.md 7), and what a report is made from. What a report says
is rendered in `worker/outputs/`; how it reaches GitHub is `bot/publish.py`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from bot.github import GitHubError, Unavailable
from bot.intents import CheckRun, Comment
from bot.publish import Publisher
from bot.statuses import CHECK_NAME, TABLE, Status
from bot.store import LostFence, Newest, Store, StoreAway
from bot.store.runs import Run
from bot.telemetry import log
from worker import agents
from worker.debate.findings import Outcome, Record, Standing, Word, ledger, next_id
from worker.debate.flow import Flow, Note, TurnFailed
from worker.debate.task import Task
from worker.ended import Ended
from worker.git import GitFailed, TooLarge
from worker.git.mirror import Mirror
from worker.git.tree import diffstat, patch, shown_lines
from worker.outputs.check import CheckOutput, cited, hidden, render_check
from worker.outputs.comment import folded, render_comment
from worker.outputs.patch import CHECK_LIMIT
from worker.outputs.progress import AtWork, progress
from worker.outputs.report import Live, Patch, Report
from worker.process import Finished, Program

NEWER = "{newer}"
"""Stands in a stored folded comment for the address of the newer one."""

UNTOLD = """\
This server failed while it wrote the report of this debate: its log names the cause. \
Write the command again when it is mended."""


@dataclass(slots=True)
class Moment:
    """Who is at work, and since when."""

    standing: Standing
    since: float = field(default_factory=time.time)
    seen: float = field(default_factory=time.time)
    """The agent's last sign of life: when its program began, or last printed a line."""
    activity: str = ""
    """What the agent does just now."""


class Announcer:
    """Publishes how one run stands."""

    def __init__(
        self, publisher: Publisher, run: Run, store: Store, *, task: Task, may_show: Callable[[], Awaitable[bool]]
    ) -> None:
        """`may_show` is asked before the debate's words are written anywhere (threats.md, input 68)."""
        self.publisher = publisher
        self.task = task
        self._may_show = may_show
        self.merged: Callable[[], bool] = lambda: False
        """Whether the pull request's branch has taken in its base meanwhile."""
        self.moment = Moment(Standing(Record(), 1))
        self._store = store
        self._place = (run.repository.id, run.number)
        self._automatic = run.requester is None
        """Nobody asked for the run: without a finding in its first round it writes no comment."""
        self._check_url = ""
        self._usd = 0.0
        """What the run has cost by now, the turns under way included."""
        self._shown = ""
        self._commented = False

    async def standing(self, standing: Standing) -> None:
        """Take note of how the debate stands now: the check run follows at once, the comment at a round's end.

        It is told for people's comfort: where GitHub does not take it now, the next time tells it.
        """
        self.moment = Moment(standing)
        try:
            await self.beat()
            if standing.round_ended and self.task.comment:
                await self._comment(self._report(standing.record))
        except (GitHubError, LostFence, StoreAway) as error:  # who lost the fence learns it at the next step
            log(__name__).warning("not told", what="how it stands", run=self.task.run, error=str(error))

    def follow(self, flow: Flow[Outcome]) -> Flow[Outcome]:
        """Return a flow that does the same, and from which we learn how it stands also where a replay is silent."""
        answer: Any = None
        try:
            while True:
                step = flow.throw(answer) if isinstance(answer, TurnFailed) else flow.send(answer)
                if isinstance(step, Note):
                    self.moment = Moment(step.standing)
                try:
                    answer = yield step
                except TurnFailed as failure:
                    answer = failure
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome

    def listening(self, run: agents.Run) -> agents.Run:
        """Return a way to run programs that takes their beginning and every line for a sign of life."""

        async def heard(spec: Program) -> Finished:
            self.moment.seen = time.time()
            told = spec.on_line

            def line(raw: bytes) -> bool | None:
                self.moment.seen = time.time()
                return told(raw) if told is not None else None

            return await run(replace(spec, on_line=line))

        return heard

    def does(self, seat: str, words: str) -> None:
        """Take note of what a seat does just now."""
        if seat == self.moment.standing.seat:
            self.moment.activity = words

    async def beat(self) -> None:
        """Renew the check run, and what is shown on this machine."""
        await self.pulse()
        await self._check(self._report(self.moment.standing.record))

    async def pulse(self) -> None:
        """Renew what is shown on this machine, where something has changed: what is done, and what it has cost."""
        self._usd = (await self._store.spending.of_run(self.task.run)).usd
        shown = progress(self._report(self.moment.standing.record), self._at_work())
        if shown != self._shown:
            await self._store.runs.set_progress(self.task.run, shown)
            self._shown = shown

    async def conclude(self, end: Outcome | Ended, mirror: Mirror) -> Report:
        """Publish the end: the comment where one is due, then the check run. Returns what was reported."""
        report = self._report(end.record if isinstance(end, Outcome) else self.moment.standing.record)
        await self._keep_numbers(report.record)
        report = replace(
            report,
            status=end.status,
            reason=end.reason,
            hint=end.hint,
            failed_seat=end.failed_seat,
            attempts=end.attempts if isinstance(end, Outcome) else 0,
            log=end.log if isinstance(end, Outcome) else "",
        )
        try:
            patch = await self._patch(report.record, mirror)
            report = replace(report, patch=patch, diff_lines=await self._diff_lines(report.record, mirror))
        except GitFailed as error:  # it ended before this machine had fetched what another one has debated
            log(__name__).warning("not told", what="patch and places", run=self.task.run, error=str(error))
        if self._is_due(report):
            with refused("the comment", self.task.run):
                report = replace(report, comment_url=await self._comment(report))
        with refused("the check run", self.task.run):
            await self._check(report)
        await self._store.runs.set_progress(self.task.run, progress(report, self._at_work()))
        return report

    async def intend(self, end: Ended) -> None:
        """Store how the run ended: it is told when GitHub can be reached again (`Publisher.settle`)."""
        report = self._report(self.moment.standing.record)
        report = replace(report, status=end.status, reason=end.reason, hint=end.hint)
        await self.publisher.intend(self._intent(render_check(report)))
        if self.task.comment and any(each.section for each in report.record.rounds):
            await self.publisher.intend(Comment(self.task.run, 0, render_comment(report)))

    async def give_up(self) -> None:
        """Conclude the check run, and the comment that is there, in plain words: the report itself cannot be made."""
        words = f"{UNTOLD} Run `{self.task.run}`."
        shown = CheckOutput("completed", "failure", "Failed: the report could not be written", words, "")
        await self.publisher.publish(self._intent(shown))
        if self.task.comment and any(each.section for each in self.moment.standing.record.rounds):
            await self.publisher.publish(Comment(self.task.run, 0, f"## Debate\n\n❌ **Failed.** {UNTOLD}\n"))

    # ---- Parts ------------------------------------------------------------------------------------------------------

    def _is_due(self, report: Report) -> bool:
        """Return whether the run's end belongs into a comment."""
        if not self.task.comment or report.status is None or report.status is Status.NOTHING_TO_REVIEW:
            return False
        if TABLE[report.status].conclusion in {"failure", "cancelled"}:
            return self._commented or any(each.section for each in report.record.rounds)
        clean = len(report.record.rounds) == 1 and not ledger(report.record)
        return not (self._automatic and clean)

    def _report(self, record: Record) -> Report:
        """Return the report of this moment."""
        commits = [each.edited.commit for each in record.rounds if each.edited and each.edited.commit]
        return Report(
            self.task,
            record,
            tip=commits[-1] if commits else None,
            pushed=bool(commits) and self.task.push != "never",
            merged=self.merged(),
            check_url=self._check_url,
            live=self._live(),
        )

    def _live(self) -> Live | None:
        """Return who is at work now."""
        moment, now = self.moment, time.time()
        seat = self.task.seats.get(moment.standing.seat)
        if seat is None:
            return None
        return Live(
            round=moment.standing.round,
            seat=moment.standing.seat,
            agent=seat.agent.partition(":")[0],
            doing=_doing(moment.standing),
            minute=int(now - self.task.created_at.timestamp()) // 60,
            turn_minutes=int(now - moment.since) // 60,
            written=_clock(now),
            seen=_clock(moment.seen),
            usd=max(self._usd, _cost(moment.standing.record)),
        )

    def _at_work(self) -> AtWork | None:
        standing = self.moment.standing
        if not standing.seat:
            return None
        usd = max(0.0, self._usd - _cost(standing.record))
        return AtWork(
            standing.round, standing.seat, _doing(standing), self.moment.since, activity=self.moment.activity, usd=usd
        )

    async def _patch(self, record: Record, mirror: Mirror) -> Patch | None:
        """Return the whole change as a patch, where no branch offers it."""
        edits = [each.edited for each in record.rounds if each.edited]
        if self.task.commit or not edits or edits[-1].tree == self.task.head_tree:
            return None
        ends = (self.task.head_sha, edits[-1].tree)
        size = await diffstat(mirror, *ends)
        fixed = {Word.FIXED, Word.PARTIAL}
        ids = [entry.id for entry in ledger(record) if fixed & {word for _, word in entry.words}]
        told = Patch("", size.files, size.added + size.removed, tuple(ids), whole=False)
        with suppress(TooLarge):
            told = replace(told, text=await patch(mirror, *ends, limit=CHECK_LIMIT), whole=True)
        return told

    async def _diff_lines(self, record: Record, mirror: Mirror) -> frozenset[tuple[str, int]]:
        """Return which lines that findings are about can be seen in the change, so that an annotation stands there."""
        ends = (self.task.merge_base, self.task.head_sha)
        wanted = cited(record)
        changed = sorted({each.path for each in self.task.files if each.status != "D"} & wanted.keys())
        found = {path: await shown_lines(mirror, *ends, path, wanted[path]) for path in changed}
        return frozenset((path, line) for path, lines in found.items() for line in lines)

    async def _comment(self, report: Report) -> str:
        """Write the comment, or change it, and return its address; empty where it may not be written."""
        if not await self._may_show():
            why = "the repository became public, and who started the debate may not write there"
            log(__name__).warning("not told", what="the comment", run=self.task.run, error=why)
            return ""
        published = await self.publisher.publish(Comment(self.task.run, 0, render_comment(report)))
        if not self._commented:
            await self._fold_older(published.url)
        self._commented = True
        await self._store.ledger.keep_newest(*self._place, Newest(run=self.task.run, folded=folded(report, NEWER)))
        return published.url

    async def _fold_older(self, url: str) -> None:
        """Fold the comment of this pull request's debate before this one to its header (interface.md 7)."""
        older = await self._store.ledger.newest(*self._place)
        if older is not None and older.run != self.task.run:
            with refused("the older comment", self.task.run):
                await self.publisher.publish(Comment(older.run, 0, older.folded.replace(NEWER, url)))

    async def _keep_numbers(self, record: Record) -> None:
        """Remember which ids are taken: the next debate on this pull request counts on from there."""
        await self._store.ledger.keep_finding(*self._place, used=int(next_id(record, 1)[1:]) - 1)

    async def _check(self, report: Report) -> None:
        shown = render_check(report)
        if not await self._may_show():
            shown = hidden(shown)
        self._check_url = (await self.publisher.publish(self._intent(shown))).url

    def _intent(self, shown: CheckOutput) -> CheckRun:
        return CheckRun(
            run=self.task.run,
            name=CHECK_NAME,
            head_sha=self.task.head_sha,
            status=shown.status,
            conclusion=shown.conclusion,
            title=shown.title,
            summary=shown.summary,
            text=shown.text,
            annotations=shown.annotations,
        )


@contextmanager
def refused(what: str, run: str) -> Iterator[None]:
    """Let a run go on where GitHub refuses for good what is to be told: a conversation is locked, a comment is gone.

    A GitHub that is away is no refusal: it raises, and the attempt is made again.
    """
    try:
        yield
    except Unavailable:
        raise
    except GitHubError as error:
        log(__name__).warning("not told", what=what, run=run, error=str(error))


def _cost(record: Record) -> float:
    return sum(turn.used.usd for turn in record.turns)


def _doing(standing: Standing) -> str:
    """Return what the seat at work does, in a word or three."""
    if standing.seat != "reviewer":
        return "answering"
    return "reviewing" if standing.round == 1 else "reading the answers"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M")
