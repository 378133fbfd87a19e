"""The bot's own check runs: a title that tells the state, a summary that tells what to do next."""

from __future__ import annotations

from bot import check_runs

SHA = "db511f0cf3faf43060bd7350425e61c3742d0665"


def test_the_queued_check_run() -> None:
    assert check_runs.queued_title(2) == "Queued: 2 debates ahead"
    assert check_runs.queued_title(1) == "Queued: 1 debate ahead"
    assert check_runs.queued_title(0) == "Queued"
    summary = check_runs.queued_summary("https://github.com", "tidemark-coop/tidebook", SHA, behind=False, stop=True)
    assert summary == (
        f"A review of [db511f0cf3](https://github.com/tidemark-coop/tidebook/commit/{SHA}) waits for a free worker. "
        "Nothing to do. To take it back, write `/codex-debate stop`."
    )


def test_a_run_behind_another_says_so_and_offers_only_what_is_there() -> None:
    summary = check_runs.queued_summary("https://github.com", "tidemark-coop/tidebook", SHA, behind=True, stop=False)
    assert summary.endswith("waits for the debate that runs here to end. Nothing to do.")


def test_a_skipped_draft_names_the_one_step_that_is_left() -> None:
    title, summary = check_runs.skipped_draft(by_itself=True)
    assert title == "Skipped: draft (auto.drafts is off)"
    assert summary.endswith("Mark it as ready for review, and the debate starts.")
    assert check_runs.skipped_draft(by_itself=False) == (
        title,
        summary.replace(", and the debate starts.", ", then write `/codex-debate review`."),
    )


def test_a_skipped_base_is_named_and_quoted() -> None:
    title, summary = check_runs.skipped_base("release`2")
    assert title == "Skipped: its base (not named in auto.base)"
    assert summary.startswith("`auto.base` does not name `release2`;")
    assert summary.endswith("To start a debate, write `/codex-debate review`.")


def test_a_file_that_cannot_be_used_is_told_with_its_line() -> None:
    title, summary = check_runs.config_error("main", 3, "`rounds` is 1 to 10")
    assert title == "Not started: error in codex-debate.yml, line 3"
    assert "Line 3: `rounds` is 1 to 10. Correct it on `main`" in summary
    assert "`/codex-debate review`" in summary


def test_an_outsiders_pull_request_names_the_commit_to_approve() -> None:
    title, summary = check_runs.waiting_approval(SHA)
    assert title == "Waiting for a maintainer's approval"
    assert SHA in summary
