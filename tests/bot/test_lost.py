"""What is said of a debate that the store has forgotten."""

from __future__ import annotations

from bot import lost

LIVE = """\
## Debate: codex ⇄ claude

**Under way** on [abc](https://example.org/abc), round 2 of at most 6: no findings yet. Nothing to do yet.

| Round | What happened | Commit |
|:--|:--|:--|
| 1 | codex said "**Under way** on abc, round 9 of at most 9". | none |

run `7h2kq9xw`
"""


def test_the_badge_is_replaced_and_every_other_word_is_kept() -> None:
    told = lost.comment(LIVE)
    assert told is not None
    before, after = LIVE.splitlines(), told.splitlines()
    assert after[2].startswith("⚠️ **Lost** in round 2: the store forgot this debate. No agreement.")
    assert "/codex-debate review" in after[2]
    assert before[:2] + before[3:] == after[:2] + after[3:]


def test_what_says_how_it_ended_is_left_alone() -> None:
    assert lost.comment(LIVE.replace("**Under way**", "✅ **Consensus**")) is None
    assert lost.comment("") is None


def test_the_summary_names_the_run_and_what_to_do() -> None:
    assert "`7h2kq9xw`" in lost.summary("7h2kq9xw")
    assert "/codex-debate review" in lost.summary("7h2kq9xw")
