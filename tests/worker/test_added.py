"""Which lines a change added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.added import LINK, NONSENSE, ODD_NAME, Change, added_lines

HEAD = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"


@given(raw=st.binary(max_size=300))
def test_no_diff_makes_the_reader_fall(raw: bytes) -> None:
    added_lines(HEAD + b"@@ -1 +1 @@\n" + raw, (".py",))


@given(lines=st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")), max_size=12))
def test_added_lines_are_those_that_git_counts(lines: list[bytes]) -> None:
    body = b"".join(b"+" + line + b"\n" for line in lines)
    change = added_lines(HEAD + b"@@ -0,0 +1,%d @@\n" % len(lines) + body, (".py",))
    assert change.lines.get("a.py", frozenset()) == frozenset(range(1, len(lines) + 1))


def test_only_the_wanted_endings_count() -> None:
    assert added_lines(HEAD + b"@@ -0,0 +1 @@\n+x\n", (".js",)).lines == {}


def test_the_lines_of_a_diff_that_is_cut_are_those_that_are_there() -> None:
    hunks = b"@@ -1,2 +1,3 @@\n a\n+b\n c\n@@ -50,99 +51,999 @@ def f():\n d\n-e\n+[f\n+g\n"
    notes = b"[cut: 9000 more bytes of the diff of a.py]\n[skipped: b.py (generated)]\n"
    for rest in (hunks, hunks + notes):
        assert added_lines(HEAD + rest, (".py",)).lines == {"a.py": frozenset({2, 52, 53})}
    assert added_lines(HEAD + b"@@ -1,99 +1,99 @@\n" + notes, (".py",)).lines == {"a.py": frozenset()}


@pytest.mark.threat("T23", 97)
@pytest.mark.parametrize(
    ("name", "mode", "hunks", "unread"),
    [
        (b"l.py", b"120000", b"@@ -0,0 +1 @@\n+/etc/passwd\n", {"l.py": LINK}),
        (rb'"\177.py"', b"100644", b"@@ -0,0 +1 @@\n+x\n", {r"\x7f.py": ODD_NAME}),
        (rb'"\377.py"', b"100644", b"@@ -0,0 +1 @@\n+x\n", {r"\xff.py": ODD_NAME}),
        ("\N{RIGHT-TO-LEFT OVERRIDE}.py".encode(), b"100644", b"@@ -0,0 +1 @@\n+x\n", {r"\u202e.py": ODD_NAME}),
        ("\N{HANGUL FILLER}.py".encode(), b"100644", b"@@ -0,0 +1 @@\n+x\n", {"\N{HANGUL FILLER}.py": ODD_NAME}),
        (b"a.py", b"100644", b"@@ nonsense @@\n", {"a.py": NONSENSE}),
    ],
)
def test_what_is_not_read_is_named(name: bytes, mode: bytes, hunks: bytes, unread: dict[str, str]) -> None:
    named = b'"b/' + name[1:] if name.startswith(b'"') else b"b/" + name
    head = b"diff --git a/x b/x\nnew file mode %s\nindex 0000000..1111111\n--- /dev/null\n+++ %s\n" % (mode, named)
    assert added_lines(head + hunks, (".py",)) == Change({}, unread)
