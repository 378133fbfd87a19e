"""What holds for every program that takes a turn."""

from __future__ import annotations

import errno
import os

import pytest

from worker.stream import (
    INSTALL,
    LINE,
    LOG_TAIL,
    READ,
    WORDS,
    behind,
    ending,
    event,
    json_object,
    not_started,
    session_id,
    tail,
)

ID = "01a22e3c-8664-78f2-9b18-6ddaa75cf781"


def test_a_line_is_a_json_object_or_nothing() -> None:
    assert json_object(b' {"a": [1]}\n') == {"a": [1]}
    for line in (b"", b"{", b"null", b"[1]", b'"a"', b"\xff\xfe", b"[" * 200_000, b"9" * 10_000):
        assert json_object(line) is None


def test_a_line_of_output_is_an_event_where_it_can_be_one() -> None:
    assert event(b'{"type":"result"}') == {"type": "result"}
    assert event(b'{"text": "' + b"x" * (LINE - 12) + b'"}') == {"text": "x" * (LINE - 12)}
    for line in (b"", b"{}", b"y", b' {"type":"result"}', b'{"type":"result"', b'{"text": "' + b"x" * LINE + b'"}'):
        assert event(line) is None


def test_an_id_is_what_the_programs_write_and_nothing_else() -> None:
    assert session_id(ID) == ID
    for text in (None, "", "-", "--last", "a title", ID.upper(), f"{ID}\n", f"{{{ID}}}", ID.replace("-", "")):
        assert session_id(text) is None


def test_a_tail_is_the_end_of_all_that_was_said() -> None:
    assert tail("one\n", b"two \xff\n", b" ", "", "\x1b[31mthree\ud800") == "one\ntwo \ufffd\nthree\ufffd"
    assert tail() == ""
    long = tail(b"x" * READ, b"y" * READ + b"\nthe end\n")
    assert (len(long), long[-9:]) == (LOG_TAIL, "y\nthe end")


def test_foreign_words_stand_behind_a_colon_and_between_backticks() -> None:
    assert behind("Bad\n`thing`.") == ": `Bad 'thing'.`"
    assert behind(" \n") == ""
    assert len(behind("x" * 1000)) == WORDS + len(": ``")


@pytest.mark.parametrize(
    ("code", "how"),
    [(0, "status 0"), (1, "status 1"), (-15, "SIGTERM"), (143, "SIGTERM"), (128, "status 128"), (255, "status 255")],
)
def test_an_end_is_told_by_its_status(code: int, how: str) -> None:
    assert ending(code) == how


def test_a_program_that_cannot_be_started_is_told_with_what_is_done_about_it() -> None:
    failure = not_started("codex", OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/opt/codex"))
    assert (failure.kind, failure.sentence) == ("environment", "codex cannot be started: no such file or directory")
    assert (failure.facts.hint, failure.facts.log) == (INSTALL, "[Errno 2] No such file or directory: '/opt/codex'")
    assert not_started("codex", OSError("Too many files")).sentence == "codex cannot be started: too many files"
