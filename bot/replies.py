"""Every sentence that the bot itself posts. Pure.

Each says what happened and what to do next, mentions nobody, and is a few lines long. What a person wrote is quoted
back only through `quoted` and `fenced`. Whether a command exists in this version is told by the caller, so that no
sentence points to one that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.redact import redact, visible

QUOTE_LIMIT = 60
"""Characters of what is quoted back in a sentence."""
FENCE_LIMIT = 200
"""Characters of what is quoted back as a line to paste; a longer one gets a place to fill in instead."""

BREAKER = "\N{ZERO WIDTH SPACE}"
"""Stands behind a mark that a mail client might take for the beginning of a mention or a reference."""

NOTHING = "nothing was started"


def _plain(text: str) -> str:
    """Return text as one line in which nothing can end a code span, and which no mail client turns into a mention."""
    line = redact(" ".join(visible(text).replace("`", "").split()))
    return line.replace("@", f"@{BREAKER}").replace("#", f"#{BREAKER}")


def quoted(text: str, limit: int = QUOTE_LIMIT) -> str:
    """Return what a person wrote as a code span, cut to `limit` characters."""
    line = _plain(text)
    # A mark that lost its breaker to the cut goes with it.
    shown = line if len(line) <= limit else line[: limit - 1].rstrip("@# ") + "…"
    return f"`{shown or '…'}`"


def fenced(line: str) -> str:
    """Return one line as a block that can be copied."""
    return f"```\n{line}\n```"


def short(sha: str) -> str:
    """Return a commit's name as people are shown it."""
    return sha[:10]


# ---- Not understood -------------------------------------------------------------------------------------------------


def unknown_verb(word: str, nearest: str | None) -> str:
    """Answer a verb that does not exist."""
    hint = f" Perhaps you meant `{nearest}`." if nearest else ""
    return f"There is no {quoted(word)}; {NOTHING}.{hint} All commands: `/codex-debate help`."


def unknown_flag(verb: str, flag: str, *, nearest: str | None, without: str) -> str:
    """Answer a flag that the verb does not have.

    `nearest` is our own flag, with the value that was given; `without` is the command of a verb that has no flags.
    """
    hint = f"Write it without: `{without}`." if without else f"Its flags: `/codex-debate help {verb}`."
    hint = f"Perhaps you meant {quoted(nearest)}." if nearest else hint
    return f"`{verb}` has no flag {quoted(flag)}; {NOTHING}. {hint}"


def bad_value(flag: str, takes: str, example: str) -> str:
    """Answer a value that does not fit, or is missing. The value itself is not repeated."""
    return f"`{flag}` takes {takes}; {NOTHING}. For example `{example}`."


def given_twice(flag: str, example: str) -> str:
    """Answer a repeated flag."""
    return f"`{flag}` is given twice; {NOTHING}. Give it once, for example `{example}`."


def takes_nothing(flag: str) -> str:
    """Answer a value for a flag that has none."""
    return f"`{flag}` takes no value; {NOTHING}. Write `{flag}` alone to switch it on."


def open_quote() -> str:
    """Answer a quoted text that does not end on its line, or that runs into the next word."""
    return (
        f"A quoted text does not end where a space follows; {NOTHING}. Write it on one line between two quotation "
        'marks, for example `/codex-debate review --rationale "the retry is deliberate"`.'
    )


def unexpected(verb: str, word: str, *, without: str) -> str:
    """Answer a word where none is expected. `without` is the command of a verb that has no flags."""
    hint = (
        f"Text of several words goes between quotation marks behind its flag; the flags: `/codex-debate help {verb}`."
    )
    hint = f"Write it without: `{without}`." if without else hint
    return f"`{verb}` does not take {quoted(word)}; {NOTHING}. {hint}"


def one_only(verb: str, what: str) -> str:
    """Answer two of what a command takes one of: pull requests, commits."""
    return f"`{verb}` takes one {what}; {NOTHING}. Write a comment for each."


def too_long(what: str, limit: int, *, unit: str = "characters") -> str:
    """Answer a command line, or a comment with one, that is too long. It is not repeated."""
    return f"The {what} is longer than {limit:,} {unit}; {NOTHING}. Shorten it and write it again."


def too_long_text(verb: str, limit: int) -> str:
    """Answer a prompt that is too long. It is not repeated."""
    return (
        f"The text behind `{verb}` is longer than {limit:,} characters; {NOTHING}. Shorten it, or put it into a file "
        "of the repository and name the file."
    )


