"""Calls about check runs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from deploy.standin import change_shapes, rules
from deploy.standin.answers import Answer, Refused, not_found
from deploy.standin.calls import repos
from deploy.standin.rest import Call, Route
from deploy.standin.state import CheckRun, now


async def create_check_run(call: Call) -> Answer:
    """POST /repos/{owner}/{repo}/check-runs."""
    rules.check_run(call.data, new=True)
    repo, data = call.repository, call.data
    sha = data["head_sha"]
    known = re.fullmatch(r"[0-9a-f]{40}", sha) and await call.site.hosting.commit(repo.path, sha)
    if not known:
        raise Refused(422, f"No commit found for SHA: {sha}")
    state = call.site.state
    run = CheckRun(
        id=state.next_id(), repo_id=repo.id, suite_id=state.suite(repo, sha), name=data["name"], head_sha=sha
    )
    return Answer(201, _store(call, _changed(run, data)))


async def update_check_run(call: Call) -> Answer:
    """PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}."""
    run = _run(call)
    rules.check_run(call.data, new=False)
    return Answer(200, _store(call, _changed(run, call.data)))


async def get_check_run(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/check-runs/{check_run_id}."""
    return Answer(200, change_shapes.check_run(call.site.shapes, _run(call)))


async def list_annotations(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations."""
    run = _run(call)
    place = f"{call.site.shapes.repo_page(call.repository)}/blob/{run.head_sha}"
    empty: dict[str, Any] = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
    return call.listed([{**empty, **each, "blob_href": f"{place}/{each['path']}"} for each in run.annotations])


async def list_for_ref(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/commits/{ref}/check-runs: of each name the newest, unless `filter=all`."""
    repo, query = call.repository, call.query
    sha = await call.site.hosting.commit(repo.path, call.params["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.params['ref']}")
    runs = call.site.state.checks_of(repo, sha)
    if query.get("filter", "latest") == "latest":
        runs = list({run.name: run for run in runs}.values())
    runs = [run for run in runs if query.get("check_name", run.name) == run.name]
    runs = [run for run in runs if query.get("status", run.status) == run.status]
    if query.get("app_id", str(call.site.app.id)) != str(call.site.app.id):
        runs = []
    runs.reverse()  # newest first
    return call.listed([change_shapes.check_run(call.site.shapes, run) for run in runs], key="check_runs")


def _run(call: Call) -> CheckRun:
    run = call.site.state.check_runs.get(call.number("check_run_id"))
    if run is None or run.repo_id != call.repository.id:
        raise not_found()
    return run


def _store(call: Call, run: CheckRun) -> dict[str, Any]:
    call.site.state.check_runs[run.id] = run
    return change_shapes.check_run(call.site.shapes, run)


def _changed(run: CheckRun, data: dict[str, Any]) -> CheckRun:
    """Return a check run with a body's fields. A conclusion completes it; annotations are added to those it has."""
    plain = ("name", "status", "conclusion", "external_id", "details_url")
    fields: dict[str, Any] = {name: data[name] for name in plain if name in data}
    fields |= {name: _moment(data[name]) for name in ("started_at", "completed_at") if name in data}
    if "conclusion" in data:
        fields["status"] = "completed"
        fields.setdefault("completed_at", now())
    elif "status" in data:
        # A run that is taken up again has no conclusion any more.
        fields |= {"conclusion": None, "completed_at": None}
    if fields.get("status", run.status) != "queued" and run.started_at is None:
        fields.setdefault("started_at", now())
    output = data.get("output", {})
    fields |= {name: output[name] for name in ("title", "summary", "text") if name in output}
    if "annotations" in output:
        fields["annotations"] = run.annotations + tuple(output["annotations"])
    if "actions" in data:
        fields["actions"] = tuple(data["actions"])
    return replace(run, **fields)


def _moment(value: str) -> datetime:
    found = datetime.fromisoformat(value)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


_RUN = "/repos/{owner}/{repo}/check-runs/{check_run_id}"

ROUTES = (
    Route("POST", "/repos/{owner}/{repo}/check-runs", create_check_run, ("checks:write",)),
    Route("PATCH", _RUN, update_check_run, ("checks:write",)),
    Route("GET", _RUN, get_check_run, ("checks:read",)),
    Route("GET", f"{_RUN}/annotations", list_annotations, ("checks:read",)),
    Route("GET", "/repos/{owner}/{repo}/commits/{ref+}/check-runs", list_for_ref, ("checks:read",)),
    repos.COMMIT,
)
