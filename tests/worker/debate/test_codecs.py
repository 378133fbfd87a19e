"""The codecs: what a reply may say, and what it is told when it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.debate.codecs import FINDINGS_LIMIT, REPLY_LIMIT, CruxCodec, DispositionCodec, VerdictCodec
from worker.debate.findings import TITLE_LIMIT, Word
from worker.debate.flow import Malformed


def finding(**over: object) -> dict[str, object]:
    return {
        "id": "F1",
        "title": "It is wrong",
        "severity": "major",
        "location": "a.py:1",
        "issue": "It does not work.",
        "suggestion": "",
        "status": "open",
    } | over


def verdict(*findings: dict[str, object], **over: object) -> str:
    approved = not any(each["status"] != "resolved" for each in findings)
    body = {"approved": approved, "summary": "A change.", "findings": list(findings), "response_to_rebuttal": ""}
    return json.dumps(body | over)


def every_object(schema: Any) -> list[dict[str, Any]]:
    found = [schema] if schema.get("type") == "object" else []
    for value in schema.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                found += every_object(each)
    return found


@pytest.mark.parametrize("schema", [VerdictCodec().schema(), CruxCodec(("F1",)).schema()])
def test_a_schema_requires_every_property_and_allows_no_other(schema: dict[str, Any]) -> None:
    """Acceptance case 51, and fault 23: a provider's strict mode answers anything else with HTTP 400."""
    objects = every_object(schema)
    assert len(objects) == 2
    for each in objects:
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    assert "reviewerError" not in json.dumps(schema)


@pytest.mark.threat(127)
def test_a_run_of_blanks_is_gone_through_once() -> None:
    """Where it was gone through again from each blank this test would not end."""
    blanks = " " * (REPLY_LIMIT // 5)
    bullets = [f"- F1{mark}{blanks}x" for mark in ("", ":", "`", " **fixed**")]
    assert [each.id for each in DispositionCodec(("F1",)).parse("\n".join(bullets)).positions] == ["F1"]


def test_a_verdict_is_read() -> None:
    read = VerdictCodec().parse(verdict(finding()))
    assert [each.id for each in read.findings] == ["F1"]
    assert not read.approved


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not one JSON object"),
        ("I approve this change.", "not one JSON object"),
        ("\ufeff" + verdict(), "not one JSON object"),
        ("Here it is:\n" + verdict(), "not one JSON object"),
        ('{"approved": tr', "not one JSON object"),
        ("[" * 100_000, "not one JSON object"),
        ('{"approved": NaN}', "NaN"),
        ('{"approved": true, "approved": false}', "twice"),
        ("[]", "the object"),
        (verdict(finding(), approved="no"), "approved"),
        (verdict(finding(severity="huge")), "severity"),
        (verdict(finding(status="closed")), "status"),
        (verdict(finding(more=1)), "more"),
        (verdict({key: value for key, value in finding().items() if key != "title"}), "title"),
        (verdict(finding(id="F1; rm -rf /")), "is no id"),
        (verdict(finding(id="$(touch x)")), "is no id"),
        (verdict(finding(), finding()), "F1 stands in it twice"),
        (verdict(finding(title=" ")), "empty title"),
        (verdict(finding(status="resolved")), "new and resolved"),
        (verdict(approved=False), "no finding in it is open"),
        (verdict(*(finding(id=f"F{n}") for n in range(FINDINGS_LIMIT + 1))), "more than 200"),
    ],
)
def test_a_verdict_that_breaks_the_contract_is_told_how(text: str, named: str) -> None:
    codec = VerdictCodec()
    problem = codec.problem(text)
    assert problem is not None
    assert named in problem
    assert problem in codec.reask(problem)
    with pytest.raises(Malformed):
        codec.parse(text)


def test_half_a_character_is_replaced_and_no_reason_to_lose_a_verdict() -> None:
    """threats.md, input 150."""
    read = VerdictCodec().parse(verdict(finding(issue="a\ud800b")))
    assert read.findings[0].issue == "a\ufffdb"


