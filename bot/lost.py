"""What is said of a debate that this server has no record of any more. Pure.

Nothing of its state is read from what stands on GitHub: the words of a comment are kept, and its badge is replaced.
"""

from __future__ import annotations

import re

TITLE = "Lost: the store forgot this debate, run it again"
_AGAIN = "Write `/codex-debate review` to have the commit debated again."


def summary(run: str) -> str:
    """Return the summary of a check run that nobody is left to conclude."""
    return (
        f"This server has no record of the debate that was under way here (run `{run}`): its store was emptied, or "
        f"lost. No agreement. {_AGAIN}"
    )


_BADGE = re.compile(r"^\*\*Under way\*\* on [^\n]*?, round (\d{1,3}) of at most [^\n]*$", re.MULTILINE)
"""The badge of a comment while its debate is under way (`worker.outputs.words.badge_line`)."""


def comment(body: str) -> str | None:
    """Return a comment with the badge of a lost debate; None where its own does not say that it is under way."""
    found = _BADGE.search(body)
    if found is None:
        return None
    badge = f"⚠️ **Lost** in round {found[1]}: the store forgot this debate. No agreement. {_AGAIN}"
    return body[: found.start()] + badge + body[found.end() :]
