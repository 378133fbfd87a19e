"""What codex's errors mean for people. That the program words them so is held by tests/worker/agents/test_codex.py."""

from __future__ import annotations

import json
import re
import time

import pytest

from worker.codex_failures import REFUSED, UNSTARTED, Cause, ended, refused, unstarted
from worker.stream import WORDS

CAUSES = [cause for _, cause in (*REFUSED, *UNSTARTED)]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.sentence)
def test_a_sentence_is_for_a_check_run(cause: Cause) -> None:
    """A title puts words before it, a comment a full stop behind it; a reader is told who does something."""
    for text in (cause.sentence, cause.hint):
        assert text[:1].islower() or not text
        assert not text.endswith(".")
    assert "`" not in cause.sentence
    assert cause.hint or cause.kind == "transport" or "{words}" in cause.sentence or "filter" in cause.sentence


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (json.dumps({"error": {"message": "Bad\n\n  `thing`.", "code": "x"}}), "Bad 'thing'."),
        (json.dumps({"error": "Bad thing"}), "Bad thing"),
        (json.dumps({"detail": "Bad thing"}), "Bad thing"),
        ('{"error": 5}', '{"error": 5}'),
        (
            "unexpected status 418 I'm a teapot: Bad thing, url: http://127.0.0.1:8080/v1/responses, cf-ray: 1",
            "Bad thing",
        ),
        ('unexpected status 418 <unknown status code>: {"message": "Bad thing"}, url: http://x', "Bad thing"),
        ("unexpected status 418 I'm a teapot: a key sk-proj-abcdefghijklmnopqrstuv", "a key [redacted]"),
        ("unexpected status 418 I'm a teapot: \x1b[31mred\u202e\ud800", "red\ufffd"),
    ],
)
def test_the_words_of_a_provider_are_cleaned(message: str, words: str) -> None:
    assert refused(message, None).sentence == f"the provider of codex refuses the request: `{words}`"


@pytest.mark.parametrize("page", ["<html>\n<b>502</b>", " <!doctype html>"])
def test_a_page_is_no_sentence(page: str) -> None:
    cause = refused(f"unexpected status 502 Bad Gateway: {page}, url: http://127.0.0.1:8080/v1/responses", None)
    assert cause == Cause("transport", "the provider of codex has a fault of its own")


def test_words_are_cut() -> None:
    sentence = refused(f"unexpected status 422 Unprocessable Entity: {'{}' * 500}", None).sentence
    assert sentence.endswith("{}{…`")
    assert len(sentence.partition(": ")[2].strip("`")) == WORDS


def test_the_key_is_not_repeated() -> None:
    cause = refused("unexpected status 401 Unauthorized: Incorrect API key provided: sk-…f3aQ., url: http://x", None)
    assert cause.sentence == "the provider does not accept the codex key"


@pytest.mark.parametrize(
    ("message", "model", "sentence"),
    [
        (
            "The requested model 'gpt-9' does not exist.",
            "gpt-9",
            "the provider of codex does not offer the model `gpt-9`",
        ),
        (
            '{"error": {"code": "model_not_found"}}',
            None,
            "the provider of codex does not offer the model that codex takes by itself",
        ),
        (
            "unexpected status 404 Not Found: no\nmodel",
            "{words}",
            "the provider of codex does not offer the model `{words}`",
        ),
    ],
)
def test_an_unknown_model_is_named(message: str, model: str | None, sentence: str) -> None:
    cause = refused(message, model)
    assert (cause.kind, cause.sentence) == ("refused", sentence)
    assert "CODEX_DEBATE_CODEX_MODEL" in cause.hint


def test_what_is_unknown_may_go_well_the_next_time() -> None:
    assert refused("Something new.", None) == Cause("transport", "codex ended its turn with an error: `Something new.`")
    assert refused("", None) == Cause("transport", "codex ended its turn with an error")


def test_a_program_that_the_sandbox_cannot_start_is_environment() -> None:
    cause = unstarted("noise\n/opt/tool/codex cannot be started: Permission denied\nmore noise")
    assert cause is not None
    assert cause.kind == "environment"
    assert cause.sentence.endswith("does not start: `/opt/tool/codex cannot be started: Permission denied`")
    assert unstarted("noise\n") is None


def test_an_end_is_told_by_its_status() -> None:
    assert ended(137) == Cause("transport", "codex ended with SIGKILL and without an answer")


def test_every_row_is_reached_by_what_it_is_for() -> None:
    """A row that an earlier one hides is no row."""
    for shape, cause in REFUSED:
        first = next(each for pattern, each in REFUSED if re.search(pattern, _example(shape), re.DOTALL))
        assert first == cause, shape


def _example(shape: str) -> str:
    """Return a text that the first alternative of an expression finds."""
    plain = re.sub(r"\(\?:(\w+)(?:\|\w+)*\)", r"\1", shape).split("|")[0].replace(r"^\s*\{", "{")
    return re.sub(r"\\b|\^|\$", "", plain).replace("We.re", "We're").replace(r"\w+", "x")


@pytest.mark.parametrize(
    "text", ["model " * 400_000, "billing_" * 400_000, "[" * 2_000_000, "unexpected status 404 " * 90_000]
)
def test_a_long_error_is_judged_at_once(text: str) -> None:
    began = time.monotonic()
    refused(text, None)
    assert time.monotonic() - began < 1
