"""Ruff in the author's seat: how it edits, and how a finding ends between the two seats."""

from __future__ import annotations

import random
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from worker.agents import lint
from worker.debate.brief import LEDGER_BUDGET
from worker.debate.findings import State, Word
from worker.process import Finished, Program, run

if TYPE_CHECKING:
    from tests.worker.agents.conftest import Debate

# ---- The author -----------------------------------------------------------------------------------------------------


async def test_safe_edits_are_made_to_the_byte(debate: Debate) -> None:
    before = 'import os\nö = "é😀"; y = f""  # ümlaut\n'
    debate.begin({}, {"a.py": before + "z = not y in ö\n\x0c\nlast = 1"})
    (debate.tree / "a.py").chmod(0o755)
    await debate.review()
    section = await debate.answer()
    assert debate.text("a.py") == 'ö = "é😀"; y = ""  # ümlaut\nz = y not in ö\n\x0c\nlast = 1'
    assert stat.S_IMODE((debate.tree / "a.py").stat().st_mode) == 0o755
    assert section.intro == "Ruff's safe edits settle 3 of 3 findings."
    assert [position.text for position in section.positions] == [
        "Remove unused import: `os`, `a.py:1`.",
        "Remove extraneous `f` prefix, `a.py:2`.",
        "Convert to `not in`, `a.py:3`.",
    ]
    assert (await debate.review()).approved
    assert {entry.state for entry in debate.standing().values()} == {State.FIXED}


async def test_edits_that_touch_are_made_one_after_the_other(debate: Debate) -> None:
    debate.begin({}, {"a.py": "x = 1\nif not (not x == 1):\n    y = f\"{x}\" if not x in [1] else f''\nprint(y)\n"})
    await debate.review()
    await debate.answer()
    verdict = await debate.review()
    assert all(finding.status == "resolved" for finding in verdict.findings if finding.id in {"F1", "F2", "F3"})


async def test_only_open_findings_are_edited(debate: Debate) -> None:
    debate.begin({"a.py": "import os\n"}, {"a.py": "import os\nimport sys\n", "b.py": "import re\n"})
    await debate.review()
    await debate.answer()
    assert (debate.text("a.py"), debate.text("b.py")) == ("import os\n", "")


async def test_without_a_safe_edit_the_finding_is_for_a_person(debate: Debate) -> None:
    debate.begin({}, {"a.py": "def f(x=[]):\n    return x\n"})
    (finding,) = (await debate.review()).findings
    assert finding.suggestion.endswith("Ruff does not call that edit safe.")
    section = await debate.answer()
    assert section.intro == "Ruff has no safe edit that settles a finding."
    assert [(each.word, each.text) for each in section.positions] == [
        (Word.DISPUTED, "no automatic fix: for a person.")
    ]
    verdict = await debate.review()
    assert verdict.approved
    assert verdict.response_to_rebuttal == "`F1` is conceded: ruff has no safe edit for it, so a person decides."
    assert debate.standing()["F1"].state is State.CONCEDED


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"import os\r\nx = 1\r\n", "its lines do not end in plain newlines"),
        (b"\xef\xbb\xbfimport os\n", "it begins with a byte order mark"),
    ],
)
async def test_files_whose_bytes_are_unusual_are_left_alone(debate: Debate, raw: bytes, reason: str) -> None:
    debate.begin({}, {"a.py": raw})
    await debate.review()
    section = await debate.answer()
    assert section.positions[0].text == f"no automatic fix: for a person ({reason})."
    assert (debate.tree / "a.py").read_bytes() == raw
    assert (await debate.review()).approved


async def test_a_file_that_is_not_utf8_is_for_a_person(debate: Debate) -> None:
    raw = b"# -*- coding: latin-1 -*-\nimport os\nx = '\xe9'\n"
    debate.begin({}, {"a.py": raw})
    (finding,) = (await debate.review()).findings
    assert (finding.severity, finding.title) == ("blocking", "E902 stream did not contain valid UTF-8")
    await debate.answer()
    assert (debate.tree / "a.py").read_bytes() == raw
    assert (await debate.review()).approved


async def test_a_fix_in_part_is_told_as_one_and_the_rest_is_conceded(debate: Debate) -> None:
    # A comment inside makes the second edit unsafe in ruff's eyes; both hits have the same words.
    source = "from typing import Optional\n\nx: Optional[int] = 1\ny: Optional[\n    # why\n    int\n] = 2\n"
    debate.begin({}, {"a.py": source})
    await debate.review()
    section = await debate.answer()
    assert [(position.word, position.text) for position in section.positions] == [
        (Word.PARTIAL, "Convert to `X | None`. For the rest: no automatic fix: for a person.")
    ]
    assert not (await debate.review()).approved
    await debate.answer()
    assert (await debate.review()).approved
    assert debate.standing()["F1"].state is State.CONCEDED


