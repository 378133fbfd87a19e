"""The review debate from the comment to the result, with scripted agents: protocols.md 13 over the whole pipeline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from oracles.published import alive
from telling import Story, finding, section, verdict

from worker.git import admit

pytestmark = pytest.mark.asyncio(loop_scope="session")

BASE = {"app.py": "x = 1\n", "README.md": "# App\n"}
CHANGE = {"app.py": "x = 2\n"}
FIX = {"app.py": "x = 3\n"}


async def told(story: Story, *turns: Any, command: str = "/codex-debate review", **seats: list[Any]) -> Any:
    """Open the usual pull request and return the end of a debate with these turns."""
    story.plays(*turns, **seats)
    await story.opens(BASE, CHANGE)
    return await story.reviewed(command)


async def test_case_1_a_fix_that_is_verified(story: Story) -> None:
    fixed = finding(status="resolved")
    end = await told(story, verdict(finding()), section("F1 fixed", edits=FIX), verdict(fixed))
    assert end.state.status == "consensus"
    assert (end.check.status, end.check.conclusion) == ("completed", "action_required")
    assert end.check.title == "Consensus: 1 fix waits to be pushed"
    assert end.check.head_sha == story.head
    (commit,) = end.commits
    assert commit.subject == "fix: debate round 1 (F1)"
    assert commit.files == ("app.py",)
    assert commit.author == commit.committer
    assert commit.author.startswith(f"{story.machine.github.bot.login} <{story.machine.github.bot.id}+")
    for trailer in (f"Debate-Run: {end.run}", "Debate-Round: 1", "Debate-Finding: F1 fixed", "Authored-with: scripted"):
        assert trailer in commit.body.splitlines()
    assert await story.machine.github.read_file(story.repo, end.branch, "app.py") == b"x = 3\n"
    assert "✅ **Consensus**" in end.comment
    assert "after 2 rounds: 1 finding fixed" in end.comment
    assert commit.sha[:10] in end.comment
    assert "Round 1 in their words" in end.comment
    assert sorted(end.reactions) == ["eyes", "rocket"]
    (note,) = end.check.annotations
    assert (note["path"], note["start_line"], note["annotation_level"]) == ("app.py", 1, "warning")
    assert "not in this commit" in note["title"]
    assert await story.machine.github.read_ref(story.repo, "feature") == story.head


async def test_case_2_a_clean_change(story: Story) -> None:
    end = await told(story, verdict())
    assert end.state.status == "consensus"
    assert (end.check.conclusion, end.check.title) == ("success", "Consensus: nothing to fix")
    assert end.commits == []
    assert not story.briefs("author")
    assert "found nothing to fix" in end.comment
    assert set(await story.machine.github.branches(story.repo)) == {"main", "feature"}


async def test_case_3_a_nit_that_is_conceded(story: Story) -> None:
    nit = finding(severity="nit")
    end = await told(story, verdict(nit), section("F1 disputed"), verdict(nit | {"status": "resolved"}))
    assert end.state.status == "consensus"
    assert end.check.conclusion == "success"
    assert end.check.title == "Consensus: 1 finding, conceded"
    assert end.commits == []
    assert "conceded by scripted" in end.comment


async def test_case_5_not_approved_and_nothing_found(story: Story) -> None:
    nothing = verdict(approved=False)
    end = await told(story, reviewer=[[nothing, nothing]], author=[])
    assert end.state.status == "reviewer-error"
    assert end.check.conclusion == "failure"
    assert end.comments == []
    assert len(story.briefs("reviewer")) == 2, "one re-ask"
    assert "no finding in it is open" in story.briefs("reviewer")[1]


async def test_case_6_all_resolved_but_not_approved(story: Story) -> None:
    odd = verdict(finding(status="resolved"), approved=False)
    end = await told(story, verdict(finding()), section("F1 fixed", edits=FIX), odd)
    assert end.state.status == "reviewer-error"
    (commit,) = end.commits
    assert "⚠️ **Stopped** in round 2" in end.comment
    assert "fixed, unreviewed" in end.comment
    assert commit.sha[:10] in end.comment


async def test_case_7_a_reviewer_that_says_nothing(story: Story) -> None:
    end = await told(story, {"silent": True})
    assert end.state.status == "reviewer-error"
    assert len(story.briefs("reviewer")) == 3
    assert end.comments == []
    assert end.check.conclusion == "failure"
    assert "3 times" in end.check.title or "3 attempts" in (end.check.summary or "")


async def test_case_10_unrelated_histories(story: Story) -> None:
    story.plays(verdict())
    github = story.machine.github
    await story.opens(BASE, CHANGE)
    other = await github.create_repository(f"{story.repo.full_name}-other")
    await github.commit(other, "main", {"else.txt": "no relation\n"})
    await github.add_branches(story.repo, other.path, {"refs/heads/main": "orphan"})
    end = await story.reviewed("/codex-debate review --base orphan")
    assert end.state.status == "merge-base-error"
    assert (end.check.conclusion, end.check.title) == ("failure", "Not started: no common commit with orphan")
    assert end.comments == []
    assert not story.briefs("reviewer")


async def test_case_11_only_the_branchs_own_change_is_reviewed(story: Story) -> None:
    story.plays(verdict())
    await story.opens(BASE, CHANGE)
    await story.machine.github.commit(story.repo, "main", {"foreign.py": "y = 1\n"}, message="base moved on")
    end = await story.reviewed()
    assert end.state.status == "consensus"
    assert "read 1 of 1 file" in end.comment


async def test_case_13_an_author_that_leaves_a_finding_unanswered(story: Story) -> None:
    half = section("F1 fixed", edits=FIX)
    closed = verdict(finding(status="resolved"), finding(2, "resolved"))
    end = await told(story, verdict(finding(), finding(2)), half, closed)
    assert end.state.status == "section-incomplete"
    assert (end.check.conclusion, end.check.title) == (
        "action_required",
        "Consensus, but round 1 left F2 unanswered",
    )
    assert "⚠️ **Section incomplete**" in end.comment
    assert "did not answer every finding" in story.briefs("reviewer")[1]


async def test_case_14_an_author_that_says_nothing_usable(story: Story) -> None:
    empty = {"reply": "\n", "edits": FIX}
    end = await told(story, verdict(finding()), empty, verdict(finding(status="resolved")))
    assert end.state.status == "section-incomplete"
    assert len(end.commits) == 1


async def test_case_15_both_gaps(story: Story) -> None:
    refused = {"reply": "\n", "edits": {"trap": {"fifo": True}, **FIX}}
    turns = [verdict(finding()), verdict(finding(status="resolved"))]
    end = await told(story, reviewer=turns, author=[[refused, {"reply": "\n"}]])
    assert end.state.status == "commit-incomplete"
    assert end.check.conclusion == "action_required"
    assert end.check.title == "Consensus, but round 1 could not be committed"
    assert end.commits == []
    assert "⚠️ **Commit incomplete**" in end.comment


async def test_case_17_a_gap_in_round_1_keeps_the_session(story: Story) -> None:
    empty = {"reply": "\n", "edits": FIX}
    await told(story, verdict(finding()), empty, verdict(finding(status="resolved")))
    first, second = story.briefs("reviewer")
    assert first.startswith("You review a change")
    assert second.startswith("The author has answered")


async def test_case_18_a_step_of_the_release(story: Story) -> None:
    deferred = verdict(finding(status="deferred"), approved=True)
    end = await told(story, verdict(finding()), section("F1 disputed (gate)"), deferred)
    assert end.state.status == "consensus"
    assert end.check.conclusion == "success"
    assert "deferred" in end.comment
    assert "**Outside this pull request:** F1" in end.comment


async def test_case_19_a_deferral_that_nobody_claimed(story: Story) -> None:
    end = await told(
        story,
        verdict(finding()),
        section("F1 disputed"),
        verdict(finding(status="deferred"), approved=True),
        section("F1 fixed", edits=FIX),
        verdict(finding(status="resolved")),
    )
    assert end.state.status == "consensus"
    assert len(story.briefs("author")) == 2
    assert "fixed after a dispute" in end.comment


async def test_case_21_a_finding_that_comes_back(story: Story) -> None:
    end = await told(
        story,
        verdict(finding(), finding(2)),
        section("F1 fixed", "F2 disputed", edits=FIX),
        verdict(finding(status="resolved"), finding(2)),
        section("F2 fixed", edits={"app.py": "x = 4\n"}),
        verdict(finding(), finding(2, "resolved")),
        section("F1 fixed", edits={"app.py": "x = 5\n"}),
        verdict(finding(status="resolved")),
    )
    assert end.state.status == "consensus"
    assert [commit.subject for commit in end.commits] == [
        "fix: debate round 1 (F1)",
        "fix: debate round 2 (F2)",
        "fix: debate round 3 (F1)",
    ]
    assert "reopened" in end.comment
    assert "after 4 rounds" in end.comment


async def test_case_22_a_regression(story: Story) -> None:
    end = await told(
        story,
        verdict(finding()),
        section("F1 fixed", edits=FIX),
        verdict(finding(status="resolved"), finding(2)),
        section("F2 fixed", edits={"app.py": "x = 4\n"}),
        verdict(finding(2, "resolved")),
    )
    assert end.state.status == "consensus"
    assert "raised F2" in end.comment


async def test_case_23_two_findings_of_one_name(story: Story) -> None:
    twice = verdict(finding(), finding())
    end = await told(story, reviewer=[[twice, twice]], author=[])
    assert end.state.status == "reviewer-error"
    assert "F1 stands in it twice" in (end.check.summary or "") + end.check.title


async def test_case_26_without_commits(story: Story) -> None:
    end = await told(
        story,
        verdict(finding()),
        section("F1 fixed", edits={"app.py": "x = 3\n", "new.py": "y = 1\n"}),
        verdict(finding(status="resolved")),
        command="/codex-debate review --no-commit",
    )
    assert end.state.status == "consensus"
    assert end.commits == []
    assert set(await story.machine.github.branches(story.repo)) == {"main", "feature"}
    assert end.check.conclusion == "action_required"
    for line in ("diff --git a/app.py b/app.py", "-x = 2", "+x = 3", "+++ b/new.py", "+y = 1"):
        assert line in end.comment.splitlines()


async def test_no_comment(story: Story) -> None:
    end = await told(story, verdict(), command="/codex-debate review --no-comment")
    assert end.state.status == "consensus"
    assert end.comments == []


async def test_case_29_a_session_that_is_gone(story: Story) -> None:
    lost = verdict(finding()) | {"lose_session": True}
    end = await told(story, lost, section("F1 fixed", edits=FIX), verdict(finding(status="resolved")))
    assert end.state.status == "consensus"
    cold = story.briefs("reviewer")[1]
    for part in ("You review a change", "your session is gone", "said of it", '"disposition": "fixed"'):
        assert part in cold


async def test_cases_30_and_31_what_each_seat_is_told(story: Story) -> None:
    words = '--rationale "WHY IT IS SO" --context "WHAT IT IS FOR"'
    await told(
        story,
        verdict(finding()),
        section("F1 disputed"),
        verdict(finding()),
        section("F1 fixed", edits=FIX),
        verdict(finding(status="resolved")),
        command=f"/codex-debate review {words}",
    )
    reviewer, author = story.briefs("reviewer"), story.briefs("author")
    assert ["WHY IT IS SO" in brief for brief in reviewer] == [True, False, False]
    assert all("WHY IT IS SO" in brief and "WHAT IT IS FOR" in brief for brief in author)
    assert not any("WHAT IT IS FOR" in brief or "Its description." in brief for brief in reviewer)
    assert "The author has looked at it.\n\n- `F1` **disputed**: said of it" in reviewer[1]


async def test_case_34_nothing_to_review(story: Story) -> None:
    story.plays(verdict())
    await story.opens(BASE, {"app.py": "x = 1\n"})
    end = await story.reviewed()
    assert end.state.status == "nothing-to-review"
    assert (end.check.conclusion, end.check.title) == ("skipped", "Nothing to review: no change against main")
    assert not story.briefs("reviewer")
    assert "`feature` holds no change against `main`; nothing was started." in end.comment
    assert "/codex-debate review --base" in end.comment
    assert end.reactions == ["eyes", "confused"]


async def test_case_35_an_id_that_is_a_command(story: Story, tmp_path: Any) -> None:
    marker = tmp_path / "marker"
    bad = verdict(finding(id=f"F1; touch {marker}"))
    end = await told(story, reviewer=[[bad, bad]], author=[])
    assert end.state.status == "reviewer-error"
    assert not marker.exists()


async def test_case_37_a_sha_is_on_the_remote_before_a_comment_names_it(story: Story) -> None:
    end = await told(story, verdict(finding()), section("F1 fixed", edits=FIX), verdict(finding(status="resolved")))
    mine = [
        each
        for each in story.machine.github.journal
        if story.repo.full_name in each.path or str(story.repo.id) in each.path
    ]
    pushed = next(n for n, each in enumerate(mine) if each.updates)
    told_first = next(
        n for n, each in enumerate(mine) if end.commits[0].sha[:10] in json.dumps(each.body or "", default=str)
    )
    assert pushed < told_first


async def test_case_37_a_push_that_is_refused(story: Story) -> None:
    story.machine.github.protect_branch(story.repo, "codex-debate/**", "commits must be signed")
    end = await told(story, verdict(finding()), section("F1 fixed", edits=FIX), verdict(finding(status="resolved")))
    assert end.state.status == "commit-incomplete"
    assert end.commits == []
    assert "commits must be signed" in end.comment


@pytest.mark.threat("T24", 156)
async def test_push_rejected_by_github(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where our own list of protected paths has a hole, GitHub has none: the App has no `workflows` permission."""
    monkeypatch.setattr(admit, "is_protected", lambda *_: False)
    path = ".github/workflows/`@octocat fixes #1 <img src=x> ![](https:example).yml"
    end = await told(
        story,
        verdict(finding()),
        section("F1 fixed", edits={**FIX, path: "on: push\n"}),
        verdict(finding(status="resolved")),
    )
    assert end.state.status == "commit-incomplete"
    assert (end.check.status, end.check.conclusion) == ("completed", "action_required")
    assert end.check.title == "Consensus, but round 1 could not be committed"
    assert end.commits == []
    assert set(await story.machine.github.branches(story.repo)) == {"main", "feature"}
    assert "refusing to allow a GitHub App to create or update workflow" in end.comment
    ours = story.machine.github.server_url
    for text in (end.comment, end.check.summary, end.check.text):
        assert list(alive(text or "", lambda link: link.startswith(ours))) == []
    assert end.reactions == ["eyes", "rocket"]


