"""What of YAML is read, where its parts stand, and what is refused by line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.yaml_lines import BYTES_LIMIT, DEPTH_LIMIT, BadYaml, Lined, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a remark\n", None),
        ("on: [opened]\n", {"on": ["opened"]}),
        ("a: yes\nb: no\nc: on\n", {"a": "yes", "b": "no", "c": "on"}),
        ("a: true\nb: False\nc: null\nd: ~\ne:\n", {"a": True, "b": False, "c": None, "d": None, "e": None}),
        ("a: 010\nb: 0o10\nc: 0x10\nd: -3\ne: 1_000\n", {"a": 10, "b": 8, "c": 16, "d": -3, "e": 1000}),
        ("a: 1.5\nb: 1e3\n", {"a": 1.5, "b": 1000.0}),
        ("a: 2026-11-30\nb: '5'\n", {"a": "2026-11-30", "b": "5"}),
        ("- 1\n- {a: [x]}\n", [1, {"a": ["x"]}]),
        ("1: x\n", {"1": "x"}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_yaml_1_2_as_a_person_means_it(text: str, value: Any) -> None:
    assert read(text.encode()).value == value


def test_each_part_has_its_line() -> None:
    found = read(b"auto:\n  on:\n    - opened\n    - closed\n  base: [main]\n")
    assert found.line(("auto",)) == 1
    assert found.line(("auto", "on")) == 2
    assert found.line(("auto", "on", 1)) == 4
    assert found.line(("auto", "base", 0)) == 5
    assert found.line(("auto", "on", 7, "deeper")) == 2, "the nearest part around it"
    assert found.line(()) == 1


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("x: 1\na: &x 1\nb: *x\n", 2, "anchors and aliases are not read; write the value out"),
        ("a: 1\nb: 2\na: 3\n", 3, "this key stands twice"),
        ("a:\n  b: 1\n  b: 2\n", 3, "this key stands twice"),
        ("a: 1\n? [b]\n: 2\n", 2, "a key must be a word"),
        ("<<: {a: 1}\n", 1, "`<<` is not read; write the keys out"),
        ("a: !!python/object:os.system x\n", 1, "tags are not read; write the value alone"),
        ("a: !mine x\n", 1, "tags are not read; write the value alone"),
        ("%YAML 1.1\n---\non: yes\n", 1, "lines that begin with `%` are not read"),
        ("a: 1\n---\nb: 2\n", 2, "this is not YAML: `but found another document`"),
        ("a: [1\nb: 2\n", 2, "this is not YAML: `expected ',' or ']', but got ':'`"),
        ('a: "\\ud800"\n', 1, "this value is not read"),
        ("a: 123456789012345678901234567890\n", 1, "this value is not read"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_by_line(text: str, line: int, fault: str) -> None:
    with pytest.raises(BadYaml) as bad:
        read(text.encode())
    assert (bad.value.line, bad.value.fault) == (line, fault)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(BadYaml) as bad:
        read(b"a: 1\nb: \xff\n")
    assert (bad.value.line, bad.value.fault) == (2, "this is not UTF-8 text")


def test_sizes_and_depths_have_ends() -> None:
    with pytest.raises(BadYaml) as large:
        read(b"#" * (BYTES_LIMIT + 1))
    assert large.value.fault == "the file has more than 16,384 bytes"
    assert read(b"#" * BYTES_LIMIT).value is None
    deepest = DEPTH_LIMIT
    assert read(b"[" * deepest + b"]" * deepest).value is not None
    with pytest.raises(BadYaml) as bad:
        read(b"[" * (deepest + 2) + b"]" * (deepest + 2))
    assert bad.value.fault == "this is nested too deeply"
    with pytest.raises(BadYaml):
        read(b"[" * 30_000)


def test_a_fault_quotes_the_file_as_code_alone() -> None:
    with pytest.raises(BadYaml) as bad:
        read(b"a: *@octocat<b>`x`\n")
    assert bad.value.fault == "this is not YAML: `found undefined alias '@\u200boctocat<b>x'`"


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_a_value_or_a_fault(raw: bytes) -> None:
    try:
        found = read(raw)
    except BadYaml as bad:
        assert bad.line >= 1
        assert bad.fault
    else:
        assert isinstance(found, Lined)
