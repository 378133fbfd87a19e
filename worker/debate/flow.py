"""The step vocabulary of a debate and the generators that yield it.

A protocol is a generator: it yields steps, is sent replies and returns an outcome. This module owns the closed set of
steps, what comes back for each, and the helpers with which protocols are written. It performs nothing: the runner does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from pydantic import TypeAdapter

from worker.debate.task import Coverage

# ---- Codecs: how the text of a reply becomes a value ----------------------------------------------------------------


class Malformed(Exception):  # noqa: N818 - it names a kind of reply, and is answered by a re-ask before it is an error
    """A reply's text does not fit its codec and cannot be used. ``str(error)`` says what is wrong."""


class Codec(Protocol):
    """Turns the text of a reply into a value. Each codec is a frozen dataclass of plain data, so that a step hashes."""

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON schema that the agent's program is given, or None where free text is asked for."""

    def problem(self, text: str) -> str | None:
        """Return what is wrong with a reply, in words that an agent can act on: it is re-asked once; else None."""

    def reask(self, problem: str) -> str:
        """Return the brief of that one re-ask, which goes to the same session."""

    def parse(self, text: str) -> Any:  # noqa: ANN401 - each codec has a value of its own
        """Return the value of a reply. Raise `Malformed` where the text cannot be used, also after the re-ask."""


# ---- Steps ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """One read-only turn of one seat. Its reply is a `Reply` without `edited`."""

    seat: str
    round: int
    brief: str
    codec: Codec
    cold: str | None = None
    """The whole brief for a seat whose session is gone. None: `brief` stands on its own (a first turn)."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What a commit of an editing turn will say, besides the author's own words."""

    subject: str
    """May hold ``{ids}``, which is replaced by the ids that the author fixed, in full or in part."""
    findings: tuple[dict[str, str], ...]
    """The open findings as the reviewer put them: ``id``, ``severity``, ``location``, ``issue``."""
    reviewed_with: str
    authored_with: str


