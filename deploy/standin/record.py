"""The journal of all requests, and the faults that a test orders.

It owns what was asked of the stand-in and which answer is to be spoilt. It never decides an ordinary answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """A ref that a push moved. All zeros stand for none: the ref was created, or deleted."""

    ref: str
    old: str
    new: str


@dataclass(slots=True)
class Request:
    """One request. Not frozen: it enters the journal when it arrives and learns its answer later."""

    method: str
    path: str
    """Under the API root for API requests (``/repos/o/r``), else as it was asked (``/o/r.git/git-receive-pack``)."""
    query: dict[str, str]
    body: Any = None
    """The JSON body of an API request; None where there was none, bytes where it was no JSON."""
    permissions: dict[str, str] | None = None
    """What the installation token may do; None for an App's JWT and where no credential was good."""
    status: int | None = None
    """The answer's status; None while it is not given, and where the connection was dropped."""
    updates: tuple[RefUpdate, ...] = ()
    """What a push moved."""
    fault: str | None = None
    """The ordered fault that this request met, in words."""


class FaultOptions(TypedDict, total=False):
    """How a request is to fail; see `Fault`."""

    status: int
    drop: bool
    when: Literal["before", "after"]
    times: int
    message: str
    headers: dict[str, str]


@dataclass(slots=True)
class Fault:
    """An ordered failure of the next requests that fit. Not frozen: it counts down."""

    method: str
    """``*`` fits every method."""
    path_prefix: str
    status: int = 500
    drop: bool = False
    """Close the connection without an answer."""
    when: Literal["before", "after"] = "before"
    """Before the request has had its effect, or after: the answer alone is lost."""
    times: int = 1
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say it in words, for the journal."""
        return f"{'dropped' if self.drop else self.status} {self.when} the effect"


class Record:
    """The journal and the ordered faults of one stand-in."""

    def __init__(self) -> None:
        self.journal: list[Request] = []
        self.faults: list[Fault] = []

    def begin(self, request: Request) -> Fault | None:
        """Enter a request, and take the fault that was ordered for it, if any."""
        self.journal.append(request)
        for fault in self.faults:
            if fault.method in ("*", request.method) and request.path.startswith(fault.path_prefix):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                request.fault = str(fault)
                return fault
        return None
