"""Which lines a change added."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.added import added_lines

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


def test_a_link_holds_nothing_to_read() -> None:
    link = b"diff --git a/l.py b/l.py\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/l.py\n"
    assert added_lines(link + b"@@ -0,0 +1 @@\n+/etc/passwd\n", (".py",)).lines == {}
