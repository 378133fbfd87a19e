"""One webhook of the stand-in, held against GitHub's description of its webhooks."""

from __future__ import annotations

import functools
from typing import Any

from github_contract.description import Description
from github_contract.violation import Violation


@functools.cache
def webhooks() -> Description:
    """Return the description, read once in a process."""
    made = Description("github-webhooks.json")
    made.let_forks_be_deleted("pull-request")
    return made


def violations(event: str, payload: dict[str, Any]) -> list[Violation]:
    """Return all that is wrong with a payload."""
    action = payload.get("action")
    name = "-".join(str(each).replace("_", "-") for each in (event, action) if each is not None)
    described = webhooks().document["webhooks"].get(name)
    if described is None:
        return [
            Violation("webhook", name, "the description lacks it; tests/data/trim_openapi.py names those that it has")
        ]
    schema = described["post"]["requestBody"]["content"]["application/json"]["schema"]
    return [Violation("webhook", name, f"{place}: {wrong}") for place, wrong in webhooks().faults(schema, payload)]
