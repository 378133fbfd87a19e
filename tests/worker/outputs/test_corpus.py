"""Whatever an agent or a stranger writes, in every place where words of others stand, stays words: the whole corpus.

Each string of `hostile` is put into every field of a report, and what is published of it is read by `judge`, beside the
same report about words that mean no harm.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import cycle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.outputs.hostile import (
    CORPUS,
    SPELLED,
    Say,
    agreed,
    always,
    cases,
    failed,
    has_secret,
    not_begun,
    patched,
    renamed,
    undecided,
)
from tests.worker.outputs.judge import Seen, alive, calls, hidden
from worker.debate.codecs import VerdictCodec
from worker.outputs.check import CheckOutput, render_check
from worker.outputs.comment import folded, render_comment
from worker.outputs.report import Report

TAME = "tame"
HOME = "https://github.com/tidemark-coop/tidebook"
URL = f"{HOME}/pull/412#issuecomment-9"
OURS = re.compile(rf"{HOME}/(blob/[0-9a-f]{{40}}/a\.py#L[0-9]+(-L[0-9]+)?|runs/48211907734|pull/412#issuecomment-2)")
"""Links that we make of an agent's words, to lines of a file of the change; and those to where the rest stands."""
COMMENT_BYTES, CHECK_BYTES = 65_536, 65_535
"""What GitHub takes of a comment's body, and of a check run's summary and text (github.md A3, A4)."""
TITLE, NOTE_TITLE, NOTE = 255, 255, 64 * 1024
"""Characters of a check run's title, of an annotation's, and bytes of its message (docs.github.com, "Check runs")."""


def bodies(report: Report, shown: CheckOutput | None = None) -> dict[str, str]:
    """What is published of a report as Markdown."""
    shown = shown or render_check(report)
    return {
        "comment": render_comment(report),
        "folded comment": folded(report, URL) if report.status else "",
        "summary": shown.summary,
        "text": shown.text,
    }


def harm(report: Report, tame: dict[str, Seen], *, long: bool = False) -> list[str]:
    """What is wrong with all that is published of a report; nothing where all is well.

    A page has exactly the elements of the host, in their order, but where it is too `long`: then parts are left out.
    """
    shown = render_check(report)
    written = bodies(report, shown)
    pages = {name: Seen.of(body) for name, body in written.items()}
    found = [f"{name}: {fault}" for name, page in pages.items() for fault in alive(page, ours=tame[name], links=OURS)]
    found += [f"{name}: hidden {each}" for name, body in written.items() for each in hidden(body)]
    found += [f"{name}: a secret" for name, body in written.items() if has_secret(body) or has_secret(pages[name].text)]
    if not long:
        shapes = {name: (page.structure, tame[name].structure) for name, page in pages.items()}
        found += [f"{name}: {is_} and not {was}" for name, (is_, was) in shapes.items() if is_ != was]
    found += [f"{name}: too long" for name in ("summary", "text") if len(written[name].encode()) > CHECK_BYTES]
    found += ["comment: too long"] * (len(written["comment"].encode()) > COMMENT_BYTES)
    return found + harm_in_lines(shown)


def harm_in_lines(shown: CheckOutput) -> list[str]:
    """What is wrong with the plain lines of a check run: its title, and its annotations."""
    lines = {"title": shown.title}
    for note in shown.annotations:
        lines |= {f"{each} of an annotation": str(note[each]) for each in ("title", "message")}
    found = [f"{name}: {fault}" for name, line in lines.items() for fault in calls(line) + hidden(line)]
    found += [f"{name}: a secret" for name, line in lines.items() if has_secret(line)]
    found += [f"{name}: two lines" for name, line in lines.items() if "\n" in line]
    found += [f"{name}: too long" for name, line in lines.items() if len(line) > TITLE and "title" in name]
    found += ["an annotation elsewhere" for note in shown.annotations if note["path"] != "a.py"]
    return found


@cache
def tame() -> list[dict[str, Seen]]:
    """The pages of every case about words that mean no harm."""
    return [{name: Seen.of(body) for name, body in bodies(report).items()} for report in cases(always(TAME))]


# ---- The corpus -----------------------------------------------------------------------------------------------------


def test_every_place_is_filled() -> None:
    """A corpus proves nothing of a place that it never reaches."""
    for case, in_comment, in_check in ((undecided, 50, 50), (agreed, 45, 45), (failed, 30, 35), (not_begun, 0, 2)):
        shown = render_check(case(always(TAME)))
        assert render_comment(case(always(TAME))).count(TAME) >= in_comment
        assert (shown.title + shown.summary + shown.text).lower().count(TAME) >= in_check
    assert len(render_check(undecided(always(TAME))).annotations) == 2


