"""What of a command, a pull request and the settings becomes a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.events import Actor, CommentCreated, Repository
from bot.github.verbs import Account, PullRequest, RepositoryRef, Side
from bot.options import Review
from bot.policy import Start
from bot.request import BODY_CHARACTERS, SOURCE_BYTES, Stamp, by_command, by_itself, text_key
from bot.settings import Settings
from bot.store.runs import Run

MONA = Actor(7, "mona", "User")
EVENT = CommentCreated(3, Repository(42, "octo-org/tidebook"), 5, 12, True, 99, "/codex-debate", MONA, MONA, False)
HERE = RepositoryRef(id=42, full_name="octo-org/tidebook")
PULL = PullRequest(
    number=12,
    state="open",
    title="Retry renewals",
    body=None,
    user=Account(id=8, login="octocat"),
    head=Side(ref="retry", sha="a" * 40, repo=HERE),
    base=Side(ref="main", sha="b" * 40, repo=HERE),
)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def made(review: Review, *, event: CommentCreated = EVENT, pull: PullRequest = PULL, **settings: object) -> Run:
    start = Start(review, pull, review.base or "main", event.author)
    return by_command(event, start, Settings.model_validate(settings), run_id="7h2kq9xw", now=NOW)


def test_a_plain_review() -> None:
    run = made(Review())
    assert (run.id, run.kind, run.created_at, run.number, run.head_sha) == ("7h2kq9xw", "review", NOW, 12, "a" * 40)
    assert (run.head_ref, run.base_ref, run.body, run.commit, run.comment) == ("retry", "main", "", True, True)
    assert {name: seat.agent for name, seat in run.seats.items()} == {"reviewer": "codex", "author": "claude"}
    assert run.requester is not None
    assert run.requester.id == 7
    assert run.ceilings.rounds == 12
    assert run.editing
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_flags_and_settings() -> None:
    review = Review(
        max_rounds=3, no_commit=True, no_comment=True, rationale="r", context="c", reviewer="lint", base="dev"
    )
    run = made(review, author="scripted:/x.json", claude_model="m", turn_seconds=5, run_seconds=6, run_budget_usd=7)
    assert (run.base_ref, run.commit, run.comment, run.rationale, run.context) == ("dev", False, False, "r", "c")
    assert (run.seats["reviewer"].agent, run.seats["author"].agent) == ("lint", "scripted:/x.json")
    assert run.ceilings.model_dump() == {"rounds": 3, "turn_seconds": 5, "run_seconds": 6, "usd": 7.0}
    assert made(Review(), claude_model="m").seats["author"].model == "m"


@pytest.mark.threat(73)
def test_the_operators_ceiling_holds() -> None:
    """Whoever owns the repository."""
    assert made(Review(max_rounds=9), max_rounds=4).ceilings.rounds == 4


def test_texts_are_cut_on_whole_characters() -> None:
    run = made(Review(), event=replace(EVENT, text="é" * 5000), pull=PULL.model_copy(update={"body": "b" * 70_000}))
    assert run.source is not None
    assert len(run.source.text.encode()) == SOURCE_BYTES
    assert len(run.body) == BODY_CHARACTERS


def test_the_same_words_of_the_same_person_have_one_key() -> None:
    assert text_key(EVENT, "/codex-debate  review") == text_key(EVENT, "/codex-debate review")
    assert text_key(EVENT, "/codex-debate review") != text_key(EVENT, "/codex-debate review --no-commit")
    other = replace(EVENT, author=Actor(8, "mona", "User"))
    assert text_key(EVENT, "/codex-debate") != text_key(other, "/codex-debate")


def test_it_stands_on_the_commanders_permission_and_knows_the_own_base() -> None:
    run = made(Review(base="dev"))
    assert run.authority == run.requester
    assert (run.base_ref, run.own_base, run.fork, run.approved) == ("dev", "main", False, False)


@pytest.mark.threat("T8")
def test_a_forks_changes_are_never_committed_here() -> None:
    fork = PULL.model_copy(update={"head": Side(ref="retry", sha="a" * 40, repo=RepositoryRef(id=43, full_name="h/t"))})
    for pull in (fork, PULL.model_copy(update={"head": Side(ref="retry", sha="a" * 40)})):
        run = made(Review(), pull=pull)
        assert (run.fork, run.commit) == (True, False)


def test_a_debate_that_nobody_commanded() -> None:
    start = Start(Review(), PULL, "main", Actor(8, "octocat", "User"), approved=True)
    stamp = Stamp("7h2kq9xw", NOW, 3, EVENT.repository)
    run = by_itself(start, Settings(), stamp=stamp)
    assert (run.requester, run.source, run.approved) == (None, None, True)
    assert run.authority is not None
    assert run.authority.id == 8
    assert (run.id, run.installation_id, run.repository.id) == ("7h2kq9xw", 3, 42)
