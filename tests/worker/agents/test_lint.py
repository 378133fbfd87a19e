"""Ruff in the reviewer's seat: what it raises, what it can read, and what it does without ruff."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from worker.agents import TurnRequest, lint
from worker.debate.codecs import CruxCodec
from worker.debate.findings import State, Word
from worker.debate.flow import TurnFailed
from worker.process import Finished, Program, run

if TYPE_CHECKING:
    from tests.worker.agents.conftest import Debate

RequestOf = Callable[..., TurnRequest]

# ---- The reviewer ---------------------------------------------------------------------------------------------------


async def test_findings_stand_only_on_changed_lines(debate: Debate) -> None:
    debate.begin({"a.py": "import os\nx = 1\n"}, {"a.py": "import os\nx = 1\nimport sys\n"})
    verdict = await debate.review()
    (finding,) = verdict.findings
    assert finding.model_dump() == {
        "id": "F1",
        "title": "F401 `sys` imported but unused",
        "severity": "minor",
        "location": "a.py:3",
        "issue": "`sys` imported but unused. Unused imports add a performance overhead at runtime, and risk creating "
        "import cycles. They also increase the cognitive load of reading the code.",
        "suggestion": "Remove unused import: `sys`.",
        "status": "open",
    }
    assert (verdict.approved, verdict.response_to_rebuttal) == (False, "")
    assert verdict.summary == "1 finding is open on the changed lines of 1 Python file."


async def test_a_clean_change_is_approved(debate: Debate) -> None:
    debate.begin({"a.py": "x = 1\n"}, {"a.py": "x = 2\n", "b.pyi": "y: int\n"})
    verdict = await debate.review()
    assert verdict.approved
    assert verdict.summary == "Nothing is open on the changed lines of 2 Python files."


async def test_a_change_without_python_is_approved(debate: Debate) -> None:
    debate.begin({"a.txt": "x\n", "gone.py": "import os\n"}, {"a.txt": "import os\n", "gone.py": None})
    verdict = await debate.review()
    assert verdict.approved
    assert verdict.summary == "The change adds no line of Python, so ruff has nothing to say about it."


async def test_hits_of_the_same_words_in_a_file_are_one_finding(debate: Debate) -> None:
    debate.begin({}, {"a.py": 'x = f""\ny = f"a"\n\nz = f"b"\n', "b.py": 'x = f""\n'})
    verdict = await debate.review()
    assert [finding.location for finding in verdict.findings] == ["a.py:1", "b.py:1"]
    assert "Also on lines 2 and 4." in verdict.findings[0].issue


async def test_the_lines_of_one_finding_are_named_up_to_a_number(debate: Debate) -> None:
    debate.begin({}, {"a.py": 'f""\n' * 3_000, "b.py": 'x = f""\n' * 21})
    issues = {f"{each.location} {each.title.split()[0]}": each.issue for each in (await debate.review()).findings}
    assert (
        "Also on lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 2980 more. "
        in (issues["a.py:1 F541"])
    )
    assert "19, 20 and 1 more. " in issues["b.py:1 F541"]


async def test_the_gravest_come_first_and_a_file_that_does_not_parse_has_one_finding(debate: Debate) -> None:
    debate.begin(
        {},
        {
            "a.py": "from typing import List\n\n\ndef f(x: List[int] = []) -> None:\n    return None\n",
            "b.py": "def f(:\n    pass pass\n",
            "c.py": "print(undefined)\n",
        },
    )
    verdict = await debate.review()
    assert [(finding.severity, finding.title.split()[0], finding.location) for finding in verdict.findings] == [
        ("blocking", "Syntax", "b.py:1"),
        ("blocking", "F821", "c.py:1"),
        ("major", "B006", "a.py:4"),
        ("nit", "UP006", "a.py:4"),
    ]


async def test_syntax_of_a_newer_python_is_no_fault(debate: Debate) -> None:
    debate.begin({}, {"a.py": "type Port = str\n\n\ntry:\n    pass\nexcept* ValueError:\n    raise\n"})
    assert (await debate.review()).approved


async def test_configuration_of_the_change_is_not_read(debate: Debate) -> None:
    debate.begin(
        {},
        {"a.py": "import os\n", "ruff.toml": 'extend-exclude = ["a.py"]\n', "pyproject.toml": "[tool.ruff\n"},
    )
    assert [finding.location for finding in (await debate.review()).findings] == ["a.py:1"]
    assert not (debate.tree / ".ruff_cache").exists()


async def test_a_title_keeps_to_its_limit(debate: Debate) -> None:
    debate.begin({}, {"a.py": f"import {'x' * 100}\n"})
    (finding,) = (await debate.review()).findings
    assert len(finding.title) == 60
    assert finding.title.endswith("x…")
    await debate.answer()
    assert (await debate.review()).approved


async def test_more_findings_than_a_verdict_holds_come_later(debate: Debate) -> None:
    debate.begin({}, {"a.py": "".join(f"import m{number}\n" for number in range(230))})
    first = await debate.review()
    assert len(first.findings) == 100
    assert first.summary.endswith("130 more will be raised once these are settled.")
    await debate.answer()
    second = await debate.review()
    assert [finding.status for finding in second.findings] == ["resolved"] * 100 + ["open"] * 100
    await debate.answer()
    await debate.review()
    await debate.answer()
    assert (await debate.review()).approved
    assert debate.text("a.py") == ""


# ---- Paths and bytes ------------------------------------------------------------------------------------------------


async def test_odd_paths_and_bytes(debate: Debate) -> None:
    names = ["a b.py", "-x.py", "@list.py", "café.py", "x b/y.py", "[1].py", 'q"q.py', "dir/--fix.py", "`.py"]
    debate.begin({}, dict.fromkeys(names, "import os\n"))
    verdict = await debate.review()
    assert sorted(finding.location for finding in verdict.findings) == sorted(f"{name}:1" for name in names)
    section = await debate.answer()
    assert {position.word for position in section.positions} == {Word.FIXED}
    assert {debate.text(name) for name in names} == {""}


async def test_a_list_of_arguments_in_a_file_name_stays_a_file_name(debate: Debate) -> None:
    debate.begin({}, {"@evil.py": "--output-file=stolen.txt\n"})
    await debate.review()
    assert not (debate.tree / "stolen.txt").exists()


async def test_paths_that_are_no_printable_utf8_are_named_and_left_out(debate: Debate) -> None:
    debate.begin(
        {}, {"a.py": "import os\n", "line\nbreak.py": "import os\n", os.fsdecode(b"lat\xe9.py"): "import os\n"}
    )
    verdict = await debate.review()
    assert [finding.location for finding in verdict.findings] == ["a.py:1"]
    assert verdict.summary.endswith(r"Not read: 'lat\xe9.py' and 'line\x0abreak.py'.")


async def test_symlinks_are_not_followed(debate: Debate, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("import os\n")
    debate.begin({}, {"folder/secret.py": "import os\n", "link.py": "import os\n", "a.py": "import os\n"})
    debate.diff()
    (debate.tree / "folder" / "secret.py").unlink()
    (debate.tree / "folder").rmdir()
    (debate.tree / "folder").symlink_to(outside)
    (debate.tree / "link.py").unlink()
    (debate.tree / "link.py").symlink_to(outside / "secret.py")
    reply = await lint.take_turn(debate.request(editing=False), run)
    assert [finding["location"] for finding in json.loads(reply.text)["findings"]] == ["a.py:1"]


async def test_a_path_that_leads_out_of_the_tree_is_not_read(debate: Debate, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("import os\n")
    debate.begin({}, {"a.py": "x = 1\n"})
    debate.diff()
    diff = "diff --git a/x b/x\n--- /dev/null\n+++ b/../secret.py\n@@ -0,0 +1 @@\n+import os\n"
    (tmp_path / "notes" / "change.diff").write_text(diff)
    reply = await lint.take_turn(debate.request(editing=False), run)
    assert json.loads(reply.text)["approved"]


@pytest.mark.parametrize("rest", [b"", b"@@ nonsense @@\n", b"@@ -1 +1 @@\n\xff\x00\n"])
async def test_a_diff_that_makes_no_sense_is_told(debate: Debate, tmp_path: Path, rest: bytes) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    debate.diff()
    place = tmp_path / "notes" / "change.diff"
    place.write_bytes(b"diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n" + rest + place.read_bytes())
    reply = json.loads((await lint.take_turn(debate.request(editing=False), run)).text)
    assert [finding["location"] for finding in reply["findings"]] == ["a.py:1"]
    assert ("Not read: 'b.py'." in reply["summary"]) == bool(rest)


async def test_a_finding_about_a_file_that_the_diff_leaves_out_stays_until_it_is_settled(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n", "b.py": "import os\n"})
    await debate.review()
    debate.cut = ("a.py", "b.py")
    debate.write({"b.py": "x = 1\n"})
    verdict = await debate.review()
    assert {each.location: each.status for each in verdict.findings} == {"a.py:1": "open", "b.py:1": "resolved"}
    assert not verdict.approved


# ---- The brief ------------------------------------------------------------------------------------------------------


async def test_at_the_limit_ruff_has_nothing_to_ask(request_of: RequestOf) -> None:
    reply = await lint.take_turn(request_of(brief="", schema=CruxCodec(("F1",)).schema()), run)
    assert reply.text == '{"cruxes": []}'


async def test_the_ledger_is_the_last_one_of_the_brief(debate: Debate, request_of: RequestOf) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    debate.diff()
    fake = '```json ledger\n{"next_id": "F99", "findings": []}\n```\n\n```json ledger\n'
    request = request_of(brief=fake + "\n" + debate.request(editing=False).brief)
    reply = await lint.take_turn(request, run)
    assert [finding["id"] for finding in json.loads(reply.text)["findings"]] == ["F1"]


@pytest.mark.parametrize("brief", ["", "no ledger", "```json ledger\n{}\n```", "```json ledger\n{"])
async def test_a_brief_without_a_ledger_fails(debate: Debate, request_of: RequestOf, brief: str) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    with pytest.raises(TurnFailed, match="holds no ledger") as failure:
        await lint.take_turn(request_of(brief=brief), run)
    assert failure.value.kind == "environment"


async def test_ids_go_on_from_the_next_free_one(debate: Debate, request_of: RequestOf) -> None:
    debate.begin({}, {"a.py": "import os\nimport sys\n"})
    debate.diff()
    brief = '```json ledger\n{"next_id": "F7", "findings": []}\n```\n'
    reply = await lint.take_turn(request_of(brief=brief), run)
    assert [finding["id"] for finding in json.loads(reply.text)["findings"]] == ["F7", "F8"]


# ---- Ruff's own faults ----------------------------------------------------------------------------------------------


async def test_without_ruff_the_turn_fails_and_says_what_to_do(debate: Debate, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("no ruff")

    monkeypatch.setattr("ruff.find_ruff_bin", missing)
    debate.begin({}, {"a.py": "import os\n"})
    with pytest.raises(TurnFailed, match="install codex-debate again") as failure:
        await debate.review()
    assert failure.value.kind == "environment"


async def test_a_ruff_that_fails_on_everything_fails_the_turn(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n", "b.py": "import os\n"})
    debate.diff()

    async def failing(spec: Program) -> Finished:
        return Finished(2, b"", b"panic")

    with pytest.raises(TurnFailed, match="ruff could read no file of the change"):
        await lint.take_turn(debate.request(editing=False), failing)


async def test_one_file_that_crashes_ruff_takes_no_other_with_it(debate: Debate) -> None:
    debate.begin({}, {f"{name}.py": "import os\n" for name in "abcde"})
    debate.diff()

    async def fragile(spec: Program) -> Finished:
        return Finished(None, b"", b"", cut=True) if "./c.py" in spec.argv else await run(spec)

    reply = json.loads((await lint.take_turn(debate.request(editing=False), fragile)).text)
    assert [(each["location"], each["severity"], each["title"].split()[0]) for each in reply["findings"]] == [
        ("c.py:1", "major", "Ruff"),
        *((f"{name}.py:1", "minor", "F401") for name in "abde"),
    ]
    assert reply["summary"].endswith("Not read: 'c.py'.")


@pytest.mark.threat("T23", 97)
async def test_a_file_that_ruff_cannot_check_is_left_to_a_person(debate: Debate) -> None:
    """One with more hits than a program may print: it is not passed over, and the others are fixed as ever."""
    debate.begin({}, {"a.py": "import os\n", "big.py": "x == None\n" * 9_000})
    assert [each.title for each in (await debate.review()).findings] == [
        "Ruff cannot check this file: it fails, or finds too much",
        "F401 `os` imported but unused",
    ]
    await debate.answer()
    assert (await debate.review()).approved
    assert {each.location: each.state for each in debate.standing().values()} == {
        "big.py:1": State.CONCEDED,
        "a.py:1": State.FIXED,
    }


async def test_a_ruff_that_does_not_end_is_a_timeout(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    debate.diff()

    async def slow(spec: Program) -> Finished:
        return Finished(None, b"", b"", timed_out=True)

    with pytest.raises(TurnFailed, match="within 60 seconds") as failure:
        await lint.take_turn(debate.request(editing=False), slow)
    assert failure.value.kind == "timeout"


async def test_ruff_gets_a_bare_environment(debate: Debate) -> None:
    debate.begin({}, {"a.py": "import os\n"})
    debate.diff()
    seen: list[Any] = []

    async def watched(spec: Program) -> Finished:
        seen.append(spec.env)
        return await run(spec)

    await lint.take_turn(debate.request(editing=False), watched)
    assert seen == [{"NO_COLOR": "1"}] * 2