def test_an_open_finding_may_not_vanish() -> None:
    codec = VerdictCodec(open=("F1", "F2"), known=("F1", "F2", "F3"))
    assert "what became of F2" in (codec.problem(verdict(finding(status="resolved"))) or "")
    assert codec.problem(verdict(finding(status="resolved"), finding(id="F2"))) is None


def test_a_deferral_that_nobody_asked_for_leaves_the_finding_open() -> None:
    """Acceptance case 19: so `approved: false` with nothing but that deferral is consistent."""
    text = verdict(finding(status="deferred"))
    assert VerdictCodec(open=("F1",), known=("F1",)).problem(text) is None
    gated = VerdictCodec(open=("F1",), known=("F1",), gated=("F1",))
    assert "no finding in it is open" in (gated.problem(text) or "")


def test_a_long_title_is_cut_and_the_finding_kept() -> None:
    read = VerdictCodec().parse(verdict(finding(title="very " * 30)))
    assert len(read.findings[0].title) <= TITLE_LIMIT
    assert read.findings[0].title.endswith("…")


SECTION = """I fixed the first, and dispute two.

- `F1` **fixed**: the key is stable, at `a.py:3`.
  It has a test.

  ```python
- `F9` **fixed**: not a bullet, code
  ```
- `F2` **disputed**: see `b.py:7`.
* F3 **disputed** (gate): a step of the release.
- `F4`: **partial** — half of it.
- `F5` **won't fix**: no such word.
"""


def test_a_section_is_taken_apart() -> None:
    section = DispositionCodec(("F1", "F2", "F3", "F4", "F5")).parse(SECTION)
    assert section.intro == "I fixed the first, and dispute two."
    assert [(each.id, each.word) for each in section.positions] == [
        ("F1", Word.FIXED),
        ("F2", Word.DISPUTED),
        ("F3", Word.GATE),
        ("F4", Word.PARTIAL),
    ]
    assert section.positions[0].text.startswith("the key is stable")
    assert "not a bullet" in section.positions[0].text
    assert section.missing == ("F5",)


def test_a_section_that_misses_findings_is_re_asked_by_name() -> None:
    codec = DispositionCodec(("F1", "F2"))
    assert codec.problem("- `F1` **fixed**: done") == "F2 has no disposition"
    assert codec.problem("\n") == "it is empty"
    assert codec.problem("- `F1` **fixed**: done\n- `F2` **disputed**: no") is None
    assert "`F2` **fixed**" in codec.reask("F2 has no disposition")
    assert codec.parse("").missing == ("F1", "F2")


def test_cruxes_are_read_for_the_findings_that_are_open() -> None:
    crux = {"id": "F1", "crux": "c", "fact": "f", "question": "q"}
    codec = CruxCodec(("F1", "F2"))
    assert [each.id for each in codec.parse(json.dumps({"cruxes": [crux, crux | {"id": "F7"}]}))] == ["F1"]
    assert codec.problem("nothing") is not None


@given(st.text() | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps))
def test_no_text_makes_a_codec_fail_in_another_way(text: str) -> None:
    for codec in (VerdictCodec(open=("F1",)), DispositionCodec(("F1",)), CruxCodec(("F1",))):
        problem = codec.problem(text)
        assert problem is None or problem
        try:
            codec.parse(text)
        except Malformed as error:
            assert str(error)


@pytest.mark.threat(126, 127)
def test_a_reply_without_end_is_asked_for_again() -> None:
    long = "x" * (REPLY_LIMIT + 1)
    assert VerdictCodec().problem(json.dumps({"summary": long})) == "it has more than 200,000 characters"
    codec = DispositionCodec(("F1", "F2"))
    text = f"- `F1` **fixed**: it is\n{long}\n- `F2` **fixed**: it is"
    assert codec.problem(text) == "it has more than 200,000 characters"
    assert (len(codec.parse(text).text), codec.parse(text).missing) == (REPLY_LIMIT, ("F2",))


@pytest.mark.threat(126)
@pytest.mark.parametrize("findings", [5, 1.5, True, "F1", {"id": "F1"}, None, [5], [[]]])
def test_findings_that_are_none_are_malformed(findings: object) -> None:
    assert VerdictCodec().problem(verdict(findings=findings))
    assert CruxCodec(("F1",)).problem(json.dumps({"cruxes": findings, "findings": findings}))
