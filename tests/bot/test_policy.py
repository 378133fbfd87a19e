"""Who may, where and when: the rules as a table of facts and decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.commands import Command, Reading, Refusal, parse
from bot.config import Auto, BadConfig, Config
from bot.events import Actor, CommentCreated, Repository
from bot.github.verbs import Account, Permission, PullRequest, RepositoryRef, Side
from bot.options import Review, Stop
from bot.policy import Facts, Ignore, Running, Start, Tell, decide, full, hears, inside, repeat, serves, waits

MONA, OTHER = Actor(7, "mona", "User"), Actor(9, "maintainer", "User")
HELPER = Actor(226755743, "helper[bot]", "Bot")
EVENT = CommentCreated(
    installation_id=3,
    repository=Repository(42, "octo-org/tidebook"),
    owner_id=5,
    number=12,
    on_pull_request=True,
    comment_id=99,
    text="/codex-debate review",
    author=MONA,
    sender=MONA,
    via_app=False,
)
HERE, FORK = RepositoryRef(id=42, full_name="octo-org/tidebook"), RepositoryRef(id=43, full_name="hubot/tidebook")
PULL = PullRequest(
    number=12,
    state="open",
    title="Retry renewals",
    user=Account(id=8, login="octocat"),
    head=Side(ref="retry", sha="a" * 40, repo=HERE),
    base=Side(ref="main", sha="b" * 40, repo=HERE),
)
WRITER, OCTOCAT = Permission(level="write", user_id=7), Permission(level="write", user_id=8)
FACTS = Facts(served=True, permission=WRITER, pull=PULL, author_permission=OCTOCAT)


def reading(text: str = "/codex-debate review") -> Reading:
    return parse(text, max_rounds=6)


def said(facts: Facts, text: str = "/codex-debate review", event: CommentCreated = EVENT) -> str:
    decision = decide(event, reading(text), facts, max_rounds=6)
    assert isinstance(decision, Tell), decision
    return decision.reply


# ---- Whom we hear ---------------------------------------------------------------------------------------------------


def test_a_person_is_heard() -> None:
    assert hears(EVENT, (), None) is None


@pytest.mark.parametrize(
    ("author", "sender"),
    [
        (Actor(7, "mona", "User"), Actor(8, "octocat", "User")),  # the sender is not the author
        (Actor(7, "evil[bot]", "Bot"), None),
        (Actor(7, "dependabot[bot]", "Bot"), None),
        (Actor(7, "octo-org", "Organization"), None),
        (Actor(7, "ghost", "Mannequin"), None),
    ],
)
def test_others_are_not(author: Actor, sender: Actor | None) -> None:
    assert hears(replace(EVENT, author=author, sender=sender or author), (), None) is not None


@pytest.mark.threat("T5", 43)
def test_what_was_written_through_an_app_is_not() -> None:
    assert hears(replace(EVENT, via_app=True), (), None) == Ignore("written through an App")


@pytest.mark.threat("T6", 42, 64, 65)
def test_a_bot_is_heard_by_its_number_alone_and_we_never_hear_ourselves() -> None:
    bot = Actor(226755743, "helper[bot]", "Bot")
    event = replace(EVENT, author=bot, sender=bot, via_app=True)
    assert hears(event, {226755743}, 1) is None
    assert hears(event, {26755}, 1) == Ignore("a bot")
    assert hears(event, {226755743}, 226755743) == Ignore("our own comment")


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ((), False),
        (("octo-org",), True),
        (("OCTO-ORG",), True),
        (("octo-*",), True),
        (("octo-org/tidebook",), True),
        (("octo-org/tide*",), True),
        (("*/tidebook",), True),
        (("octo",), False),
        (("octo-org/tide",), False),
        (("tidebook",), False),
        (("other", "*"), True),
    ],
)
def test_the_operators_list(allow: tuple[str, ...], expected: bool) -> None:
    assert serves("octo-org/tidebook", 5, allow=allow, app_owner_id=4) is expected


def test_without_a_list_the_app_owners_account_is_served_by_its_number() -> None:
    assert serves("octo-org/tidebook", 5, allow=(), app_owner_id=5)
    assert not serves("octo-org/tidebook", 5, allow=(), app_owner_id=0)


# ---- What we decide -------------------------------------------------------------------------------------------------


def test_a_review_starts() -> None:
    assert decide(EVENT, reading(), FACTS, max_rounds=6) == Start(Review(), PULL, "main", MONA)
    based = decide(EVENT, reading("/codex-debate --base dev"), FACTS, max_rounds=6)
    assert isinstance(based, Start)
    assert based.base == "dev"


@pytest.mark.threat(54)
def test_a_draft_is_refused_unless_the_configuration_says_otherwise() -> None:
    facts = replace(FACTS, pull=PULL.model_copy(update={"draft": True}))
    assert said(facts) == (
        "Pull request 12 is a draft; nothing was started. Mark it as ready for review, then write the command again. "
        "To have drafts debated, set `auto.drafts: true` in `.github/codex-debate.yml` on `main`."
    )
    drafts = replace(facts, config=Config(auto=Auto(drafts=True)))
    assert isinstance(decide(EVENT, reading(), drafts, max_rounds=6), Start)


@pytest.mark.parametrize("text", ["/codex-debate review", f"/codex-debate approve {'a' * 10}"])
def test_a_configuration_with_a_fault_starts_nothing(text: str) -> None:
    assert said(replace(FACTS, config=BadConfig(7, "there is no key `x`")), text) == (
        "`.github/codex-debate.yml` on `main` has an error; nothing was started. Line 7: there is no key `x`. Correct "
        "it on `main`, then write the command again."
    )


def test_no_command_is_ignored() -> None:
    assert decide(EVENT, None, FACTS, max_rounds=6) == Ignore("no command")


@pytest.mark.parametrize(
    "permission",
    [
        None,
        Permission(level="none", user_id=7),
        Permission(level="read", user_id=7),
        Permission(level="write", user_id=8),  # the login belongs to somebody else by now
        Permission(level="admin", user_id=0),
    ],
)
@pytest.mark.parametrize("text", ["/codex-debate review", "/codex-debate reviw", "/codex-debate stop", "/lens-debate"])
def test_who_cannot_write_starts_nothing_and_is_told_once_a_day(permission: Permission | None, text: str) -> None:
    decision = decide(EVENT, reading(text), replace(FACTS, permission=permission), max_rounds=6)
    assert isinstance(decision, Tell)
    assert decision.reply.startswith("Debates are started by people who can write to this repository")
    assert (decision.once, decision.seconds) == ("no-permission:42:12", 86400)
    assert decision.reaction == "confused"


@pytest.mark.parametrize("level", ["write", "admin"])
def test_who_can_write_may(level: str) -> None:
    permission = Permission.model_validate({"level": level, "user_id": 7})
    assert isinstance(decide(EVENT, reading(), replace(FACTS, permission=permission), max_rounds=6), Start)


def test_help_is_open_to_readers_once_an_hour() -> None:
    decision = decide(EVENT, reading("/codex-debate help"), Facts(served=True), max_rounds=6)
    assert isinstance(decision, Tell)
    assert (decision.reaction, decision.once, decision.seconds) == ("rocket", "help:42:12:7:all", 3600)


@pytest.mark.parametrize(
    "text", ["/codex-debate board", "/codex-debate stop --now", "/lens-debate --foo", "/codex-debate answer"]
)
def test_nobody_is_asked_to_mend_what_this_version_cannot_do(text: str) -> None:
    assert " is not in this version; nothing was started." in said(FACTS, text)


def test_status_is_open_to_readers_too() -> None:
    decision = decide(EVENT, reading("/codex-debate status"), replace(FACTS, permission=None), max_rounds=6)
    assert isinstance(decision, Tell)
    assert decision.reply.startswith("`/codex-debate status` is not in this version")
    assert (decision.once, decision.seconds) == ("help:42:12:7:of status", 3600)


def test_a_repository_that_is_not_served() -> None:
    assert said(Facts(served=False)) == (
        "This server does not work for `octo-org/tidebook`; nothing was started. Its operator can add the repository "
        "to `CODEX_DEBATE_ALLOW`."
    )
    assert said(Facts(served=False), "/codex-debate help").startswith("This server does not work")


def test_a_refusal_of_the_grammar_is_passed_on() -> None:
    assert decide(EVENT, Refusal("No."), FACTS, max_rounds=6) == Tell("No.")


def test_a_verb_of_a_later_version() -> None:
    found = decide(EVENT, Command("stop", Stop(), "/codex-debate stop"), FACTS, max_rounds=6)
    assert isinstance(found, Tell)
    assert found.reply.startswith("`/codex-debate stop` is not in this version; nothing was started.")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"state": "closed"}, "Pull request 12 is closed; nothing was started. Reopen it"),
        ({"state": "closed", "merged": True}, "Pull request 12 is merged; nothing was started."),
        ({"locked": True}, "Pull request 12 is locked; nothing was started."),
        ({"head": Side(ref="retry", sha="a" * 40, repo=FORK)}, "This pull request comes from outside"),
        ({"head": Side(ref="retry", sha="a" * 40, repo=None)}, "This pull request comes from outside"),
        ({"user": None}, "This pull request comes from outside"),
    ],
)
def test_pull_requests_that_are_not_reviewed(change: dict[str, object], part: str) -> None:
    assert said(replace(FACTS, pull=PULL.model_copy(update=change))).startswith(part)


STRANGERS = [None, Permission(level="read", user_id=8), Permission(level="write", user_id=9)]


@pytest.mark.threat(69)
@pytest.mark.parametrize("author", STRANGERS)
def test_an_author_who_cannot_write_is_an_outsider(author: Permission | None) -> None:
    """The reply is the line to paste."""
    assert not inside(PULL, author)
    assert said(replace(FACTS, author_permission=author)) == (
        "This pull request comes from outside, so a debate needs a maintainer's approval of exactly this commit. After "
        "reading the change, write:\n\n```\n/codex-debate approve " + "a" * 40 + "\n```"
    )


def test_the_line_is_to_be_pasted_on_the_pull_request_itself() -> None:
    reply = said(replace(FACTS, author_permission=None), "/codex-debate 12", replace(EVENT, number=99))
    assert "write on pull request 12:\n" in reply


@pytest.mark.parametrize("author", STRANGERS)
def test_an_approved_commit_may_be_debated_by_any_command(author: Permission | None) -> None:
    facts = replace(FACTS, author_permission=author, approver=OTHER)
    start = decide(EVENT, reading("/codex-debate review --max-rounds 2"), facts, max_rounds=6)
    assert start == Start(Review(max_rounds=2), PULL, "main", MONA, approved=True)


@pytest.mark.parametrize("sha", ["a" * 7, "A" * 12, "a" * 40])
def test_an_approval_names_the_head_and_starts_the_debate(sha: str) -> None:
    facts = replace(FACTS, author_permission=None)
    start = decide(EVENT, reading(f"/codex-debate approve {sha}"), facts, max_rounds=6)
    assert start == Start(Review(), PULL, "main", MONA, approved=True, approves=True)


@pytest.mark.parametrize("sha", ["b" * 10, "a" * 39 + "b", "a" * 9 + "b"])
def test_an_approval_of_another_commit(sha: str) -> None:
    assert said(FACTS, f"/codex-debate approve {sha}") == (
        f"{sha[:10]} is not the head of this pull request; nothing was started. The head is now aaaaaaaaaa. After "
        f"reading it, write:\n\n```\n/codex-debate approve {'a' * 40}\n```"
    )


def test_an_approval_on_an_issue() -> None:
    assert said(FACTS, "/codex-debate approve aaaaaaaaaa", replace(EVENT, on_pull_request=False)) == (
        "An approval stands on the pull request that it is about; nothing was started. Write it there."
    )


@pytest.mark.parametrize("permission", [None, Permission(level="read", user_id=7)])
def test_who_cannot_write_cannot_approve(permission: Permission | None) -> None:
    reply = said(replace(FACTS, permission=permission), "/codex-debate approve aaaaaaaaaa")
    assert reply.startswith("Debates are started by people who can write to this repository")


def test_a_base_that_does_not_exist() -> None:
    reply = said(replace(FACTS, base_exists=False), "/codex-debate review --base dev")
    assert reply == (
        "This repository has no branch `dev`; nothing was started. Name one that exists, for example "
        "`/codex-debate review --base main`, or leave `--base` out."
    )


def test_a_review_on_an_issue_needs_a_number() -> None:
    issue = replace(EVENT, on_pull_request=False)
    assert said(FACTS, event=issue) == (
        "A review needs a pull request; nothing was started. Name one: `/codex-debate review 412`."
    )
    assert isinstance(decide(issue, reading("/codex-debate 12"), FACTS, max_rounds=6), Start)


def test_a_number_that_is_no_pull_request() -> None:
    assert said(replace(FACTS, pull=None), "/codex-debate 9").startswith("There is no pull request 9 here")


def test_a_listed_bot_may_command_and_its_debates_stand_on_people() -> None:
    """GitHub tells no permission of an App's bot: the operator's list is it. No bot reads a change."""
    event = replace(EVENT, author=HELPER, sender=HELPER)
    facts = replace(FACTS, permission=None)
    start = decide(event, reading(), facts, max_rounds=6)
    assert start == Start(Review(), PULL, "main", Actor(8, "octocat", "User"))
    outside = replace(facts, author_permission=None)
    assert said(outside, event=event).startswith("This pull request comes from outside")
    approved = decide(event, reading(), replace(outside, approver=OTHER), max_rounds=6)
    assert approved == Start(Review(), PULL, "main", OTHER, approved=True)
    assert said(facts, "/codex-debate approve aaaaaaaaaa", event) == (
        "A commit from outside is approved by a person who has read it; nothing was started. Ask a maintainer to "
        "approve it."
    )


# ---- After the claim ------------------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 1, 12, 8, 30, tzinfo=UTC)
RUNNING = Running(datetime(2026, 3, 1, 12, 0, tzinfo=UTC), 2, "https://github.com/o/r/runs/1", ended=False)


def test_what_is_said_to_those_who_wait() -> None:
    assert waits(RUNNING, NOW) == (
        "A review is running: round 2, minute 8 ([check run](https://github.com/o/r/runs/1)). Yours waits and starts "
        "by itself when it has ended."
    )
    assert waits(replace(RUNNING, round=None, url=None), RUNNING.created_at) == (
        "A review is running: minute 1. Yours waits and starts by itself when it has ended."
    )
    assert full() == (
        "One review is running and one waits; a third is not kept. Write it again when the first has ended."
    )
    assert repeat(RUNNING) == (
        "That review is already running ([check run](https://github.com/o/r/runs/1)); nothing new was started."
    )
    assert repeat(replace(RUNNING, ended=True)).startswith("That review has just ended")