async def test_an_edit_that_would_break_the_file_is_taken_back(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\nx = 1\n"})
    await debate.review()
    debate.diff()

    async def broken(spec: Program) -> Finished:
        finished = await run(spec)
        return replace(finished, stdout=finished.stdout.replace(b'"content": ""', b'"content": "def def\\n"'))

    reply = await lint.take_turn(debate.request(editing=True), broken)
    assert "no automatic fix: for a person (ruff's edit would break the file)." in reply.text
    assert debate.text("a.py") == "import os\nx = 1\n"


# ---- Findings over the rounds ---------------------------------------------------------------------------------------


async def test_a_fix_can_uncover_a_finding(debate: Debate) -> None:
    debate.begin({}, {"a.py": "from typing import List\n\nx: List[int] = 1\n"})
    assert [finding.title.split()[0] for finding in (await debate.review()).findings] == ["UP006"]
    await debate.answer()
    second = await debate.review()
    assert [(each.id, each.status, each.title) for each in second.findings] == [
        ("F1", "resolved", "UP006 Use `list` instead of `List` for type annotation"),
        ("F2", "open", "F401 `typing.List` imported but unused"),
    ]
    await debate.answer()
    assert (await debate.review()).approved
    assert debate.text("a.py") == "\nx: list[int] = 1\n"


async def test_another_argument_does_not_convince_ruff(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    await debate.review()
    debate.say(F1="**disputed**: it is there on purpose")
    verdict = await debate.review()
    assert [(finding.id, finding.status) for finding in verdict.findings] == [("F1", "open")]
    assert verdict.response_to_rebuttal == "`F1` stays open: ruff still reports it, and cannot weigh an argument."


async def test_what_was_conceded_is_not_raised_again_though_its_lines_move(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n\n\ndef f(x=[]):\n    return x\n"})
    await debate.review()
    await debate.answer()
    assert "B006" in debate.standing()["F1"].title
    assert (await debate.review()).approved


async def test_a_file_that_stopped_parsing_closes_nothing(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    await debate.review()
    debate.write({"a.py": "import os\ndef def\n"})
    debate.say(F1="**fixed**: gone")
    verdict = await debate.review()
    assert [(finding.id, finding.status) for finding in verdict.findings] == [("F1", "open"), ("F2", "open")]


async def test_a_finding_of_somebody_else_is_for_a_person(debate: Debate) -> None:
    debate.begin({}, {"a.py": "x = 1\n"})
    verdict = await debate.review()
    finding = {"title": "It is slow", "severity": "major", "issue": "x", "suggestion": "", "status": "open"}
    other = verdict.model_validate(
        {**verdict.model_dump(), "approved": False, "findings": ({"id": "F1", "location": "a.py:1", **finding},)}
    )
    debate.record = replace(debate.record, rounds=(replace(debate.record.rounds[0], verdict=other),))
    section = await debate.answer()
    assert section.positions[0].text == "no automatic fix: for a person."


@pytest.mark.parametrize(("line", "state"), [("import os\n", State.FIXED), ("def f(x=[]): pass\n", State.CONCEDED)])
async def test_findings_are_known_again_though_the_ledger_is_too_long_for_their_words(
    debate: Debate, line: str, state: State
) -> None:
    """Long paths of one beginning, in more findings than are open at once: each is raised once, and settled."""
    debate.begin({}, {f"{'v' * 200}{number}.py": line for number in range(230)})
    for _ in range(3):
        assert not (await debate.review()).approved
        section = await debate.answer()
        assert {position.word for position in section.positions} == {
            Word.FIXED if state is State.FIXED else Word.DISPUTED
        }
    assert (await debate.review()).approved
    assert len(debate.request(editing=False).brief) < LEDGER_BUDGET + 100
    assert [entry.state for entry in debate.standing().values()] == [state] * 230


async def test_lint_in_both_seats_always_ends(debate: Debate) -> None:
    chance = random.Random(7)  # noqa: S311 - it chooses lines, and keeps no secret
    lines = [
        "import os", "from typing import List, Optional, Dict", "x: Optional[List[int]] = None", 'y = f"a"',
        "z = not 1 in [2]", "def f(a=[], b={}): return None", "class A(object): pass", "w = dict([(1, 2)])",
        "v = undefined", "t = (lambda: list())()", "if True == x: pass", "u: Dict[str, Optional[str]] = {}",
    ]  # fmt: skip
    debate.begin({}, {f"m{number}.py": "\n".join(chance.choices(lines, k=12)) + "\n" for number in range(6)})
    for _ in range(8):
        if (await debate.review()).approved:
            break
        await debate.answer()
    assert debate.record.rounds[-1].verdict is not None
    assert debate.record.rounds[-1].verdict.approved
    assert {entry.state for entry in debate.standing().values()} == {State.FIXED, State.CONCEDED}
