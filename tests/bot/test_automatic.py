"""From an opened pull request to a run, or to a check run that says why not; over the stand-in and a real store."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bot import begin, check_runs
from bot.github import verbs

ON = "auto: {on: [opened, reopened, ready_for_review]}\n"


async def opened(world: Any, **options: Any) -> int:
    """Open a second pull request and let the bot hear of it."""
    branch = options.pop("branch", "second")
    await world.standin.commit(world.repo, branch, {"b.txt": f"{branch}\n"}, parent="main")
    base = options.pop("base", "main")
    number: int = await world.standin.open_pull_request(world.repo, branch, base, "Second", "", **options)
    await world.hear()
    return number


async def nothing_runs(world: Any, number: int) -> bool:
    return (await world.store.runs.holders(world.repo.id, number)).running is None


async def test_an_opened_pull_request_is_debated_where_the_base_branch_says_so(world: Any) -> None:
    await world.configure(ON)
    number = await opened(world)
    run = await world.started(number)
    assert (run.requester, run.source, run.head_sha, run.base_ref) == (None, None, world.head(number), "main")
    assert run.authority is not None
    assert run.authority.login == "octo-org", "the author's permission stands for it"
    (check,) = world.checks()
    assert (check.status, check.external_id, check.head_sha) == ("queued", run.id, run.head_sha)
    assert await world.enqueued(run.id)
    assert world.replies(number) == []
    assert world.outcomes() == {"started": 1}


@pytest.mark.parametrize("text", ["", "auto: {}\n", "auto: {on: [reopened]}\n"])
async def test_otherwise_nothing_happens(world: Any, text: str) -> None:
    await world.configure(text)
    number = await opened(world)
    assert await nothing_runs(world, number)
    assert world.checks() == []
    assert world.outcomes() == {"ignored": 1}


async def test_without_a_file_two_questions_are_asked_and_nothing_is_shown(world: Any) -> None:
    await opened(world)
    asked = [each.path for each in world.standin.requests("GET", "/repos")]
    assert [path.removeprefix("/repos/octo-org/tidebook/") for path in asked] == [
        "pulls/2",
        "git/ref/heads/main",
        "contents/.github/codex-debate.yml",
    ]
    assert world.checks() == []


async def test_the_file_of_the_pull_request_itself_counts_for_nothing(world: Any) -> None:
    """An outsider would write it."""
    await world.standin.commit(world.repo, "mine", {".github/codex-debate.yml": ON}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "mine", "main", "Mine", "")
    await world.hear()
    assert await nothing_runs(world, number)
    assert world.checks() == []


async def test_a_tag_that_is_named_like_the_base_branch_is_not_read(world: Any) -> None:
    await world.standin.commit(world.repo, "other", {".github/codex-debate.yml": ON}, parent="main")
    other = await world.standin.read_ref(world.repo, "other")
    await world.standin.create_tag(world.repo, "main", other)
    number = await opened(world)
    assert await nothing_runs(world, number)


@pytest.mark.parametrize(
    ("action", "word"),
    [
        ("synchronize", "told"),
        ("edited", "told"),
        ("closed", "told"),
        ("labeled", "recorded"),
        ("converted_to_draft", "recorded"),
    ],
)
async def test_other_actions_start_nothing_and_count_once(world: Any, action: str, word: str) -> None:
    await world.configure(ON)
    payload = next(each.payload for each in world.standin.deliveries if each.event == "pull_request")
    before = len(world.standin.journal)
    for _ in range(2):
        await world.hear(payload | {"action": action}, name="pull_request")
    assert world.outcomes() == {word: 1, "repeated": 1}
    assert len(world.standin.journal) == before


@pytest.mark.threat("T2", 28)
async def test_a_repetition_under_another_delivery_id_starts_nothing_in_its_next_tries_either(world: Any) -> None:
    await world.configure(ON)
    number = await opened(world)
    run = await world.started(number)
    payload = world.standin.deliveries[-1].payload
    for attempt in (1, 2, 3):
        await world.hear(payload, name="pull_request", attempt=attempt)
    assert (await world.started(number)).id == run.id
    assert len(world.checks()) == 1
    assert world.outcomes() == {"started": 1, "repeated": 3}


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_job_that_died_at_any_call_is_finished_by_its_next_try(world: Any, method: str) -> None:
    await world.configure(ON)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "second", "main", "Second", "")
    await world.hear_in_spite_of_faults(method)
    run = await world.started(number)
    assert [check.external_id for check in world.checks()] == [run.id]
    assert await world.enqueued(run.id)


async def test_a_draft_is_skipped_and_debated_when_it_is_ready(world: Any) -> None:
    await world.configure(ON)
    number = await opened(world, draft=True)
    assert await nothing_runs(world, number)
    (check,) = world.checks()
    title, summary = check_runs.skipped_draft(by_itself=True)
    assert (check.status, check.conclusion, check.title, check.summary) == ("completed", "skipped", title, summary)
    assert check.name == "codex-debate"
    await world.standin.set_draft(world.repo, number, draft=False)
    await world.hear()
    run = await world.started(number)
    assert [each.external_id for each in world.checks()][-1] == run.id
    assert len(world.checks()) == 2


async def test_a_draft_on_a_base_that_is_not_named_is_told_so_at_once(world: Any) -> None:
    """Marking it as ready would start nothing."""
    await world.configure('auto: {on: [opened, ready_for_review], base: ["release/*"]}\n')
    await opened(world, draft=True)
    assert [each.title for each in world.checks()] == [check_runs.skipped_base("main")[0]]


async def test_drafts_are_debated_where_the_file_says_so(world: Any) -> None:
    await world.configure("auto: {on: [opened], drafts: true}\n")
    number = await opened(world, draft=True)
    assert (await world.started(number)).number == number


async def test_a_base_that_is_not_named_is_skipped(world: Any) -> None:
    await world.standin.commit(world.repo, "dev", {"d.txt": "d\n"}, parent="main")
    await world.configure('auto: {on: [opened], base: [main, "release/*"]}\n', branch="dev")
    number = await opened(world, base="dev")
    assert await nothing_runs(world, number)
    (check,) = world.checks()
    assert (check.conclusion, check.title) == ("skipped", check_runs.skipped_base("dev")[0])


@pytest.mark.threat(59)
async def test_a_fork_waits_for_approval_and_approving_starts_it(world: Any) -> None:
    """No automatic run for who comes from outside."""
    await world.configure(ON)
    number = await world.from_fork()
    await world.hear()
    assert await nothing_runs(world, number)
    (check,) = world.checks()
    head = world.head(number)
    assert (check.status, check.conclusion, check.head_sha) == ("completed", "neutral", head)
    assert (check.title, check.summary) == check_runs.waiting_approval(head)
    assert world.replies(number) == [], "the check run says it, no comment"

    await world.say(f"/codex-debate approve {head[:10]}", number=number)
    run = await world.started(number)
    assert run.fork
    assert len(world.checks()) == 2


async def test_a_fork_whose_head_is_approved_is_debated_when_it_is_opened_again(world: Any) -> None:
    await world.configure(ON)
    number = await world.from_fork()
    await world.say(f"/codex-debate approve {world.head(number)[:10]}", number=number)
    run = await world.started(number)
    await world.store.runs.finish(run.id, 0, "closed")
    for check in world.checks():
        await cancelled(world, check.id)
    await world.standin.close_pull_request(world.repo, number)
    await world.standin.reopen_pull_request(world.repo, number)
    await world.hear()
    again = await world.started(number)
    assert (again.requester, again.authority.login, again.approved) == (None, "mona", True)


async def test_one_that_was_closed_and_opened_again_at_once_is_debated_again(world: Any) -> None:
    await world.configure(ON)
    number = await opened(world)
    first = await world.started(number)
    await world.store.runs.finish(first.id, 0, "closed")
    await cancelled(world, world.checks()[0].id)
    await world.standin.close_pull_request(world.repo, number)
    await world.standin.reopen_pull_request(world.repo, number)
    await world.hear()
    second = await world.started(number)
    assert second.id != first.id
    await world.hear(attempt=2)
    assert (await world.started(number)).id == second.id
    assert len(world.checks()) == 2


async def test_two_events_about_one_commit_at_the_same_moment_are_one_debate(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_seen_yet(*_: object, **__: object) -> tuple[()]:
        return ()

    await world.configure(ON)
    number = await opened(world)
    run = await world.started(number)
    monkeypatch.setattr(verbs, "check_runs", not_seen_yet)
    await world.hear(world.standin.deliveries[-1].payload | {"action": "ready_for_review"}, name="pull_request")
    holders = await world.store.runs.holders(world.repo.id, number)
    assert (holders.running.id, holders.waiting) == (run.id, None)
    assert world.outcomes() == {"started": 1, "ignored": 1}


async def cancelled(world: Any, check_id: int) -> None:
    """Complete a check run as one that came to nothing, as a worker does."""
    github = world.bot.app.installation(world.standin.installation_id(world.repo), world.repo.id)
    await github.patch(f"/repos/octo-org/tidebook/check-runs/{check_id}", {"conclusion": "cancelled"})


async def test_a_bots_pull_request_waits_for_approval(world: Any) -> None:
    await world.configure(ON)
    world.standin.create_user("dependabot[bot]", "Bot")
    number = await opened(world, author="dependabot[bot]")
    assert await nothing_runs(world, number)
    assert world.checks()[0].conclusion == "neutral"


async def test_a_file_with_a_fault_is_shown_with_its_line(world: Any) -> None:
    await world.configure("auto:\n  on: [opened]\n  draft: yes\n")
    number = await opened(world)
    assert await nothing_runs(world, number)
    (check,) = world.checks()
    assert (check.conclusion, check.title) == ("neutral", "Not started: error in codex-debate.yml, line 3")
    assert "there is no key `auto.draft`; perhaps you meant `auto.drafts`" in check.summary


async def test_a_file_that_is_no_file(world: Any) -> None:
    await world.standin.commit(world.repo, "main", {".github/codex-debate.yml/x": "a folder\n"})
    await opened(world)
    (check,) = world.checks()
    assert check.conclusion == "neutral"
    assert "is no file of at most a megabyte" in check.summary


async def test_a_head_that_was_debated_is_not_debated_again(world: Any) -> None:
    await world.configure(ON)
    number = await opened(world)
    run = await world.started(number)
    await world.store.runs.finish(run.id, 0, "consensus")
    await world.standin.close_pull_request(world.repo, number)
    await world.standin.reopen_pull_request(world.repo, number)
    await world.hear()
    assert await nothing_runs(world, number)
    assert len(world.checks()) == 1
    assert world.outcomes() == {"started": 1, "ignored": 1}


@pytest.mark.parametrize("allow", [("somebody-else",), ("octo-org/other",)])
async def test_a_repository_that_is_not_served_is_left_alone(world: Any, allow: tuple[str, ...]) -> None:
    await world.configure(ON)
    world.use(allow=allow)
    number = await opened(world)
    assert await nothing_runs(world, number)
    assert world.standin.requests("GET", "/repos") == []


async def test_a_pull_request_that_was_closed_meanwhile(world: Any) -> None:
    await world.configure(ON)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "second", "main", "Second", "")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    await world.standin.close_pull_request(world.repo, number)
    await world.hear(payload, name="pull_request")
    assert await nothing_runs(world, number)
    assert world.checks() == []


async def test_a_commit_that_a_command_debates_already_is_not_debated_by_itself(world: Any) -> None:
    await world.configure(ON)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "second", "main", "Second", "")
    opened_event = world.standin.deliveries[-1].payload
    await world.say("/codex-debate", number=number)
    run = await world.started(number)
    await world.hear(opened_event, name="pull_request")
    holders = await world.store.runs.holders(world.repo.id, number)
    assert (holders.running.id, holders.waiting) == (run.id, None)


async def test_a_forks_draft_that_is_ready_waits_for_approval(world: Any) -> None:
    """What was shown before says something that is not true any more."""
    await world.configure(ON)
    number = await world.from_fork(draft=True)
    await world.hear()
    await world.standin.set_draft(world.repo, number, draft=False)
    await world.hear()
    await world.standin.close_pull_request(world.repo, number)
    await world.standin.reopen_pull_request(world.repo, number)
    await world.hear()
    assert [each.title for each in world.checks()] == [
        "Skipped: draft (auto.drafts is off)",
        "Waiting for a maintainer's approval",
    ]


async def test_an_approver_who_may_not_write_any_more_counts_for_nothing(world: Any) -> None:
    await world.configure(ON)
    number = await world.from_fork()
    await world.say(f"/codex-debate approve {world.head(number)}", number=number)
    await world.store.runs.finish((await world.started(number)).id, 0, "closed")
    await cancelled(world, world.checks()[0].id)
    world.standin.set_permission(world.repo, "mona", "read")
    await world.standin.close_pull_request(world.repo, number)
    await world.standin.reopen_pull_request(world.repo, number)
    await world.hear()
    assert await nothing_runs(world, number)


@pytest.mark.parametrize("closed", [False, True])
async def test_a_run_that_was_claimed_by_a_bot_that_died_gets_to_a_worker(
    world: Any, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    class Died(BaseException):
        """The process ends here."""

    async def dies(*_: object, **__: object) -> None:
        raise Died

    await world.configure(ON)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    number = await world.standin.open_pull_request(world.repo, "second", "main", "Second", "")
    payload = world.standin.deliveries[-1].payload
    with monkeypatch.context() as patch:
        patch.setattr(begin, "_go_on", dies)
        with pytest.raises(Died):
            await world.hear(payload, name="pull_request")
    if closed:
        await world.standin.close_pull_request(world.repo, number)
    await world.hear(payload, name="pull_request", attempt=2)
    assert await world.enqueued((await world.started(number)).id)


async def test_another_apps_check_run_of_our_name_is_none_of_ours(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep every debate from starting."""

    async def theirs(*_: object, **__: object) -> tuple[verbs.CheckRun, ...]:
        other = verbs.AppRef(id=int(world.standin.app_id) + 1)
        name, head = "codex-debate", "a" * 40
        return (verbs.CheckRun(id=1, name=name, head_sha=head, status="completed", conclusion="success", app=other),)

    await world.configure(ON)
    monkeypatch.setattr(verbs, "check_runs", theirs)
    await world.standin.commit(world.repo, "second", {"b.txt": "x\n"}, parent="main")
    await world.standin.open_pull_request(world.repo, "second", "main", "Second", "")
    await world.hear()
    assert world.outcomes() == {"started": 1}


async def test_two_debates_are_here_already(world: Any) -> None:
    await world.configure(ON)
    await world.say("/codex-debate")
    await world.say("/codex-debate review --no-commit")
    await world.standin.set_draft(world.repo, world.number, draft=True)
    await world.standin.set_draft(world.repo, world.number, draft=False)
    before = len(world.checks())
    await world.hear()
    assert len(world.checks()) == before
    assert world.outcomes()["ignored"] == 1
