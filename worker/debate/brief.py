"""The parts of a brief that debates share: templates with slots, quoted data, and the ledger as agents read it."""

from __future__ import annotations

import json
import re
from importlib.resources import files

from bot.redact import visible
from worker.debate.findings import Record, State, ledger
from worker.debate.task import Task

SECTION_BUDGET = 32_000
"""Bytes of one party's section in a brief (decisions.md 6.1)."""
TEXT_BUDGET = 8_000
"""Bytes of the pull request's own text in a brief (decisions.md 6.1)."""


def template(name: str) -> str:
    """Return a prompt as it stands in ``prompts/<name>.md``."""
    return (files("worker.debate") / "prompts" / f"{name}.md").read_text("utf-8")


def sources(*modules: str, prompts: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return what a protocol's fingerprint is made from: its modules, the shared ones, and its prompts (house.md 4)."""
    folder = files("worker.debate")
    shared = ("brief", "codecs", "findings", "flow", "task")
    code = [(folder / f"{name}.py").read_bytes() for name in (*modules, *shared)]
    return (*code, *(template(name).encode() for name in prompts))


def fill(text: str, **slots: str) -> str:
    """Return a template with its slots ``{{name}}`` filled once: what a slot brings is never read for slots again.

    Raises KeyError on a slot that nobody fills. A line that holds nothing but an empty slot goes away.
    """
    text = re.sub(r"^\{\{(\w+)\}\}\n\n?", lambda match: match[0] if slots[match[1]] else "", text, flags=re.MULTILINE)
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], text)


def quoted(text: str, *, budget: int) -> str:
    """Return untrusted text as a block that it cannot leave, without hidden characters, cut to `budget` bytes."""
    clean = visible(text)
    raw = clean.encode("utf-8", "replace")
    if len(raw) > budget:
        clean = raw[:budget].decode("utf-8", "ignore") + f"\n[cut: {len(raw) - budget} more bytes]"
    longest = max((len(run) for run in re.findall(r"`+", clean)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{clean}\n{fence}"


def heading(title: str, text: str) -> str:
    """Return a titled part of a brief; nothing where there is no text."""
    return f"## {title}\n\n{text}" if text else ""


def ledger_block(record: Record, next_free: str) -> str:
    """Return the ledger as one fenced block of JSON: the findings, where each stands, and the next free id."""
    said = {position.id: position.text for each in record.rounds if each.section for position in each.section.positions}
    findings = [
        {
            "id": entry.id,
            "title": entry.title,
            "severity": entry.severity,
            "location": entry.location,
            "issue": entry.issue,
            "suggestion": entry.suggestion,
            "status": entry.state.value,
            "disposition": entry.last_word.value if entry.last_word else None,
            "said": said.get(entry.id, ""),
        }
        for entry in ledger(record)
    ]
    body = json.dumps({"next_id": next_free, "findings": findings}, ensure_ascii=False, indent=1)
    # A run of backticks inside a JSON string would end the fence; JSON can spell them without changing the value.
    body = body.replace("```", "\\u0060\\u0060\\u0060")
    return f"```json ledger\n{body}\n```"


def coverage(task: Task) -> str:
    """Return what of the change or the tree cannot be read; nothing where all of it can."""
    # A path is whatever a stranger called it: it stays within its quotation marks.
    names = ((each.path.replace("`", "'"), each.why) for each in task.files if each.coverage != "read")
    parts = [f"`{path}` ({why})" for path, why in names]
    told = []
    if task.narrowed:
        told.append("The tree is too large to stand here whole: it holds the folders of changed files only.")
    if parts:
        more = f" and {len(parts) - 20} more, named in `/brief/files.txt`" if len(parts) > 20 else ""
        told.append(f"Not, or not wholly, in the diff: {', '.join(parts[:20])}{more}.")
    return " ".join([*told, "Say so if your judgement depends on what is missing."]) if told else ""


def standings(record: Record) -> str:
    """Return the findings that are settled, one line each; nothing where none is."""
    lines = [
        f"- `{entry.id}` {entry.state.value}: {entry.title}"
        for entry in ledger(record)
        if entry.state is not State.OPEN
    ]
    return "\n".join(lines)
