"""What a command line means: the review's whole grammar, the other verbs, help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.commands import VERBS, Command, Help, Refusal, Review, available, help_text, is_branch_name, not_yet, parse
from bot.config import COMMENT_AGENTS


def read(text: str) -> Command | Refusal | None:
    return parse(text, max_rounds=6)


def review(line: str) -> Review:
    found = read(line)
    assert isinstance(found, Command), found
    assert found.verb == "review"
    assert isinstance(found.options, Review)
    return found.options


def refusal(line: str) -> str:
    found = read(line)
    assert isinstance(found, Refusal), found
    return found.reply


# ---- Review ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/codex-debate", Review()),
        ("/codex-debate review", Review()),
        ("  /codex-debate   review\t", Review()),
        ("/codex-debate 412", Review(number=412)),
        ("/codex-debate review #412", Review(number=412)),
        ("/codex-debate --base release/2.15", Review(base="release/2.15")),
        ("/codex-debate review 412 --base=main --max-rounds 3", Review(number=412, base="main", max_rounds=3)),
        ("/codex-debate review --max-rounds=6 412", Review(number=412, max_rounds=6)),
        ("/codex-debate review --no-commit --no-comment", Review(no_commit=True, no_comment=True)),
        ('/codex-debate review --rationale "as agreed"', Review(rationale="as agreed")),
        ("/codex-debate review --context=“see the plan”", Review(context="see the plan")),
        ("/codex-debate review --rationale word", Review(rationale="word")),
        ("/codex-debate review --reviewer lint --author=lint", Review(reviewer="lint", author="lint")),
        (
            '/codex-debate review --rationale "$(touch /tmp/x); `id` | nc"',
            Review(rationale="$(touch /tmp/x); `id` | nc"),
        ),
        ('/codex-debate review --rationale "--push"', Review(rationale="--push")),
        ('/codex-debate review --rationale "red \x1b[31m\u202etext"', Review(rationale="red \ufffdtext")),
    ],
)
def test_a_review_is_read(line: str, expected: Review) -> None:
    assert review(line) == expected


def test_a_command_keeps_its_line() -> None:
    found = read("Hello\n\n  /codex-debate  review 7 \n\nThanks")
    assert found == Command("review", Review(number=7), "/codex-debate  review 7")


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (
            "/codex-debate reviw",
            (
                "There is no `reviw`; nothing was started. Perhaps you meant `/codex-debate review`. All commands: "
                "`/codex-debate help`."
            ),
        ),
        (
            "/codex-debate review --round 3",
            "`review` has no flag `--round`; nothing was started. Perhaps you meant `--max-rounds 3`.",
        ),
        (
            "/codex-debate review --max-rounds three",
            (
                "`--max-rounds` takes a whole number from 1 to 6; nothing was started. For example "
                "`/codex-debate review --max-rounds 3`."
            ),
        ),
        (
            "/codex-debate review --base main --base dev",
            (
                "`--base` is given twice; nothing was started. Give it once, for example "
                "`/codex-debate review --base main`."
            ),
        ),
        (
            "/codex-debate review --reviewer scripted",
            (
                "`--reviewer` takes one of codex, claude, lint; nothing was started. For example "
                "`/codex-debate review --reviewer codex`."
            ),
        ),
        (
            "/codex-debate review --no-commit=yes",
            "`--no-commit` takes no value; nothing was started. Write `--no-commit` alone to switch it on.",
        ),
        (
            "/codex-debate stop\n\n/codex-debate push",
            (
                "Two commands in one comment; nothing was started. Write `/codex-debate stop` and "
                "`/codex-debate push` in a comment each."
            ),
        ),
        (
            "/codex-debate\n\n/codex-debate",
            "`/codex-debate` stands twice in one comment; nothing was started. Write it once.",
        ),
    ],
)
def test_what_is_wrong_is_said_as_the_examples_say_it(line: str, reply: str) -> None:
    assert refusal(line) == reply


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("/codex-debate review --wholly-other", "Its flags: `/codex-debate help review`."),
        ("/codex-debate review --max-round=3", "Perhaps you meant `--max-rounds 3`."),
        ("/codex-debate review --base", "`--base` takes the name of a branch"),
        ("/codex-debate review --base --no-commit", "`--base` takes the name of a branch"),
        ('/codex-debate review --base ""', "`--base` takes the name of a branch"),
        ('/codex-debate review --rationale ""', "`--rationale` takes a text in quotation marks"),
        ('/codex-debate review --rationale "no end', "A quoted text does not end"),
        ("/codex-debate review --rationale two words", "`review` does not take `words`"),
        ("/codex-debate review please", "`review` does not take `please`"),
        ("/codex-debate review 1 2", "`review` takes one pull request"),
        ("/codex-debate review 0", "`review` does not take `0`"),
        ("/codex-debate review 1.5", "`review` does not take `1.5`"),
        ("/codex-debate review 9999999999", "`review` does not take"),
        ("/codex-debate review \u0661", "`review` does not take"),  # a digit of another script
        ("/codex-debate review --push", "`--push` is not in this version"),
        ("/codex-debate review --", "`review` has no flag `--`"),
        ("/codex-debate review -x", "`review` does not take `-x`"),
        ("/codex-debate review --author bard", "takes one of codex, claude, lint"),
        ("/codex-debate review --author scripted:/tmp/x.json", "takes one of codex, claude, lint"),
        ("/codex-debate review --Base main", "Perhaps you meant `--base main`."),
        ("/codex-debate zzz", "There is no `zzz`; nothing was started. All commands"),
        ("/codex-debate Review", "Perhaps you meant `/codex-debate review`"),
        ("/codex-debate answers why", "Perhaps you meant `/codex-debate answer …`"),
        ("/codex-debate help reviw", "Perhaps you meant `/codex-debate help review`"),
        ("/codex-debate help review --base", "`help` takes the name of one command"),
        ("/codex-debate review --max-rounds", "takes a whole number from 1 to 6"),
    ],
)
def test_other_faults(line: str, part: str) -> None:
    assert part in refusal(line)


@pytest.mark.parametrize("value", ["0", "7", "-1", "+3", "03", "3.0", "1e1", "1_0", "٣", " 3", "three", "99999999999"])
def test_rounds_are_strict_numbers(value: str) -> None:
    assert "takes a whole number from 1 to 6" in refusal(f'/codex-debate review --max-rounds "{value}"')


@pytest.mark.parametrize("text", ["is the retry safe?", "please review this", "fix `it` @octocat #1"])
def test_prose_starts_nothing_and_asks_which_was_meant(text: str) -> None:
    reply = refusal(f"/codex-debate {text}")
    assert reply.startswith("Review the change, or answer the question? Nothing was started.")
    assert "```\n/codex-debate review\n```" in reply
    assert "@octocat" not in reply


@pytest.mark.parametrize("text", ["x" * 60_000, "--x " * 10_000, '--rationale "' + "y" * 9000 + '"'])
def test_endless_arguments_get_one_short_answer_that_does_not_repeat_them(text: str) -> None:
    reply = refusal(f"/codex-debate review {text}")
    assert len(reply) < 200
    assert "xxxx" not in reply


# ---- Branches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "--upload-pack=touch /tmp/x",
        "--output=/tmp/x",
        *(
            "-x",
            "a..b",
            "a...b",
            "@{-1}",
            "HEAD",
            "HEAD~1",
            ":/t",
            "^x",
            "x^{/r}",
            "refs/pull/1/head",
            "refs/heads/main",
        ),
        *(
            "x.lock",
            "x.lock/y",
            "x/",
            "/x",
            "//",
            "a//b",
            "a\x00b",
            "a\nb",
            "a b",
            "x" * 300,
            "main:refs/heads/x",
            "+main",
        ),
        *("", ".", "..", "a/.b", "a.", "a/b.", "@", "a\\b", "a*", "a?", "a[b", "ma\u0456n", "main\u200b", "%2e%2e"),
    ],
)
def test_what_git_might_take_for_something_else_is_no_base(name: str) -> None:
    assert not is_branch_name(name)
    if '"' not in name and "\n" not in name and "\\" not in name and "\x00" not in name:
        assert "`--base` takes the name of a branch" in refusal(f'/codex-debate review --base="{name}"')


@pytest.mark.parametrize(
    "name", ["main", "release/2.15", "a-b_c.d", "feature/@x", "0123abc", "v1.0", "a=b", "x#1", "c++"]
)
def test_names_of_branches(name: str) -> None:
    assert is_branch_name(name)
    assert review(f"/codex-debate review --base {name}").base == name


# ---- Other verbs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "/codex-debate answer why is it so?",
        "/codex-debate discuss topic",
        "/codex-debate board --rounds 3 topic",
        "/codex-debate status",
        "/codex-debate stop",
        "/codex-debate retry",
        "/codex-debate push",
        "/codex-debate approve 97636d1c27",
        "/codex-debate config",
        "/lens-debate",
        "/lens-debate 12 --no-apply",
        "/code-debate A",
        '/code-debate B "subject"',
    ],
)
def test_verbs_of_later_versions_are_known(line: str) -> None:
    found = read(line)
    assert isinstance(found, Command)
    assert found.options is None
    assert not available(found.verb)
    reply = not_yet(found.verb)
    assert "is not in this version" in reply
    assert "`/codex-debate review`" in reply


def test_help() -> None:
    assert read("/codex-debate help") == Command("help", Help(), "/codex-debate help")
    found = read("/codex-debate help /lens-debate")
    assert isinstance(found, Command)
    assert found.options == Help(verb="lens-debate")
    assert help_text(Help(), max_rounds=6) == (
        "Two agents debate until they agree. Write one command a comment, alone on its line.\n"
        "\n"
        "- `/codex-debate review` reviews and fixes this pull request\n"
        "- `/codex-debate help` lists the commands; `help review` lists the flags of one\n"
        "\n"
        "Not in this version: `answer`, `discuss`, `board`, `lens-debate`, `code-debate`, `status`, `stop`, `retry`, "
        "`push`, `approve`, `config`.\n"
        "\n"
        "The flags of a command: `/codex-debate help review`."
    )


def test_the_help_of_a_verb_is_made_from_its_options() -> None:
    text = help_text(Help(verb="review"), max_rounds=6)
    for name in Review.model_fields:
        assert ("<pr>" if name == "number" else "--" + name.replace("_", "-")) in text
    assert "(a whole number from 1 to 6)" in text
    assert "scripted" not in text
    assert all(agent in text for agent in COMMENT_AGENTS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help_and_its_row(verb: str) -> None:
    assert help_text(Help(verb=verb), max_rounds=6)
    found = read(VERBS[verb].usage.replace(" …", " x").replace("SHA", "97636d1"))
    assert isinstance(found, Command)
    assert found.verb == verb
    if available(verb):
        assert found.options is not None


# ---- Anything -------------------------------------------------------------------------------------------------------


def test_a_comment_without_a_command_is_none() -> None:
    assert read("I use /codex-debate review a lot") is None


@given(st.text(max_size=300))
def test_any_arguments_are_answered(text: str) -> None:
    found = read("/codex-debate " + text)
    if isinstance(found, Refusal):
        assert found.reply
        assert len(found.reply) < 700
        found.reply.encode()
    elif found is not None:
        assert found.verb in VERBS


@given(st.text(alphabet=st.sampled_from("abm -=\"'“”0123\\\t#/.@"), max_size=60))
def test_a_review_that_is_read_holds_only_what_may_be_there(text: str) -> None:
    found = read("/codex-debate review " + text)
    if isinstance(found, Command):
        assert isinstance(found.options, Review)
        assert found.options.base is None or is_branch_name(found.options.base)
