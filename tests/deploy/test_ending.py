"""The end of `codex-debate try` on a terminal, and what it says where it cannot start."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from deploy.ending import Result, ending, plain_end, taking, tilde
from deploy.layout import Look
from tests.deploy.results import RESULT, hostile
from tests.worker.outputs.hostile import CORPUS, has_secret


def text(lines: list[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


def whole(result: Result, look: Look) -> str:
    return text([*ending(result, look), *taking(result)])


def test_the_end_on_a_terminal() -> None:
    assert (
        whole(RESULT, Look())
        == """\
────────────────────────────────────────────────────────────────────────────────────────────────────
The comment

✅ Consensus on db511f0cf3 after 3 rounds: 3 findings fixed, 1 conceded, 1 deferred.
   The fixes are not on retry-renewals yet.

   Outside this pull request: F4, production has no renewals queue.

F1  blocking  A retry after a timeout charges the card twice  retry.py:118    fixed
F2  major     The row lock is held while the bank answers     retry.py:97     conceded
F3  major     Retries go on after the berth was given away    schedule.py:64  fixed
F4  major     Production has no renewals queue                settings.py:31  deferred
F5  minor     The wait that the bank asks for is ignored      retry.py:140    fixed

   Round 1   5d4463e4d4   fix: debate round 1 (F1, F5)
   Round 2   6c414d9ad1   fix: debate round 2 (F3, F5)

   In both sides' words: ~/.local/state/codex-debate/try/7h2kq9xw/comment.md
────────────────────────────────────────────────────────────────────────────────────────────────────
The check run

action_required   Agreed: 3 fixes wait to be pushed
────────────────────────────────────────────────────────────────────────────────────────────────────

10:57, $1.42. To take the 2 commits (kept for 24 hours):

   git -C ~/src/tidebook fetch ~/.local/state/codex-debate/try/7h2kq9xw \\
       codex-debate/7h2kq9xw:codex-debate/7h2kq9xw"""
    )


def test_a_narrow_terminal_without_unicode() -> None:
    lines = ending(RESULT, Look(60, ascii=True))
    seen = text(lines)
    assert seen.isascii()
    assert "[ok] Consensus on db511f0cf3 after 3 rounds: 3 findings\n   fixed, 1 conceded, 1 deferred." in seen
    assert all(cell_len(line.plain) <= 60 for line in lines if line.overflow != "fold")


def test_commits_that_were_kept_and_none_at_all() -> None:
    assert whole(replace(RESULT, kept=True), Look()).endswith(
        "10:57, $1.42. The 2 commits stand on codex-debate/7h2kq9xw in ~/src/tidebook."
    )
    assert whole(replace(RESULT, commits=()), Look()).endswith("\n10:57, $1.42.")
    assert "To take the commit (kept" in whole(replace(RESULT, commits=RESULT.commits[:1]), Look())


def test_the_fetch_survives_a_shell() -> None:
    seen = whole(replace(RESULT, repo="~/my notes", store="/tmp/it's; rm"), Look())
    assert "   git -C ~/'my notes' fetch '/tmp/it'\"'\"'s; rm' \\" in seen
    sample = whole(replace(RESULT, repo=""), Look())
    assert "   git -C ~/.local/state/codex-debate/try/7h2kq9xw log -p --reverse \\" in sample


@pytest.mark.parametrize("path", ["~/a\x1b]0;t\x07b", "/srv/\x9b2J'\\x", "~/n\nx", "/srv/\udcff", "/srv/\u202eb"])
@pytest.mark.threat(146, 155)
def test_a_path_that_a_terminal_would_obey_is_spelled_out_for_the_shell(path: str) -> None:
    lines = [line.plain for line in taking(replace(RESULT, repo=path, store=path))]
    assert all(line.isprintable() for line in lines)
    spelled = lines[2].removeprefix("   git -C ").partition(" fetch ")[0]
    found = subprocess.run(
        ["bash", "-c", f"printf %s {spelled}"], env={"HOME": "/home/m", "LC_ALL": "C"}, capture_output=True, check=True
    )
    assert found.stdout == path.replace("~", "/home/m").encode("utf-8", "surrogateescape")
    kept = taking(replace(RESULT, repo=path, kept=True))
    assert all(line.plain.isprintable() for line in kept)


@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat(146, 147, 150, 151, 155)
def test_what_others_wrote_stays_on_its_line_at_the_end(number: int) -> None:
    for text_ in CORPUS[number]:
        evil = hostile(text_)
        for line in [plain_end(evil), *whole(evil, Look()).split("\n")]:
            assert line.isprintable(), text_
            assert not has_secret(line, text_), text_


def test_the_last_plain_line() -> None:
    assert plain_end(RESULT) == "10:57 consensus after 3 rounds, $1.42: Agreed: 3 fixes wait to be pushed"
    one = replace(RESULT, rounds=1, seconds=4, usd=0, title="Consensus: nothing to fix")
    assert plain_end(one) == " 0:04 consensus after 1 round, $0.00: Consensus: nothing to fix"


@pytest.mark.parametrize(
    ("path", "shown"), [("/home/m/src/x", "~/src/x"), ("/home/m", "/home/m"), ("/home/mara/x", "/home/mara/x")]
)
def test_paths_are_written_as_people_do(path: str, shown: str) -> None:
    assert tilde(Path(path), Path("/home/m")) == shown
