"""Cut GitHub's published descriptions down to what the tests need. NOTICE names the packages and says how it is run.

``python tests/data/trim_openapi.py SOURCE TARGET``: SOURCE is the description of a package, or an earlier cut; TARGET
gets the operations or webhooks that are named here and every component that they refer to, word for word as GitHub
wrote them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPERATIONS = [
    "apps/create-from-manifest",
    "apps/create-installation-access-token",
    "apps/get-authenticated",
    "apps/get-repo-installation",
    "apps/get-webhook-config-for-app",
    "apps/get-webhook-delivery",
    "apps/list-installations",
    "apps/list-repos-accessible-to-installation",
    "apps/list-webhook-deliveries",
    "apps/redeliver-webhook-delivery",
    "apps/revoke-installation-access-token",
    "apps/update-webhook-config-for-app",
    "checks/create",
    "checks/create-suite",
    "checks/get",
    "checks/list-annotations",
    "checks/list-for-ref",
    "checks/list-suites-for-ref",
    "checks/rerequest-run",
    "checks/update",
    "git/create-blob",
    "git/create-commit",
    "git/create-ref",
    "git/create-tree",
    "git/delete-ref",
    "git/get-commit",
    "git/get-ref",
    "git/get-tree",
    "git/update-ref",
    "issues/add-labels",
    "issues/create-comment",
    "issues/delete-comment",
    "issues/get",
    "issues/get-comment",
    "issues/list-comments",
    "issues/remove-label",
    "issues/update-comment",
    "markdown/render",
    "meta/get",
    "orgs/check-membership-for-user",
    "pulls/create-reply-for-review-comment",
    "pulls/create-review",
    "pulls/create-review-comment",
    "pulls/get",
    "pulls/list",
    "pulls/list-commits",
    "pulls/list-files",
    "pulls/list-review-comments",
    "pulls/list-reviews",
    "pulls/update",
    "pulls/update-branch",
    "rate-limit/get",
    "reactions/create-for-issue-comment",
    "reactions/create-for-pull-request-review-comment",
    "reactions/delete-for-issue-comment",
    "reactions/list-for-issue-comment",
    "repos/codeowners-errors",
    "repos/compare-commits",
    "repos/compare-commits-with-basehead",
    "repos/create-or-update-file-contents",
    "repos/get",
    "repos/get-branch",
    "repos/get-branch-protection",
    "repos/get-branch-rules",
    "repos/get-collaborator-permission-level",
    "repos/get-commit",
    "repos/get-content",
    "teams/get-membership-for-user-in-org",
    "users/get-by-username",
]
"""The operations of the REST API that an App like this one may come to use, by GitHub's ids."""

WEBHOOKS = [
    "check-run-requested-action",
    "check-run-rerequested",
    "check-suite-rerequested",
    "installation-created",
    "installation-deleted",
    "installation-new-permissions-accepted",
    "installation-repositories-added",
    "installation-repositories-removed",
    "installation-suspend",
    "installation-unsuspend",
    "issue-comment-created",
    "issue-comment-deleted",
    "issue-comment-edited",
    "ping",
    "pull-request-closed",
    "pull-request-converted-to-draft",
    "pull-request-edited",
    "pull-request-locked",
    "pull-request-opened",
    "pull-request-ready-for-review",
    "pull-request-reopened",
    "pull-request-synchronize",
    "push",
]
"""The webhooks that the stand-in GitHub may come to send, by the names in GitHub's description."""


def trimmed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the cut of a description. Raises LookupError where it lacks something that is named here."""
    kept: dict[str, Any] = {name: document[name] for name in ("openapi", "info")}
    if "webhooks" in document:
        kept["webhooks"] = {name: document["webhooks"][name] for name in WEBHOOKS}
    else:
        kept["paths"] = _paths(document["paths"])
    components: dict[str, dict[str, Any]] = {}
    waiting = list(_references(kept))
    while waiting:
        _, _, kind, name = waiting.pop().split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = document["components"][kind][name]
            waiting += _references(components[kind][name])
    return kept | {"components": {kind: dict(sorted(components[kind].items())) for kind in sorted(components)}}


def _paths(paths: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    found = set()
    for path, item in sorted(paths.items()):
        for method, operation in item.items():
            if isinstance(operation, dict) and operation.get("operationId") in OPERATIONS:
                kept.setdefault(path, {})[method] = operation
                found.add(operation["operationId"])
    if lacking := set(OPERATIONS) - found:
        raise LookupError(f"the description has no {', '.join(sorted(lacking))}")
    return kept


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def written(document: dict[str, Any]) -> str:
    """Return a cut as it is stored: one line for each path, webhook and component, so that a change can be read."""
    lines = []
    for part, content in document.items():
        if part not in {"paths", "webhooks", "components"}:
            lines.append(f"{json.dumps(part)}:{_line(content)}")
        elif part == "components":
            kinds = [f"{json.dumps(kind)}:{_rows(entries)}" for kind, entries in content.items()]
            lines.append('"components":{\n' + ",\n".join(kinds) + "}")
        else:
            lines.append(f"{json.dumps(part)}:{_rows(content)}")
    return "{" + ",\n".join(lines) + "}\n"


def _rows(entries: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}:{_line(entry)}" for name, entry in entries.items()) + "}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(written(trimmed(json.loads(source.read_text("utf-8")))), "utf-8")
