"""Intents come back as they were stored, and each thing that there shall be has one name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.intents import (
    Answer,
    CheckRun,
    Comment,
    CommentRef,
    Intent,
    Push,
    Reaction,
    dump_intent,
    load_intent,
    name_of,
    push_name,
)

REPO, NUMBER = "harbour/tide", 12
CHECK = CheckRun("w5j1r6kd", "codex-debate", "a" * 40, "queued", title="Queued", summary="Waits.")
COMMENT = Comment("w5j1r6kd", 0, "round 1")
PUSH = Push("w5j1r6kd", "/1", "refs/heads/codex-debate/pr-12/w5j1r6kd", "a" * 40, "b" * 40, b"PACK\x00\xff", b"{}")


@pytest.mark.parametrize(
    "intent",
    [
        Reaction(CommentRef(REPO, 7), "eyes"),
        Answer("7", NUMBER, "Unknown flag \N{PILE OF POO}", after=7),
        replace(CHECK, status="completed", annotations=({"path": "a.py"},), actions=({"label": "Run again"},)),
        COMMENT,
        PUSH,
        replace(PUSH, ref=None),
    ],
    ids=lambda intent: type(intent).__name__,
)
def test_an_intent_comes_back_as_it_was_stored(intent: Intent) -> None:
    assert load_intent(dump_intent(intent)) == intent


def test_there_is_one_name_for_each_thing_that_there_shall_be() -> None:
    intents: list[Intent] = [
        Reaction(CommentRef(REPO, 7), "eyes"),
        Reaction(CommentRef(REPO, 7), "rocket"),
        Reaction(CommentRef(REPO, 8), "eyes"),
        Answer("7", NUMBER, "a"),
        CHECK,
        replace(CHECK, name="codex-debate/lens"),
        COMMENT,
        replace(COMMENT, slot=1),
        PUSH,
        replace(PUSH, path="/3"),
    ]
    assert len({name_of(intent) for intent in intents}) == len(intents)
    assert name_of(CHECK) == name_of(replace(CHECK, status="completed"))
    assert name_of(COMMENT) == name_of(replace(COMMENT, body="two"))
    assert name_of(PUSH) == push_name("w5j1r6kd", "/1")
