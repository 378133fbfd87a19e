"""What the bot's own check runs say: those that wait, and those that tell why no debate was started. Pure.

Each has a title and a summary; where a command would get the same answer, the words are those of replies.py.
"""

from __future__ import annotations

from bot import replies


def queued_title(ahead: int) -> str:
    """Return the title of a check run that waits behind `ahead` debates."""
    if ahead < 1:
        return "Queued"
    return f"Queued: {ahead} debate{'s' if ahead > 1 else ''} ahead"


def queued_summary(server_url: str, full_name: str, head_sha: str, *, behind: bool, stop: bool) -> str:
    """Return the summary of a waiting check run; `behind` where it waits for another debate of its pull request."""
    commit = f"[{replies.short(head_sha)}]({server_url}/{full_name}/commit/{head_sha})"
    what = "the debate that runs here to end" if behind else "a free worker"
    back = " To take it back, write `/codex-debate stop`." if stop else ""
    return f"A review of {commit} waits for {what}. Nothing to do.{back}"


def skipped_draft(*, by_itself: bool) -> tuple[str, str]:
    """Return title and summary for a draft; `by_itself`: its debate starts when it is marked as ready."""
    then = ", and the debate starts" if by_itself else ", then write `/codex-debate review`"
    summary = f"This pull request is a draft; {replies.NOTHING}. Mark it as ready for review{then}."
    return "Skipped: draft (auto.drafts is off)", summary


def skipped_base(base: str) -> tuple[str, str]:
    """Return title and summary for a base branch that the configuration does not name."""
    summary = f"`auto.base` does not name {replies.quoted(base, 100)}; {replies.NOTHING}. "
    return (
        "Skipped: its base (not named in auto.base)",
        f"{summary}To start a debate, write `/codex-debate review`.",
    )


def waiting_approval(head_sha: str) -> tuple[str, str]:
    """Return title and summary for an outsider's pull request."""
    return "Waiting for a maintainer's approval", replies.from_outside(head_sha)


def config_error(base: str, line: int, fault: str) -> tuple[str, str]:
    """Return title and summary for a file that cannot be used."""
    return f"Not started: error in codex-debate.yml, line {line}", replies.bad_config(
        base, line, fault, command="`/codex-debate review`"
    )
