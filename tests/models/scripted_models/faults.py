"""What can go wrong with a model's API, as turns: each row of agents.md 2.4 and 4.7, and what an attacker adds.

The sentences are of the kind that the APIs send; a program repeats some of them in its own error.
"""

from __future__ import annotations

from scripted_models.turns import Broken, Cut, Endless, Garbage, Hang, Redirect, Refusal, Silence, Turn


def refused(status: int, message: str = "This was scripted.", *, kind: str = "") -> Turn:
    """Answer with this status, and the API's own kind of error for it unless `kind` is given."""
    return Turn(fault=Refusal(status, message, kind))


def unauthorized() -> Turn:
    """401: the key is wrong."""
    return refused(401, "The key is not valid.")


def forbidden() -> Turn:
    """403: the key may not do this."""
    return refused(403, "The key may not use this model.")


def not_found() -> Turn:
    """404: there is no such model."""
    return refused(404, "There is no such model.")


def bad_request(message: str = "This request cannot be understood.") -> Turn:
    """400."""
    return refused(400, message)


def rate_limited(*, retry_after: float | None = None) -> Turn:
    """429: too many requests; come back after so many seconds."""
    return Turn(fault=Refusal(429, "There are too many requests.", retry_after=retry_after))


def insufficient_quota() -> Turn:
    """429 with OpenAI's code for an account without money."""
    return refused(429, "You exceeded your current quota.", kind="insufficient_quota")


def server_error() -> Turn:
    """500."""
    return refused(500, "The server had an error.")


def unavailable() -> Turn:
    """503."""
    return refused(503, "The service is unavailable.")


def overloaded() -> Turn:
    """529: Anthropic has too much to do."""
    return refused(529, "Overloaded")


def credit_balance() -> Turn:
    """400: Anthropic's answer to an account without money."""
    return refused(400, "Your credit balance is too low to access the Anthropic API.")


def prompt_too_long() -> Turn:
    """400: Anthropic's answer to a prompt beyond the context window."""
    return refused(400, "prompt is too long: 250000 tokens > 200000 maximum")


def broken(kind: str, message: str = "This was scripted.", *, after: str = "") -> Turn:
    """Tell an error inside the stream, after some text."""
    return Turn(parts=(after,) if after else (), fault=Broken(kind, message))


def stream_rate_limited(*, again_in: str = "1s") -> Turn:
    """OpenAI's response.failed for too many requests; codex waits as long as the sentence says."""
    return broken("rate_limit_exceeded", f"Rate limit reached. Please try again in {again_in}.")


def stream_insufficient_quota() -> Turn:
    """OpenAI's response.failed for an account without money."""
    return broken("insufficient_quota", "You exceeded your current quota.")


def context_length_exceeded() -> Turn:
    """OpenAI's response.failed for a prompt beyond the context window."""
    return broken("context_length_exceeded", "Your input exceeds the context window of this model.")


def stream_server_error() -> Turn:
    """OpenAI's response.failed for an error of the server."""
    return broken("server_error", "An error occurred while processing your request.")


def stream_overloaded(*, after: str = "") -> Turn:
    """Anthropic's error event for too much to do."""
    return broken("overloaded_error", "Overloaded", after=after)


def cut(after: str = "The first words", *, clean: bool = False) -> Turn:
    """Break the connection off after some text; where `clean`, end the answer as if it were complete."""
    return Turn(parts=(after,), fault=Cut(clean))


def silence(after: str = "The first words", *, pings: float = 0.0) -> Turn:
    """Send nothing more after some text, or only a sign of life each so many seconds."""
    return Turn(parts=(after,), fault=Silence(pings))


def hang() -> Turn:
    """Never answer."""
    return Turn(fault=Hang())


def garbage(body: bytes = b"<html>It works!</html>\n\n", *, content_type: str = "text/event-stream") -> Turn:
    """Answer 200 and something that is not the API's."""
    return Turn(fault=Garbage(body, content_type))


def endless(*, line: bool = False) -> Turn:
    """Say text without end, as fast as it is read; or, where `line`, one event without end."""
    return Turn(fault=Endless(line))


def redirected(location: str, *, status: int = 307) -> Turn:
    """Say that the API is at another address."""
    return Turn(fault=Redirect(location, status))
