"""A debate's folders without the rest of the worker: a tree, the diff to it, and the ledger of both sides' words."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from worker import agents
from worker.debate.brief import ledger_block
from worker.debate.codecs import DispositionCodec, VerdictCodec
from worker.debate.findings import LedgerEntry, Record, Round, Section, Verdict, ledger, next_id, open_entries
from worker.debate.flow import Edited
from worker.process import run


@dataclass
class Debate:
    """Seats that talk to each other about a change, round by round."""

    root: Path
    record: Record = field(default_factory=Record)
    cut: tuple[str, ...] = ()
    """Files of the change for which the diff has no room."""

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    def begin(self, base: Mapping[str, str | bytes], change: Mapping[str, str | bytes | None]) -> None:
        """Lay out a base, and the change on top of it."""
        self.tree.mkdir()
        (self.root / "notes").mkdir()
        self.git("init", "--quiet", "--template=")
        self.write(base)
        self.git("add", "--all")
        self.write(change)

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for path, content in files.items():
            place = self.tree / path
            if content is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def git(self, *arguments: str) -> bytes:
        """Run git beside the tree: the index holds the base."""
        settings = ("-c", "core.autocrlf=false", "-c", "user.name=t", "-c", "user.email=t@t.example")
        command = ["git", f"--git-dir={self.root}/git", f"--work-tree={self.tree}", *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, cwd=self.tree).stdout

    def diff(self) -> None:
        """Write the change for the agents, without what is `cut` of it."""
        self.git("add", "--all", "--intent-to-add")
        without = [f":(exclude){path}" for path in self.cut]
        notes = self.root / "notes"
        (notes / "change.diff").write_bytes(self.git("diff", "--text", "--no-ext-diff", "--", ".", *without))
        (notes / "files.txt").write_text("".join(f"M\t{path}\t9\tskipped: why\n" for path in self.cut))

    def request(self, *, editing: bool) -> agents.TurnRequest:
        seat = "author" if editing else "reviewer"
        folder = self.root / "sessions" / seat
        number = len(self.record.rounds) + (0 if editing else 1)
        brief = f"Some words.\n\n{ledger_block(self.record, next_id(self.record, 1))}\n\nMore words.\n"
        return agents.TurnRequest(
            run="7h2kq9xw",
            seat=seat,
            round=number,
            turn=number,
            brief=brief,
            schema=None,
            editing=editing,
            tree=self.tree,
            base=self.root / "base",
            notes=self.root / "notes",
            session=None,
            session_dir=folder,
            seconds=60,
        )

    async def turn(self, agent: str, *, editing: bool) -> str:
        self.diff()
        take_turn = agents.AGENTS[agent].take_turn
        assert take_turn is not None
        return (await take_turn(self.request(editing=editing), run)).text

    async def review(self, agent: str = "lint") -> Verdict:
        """One verdict of the reviewer, read as the host reads it."""
        known = ledger(self.record)
        codec = VerdictCodec(
            open=tuple(each.id for each in open_entries(self.record)), known=tuple(each.id for each in known)
        )
        text = await self.turn(agent, editing=False)
        verdict = codec.parse(text)
        assert json.loads(text)["findings"] == [each.model_dump() for each in verdict.findings], "nothing was cut"
        self.record = Record((*self.record.rounds, Round(len(self.record.rounds) + 1, verdict=verdict)))
        return verdict

    async def answer(self, agent: str = "lint") -> Section:
        """One message of the author, read as the host reads it."""
        codec = DispositionCodec(open=tuple(each.id for each in open_entries(self.record)))
        was = {path: path.read_bytes() for path in self.tree.rglob("*") if path.is_file()}
        section = codec.parse(await self.turn(agent, editing=True))
        assert not section.missing
        changed = tuple(str(path) for path, raw in was.items() if path.read_bytes() != raw)
        *before, last = self.record.rounds
        self.record = Record((*before, replace(last, section=section, edited=Edited(changed, "tree"))))
        return section

    def say(self, **words: str) -> None:
        """Let the author answer by hand: ``F1="**disputed**: it is on purpose"``."""
        codec = DispositionCodec(open=tuple(words))
        section = codec.parse("\n".join(f"- `{each}` {text}" for each, text in words.items()))
        *before, last = self.record.rounds
        self.record = Record((*before, replace(last, section=section)))

    def standing(self) -> dict[str, LedgerEntry]:
        return {each.id: each for each in ledger(self.record)}

    def text(self, path: str) -> str:
        return (self.tree / path).read_bytes().decode()


@pytest.fixture
def debate(tmp_path: Path) -> Debate:
    return Debate(tmp_path)


@pytest.fixture
def request_of(debate: Debate) -> Callable[..., agents.TurnRequest]:
    """Return a request of the first turn with some fields of one's own."""

    def make(**fields: Any) -> agents.TurnRequest:
        return replace(debate.request(editing=bool(fields.get("editing"))), **fields)

    return make
