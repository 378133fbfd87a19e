"""What an agent or a stranger may write to do harm, by the numbers of the security design; and reports full of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bot.redact import whole
from bot.statuses import Status
from tests.worker.outputs.conftest import CHECK_URL, FIRST, HEAD, SECOND, make_task, raised
from worker.debate.findings import Crux, Finding, Position, Record, Round, Section, Turn, Verdict, Word
from worker.debate.flow import Check, CommitPlan, Edited, Refusal, Used
from worker.debate.task import ChangedFile, Seat
from worker.outputs.commit_message import CommitFacts
from worker.outputs.report import Live, Patch, Report

CANARY = "CANARY"
"""Stands in every secret of the corpus."""
JWT = f"ghs_123456_eyJhbGciOiJSUzI1NiJ9.eyJpc3Mi{CANARY}.{CANARY}-c2ln_bmF0dXJl"
PLAIN = f"ghp_{CANARY}abcdefghijklmnopqrstuvwxyz0123"
SPELLED = (PLAIN.replace("h", "&#104;", 1), PLAIN.replace("_", "\\_"), JWT.replace("_", "&lowbar;"))
"""Secrets that are none where they are shown as they are, in code, and would be if they were read as Markdown."""

CORPUS: dict[int, list[str]] = {
    140: [
        *("@octocat", "@acme/owners", "mail@octocat.example", "&commat;octocat", "&#64;octocat", "@*octocat*"),
        *("\\@octocat", "`x`@octocat", "**@**octocat", "@\u200boctocat", "cc:@octocat,@hubot", "> @octocat"),
    ],
    141: [
        *(
            "Fixes #1",
            "closes o/r#2",
            "GH-1",
            "Resolves: gh-3",
            "fixes https://github.com/o/r/issues/4",
            "Closes &#35;5",
        ),
        *("o/r@0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "0a1b2c3d4e", "fix#6", "Fixes **#**7", "GH&#45;8", "\\#9"),
        *("0a1b2c3d45ftp://evil.example", "0a1b2c3d45*https://evil.example*", "0a1b2c3d4e`x`", "0a1b2c3d4e@octocat"),
    ],
    142: [
        *("</details><h1>x</h1>", "</details>\n\n# Approved", "</summary>", "<script>alert(1)</script>"),
        *(
            "<svg onload=alert(1)>",
            "<img src=x onerror=alert(1)>",
            "<img\nsrc=x>",
            "<b onclick=x>y</b>",
            "<details open>",
        ),
        *("<table><tr><td>", "</td></tr></table>", "<style>*{display:none}</style>", "<iframe src=x>", "<textarea>"),
        *("<![CDATA[ x ]]>", "<?php x ?>", "<!DOCTYPE html>", "<!-- x", "-->", "<a name=x>", "\\<h1>x", "&lt;h1&gt;x"),
        *("| a | b |\n|---|---|\n| 1 | 2 |", "a | b\n--|--\n1 | 2", "|", "a \\| b", "a &#124; b", "x |\n|-|\n| y |"),
        *("# a\n## b\n### c", "a\n===\n\nb\n---", "***", "- [ ] a\n- [x] b", "[ ] a", "[^1]\n\n[^1]: note"),
        *("> [!WARNING]\n> x", "&NewLine;&NewLine;# x", "a&#10;| b | c |", "a&#10;&#10;</details>", "&#13;&#13;---"),
        *("1. a\n   # b", "- > ## a", "\t<h1>x</h1>", "a\u2028# b", "a\x0b\x0b# b", "    # a\n\n</details>"),
    ],
    143: [
        "![consensus](https://img.shields.io/badge/debate-consensus-green)",
        "✅ **Consensus** on db511f0cf3 after 1 round: nothing to fix.",
        '<!-- debate:state {"status":"consensus"} -->',
        "## Debate: codex ⇄ claude\n\n✅ **Consensus** on db511f0cf3",
        "| F1 | nothing | fixed |\n|:--|:--|:--|",
    ],
    145: [
        *("![](https://evil.example/?k=1)", "![a][b]\n\n[b]: https://evil.example/x.png", "[x](javascript:alert(1))"),
        *(
            "<https://evil.example>",
            "https://evil.example/x",
            "www.evil.example",
            "[x](../../settings)",
            "[x](//e.example)",
        ),
        *("[x][y]\n\n[y]: https://evil.example", "mailto:a@evil.example", "<a@evil.example>", "xmpp:a@evil.example/x"),
        *(
            "ftp://evil.example",
            "<a href=https://evil.example>x</a>",
            "[`a.py:3`](https://evil.example)",
            "![x](y)a.py:3",
        ),
        *(
            "http&colon;//evil.example",
            "\\[x\\](javascript:alert(1))",
            "[x](<javascript:alert(1)>)",
            "[](https://e.example)",
        ),
        *(
            "https:*//evil.example*",
            "w&#119;w.evil.example",
            '[x](/settings "@octocat")',
            "[a.py:3][y]\n\n[y]: ../../x",
        ),
    ],
    146: [
        *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "\x9b2Jx"),
        *(
            "\x1bP+q\x1b\\x",
            "\x1bc",
            "\x1b[2J\x1b[Hx",
            "\x1b[5Ax",
            "\x1b]8;;http://evil.example\x07x",
            "\x1b",
            "\x1b]x",
        ),
        *("&#27;[31mx", "\x1b_x\x1b\\", "\x08\x08\x08x", "\x07", "a\rb", "\x1b]52;c;eA==\x07x", "\x1b[?1049hx"),
    ],
    147: [
        *("a\u202eb\u2066c", "a\u200bb\u200d\u2060\ufeffc", "a\U000e0041\U000e0042", "a&#x202e;b", "&ZeroWidthSpace;x"),
        *(
            "x&#xE0041;",
            "a\u00adb",
            "a&shy;b",
            "\u3164",
            "x\ufe0e\ufe0f\ufe0e",
            "a&#8203;&#8204;b",
            "`a\u202eb`",
            "&lrm;x",
        ),
        "[x\u202e](https://evil.example/\u202e)",
    ],
    148: [
        *(f"{mark * length}\nx\n{mark * length}\n\n# out" for mark in "`~" for length in (3, 4, 9, 256)),
        *(f"{mark * length}\n# out" for mark in "`~" for length in (3, 81, 256)),
        *(
            "`" * 81 + "x" + "`" * 81,
            "``` `` ` ```",
            "- ```\n# x",
            "> ```\nx\n> ```\n# y",
            "```\n```\n```",
            "`",
            "a``",
            "``",
        ),
    ],
    150: ["a\x00b", "a\ud800b", "\udfff", "&#0;x", "&#xD800;x", "\x00"],
    151: [
        *(
            JWT,
            PLAIN,
            f"`{JWT}`",
            f"```\n{JWT}\n```",
            f"[{JWT}](x)",
            f"[x]({JWT})",
            f"<b {JWT}>",
            f"**{JWT}**",
            f"_{JWT}_",
        ),
        *(*SPELLED, f"![{JWT}](x)", f"[x](y '{JWT}')", f"KEY_{PLAIN}"),
        *(f"gh\x1b[0ms_{JWT[4:]}", f"| {JWT} |\n|--|", f"    {JWT}", f"<!-- {JWT} -->", f"see {JWT}, or {PLAIN}."),
        *(
            f"github_pat_{CANARY}abcdefghijklmnopqrst",
            f"sk-ant-api03-{CANARY}abcdefgh",
            f"sk-proj-{CANARY}abcdefghijklmn",
        ),
        *(f"https://x-access-token:{CANARY}@github.com/o/r", f"Authorization: Bearer {CANARY}abcdefgh"),
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
    ],
    152: [
        *("```suggestion\nx\n```", "~~~suggestion\nx\n~~~", "``` suggestion x\nx\n```", "```SUGGESTION:-0+1\nx\n```"),
        *(
            "```mermaid\ngraph TD\n```",
            "```geojson\n{}\n```",
            "```math\nx\n```",
            "```sugg&#101;stion\nx\n```",
            "$$x$$",
            "$`x`$",
        ),
    ],
    153: [
        *(
            "[skip ci]",
            "[ci skip]",
            "[no ci]",
            "[skip actions]",
            "[actions skip]",
            "[SKIP CI]",
            "***NO_CI***",
            "[skip\n\nci]",
        ),
        *(
            "[skip *ci*]",
            "[skip-ci]",
            "[skip netlify]",
            "[skip&#32;ci]",
            "\n\nskip-checks: true",
            "request-checks: true",
        ),
        *(
            "Co-authored-by: A <a@e.example>",
            "Signed-off-by: A",
            "Debate-Finding: F9 fixed",
            "\n\nReviewed-with: b (c)",
        ),
        *(
            "# a comment",
            "\\# a comment",
            "---\n\nx",
            "on-behalf-of: @acme <a@e.example>",
            "```\n\nSigned-off-by: B\n```",
        ),
        "Debate-Run&colon; x",
    ],
    154: [
        *(
            "x](http://evil.example).py",
            "`a`.py",
            "@team.md",
            "a|b.py",
            "<img src=x>.py",
            "__init__.py",
            "#1.md",
            "-rf",
        ),
        *("a\\|b.py", "a b\\.py", "[x](y).py", "a.py:3", "*.py", "~~x~~", "a//b://c", "``.py", "a\\", " ", "$(x).py"),
    ],
    155: ["a\r\n2026-01-01T00:00:00Z [info] forged", "a\nb\x85c", '{"event": "x"}\n{"level": "info"}'],
}
"""The strings of each input; 144, 149 and 156 are no strings."""


def has_secret(text: str, made_of: str | None = None) -> bool:
    """Tell whether a secret of the corpus stands in a text, or a part of one.

    One of `SPELLED` may stand there as it is; where it is known what a text was made of, that one may be changed, too.
    """
    if any(secret in text for secret in (JWT, PLAIN)):
        return True
    if made_of is not None:
        return made_of not in SPELLED and CANARY in text
    for each in SPELLED:
        text = text.replace(each, "")
    return CANARY in text


# ---- Reports --------------------------------------------------------------------------------------------------------

Say = Callable[[], str]
"""Gives the words for the next place."""


def always(text: str) -> Say:
    return lambda: text


def finding(id_: str, say: Say, location: str = "", status: str = "open") -> Finding:
    """A finding as its codec makes it: half a pair of surrogates does not get through that door."""
    made = raised(id_, "major", location or whole(say()), *(whole(say()) for _ in range(3)))
    return made.model_copy(update={"status": status})


def rounds(say: Say) -> tuple[Round, ...]:
    """Two rounds in which all words are foreign."""

    def verdict(*findings: Finding) -> Verdict:
        return Verdict(approved=False, summary=whole(say()), findings=findings, response_to_rebuttal=whole(say()))

    def section(*words: Word) -> Section:
        positions = tuple(Position(f"F{number}", word, say()) for number, word in enumerate(words, 1))
        return Section(say(), say(), positions, missing=("F4",))

    def edited(number: int, commit: str) -> Edited:
        refused, checks = (Refusal(say(), say()),), (Check(say(), "failed", say()),)
        return Edited(("a.py", say()), f"{number}" * 40, commit, refused, checks=checks)

    def turn() -> Turn:
        return Turn(1, Used(whole(say()), 0.1, unpriced=True))

    one, two = finding("F1", say, "a.py:3"), finding("F4", say, "a.py:5-6")
    return (
        Round(
            1,
            verdict(one, finding("F2", say), finding("F3", say), two),
            turn(),
            section(Word.FIXED, Word.DISPUTED, Word.GATE),
            edited(1, FIRST),
            turn(),
        ),
        Round(
            2,
            verdict(
                finding("F1", say, "a.py:3", "resolved"), finding("F2", say), finding("F3", say, "", "deferred"), two
            ),
            turn(),
            section(Word.FIXED, Word.PARTIAL),
            edited(2, SECOND),
            turn(),
        ),
    )


def undecided(say: Say) -> Report:
    """A debate that a person has to decide."""
    files = (
        ChangedFile(status="M", path="a.py", size=1),
        ChangedFile(status="M", path=whole(say()), size=1, coverage="skipped", why=whole(say())),
        ChangedFile(status="A", path=f"{whole(say())}2", size=1, coverage="cut", why=whole(say())),
    )
    words = {name: whole(say()) for name in ("title", "body", "head_ref", "base_ref", "rationale", "context")}
    seats = {
        "reviewer": Seat(agent="codex", model=whole(say()), effort=whole(say())),
        "author": Seat(agent="claude", model=whole(say())),
    }
    cruxes = (Crux("F2", say(), say(), say()), Crux("F4", say(), say(), f"{say()} yes or no"))
    return Report(
        make_task(head=HEAD, files=files, seats=seats, **words),
        Record(rounds(say), cruxes),
        Status.UNRESOLVED,
        reason="rounds",
        tip=SECOND,
        pushed=True,
        check_url=CHECK_URL,
        comment_url="https://github.com/tidemark-coop/tidebook/pull/412#issuecomment-2",
        diff_lines=frozenset({("a.py", 3), ("a.py", 5), ("a.py", 6)}),
    )


def agreed(say: Say) -> Report:
    """A debate that ended in agreement, with what is a step outside the pull request."""
    found = undecided(say)
    first, second = found.record.rounds
    assert second.verdict is not None
    done = tuple(each.model_copy(update={"status": "resolved"}) for each in second.verdict.findings)
    last = Round(3, second.verdict.model_copy(update={"approved": True, "findings": done}), second.review)
    return replace(found, status=Status.CONSENSUS, reason="", record=Record((first, second, last)))


def patched(text: str) -> Report:
    """The same, with the fixes as a patch that holds a text."""
    patch = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+{text}\n"
    return replace(agreed(always("tame")), tip=None, pushed=False, patch=Patch(patch, 1, 2, ("F1", "F2")))


def failed(say: Say) -> Report:
    """A debate that a seat ended which gave no reply."""
    found = undecided(say)
    ends: dict[str, Any] = {"reason": say(), "hint": say(), "log": say(), "failed_seat": "reviewer", "attempts": 3}
    record = Record((found.record.rounds[0], Round(2)))
    return replace(found, status=Status.REVIEWER_ERROR, record=record, **ends)


def not_begun(say: Say, status: Status = Status.GIT_REFUSED) -> Report:
    """A debate that did not begin."""
    return Report(undecided(say).task, Record(), status, reason=say(), hint=say(), log=say())


def cases(say: Say) -> Iterator[Report]:
    """Every end of a debate, with foreign words wherever they can stand."""
    yield from (undecided(say), not_begun(say), failed(say), agreed(say))
    first, second = undecided(say).record.rounds
    gap = replace(second, edited=Edited((), "1" * 40, gap=say()))
    yield replace(agreed(say), status=Status.COMMIT_INCOMPLETE, record=Record((first, gap)))
    yield replace(agreed(say), status=Status.SECTION_INCOMPLETE)
    half = Record((first, Round(2, first.verdict, first.review)))
    yield replace(failed(say), status=Status.AGENT_ERROR, record=half, failed_seat="author")
    for status in (Status.SUPERSEDED, Status.STOPPED, Status.CLOSED, Status.AUTHORISATION_WITHDRAWN, Status.TIMED_OUT):
        yield replace(undecided(say), status=status, record=Record((first,)), reason=say())
    for status in (Status.NOTHING_TO_REVIEW, Status.MERGE_BASE_ERROR, Status.ISOLATION_UNAVAILABLE):
        yield not_begun(say, status)
    yield Report(undecided(say).task, Record(), Status.NOTHING_TO_REVIEW)
    live = Live(2, "author", "claude", "answering", 8, 1, "14:07", "14:06", 1.03)
    yield replace(undecided(say), status=None, live=live, record=half)


def renamed(report: Report, id_: str) -> Report:
    """The same report, in which the agents gave the first finding another name."""

    def other(each: Finding | Position | Crux) -> Any:
        if isinstance(each, Finding):
            return each.model_copy(update={"id": id_}) if each.id == "F1" else each
        return replace(each, id=id_) if each.id == "F1" else each

    found = []
    for each in report.record.rounds:
        verdict, section = each.verdict, each.section
        if verdict is not None:
            verdict = verdict.model_copy(update={"findings": tuple(map(other, verdict.findings))})
        if section is not None:
            section = replace(section, positions=tuple(map(other, section.positions)))
        found.append(replace(each, verdict=verdict, section=section))
    return replace(report, record=replace(report.record, rounds=tuple(found)))


def facts(say: Say) -> CommitFacts:
    """What a commit's message is made from."""
    plan = CommitPlan(
        "fix: debate round 1 ({ids})",
        tuple({"id": f"F{n}", "severity": "major", "location": say(), "issue": say()} for n in (1, 2, 3, 4)),
        reviewed_with=f"codex ({say()}, effort {say()})",
        authored_with=f"claude ({say()})",
    )
    words = (Word.FIXED, Word.DISPUTED, Word.GATE, Word.PARTIAL)
    positions = tuple(Position(f"F{number}", word, say()) for number, word in enumerate(words, 1))
    # Behind a long word a line begins anew.
    checks = (Check(say(), "passed"), Check(f"{'x' * 80} {say()}", "failed", say()))
    return CommitFacts("7h2kq9xw", 1, plan, Section(say(), say(), positions), checks)
