"""Small words: lists, ids, numbers, times and sums as every sentence of a report writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bot.config import AGENT_NAMES
from worker.debate.flow import Tokens
from worker.outputs.markdown import BREAKER

SHORT_SHA = 10
"""Digits of a commit id that people see; GitHub links a bare one of 7 to 40."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
RANGE = 4
"""Ids in a row that are told as a range."""


def natural(finding_id: str) -> tuple[str, int, str]:
    """Return the key that puts F2 before F10."""
    found = re.fullmatch(r"([A-Za-z_-]+)([0-9]{1,9})(.*)", finding_id)
    return (found[1], int(found[2]), found[3]) if found else (finding_id, -1, "")


def shown_id(finding_id: str) -> str:
    """Return an id as it may stand in a text: one that GitHub would take for a reference or a commit is broken."""
    if re.fullmatch(r"[A-Za-z]{1,3}[0-9]{1,3}", finding_id):
        return finding_id
    # No piece of it is long enough for a commit.
    return BREAKER.join([finding_id[:1], *re.findall(r".{1,6}", finding_id[1:])])


def join_words(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def join_ids(ids: Iterable[str]) -> str:
    """Return ids in their order, four or more in a row as a range: ``F1 to F5``, ``F1, F2 and F3``."""
    rows: list[list[str]] = []
    for each in sorted(set(ids), key=natural):
        name, number, rest = natural(each)
        if rows and number > 0 and not rest and natural(rows[-1][-1]) == (name, number - 1, ""):
            rows[-1].append(each)
        else:
            rows.append([each])
    rows = [[shown_id(each) for each in row] for row in rows]
    parts = [part for row in rows for part in ([f"{row[0]} to {row[-1]}"] if len(row) >= RANGE else row)]
    return join_words(parts)


def count(number: int, noun: str) -> str:
    """Return ``1 finding``, ``2 findings``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_words(number: int) -> str:
    """Return a number as a word up to twelve."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def short(sha: str) -> str:
    """Return a commit id as people see it."""
    return sha[:SHORT_SHA]


def duration(seconds: float) -> str:
    """Return ``48 s``, ``11 min``, ``1 h 5 min``."""
    if seconds < 60:
        return f"{round(seconds)} s" if round(seconds) < 60 else "1 min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def money(usd: float) -> str:
    """Return US dollars with cents."""
    return f"${usd:.2f}"


def used(tokens: Tokens) -> str:
    """Return tokens as ``183,000 tokens, 61% of the input cached``; nothing where none were counted."""
    both = tokens.input + tokens.output
    if not both:
        return ""
    cached = f", {round(100 * tokens.cached / tokens.input)}% of the input cached" if tokens.cached else ""
    return f"{both:,} tokens{cached}"


def stopped(text: str) -> str:
    """Return a sentence with its full stop."""
    return text if re.search(r"[.!?…][`*\")]*$", text) else f"{text}."


def sentence(text: str) -> str:
    """Return a text as a sentence: it ends with a full stop, and begins with a capital or an agent's name."""
    return stopped(text if text.startswith(AGENT_NAMES) else text[:1].upper() + text[1:])


def lower_first(text: str) -> str:
    """Return a title as it stands within a sentence: ``The lock`` as ``the lock``, ``SQL`` as it is."""
    return text[:1].lower() + text[1:] if re.match(r"[A-Z](?:[a-z]| [a-z])", text) else text