@dataclass(frozen=True, slots=True)
class Edit:
    """One editing turn of one seat. Its reply is a `Reply` with `edited`."""

    seat: str
    round: int
    brief: str
    codec: Codec
    plan: CommitPlan | None
    """None where no commit is wanted (`--no-commit`): the change is kept with the run as objects alone."""
    cold: str | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """Flows side by side. Its reply is one `Branch` for each, in order; a branch's failure cancels no sibling."""

    flows: tuple[Callable[[], Flow[Any]], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """How the debate stands. Never stored, never a reason to fail, and silent while a journal is replayed."""

    standing: Any


Step: TypeAlias = Ask | Edit | Fork | Note

# ---- Replies --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path of the author's result that was not admitted, and why, in one sentence."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    """One of the project's own checks after an editing turn: ``passed``, ``failed`` or ``not run``."""

    command: str
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """What became of an editing turn, as git knows it and not as the agent tells it."""

    changed: tuple[str, ...]
    """Paths that differ from the tree before the turn and were admitted; shown escaped where not printable UTF-8."""
    tree: str
    """The tree after the turn, as an object id. The one before the turn where the round was refused."""
    commit: str | None = None
    """The durable commit, or None: nothing changed, no commit was wanted, or there is a `gap`."""
    refused: tuple[Refusal, ...] = ()
    """Paths that were put back, with the rest of the round admitted."""
    gap: str | None = None
    """Why changes could not be made a durable commit, in one sentence; None where there is no such trouble."""
    moved: bool = False
    """Its push was refused since somebody else has put commits on the run's branch, or in its place."""
    checks: tuple[Check, ...] = ()
    coverage: Coverage | None = None
    """What the agents are shown of the change with this round in it; None where the round left it as it was."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What was used of a model, as its provider counts it."""

    input: int = 0
    """All that the model was given, whether it came from the provider's cache or not."""
    cached: int = 0
    """Of `input`, what came from the provider's cache."""
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        """Return both together."""
        return Tokens(self.input + other.input, self.cached + other.cached, self.output + other.output)


@dataclass(frozen=True, slots=True)
class Used:
    """What a turn used of a model, all its attempts and its re-ask together."""

    model: str | None = None
    """The model that answered last, where there was one."""
    usd: float = 0.0
    tokens: Tokens = Tokens()
    unpriced: bool = False
    """The model has no price of its own: `usd` counts it as the dearest there is."""

    def __add__(self, other: Used) -> Used:
        """Return both together, in their order."""
        return Used(
            other.model or self.model,
            self.usd + other.usd,
            self.tokens + other.tokens,
            unpriced=self.unpriced or other.unpriced,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a performed turn came back with; journaled as it stands."""

    text: str
    agent: str
    session: str | None = None
    """The agent's own id of the conversation, with which its next turn resumes."""
    seconds: float = 0.0
    used: Used = Used()
    attempts: int = 1
    edited: Edited | None = None


Ceiling: TypeAlias = Literal["money", "day", "calls"]
"""What may be spent: the run's money, the installation's money for a day (UTC), the calls of one turn."""
Kind: TypeAlias = Literal["transport", "timeout", "malformed", "refused", "environment"] | Ceiling
"""How a turn failed: the program died or said nothing; it ran out of time; its reply broke the contract twice; its
provider refused; it cannot be started here; or a ceiling was reached."""
CEILINGS: frozenset[str] = frozenset(get_args(Ceiling))


class TurnFailed(Exception):  # noqa: N818 - the word of house.md 4
    """An agent gave no usable reply, after its retries. Journaled like a reply, and thrown into the flow."""

    def __init__(self, kind: Kind, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - those of `Failure`
        """`sentence` is for people; `facts` are the other fields of `Failure`."""
        super().__init__(sentence)
        self.facts = Failure(kind, sentence, **facts)

    @property
    def kind(self) -> Kind:
        """Return the kind."""
        return self.facts.kind

    @property
    def sentence(self) -> str:
        """Return the sentence."""
        return self.facts.sentence


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a turn that failed."""

    kind: Kind
    sentence: str
    """What happened, for people."""
    hint: str = ""
    """What a person does about it; empty where writing the command again is all there is."""
    attempts: int = 1
    seconds: float = 0.0
    used: Used = Used()
    log: str = ""
    """The tail of the attempts' own output."""


@dataclass(frozen=True, slots=True)
class Branch:
    """How one flow of a Fork ended: with a value, or with a failure."""

    value: Any = None
    failure: TurnFailed | None = None


# ---- Flows ----------------------------------------------------------------------------------------------------------

T = TypeVar("T")
Flow: TypeAlias = Generator[Step, Any, T]


def ask(step: Ask) -> Flow[tuple[Any, Reply]]:
    """Yield a read-only turn; return its parsed value and the reply. Raises `TurnFailed`."""
    reply: Reply = yield step
    return step.codec.parse(reply.text), reply


def edit(step: Edit) -> Flow[tuple[Any, Reply]]:
    """Yield an editing turn; return its parsed value and the reply. Raises `TurnFailed`."""
    reply: Reply = yield step
    return step.codec.parse(reply.text), reply


def note(standing: object) -> Flow[None]:
    """Yield how the debate stands."""
    yield Note(standing)


def fork(flows: Iterable[Callable[[], Flow[Any]]]) -> Flow[list[Branch]]:
    """Yield flows side by side; return how each ended, in the order given."""
    branches: list[Branch] = yield Fork(tuple(flows))
    return branches


# ---- What the journal stores ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a journal: the hash of the step that was performed, and what came of it (exactly one of the two)."""

    step: str
    reply: Reply | None = None
    failure: Failure | None = None


_entries = TypeAdapter(Entry)


def dump_entry(entry: Entry) -> bytes:
    """Return an entry as JSON."""
    return _entries.dump_json(entry)


def load_entry(raw: bytes | str) -> Entry:
    """Return the entry that `dump_entry` wrote. Raises pydantic's ValidationError on anything else."""
    return _entries.validate_json(raw)


def entry_of(step: Ask | Edit, result: Reply | TurnFailed) -> Entry:
    """Return the entry that records a performed step."""
    if isinstance(result, Reply):
        return Entry(step_hash(step), reply=result)
    return Entry(step_hash(step), failure=result.facts)


def result_of(entry: Entry) -> Reply | TurnFailed:
    """Return what an entry recorded: the reply, or the failure to throw."""
    if entry.failure is not None:
        return TurnFailed(**{each.name: getattr(entry.failure, each.name) for each in fields(entry.failure)})
    if entry.reply is None:
        msg = "a journal entry holds neither a reply nor a failure"
        raise ValueError(msg)
    return entry.reply


def step_hash(step: Ask | Edit) -> str:
    """Return the hash under which a step's reply is journaled: the same step hashes the same in every process."""
    shape = {"step": type(step).__name__, "codec": type(step.codec).__name__, **asdict(step)}
    return hashlib.sha256(json.dumps(shape, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest()