@pytest.mark.threat("R26")
async def test_case_38_the_limit_of_rounds(story: Story) -> None:
    crux = {"reply": {"cruxes": [{"id": "F1", "crux": "THE CRUX", "fact": "THE FACT", "question": "THE QUESTION?"}]}}
    end = await told(
        story,
        reviewer=[verdict(finding()), verdict(finding()), crux],
        author=[section("F1 disputed")],
        command="/codex-debate review --max-rounds 2",
    )
    assert end.state.status == "unresolved"
    assert (end.check.conclusion, end.check.title) == ("action_required", "Not agreed: F1 needs a person")
    assert len(story.briefs("author")) == 1
    for part in ("**Unresolved**", "The issue of finding 1.", "said of it", "THE CRUX", "THE FACT", "THE QUESTION?"):
        assert part in end.comment
    assert "deadlock" not in end.comment.lower()


async def test_a_review_without_edits(story: Story) -> None:
    """decisions.md 8.8: no author turn runs at the limit, so one round is a review and nothing else."""
    crux: dict[str, Any] = {"reply": {"cruxes": []}}
    end = await told(
        story, reviewer=[verdict(finding()), crux], author=[], command="/codex-debate review --max-rounds 1"
    )
    assert end.state.status == "unresolved"
    assert not story.briefs("author")