def which_one(prose: str, *, answer: bool) -> str:
    """Answer prose without a verb. `answer` says whether this version answers questions."""
    line = _plain(prose)
    # A line with a breaker in it would not be pasted as it was written.
    whole = 0 < len(line) <= FENCE_LIMIT and BREAKER not in line
    question = f"/codex-debate answer {line}" if whole else "/codex-debate answer …"
    head = "Review the change, or answer the question? Nothing was started."
    if not answer:
        return (
            f"{head} To review it, write:\n\n{fenced('/codex-debate review')}\n\nQuestions (`/codex-debate answer`) "
            "are not in this version."
        )
    return f"{head} Write one of these:\n\n{fenced('/codex-debate review')}\n\n{fenced(question)}"


def two_commands(first: str, second: str) -> str:
    """Answer several commands in one comment."""
    return (
        f"Two commands in one comment; {NOTHING}. Write {quoted(first)} and {quoted(second)} in a comment each."
        if _plain(first) != _plain(second)
        else f"{quoted(first)} stands twice in one comment; {NOTHING}. Write it once."
    )


def needs_pull_request() -> str:
    """Answer a review that was asked for on an issue."""
    return f"A review needs a pull request; {NOTHING}. Name one: `/codex-debate review 412`."


def not_in_this_version(what: str, available: Sequence[str]) -> str:
    """Answer a command that exists in the design and not in this version."""
    *others, last = (f"`{name}`" for name in available)
    there = f"{', '.join(others)} and {last}" if others else last
    return f"`{what}` is not in this version; {NOTHING}. What is there: {there}."


def no_push_flag() -> str:
    """Answer `--push`."""
    return (
        f"`--push` is not in this version; {NOTHING}. Without it the commits go to a branch of their own, and the "
        "comment says how to take them: `/codex-debate review`."
    )


# ---- Not allowed ----------------------------------------------------------------------------------------------------


def no_permission() -> str:
    """Answer somebody who cannot write here."""
    return (
        f"Debates are started by people who can write to this repository; {NOTHING}. Ask one of them to write the "
        "command. `/codex-debate help` is open to you."
    )


def from_outside(head_sha: str, *, elsewhere: int | None = None) -> str:
    """Answer a command on an outsider's pull request; `elsewhere` is its number where the command stands not on it.

    The line to paste names the whole commit: two commits that begin alike can be made within seconds (threats.md T7).
    """
    where = "write" if elsewhere is None else f"write on pull request {elsewhere}"
    return (
        "This pull request comes from outside, so a debate needs a maintainer's approval of exactly this commit. "
        f"After reading the change, {where}:\n\n{fenced(f'/codex-debate approve {head_sha}')}"
    )


def not_the_head(sha: str, head_sha: str) -> str:
    """Answer the approval of another commit than the head."""
    return (
        f"{short(sha)} is not the head of this pull request; {NOTHING}. The head is now {short(head_sha)}. After "
        f"reading it, write:\n\n{fenced(f'/codex-debate approve {head_sha}')}"
    )


def approve_elsewhere() -> str:
    """Answer an approval that stands on an issue."""
    return f"An approval stands on the pull request that it is about; {NOTHING}. Write it there."


def approved_by_persons() -> str:
    """Answer a bot's approval."""
    return f"A commit from outside is approved by a person who has read it; {NOTHING}. Ask a maintainer to approve it."


def not_served(full_name: str) -> str:
    """Answer a repository that this server does not serve."""
    return (
        f"This server does not work for `{full_name}`; {NOTHING}. Its operator can add the repository to "
        "`CODEX_DEBATE_ALLOW`."
    )


# ---- Not possible here ----------------------------------------------------------------------------------------------


def no_such_pull_request(number: int) -> str:
    """Answer a number that is no pull request of this repository."""
    return f"There is no pull request {number} here; {NOTHING}. Write the command on the pull request itself."


def unreadable(answer: str) -> str:
    """Answer a review for which GitHub does not show the pull request, its author's permission or the base."""
    return (
        f"GitHub did not show this App what a review needs ({quoted(answer, 120)}); {NOTHING}. Check in the settings "
        "of the installation that the permissions of `app.yml` are accepted, then write the command again."
    )


def not_open(number: int, *, merged: bool) -> str:
    """Answer a command about a pull request that has ended."""
    if merged:
        return f"Pull request {number} is merged; {NOTHING}. Write the command on one that is open."
    return f"Pull request {number} is closed; {NOTHING}. Reopen it, then write the command again."


def another_reviewer(others: Sequence[str]) -> str:
    """Return the next step where a reviewer can read nothing of a change; `others` could be asked instead."""
    if not others:
        return "No other reviewer starts in this version."
    return f"Ask another reviewer: `/codex-debate review --reviewer {others[0]}`."


