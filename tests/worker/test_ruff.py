"""Ruff's answers and the arithmetic of its edits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.debate.findings import Severity
from worker.process import run
from worker.ruff import Fix, Hit, Ruff, Span, clash, edited, is_regular, line_starts, plain_text, spans

# ---- Answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (None, Severity.BLOCKING),
        ("invalid-syntax", Severity.BLOCKING),
        ("E902", Severity.BLOCKING),
        ("F821", Severity.BLOCKING),
        ("F632", Severity.MAJOR),
        ("B006", Severity.MAJOR),
        ("PLE0101", Severity.MAJOR),
        ("F401", Severity.MINOR),
        ("E711", Severity.MINOR),
        ("SIM103", Severity.NIT),
        ("UP006", Severity.NIT),
    ],
)
def test_severity_follows_the_rule(code: str | None, severity: Severity) -> None:
    assert Hit(code=code, message="x", filename="x", location=None, fix=None).severity is severity


async def test_hits_come_by_path_and_in_the_order_of_lines(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("x = 1\nimport os\n\n\ndef f(x=[]):\n    return y\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    hits = await Ruff(tmp_path, run, seconds=30).check(["a.py", "b.py", "missing.py"])
    assert {path: [hit.rule for hit in found] for path, found in hits.items()} == {"b.py": ["F401", "B006", "F821"]}


async def test_every_rule_that_we_ask_for_is_known_to_ruff(tmp_path: Path) -> None:
    ruff = Ruff(tmp_path, run, seconds=30)
    (tmp_path / "a.py").write_text("x = 1\n")
    assert await ruff.check(["a.py"]) == {}
    assert ruff.unread == set(), "an unknown rule would be an error of the call"
    reasons = await ruff.reasons()
    assert reasons["F401"].startswith("Unused imports add a performance overhead")
    assert all("\n" not in reason for reason in reasons.values())


def test_only_regular_files_within_the_tree_are_taken(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    for place in (tmp_path / "out.py", tree / "in.py", tree / "folder" / "in.py"):
        place.touch()
    (tree / "link.py").symlink_to(tree / "in.py")
    (tree / "linked").symlink_to(tree / "folder")
    taken = ["in.py", "folder/in.py"]
    others = ["", ".", "/", "../out.py", "folder/../in.py", str(tree / "in.py"), "link.py", "linked/in.py", "folder"]
    assert [path for path in (*taken, *others, "none.py", "a\0.py", "in.py/x.py") if is_regular(tree, path)] == taken


# ---- Edits ----------------------------------------------------------------------------------------------------------


def fix(*edits: tuple[tuple[int, int], tuple[int, int], str]) -> Fix:
    return Fix.model_validate(
        {
            "applicability": "safe",
            "message": None,
            "edits": [
                {
                    "content": content,
                    "location": {"row": start[0], "column": start[1]},
                    "end_location": {"row": end[0], "column": end[1]},
                }
                for start, end, content in edits
            ],
        }
    )


def test_places_are_characters_of_lines() -> None:
    starts = line_starts("é😀x\ny\n")
    assert spans(starts, fix(((1, 3), (1, 4), "z"))) == {Span(2, 3, "z")}
    assert spans(starts, fix(((2, 1), (3, 1), ""))) == {Span(4, 6, "")}


@pytest.mark.parametrize("place", [(0, 1), (1, 0), (1, 6), (4, 1), (9, 9)])
def test_a_place_beside_the_text_is_refused(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="beside"):
        spans(line_starts("é😀x\ny\n"), fix((place, place, "z")))


def test_edits_clash_where_they_touch_the_same_characters() -> None:
    one = [Span(2, 5, "")]
    assert clash(one, [Span(4, 6, "")])
    assert clash(one, [Span(2, 2, "x")])
    assert clash(one, [Span(3, 4, "")])
    assert not clash(one, [Span(0, 2, ""), Span(5, 7, "")])
    assert clash([Span(2, 5, ""), Span(4, 6, "")], [])
    assert clash([Span(2, 2, "x"), Span(2, 2, "y")], [])


@pytest.mark.parametrize(
    ("edit", "text", "lines"),
    [
        # One line of "a\nb\nc\nd\n", of which line 3 is marked, is …
        (Span(0, 2, ""), "b\nc\nd\n", {2}),  # deleted before it
        (Span(4, 6, ""), "a\nb\nd\n", set()),  # deleted itself
        (Span(4, 5, "e"), "a\nb\ne\nd\n", {3}),  # changed
        (Span(0, 0, "x\ny\n"), "x\ny\na\nb\nc\nd\n", {1, 2, 5}),  # preceded by others
        (Span(5, 6, ""), "a\nb\ncd\n", {3}),  # joined with the next one
        (Span(1, 2, ""), "ab\nc\nd\n", {1, 2}),  # joined above it
        (Span(2, 3, "e\nf"), "a\ne\nf\nc\nd\n", {2, 3, 4}),  # made two above it
        (Span(6, 8, ""), "a\nb\nc\n", {3}),  # deleted behind it
    ],
)
def test_marks_move_with_their_lines(edit: Span, text: str, lines: set[int]) -> None:
    assert edited("a\nb\nc\nd\n", [edit], lines=frozenset({3})) == (text, frozenset(lines))


@given(st.text(alphabet="ab\n", max_size=20), st.data())
def test_a_marked_line_that_no_edit_touches_stays_marked(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    content = data.draw(st.text(alphabet="xy\n", max_size=6))
    before = text.split("\n")
    first, last = text.count("\n", 0, start), text.count("\n", 0, end)
    marked = frozenset(range(1, len(before) + 1)) - set(range(first + 1, last + 2))
    after, marks = edited(text, [Span(start, end, content)], lines=marked)
    assert after == text[:start] + content + text[end:]
    lines = after.split("\n")
    kept = [before[mark - 1] for mark in sorted(marked)]
    untouched = [
        lines[mark - 1] for mark in sorted(marks) if mark <= first or mark > len(lines) - (len(before) - last - 1)
    ]
    assert untouched == kept


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[str, list[Span]]:
    """Draw a text and edits of it that do not clash, in their order."""
    text = draw(st.text(alphabet="ab\n", max_size=30))
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    contents = draw(st.lists(st.text(alphabet="x\n", max_size=3), min_size=6, max_size=6))
    pairs = zip(places[::2], places[1::2], contents, strict=False)
    edits: list[Span] = []
    for start, end, content in pairs:
        if not clash([Span(start, end, content)], edits):
            edits.append(Span(start, end, content))
    return text, edits


@example(("a\nb\nc\nd\n", [Span(0, 2, ""), Span(4, 6, "x\ny\n")]), frozenset({2, 4}))
@given(texts_with_edits(), st.frozensets(st.integers(1, 31)))
def test_edits_at_once_are_the_same_edits_one_after_the_other(
    drawn: tuple[str, list[Span]], marks: frozenset[int]
) -> None:
    text, edits = drawn
    lines = frozenset(mark for mark in marks if mark <= text.count("\n") + 1)
    after = text, lines
    for edit in reversed(edits):
        after = edited(after[0], [edit], lines=after[1])
    assert edited(text, edits, lines=lines) == after


@example(("a" * 9, [Span(2, 6, "")]), 3, 1)
@example(("a" * 9, [Span(2, 6, "")]), 1, 3)
@given(texts_with_edits(), st.integers(0, 30), st.integers(0, 9))
def test_only_a_neighbour_can_clash(drawn: tuple[str, list[Span]], start: int, length: int) -> None:
    _, edits = drawn
    new = Span(start, start + length, "")
    touching = (each for each in edits if new.start == each.start or (new.start < each.end and each.start < new.end))
    assert clash([new], edits) == any(touching)


def test_as_many_edits_as_a_large_file_has_lines() -> None:
    """For each edit only its own place is looked at: the whole file every time, and this test would take minutes."""
    text = 'x = f""\n' * 40_000
    starts = line_starts(text)
    chosen: list[Span] = []
    for row in range(1, 40_001):
        places = spans(starts, fix(((row, 5), (row, 6), "")))
        assert not clash(places, chosen)
        chosen += places
    every = frozenset(range(1, 40_001))
    assert edited(text, chosen, lines=every) == ('x = ""\n' * 40_000, every)


@pytest.mark.parametrize("raw", [b"a\r\n", b"\xff", b"\xef\xbb\xbfa\n"])
def test_text_with_unusual_bytes_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"plain newlines|UTF-8|byte order"):
        plain_text(raw)
    assert plain_text("é\x0c\u2028\n".encode()) == "é\x0c\u2028\n"
