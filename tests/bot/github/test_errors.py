"""Errors say what GitHub said, and nothing secret."""

from __future__ import annotations

import pytest

from bot.github import Forbidden, GitHubError, NotFound, Unavailable
from bot.github.errors import MESSAGE_CHARS


@pytest.mark.parametrize("kind", [GitHubError, NotFound, Forbidden, Unavailable])
def test_an_error_names_the_status_and_githubs_words(kind: type[GitHubError]) -> None:
    error = kind(403, "No.", retry_after=3.0)
    assert (str(error), error.status, error.message, error.retry_after) == ("GitHub answered 403: No.", 403, "No.", 3.0)
    assert str(kind(0, "It did not answer")) == "It did not answer"


CLASSIC = "ghs_" + "Ab1" * 12
STATELESS = "ghs_700001_eyJhbGciOiJSUzI1NiJ9." + "a-B_9" * 66 + "." + "c-D_0" * 32


@pytest.mark.parametrize("token", [CLASSIC, STATELESS])
def test_both_forms_of_a_token_are_taken_out_of_what_is_said(token: str) -> None:
    assert len(token) in {40, 523}
    said = str(GitHubError(422, f"the token {token} is no good"))
    assert said == "GitHub answered 422: the token [redacted] is no good"


def test_hidden_characters_and_length_are_bounded() -> None:
    error = GitHubError(500, "a\u202eb" + "c" * 1000)
    assert "\u202e" not in error.message
    assert len(error.message) == MESSAGE_CHARS
