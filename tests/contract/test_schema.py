"""GitHub's schemas as a validator takes them: nulls, closed objects, and no keyword that is passed over."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from github_contract.schema import Mode, translated

TEXT = {"type": "string"}


def takes(schema: dict[str, Any], value: Any, mode: Mode = "closed") -> bool:
    validator = jsonschema_rs.Draft202012Validator(translated(schema, mode), validate_formats=True)
    return validator.is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "nullable": True},
        {"type": "string", "nullable": True, "enum": ["a", "b"]},
        {"nullable": True, "allOf": [TEXT]},
        {"nullable": True, "type": "string", "anyOf": [TEXT]},
        {"nullable": True, "oneOf": [TEXT, {"type": "integer"}]},
        {"nullable": True, "enum": ["a", "b"]},
        {"type": ["string", "null"]},
    ],
)
def test_null_is_taken_where_github_says_so(schema: dict[str, Any]) -> None:
    assert takes(schema, None)
    assert takes(schema, "a")
    assert not takes(schema, [])
    assert not takes({**schema, "nullable": False, "type": "string"}, None)


def test_an_enum_stays_one_beside_null() -> None:
    assert not takes({"type": "string", "nullable": True, "enum": ["a"]}, "b")


NESTED = {
    "type": "object",
    "properties": {
        "inner": {"type": "object", "properties": {"a": TEXT}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        "any": {"type": "object"},
        "map": {"type": "object", "additionalProperties": TEXT},
        "wide": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": TEXT},
    },
}


@pytest.mark.parametrize(
    "value",
    [
        {"other": 1},
        {"inner": {"a": "x", "other": 1}},
        {"list": [{"a": "x"}, {"other": 1}]},
        {"map": {"a": 1}},
        {"wide": {"b": 1}},
    ],
)
def test_an_unknown_key_is_found_at_every_level(value: dict[str, Any]) -> None:
    assert not takes(NESTED, value)


def test_what_has_any_keys_stays_open() -> None:
    assert takes(NESTED, {"any": {"b": 1}, "map": {"b": "x"}, "wide": {"a": 1, "b": "x"}})
    assert takes(NESTED, {"other": 1, "inner": {"other": 1}}, "open")


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_branches_share_the_keys_of_their_object(key: str) -> None:
    branch = {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "additionalProperties": True}
    schema = {"type": "object", "properties": {"a": TEXT}, key: [branch]}
    assert takes(schema, {"a": "x", "b": "x"})
    assert not takes(schema, {"a": "x", "b": "x", "c": "x"})
    assert not takes({key: [branch]}, {"b": "x", "c": "x"})
    assert takes({key: [branch]}, {"b": "x", "c": "x"}, "open")


def test_a_branch_is_closed_below() -> None:
    branch = {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": TEXT}}}}
    assert takes({"allOf": [branch]}, {"b": {"c": "x"}})
    assert not takes({"allOf": [branch]}, {"b": {"d": "x"}})


def test_a_reference_leads_to_the_same_reading() -> None:
    schema = {"properties": {"a": {"$ref": "#/components/schemas/x"}}, "allOf": [{"$ref": "#/components/schemas/y"}]}
    assert translated(schema, "closed") == {
        "properties": {"a": {"$ref": "urn:github:closed#/components/schemas/x"}},
        "allOf": [{"$ref": "urn:github:branch#/components/schemas/y"}],
        "unevaluatedProperties": False,
    }


def test_formats_count_except_addresses_of_bots() -> None:
    assert not takes({"type": "string", "format": "date-time"}, "soon")
    assert not takes({"type": "string", "format": "uri"}, "a b")
    assert takes({"type": "string", "format": "email"}, "1+x[bot]@users.noreply.github.com")


def test_a_keyword_that_nobody_thought_of_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="'exclusiveMinimum'"):
        translated({"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": True}}})
