"""How a run ended, for the tests of what is shown of it."""

from __future__ import annotations

from dataclasses import replace

from deploy.ending import CommitLine, Result
from deploy.layout import FindingLine

RESULT = Result(
    status="consensus",
    badge="✅",
    headline="Consensus on db511f0cf3 after 3 rounds: 3 findings fixed, 1 conceded, 1 deferred.",
    rounds=3,
    seconds=657,
    usd=1.42,
    conclusion="action_required",
    title="Agreed: 3 fixes wait to be pushed",
    remarks=("The fixes are not on retry-renewals yet.",),
    notes=("Outside this pull request: F4, production has no renewals queue.",),
    findings=(
        FindingLine("F1", "blocking", "A retry after a timeout charges the card twice", "a/retry.py:118", "fixed"),
        FindingLine("F2", "major", "The row lock is held while the bank answers", "a/retry.py:97", "conceded"),
        FindingLine("F3", "major", "Retries go on after the berth was given away", "schedule.py:64", "fixed"),
        FindingLine("F4", "major", "Production has no renewals queue", "settings.py:31", "deferred"),
        FindingLine("F5", "minor", "The wait that the bank asks for is ignored", "retry.py:140", "fixed"),
    ),
    commits=(
        CommitLine(1, "5d4463e4d4f1501e8d93e1be5f4ac721224aab11", "fix: debate round 1 (F1, F5)"),
        CommitLine(2, "6c414d9ad1a80a531fdcd1f7eea5d66ce03e206a", "fix: debate round 2 (F3, F5)"),
    ),
    comment="~/.local/state/codex-debate/try/7h2kq9xw/comment.md",
    repo="~/src/tidebook",
    store="~/.local/state/codex-debate/try/7h2kq9xw",
    branch="codex-debate/7h2kq9xw",
)


def hostile(text: str) -> Result:
    """An end of which every word that others choose is the same."""
    return replace(
        RESULT,
        badge=text,
        headline=text,
        title=text,
        remarks=(text,),
        notes=(text,),
        findings=(FindingLine(text, text, text, text, text),),
        commits=(replace(RESULT.commits[0], subject=text),),
    )
