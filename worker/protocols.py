"""The table of debates: each kind with its flow and what its fingerprint is made from."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from worker.debate import review
from worker.debate.brief import sources
from worker.debate.findings import Outcome
from worker.debate.task import Task


@dataclass(frozen=True, slots=True)
class Protocol:
    """A kind of debate: its flow, and what its fingerprint is made from."""

    flow: Callable[[Task], Generator[Any, Any, Outcome]]
    parts: tuple[bytes, ...]


PROTOCOLS: dict[str, Protocol] = {"review": Protocol(review.review, sources("review", prompts=review.PROMPTS))}
"""Every debate by its kind."""
