"""The codecs of the debates that edit: verdicts, dispositions and cruxes, from an agent's text to checked values.

Shared ground. Every codec is closed: what does not fit is named, never guessed, and what is absent is not agreement.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.redact import whole
from worker.debate.findings import FINDING_ID, TITLE_LIMIT, Crux, Finding, Position, Section, Verdict, Word
from worker.debate.flow import Malformed

FINDINGS_LIMIT = 200
"""Findings in one verdict. More than this is a runaway reply, not a review."""

REPLY_LIMIT = 200_000
"""Characters of one reply. What is longer would hold the worker for minutes when it is rendered, and says no more."""
_TOO_LONG = f"it has more than {REPLY_LIMIT:,} characters"

TModel = TypeVar("TModel", bound=BaseModel)

# ---- Verdicts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerdictCodec:
    """Reads a reviewer's verdict."""

    open: tuple[str, ...] = ()
    """Ids that are open in the ledger: each must be in the verdict."""
    known: tuple[str, ...] = ()
    """Every id of the ledger."""
    gated: tuple[str, ...] = ()
    """Ids for which the author has claimed the gate: only these can be deferred."""

    def schema(self) -> dict[str, Any]:
        """Return the schema: every property required and no other allowed, as the providers' strict mode asks."""
        finding = {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "severity": {"type": "string", "enum": ["blocking", "major", "minor", "nit"]},
            "location": {"type": "string"},
            "issue": {"type": "string"},
            "suggestion": {"type": "string"},
            "status": {"type": "string", "enum": ["open", "resolved", "deferred"]},
        }
        return _strict(
            {
                "approved": {"type": "boolean"},
                "summary": {"type": "string"},
                "findings": {"type": "array", "items": _strict(finding)},
                "response_to_rebuttal": {"type": "string"},
            }
        )

    def problem(self, text: str) -> str | None:
        """Return what is wrong with a verdict."""
        try:
            self.parse(text)
        except Malformed as error:
            return str(error)
        return None

    def reask(self, problem: str) -> str:
        """Return the brief of the re-ask."""
        return (
            f"Your verdict cannot be used: {problem}.\n\n"
            "Send the whole verdict again, as one JSON object of the same shape and nothing around it. "
            "Change only what is wrong with it; what you found stays as it is.\n"
        )

    def parse(self, text: str) -> Verdict:
        """Return the verdict."""
        verdict = _validated(Verdict, text)
        ids = [finding.id for finding in verdict.findings]
        for bad in (each for each in ids if not FINDING_ID.match(each)):
            _malformed(f"{bad[:40]!r} is no id; an id is a letter followed by letters, digits, - or _, such as F1")
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            _malformed(f"{_listed(twice)} stands in it twice; each finding has an id of its own")
        if lost := [each for each in self.open if each not in ids]:
            _malformed(f"it does not say what became of {_listed(lost)}; every open finding needs its status")
        for finding in verdict.findings:
            self._check(finding)
        if not verdict.approved and not any(self.is_open(finding) for finding in verdict.findings):
            _malformed("it does not approve, but no finding in it is open; approve, or say what is open")
        return verdict.model_copy(
            update={"findings": tuple(_shortened(finding) for finding in verdict.findings)},
        )

    def is_open(self, finding: Finding) -> bool:
        """Return whether a finding stays open: a deferral that the author never asked for does not close it."""
        return finding.status == "open" or (finding.status == "deferred" and finding.id not in self.gated)

    def _check(self, finding: Finding) -> None:
        """Refuse a finding that says nothing."""
        if not finding.title.strip() or not finding.issue.strip():
            _malformed(f"{finding.id} has an empty title or issue")
        if finding.id not in self.known and finding.status == "resolved":
            _malformed(f"{finding.id} is new and resolved at once; leave it out, or say that it is open")


# ---- Dispositions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DispositionCodec:
    """Reads an author's final message: some sentences, then a bullet for each open finding."""

    open: tuple[str, ...]

    def schema(self) -> None:
        """Return None: the author answers in prose."""
        return

    def problem(self, text: str) -> str | None:
        """Return which findings have no disposition."""
        if not text.strip():
            return "it is empty"
        if len(text) > REPLY_LIMIT:
            return _TOO_LONG
        missing = self.parse(text).missing
        return f"{_listed(missing)} {'has' if len(missing) == 1 else 'have'} no disposition" if missing else None

    def reask(self, problem: str) -> str:
        """Return the brief of the re-ask."""
        shape = "\n".join(f"- `{each}` **fixed**: what you did, and where" for each in self.open)
        return (
            f"Your final message cannot be used: {problem}.\n\n"
            "Send the whole message again: one or two sentences, then one bullet for each of these findings, with one "
            "of the words fixed, partial, disputed or disputed (gate) in bold. Do not change any file now.\n\n"
            f"{shape}\n"
        )

    def parse(self, text: str) -> Section:
        """Return the section; ids without a disposition stand in `missing`, since a gap in the record ends nothing.

        What is too long even when it was asked for again is cut.
        """
        text = text[:REPLY_LIMIT]
        intro, bullets = _bullets(text)
        found = {match["id"]: _position(match) for match in map(_BULLET.match, bullets) if match}
        positions = tuple(found[each] for each in self.open if each in found)
        return Section(
            text=text,
            intro=intro,
            positions=positions,
            missing=tuple(each for each in self.open if each not in found),
        )