async def test_case_39_prose_asks_and_starts_nothing(story: Story) -> None:
    story.plays(verdict())
    await story.opens(BASE, CHANGE)
    await story.says("/codex-debate is the retry safe?")
    reply = await story.replied()
    assert "Nothing was started" in reply
    assert "/codex-debate review" in reply
    assert not story.briefs("reviewer")


async def test_an_author_that_dies(story: Story) -> None:
    end = await told(story, verdict(finding()), {"exit": 3})
    assert end.state.status == "agent-error"
    assert end.check.conclusion == "failure"
    assert len(story.briefs("author")) == 3


async def test_the_author_starts_again_in_a_fresh_folder(story: Story) -> None:
    dies = {"edits": {"half.py": "no\n"}, "exit": 3}
    end = await told(
        story,
        reviewer=[verdict(finding()), verdict(finding(status="resolved"))],
        author=[[dies, section("F1 fixed", edits=FIX)]],
    )
    assert end.state.status == "consensus"
    assert end.commits[0].files == ("app.py",)


@pytest.mark.threat(126, 127)
@pytest.mark.parametrize(
    "broken",
    [
        {"prose": "I think it is fine."},
        {"half": True},
        {"endless": True},
        {"reply": "\ufeff{}"},
        {"reply": '{"approved": true, "approved": true}'},
    ],
    ids=["prose", "half a line", "endless", "BOM", "twice a key"],
)
async def test_a_reviewer_that_speaks_out_of_turn_is_no_opinion(story: Story, broken: dict[str, Any]) -> None:
    end = await told(story, broken)
    assert end.state.status == "reviewer-error"
    assert end.check.status == "completed"
    assert end.check.conclusion == "failure"
    assert end.comments == []


