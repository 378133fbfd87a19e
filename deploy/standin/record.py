"""The journal of all requests, and the faults that a test orders.

It owns what was asked of the stand-in and which answer is to be spoilt. It never decides an ordinary answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict


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


@dataclass(frozen=True, slots=True)
class Exchange:
    """A finished request of the REST API, as it came over the wire."""

    method: str
    target: str
    """Path and query under the API root, as they were sent: still quoted."""
    content_type: str
    body: bytes
    status: int | None
    """None where the connection was dropped; then there is no answer."""
    answer: bytes
    """The body of the answer; empty where it has none."""
    fault: str | None = None
    """The ordered fault that spoilt the answer, in words."""


Observer: TypeAlias = Callable[[Exchange], None]


class FaultOptions(TypedDict, total=False):
    """How a request is to fail. Of `drop`, `hang`, `cut`, `garbage` and `redirect` one is given, or `status` alone."""

    status: int
    """Answer this. Without it 500; 302 with `redirect`; with `cut` and `garbage` what was to be answered, or 200."""
    drop: bool
    """Close the connection without an answer."""
    hang: bool
    """Never answer: the connection stands until the client gives up."""
    cut: bool
    """Close the connection in the middle of the answer's body."""
    garbage: bool
    """Answer with a body that calls itself JSON and is none."""
    redirect: str
    """Point to this address."""
    when: Literal["before", "after"]
    """Before the request has had its effect, or after: the answer alone is lost. Before, unless it is given."""
    times: int
    """How many requests fail; one, unless it is given."""
    message: str
    """What the answer's ``message`` says."""
    headers: dict[str, str]
    """Headers of the answer besides the usual ones: those of GitHub's limits, say."""


KINDS = ("drop", "hang", "cut", "garbage", "redirect")


@dataclass(slots=True)
class Fault:
    """An ordered failure of the next requests that fit; see `FaultOptions`. Not frozen: it counts down.

    Raises ValueError where it is to fail in two ways at once.
    """

    method: str
    """``*`` fits every method."""
    path_prefix: str
    status: int | None = None
    drop: bool = False
    hang: bool = False
    cut: bool = False
    garbage: bool = False
    redirect: str = ""
    when: Literal["before", "after"] = "before"
    times: int = 1
    message: str = "Server Error"
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self._kinds) > 1:
            raise ValueError(f"a request fails in one way, not in {len(self._kinds)}: {', '.join(self._kinds)}")

    @property
    def _kinds(self) -> list[str]:
        return [kind for kind in KINDS if getattr(self, kind)]

    def __str__(self) -> str:
        """Say it in words, for the journal."""
        return f"{', '.join(self._kinds) or self.status or 500} {self.when} the effect"


class Record:
    """The journal and the ordered faults of one stand-in."""

    def __init__(self) -> None:
        self.journal: list[Request] = []
        self.faults: list[Fault] = []
        self.observers: list[Observer] = []
        """Called with every finished request of the API, before its answer leaves."""
        self.git_keeps_connections = False
        """Whether git may ask again over a connection that it has asked over."""

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
