"""The commands of a push and the answers to them, as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.standin import RefUpdate
from deploy.standin.pushes import COMMANDS_CAP, Commands, Verdict, moved, report

A, B, ZEROS = "a" * 40, "b" * 40, "0" * 40


def packet(text: bytes) -> bytes:
    return b"%04x" % (len(text) + 4) + text


def body(*lines: bytes) -> bytes:
    return b"".join(packet(line) for line in lines) + b"0000"


@given(st.lists(st.integers(min_value=1, max_value=80), max_size=20))
def test_commands_are_read_however_the_body_is_cut(cuts: list[int]) -> None:
    raw = body(
        b"shallow " + A.encode(),
        f"{A} {B} refs/heads/feature/x".encode() + b"\0 report-status side-band-64k agent=git/2",
        f"{ZEROS} {B} refs/heads/\xd1\xe4 y\n".encode("latin-1"),
    )
    commands = Commands()
    rest = raw + b"PACK\0\0\0\2"
    for cut in cuts:
        commands.feed(rest[:cut])
        rest = rest[cut:]
    commands.feed(rest)
    name = b"refs/heads/\xd1\xe4 y".decode("utf-8", "surrogateescape")
    assert commands.updates == (RefUpdate("refs/heads/feature/x", A, B), RefUpdate(name, ZEROS, B))


def test_before_the_flush_packet_nothing_is_known() -> None:
    commands = Commands()
    commands.feed(body(f"{A} {B} refs/heads/x".encode())[:-1])
    assert commands.updates is None
    commands.feed(b"0")
    assert commands.updates == (RefUpdate("refs/heads/x", A, B),)


@pytest.mark.parametrize("raw", [b"0000", b"zzzz rubbish", b"0002", b"0003x"])
def test_a_probe_and_rubbish_hold_no_command(raw: bytes) -> None:
    commands = Commands()
    commands.feed(raw)
    assert commands.updates == ()


def test_endless_commands_are_not_kept() -> None:
    commands = Commands()
    line = packet(f"{A} {B} refs/heads/x".encode())
    for _ in range(COMMANDS_CAP // len(line) + 2):
        commands.feed(line)
    assert commands.updates == ()


def test_the_answer_tells_git_by_packets_and_people_by_lines() -> None:
    refused = Verdict("protected branch hook declined", ("error: GH006", "error: why"))
    told = report([(RefUpdate("refs/heads/main", A, B), refused), (RefUpdate("refs/heads/x", A, B), Verdict())])
    assert told == (
        b"!error: GH006\n!error: why\n"
        b"0036ng refs/heads/main protected branch hook declined\n"
        b"0014ok refs/heads/x\n"
        b"0018option fall-through\n"
    )


def test_what_has_moved_is_read_back() -> None:
    assert moved(f"{A} {B} refs/heads/x\n{ZEROS} {B} refs/heads/y\n".encode()) == (
        RefUpdate("refs/heads/x", A, B),
        RefUpdate("refs/heads/y", ZEROS, B),
    )
    assert moved(b"") == ()
