"""What an agent does just now. The events are those that the real programs wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.activity import WORDS, of_claude, of_codex


def codex(kind: str, **item: object) -> dict[str, object]:
    return {"type": kind, "item": {"id": "item_0", **item}}


def claude(name: str, **given_: object) -> dict[str, object]:
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given_}
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "So:"}, call]}}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            codex("item.started", type="command_execution", command="/bin/bash -lc 'pytest -q tests'"),
            "runs pytest -q tests",
        ),
        (codex("item.started", type="command_execution", command="/bin/bash -c ls"), "runs ls"),
        (codex("item.started", type="command_execution", command="cat a\nb"), "runs cat a b"),
        (codex("item.started", type="command_execution", command="/bin/bash -lc 'open"), "runs /bin/bash -lc 'open"),
        (codex("item.completed", type="command_execution", command="ls"), ""),
        (
            codex("item.completed", type="file_change", changes=[{"path": "/work/app.py", "kind": "update"}]),
            "edits /work/app.py",
        ),
        (codex("item.completed", type="file_change", changes=[]), ""),
        (codex("item.completed", type="agent_message", text="Done."), ""),
        ({"type": "turn.started"}, ""),
    ],
)
def test_codex(event: object, told: str) -> None:
    assert of_codex(event) == told


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (claude("Read", file_path="/work/src/retry.py"), "reads /work/src/retry.py"),
        (claude("Read", file_path="/brief/change.diff"), "reads /brief/change.diff"),
        (claude("Edit", file_path="/work/a.py", old_string="a", new_string="b"), "edits /work/a.py"),
        (claude("Write", file_path="/work/new.py", content=""), "edits /work/new.py"),
        (claude("Grep", pattern="TODO", path="/work"), "looks for TODO"),
        (claude("Glob", pattern="**/*.py"), "looks for **/*.py"),
        (claude("Bash", command="rm -r build", description="Clean"), "runs rm -r build"),
        (claude("StructuredOutput", approved=True), ""),
        ({"type": "assistant", "message": {"content": "text"}}, ""),
        ({"type": "result"}, ""),
    ],
)
def test_claude(event: object, told: str) -> None:
    assert of_claude(event) == told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["type", "item", "message", "content", "input"]), inner)
    ),
)


@given(JSON)
def test_whatever_a_program_writes_is_no_error(event: object) -> None:
    assert of_codex(event) == of_claude(event) == "" or isinstance(event, dict)


def test_a_long_command_is_cut() -> None:
    told = of_claude(claude("Bash", command="x" * 1000))
    assert len(told) == WORDS
    assert told.endswith("…")
