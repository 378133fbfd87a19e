"""Reports to render: the debates that the design's examples tell, as the values that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from bot.statuses import Status
from worker.debate.findings import Crux, Finding, Position, Record, Round, Section, Turn, Verdict, Word
from worker.debate.flow import Check, Edited, Used
from worker.debate.task import ChangedFile, Limits, Seat, Task
from worker.outputs.report import Report

CODEX = Seat(agent="codex", model="gpt-6.1-sol", effort="xhigh")
CLAUDE = Seat(agent="claude", model="claude-sonnet-5")
CHECK_URL = "https://github.com/tidemark-coop/tidebook/runs/48211907734"


def make_task(*, head: str, files: Sequence[ChangedFile], **more: Any) -> Task:
    values: dict[str, Any] = {
        "run": "7h2kq9xw",
        "kind": "review",
        "created_at": datetime(2026, 3, 11, 9, 30, tzinfo=UTC),
        "repository": "tidemark-coop/tidebook",
        "server_url": "https://github.com",
        "number": 412,
        "title": "Retry renewals",
        "body": "",
        "head_sha": head,
        "head_ref": "retry-renewals",
        "base_ref": "main",
        "merge_base": "3b79ba38d6029cae00cfe92997f7f877a6129405",
        "head_tree": "0" * 40,
        "seats": {"reviewer": CODEX, "author": CLAUDE},
        "limits": Limits(rounds=6, turn_seconds=1800, run_seconds=10800, usd=5.0),
        "files": tuple(files),
    }
    return Task(**(values | more))


def changed_files(*paths: str, others: int = 0) -> list[ChangedFile]:
    named = [*paths, *(f"tests/test_{number}.py" for number in range(others))]
    return [ChangedFile(status="M", path=path, size=100) for path in named]


Severity = Literal["blocking", "major", "minor", "nit"]


def raised(id_: str, severity: Severity, location: str, *texts: str) -> Finding:
    title, issue, *suggestion = texts
    return Finding(
        id=id_,
        title=title,
        severity=severity,
        location=location,
        issue=issue,
        suggestion="".join(suggestion),
        status="open",
    )


def now(finding: Finding, status: Literal["open", "resolved", "deferred"], issue: str | None = None) -> Finding:
    return finding.model_copy(update={"status": status, "issue": finding.issue if issue is None else issue})


def verdict(summary: str, *findings: Finding, response: str = "") -> Verdict:
    approved = all(finding.status != "open" for finding in findings)
    return Verdict(approved=approved, summary=summary, findings=findings, response_to_rebuttal=response)


def section(intro: str, *positions: tuple[str, Word, str], missing: tuple[str, ...] = ()) -> Section:
    told = tuple(Position(*position) for position in positions)
    return Section(text=intro, intro=intro, positions=told, missing=missing)


def codex(seconds: float, usd: float) -> Turn:
    return Turn(seconds, Used("gpt-6.1-sol", usd))


def claude(seconds: float, usd: float) -> Turn:
    return Turn(seconds, Used("claude-sonnet-5", usd))


# ---- Consensus ------------------------------------------------------------------------------------------------------

HEAD = "db511f0cf3faf43060bd7350425e61c3742d0665"
FIRST = "5d4463e4d4f1501e8d93e1be5f4ac721224aab11"
SECOND = "6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a"
RETRY, SCHEDULE = "src/tidebook/renewals/retry.py", "src/tidebook/renewals/schedule.py"
CHECKS = (Check("ruff check .", "passed"), Check("pytest -q tests/renewals", "passed"))

F1 = raised(
    "F1",
    "blocking",
    f"{RETRY}:118",
    "A retry after a timeout charges the card twice",
    "`attempt()` makes a new idempotency key on every call. When the bank accepts a charge and the answer times out, "
    "the next attempt is a second charge.",
    "derive the key from the renewal and its period, and store it before the first call.",
)
F2 = raised(
    "F2",
    "major",
    f"{RETRY}:97",
    "The row lock is held while the bank answers",
    "`SELECT … FOR UPDATE` seems to stay open across the call to the bank, up to 30 s.",
    "commit the claim first.",
)
F3 = raised(
    "F3",
    "major",
    f"{SCHEDULE}:64",
    "Retries go on after the berth was given away",
    "`due()` does not look at the berth's holder, so a renewal is retried after the berth went to somebody else.",
    "join on the current holder.",
)
F4 = raised(
    "F4",
    "major",
    "src/tidebook/settings.py:31",
    "Production has no `renewals` queue",
    "the worker reads from a queue `renewals` that no deployment declares.",
    "declare it.",
)
F5 = raised(
    "F5",
    "minor",
    f"{RETRY}:140",
    "The wait that the bank asks for is ignored",
    "the back-off doubles from 1 s and ignores `Retry-After`.",
    "take the larger of the two.",
)

ANSWER_1 = section(
    "fixed the double charge, and disputes three points.",
    (
        "F1",
        Word.FIXED,
        (
            "the key is now `renewal:<id>:<period>`, written with the claim at `retry.py:92`. A new test lets the "
            "first call time out after the bank accepted it, and sees one charge."
        ),
    ),
    (
        "F2",
        Word.DISPUTED,
        "the claim is committed at `retry.py:97`, before the call at line 118. `with session.begin()` ends there.",
    ),
    (
        "F3",
        Word.DISPUTED,
        "`renew_all()` drops cancelled berths before `due()` is called, see `schedule.py:41`.",
    ),
    (
        "F4",
        Word.GATE,
        (
            "right, but the queue is declared in the deployment repository. It is a step of the release, not an edit "
            "of this one."
        ),
    ),
    (
        "F5",
        Word.PARTIAL,
        "`Retry-After` is read on 429. On 503 the bank's documentation does not mention it.",
    ),
)

VERDICT_1 = verdict(
    "The worker retries what it should, and the new table is sound. Two paths can take money that is not owed, and one "
    "setting is missing where the worker will run.",
    F1,
    F2,
    F3,
    F4,
    F5,
)
VERDICT_2 = verdict(
    "One path to a wrong charge is left.",
    now(F1, "resolved", "the key is stable, and the test covers the case."),
    now(
        F2,
        "resolved",
        f"the transaction ends at `{RETRY}:97`. I had read the `with` block as reaching to line 121.",
    ),
    now(
        F3,
        "open",
        "`reassign()` at `src/tidebook/berths.py:203` moves a berth without cancelling it, so the filter in "
        "`renew_all()` lets it through. Reassign a berth between two attempts, and the old holder is charged.",
    ),
    now(F4, "deferred", "to the release, as claude asks."),
    now(
        F5,
        "open",
        "`client.py:55` passes a 503 with `Retry-After` to the same function, and the sandbox of the bank does send "
        "it.",
    ),
)
ANSWER_2 = section(
    "was wrong about `reassign()`, and fixed both.",
    (
        "F3",
        Word.FIXED,
        "`due()` joins on the current holder. A new test reassigns the berth between two attempts.",
    ),
    ("F5", Word.FIXED, "503 is treated like 429, and the wait is capped at one hour."),
)
VERDICT_3 = verdict(
    "F3 and F5 are fixed as described. The join uses the index on `(berth_id, ended_at)`, so the query stays cheap. "
    "Nothing new.",
    now(VERDICT_2.findings[2], "resolved"),
    now(VERDICT_2.findings[4], "resolved"),
)

ROUND_1 = Round(
    1,
    VERDICT_1,
    codex(158, 0.34),
    ANSWER_1,
    Edited((RETRY, "tests/renewals/test_retry.py"), "1" * 40, FIRST, checks=CHECKS),
    claude(131, 0.37),
)
ROUND_2 = Round(
    2,
    VERDICT_2,
    codex(112, 0.27),
    ANSWER_2,
    Edited((RETRY, SCHEDULE), "2" * 40, SECOND, checks=CHECKS),
    claude(150, 0.26),
)
ROUND_3 = Round(3, VERDICT_3, codex(99, 0.18))

FILES = [
    *changed_files(RETRY, SCHEDULE, "src/tidebook/settings.py", "src/tidebook/berths.py", others=10),
    ChangedFile(status="M", path="uv.lock", size=9000, coverage="skipped", why="generated"),
]


@pytest.fixture
def consensus() -> Report:
    """review-consensus.md: five findings, three rounds, two commits."""
    return Report(
        task=make_task(head=HEAD, files=FILES),
        record=Record(rounds=(ROUND_1, ROUND_2, ROUND_3)),
        status=Status.CONSENSUS,
        tip=SECOND,
        pushed=True,
        check_url=CHECK_URL,
        diff_lines=frozenset({(RETRY, 118), (RETRY, 97), (SCHEDULE, 64), (RETRY, 140)}),
    )


@pytest.fixture
def clean() -> Report:
    """review-clean.md: nothing to fix."""
    head = "4180044e8d0000000000000000000000000000aa"
    task = make_task(head=head, run="2c9vd4mt", files=changed_files("a.py", "b.py", "c.py", "d.py"))
    return Report(
        task=task,
        record=Record(rounds=(Round(1, verdict("The change is sound."), codex(120, 0.21)),)),
        status=Status.CONSENSUS,
        check_url=CHECK_URL,
    )


# ---- Unresolved -----------------------------------------------------------------------------------------------------

CACHE_HEAD = "2b16cb61e5e50b345ea89c4fe8730010926732b5"
CACHE_TIP = "85ec00d34e9f8410f0e46afed6f252d83f6aa92a"
AVAILABILITY, BOARD = "src/tidebook/availability.py", "src/tidebook/office/board.py"

C1 = raised(
    "F1",
    "blocking",
    f"{AVAILABILITY}:52",
    "The cache key leaves out the season",
    "the key is `(harbour, length)`. Winter and summer share an entry around the first of April.",
    "add the season.",
)
C2 = raised(
    "F2",
    "major",
    f"{AVAILABILITY}:86-91",
    "The list of free berths may be 60 s old",
    "a berth that was booked stays in the list for 60 s.",
    "drop the entry when a booking is made.",
)
C3 = raised(
    "F3",
    "minor",
    f"{AVAILABILITY}:71",
    "An empty list is cached like a full one",
    "an empty list is kept for 60 s as well.",
    "5 s.",
)
C4 = raised(
    "F4",
    "minor",
    f"{BOARD}:40-44",
    "The office reads the cached list",
    "the office page shows the cached list too.",
    "`fresh=True`.",
)


def cache_rounds() -> tuple[Round, ...]:
    held = now(C2, "open", "the second check prevents the double sale. The late refusal stays.")
    held_3 = now(
        C2,
        "open",
        f"today the refusal needs the same second. With the cache it needs the same minute, see `{AVAILABILITY}:86`.",
    )
    office = now(C4, "open", "a radio call is answered from this page.")
    return (
        Round(
            1,
            verdict(
                "The cache does what it says, but its key is incomplete and its age is visible to people who book.",
                C1,
                C2,
                C3,
            ),
            codex(240, 0.5),
            section(
                "fixed the key, and disputes two points.",
                ("F1", Word.FIXED, "the key is `(harbour, length, season)`, with a test for the first of April."),
                (
                    "F2",
                    Word.DISPUTED,
                    (
                        "`booking.py:133` checks again under a lock. Dropping the entry on each booking means about "
                        "one drop a second in July."
                    ),
                ),
                (
                    "F3",
                    Word.DISPUTED,
                    "`availability.py:74` returns before the entry is stored when the list is empty.",
                ),
            ),
            Edited((AVAILABILITY,), "1" * 40, CACHE_TIP, checks=(Check("ruff check .", "passed"),)),
            claude(180, 0.4),
        ),
        Round(
            2,
            verdict(
                "One finding is fixed, one conceded, and there is a new one.",
                now(C1, "resolved", "the season is in the key, and the test covers the first of April."),
                held,
                now(C3, "resolved", f"`{AVAILABILITY}:74` does return first."),
                C4,
            ),
            codex(200, 0.4),
            section(
                "disputes both.",
                (
                    "F2",
                    Word.DISPUTED,
                    (
                        "no berth is sold twice, see `booking.py:133`. A refusal is what happens today when two people "
                        "pay in the same second."
                    ),
                ),
                ("F4", Word.DISPUTED, "the page polls every 5 seconds, and the cache was made for it."),
            ),
            Edited((), "1" * 40),
            claude(100, 0.2),
        ),
        Round(
            3,
            verdict("Both points stand.", held_3, office),
            codex(120, 0.2),
            section(
                "disputes both.",
                ("F2", Word.DISPUTED, "true, and whether that is acceptable is a decision about the product."),
                ("F4", Word.DISPUTED, "nine offices with `fresh=True` are the load that the cache removes."),
            ),
            Edited((), "1" * 40),
            claude(100, 0.2),
        ),
        Round(
            4,
            verdict(
                "Neither point can be settled from the code.",
                now(C2, "open", "it needs a person's word."),
                now(C4, "open", "it needs a number from the access log."),
            ),
            codex(80, 0.18),
        ),
    )


CRUXES = (
    Crux(
        "F2",
        "whether a late refusal at payment is worse than a slow list.",
        "how many bookings failed at `booking.py:133` on the last ten Saturdays in July.",
        "is a refusal at payment acceptable? *yes* or *no*",
    ),
    Crux(
        "F4",
        "how often the office page really asks.",
        "one hour of the access log of `/office/board`.",
        "should the office page bypass the cache? *yes* or *no*",
    ),
)


@pytest.fixture
def unresolved() -> Report:
    """review-unresolved.md: four rounds, the limit, two findings open."""
    files = changed_files(AVAILABILITY, BOARD, "src/tidebook/cache.py", others=3)
    task = make_task(
        head=CACHE_HEAD,
        head_ref="cache-free-berths",
        run="m4x8t1bz",
        number=431,
        files=files,
        limits=Limits(rounds=4, turn_seconds=1800, run_seconds=10800, usd=10.0),
    )
    return Report(
        task=task,
        record=Record(rounds=cache_rounds(), cruxes=CRUXES),
        status=Status.UNRESOLVED,
        reason="rounds",
        tip=CACHE_TIP,
        pushed=True,
        check_url=CHECK_URL,
    )


# ---- Stopped --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped() -> Report:
    """stopped.md: the reviewer's provider refuses in round 2."""
    first = Round(
        1,
        verdict(
            "Two paths can take money that is not owed.",
            raised(
                "F1",
                "blocking",
                f"{RETRY}:118",
                F1.title,
                "`attempt()` makes a new idempotency key on every call.",
                "derive it from the renewal and its period.",
            ),
            raised(
                "F2",
                "major",
                f"{RETRY}:97",
                F2.title,
                "the row lock seems to stay open across the call to the bank.",
            ),
            raised("F3", "major", f"{SCHEDULE}:64", F3.title, "`due()` does not look at the berth's holder."),
        ),
        codex(150, 0.33),
        section(
            "fixed the double charge, and disputes two points.",
            ("F1", Word.FIXED, "the key is written with the claim at `retry.py:92`."),
            ("F2", Word.DISPUTED, "the claim is committed at `retry.py:97`, before the call at line 118."),
            ("F3", Word.DISPUTED, "`renew_all()` drops cancelled berths first, see `schedule.py:41`."),
        ),
        Edited((RETRY,), "1" * 40, FIRST, checks=CHECKS[:1]),
        claude(150, 0.33),
    )
    return Report(
        task=make_task(head=HEAD, files=FILES, run="w5j1r6kd"),
        record=Record(rounds=(first, Round(2))),
        status=Status.REVIEWER_ERROR,
        reason=(
            "The provider of codex says: `429 insufficient_quota: Quota exceeded. Check your plan and billing details.`"
        ),
        hint="the operator of this server adds credit to the account behind `OPENAI_API_KEY`.",
        failed_seat="reviewer",
        attempts=3,
        tip=FIRST,
        pushed=True,
        check_url=CHECK_URL,
    )