_BULLET = re.compile(
    r"^[-*+] +`?(?P<id>[A-Za-z][A-Za-z0-9_-]{0,31})`? *+(?:: *+)?"
    r"\*\*(?P<word>fixed|partial|disputed(?: \(gate\))?)(?P<colon>:?)\*\*(?P<gate> *\(gate\))?"
    r" *[:.,;\u2013\u2014-]* *(?P<text>.*)$",
    re.DOTALL,
)
"""A disposition: the id, the word in bold, the reason. `**disputed** (gate)` says the same as `**disputed (gate)**`."""


def _bullets(text: str) -> tuple[str, list[str]]:
    """Return the prose before the first top-level bullet, and the bullets with their continuation lines."""
    intro: list[str] = []
    bullets: list[list[str]] = []
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bar = re.match(r" {0,3}(`{3,}|~{3,})", line)
        starts = not fence and re.match(r"[-*+] +\S", line) is not None
        if bar and not fence:
            fence = bar[1]
        elif bar and bar[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        if starts:
            bullets.append([line])
        else:
            (bullets[-1] if bullets else intro).append(line)
    return "\n".join(intro).strip(), ["\n".join(each).strip() for each in bullets]


def _position(match: re.Match[str]) -> Position:
    """Return the position that a bullet takes."""
    gate = match["gate"] is not None or match["word"] == Word.GATE
    return Position(match["id"], Word.GATE if gate else Word(match["word"]), match["text"].strip())


# ---- Cruxes ---------------------------------------------------------------------------------------------------------


class _Crux(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    crux: str
    fact: str
    question: str


class _Cruxes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cruxes: tuple[_Crux, ...]


@dataclass(frozen=True, slots=True)
class CruxCodec:
    """Reads what each open finding turns on, said at a backstop."""

    open: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """Return the schema."""
        text = {"type": "string"}
        crux = _strict({"id": text, "crux": text, "fact": text, "question": text})
        return _strict({"cruxes": {"type": "array", "items": crux}})

    def problem(self, text: str) -> str | None:
        """Return what is wrong with the reply."""
        try:
            self.parse(text)
        except Malformed as error:
            return str(error)
        return None

    def reask(self, problem: str) -> str:
        """Return the brief of the re-ask."""
        return f"Your reply cannot be used: {problem}.\n\nSend it again as one JSON object and nothing around it.\n"

    def parse(self, text: str) -> tuple[Crux, ...]:
        """Return a crux for each open id that has one."""
        found = {
            each.id: Crux(each.id, each.crux, each.fact, each.question) for each in _validated(_Cruxes, text).cruxes
        }
        return tuple(found[each] for each in self.open if each in found)


# ---- Parts ----------------------------------------------------------------------------------------------------------


def _validated(model: type[TModel], text: str) -> TModel:
    """Return a model from a reply that must be one JSON object and nothing else."""
    if len(text) > REPLY_LIMIT:
        _malformed(_TOO_LONG)
    try:
        value = json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        _malformed(f"it is not one JSON object ({str(error)[:120]})")
    findings = value.get("findings") if isinstance(value, dict) else None
    if isinstance(findings, list) and len(findings) > FINDINGS_LIMIT:
        _malformed(f"it holds more than {FINDINGS_LIMIT} findings")
    try:
        # As JSON again, since only so a list may become a tuple; an escape can spell what no file can hold.
        return model.model_validate_json(whole(json.dumps(value, ensure_ascii=False)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        _malformed(f"{'.'.join(map(str, first['loc'])) or 'the object'}: {first['msg']}")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a key twice: which of the two counts would be a guess."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key stands in it twice")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _shortened(finding: Finding) -> Finding:
    """Return a finding whose title keeps to its limit: a long one is no reason to lose the finding."""
    title = " ".join(finding.title.split())
    if len(title) > TITLE_LIMIT:
        title = title[: TITLE_LIMIT - 1].rstrip() + "…"
    return finding.model_copy(update={"title": title})


def _listed(ids: tuple[str, ...] | list[str]) -> str:
    return ", ".join(ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")


def _malformed(problem: str) -> NoReturn:
    raise Malformed(problem)