async def test_a_reviewer_that_recovers(story: Story) -> None:
    end = await told(story, reviewer=[[{"prose": "Hm."}, verdict()]], author=[])
    assert end.state.status == "consensus"


async def test_the_same_state_three_times(story: Story) -> None:
    crux: dict[str, Any] = {"reply": {"cruxes": []}}
    end = await told(
        story,
        reviewer=[verdict(finding())] * 3 + [crux],
        author=[section("F1 disputed")] * 3,
    )
    assert end.state.status == "unresolved"
    assert "after 3 rounds" in end.comment


async def test_money_ends_a_debate(story: Story) -> None:
    end = await told(story, verdict(finding()) | {"usd": 12.0})
    assert end.state.status == "unresolved"
    assert end.check.title == "Not agreed: $10.00 spent, F1 is open"


async def test_a_protected_path_is_put_back_and_the_rest_committed(story: Story) -> None:
    """decisions.md 2.8."""
    edits = {"app.py": "x = 3\n", ".github/workflows/ci.yml": "on: push\n"}
    end = await told(story, verdict(finding()), section("F1 fixed", edits=edits), verdict(finding(status="resolved")))
    assert end.state.status == "consensus"
    assert end.commits[0].files == ("app.py",)
    assert ".github/workflows/ci.yml" in end.comment
    assert "was put back" in story.briefs("reviewer")[1]


