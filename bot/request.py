"""A decision to start → the Run that is stored. Pure.

Owns what of a command, a pull request and the operator's settings becomes part of a run, and how much of it is kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from bot import events
from bot.events import CommentCreated
from bot.policy import Start
from bot.redact import whole
from bot.settings import Settings
from bot.store.runs import Ceilings, Person, Repository, Run, SeatChoice, Source

SOURCE_BYTES = 8000
"""Bytes of a command's comment that are kept with its run."""
BODY_CHARACTERS = 16000
"""Characters of a pull request's description that are kept with a run."""


def text_key(event: CommentCreated, line: str) -> str:
    """Return the key under which the same words of the same person are known again."""
    words = f"{event.author.id}\n{' '.join(line.split())}"
    return hashlib.sha256(words.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a run is given besides what it is about."""

    run_id: str
    now: datetime
    installation_id: int
    repository: events.Repository


def by_command(event: CommentCreated, start: Start, settings: Settings, *, run_id: str, now: datetime) -> Run:
    """Return the run that a command asks for."""
    text = event.text.encode()[:SOURCE_BYTES].decode("utf-8", "ignore")
    run = by_itself(start, settings, stamp=Stamp(run_id, now, event.installation_id, event.repository))
    asked = {
        "requester": Person(id=event.author.id, login=event.author.login),
        "source": Source(comment_id=event.comment_id, text=text),
    }
    return run.model_copy(update=asked)


def by_itself(start: Start, settings: Settings, *, stamp: Stamp) -> Run:
    """Return the run of a debate that nobody commanded. The operator's ceilings hold over the review's."""
    review, pull = start.review, start.pull
    rounds = settings.max_rounds if review.max_rounds is None else min(review.max_rounds, settings.max_rounds)
    return Run(
        id=stamp.run_id,
        kind="review",
        created_at=stamp.now,
        installation_id=stamp.installation_id,
        repository=Repository(id=stamp.repository.id, full_name=stamp.repository.full_name),
        number=pull.number,
        title=whole(pull.title),
        body=whole(pull.body or "")[:BODY_CHARACTERS],
        head_sha=pull.head.sha,
        head_ref=pull.head.ref,
        base_ref=start.base,
        own_base=pull.base.ref,
        protect=start.protect,
        fork=pull.from_fork,
        private=pull.base.repo is not None and pull.base.repo.private,
        approved=start.approved,
        requester=None,
        authority=Person(id=start.authority.id, login=start.authority.login),
        source=None,
        seats={
            "reviewer": _seat(review.reviewer or settings.reviewer, settings),
            "author": _seat(review.author or settings.author, settings),
        },
        ceilings=Ceilings(
            rounds=rounds,
            turn_seconds=settings.turn_seconds,
            run_seconds=settings.run_seconds,
            usd=settings.run_budget_usd,
        ),
        commit=not (review.no_commit or pull.from_fork),
        comment=not review.no_comment,
        rationale=review.rationale,
        context=review.context,
    )


def _seat(agent: str, settings: Settings) -> SeatChoice:
    models = {"codex": settings.codex_model, "claude": settings.claude_model}
    return SeatChoice(agent=agent, model=models.get(agent))
