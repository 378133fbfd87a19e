"""The description that is kept: whole, enough for all that is served, and one that GitHub's own examples fit."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.standin.calls import ROUTES
from github_contract import deliveries, exchanges
from github_contract.description import DATA, Api, Operation

CUT = runpy.run_path(str(DATA / "trim_openapi.py"))
BROKEN = {
    ("apps/redeliver-webhook-delivery", "202"),
    ("checks/rerequest-run", "201"),
    ("issues/get", "200"),
    ("meta/get", "200"),
    ("pulls/get", "200"),
    ("pulls/list", "200"),
    ("pulls/update", "200"),
    ("repos/get", "200"),
    ("repos/get-branch-protection", "200"),
    ("repos/get-collaborator-permission-level", "200"),
    ("repos/get-commit", "200"),
}
"""Answers of which GitHub's own example breaks GitHub's own schema: it lacks a key that is required, or is a null."""


@pytest.mark.parametrize("name", ["github-openapi.json", "github-webhooks.json"])
def test_the_cut_is_the_script_s(name: str) -> None:
    """Cut once more, nothing falls away: each component is there, and none that nothing refers to."""
    text = (DATA / name).read_text("utf-8")
    assert CUT["written"](CUT["trimmed"](json.loads(text))) == text


def test_a_description_that_lacks_an_operation_is_not_cut() -> None:
    with pytest.raises(LookupError, match="checks/create"):
        CUT["trimmed"]({"openapi": "3.0.3", "info": {}, "paths": {}, "components": {}})


def operations() -> Iterator[tuple[Operation, str]]:
    for operation in exchanges.api().operations:
        yield operation, re.sub(r"\{\w+\}", "1", operation.path)


def test_every_operation_is_found_by_its_path() -> None:
    found = {operation.id: exchanges.api().find(operation.method, path) for operation, path in operations()}
    assert len(found) == len(CUT["OPERATIONS"])
    assert {name: match and match[0].id for name, match in found.items()} == {name: name for name in found}


@pytest.mark.parametrize(
    ("path", "operation", "values"),
    [
        ("/repos/o/r/commits/a/b/check-runs", "checks/list-for-ref", {"ref": "a/b"}),
        ("/repos/o/r/commits/a%2Fb", "repos/get-commit", {"ref": "a/b"}),
        ("/repos/o/r/compare/main...a/b", "repos/compare-commits-with-basehead", {"basehead": "main...a/b"}),
        ("/repos/o/r/contents/.github/x.yml", "repos/get-content", {"path": ".github/x.yml"}),
        ("/repos/o/r/git/ref/heads/a", "git/get-ref", {"ref": "heads/a"}),
    ],
)
def test_a_value_may_hold_slashes_where_github_says_so(path: str, operation: str, values: dict[str, str]) -> None:
    found = exchanges.api().find("GET", path)
    assert found is not None
    assert (found[0].id, found[1]) == (operation, {"owner": "o", "repo": "r", **values})


@pytest.mark.parametrize("path", ["/repos/o/r/issues/a/b", "/repos/o", "/repos/o/r/", "/user"])
def test_other_paths_are_none(path: str) -> None:
    assert exchanges.api().find("GET", path) is None


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.template}")
def test_github_describes_what_the_stand_in_serves(route: Any) -> None:
    path = re.sub(r"\{\w+\+?\}", "1", route.template)
    assert exchanges.api().find(route.method, path) is not None


def examples() -> Iterator[tuple[str, str, dict[str, Any], Any]]:
    """Every answer that GitHub shows: operation, status, schema and example."""
    api = exchanges.api()
    for operation, _ in operations():
        for status, answer in operation.spec["responses"].items():
            content = api.resolved(answer).get("content", {}).get("application/json", {})
            for example in content.get("examples", {}).values():
                yield operation.id, status, content["schema"], api.resolved(example)["value"]


def test_github_s_own_examples_pass() -> None:
    api, passed, broken = exchanges.api(), 0, set()
    for operation, status, schema, example in examples():
        if next(api.faults(schema, example), None):
            broken.add((operation, status))
        else:
            passed += 1
    assert broken == BROKEN
    assert passed >= 60


def test_the_one_correction_is_still_needed() -> None:
    """GitHub's example of an installation is one of nobody without it."""
    document = json.loads((DATA / "github-openapi.json").read_text("utf-8"))
    own = document["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]
    example = document["components"]["examples"][own["examples"]["default"]["$ref"].rpartition("/")[2]]["value"]
    assert next(exchanges.api().faults(own["schema"], example), None) is not None
    (corrected,) = (schema for operation, _, schema, _ in examples() if operation == "apps/list-installations")
    assert next(exchanges.api().faults(corrected, example), None) is None


def test_every_schema_can_be_read_in_every_way() -> None:
    api = Api()
    for operation in api.operations:
        if body := operation.spec.get("requestBody"):
            list(api.faults(body["content"]["application/json"]["schema"], {}, "closed"))
    for description in (api, deliveries.webhooks()):
        for name in description.document["components"]["schemas"]:
            for mode in ("open", "closed", "branch"):
                list(description.faults({"$ref": f"#/components/schemas/{name}"}, {}, mode))