async def test_the_author_renames_and_deletes(story: Story) -> None:
    turn = section("F1 fixed", edits={"README.md": None}) | {"renames": {"app.py": "src/app.py"}}
    end = await told(story, verdict(finding()), turn, verdict(finding(status="resolved")))
    assert end.state.status == "consensus"
    assert set(end.commits[0].files) == {"README.md", "app.py", "src/app.py"}


@pytest.mark.threat("R28")
@pytest.mark.parametrize("sent_twice", [False, True])
async def test_a_push_whose_answer_is_lost_was_done(story: Story, sent_twice: bool) -> None:
    """What counts is what stands on the remote, also where git's transport has asked a second time and was refused."""
    github = story.machine.github
    github.git_keeps_connections = sent_twice
    github.fail_next("POST", f"/{story.repo.full_name}.git/git-receive-pack", drop=True, when="after")
    end = await told(story, verdict(finding()), section("F1 fixed", edits=FIX), verdict(finding(status="resolved")))
    github.clear_faults()
    github.git_keeps_connections = False
    assert end.state.status == "consensus"
    assert len(end.commits) == 1


@pytest.mark.threat(150)
async def test_half_a_character_harms_nobody(story: Story) -> None:
    odd = finding(issue="half a \ud800 character", title="\udfff title")
    answer = {"reply": "- `F1` **fixed**: \ud800 done", "edits": FIX}
    end = await told(story, verdict(odd), answer, verdict(odd | {"status": "resolved"}))
    assert end.state.status == "consensus"
    assert "half a \ufffd character" in end.comment


@pytest.mark.threat(135)
async def test_fixed_without_a_change_is_no_fix(story: Story) -> None:
    """interface.md 7: it is told as what it is."""
    end = await told(story, verdict(finding()), section("F1 fixed"), verdict(finding(status="resolved")))
    assert end.state.status == "consensus"
    assert "resolved without a change" in end.comment
    assert "1 finding fixed" not in end.comment + end.check.title
    assert end.check.title == "Consensus: 1 finding, conceded"


async def test_a_tree_without_end_is_a_gap(story: Story) -> None:
    deep = "/".join(["d"] * 900) + "/file.txt"
    turns = [verdict(finding()), verdict(finding(status="resolved"))]
    end = await told(story, reviewer=turns, author=[section("F1 fixed", edits={deep: "x\n", **FIX})])
    assert end.state.status == "commit-incomplete"
