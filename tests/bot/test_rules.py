"""When a debate starts by itself: the rules as a table of facts and decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.config import Auto, BadConfig, Config
from bot.events import Actor
from bot.github.verbs import Account, CheckRun, Permission, PullRequest, RepositoryRef, Side
from bot.options import Review
from bot.policy import Ignore, Start
from bot.rules import ACTIONS, UNSTARTED, Facts, Show, decide
from bot.statuses import Status

HERE, FORK = RepositoryRef(id=42, full_name="octo-org/tidebook"), RepositoryRef(id=43, full_name="hubot/tidebook")
HEAD = "97636d1c2798b76af9ece24afe380354c14a096b"
PULL = PullRequest(
    number=12,
    state="open",
    title="Retry renewals",
    user=Account(id=8, login="octocat"),
    head=Side(ref="retry", sha=HEAD, repo=HERE),
    base=Side(ref="main", sha="b" * 40, repo=HERE),
)
ON = Config(auto=Auto(on=("opened",)))
FACTS = Facts(PULL, ON, Permission(level="write", user_id=8))


def pulled(**change: object) -> Facts:
    return replace(FACTS, pull=PULL.model_copy(update=change))


def check(conclusion: str | None = None, external_id: str = "7h2kq9xw") -> CheckRun:
    status = "completed" if conclusion else "in_progress"
    return CheckRun(
        id=1, name="codex-debate", head_sha=HEAD, status=status, conclusion=conclusion, external_id=external_id
    )


def shown(facts: Facts, action: str = "opened") -> Show:
    decision = decide(action, facts)
    assert isinstance(decision, Show), decision
    return decision


def test_an_opened_pull_request_from_inside_is_debated() -> None:
    assert decide("opened", FACTS) == Start(Review(), PULL, "main", authority=Actor(8, "octocat", "User"))


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_each_action_must_be_named(action: str) -> None:
    named = replace(FACTS, config=Config(auto=Auto.model_validate({"on": [action]})))
    assert isinstance(decide(action, named), Start)
    for other in ACTIONS - {action}:
        assert decide(other, named) == Ignore("automatic debates are off")


@pytest.mark.parametrize("config", [None, Config(), Config(auto=Auto(on=("reopened",)))])
def test_without_a_word_in_the_file_nothing_starts_and_nothing_is_shown(config: Config | None) -> None:
    assert decide("opened", replace(FACTS, config=config)) == Ignore("automatic debates are off")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, pull=None), "not open"),
        (pulled(state="closed"), "not open"),
        (pulled(state="closed", merged=True), "not open"),
        (pulled(locked=True), "locked"),
    ],
)
def test_what_is_closed_or_locked_is_left_alone(facts: Facts, reason: str) -> None:
    assert decide("opened", facts) == Ignore(reason)


def test_a_draft_is_skipped_and_its_rule_named() -> None:
    show = shown(pulled(draft=True))
    assert (show.status, show.conclusion, show.title) == (
        Status.SKIPPED,
        "skipped",
        "Skipped: draft (auto.drafts is off)",
    )
    assert show.summary == (
        "This pull request is a draft; nothing was started. Mark it as ready for review, then write `/codex-debate "
        "review`."
    )
    by_itself = Config(auto=Auto(on=("opened", "ready_for_review")))
    assert shown(replace(pulled(draft=True), config=by_itself)).summary.endswith(
        "ready for review, and the debate starts."
    )
    drafts = Config(auto=Auto(on=("opened",), drafts=True))
    assert isinstance(decide("opened", replace(pulled(draft=True), config=drafts)), Start)


def test_a_base_that_is_not_named_is_skipped() -> None:
    show = shown(replace(FACTS, config=Config(auto=Auto(on=("opened",), base=("release/*",)))))
    assert (show.status, show.conclusion) == (Status.SKIPPED, "skipped")
    assert show.title == "Skipped: its base (not named in auto.base)"
    assert show.summary.startswith("`auto.base` does not name `main`; nothing was started.")


@pytest.mark.threat(59, 60, 61)
@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, author_permission=None),
        replace(FACTS, author_permission=Permission(level="read", user_id=8)),
        replace(FACTS, author_permission=Permission(level="write", user_id=9)),
        pulled(user=None),
        pulled(head=Side(ref="retry", sha=HEAD, repo=FORK)),
        pulled(head=Side(ref="retry", sha=HEAD, repo=None)),
    ],
)
def test_an_outsiders_waits_for_approval_of_its_commit(facts: Facts) -> None:
    show = shown(facts)
    assert (show.status, show.conclusion) == (Status.WAITING_APPROVAL, "neutral")
    assert show.title == "Waiting for a maintainer's approval"
    assert f"/codex-debate approve {HEAD}\n" in show.summary
    approved = decide("opened", replace(facts, approver=Actor(7, "mona", "User")))
    assert isinstance(approved, Start)
    assert (approved.authority.login, approved.approved, approved.approves) == ("mona", True, False)


def test_a_file_with_a_fault_is_shown_at_every_action() -> None:
    show = shown(replace(FACTS, config=BadConfig(7, "there is no key `x`")), "reopened")
    assert (show.status, show.conclusion) == (Status.BAD_CONFIG, "neutral")
    assert show.title == "Not started: error in codex-debate.yml, line 7"
    assert "Line 7: there is no key `x`. Correct it on `main`" in show.summary


@pytest.mark.parametrize("conclusion", [None, "success", "action_required", "neutral"])
def test_a_commit_is_debated_once(conclusion: str | None) -> None:
    assert decide("opened", replace(FACTS, checks=(check(conclusion),))) == Ignore("the head was debated")


@pytest.mark.parametrize("conclusion", ["cancelled", "failure", "skipped", "stale", "timed_out"])
def test_but_again_where_that_came_to_nothing(conclusion: str) -> None:
    assert isinstance(decide("opened", replace(FACTS, checks=(check(conclusion),))), Start)


def test_what_was_only_shown_hinders_no_debate() -> None:
    waiting = check("neutral", f"{UNSTARTED}-42-12-97636d1c27")
    assert isinstance(decide("opened", replace(FACTS, checks=(waiting,))), Start)


def test_nothing_is_shown_on_a_head_that_carries_a_check_run_of_ours() -> None:
    facts = replace(pulled(draft=True), checks=(check("cancelled"),))
    assert decide("opened", facts) == Ignore("the head has a check run; else skipped")
