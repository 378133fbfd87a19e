"""A patch is shown byte for byte, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from worker.outputs.markdown import html_of
from worker.outputs.patch import CHECK_LIMIT, COMMENT_LIMIT, patch_block, place, why_not
from worker.outputs.report import Patch, Report

TEXT = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"


def patch(text: str) -> Patch:
    return Patch(text, files=1, lines=2, ids=("F1",))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (TEXT, "comment"),
        ("x" * COMMENT_LIMIT, "comment"),
        ("x" * (COMMENT_LIMIT + 1), "check"),
        ("é" * (COMMENT_LIMIT // 2 + 1), "check"),
        ("x" * (CHECK_LIMIT + 1), "nowhere"),
        (TEXT + "+\u202e", "nowhere"),
        (TEXT + "+a\r\n", "nowhere"),
        (TEXT + "+ghp_" + "a" * 36, "nowhere"),
        (TEXT + "+" + "`" * 80, "nowhere"),
    ],
)
def test_where_a_patch_stands(consensus: Report, text: str, where: str) -> None:
    report = replace(consensus, patch=patch(text))
    assert place(report) == where
    assert bool(why_not(patch(text))) == (where == "nowhere")


def test_without_a_comment_it_stands_in_the_check_run(consensus: Report) -> None:
    task = consensus.task.model_copy(update={"comment": False})
    assert place(replace(consensus, task=task, patch=patch(TEXT))) == "check"
    assert place(consensus) == "nowhere"


@pytest.mark.parametrize("run", [1, 3, 8, 79])
def test_its_block_is_longer_fenced_than_any_run_in_it(run: int) -> None:
    text = f"{TEXT}+{'`' * run}\n+</details>\n"
    block = patch_block(patch(text))
    assert block.startswith("<details open>\n<summary>Patch for F1 (1 file, 2 lines)</summary>\n\n```")
    rendered = html_of(f"{block}\n\nend\n")
    assert rendered.endswith("</code></pre>\n</details>\n<p>end</p>\n")
    assert rendered.count("<pre>") == 1


def test_a_last_line_without_a_newline_does_not_hide_the_fence() -> None:
    assert patch_block(patch("+x")).endswith("\n+x\n```\n\n</details>")


def test_a_patch_beyond_any_place_is_not_looked_through() -> None:
    assert why_not(patch("\x9d" * CHECK_LIMIT)) == "it has more than 60,000 bytes"
