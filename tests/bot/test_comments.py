"""From a comment to a run, told over the stand-in and a real store."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot import comments, replies
from bot.store import StoreAway, TryAgain
from bot.telemetry import configure

# ---- A review -------------------------------------------------------------------------------------------------------


async def test_a_command_is_seen_shown_and_handed_to_the_workers(world: Any) -> None:
    comment = await world.say('/codex-debate review --max-rounds 3 --rationale "as agreed"')
    run = await world.started()
    assert world.reactions(comment) == ["eyes"]
    assert world.replies() == []
    (check,) = world.checks()
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
    assert await world.enqueued(run.id)


async def test_the_same_event_twice_is_one_run(world: Any) -> None:
    comment = await world.say("/codex-debate")
    run = await world.started()
    for attempt in (2, 3, 1):
        await world.hear(world.standin.deliveries[-1].payload, attempt=attempt, name="issue_comment")
    assert (await world.started()).id == run.id
    assert len(world.checks()) == 1
    assert world.reactions(comment) == ["eyes"]
    assert world.replies() == []
    assert world.outcomes() == {"started": 3, "repeated": 1}


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_job_that_died_at_any_call_is_finished_by_its_next_try(world: Any, method: str) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    await world.hear_in_spite_of_faults(method)
    run = await world.started()
    assert [check.external_id for check in world.checks()] == [run.id]
    assert world.reactions(comment) == ["eyes"]
    assert await world.enqueued(run.id)


async def test_a_run_that_has_begun_is_not_shown_as_queued_again(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    await world.store.runs.begin_attempt(run.id)
    before = len(world.standin.requests("*", "/repos/octo-org/tidebook/check-runs"))
    await world.hear(world.standin.deliveries[-1].payload, attempt=2, name="issue_comment")
    assert len(world.standin.requests("*", "/repos/octo-org/tidebook/check-runs")) == before


async def test_a_run_that_has_ended_is_not_started_again(world: Any) -> None:
    await world.say("/codex-debate")
    run = await world.started()
    fence = await world.store.runs.begin_attempt(run.id)
    await world.store.runs.finish(run.id, fence, "consensus")
    await world.hear(world.standin.deliveries[-1].payload, attempt=2, name="issue_comment")
    assert world.outcomes()["ended"] == 1


async def test_a_pull_request_may_be_named_from_an_issue(world: Any) -> None:
    issue = world.standin.create_issue(world.repo, "Please")
    comment = await world.say(f"/codex-debate review {world.number}", number=issue)
    assert world.reactions(comment) == ["eyes"]
    assert (await world.started()).number == world.number


async def test_another_base_must_be_a_branch(world: Any) -> None:
    await world.standin.commit(world.repo, "dev", {"b.txt": "x\n"}, parent="main")
    refused = await world.say("/codex-debate review --base nowhere")
    assert world.reactions(refused) == ["confused"]
    assert world.replies() == [replies.no_such_base("nowhere", "main")]
    await world.say("/codex-debate review --base dev")
    assert (await world.started()).base_ref == "dev"


@pytest.mark.threat("T9", 49, 51)
@pytest.mark.parametrize("base", ["--upload-pack=touch /tmp/x", "refs/heads/main", "main~1"])
async def test_a_base_that_git_might_misread_is_refused_without_a_look(world: Any, base: str) -> None:
    await world.say(f'/codex-debate review --base="{base}"')
    assert not world.standin.requests("GET", "/repos/octo-org/tidebook/git")
    assert world.replies()[0].startswith("`--base` takes the name of a branch")


@pytest.mark.threat(52, 53)
async def test_a_base_is_a_branch_of_this_repository(world: Any) -> None:
    """No commit that only a fork has, and a branch before a tag of its name."""
    number = await world.from_fork()
    impostor = world.head(number)
    await world.say(f"/codex-debate review --base {impostor}")
    assert world.replies() == [replies.no_such_base(impostor, "main")]
    await world.standin.commit(world.repo, "dev", {"b.txt": "x\n"}, parent="main")
    await world.standin.create_tag(world.repo, "dev", impostor)
    await world.standin.create_tag(world.repo, "only-a-tag", impostor)
    await world.say("/codex-debate review --base only-a-tag")
    assert world.replies()[-1] == replies.no_such_base("only-a-tag", "main")
    await world.say("/codex-debate review --base dev")
    assert (await world.started()).base_ref == "dev"


@pytest.mark.threat(56, 155)
async def test_what_a_command_says_never_breaks_a_line_of_the_log(world: Any) -> None:
    out, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("json", stream=out)
    try:
        await world.say('/codex-debate review --rationale "a\r\nb\x1b[31m\u2028c" --base "x\ny"')
        await world.say("/codex-debate revi\x1b[31mw\u2028\x85")
        await world.say('/codex-debate review --rationale "a\x1b[31mb\u2028\x0bc"')
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = [json.loads(line) for line in out.getvalue().split("\n")[:-1]]
    assert [line["outcome"].partition(":")[0] for line in lines if line["event"] == "event"] == [
        "refused",
        "refused",
        "started",
    ]
    assert "\x1b" not in out.getvalue()
    assert (await world.started()).rationale.startswith("a")


# ---- Claims ---------------------------------------------------------------------------------------------------------


async def test_a_second_waits_a_third_is_not_kept_and_a_repetition_is_told(world: Any) -> None:
    await world.say("/codex-debate")
    first = await world.started()
    check = world.checks()[0]
    url = f"{world.standin.server_url}/octo-org/tidebook/runs/{check.id}"
    await world.store.runs.set_progress(first.id, '{"round": 2}')
    world.bot = replace(world.bot, now=lambda: first.created_at + timedelta(minutes=8))

    second = await world.say("/codex-debate review --no-commit")
    assert world.reactions(second) == ["eyes"]
    assert world.replies() == [replies.running(2, 8, url=url, stop=False)]
    waiting = (await world.store.runs.holders(world.repo.id, world.number)).waiting
    assert waiting is not None
    assert not waiting.commit
    assert {each.title for each in world.checks()} == {"Queued", "Queued: 1 debate ahead"}
    assert await world.store.queue.enqueue_run(waiting.id), "a waiting run is not in the queue"

    third = await world.say("/codex-debate review --no-comment")
    assert world.reactions(third) == ["confused"]
    assert world.replies()[-1].startswith("One review is running and one waits; a third is not kept.")

    again = await world.say("/codex-debate")
    assert world.reactions(again) == ["confused"]
    assert world.replies()[-1] == f"That review is already running ([check run]({url})); nothing new was started."
    assert len(world.checks()) == 2


# ---- Who may --------------------------------------------------------------------------------------------------------


@pytest.mark.threat("T6", 42, 43, 64, 74)
async def test_bot_ignored(world: Any) -> None:
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
    assert world.checks() == []
    assert len(world.standin.journal) == 0, "nothing was asked"


@pytest.mark.threat("T6", 42)
async def test_self_loop(world: Any) -> None:
    """What we write comes back to us: it is not heard, even where the operator lists us."""
    world.use(bots=(world.standin.bot.id,))
    await world.standin.comment(world.repo, world.number, "/codex-debate", login=world.standin.bot.login)
    await world.hear()
    assert world.outcomes() == {"ignored": 1}
    await world.say("/codex-debate reviw")
    (own, reply) = (world.standin.deliveries[-1].payload, world.replies()[-1])
    assert own["comment"]["body"] == reply
    assert "`/codex-debate review`" in reply
    own["comment"]["body"] = "/codex-debate review"  # as if a reply had ever begun with a command
    for payload in (world.standin.deliveries[-1].payload, own):
        await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"ignored": 3, "refused": 1}
    assert world.replies()[1:] == [reply]
    assert world.checks() == []


@pytest.mark.threat("T7", 69)
async def test_an_outsiders_pull_request_needs_the_approval_of_exactly_its_commit(world: Any) -> None:
    """The reply is the line to paste, and pasting it starts the debate."""
    number = await world.from_fork()
    comment = await world.say("/codex-debate", number=number)
    assert world.reactions(comment) == ["confused"]
    head = world.head(number)
    line = f"/codex-debate approve {head}"
    assert world.replies(number) == [replies.from_outside(head)]
    assert f"\n{line}\n" in world.replies(number)[0]
    assert world.checks() == []

    approval = await world.say(line, number=number)
    run = await world.started(number)
    assert world.reactions(approval) == ["eyes"]
    assert len(world.replies(number)) == 1, "a reaction alone"
    assert (run.head_sha, run.fork, run.approved, run.commit) == (head, True, True, False)
    assert run.authority is not None
    assert run.authority.login == "mona"


@pytest.mark.threat("T7")
async def test_an_approval_covers_every_command_on_its_commit_and_dies_with_it(world: Any) -> None:
    number = await world.from_fork()
    head = world.head(number)
    await world.say(f"/codex-debate approve {head}", number=number)
    await world.store.runs.finish((await world.started(number)).id, 0, "stopped")
    await world.say("/codex-debate review --max-rounds 2", number=number)
    assert (await world.started(number)).ceilings.rounds == 2
    await world.store.runs.finish((await world.started(number)).id, 0, "stopped")

    await world.standin.commit("contributor/tidebook", "idea", {"a.txt": "four\n"})
    await world.say("/codex-debate review --max-rounds 3", number=number)
    assert world.replies(number)[-1].startswith("This pull request comes from outside")
    assert (await world.store.runs.holders(world.repo.id, number)).running is None


async def test_approving_what_is_not_the_head_starts_nothing(world: Any) -> None:
    number = await world.from_fork()
    head = world.head(number)
    for sha in ("0123456789", head[:9] + ("0" if head[9] != "0" else "1")):
        await world.say(f"/codex-debate approve {sha}", number=number)
        assert world.replies(number)[-1] == replies.not_the_head(sha, head)
    assert world.checks() == []


@pytest.mark.threat("T5")
async def test_an_outsider_cannot_approve_himself(world: Any) -> None:
    number = await world.from_fork()
    head = world.head(number)
    await world.say(f"/codex-debate approve {head}", login="contributor", number=number)
    assert world.replies(number) == [replies.no_permission()]
    assert await world.store.approvals.approver(world.repo.id, number, head_sha=head) is None


async def test_an_author_without_write_permission_is_an_outsider_in_the_repository_too(world: Any) -> None:
    world.standin.create_user("contributor")
    inside = await world.standin.open_pull_request(world.repo, "retry", "main", "Mine", "", author="contributor")
    await world.say("/codex-debate", number=inside)
    assert world.replies(inside)[0].startswith("This pull request comes from outside")
    issue = world.standin.create_issue(world.repo, "Please")
    await world.say(f"/codex-debate review {inside}", number=issue)
    assert f"write on pull request {inside}:" in world.replies(issue)[0]


async def test_an_approval_on_an_issue(world: Any) -> None:
    issue = world.standin.create_issue(world.repo, "Please")
    await world.say("/codex-debate approve 0123456789", number=issue)
    assert world.replies(issue) == [replies.approve_elsewhere()]


async def test_a_configuration_with_a_fault_is_told_and_starts_nothing(world: Any) -> None:
    await world.configure("auto:\n  on: [opened]\nseats: {}\n")
    await world.say("/codex-debate")
    assert world.replies() == [replies.bad_config("main", 3, "`seats` is not in this version")]
    assert world.checks() == []
    await world.configure("auto: {}\n")
    await world.say("/codex-debate review")
    assert (await world.started()).number == world.number


@pytest.mark.threat(54)
async def test_a_draft(world: Any) -> None:
    await world.standin.set_draft(world.repo, world.number, draft=True)
    await world.say("/codex-debate")
    assert world.replies() == [replies.draft(world.number, "main")]
    await world.configure("auto: {drafts: true}\n")
    await world.say("/codex-debate review")
    assert (await world.started()).number == world.number


async def test_a_repository_that_is_not_served(world: Any) -> None:
    world.use(allow=("somebody-else",))
    await world.say("/codex-debate")
    await world.say("/codex-debate review")
    assert world.replies() == [replies.not_served("octo-org/tidebook")]
    world.use(allow=("octo-*/tide*",))
    await world.say("/codex-debate")
    assert world.outcomes()["started"] == 1


# ---- What is said ---------------------------------------------------------------------------------------------------


async def test_each_help_is_given_to_readers_once_an_hour(world: Any) -> None:
    first = await world.say("/codex-debate help", login="hubot")
    again = await world.say("/codex-debate help", login="hubot")
    assert (world.reactions(first), world.reactions(again)) == (["rocket"], [])
    await world.say("/codex-debate help review", login="hubot")
    await world.say("/codex-debate status", login="hubot")
    general, review, status = world.replies()
    assert general.startswith("Two agents debate until they agree.")
    assert review.startswith("`/codex-debate review` reviews and fixes")
    assert status.startswith("`/codex-debate status` is not in this version")


@pytest.mark.threat("T33")
async def test_a_reader_gets_no_reply_for_each_thing_that_he_invents(world: Any) -> None:
    """What was not understood is answered once an hour, whatever it was."""
    for word in ("zz1q", "zz2q", "zz3q"):
        await world.say(f"/codex-debate help {word}", login="hubot")
        await world.say(f"/codex-debate status {word}", login="hubot")
    assert len(world.replies()) == 1


async def test_who_may_write_is_helped_as_often_as_asked_but_for_a_minute(world: Any, monkeypatch: Any) -> None:
    await world.say("/codex-debate help")
    await world.say("/codex-debate help")
    assert len(world.replies()) == 1, "the same words within a minute"
    monkeypatch.setattr(comments, "FLOOD_SECONDS", 1)
    await world.say("/codex-debate help approve")
    await asyncio.sleep(1.1)
    await world.say("/codex-debate help approve")
    assert len(world.replies()) == 3


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
    assert world.checks() == []


@pytest.mark.parametrize("text", ["> /codex-debate review", "```\n/codex-debate review\n```", "just words", "/codex"])
async def test_what_is_no_command_costs_nothing(world: Any, text: str) -> None:
    comment = await world.say(text)
    assert world.reactions(comment) == []
    assert world.replies() == []
    assert world.standin.journal == []


@pytest.mark.threat(54)
async def test_a_closed_pull_request(world: Any) -> None:
    await world.standin.close_pull_request(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.replies() == [replies.not_open(world.number, merged=False)]
    assert world.checks() == []


@pytest.mark.threat(54)
async def test_a_merged_pull_request(world: Any) -> None:
    await world.standin.merge_pull_request(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.replies() == [replies.not_open(world.number, merged=True)]


@pytest.mark.threat(54)
async def test_a_locked_pull_request(world: Any) -> None:
    await world.standin.lock(world.repo, world.number)
    await world.say("/codex-debate")
    assert world.outcomes() == {"refused": 1}
    assert world.checks() == []


@pytest.mark.threat(54)
async def test_a_review_on_an_issue_asks_for_the_number(world: Any) -> None:
    issue = world.standin.create_issue(world.repo, "A question")
    await world.say("/codex-debate review", number=issue)
    assert world.replies(issue) == [
        "A review needs a pull request; nothing was started. Name one: `/codex-debate review 412`."
    ]


@pytest.mark.threat(41)
async def test_a_comment_that_was_deleted_meanwhile_starts_nothing(world: Any) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    payload = world.standin.deliveries[-1].payload
    await world.standin.delete_comment(comment)
    await world.hear(payload, name="issue_comment")
    assert world.outcomes() == {"ignored": 1}
    assert world.checks() == []


async def test_a_comment_that_was_deleted_meanwhile_gets_no_reply(world: Any) -> None:
    comment = await world.standin.comment(world.repo, world.number, "/codex-debate reviw", login="mona")
    payload = world.standin.deliveries[-1].payload
    await world.standin.delete_comment(comment)
    await world.hear(payload, name="issue_comment")
    assert world.replies() == []


# ---- When GitHub or the store is away -------------------------------------------------------------------------------


@pytest.mark.threat("T5", 71)
@pytest.mark.parametrize("status", [403, 404])
async def test_a_permission_that_cannot_be_read_counts_as_none(world: Any, status: int) -> None:
    world.standin.fail_next("GET", "/repos/octo-org/tidebook/collaborators", status=status, times=100)
    await world.say("/codex-debate")
    assert world.checks() == []
    assert world.replies()[0].startswith("Debates are started by people who can write")


async def test_what_github_does_not_take_does_not_keep_the_run_back(world: Any) -> None:
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", status=403)
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/check-runs", status=403)
    await world.say("/codex-debate")
    assert world.outcomes() == {"started": 1}
    assert world.checks() == []
    assert await world.enqueued((await world.started()).id)


async def test_a_github_that_is_away_does_not_keep_the_run_back_and_is_told_later(world: Any) -> None:
    world.standin.fail_next("POST", "/repos/octo-org/tidebook/issues/comments", status=502)
    with pytest.raises(TryAgain):
        await world.say("/codex-debate")
    assert await world.enqueued((await world.started()).id)
    await world.hear(attempt=2)
    assert len(world.checks()) == 1
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
    assert world.checks() == []


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
    assert world.checks() == []
    assert (await world.store.runs.holders(world.repo.id, world.number)).running is None


async def test_a_store_that_is_away_is_the_queues_to_handle(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> bool:
        raise StoreAway("away")

    await world.standin.comment(world.repo, world.number, "/codex-debate", login="mona")
    monkeypatch.setattr(world.store.runs, "seen", away)
    with pytest.raises(StoreAway):
        await world.hear()
