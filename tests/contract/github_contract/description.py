"""GitHub's description of its REST API: which operation a request is, and what it allows.

Owns finding an operation by method and path, and the validators of its parts, made when they are first needed and
kept for the process. It judges nothing; `exchanges` and `deliveries` do.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from github_contract.schema import URN, Mode, translated

DATA = Path(__file__).parents[2] / "data"
MODES: tuple[Mode, ...] = ("open", "closed", "branch")
SHOWN = 300
"""Characters of a validator's complaint that are shown: it quotes what it complains about."""


class Description:
    """One of GitHub's descriptions, as it is stored below `DATA`."""

    def __init__(self, name: str) -> None:
        self.document: dict[str, Any] = json.loads((DATA / name).read_text("utf-8"))
        self._validators: dict[tuple[int, Mode], tuple[object, jsonschema_rs.Validator]] = {}

    def resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a part of the description, or what it refers to."""
        if "$ref" not in part:
            return part
        _, _, kind, name = part["$ref"].split("/")
        found: dict[str, Any] = self.document["components"][kind][name]
        return found

    def faults(self, schema: dict[str, Any], value: Any, mode: Mode = "open") -> Iterator[tuple[str, str]]:
        """Yield each place (``/output/title``) in which a value does not fit a schema, and what is wrong there."""
        for error in self._validator(schema, mode).iter_errors(value):
            place = "".join(f"/{each}" for each in error.instance_path)
            yield place, error.message if len(error.message) <= SHOWN else f"{error.message[:SHOWN]}…"

    def let_forks_be_deleted(self, *names: str) -> None:
        """Correct schemas of pull requests: one whose fork was deleted has no head repository.

        Of GitHub's schemas those of some webhooks say so, and the others do not (github.md A7).
        """
        for name in names:
            head = self.document["components"]["schemas"][name]["properties"]["head"]["properties"]
            head["repo"] = {"anyOf": [head["repo"], {"type": "null"}]}

    def _validator(self, schema: dict[str, Any], mode: Mode) -> jsonschema_rs.Validator:
        # By identity, which is quick; what is kept beside it keeps its identity, too.
        key = id(schema), mode
        if key not in self._validators:
            made = jsonschema_rs.Draft202012Validator(
                translated(schema, mode), registry=self._registry, validate_formats=True
            )
            self._validators[key] = schema, made
        return self._validators[key][1]

    @functools.cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([(f"{URN}:{mode}", self._components(mode)) for mode in MODES])

    def _components(self, mode: Mode) -> dict[str, Any]:
        schemas = self.document["components"]["schemas"].items()
        return {"components": {"schemas": {name: translated(each, mode) for name, each in schemas}}}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the REST API."""

    method: str
    path: str
    """Its path as GitHub writes it: ``/repos/{owner}/{repo}``."""
    spec: dict[str, Any]
    parameters: tuple[dict[str, Any], ...]
    pattern: re.Pattern[str] = field(repr=False)

    @property
    def id(self) -> str:
        """GitHub's name of it: ``issues/create-comment``."""
        found: str = self.spec["operationId"]
        return found


class Api(Description):
    """The description of the REST API."""

    def __init__(self) -> None:
        super().__init__("github-openapi.json")
        self._correct()
        paths = self.document["paths"].items()
        found = (self._operation(path, method, spec) for path, item in paths for method, spec in item.items())
        # Of two that fit, the one with more of its path spelt out is meant: …/commits/{ref}/check-runs.
        self.operations = sorted(found, key=lambda each: -len(re.sub(r"\{\w+\}", "", each.path)))

    def _correct(self) -> None:
        """Correct two errors of GitHub's.

        The account of an installation is a user or an enterprise, and never both: the schema `installation` says so
        itself; the list of installations, which has its own, says ``allOf``. And see `let_forks_be_deleted`.
        """
        listed = self.document["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]
        account = listed["schema"]["items"]["properties"]["account"]
        account["anyOf"] = account.pop("allOf")
        self.let_forks_be_deleted("pull-request", "pull-request-simple")

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """Return the operation of a raw path and the values in it; None where GitHub describes none."""
        for operation in self.operations:
            if operation.method == method and (match := operation.pattern.fullmatch(path)):
                return operation, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    def _operation(self, path: str, method: str, spec: dict[str, Any]) -> Operation:
        parameters = tuple(self.resolved(each) for each in spec.get("parameters", []))
        # GitHub marks the values that may hold slashes.
        wide = {each["name"] for each in parameters if each.get("x-multi-segment")}
        pattern = re.sub(
            r"\\\{(\w+)\\\}", lambda match: f"(?P<{match[1]}>{'.+' if match[1] in wide else '[^/]+'})", re.escape(path)
        )
        return Operation(method.upper(), path, spec, parameters, re.compile(pattern))