def nothing_to_review(head: str, base: str, *, reason: str = "", hint: str = "") -> str:
    """Reply to a review without anything to review: no change, or with a `reason` none for this reviewer."""
    if reason:
        return f"{reason[:1].upper()}{reason[1:]}; {NOTHING}. {hint}".rstrip()
    example = "For another base write `/codex-debate review --base BRANCH`."
    return f"{quoted(head, 100)} holds no change against {quoted(base, 100)}; {NOTHING}. {example}"


def locked(number: int) -> str:
    """Answer a command about a locked pull request."""
    return f"Pull request {number} is locked; {NOTHING}. Unlock it, then write the command again."


def draft(number: int, base: str) -> str:
    """Answer a command about a draft. `base` is its base branch."""
    return (
        f"Pull request {number} is a draft; {NOTHING}. Mark it as ready for review, then write the command again. To "
        f"have drafts debated, set `auto.drafts: true` in `.github/codex-debate.yml` on {quoted(base, 100)}."
    )


def bad_config(base: str, line: int, fault: str, *, command: str = "the command again") -> str:
    """Answer a command where the repository's file cannot be used. `fault` is a clause of our own."""
    return (
        f"`.github/codex-debate.yml` on {quoted(base, 100)} has an error; {NOTHING}. Line {line}: {fault}. Correct it "
        f"on {quoted(base, 100)}, then write {command}."
    )


def no_such_base(name: str, base: str) -> str:
    """Answer a base that is no branch of this repository. `base` is one that is."""
    return (
        f"This repository has no branch {quoted(name)}; {NOTHING}. Name one that exists, for example "
        f"{quoted('/codex-debate review --base ' + base, 120)}, or leave `--base` out."
    )


# ---- Not now --------------------------------------------------------------------------------------------------------


def _end(text: str, *, stop: bool) -> str:
    return f" {text}" if stop else ""


def _check(url: str | None) -> str:
    return f" ([check run]({url}))" if url else ""


def running(round_: int | None, minute: int, *, url: str | None, stop: bool) -> str:
    """Answer a command that waits behind a running debate."""
    where = f"round {round_}, minute {minute}" if round_ else f"minute {minute}"
    return f"A review is running: {where}{_check(url)}. Yours waits and starts by itself when it has ended." + _end(
        "To end both: `/codex-debate stop`.", stop=stop
    )


def third(*, stop: bool) -> str:
    """Answer a third command."""
    return "One review is running and one waits; a third is not kept. Write it again when the first has ended" + (
        ", or end both with `/codex-debate stop`." if stop else "."
    )


def repeated(*, url: str | None, ended: bool, stop: bool) -> str:
    """Answer the same words of the same person within ten minutes."""
    if ended:
        return (
            f"That review has just ended{_check(url)}; {NOTHING}. To have the same commit reviewed once more, write "
            "the command again in ten minutes."
        )
    return f"That review is already running{_check(url)}; nothing new was started." + _end(
        "To end it: `/codex-debate stop`.", stop=stop
    )


def github_away() -> str:
    """Answer a command about which GitHub could not be asked in several tries."""
    return (
        f"This server could not ask GitHub about the command, in several tries; {NOTHING}. Write it again in some "
        "minutes. The operator's log has the cause."
    )


# ---- Help -----------------------------------------------------------------------------------------------------------


def help_overview(rows: Sequence[tuple[str, str]], missing: Sequence[str]) -> str:
    """List the commands: what to write and what it does, and the names of those that this version lacks."""
    lines = "\n".join(f"- `{usage}` {says}" for usage, says in rows)
    later = f"\n\nNot in this version: {', '.join(f'`{name}`' for name in missing)}." if missing else ""
    return (
        "Two agents debate until they agree. Write one command a comment, alone on its line.\n\n"
        f"{lines}{later}\n\nThe flags of a command: `/codex-debate help review`."
    )


def help_verb(usage: str, says: str, takes: Sequence[tuple[str, str]], *, here: bool) -> str:
    """Explain one command, its flags and what else it takes. `here` says whether this version carries it out."""
    lines = "".join(f"\n- `{shown}`: {meaning}" for shown, meaning in takes)
    later = "" if here else " It is not in this version."
    return f"`{usage}` {says}.{later}" + (f"\n{lines}" if lines else " It has no flags.")


def help_prompt(says: str, limit: int, *, lines: int) -> str:
    """Explain a prompt: what it is, where it stands, and how long it may be."""
    most = f"at most {limit:,} characters and {lines:,} lines"
    return f"{says}, behind the flags or below the command; {most}, quotation marks are optional"
