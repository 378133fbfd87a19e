"""Schemas as GitHub writes them (OpenAPI 3.0 and 3.1) → JSON Schema 2020-12 that a validator takes. Pure.

Owns the two differences that matter: `nullable`, which JSON Schema does not know, and the closing of objects, which
GitHub leaves open in its description though it refuses many of such keys.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal["open", "closed", "branch"]
"""How an object is read. ``open``: other keys than the described ones may stand in it. ``closed``: none may, here and
below. ``branch``: the same, but an enclosing `allOf`, `anyOf` or `oneOf` decides about this object's own keys, since
each of its branches describes some of them."""

URN = "urn:github"
"""Where the components of a description are, in the given mode: ``urn:github:closed#/components/…``."""

_NESTED = ("items", "additionalProperties", "not")
_BRANCHES = ("allOf", "anyOf", "oneOf")
_PLAIN = frozenset(
    [
        "type",
        "enum",
        "required",
        "format",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "pattern",
        "uniqueItems",
    ]
)
_SILENT = frozenset(
    [
        "title",
        "description",
        "example",
        "examples",
        "default",
        "deprecated",
        "discriminator",
        "externalDocs",
        "readOnly",
        "writeOnly",
        "nullable",
        "x-github",
        "x-github-breaking-changes",
    ]
)
"""Keywords that say nothing about what is valid; `nullable` is read apart."""
UNCHECKED_FORMATS = frozenset({"email"})
"""A bot's address has brackets, ``1+x[bot]@users.noreply.github.com``: GitHub sends it, though no address looks so."""


def translated(schema: Any, mode: Mode = "open") -> Any:
    """Return a schema of GitHub's as JSON Schema. Raises ValueError at a keyword that nobody has thought about.

    Nulls are allowed as `nullable` says, also where an `enum` without null stands beside it, as GitHub means it.
    """
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        # What stands beside a reference has no meaning in OpenAPI 3.0.
        return {"$ref": f"{URN}:{mode}{schema['$ref']}"}
    made = {key: _part(key, value, mode) for key, value in schema.items() if key not in _SILENT}
    if made.get("format") in UNCHECKED_FORMATS:
        del made["format"]
    if mode != "open" and made.get("additionalProperties") is True and "properties" in made:
        del made["additionalProperties"]
    if mode == "closed" and _describes_keys(schema):
        made["unevaluatedProperties"] = False
    return _or_null(made) if schema.get("nullable") is True else made


def _part(key: str, value: Any, mode: Mode) -> Any:
    below: Mode = "open" if mode == "open" else "closed"
    if key in _PLAIN:
        return value
    if key == "properties":
        return {name: translated(each, below) for name, each in value.items()}
    if key in _NESTED:
        return translated(value, below)
    if key in _BRANCHES:
        return [translated(each, "open" if mode == "open" else "branch") for each in value]
    raise ValueError(f"the keyword {key!r} is not translated yet: say what it means in {__name__}")


def _describes_keys(schema: dict[str, Any]) -> bool:
    """Tell whether a schema says which keys its objects have; a map of any keys does not."""
    branches = [each for key in _BRANCHES for each in schema.get(key, [])]
    return "properties" in schema or any("$ref" in each or _describes_keys(each) for each in branches)


def _or_null(made: dict[str, Any]) -> dict[str, Any]:
    if isinstance(made.get("type"), str) and not any(key in made for key in _BRANCHES):
        made["type"] = [made["type"], "null"]
        if "enum" in made:
            made["enum"] = list({None: None, **dict.fromkeys(made["enum"])})
        return made
    return {"anyOf": [{"type": "null"}, made]}
