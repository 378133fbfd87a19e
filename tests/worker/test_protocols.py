"""The table of debates."""

from __future__ import annotations

from worker.debate.brief import template
from worker.debate.review import PROMPTS, review
from worker.protocols import PROTOCOLS


def test_a_protocol_is_marked_by_its_module_and_its_prompts() -> None:
    """house.md 4: an ordinary deploy does not restart runs, a changed flow does."""
    protocol = PROTOCOLS["review"]
    assert protocol.flow is review
    assert any(b"def review(task" in part for part in protocol.parts)
    assert {template(name).encode() for name in PROMPTS} <= set(protocol.parts)
