"""What an oracle has found, and what a test has said about it beforehand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

MARK = "unlike"
SHOWN = 20
"""Violations that a failed test lists."""
LONGEST = 600
"""Characters of one of them."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that does not hold."""

    oracle: str
    """``O1`` to ``O9``."""
    words: str

    def __str__(self) -> str:
        return f"{self.oracle}: {self.words[:LONGEST]}"


def complaint(found: Iterable[Violation], marks: Iterable[pytest.Mark]) -> str:
    """Return why a test fails; empty where nothing was found but what it said.

    A test that has to be unlike the others says in what: ``@pytest.mark.unlike("O7", says="pattern", why="…")`` takes
    what that oracle finds in these words. A mark of which nothing was found is one too many.
    """
    left, idle = list(dict.fromkeys(found)), []
    for mark in marks:
        (oracle,), pattern = mark.args, re.compile(mark.kwargs["says"])
        assert mark.kwargs["why"]
        expected = [each for each in left if each.oracle == oracle and pattern.search(each.words)]
        left = [each for each in left if each not in expected]
        if not expected:
            idle.append(f"nothing of {oracle} says {pattern.pattern!r}: take the mark {MARK} away")
    more = [f"and {len(left) - SHOWN} more"] if len(left) > SHOWN else []
    return "\n  ".join([*(str(each) for each in left[:SHOWN]), *more, *idle])
