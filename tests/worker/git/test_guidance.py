"""A project's own words: where they are looked for, and how much of them is kept."""

from __future__ import annotations

from typing import Any

import pytest

from worker.git.guidance import BUDGET, read_guidance
from worker.git.mirror import Mirror


async def test_words_are_read_from_the_root_to_the_folders_of_the_change(
    mirror: Mirror, source: Any, take: Any
) -> None:
    base = await take(
        source.commit(
            {
                b"AGENTS.md": b"root\n",
                b"REVIEW.md": b"how we review\n",
                b"a/AGENTS.md": b"of a\n",
                b"a/b/CLAUDE.md": b"of b\n",
                b"c/AGENTS.md": b"of c\n",
                b"a/README.md": b"no guidance\n",
            }
        )
    )
    found = await read_guidance(mirror, base, ["a/b/x.py", "y.py"])
    assert [(each.path, each.text, each.whole) for each in found] == [
        ("AGENTS.md", "root\n", True),
        ("REVIEW.md", "how we review\n", True),
        ("a/AGENTS.md", "of a\n", True),
        ("a/b/CLAUDE.md", "of b\n", True),
    ]


async def test_a_project_without_such_words(mirror: Mirror, source: Any, take: Any) -> None:
    base = await take(source.commit({b"app.py": b"", b"AGENTS.md": b"", b"agents.md": b"other\n"}))
    assert await read_guidance(mirror, base, ["app.py"]) == ()


@pytest.mark.threat(87)
async def test_links_and_folders_of_that_name_are_no_words(mirror: Mirror, source: Any, take: Any) -> None:
    base = await take(
        source.commit(
            {
                b"AGENTS.md": ("120000", b"/etc/passwd"),
                b"CLAUDE.md/x": b"in a folder",
                b"REVIEW.md": ("160000", b"1" * 40),
                b"a/AGENTS.md": ("100755", b"a program's words\n"),
            }
        )
    )
    found = await read_guidance(mirror, base, ["a/x.py"])
    assert [(each.path, each.text) for each in found] == [("a/AGENTS.md", "a program's words\n")]


async def test_the_same_words_are_told_once(mirror: Mirror, source: Any, take: Any) -> None:
    base = await take(source.commit({b"AGENTS.md": b"same\n", b"CLAUDE.md": b"same\n", b"a/AGENTS.md": b"same\n"}))
    assert [each.path for each in await read_guidance(mirror, base, ["a/x.py"])] == ["AGENTS.md"]


async def test_what_finds_no_room_is_cut_or_named(mirror: Mirror, source: Any, take: Any) -> None:
    base = await take(
        source.commit(
            {
                b"AGENTS.md": b"x" * (BUDGET - 10),
                b"CLAUDE.md": "é".encode() * 10,
                b"REVIEW.md": b"more\n",
                b"a/AGENTS.md": b"y" * (BUDGET * 17),
            }
        )
    )
    found = await read_guidance(mirror, base, ["a/x.py"])
    assert [(each.path, len(each.text), each.whole) for each in found] == [
        ("AGENTS.md", BUDGET - 10, True),
        ("CLAUDE.md", 5, False),
        ("REVIEW.md", 0, False),
        ("a/AGENTS.md", 0, False),
    ]


async def test_what_is_no_text_harms_nobody(mirror: Mirror, source: Any, take: Any) -> None:
    base = await take(source.commit({b"AGENTS.md": b"\xff\xfe\0words"}))
    (found,) = await read_guidance(mirror, base, ["\\xff/x.py", ":(glob)**/x.py", "-x/y.py"])
    assert found.text == "\0words"
