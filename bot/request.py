"""A decision to start → the Run that is stored. Pure.

Owns what of a command, a pull request and the operator's settings becomes part of a run, and how much of it is kept.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

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


def run_of(event: CommentCreated, start: Start, settings: Settings, *, run_id: str, now: datetime) -> Run:
    """Return the run that a command asks for. The operator's ceilings hold over the command's."""
    review, pull = start.review, start.pull
    source = event.text.encode()[:SOURCE_BYTES].decode("utf-8", "ignore")
    rounds = settings.max_rounds if review.max_rounds is None else min(review.max_rounds, settings.max_rounds)
    return Run(
        id=run_id,
        kind="review",
        created_at=now,
        installation_id=event.installation_id,
        repository=Repository(id=event.repository.id, full_name=event.repository.full_name),
        number=pull.number,
        title=whole(pull.title),
        body=whole(pull.body or "")[:BODY_CHARACTERS],
        head_sha=pull.head.sha,
        head_ref=pull.head.ref,
        base_ref=start.base,
        requester=Person(id=event.author.id, login=event.author.login),
        source=Source(comment_id=event.comment_id, text=source),
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
        commit=not review.no_commit,
        comment=not review.no_comment,
        rationale=review.rationale,
        context=review.context,
    )


def _seat(agent: str, settings: Settings) -> SeatChoice:
    models = {"codex": settings.codex_model, "claude": settings.claude_model}
    return SeatChoice(agent=agent, model=models.get(agent))
