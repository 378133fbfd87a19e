"""From a comment to a run, told over the stand-in and a real store."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot import replies
from bot.handlers import EVENT_TRIES, utc_now
from bot.settings import Settings
from bot.store import StoreAway, TryAgain
from bot.store.runs import Run
from deploy.standin import CheckRun


async def started(world: Any) -> Run:
    """The run that is in the queue."""
    found = await world.store.runs.holders(world.repo.id, world.number)
    assert found.running is not None
    run: Run = found.running
    return run


def checks(world: Any) -> list[CheckRun]:
    found: list[CheckRun] = world.standin.check_runs(world.repo)
    return found


async def enqueued(world: Any, run_id: str) -> bool:
    """Whether a run is in the queue: then it cannot be put there a second time."""
    return not await world.store.queue.enqueue_run(run_id)


def use(world: Any, **settings: object) -> None:
    """Give the bot other settings."""
    changed = Settings.model_validate({**world.bot.settings.model_dump(), **settings})
    world.bot = replace(world.bot, settings=changed)


# ---- A review -------------------------------------------------------------------------------------------------------


async def test_a_command_is_seen_shown_and_handed_to_the_workers(world: Any) -> None:
    comment = await world.say('/codex-debate review --max-rounds 3 --rationale "as agreed"')
    run = await started(world)
    assert world.reactions(comment) == ["eyes"]
    assert world.replies() == []
    (check,) = checks(world)
    assert (check.name, check.status, check.external_id) == ("codex-debate", "queued", run.id)
    assert check.title == "Queued"
    assert check.summary == (
        f"A review of [{run.head_sha[:10]}]({world.standin.server_url}/octo-org/tidebook/commit/{run.head_sha}) waits "
        "for a free worker. Nothing to do."
    )
    assert (run.number, run.base_ref, run.head_ref, run.title) == (world.number, "main", "retry", "Retry renewals")
    assert (run.ceilings.rounds, run.rationale, run.seats["reviewer"].agent) == (3, "as agreed", "lint")
    assert run.source is not None
    assert run.source.comment_id == comment
    assert (await world.store.runs.state(run.id)).check_run_id == check.id
    assert await enqueued(world, run.id)


async def test_the_same_event_twice_is_one_run(world: Any) -> None:
    comment = await world.say("/codex-debate")
    run = await started(world)
    for attempt in (1, 2, 3):
        await world.hear(world.standin.deliveries[-1].payload, attempt=attempt, name="issue_comment")
    assert (await started(world)).id == run.id
    assert len(checks(world)) == 1
    assert world.reactions(comment) == ["eyes"]
    assert world.replies() == []
    assert world.outcomes() == {"started": 3, "repeated": 1}


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_job_that_died_at_any_call_is_finished_by_its_next_try(world: Any, method: str) -> None:
    """The answer to one request after another is lost: each time the job ends and is tried again as the same job."""
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    for attempt in range(1, 20):
        world.standin.clear_faults()
        before = len(world.standin.journal)
        world.standin.fail_next(method, "/", status=502, when="after", times=1)
        try:
            await world.hear(payload, attempt=min(attempt, EVENT_TRIES - 1), name="issue_comment")
        except TryAgain:
            continue
        if not any(request.fault for request in world.standin.journal[before:]):
            break
    world.standin.clear_faults()
    await world.hear(payload, attempt=2, name="issue_comment")
    run = await started(world)
    assert [check.external_id for check in checks(world)] == [run.id]
    assert world.reactions(comment) == ["eyes"]
    assert await enqueued(world, run.id)


async def test_a_run_that_has_begun_is_not_shown_as_queued_again(world: Any) -> None:
    await world.say("/codex-debate")
    run = await started(world)
    await world.store.runs.begin_attempt(run.id)
    before = len(world.standin.requests("*", "/repos/octo-org/tidebook/check-runs"))
    await world.hear(world.standin.deliveries[-1].payload, attempt=2, name="issue_comment")
    assert len(world.standin.requests("*", "/repos/octo-org/tidebook/check-runs")) == before


async def test_a_run_that_has_ended_is_not_started_again(world: Any) -> None:
    await world.say("/codex-debate")
    run = await started(world)
    fence = await world.store.runs.begin_attempt(run.id)
    await world.store.runs.finish(run.id, fence, "consensus")
    await world.hear(world.standin.deliveries[-1].payload, attempt=2, name="issue_comment")
    assert world.outcomes()["ended"] == 1


async def test_a_pull_request_may_be_named_from_an_issue(world: Any) -> None:
    issue = world.standin.create_issue(world.repo, "Please")
    comment = await world.say(f"/codex-debate review {world.number}", number=issue)
    assert world.reactions(comment) == ["eyes"]
    assert (await started(world)).number == world.number


async def test_another_base_must_be_a_branch(world: Any) -> None:
    await world.standin.commit(world.repo, "dev", {"b.txt": "x\n"}, parent="main")
    refused = await world.say("/codex-debate review --base nowhere")
    assert world.reactions(refused) == ["confused"]
    assert world.replies() == [replies.no_such_base("nowhere", "main")]
    await world.say("/codex-debate review --base dev")
    assert (await started(world)).base_ref == "dev"


@pytest.mark.parametrize("base", ["--upload-pack=touch /tmp/x", "refs/heads/main", "main~1"])
async def test_a_base_that_git_might_misread_is_refused_without_a_look(world: Any, base: str) -> None:
    await world.say(f'/codex-debate review --base="{base}"')
    assert not world.standin.requests("GET", "/repos/octo-org/tidebook/git")
    assert world.replies()[0].startswith("`--base` takes the name of a branch")


# ---- Claims ---------------------------------------------------------------------------------------------------------


async def test_a_second_waits_a_third_is_not_kept_and_a_repetition_is_told(world: Any) -> None:
    await world.say("/codex-debate")
    first = await started(world)
    check = checks(world)[0]
    url = f"{world.standin.server_url}/octo-org/tidebook/runs/{check.id}"
    await world.store.runs.set_progress(first.id, '{"round": 2}')
    world.bot = replace(world.bot, now=lambda: first.created_at + timedelta(minutes=8))

    second = await world.say("/codex-debate review --no-commit")
    assert world.reactions(second) == ["eyes"]
    assert world.replies() == [replies.running(2, 8, url=url, stop=False)]
    waiting = (await world.store.runs.holders(world.repo.id, world.number)).waiting
    assert waiting is not None
    assert not waiting.commit
    assert {each.title for each in checks(world)} == {"Queued", "Queued: 1 debate ahead"}
    assert await world.store.queue.enqueue_run(waiting.id), "a waiting run is not in the queue"

    third = await world.say("/codex-debate review --no-comment")
    assert world.reactions(third) == ["confused"]
    assert world.replies()[-1].startswith("One review is running and one waits; a third is not kept.")

    again = await world.say("/codex-debate")
    assert world.reactions(again) == ["confused"]
    assert world.replies()[-1] == f"That review is already running ([check run]({url})); nothing new was started."
    assert len(checks(world)) == 2


# ---- Who may --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "read", "triage"])
async def test_who_cannot_write_is_told_once_a_day(world: Any, level: str) -> None:
    world.standin.set_permission(world.repo, "hubot", level)
    first = await world.say("/codex-debate", login="hubot")
    second = await world.say("/codex-debate reviw", login="hubot")
    assert world.reactions(first) == ["confused"]
    assert world.reactions(second) == []
    (reply,) = world.replies()
    assert reply.startswith("Debates are started by people who can write to this repository")
    assert "@" not in reply
    assert checks(world) == []


@pytest.mark.parametrize("level", ["write", "maintain", "admin"])
async def test_who_can_write_may(world: Any, level: str) -> None:
    world.standin.set_permission(world.repo, "hubot", level)
    comment = await world.say("/codex-debate", login="hubot")
    assert world.reactions(comment) == ["eyes"]


async def test_a_login_that_changed_hands_gives_nothing(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="hubot")
    payload = world.standin.deliveries[-1].payload
    world.standin.rename_user("hubot", "hubot-old")
    world.standin.create_user("hubot")
    world.standin.set_permission(world.repo, "hubot", "write")
    await world.hear(payload, name="issue_comment")
    assert checks(world) == []


async def test_bots_apps_and_organisations_are_not_heard(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    for kind in ("Bot", "Organization", "Mannequin"):
        changed = copy.deepcopy(payload)
        changed["sender"]["type"] = changed["comment"]["user"]["type"] = kind
        await world.hear(changed, name="issue_comment")
    through = copy.deepcopy(payload)
    through["comment"]["performed_via_github_app"] = {"id": 1, "slug": "other"}
    await world.hear(through, name="issue_comment")
    other = copy.deepcopy(payload)
    other["sender"]["id"] += 1
    await world.hear(other, name="issue_comment")
    assert world.outcomes() == {"ignored": 5}
    assert checks(world) == []
    assert len(world.standin.journal) == 0, "nothing was asked"


async def test_we_never_answer_ourselves_even_if_the_operator_lists_us(world: Any) -> None:
    use(world, bots=(world.standin.bot.id,))
    await world.standin.comment(world.repo, world.number, "/codex-debate", login=world.standin.bot.login)
    await world.hear()
    assert world.outcomes() == {"ignored": 1}


async def test_a_bot_that_the_operator_lists_is_heard(world: Any) -> None:
    helper = world.standin.create_user("helper[bot]", "Bot")
    world.standin.set_permission(world.repo, helper.login, "write")
    use(world, bots=(helper.id,))
    await world.say("/codex-debate", login=helper.login)
    assert world.outcomes() == {"started": 1}


async def test_an_outsiders_pull_request_is_refused_for_now(world: Any) -> None:
    world.standin.create_user("contributor")
    fork = await world.standin.fork(world.repo, "contributor")
    await world.standin.commit(fork, "idea", {"a.txt": "three\n"}, parent="main")
    number = await world.standin.open_pull_request(
        world.repo, "contributor:idea", "main", "An idea", "", author="contributor"
    )
    comment = await world.say("/codex-debate", number=number)
    assert world.reactions(comment) == ["confused"]
    assert world.replies(number)[0].startswith("This pull request comes from outside")
    inside = await world.standin.open_pull_request(world.repo, "retry", "main", "Mine", "", author="contributor")
    await world.say("/codex-debate", number=inside)
    assert world.replies(inside)[0].startswith("This pull request comes from outside")
    assert checks(world) == []


async def test_a_repository_that_is_not_served(world: Any) -> None:
    use(world, allow=("somebody-else",))
    await world.say("/codex-debate")
    await world.say("/codex-debate review")
    assert world.replies() == [replies.not_served("octo-org/tidebook")]
    use(world, allow=("octo-*/tide*",))
    await world.say("/codex-debate")
    assert world.outcomes()["started"] == 1


# ---- What is said ---------------------------------------------------------------------------------------------------


async def test_help_is_given_to_readers_once_an_hour(world: Any) -> None:
    first = await world.say("/codex-debate help", login="hubot")
    await world.say("/codex-debate help review", login="hubot")
    assert world.reactions(first) == ["rocket"]
    (reply,) = world.replies()
    assert reply.startswith("Two agents debate until they agree.")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("/codex-debate reviw", "There is no `reviw`"),
        ("/codex-debate review --round 3", "Perhaps you meant `--max-rounds 3`."),
        ("/codex-debate is the retry safe?", "Review the change, or answer the question?"),
        ("/codex-debate stop", "`/codex-debate stop` is not in this version"),
        ("/lens-debate", "`/lens-debate` is not in this version"),
        ("/codex-debate review --push", "`--push` is not in this version"),
        ("/codex-debate review --reviewer scripted", "takes one of codex, claude, lint"),
        ("/codex-debate\n\n/codex-debate help", "Two commands in one comment"),
        ("/codex-debate review 999", "There is no pull request 999 here"),
    ],
)
async def test_what_cannot_be_done_is_answered_once(world: Any, text: str, part: str) -> None:
    comment = await world.say(text)
    await world.hear(world.standin.deliveries[-1].payload, attempt=2, name="issue_comment")
    assert world.reactions(comment) == ["confused"]
    (reply,) = world.replies()
    assert part in reply
    assert checks(world) == []


@pytest.mark.parametrize("text", ["> /codex-debate review", "```\n/codex-debate review\n```", "just words", "/codex"])
async def test_what_is_no_command_costs_nothing(world: Any, text: str) -> None:
    comment = await world.say(text)
    assert world.reactions(comment) == []
    assert world.replies() == []
    assert world.standin.journal == []


async def test_a_closed_pull_request(world: Any) -> None:
    await world.standin.close_pull_request(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.replies() == [replies.not_open(world.number, merged=False)]
    assert checks(world) == []


async def test_a_merged_pull_request(world: Any) -> None:
    await world.standin.merge_pull_request(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.replies() == [replies.not_open(world.number, merged=True)]


async def test_a_locked_pull_request(world: Any) -> None:
    await world.standin.lock(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.outcomes() == {"refused": 1}
    assert checks(world) == []


async def test_a_review_on_an_issue_asks_for_the_number(world: Any) -> None:
    issue = world.standin.create_issue(world.repo, "A question")
    await world.say("/codex-debate review", number=issue)
    assert world.replies(issue) == [
        "A review needs a pull request; nothing was started. Name one: `/codex-debate review 412`."
    ]


async def test_a_comment_that_was_deleted_meanwhile_starts_nothing(world: Any) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    await world.standin.delete_comment(comment)
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"ignored": 1}
    assert checks(world) == []


async def test_a_comment_that_was_deleted_meanwhile_gets_no_reply(world: Any) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate reviw", login="mona")
    payload = world.standin.deliveries[-1].payload
    await world.standin.delete_comment(comment)
    await world.hear(payload, name="issue_comment")
    assert world.replies() == []


@pytest.mark.parametrize("progress", [None, "{", "[]", '{"round": "2"}', '{"round": 0}'])
async def test_a_running_debate_of_which_little_is_known(world: Any, progress: str | None) -> None:
    await world.say("/codex-debate")
    if progress is not None:
        await world.store.runs.set_progress((await started(world)).id, progress)
    await world.say("/codex-debate review --no-commit")
    assert world.replies()[0].startswith("A review is running: minute 1 ([check run](")


# ---- Other events ---------------------------------------------------------------------------------------------------


async def test_pull_requests_are_recorded_only_and_once(world: Any) -> None:
    payload = next(each.payload for each in world.standin.deliveries if each.event == "pull_request")
    await world.hear(payload, name="pull_request")
    await world.hear(payload, name="pull_request")
    assert world.outcomes() == {"recorded": 1, "repeated": 1}
    assert world.standin.journal == []


async def test_unknown_events_are_left(world: Any) -> None:
    await world.hear({}, name="star")
    await world.hear({"zen": "…"}, name="ping")
    await world.hear({"action": "deleted", "installation": {"id": 1}}, name="installation")
    assert world.outcomes() == {"ignored": 1, "pong": 1, "recorded": 1}


# ---- When GitHub or the store is away -------------------------------------------------------------------------------


async def test_while_github_is_away_the_event_waits_and_is_then_given_up(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    world.standin.fail_next("*", "/", status=503, times=10_000)
    for attempt in range(1, EVENT_TRIES):
        with pytest.raises(TryAgain):
            await world.hear(payload, attempt=attempt, name="issue_comment")
    await world.hear(payload, attempt=EVENT_TRIES, name="issue_comment")
    assert world.outcomes() == {"given up": 1}


async def test_a_permission_that_cannot_be_read_counts_as_none(world: Any) -> None:
    world.standin.fail_next("GET", "/repos/octo-org/tidebook/collaborators", status=403)
    await world.say("/codex-debate")
    assert checks(world) == []
    assert world.replies()[0].startswith("Debates are started by people who can write")


async def test_what_github_does_not_take_does_not_keep_the_run_back(world: Any) -> None:
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", status=403)
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/check-runs", status=403)
    await world.say("/codex-debate")
    assert world.outcomes() == {"started": 1}
    assert checks(world) == []
    assert await enqueued(world, (await started(world)).id)


async def test_a_github_that_is_away_does_not_keep_the_run_back_and_is_told_later(world: Any) -> None:
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", status=502)
    with pytest.raises(TryAgain):
        await world.say("/codex-debate")
    assert await enqueued(world, (await started(world)).id)
    await world.hear(attempt=2)
    assert len(checks(world)) == 1
    assert world.outcomes()["started"] == 1


async def test_a_reply_is_not_lost_with_a_github_that_is_away(world: Any) -> None:
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues", status=502)
    with pytest.raises(TryAgain):
        await world.say("/codex-debate reviw")
    await world.hear(attempt=2)
    assert len(world.replies()) == 1


async def test_nothing_that_may_fail_stands_between_the_claim_and_the_queue(world: Any) -> None:
    world.standin.fail_next("GET", "/users", status=503, times=100)
    with pytest.raises(TryAgain):
        await world.say("/codex-debate")
    assert (await world.store.runs.holders(world.repo.id, world.number)).running is None


@pytest.mark.parametrize(
    ("command", "path", "status"),
    [
        ("/codex-debate", "/repos/octo-org/tidebook/pulls", 403),
        ("/codex-debate", "/repos/octo-org/tidebook/pulls", 422),
        ("/codex-debate review --base main", "/repos/octo-org/tidebook/git/ref", 422),
    ],
)
async def test_what_github_does_not_show_is_told(world: Any, command: str, path: str, status: int) -> None:
    world.standin.fail_next("GET", path, status=status, message="Resource not accessible by integration @mona")
    comment = await world.say(command)
    assert world.replies() == [
        (
            f"GitHub did not show this App what a review needs (`GitHub answered {status}: Resource not accessible by "
            "integration @\u200bmona`); nothing was started. Check in the settings of the installation that the "
            "permissions of `app.yml` are accepted, then write the command again."
        )
    ]
    assert world.reactions(comment) == ["confused"]
    assert world.outcomes() == {"refused": 1}
    assert checks(world) == []


@pytest.mark.parametrize("lacking", ["pull_requests", "contents", "checks"])
async def test_a_permission_that_is_not_granted_is_told(world: Any, lacking: str) -> None:
    del world.standin.permissions[lacking]
    comment = await world.say("/codex-debate")
    (reply,) = world.replies()
    assert reply.startswith(
        "GitHub did not show this App what a review needs (`GitHub answered 422: The permissions requested are not "
        "granted to this installation.`); nothing was started."
    )
    assert world.reactions(comment) == ["confused"]
    assert world.outcomes() == {"refused": 1}
    assert (await world.store.runs.holders(world.repo.id, world.number)).running is None


async def test_help_needs_no_more_than_a_reply_does(world: Any) -> None:
    del world.standin.permissions["contents"]
    await world.say("/codex-debate help")
    assert world.outcomes() == {"told": 1}


async def test_what_is_not_granted_is_no_outsiders_business(world: Any) -> None:
    del world.standin.permissions["contents"]
    world.standin.set_permission(world.repo, "mona", "read")
    await world.say("/codex-debate")
    assert world.replies()[0].startswith("Debates are started by people who can write")


async def test_any_other_refusal_of_github_ends_the_event(world: Any) -> None:
    world.standin.fail_next("GET", "/users", status=403)
    await world.say("/codex-debate")
    assert world.outcomes() == {"failed": 1}
    assert checks(world) == []
    assert (await world.store.runs.holders(world.repo.id, world.number)).running is None


async def test_an_installation_that_is_gone_ends_quietly(world: Any) -> None:
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    payload["installation"]["id"] = 10**9
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"not installed": 1}


async def test_an_installation_that_does_not_own_the_repository_is_dropped(world: Any) -> None:
    other = await world.standin.create_repository("elsewhere/tidebook")
    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = copy.deepcopy(world.standin.deliveries[-1].payload)
    payload["installation"]["id"] = world.standin.installation_id(other)
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"not installed": 1}


async def test_a_store_that_is_away_is_the_queues_to_handle(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_arguments: object) -> bool:
        raise StoreAway("away")

    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    monkeypatch.setattr(world.store.runs, "seen", away)
    with pytest.raises(StoreAway):
        await world.hear()


# ---- Small things ---------------------------------------------------------------------------------------------------


def test_times_are_whole_seconds_in_utc() -> None:
    assert utc_now().microsecond == 0
    assert utc_now().utcoffset() == timedelta(0)
