"""The sentences: nothing that was written by a person gets out of its code span, and each says what to do next."""

from __future__ import annotations

import re

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from bot import check_runs, replies
from tests.worker.outputs.hostile import CORPUS, has_secret
from tests.worker.outputs.judge import Seen, alive, hidden

SHA = "db511f0cf3faf43060bd7350425e61c3742d0665"


def html(text: str) -> str:
    return str(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))


@given(st.text(max_size=200))
def test_what_is_quoted_stays_a_code_span_on_one_line(text: str) -> None:
    shown = replies.quoted(text)
    assert len(shown) <= 2 * replies.QUOTE_LIMIT + 2
    assert html(f"There is no {shown}.").count("<code>") == 1
    inner = html(f"There is no {shown}.").replace("<p>There is no <code>", "").replace("</code>.</p>\n", "")
    assert "<" not in inner


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("reviw", "`reviw`"),
        ("a`b``c", "`abc`"),
        ("x" * 100, "`" + "x" * 59 + "…`"),
        ("", "`…`"),
        ("```", "`…`"),
        ("two\nlines\tand  blanks", "`two lines and blanks`"),
        ("\x1b[31mred", "`red`"),
        ("@mona #1", "`@\u200bmona #\u200b1`"),
        ("ghp_" + "a" * 36, "`[redacted]`"),
    ],
)
def test_how_words_are_quoted(text: str, shown: str) -> None:
    assert replies.quoted(text) == shown


@given(st.text(max_size=300))
def test_prose_never_gets_out_of_its_block(prose: str) -> None:
    for answer in (False, True):
        page = html(replies.which_one(prose, answer=answer))
        assert page.count("<pre>") == (2 if answer else 1)
        assert "<a " not in page
        assert "<img" not in page


def said_about(text: str) -> list[str]:
    """Every sentence of the bot that repeats words of others, about one text in all its places."""
    return [
        replies.unknown_verb(text, None),
        replies.unknown_flag("review", text, nearest=f"--base {text}", without=""),
        replies.unexpected("stop", text, without=""),
        replies.two_commands(f"/codex-debate {text}", f"/codex-debate answer {text}"),
        replies.two_commands(text, text),
        *(replies.which_one(text, answer=answer) for answer in (False, True)),
        replies.unreadable(text),
        replies.nothing_to_review(text, text),
        replies.draft(1, text),
        replies.no_such_base(text, text),
        replies.bad_config(text, 1, f"there is no key {replies.quoted(text)}"),
        *check_runs.skipped_base(text),
        *check_runs.config_error(text, 1, f"this is not YAML: {replies.quoted(text, 100)}"),
    ]


@pytest.mark.parametrize("number", CORPUS)
@pytest.mark.threat("T26", 140, 141, 142, 145, 146, 147, 148, 150, 151, 154, 156)
def test_words_of_others_stay_words_in_every_sentence_of_the_bot(number: int) -> None:
    tame = [Seen.of(each) for each in said_about("tame")]
    for text in CORPUS[number]:
        for sentence, ours in zip(said_about(text), tame, strict=True):
            page = Seen.of(sentence)
            assert not alive(page, ours=ours, links=re.compile("none")), text
            assert page.structure == ours.structure, text
            assert not hidden(sentence), text
            assert not has_secret(sentence, text), text


def test_prose_when_questions_are_answered() -> None:
    assert replies.which_one("is the retry safe?", answer=True) == (
        "Review the change, or answer the question? Nothing was started. Write one of these:\n\n"
        "```\n/codex-debate review\n```\n\n```\n/codex-debate answer is the retry safe?\n```"
    )
    assert "/codex-debate answer …" in replies.which_one("x" * 300, answer=True)


def test_no_sentence_points_to_a_command_that_is_not_there() -> None:
    url = "https://github.com/o/r/runs/1"
    for stop in (False, True):
        said = (
            replies.running(2, 8, url=url, stop=stop),
            replies.third(stop=stop),
            replies.repeated(url=url, ended=False, stop=stop),
            check_runs.queued_summary("https://github.com", "o/r", SHA, behind=False, stop=stop),
        )
        assert all(("/codex-debate stop" in sentence) is stop for sentence in said)


def test_the_replies_of_the_examples() -> None:
    url = "https://github.com/tidemark-coop/tidebook/runs/48211907734"
    assert replies.running(2, 8, url=url, stop=True) == (
        f"A review is running: round 2, minute 8 ([check run]({url})). Yours waits and starts by itself when it has "
        "ended. To end both: `/codex-debate stop`."
    )
    assert replies.third(stop=True) == (
        "One review is running and one waits; a third is not kept. Write it again when the first has ended, or end "
        "both with `/codex-debate stop`."
    )
    assert replies.repeated(url=url, ended=False, stop=True) == (
        f"That review is already running ([check run]({url})); nothing new was started. To end it: "
        "`/codex-debate stop`."
    )
    assert replies.needs_pull_request() == (
        "A review needs a pull request; nothing was started. Name one: `/codex-debate review 412`."
    )


def test_a_cut_takes_no_breaker_from_its_mark() -> None:
    for length in range(40, 70):
        shown = replies.quoted("x" * length + "#1 and @octocat")
        assert shown.count("#") + shown.count("@") == shown.count("\u200b")


def test_nothing_to_review_names_why_and_the_next_step() -> None:
    assert replies.nothing_to_review("retry", "main") == (
        "`retry` holds no change against `main`; nothing was started. For another base write "
        "`/codex-debate review --base BRANCH`."
    )
    reads = "lint reads *.py only, and none changed"
    assert replies.nothing_to_review("retry", "main", reason=reads, hint=replies.another_reviewer(("codex",))) == (
        "Lint reads *.py only, and none changed; nothing was started. Ask another reviewer: `/codex-debate review "
        "--reviewer codex`."
    )
    assert replies.nothing_to_review("retry", "main", reason=reads, hint=replies.another_reviewer(())) == (
        "Lint reads *.py only, and none changed; nothing was started. No other reviewer starts in this version."
    )
