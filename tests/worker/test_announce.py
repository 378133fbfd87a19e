"""When a comment appears, when it changes, and what is published at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from bot.github import Forbidden, Unavailable
from bot.intents import CheckRun, Comment
from bot.publish import Published
from bot.statuses import Status
from bot.store import Store
from tests.worker.conftest import Change
from worker.announce import Announcer
from worker.debate.codecs import DispositionCodec
from worker.debate.findings import Finding, Outcome, Record, Round, Standing, Verdict
from worker.debate.flow import Ask, Edited, Note, TurnFailed, note
from worker.debate.review import review
from worker.ended import Ended
from worker.outputs.check import HIDDEN
from worker.process import Finished, Program


@dataclass
class Kept:
    """A publisher that keeps what it is given."""

    published: list[Any] = field(default_factory=list)

    async def publish(self, intent: Any) -> Published:
        self.published.append(intent)
        return Published(1, f"https://github.example/{type(intent).__name__.lower()}")

    @property
    def comments(self) -> list[str]:
        return [each.body for each in self.published if isinstance(each, Comment)]

    @property
    def checks(self) -> list[CheckRun]:
        return [each for each in self.published if isinstance(each, CheckRun)]


@dataclass
class Room:
    """A change, a store, and announcers over both."""

    change: Change
    store: Store

    may_show: bool = True

    async def teller(self, *, automatic: bool = False, **over: Any) -> tuple[Announcer, Kept]:
        kept = Kept()

        async def may_show() -> bool:
            return self.may_show

        run = self.change.run.model_copy(update={"requester": None} if automatic else {})
        task = (await self.change.task()).model_copy(update=over)
        return Announcer(kept, run, self.store, task=task, may_show=may_show), kept  # type: ignore[arg-type]


@pytest.fixture
def room(change: Change, store: Store) -> Room:
    return Room(change, store)


def finding(status: str = "open") -> Finding:
    return Finding.model_validate(
        {
            "id": "F1",
            "title": "It is wrong",
            "severity": "major",
            "location": "app.py:1",
            "issue": "i",
            "suggestion": "",
            "status": status,
        }
    )


def verdict(*findings: Finding) -> Verdict:
    return Verdict(approved=not findings, summary="S", findings=findings, response_to_rebuttal="")


HALF = Round(1, verdict=verdict(finding()))
FULL = Round(
    1,
    verdict=verdict(finding()),
    section=DispositionCodec(("F1",)).parse("- `F1` **fixed**: done"),
    edited=Edited(("app.py",), "t1", commit="c" * 40),
)
DONE = Round(2, verdict=verdict(finding("resolved")))


async def test_the_comment_appears_when_the_first_round_has_ended(room: Room) -> None:
    tell, kept = await room.teller()
    await tell.standing(Standing(Record(), 1, "reviewer"))
    await tell.standing(Standing(Record((HALF,)), 1, "author"))
    assert kept.comments == []
    await tell.standing(Standing(Record((FULL,)), 1, round_ended=True))
    assert len(kept.comments) == 1
    assert "**Under way**" in kept.comments[0]
    assert [check.status for check in kept.checks] == ["in_progress"] * 3


async def test_the_end_changes_comment_and_check_run(room: Room) -> None:
    tell, kept = await room.teller()
    report = await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert "✅ **Consensus**" in kept.comments[-1]
    assert (kept.checks[-1].status, kept.checks[-1].conclusion) == ("completed", "action_required")
    assert isinstance(kept.published[0], Comment), "the comment stands before the check run says that it is over"
    assert (report.tip, report.pushed) == ("c" * 40, True)
    (annotation,) = kept.checks[-1].annotations
    assert (annotation["path"], annotation["start_line"]) == ("app.py", 1)


@pytest.mark.threat("T20")
async def test_a_patch_that_is_too_large_is_told_and_not_made(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a round removes is not counted when it is admitted: its patch may have any size."""
    tell, kept = await room.teller(commit=False)
    before = await room.change.mirror.tree(tell.task.merge_base)
    edited = Round(1, verdict=HALF.verdict, section=FULL.section, edited=Edited(("app.py",), before))
    for limit, shown in ((60_000, "+x = 1"), (10, "the patch is not shown here: it has more than 60,000 bytes")):
        monkeypatch.setattr("worker.announce.CHECK_LIMIT", limit)
        await tell.conclude(Outcome(Status.CONSENSUS, Record((edited, DONE))), room.change.mirror)
        assert shown in kept.comments[-1]
        assert kept.checks[-1].conclusion == "action_required"


async def test_a_report_that_cannot_be_made_leaves_nothing_under_way(room: Room) -> None:
    tell, kept = await room.teller()
    await tell.give_up()
    assert kept.comments == []
    await tell.standing(Standing(Record((FULL,)), 1, round_ended=True))
    await tell.give_up()
    assert "❌ **Failed.** This server failed while it wrote the report" in kept.comments[-1]
    assert (kept.checks[-1].status, kept.checks[-1].conclusion) == ("completed", "failure")