@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat("T26", 140, 141, 142, 143, 145, 146, 147, 148, 150, 151, 152, 153, 154, 155, 156, "O5")
def test_output_corpus(number: int) -> None:
    """Every string by itself where there are most places, and all of one input in turn in every case."""
    harms = []
    for text in CORPUS[number]:
        shown = [case(always(text)) for case in (undecided, not_begun)]
        harms += [
            (text, report.status, each)
            for report, page in zip(shown, tame(), strict=False)
            for each in harm(report, page)
        ]
    in_turn = cycle(text for text in CORPUS[number] if text not in SPELLED)
    for report, page in zip(cases(in_turn.__next__), tame(), strict=True):
        harms += [("in turn", report.status, each) for each in harm(report, page)]
    assert not harms


@pytest.mark.threat("T26", 143)
def test_no_words_change_what_a_debate_came_to() -> None:
    """A forged badge, verdict or state is words, whoever wrote it and wherever."""
    meant = [render_check(report).conclusion for report in cases(always(TAME))]
    for text in CORPUS[143]:
        assert [render_check(report).conclusion for report in cases(always(text))] == meant


@pytest.mark.threat("T26", 156)
def test_a_severity_and_a_status_are_words_of_ours() -> None:
    """They stand in tables and titles as they are: what is not one of a few words makes a verdict unusable."""
    finding = {
        "id": "F1",
        "title": "t",
        "severity": "major",
        "location": "l",
        "issue": "i",
        "suggestion": "",
        "status": "open",
    }
    verdict = {"approved": False, "summary": "s", "response_to_rebuttal": ""}
    assert VerdictCodec().problem(json.dumps(verdict | {"findings": [finding]})) is None
    for field in ("severity", "status"):
        for text in (text for texts in CORPUS.values() for text in texts):
            said = json.dumps(verdict | {"findings": [finding | {field: text}]})
            assert VerdictCodec().problem(said), f"{field} {text!r}"


IDS = ["GH-1", "deadbeef1", "a1b2c3d4e5", "F__x__", "Signed-off-by", "www", "skip-checks", "octocat", "F-_-", "x" * 32]


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.threat("T26", 141, 156)
def test_an_id_of_an_agents_choice_refers_to_nothing(id_: str) -> None:
    for case in (undecided, agreed):
        page = {name: Seen.of(body) for name, body in bodies(renamed(case(always(TAME)), "Z1")).items()}
        assert not harm(renamed(case(always(TAME)), id_), page)


@pytest.mark.parametrize("number", [142, 147, 148, 150, 151, 152])
@pytest.mark.threat("T26", 148, 152)
def test_a_patch_is_shown_as_it_is_or_not_at_all(number: int) -> None:
    """It is the one text that is not cleaned: changed by a byte it would not apply."""
    both = [{name: Seen.of(body) for name, body in bodies(patched(text)).items()} for text in (TAME, "\u202e")]
    for text in CORPUS[number][:16]:
        report = patched(text)
        found = [harm(report, page) for page in both]
        assert [] in found, (text, found)
        assert report.patch is not None
        assert found[0] or report.patch.text in render_comment(report)


# ---- Too long -------------------------------------------------------------------------------------------------------

LONG = ["word " * 20_000, "é" * 40_000, "# h\n\n" * 500, "@octocat #1 " * 600]


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:8])
@pytest.mark.threat("T26", 149)
def test_more_than_github_takes_is_cut_where_a_part_ends(text: str) -> None:
    debated, unbegun, *_ = tame()
    assert not harm(undecided(always(text)), debated, long=True)
    assert not harm(not_begun(always(text)), unbegun, long=True)
    assert "in their words: in the [check run](" in render_comment(undecided(always(text)))


# ---- Any words ------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from([text for texts in CORPUS.values() for text in texts])
WORDS = st.lists(st.one_of(PIECES, st.text(st.characters(codec=None), max_size=8)), max_size=6).map("".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(0, 2**32), st.integers(0, 16))
@pytest.mark.threat("T26", 156)
def test_no_report_brings_anything_alive(texts: list[str], seed: int, case: int) -> None:
    """Other words in each place, in any mixture: comment, summary, text, title and annotations."""
    chance = Random(seed)  # noqa: S311 - seeded, so that a failure comes back
    said: Say = lambda: chance.choice(texts)  # noqa: E731 - it is as short as that
    report = list(cases(said))[case]
    assert not [each for each in harm(report, tame()[case], long=True) if not each.endswith("a secret")]
