"""What an API call answers, and the refusals in GitHub's words. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DOCS = "https://docs.github.com/rest"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: a status, a JSON body (None: an empty one) and headers besides the usual ones."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):  # noqa: N818 - it is an answer, raised where a call cannot go on
    """An answer that ends a call."""

    def __init__(self, status: int, message: str, *, errors: list[Any] | None = None) -> None:
        super().__init__(message)
        body: dict[str, Any] = {"message": message}
        if errors is not None:
            body["errors"] = errors
        body |= {"documentation_url": DOCS, "status": str(status)}
        self.answer = Answer(status, body)


def not_found() -> Refused:
    """Return the bare 404, which does not say whether the thing is absent or hidden."""
    return Refused(404, "Not Found")


def bad_credentials(message: str = "Bad credentials") -> Refused:
    """Return a 401."""
    return Refused(401, message)


def not_permitted(accepted: str) -> Refused:
    """Return the 403 of an installation token that lacks a permission; `accepted` names what would do."""
    refusal = Refused(403, "Resource not accessible by integration")
    refusal.answer.headers["X-Accepted-GitHub-Permissions"] = accepted
    return refusal


def invalid_request(problem: str) -> Refused:
    """Return the 422 of a body that breaks the call's schema."""
    return Refused(422, f"Invalid request.\n\n{problem}")


def validation_failed(resource: str, name: str, *, message: str | None = None, code: str = "custom") -> Refused:
    """Return the 422 of a body that breaks one of GitHub's own rules about a field."""
    error = {"resource": resource, "code": code, "field": name}
    return Refused(422, "Validation Failed", errors=[error if message is None else error | {"message": message}])