async def test_where_it_may_not_be_shown_no_comment_is_written(room: Room) -> None:
    """threats.md, input 68."""
    room.may_show = False
    tell, kept = await room.teller()
    await tell.standing(Standing(Record((FULL,)), 2, round_ended=True))
    await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert kept.comments == []
    last = kept.checks[-1]
    assert (last.status, last.summary, last.text, last.annotations) == ("completed", HIDDEN, "", ())
    assert all(check.summary == HIDDEN for check in kept.checks)


async def test_what_became_public_later_is_not_told_on(room: Room) -> None:
    tell, kept = await room.teller()
    await tell.standing(Standing(Record((FULL,)), 1, round_ended=True))
    room.may_show = False
    await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert len(kept.comments) == 1
    assert kept.checks[-1].summary == HIDDEN


@pytest.mark.parametrize("status", [Status.REVIEWER_ERROR, Status.MERGE_BASE_ERROR, Status.GIT_REFUSED])
async def test_an_error_before_the_first_rounds_end_creates_no_comment(room: Room, status: Status) -> None:
    tell, kept = await room.teller()
    await tell.conclude(Ended(status, "why"), room.change.mirror)
    assert kept.comments == []
    assert kept.checks[-1].conclusion == "failure"


@pytest.mark.parametrize("status", [Status.SUPERSEDED, Status.STOPPED, Status.CLOSED])
async def test_an_end_from_outside_changes_the_comment_where_there_is_one(room: Room, status: Status) -> None:
    tell, kept = await room.teller()
    await tell.conclude(Ended(status), room.change.mirror)
    assert kept.comments == []
    await tell.standing(Standing(Record((FULL,)), 1, round_ended=True))
    await tell.conclude(Ended(status), room.change.mirror)
    assert "No agreement" in kept.comments[-1]
    assert "in round 1" in kept.comments[-1]


async def test_an_automatic_run_without_a_finding_writes_no_comment(room: Room) -> None:
    clean = Outcome(Status.CONSENSUS, Record((Round(1, verdict=verdict()),)))
    for automatic, comments in ((True, 0), (False, 1)):
        tell, kept = await room.teller(automatic=automatic)
        await tell.conclude(clean, room.change.mirror)
        assert len(kept.comments) == comments


async def test_no_comment_means_none(room: Room) -> None:
    tell, kept = await room.teller(comment=False)
    await tell.standing(Standing(Record((FULL,)), 1, round_ended=True))
    await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert kept.comments == []
    assert kept.checks[-1].status == "completed"


async def test_a_flow_that_is_followed_does_the_same(room: Room) -> None:
    tell, _ = await room.teller()
    flow = tell.follow(review(tell.task))
    assert isinstance(next(flow), Note)
    assert (tell.moment.standing.round, tell.moment.standing.seat) == (1, "reviewer")
    assert isinstance(flow.send(None), Ask)
    with pytest.raises(StopIteration) as end:
        flow.throw(TurnFailed("transport", "it died"))
    assert end.value.value.status is Status.REVIEWER_ERROR
    assert list(note("x"))


async def test_an_older_debates_comment_is_folded_to_its_header(room: Room) -> None:
    first, kept = await room.teller()
    await first.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    second, newer = await room.teller(run="newerrun")
    await second.standing(Standing(Record((FULL,)), 1, round_ended=True))
    own, old = [each for each in newer.published if isinstance(each, Comment)]
    assert (own.run, old.run) == ("newerrun", "7h2kq9xw")
    assert old.body.splitlines()[2].endswith("[newer debate](https://github.example/comment).")
    assert "Round 1 in their words" not in old.body
    await second.standing(Standing(Record((FULL,)), 1, round_ended=True))
    assert [each.run for each in newer.published if isinstance(each, Comment)][2:] == ["newerrun"]
    assert len(kept.comments) == 1


async def test_ids_of_findings_are_kept_for_the_next_debate(room: Room) -> None:
    tell, _ = await room.teller()
    await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert await room.store.ledger.next_finding(5, 1) == 2


async def test_what_github_refuses_for_good_does_not_hold_the_run(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    tell, kept = await room.teller()
    publish = kept.publish

    async def refuses(intent: Any) -> Published:
        if isinstance(intent, Comment):
            raise Forbidden(403, "the conversation is locked")
        return await publish(intent)

    monkeypatch.setattr(kept, "publish", refuses)
    await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)
    assert kept.checks[-1].status == "completed"

    async def away(intent: Any) -> Published:
        raise Unavailable(502, "away")

    monkeypatch.setattr(kept, "publish", away)
    with pytest.raises(Unavailable):
        await tell.conclude(Outcome(Status.CONSENSUS, Record((FULL, DONE))), room.change.mirror)


async def test_a_program_and_its_lines_are_signs_of_life(room: Room) -> None:
    tell, _ = await room.teller()
    lines: list[bytes] = []

    async def run(spec: Program) -> Finished:
        assert spec.on_line is not None
        tell.moment.seen = 0.0
        spec.on_line(b"at work")
        return Finished(0, b"", b"")

    await tell.listening(run)(Program(("x",), on_line=lines.append))
    assert tell.moment.seen > 0
    assert lines == [b"at work"]
