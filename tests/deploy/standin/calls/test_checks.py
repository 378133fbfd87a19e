"""Check runs over the API."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.standin import Repo, StandIn

RUNS = "/repos/octo/demo/check-runs"


@pytest.fixture
async def head(standin: StandIn, repo: Repo, number: int) -> str:
    return standin.pull(repo, number).head_sha


async def test_a_check_run_goes_its_way(standin: StandIn, api: Any, repo: Repo, number: int, head: str) -> None:
    made = await api("POST", RUNS, {"name": "codex-debate", "head_sha": head, "external_id": "run-1"})
    assert made.status == 201
    assert (made.body["status"], made.body["conclusion"], made.body["external_id"]) == ("queued", None, "run-1")
    assert made.body["html_url"] == f"{standin.server_url}/octo/demo/runs/{made.body['id']}"
    assert (str(made.body["app"]["id"]), made.body["app"]["slug"]) == (standin.app_id, "codex-debate")
    assert [each["number"] for each in made.body["pull_requests"]] == [number]
    path = f"{RUNS}/{made.body['id']}"
    note = {"path": "a.py", "start_line": 2, "end_line": 2, "annotation_level": "warning", "message": "m"}
    output = {"title": "Round 1", "summary": "s", "annotations": [note]}
    running = await api("PATCH", path, {"status": "in_progress", "output": output})
    assert (running.status, running.body["status"]) == (200, "in_progress")
    assert running.body["started_at"]
    done = await api("PATCH", path, {"conclusion": "neutral", "output": output | {"text": "t"}})
    assert (done.body["status"], done.body["conclusion"], done.body["external_id"]) == ("completed", "neutral", "run-1")
    assert done.body["completed_at"]
    assert done.body["output"] | {"annotations_url": ""} == {
        "title": "Round 1",
        "summary": "s",
        "text": "t",
        "annotations_count": 2,
        "annotations_url": "",
    }
    assert (await api("GET", path)).body == done.body
    assert [each["message"] for each in (await api("GET", f"{path}/annotations")).body] == ["m", "m"]
    (kept,) = standin.check_runs(repo)
    assert (kept.title, kept.text, kept.conclusion, len(kept.annotations)) == ("Round 1", "t", "neutral", 2)


async def test_a_check_run_needs_a_commit_of_the_repository(api: Any, head: str) -> None:
    for sha in ("0" * 40, head[:8], "main"):
        answer = await api("POST", RUNS, {"name": "x", "head_sha": sha})
        assert (answer.status, answer.body["message"]) == (422, f"No commit found for SHA: {sha}")


async def test_refusals_reach_the_caller(api: Any, head: str) -> None:
    output = {"title": "t", "summary": "ж" * 32_768}
    answer = await api("POST", RUNS, {"name": "x", "head_sha": head, "output": output})
    assert answer.status == 422
    assert answer.body["errors"][0]["message"] == "summary exceeds a maximum bytesize of 65535"


async def test_check_runs_of_a_commit_are_found_by_name(standin: StandIn, api: Any, head: str) -> None:
    for name, external in (("codex-debate", "1"), ("codex-debate/lens", "2"), ("codex-debate", "3")):
        await api("POST", RUNS, {"name": name, "head_sha": head, "external_id": external})

    async def found(query: str, ref: str = head) -> list[str]:
        answer = await api("GET", f"/repos/octo/demo/commits/{ref}/check-runs{query}")
        assert answer.body["total_count"] == len(answer.body["check_runs"])
        return [each["external_id"] for each in answer.body["check_runs"]]

    assert sorted(await found("")) == ["2", "3"]
    assert await found("?check_name=codex-debate") == ["3"]
    assert await found("?check_name=codex-debate&filter=all") == ["3", "1"]
    assert await found("?check_name=codex-debate&filter=all", "feature/x") == ["3", "1"]
    assert await found("?status=completed") == []
    assert sorted(await found("?status=queued")) == ["2", "3"]
    assert await found("?app_id=1") == []
    assert sorted(await found(f"?app_id={standin.app_id}")) == ["2", "3"]
    assert await found("", "main") == []
    assert (await api("GET", "/repos/octo/demo/commits/none/check-runs")).status == 422


async def test_reading_needs_one_permission_and_writing_another(standin: StandIn, api: Any, head: str) -> None:
    reader = f"Bearer {standin.token('octo/demo', {'checks': 'read'})}"
    made = await api("POST", RUNS, {"name": "x", "head_sha": head})
    assert (await api("GET", f"{RUNS}/{made.body['id']}", auth=reader)).status == 200
    assert (await api("PATCH", f"{RUNS}/{made.body['id']}", {"status": "queued"}, auth=reader)).status == 403
    assert (await api("POST", RUNS, {"name": "x", "head_sha": head}, auth=reader)).status == 403


async def test_a_fork_s_pull_request_is_not_listed(standin: StandIn, api: Any, repo: Repo) -> None:
    standin.create_user("ann")
    fork = await standin.fork(repo, "ann")
    await standin.commit(fork, "patch", {"a.py": "3\n"}, parent="main")
    number = await standin.open_pull_request(repo, "ann:patch", author="ann")
    sha = standin.pull(repo, number).head_sha
    made = await api("POST", RUNS, {"name": "x", "head_sha": sha})
    assert (made.status, made.body["pull_requests"]) == (201, [])
