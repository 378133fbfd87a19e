"""How a run stands, as the terminal's view reads it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.statuses import Status
from deploy.view import load
from worker.debate.codecs import DispositionCodec
from worker.debate.findings import Finding, Record, Round, Turn, Verdict
from worker.debate.flow import Edited, Used
from worker.debate.task import ChangedFile, Limits, Seat, Task
from worker.outputs.progress import AtWork, progress
from worker.outputs.report import Report

TASK = Task(
    run="7h2kq9xw",
    kind="review",
    created_at=datetime(2026, 3, 11, 9, 0, tzinfo=UTC),
    repository="tidemark-coop/tidebook",
    server_url="https://github.com",
    number=412,
    title="t",
    body="",
    head_sha="a" * 40,
    head_ref="retry-renewals",
    base_ref="main",
    merge_base="b" * 40,
    head_tree="c" * 40,
    seats={"reviewer": Seat(agent="scripted:/secret/path"), "author": Seat(agent="lint")},
    limits=Limits(rounds=12, turn_seconds=1800, run_seconds=10800, usd=10.0),
    files=(ChangedFile(status="M", path="a.py", size=1, added=3, removed=1),),
)


def finding(number: int, severity: str, status: str = "open") -> Finding:
    return Finding.model_validate(
        {
            "id": f"F{number}",
            "title": f"Finding {number}",
            "severity": severity,
            "location": "src/a.py:3",
            "issue": "i",
            "suggestion": "",
            "status": status,
        }
    )


def verdict(*findings: Finding) -> Verdict:
    return Verdict(approved=False, summary="", findings=findings, response_to_rebuttal="")


FIRST = Round(
    1,
    verdict=verdict(finding(1, "minor"), finding(2, "blocking")),
    review=Turn(158.0, Used(usd=0.34)),
    section=DispositionCodec(("F1", "F2")).parse("- `F1` **fixed**: done\n- `F2` **disputed**: no"),
    edited=Edited(("a.py",), "d" * 40, commit="5d4463e4d4" + "0" * 30),
    author=Turn(131.0, Used(usd=0.37)),
)


def test_a_round_that_is_done_and_one_that_goes_on() -> None:
    shown = load(progress(Report(TASK, Record((FIRST,))), AtWork(2, "reviewer", "reading the answers", 1e9, usd=0.2)))
    assert (shown.run, shown.files, shown.added, shown.removed) == ("7h2kq9xw", 1, 3, 1)
    assert round(shown.usd, 2) == 0.91
    one, two = shown.rounds
    assert [(line.agent, line.text, line.detail) for line in one.lines] == [
        ("scripted", "raised 2 findings", "F2 blocking; F1 minor"),
        ("lint", "fixed F1, disputed F2", "commit 5d4463e4d4"),
    ]
    (line,) = two.lines
    assert (line.agent, line.text, line.working, line.began) == ("scripted", "reading the answers", True, 1e9)
    assert [(each.id, each.state) for each in shown.findings] == [
        ("F1", "fixed, unreviewed"),
        ("F2", "disputed by lint"),
    ]
    assert not shown.finished


def test_the_end() -> None:
    second = Round(2, verdict=verdict(finding(1, "minor", "resolved"), finding(2, "blocking", "resolved")))
    report = Report(TASK, Record((FIRST, second)), status=Status.CONSENSUS)
    shown = load(progress(report, AtWork(2, "reviewer", "reading the answers", 1e9, usd=0.2)))
    assert shown.finished
    assert shown.usd == 0.71, "the last turn stands in the record, and is not counted twice"
    assert [line.text for line in shown.rounds[1].lines] == ["accepted F1, conceded F2, found nothing new"]
    assert [each.state for each in shown.findings] == ["fixed", "conceded"]


@pytest.mark.threat(150)
def test_what_an_agent_does_can_be_stored_whatever_its_letters() -> None:
    """Half a pair of surrogates comes from an escape in a program's event; it would end the heartbeat."""
    shown = progress(Report(TASK, Record((FIRST,))), AtWork(2, "reviewer", "reading", 1e9, activity="runs \ud800\x00"))
    assert load(shown.encode()).rounds[1].lines[0].activity == "runs \ufffd\x00"


def test_before_anything_was_said() -> None:
    shown = load(progress(Report(TASK, Record()), None))
    assert (shown.rounds, shown.findings) == ((), ())
