"""The comment: what it says in each state, byte for byte, and what it does when it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.statuses import Status
from worker.debate.findings import Finding, Record, Round, Section, Turn, Verdict, Word
from worker.debate.findings import Position as Said
from worker.debate.flow import Edited, Refusal
from worker.debate.task import Seat
from worker.outputs import comment
from worker.outputs.comment import LIMIT, folded, render_comment
from worker.outputs.markdown import holds
from worker.outputs.report import Live, Patch, Report

# ---- As people see it -----------------------------------------------------------------------------------------------

CLEAN = """\
## Debate: codex ⇄ claude

✅ **Consensus** on 4180044e8d after 1 round: codex found nothing to fix.

codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) had nothing to do · base 3b79ba38d6 · 2 min · $0.21 · read 4 of 4 files · run `2c9vd4mt`
"""  # noqa: E501 - a comment as it is posted

CONSENSUS = """\
## Debate: codex ⇄ claude

✅ **Consensus** on db511f0cf3 after 3 rounds: 3 findings fixed, 1 conceded, 1 deferred. **The fixes are not on `retry-renewals` yet.**

**To take them:** fetch `codex-debate/pr-412/7h2kq9xw`, which holds exactly these [2 commits](https://github.com/tidemark-coop/tidebook/compare/db511f0cf3faf43060bd7350425e61c3742d0665...6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a).

```
git fetch origin codex-debate/pr-412/7h2kq9xw
git merge --ff-only FETCH_HEAD
```

**Outside this pull request:** F4, production has no `renewals` queue.

| | Finding | Outcome |
|:--|:--|:--|
| F1 | A retry after a timeout charges the card twice<br>blocking, [`retry.py:118`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L118) | fixed<br>5d4463e4d4 |
| F2 | The row lock is held while the bank answers<br>major, [`retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L97) | conceded by codex |
| F3 | Retries go on after the berth was given away<br>major, [`schedule.py:64`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/schedule.py#L64) | fixed after a dispute<br>6c414d9ad1 |
| F4 | Production has no `renewals` queue<br>major, [`settings.py:31`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/settings.py#L31) | deferred |
| F5 | The wait that the bank asks for is ignored<br>minor, [`retry.py:140`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L140) | fixed in two steps<br>6c414d9ad1 |

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex raised F1 to F5. claude fixed F1, fixed F5 in part, disputed F2, F3 and F4. | 5d4463e4d4 |
| 2 | codex accepted F1, conceded F2, deferred F4, kept F3 and F5. claude fixed F3 and F5. | 6c414d9ad1 |
| 3 | codex accepted F3 and F5, found nothing new. | none |

<details>
<summary>Round 1 in their words</summary>

**codex** did not approve. The worker retries what it should, and the new table is sound. Two paths can take money that is not owed, and one setting is missing where the worker will run.

- `F1` blocking, [`src/tidebook/renewals/retry.py:118`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L118): `attempt()` makes a new idempotency key on every call. When the bank accepts a charge and the answer times out, the next attempt is a second charge. Suggestion: derive the key from the renewal and its period, and store it before the first call.
- `F2` major, [`src/tidebook/renewals/retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L97): `SELECT … FOR UPDATE` seems to stay open across the call to the bank, up to 30 s. Suggestion: commit the claim first.
- `F3` major, [`src/tidebook/renewals/schedule.py:64`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/schedule.py#L64): `due()` does not look at the berth's holder, so a renewal is retried after the berth went to somebody else. Suggestion: join on the current holder.
- `F4` major, [`src/tidebook/settings.py:31`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/settings.py#L31): the worker reads from a queue `renewals` that no deployment declares. Suggestion: declare it.
- `F5` minor, [`src/tidebook/renewals/retry.py:140`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L140): the back-off doubles from 1 s and ignores `Retry-After`. Suggestion: take the larger of the two.

**claude** fixed the double charge, and disputes three points.

- `F1` **fixed**: the key is now `renewal:<id>:<period>`, written with the claim at `retry.py:92`. A new test lets the first call time out after the bank accepted it, and sees one charge.
- `F2` **disputed**: the claim is committed at `retry.py:97`, before the call at line 118. `with session.begin()` ends there.
- `F3` **disputed**: `renew_all()` drops cancelled berths before `due()` is called, see `schedule.py:41`.
- `F4` **disputed (gate)**: right, but the queue is declared in the deployment repository. It is a step of the release, not an edit of this one.
- `F5` **partial**: `Retry-After` is read on 429. On 503 the bank's documentation does not mention it.

Checks: `ruff check .` passed, `pytest -q tests/renewals` passed. Commit 5d4463e4d4.

</details>

<details>
<summary>Round 2 in their words</summary>

**codex** did not approve. One path to a wrong charge is left.

- `F1` resolved: the key is stable, and the test covers the case.
- `F2` resolved, conceded: the transaction ends at [`src/tidebook/renewals/retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/5d4463e4d4f1501e8d93e1be5f4ac721224aab11/src/tidebook/renewals/retry.py#L97). I had read the `with` block as reaching to line 121.
- `F3` open: `reassign()` at [`src/tidebook/berths.py:203`](https://github.com/tidemark-coop/tidebook/blob/5d4463e4d4f1501e8d93e1be5f4ac721224aab11/src/tidebook/berths.py#L203) moves a berth without cancelling it, so the filter in `renew_all()` lets it through. Reassign a berth between two attempts, and the old holder is charged.
- `F4` deferred to the release, as claude asks.
- `F5` open: `client.py:55` passes a 503 with `Retry-After` to the same function, and the sandbox of the bank does send it.

**claude** was wrong about `reassign()`, and fixed both.

- `F3` **fixed**: `due()` joins on the current holder. A new test reassigns the berth between two attempts.
- `F5` **fixed**: 503 is treated like 429, and the wait is capped at one hour.

Checks: `ruff check .` passed, `pytest -q tests/renewals` passed. Commit 6c414d9ad1.

</details>

<details>
<summary>Round 3 in their words</summary>

**codex** approved. F3 and F5 are fixed as described. The join uses the index on `(berth_id, ended_at)`, so the query stays cheap. Nothing new.

</details>

codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) wrote · base 3b79ba38d6 · 11 min · $1.42 · read 14 of 15 files, skipped `uv.lock` (generated) · run `7h2kq9xw`
"""  # noqa: E501 - a comment as it is posted

UNRESOLVED = """\
## Debate: codex ⇄ claude

⚠️ **Unresolved** on 2b16cb61e5 after 4 rounds, the limit: F2 and F4 are open, 2 other findings are settled. **A person decides.**

**To go on:**

1. Take the fix of F1 ([1 commit](https://github.com/tidemark-coop/tidebook/compare/2b16cb61e5e50b345ea89c4fe8730010926732b5...85ec00d34e9f8410f0e46afed6f252d83f6aa92a)): `git fetch origin codex-debate/pr-431/m4x8t1bz`, then `git merge --ff-only 85ec00d34e`.
2. Then answer the two questions below in a word each, and a new debate starts from your answers:

   ```
   /codex-debate --rationale "F2 no, F4 yes"
   ```

### F2 · The list of free berths may be 60 s old

https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L86-L91

- **codex** (major): a berth that was booked stays in the list for 60 s.
- **claude**: `booking.py:133` checks again under a lock. Dropping the entry on each booking means about one drop a second in July.
- **Crux:** whether a late refusal at payment is worse than a slow list.
- **Would settle it:** how many bookings failed at `booking.py:133` on the last ten Saturdays in July.
- **Question:** is a refusal at payment acceptable? *yes* or *no*

### F4 · The office reads the cached list

https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/office/board.py#L40-L44

- **codex** (minor): the office page shows the cached list too.
- **claude**: the page polls every 5 seconds, and the cache was made for it.
- **Crux:** how often the office page really asks.
- **Would settle it:** one hour of the access log of `/office/board`.
- **Question:** should the office page bypass the cache? *yes* or *no*

### All findings

| | Finding | Outcome |
|:--|:--|:--|
| F1 | The cache key leaves out the season<br>blocking, [`availability.py:52`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L52) | fixed<br>85ec00d34e |
| F2 | The list of free berths may be 60 s old<br>major, [`availability.py:86`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L86) | **open** |
| F3 | An empty list is cached like a full one<br>minor, [`availability.py:71`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L71) | conceded by codex |
| F4 | The office reads the cached list<br>minor, [`board.py:40`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/office/board.py#L40) | **open** |

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex raised F1, F2 and F3. claude fixed F1, disputed F2 and F3. | 85ec00d34e |
| 2 | codex accepted F1, conceded F3, kept F2, raised F4. claude disputed F2 and F4. | none |
| 3 | codex kept F2 and F4. claude disputed both. | none |
| 4 | codex kept F2 and F4. Limit of rounds. | none |

<details>
<summary>Round 1 in their words</summary>

**codex** did not approve. The cache does what it says, but its key is incomplete and its age is visible to people who book.

- `F1` blocking, [`src/tidebook/availability.py:52`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L52): the key is `(harbour, length)`. Winter and summer share an entry around the first of April. Suggestion: add the season.
- `F2` major, [`src/tidebook/availability.py:86`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L86): a berth that was booked stays in the list for 60 s. Suggestion: drop the entry when a booking is made.
- `F3` minor, [`src/tidebook/availability.py:71`](https://github.com/tidemark-coop/tidebook/blob/2b16cb61e5e50b345ea89c4fe8730010926732b5/src/tidebook/availability.py#L71): an empty list is kept for 60 s as well. Suggestion: 5 s.

**claude** fixed the key, and disputes two points.

- `F1` **fixed**: the key is `(harbour, length, season)`, with a test for the first of April.
- `F2` **disputed**: `booking.py:133` checks again under a lock. Dropping the entry on each booking means about one drop a second in July.
- `F3` **disputed**: `availability.py:74` returns before the entry is stored when the list is empty.

Checks: `ruff check .` passed. Commit 85ec00d34e.

</details>

<details>
<summary>Round 2 in their words</summary>

**codex** did not approve. One finding is fixed, one conceded, and there is a new one.

- `F1` resolved: the season is in the key, and the test covers the first of April.
- `F2` open: the second check prevents the double sale. The late refusal stays.
- `F3` resolved, conceded: [`src/tidebook/availability.py:74`](https://github.com/tidemark-coop/tidebook/blob/85ec00d34e9f8410f0e46afed6f252d83f6aa92a/src/tidebook/availability.py#L74) does return first.
- `F4` minor, [`src/tidebook/office/board.py:40`](https://github.com/tidemark-coop/tidebook/blob/85ec00d34e9f8410f0e46afed6f252d83f6aa92a/src/tidebook/office/board.py#L40): the office page shows the cached list too. Suggestion: `fresh=True`.

**claude** disputes both.

- `F2` **disputed**: no berth is sold twice, see `booking.py:133`. A refusal is what happens today when two people pay in the same second.
- `F4` **disputed**: the page polls every 5 seconds, and the cache was made for it.

</details>

<details>
<summary>Round 3 in their words</summary>

**codex** did not approve. Both points stand.

- `F2` open: today the refusal needs the same second. With the cache it needs the same minute, see [`src/tidebook/availability.py:86`](https://github.com/tidemark-coop/tidebook/blob/85ec00d34e9f8410f0e46afed6f252d83f6aa92a/src/tidebook/availability.py#L86).
- `F4` open: a radio call is answered from this page.

**claude** disputes both.

- `F2` **disputed**: true, and whether that is acceptable is a decision about the product.
- `F4` **disputed**: nine offices with `fresh=True` are the load that the cache removes.

</details>

<details>
<summary>Round 4 in their words</summary>

**codex** did not approve. Neither point can be settled from the code.

- `F2` open: it needs a person's word.
- `F4` open: it needs a number from the access log.

</details>

codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) wrote · base 3b79ba38d6 · 17 min · $2.08 · read 6 of 6 files · run `m4x8t1bz`
"""  # noqa: E501 - a comment as it is posted

STOPPED = """\
## Debate: codex ⇄ claude

⚠️ **Stopped** in round 2: codex gave no verdict in 3 attempts. No agreement.

**The cause is not in this pull request.** The provider of codex says: `429 insufficient_quota: Quota exceeded. Check your plan and billing details.`

**To go on:** the operator of this server adds credit to the account behind `OPENAI_API_KEY`. Then write `/codex-debate review`.
**Do not push yet:** round 1's commit 5d4463e4d4 is kept, but codex has not looked at it.

| | Finding | Outcome |
|:--|:--|:--|
| F1 | A retry after a timeout charges the card twice<br>blocking, [`retry.py:118`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L118) | fixed, unreviewed<br>5d4463e4d4 |
| F2 | The row lock is held while the bank answers<br>major, [`retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L97) | disputed by claude |
| F3 | Retries go on after the berth was given away<br>major, [`schedule.py:64`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/schedule.py#L64) | disputed by claude |

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex raised F1, F2 and F3. claude fixed F1, disputed F2 and F3. | 5d4463e4d4 |
| 2 | codex did not answer (3 attempts, 5 s and 10 s apart). | none |

<details>
<summary>Round 1 in their words</summary>

**codex** did not approve. Two paths can take money that is not owed.

- `F1` blocking, [`src/tidebook/renewals/retry.py:118`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L118): `attempt()` makes a new idempotency key on every call. Suggestion: derive it from the renewal and its period.
- `F2` major, [`src/tidebook/renewals/retry.py:97`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/retry.py#L97): the row lock seems to stay open across the call to the bank.
- `F3` major, [`src/tidebook/renewals/schedule.py:64`](https://github.com/tidemark-coop/tidebook/blob/db511f0cf3faf43060bd7350425e61c3742d0665/src/tidebook/renewals/schedule.py#L64): `due()` does not look at the berth's holder.

**claude** fixed the double charge, and disputes two points.

- `F1` **fixed**: the key is written with the claim at `retry.py:92`.
- `F2` **disputed**: the claim is committed at `retry.py:97`, before the call at line 118.
- `F3` **disputed**: `renew_all()` drops cancelled berths first, see `schedule.py:41`.

Checks: `ruff check .` passed. Commit 5d4463e4d4.

</details>

codex (gpt-6.1-sol, effort `xhigh`) reviewed, claude (claude-sonnet-5) wrote · base 3b79ba38d6 · 5 min · $0.66 · read 14 of 15 files, skipped `uv.lock` (generated) · run `w5j1r6kd`
"""  # noqa: E501 - a comment as it is posted


def test_a_clean_change(clean: Report) -> None:
    assert render_comment(clean) == CLEAN


def test_consensus(consensus: Report) -> None:
    assert render_comment(consensus) == CONSENSUS


def test_unresolved(unresolved: Report) -> None:
    assert render_comment(unresolved) == UNRESOLVED


def test_stopped(stopped: Report) -> None:
    assert render_comment(stopped) == STOPPED


@pytest.mark.parametrize("name", ["clean", "consensus", "unresolved", "stopped"])
def test_the_same_report_gives_the_same_bytes(name: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(name)
    assert render_comment(report) == render_comment(report)


# ---- Other states ---------------------------------------------------------------------------------------------------


def line(report: Report, number: int = 2) -> str:
    return render_comment(report).split("\n")[number]


def test_under_way(consensus: Report) -> None:
    first, second, _ = consensus.record.rounds
    half = replace(second, section=None, edited=None, author=None)
    live = Live(2, "author", "claude", "answering", 8, 1, "14:07", "14:06", 1.03)
    shown = render_comment(replace(consensus, record=Record((first, half)), status=None, live=live))
    assert shown.split("\n")[2] == (
        "**Under way** on db511f0cf3, round 2 of at most 6: 3 of 5 findings are settled, F3 and F5 are open. "
        "Nothing to do yet."
    )
    assert "| 2 | codex accepted F1, conceded F2, deferred F4, kept F3 and F5. | |" in shown
    assert "To take" not in shown


def test_under_way_at_the_end_of_round_1(consensus: Report) -> None:
    shown = render_comment(replace(consensus, record=Record(consensus.record.rounds[:1]), status=None))
    assert shown.split("\n")[2].startswith("**Under way** on db511f0cf3, round 2 of at most 6: 0 of 5 findings are")
    assert "fixed, unreviewed<br>5d4463e4d4" in shown
    assert "disputed by claude |" in shown


def test_under_way_names_stop_where_this_version_has_it(consensus: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.outputs.words.available", lambda verb: True)
    assert line(replace(consensus, status=None)).endswith("Nothing to do yet; to end it, write `/codex-debate stop`.")


def all_conceded(report: Report) -> Report:
    first = report.record.rounds[0]
    assert first.verdict is not None
    found = first.verdict.findings[1:3]
    argued = Section("", "disputes both.", tuple(Said(each.id, Word.DISPUTED, "it is meant so.") for each in found))
    done = tuple(each.model_copy(update={"status": "resolved", "issue": "that is so."}) for each in found)
    rounds = (
        Round(1, Verdict(approved=False, summary="Two.", findings=found, response_to_rebuttal=""), None, argued),
        Round(2, Verdict(approved=True, summary="Fine.", findings=done, response_to_rebuttal="")),
    )
    return replace(report, record=Record(rounds), tip=None, pushed=False)


def test_all_conceded(consensus: Report) -> None:
    shown = render_comment(all_conceded(consensus))
    assert shown.split("\n")[2] == "✅ **Consensus** on db511f0cf3 after 2 rounds: 2 findings, both conceded."
    assert "To take" not in shown
    assert "- `F2` resolved, conceded: that is so." in shown
    assert "| 2 | codex conceded both, found nothing new. | none |" in shown


def test_what_lint_left_is_told_in_the_badge(consensus: Report) -> None:
    report = all_conceded(consensus)
    first, second = report.record.rounds
    assert first.section is not None
    left = Section(
        "",
        "fixed none.",
        tuple(replace(each, text="no automatic fix: for a person.") for each in first.section.positions),
    )
    lint = Seat(agent="lint")
    task = report.task.model_copy(update={"seats": {"reviewer": lint, "author": lint}})
    shown = render_comment(replace(report, task=task, record=Record((replace(first, section=left), second))))
    assert shown.split("\n")[0] == "## Debate: lint ⇄ lint"
    assert shown.split("\n")[2].endswith("after 2 rounds: 2 findings left to a person.")
    assert shown.split("\n")[4] == (
        "Both seats are lint: agreement between two different providers is the stronger signal."
    )
    assert "| left to a person |" in shown


PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = '```'\n"


def uncommitted(report: Report, text: str = PATCH) -> Report:
    rounds = tuple(
        replace(each, edited=replace(each.edited, commit=None)) if each.edited else each
        for each in report.record.rounds
    )
    patch = Patch(text, files=1, lines=2, ids=("F1", "F3", "F5"))
    return replace(report, record=Record(rounds), tip=None, pushed=False, patch=patch)


def test_without_commits_the_patch_stands_in_the_comment(consensus: Report) -> None:
    shown = render_comment(uncommitted(consensus))
    assert shown.split("\n")[2].endswith("**The fixes are offered here; nothing was pushed.**")
    assert "**To take them:** copy the patch below, run `git apply`, paste it, and press Ctrl-D.\n" in shown
    block = f"<details open>\n<summary>Patch for F1, F3 and F5 (1 file, 2 lines)</summary>\n\n````diff\n{PATCH}````\n"
    assert block in shown
    assert "| fixed<br>patch |" in shown
    assert "fixed F5 in part, disputed F2, F3 and F4. | patch |" in shown
    assert "5d4463e4d4" not in shown


def test_a_long_patch_stands_in_the_check_run(consensus: Report) -> None:
    shown = render_comment(uncommitted(consensus, PATCH + " line\n" * 4_000))
    url = consensus.check_url
    assert f"**To take them:** copy the patch in the [check run]({url}), run `git apply`, paste it" in shown
    assert "<details open>" not in shown


def test_a_patch_that_cannot_be_shown_says_why(consensus: Report) -> None:
    shown = render_comment(uncommitted(consensus, PATCH + "+\u202e\n"))
    assert (
        "**To take them:** the patch is not shown here: it holds characters that would not survive. Write the command "
        "again without `--no-commit`, and the fixes come as commits on a branch."
    ) in shown


def test_a_round_that_could_not_be_committed(consensus: Report) -> None:
    first, second, third = consensus.record.rounds
    assert second.edited is not None
    gap = replace(second, edited=replace(second.edited, commit=None, gap="the push was refused"))
    record = Record((first, gap, third))
    report = replace(
        consensus, record=record, status=Status.COMMIT_INCOMPLETE, tip=first.edited.commit if first.edited else None
    )
    shown = render_comment(report)
    assert shown.split("\n")[2].startswith(
        "⚠️ **Commit incomplete** on db511f0cf3 after 3 rounds: both sides agree, but round 2 could not be committed."
    )
    assert "\n**Not committed:** round 2, the push was refused.\n" in shown
    assert "which holds exactly this [1 commit](" in shown
    assert "found nothing new. | none |" in shown
    assert "fixed F3 and F5. | not committed |" in shown
    assert "Not committed: the push was refused." in shown


def test_a_round_that_left_a_finding_unanswered(consensus: Report) -> None:
    first, second, third = consensus.record.rounds
    assert second.section is not None
    quiet = replace(second.section, positions=second.section.positions[1:], missing=("F3",))
    record = Record((first, replace(second, section=quiet), third))
    shown = render_comment(replace(consensus, record=record, status=Status.SECTION_INCOMPLETE))
    assert shown.split("\n")[2].startswith(
        "⚠️ **Section incomplete** on db511f0cf3 after 3 rounds: both sides agree, but round 2 left F3 unanswered."
    )
    assert "claude fixed F5, left F3 unanswered." in shown


@pytest.mark.parametrize(
    ("reason", "said", "ended"),
    [
        ("rounds", "after 4 rounds, the limit:", "Limit of rounds."),
        ("same state", "after 4 rounds, the last three alike:", "Three rounds alike."),
        ("time", "after 4 rounds, out of time:", "Out of time."),
        ("money", "after 4 rounds, ceiling reached, $10.00 may be spent:", "Ceiling reached: out of money."),
        (
            "day",
            "after 4 rounds, ceiling reached, the money for today is spent:",
            "Ceiling reached: out of money for today.",
        ),
        (
            "calls",
            "after 4 rounds, ceiling reached, one turn called its model too often:",
            "Ceiling reached: too many calls.",
        ),
    ],
)
def test_each_backstop_is_named(unresolved: Report, reason: str, said: str, ended: str) -> None:
    shown = render_comment(replace(unresolved, reason=reason))
    assert said in shown.split("\n")[2]
    assert f"codex kept F2 and F4. {ended} | none |" in shown


def test_without_cruxes_their_lines_are_left_out(unresolved: Report) -> None:
    shown = render_comment(replace(unresolved, record=replace(unresolved.record, cruxes=())))
    assert "Crux" not in shown
    assert "Question" not in shown
    assert "2. Then decide F2 and F4, and a new debate starts from your decision:\n" in shown
    assert '   /codex-debate --rationale "F2 …, F4 …"\n' in shown
    assert "- **codex** (major): a berth that was booked stays in the list for 60 s." in shown


def test_without_a_commit_to_take_the_question_stands_alone(unresolved: Report) -> None:
    shown = render_comment(replace(unresolved, pushed=False))
    assert (
        "**To go on:** answer the two questions below in a word each, and a new debate starts from your answers:\n\n"
        '```\n/codex-debate --rationale "F2 no, F4 yes"\n```\n'
    ) in shown


@pytest.mark.parametrize(
    ("status", "badge"),
    [
        (
            Status.SUPERSEDED,
            (
                "⚠️ **Ended** in round 2: `retry-renewals` moved on. No agreement. To have the new head reviewed, write "
                "`/codex-debate review`."
            ),
        ),
        (
            Status.STOPPED,
            (
                "⚠️ **Stopped** in round 2: a maintainer ended it. No agreement. To start over, write "
                "`/codex-debate review`."
            ),
        ),
        (Status.CLOSED, "⚠️ **Ended** in round 2: the pull request was closed. No agreement."),
        (
            Status.AUTHORISATION_WITHDRAWN,
            (
                "⚠️ **Ended** in round 2: the person who started this debate can no longer write here. No agreement. To "
                "go on, somebody who can writes `/codex-debate review`."
            ),
        ),
        (
            Status.STATE_LOST,
            (
                "⚠️ **Lost** in round 2: the store forgot this debate. No agreement. To start over, write "
                "`/codex-debate review`."
            ),
        ),
        (
            Status.TIMED_OUT,
            "⚠️ **Lost** in round 2: the worker went away. No agreement. To start over, write `/codex-debate review`.",
        ),
    ],
)
def test_an_end_from_outside_changes_the_badge_and_keeps_the_rounds(
    stopped: Report, status: Status, badge: str
) -> None:
    shown = render_comment(replace(stopped, status=status, reason="", hint="", failed_seat="", attempts=0))
    assert shown.split("\n")[2] == badge
    assert "<summary>Round 1 in their words</summary>" in shown


def test_an_author_that_ends_without_an_answer(consensus: Report) -> None:
    first, second, _ = consensus.record.rounds
    half = replace(second, section=None, edited=None, author=None)
    report = replace(
        consensus,
        record=Record((first, half)),
        status=Status.AGENT_ERROR,
        reason="claude ended without a word",
        failed_seat="author",
        attempts=3,
    )
    shown = render_comment(report)
    assert shown.split("\n")[2] == "⚠️ **Stopped** in round 2: claude gave no answer in 3 attempts. No agreement."
    assert "**The cause is not in this pull request.** claude ended without a word.\n" in shown
    assert "kept F3 and F5. claude did not answer (3 attempts, 5 s and 10 s apart). | none |" in shown
    assert "Do not push yet" not in shown


def test_an_older_comment_is_folded_to_its_header(consensus: Report) -> None:
    url = "https://github.com/tidemark-coop/tidebook/pull/412#issuecomment-3349004417"
    assert folded(consensus, url) == (
        "## Debate: codex ⇄ claude\n\n✅ **Consensus** on db511f0cf3 after 3 rounds. There is a "
        f"[newer debate]({url}).\n"
    )


def test_a_finding_that_came_back(consensus: Report) -> None:
    first, second, third = consensus.record.rounds
    assert second.verdict is not None
    again = second.verdict.findings[0].model_copy(update={"status": "open", "issue": "it came back."})
    back = Round(3, Verdict(approved=False, summary="One is back.", findings=(again,), response_to_rebuttal=""))
    shown = render_comment(
        replace(consensus, record=Record((first, second, back)), status=Status.UNRESOLVED, reason="time")
    )
    assert "| **open**, reopened in round 3 |" in shown
    assert "| 3 | codex reopened F1. Out of time. | none |" in shown
    assert "- `F1` open: it came back." in shown
    assert third.verdict is not None


def test_the_answer_to_the_arguments_and_what_was_put_back_are_shown(consensus: Report) -> None:
    first, *rest = consensus.record.rounds
    assert first.verdict is not None
    assert first.edited is not None
    said = first.verdict.model_copy(update={"response_to_rebuttal": "I see."})
    edited = replace(first.edited, refused=(Refusal(".github/x.yml", "a protected path"),))
    shown = render_comment(replace(consensus, record=Record((replace(first, verdict=said, edited=edited), *rest))))
    assert "\n**codex** on the answers: I see.\n" in shown
    assert "Put back: `.github/x.yml` (a protected path). Commit 5d4463e4d4." in shown


# ---- When it does not fit, and when an agent means harm -------------------------------------------------------------


def long_debate(report: Report, rounds: int, words: int, findings: int = 1) -> Report:
    def found(number: int, status: str) -> Sequence[Finding]:
        return [
            Finding.model_validate(
                {
                    "id": f"F{each}",
                    "title": "t" * 60,
                    "severity": "major",
                    "location": f"src/{'p' * 60}.py:{each}",
                    "issue": f"round {number}: " + "word " * words,
                    "suggestion": "",
                    "status": status,
                },
            )
            for each in range(1, findings + 1)
        ]

    told = [
        Round(
            number,
            Verdict(approved=False, summary="No.", findings=tuple(found(number, "open")), response_to_rebuttal=""),
            Turn(),
            Section("", "disputes it.", tuple(Said(each.id, Word.DISPUTED, "no.") for each in found(number, "open"))),
            Edited((), "1" * 40),
            Turn(),
        )
        for number in range(1, rounds + 1)
    ]
    return replace(report, record=Record(tuple(told)), status=Status.UNRESOLVED, reason="time", tip=None, pushed=False)


def test_the_oldest_rounds_move_to_the_check_run(consensus: Report) -> None:
    shown = render_comment(long_debate(consensus, rounds=9, words=2_500))
    assert len(shown.encode()) <= LIMIT
    moved = f"Rounds 1 to 5 in their words: in the [check run]({consensus.check_url})."
    assert f"\n\n{moved}\n\n<details>\n<summary>Round 6 in their words</summary>" in shown
    assert shown.count("<summary>") == 4


def test_one_round_that_moves_is_told_in_the_singular(consensus: Report) -> None:
    shown = render_comment(long_debate(consensus, rounds=5, words=2_200))
    assert "\nRound 1 in their words: in the [check run](" in shown


def test_many_findings_are_cut_and_counted(consensus: Report) -> None:
    shown = render_comment(long_debate(consensus, rounds=1, words=10, findings=400))
    assert len(shown.encode()) <= LIMIT
    assert "200 more findings: in the [check run](" in shown
    assert shown.endswith("· run `7h2kq9xw`\n")


def test_findings_stand_by_number_and_not_by_letter(consensus: Report) -> None:
    shown = render_comment(long_debate(consensus, rounds=1, words=1, findings=11))
    ids = [row.split(" ")[1] for row in shown.split("\n") if row.startswith("| F")]
    assert ids == [f"F{number}" for number in range(1, 12)]


def test_a_body_that_is_read_otherwise_is_sent_in_fences(consensus: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comment, "holds", lambda body, skeleton: False)
    shown = render_comment(consensus)
    assert "**codex** did not approve.\n\n```text\nThe worker retries" in shown
    assert "- `F1` **fixed**:\n\n  ```text\n" in shown
    assert holds(shown, {"h2": 1, "table": 2, "details": 3})
