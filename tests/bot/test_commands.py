"""What a comment asks for: the table of verbs, help, and that no reply gives a person's words a life of their own."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot import grammar
from bot.commands import COMMENT_LIMIT, LINE_LIMIT, VERBS, Command, Refusal, available, help_text, not_yet, parse, usage
from bot.config import COMMENT_AGENTS
from bot.options import (
    PROMPT_LIMIT,
    Answer,
    Approve,
    Board,
    CodeDebate,
    Config,
    Discuss,
    Help,
    Lens,
    Options,
    Push,
    Retry,
    Review,
    Status,
    Stop,
    is_branch_name,
)

HERE = ["review", "approve", "help"]


def read(text: str) -> Command | Refusal | None:
    return parse(text, max_rounds=6)


def options(text: str) -> Options:
    found = read(text)
    assert isinstance(found, Command), found
    return found.options


def refusal(text: str) -> str:
    found = read(text)
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
        ("/codex-debate #412", Review(number=412)),
        ("/codex-debate review #412", Review(number=412)),
        ("/codex-debate --base release/2.15", Review(base="release/2.15")),
        ("/codex-debate review 412 --base=main --max-rounds 3", Review(number=412, base="main", max_rounds=3)),
        ("/codex-debate review --max-rounds=6 412", Review(number=412, max_rounds=6)),
        ("/codex-debate review --no-commit --no-comment", Review(no_commit=True, no_comment=True)),
        ('/codex-debate review --rationale "as agreed"', Review(rationale="as agreed")),
        ("/codex-debate review --context=“see the plan”", Review(context="see the plan")),
        ("/codex-debate review --rationale word", Review(rationale="word")),
        ("/codex-debate review --reviewer lint --author=lint", Review(reviewer="lint", author="lint")),
        ('/codex-debate review --rationale "--push"', Review(rationale="--push")),
        ('/codex-debate review --rationale "red \x1b[31m\u202etext"', Review(rationale="red \ufffdtext")),
        ("/codex-debate review\nwith words below it", Review()),
    ],
)
def test_a_review_is_read(line: str, expected: Review) -> None:
    assert options(line) == expected


def test_a_command_keeps_its_words() -> None:
    found = read("Hello\n\n  /codex-debate  review 7 \n\nThanks")
    assert found == Command("review", Review(number=7), "/codex-debate  review 7")
    found = read("Hello\n\n/codex-debate answer why?\nand\r\n\r\nhow?\n")
    assert found == Command("answer", Answer(prompt="why?\nand\n\nhow?"), "/codex-debate answer why?\nand\n\nhow?")


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
                "`/codex-debate review --reviewer lint`."
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
        (
            "/codex-debate approve 97636d",
            (
                "`approve` takes 7 to 40 hex digits, the beginning of the commit's name; nothing was started. For "
                "example `/codex-debate approve 97636d1c27`."
            ),
        ),
        (
            "/codex-debate answer",
            (
                "`answer` takes a question behind it; nothing was started. For example "
                "`/codex-debate answer is the retry safe?`."
            ),
        ),
        (
            "/codex-debate stop now",
            "`stop` does not take `now`; nothing was started. Write it without: `/codex-debate stop`.",
        ),
        (
            "/codex-debate answer " + "x" * (PROMPT_LIMIT + 1),
            (
                "The text behind `answer` is longer than 60,000 characters; nothing was started. Shorten it, or put "
                "it into a file of the repository and name the file."
            ),
        ),
    ],
    ids=lambda value: value[:40],
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
        ("/codex-debate review please fix", "`review` does not take `please`"),
        ("/codex-debate review 1 2", "`review` takes one pull request"),
        ("/codex-debate review 0", "`review` does not take `0`"),
        ("/codex-debate review 1.5", "`review` does not take `1.5`"),
        ("/codex-debate review 9999999999", "`review` does not take"),
        ("/codex-debate review \u0661", "`review` does not take"),  # a digit of another script
        ("/codex-debate review --push", "`--push` is not in this version"),
        ("/codex-debate review --push --base -x", "`--base` takes the name of a branch"),
        ("/codex-debate review --", "`review` has no flag `--`"),
        ("/codex-debate review -x", "`review` does not take `-x`"),
        ("/codex-debate review --author bard", "takes one of codex, claude, lint"),
        ("/codex-debate review --author scripted:/tmp/x.json", "takes one of codex, claude, lint"),
        ("/codex-debate review --Base main", "Perhaps you meant `--base main`."),
        ("/codex-debate zzz", "There is no `zzz`; nothing was started. All commands"),
        ("/codex-debate Review", "Perhaps you meant `/codex-debate review`"),
        ("/codex-debate answers why", "Perhaps you meant `/codex-debate answer …`"),
        ("/codex-debate aprove 97636d1", "Perhaps you meant `/codex-debate approve SHA`"),
        ("/codex-debate lens", "Perhaps you meant `/lens-debate`"),
        ("/codex-debate lens-debate", "Perhaps you meant `/lens-debate`"),
        ("/codex-debate code-debate A", "Perhaps you meant `/code-debate …`"),
        ("/codex-debate help reviw", "Perhaps you meant `/codex-debate help review`"),
        ("/codex-debate help lens", "Perhaps you meant `/codex-debate help lens-debate`"),
        ("/codex-debate help review --base", "`help` has no flag `--base`"),
        ("/codex-debate help review answer", "`help` takes one command"),
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
    assert "(`/codex-debate answer`) are not in this version" in reply
    assert "@octocat" not in reply


# ---- Every verb -----------------------------------------------------------------------------------------------------

PARSED: list[tuple[str, str, Options]] = [
    ("/codex-debate answer why is it so?", "answer", Answer(prompt="why is it so?")),
    ("/codex-debate answer “why?”", "answer", Answer(prompt="why?")),
    ("/codex-debate answer --a lint --b=codex\n\nwhy?", "answer", Answer(prompt="why?", a="lint", b="codex")),
    ("/codex-debate answer why --a lint", "answer", Answer(prompt="why --a lint")),
    ("/codex-debate discuss retries\n\n- here\n- there", "discuss", Discuss(prompt="retries\n\n- here\n- there")),
    (
        "/codex-debate board --rounds 3 --synth none topic",
        "board",
        Board(prompt="topic", rounds=3, synth="none"),
    ),
    ("/codex-debate board --continue 200, yes", "board", Board(prompt="200, yes", continue_=True)),
    ("/codex-debate status", "status", Status()),
    ("/codex-debate stop", "stop", Stop()),
    ("/codex-debate retry", "retry", Retry()),
    ("/codex-debate push", "push", Push()),
    ("/codex-debate config", "config", Config()),
    ("/codex-debate approve 97636D1C27", "approve", Approve(sha="97636d1c27")),
    ("/lens-debate", "lens-debate", Lens()),
    ("/lens-debate #12 --no-apply --with-police", "lens-debate", Lens(number=12, no_apply=True, with_police=True)),
    ("/lens-debate --a lint --b codex --max-rounds 2", "lens-debate", Lens(a="lint", b="codex", max_rounds=2)),
    ('/code-debate B "subject"', "code-debate", CodeDebate(prompt="subject", seat="B")),
    ("/code-debate A\none queue or two?", "code-debate", CodeDebate(prompt="one queue or two?", seat="A")),
    ("/code-debate A is not B", "code-debate", CodeDebate(prompt="A is not B")),
    ("/codex-debate help", "help", Help()),
    ("/codex-debate help /lens-debate", "help", Help(verb="lens-debate")),
    ("/lens-debate help", "help", Help(verb="lens-debate")),
    ("/code-debate help", "help", Help(verb="code-debate")),
    ('/code-debate "help"', "code-debate", CodeDebate(prompt="help")),
    ("/code-debate help us choose", "code-debate", CodeDebate(prompt="help us choose")),
]


@pytest.mark.parametrize(("text", "verb", "expected"), PARSED)
def test_every_verb_is_read(text: str, verb: str, expected: Options) -> None:
    assert read(text) == Command(verb, expected, text)


def test_no_verb_is_left_out() -> None:
    assert {verb for _, verb, _ in PARSED} | {"review"} == set(VERBS)
    assert {type(each) for _, _, each in PARSED} | {Review} == {row.options for row in VERBS.values()}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("/codex-debate answer --reviewer lint x", "`answer` has no flag `--reviewer`"),
        ("/codex-debate answer --a lint --a lint x", "`--a` is given twice"),
        ("/codex-debate discuss --a scripted x", "`--a` takes one of codex, claude, lint"),
        ("/codex-debate board --rounds 7 x", "`--rounds` takes a whole number from 1 to 6"),
        ("/codex-debate board --synth c x", "`--synth` takes one of a, b, none"),
        ("/codex-debate board --continue", "`board` takes a topic behind it"),
        ("/codex-debate board --continue=yes x", "`--continue` takes no value"),
        ("/code-debate A", "`code-debate` takes a subject behind it"),
        ("/lens-debate please", "`lens-debate` does not take `please`"),
        ("/lens-debate --push", "`lens-debate` has no flag `--push`"),
        ("/codex-debate push --force", "`push` has no flag `--force`"),
        ("/codex-debate config all", "`config` does not take `all`"),
        ("/codex-debate approve", "`approve` takes 7 to 40 hex digits"),
        ("/codex-debate approve 97636d1 97636d2", "`approve` takes one commit"),
    ],
)
def test_a_fault_is_named_whether_or_not_the_verb_is_in_this_version(text: str, part: str) -> None:
    assert part in refusal(text)
    assert "not in this version" not in refusal(text)


@pytest.mark.parametrize("verb", VERBS)
def test_what_this_version_carries_out(verb: str) -> None:
    assert available(verb) == (verb in HERE)
    start = usage(verb).removesuffix(" …").removesuffix(" SHA")
    assert not_yet(verb) == (
        f"`{start}` is not in this version; nothing was started. What is there: `/codex-debate review`, "
        "`/codex-debate approve SHA` and `/codex-debate help`."
    )


@pytest.mark.parametrize("text", ["/codex-debate help x", "/codex-debate help --x", "/codex-debate status x"])
def test_who_may_only_read_is_told_about_what_is_open_to_readers(text: str) -> None:
    found = read(text)
    assert isinstance(found, Refusal)
    assert found.open


def test_other_refusals_are_for_those_who_may_write() -> None:
    for text in ("/codex-debate stop x", "/codex-debate reviw", "/codex-debate approve x", "/codex-debate why not"):
        found = read(text)
        assert isinstance(found, Refusal)
        assert not found.open


@pytest.mark.parametrize(
    "below", ["\n\n/codex-debate review", "\n/codex-debate stop", "\n\nwords\n\n/lens-debate\nwords"]
)
def test_a_second_command_in_a_prompt_starts_nothing(below: str) -> None:
    assert refusal(f"/codex-debate answer why?{below}").startswith("Two commands in one comment; nothing was started.")


def test_a_prompt_may_hold_what_is_no_command() -> None:
    text = (
        "/codex-debate answer why?\n\n> /codex-debate stop\n\n```\n/codex-debate stop\n```\n<!-- x -->\n\n/codex-debate"
    )
    assert options(text) == Answer(prompt=text.removeprefix("/codex-debate answer "))


# ---- Help -----------------------------------------------------------------------------------------------------------


def test_help() -> None:
    assert help_text(Help(), max_rounds=6) == (
        "Two agents debate until they agree. Write one command a comment, alone on its line.\n"
        "\n"
        "- `/codex-debate review` reviews and fixes this pull request\n"
        "- `/codex-debate approve SHA` allows an outsider's commit\n"
        "- `/codex-debate help` lists the commands; `help review` lists the flags of one\n"
        "\n"
        "Not in this version: `answer`, `discuss`, `board`, `/lens-debate`, `/code-debate`, `status`, `stop`, "
        "`retry`, `push`, `config`.\n"
        "\n"
        "The flags of a command: `/codex-debate help review`."
    )


AGENT = "(one of codex, claude, lint)"
PROMPT = (
    "behind the flags or below the command; at most 60,000 characters and 4,000 lines, quotation marks are optional"
)
PEERS = f"- `--a AGENT`: who sits as A {AGENT}\n- `--b AGENT`: who sits as B {AGENT}\n"
LATER = "It is not in this version."
HELP = {
    "review": (
        "`/codex-debate review` reviews and fixes this pull request.\n\n"
        "- `<pr>`: the number of the pull request, where the command stands somewhere else\n"
        "- `--base B`: compare with branch B instead of the own base (the name of a branch of this repository)\n"
        "- `--max-rounds N`: end after N rounds; 1 is a review without edits (a whole number from 1 to 6)\n"
        "- `--no-commit`: offer the fixes as a patch, make no commits\n"
        "- `--no-comment`: report in the check run alone\n"
        '- `--rationale "…"`: why the change is as it is (a text in quotation marks)\n'
        '- `--context "…"`: what the change is for; only the author reads it (a text in quotation marks)\n'
        "- `--push`: not in this version\n"
        f"- `--reviewer AGENT`: who reviews {AGENT}\n"
        f"- `--author AGENT`: who answers and fixes {AGENT}"
    ),
    "answer": (f"`/codex-debate answer …` answers a question. {LATER}\n\n{PEERS}- `<prompt>`: the question, {PROMPT}"),
    "discuss": (
        f"`/codex-debate discuss …` weighs a topic with evidence. {LATER}\n\n{PEERS}- `<topic>`: the topic, {PROMPT}"
    ),
    "board": (
        f"`/codex-debate board …` decides, or asks you. {LATER}\n\n"
        "- `--rounds N`: end after N rounds, or N more of them (a whole number from 1 to 6)\n"
        "- `--synth SEAT`: who writes the decision down; none: nobody (one of a, b, none)\n"
        "- `--continue`: go on with the last board here; the text is your word to both\n"
        f"{PEERS}- `<topic>`: what is to be decided, {PROMPT}"
    ),
    "lens-debate": (
        f"`/lens-debate` reviews the structure. {LATER}\n\n"
        "- `<pr>`: the number of the pull request, where the command stands somewhere else\n"
        "- `--base B`: compare with branch B instead of the own base (the name of a branch of this repository)\n"
        "- `--max-rounds N`: end each thread after N rounds (a whole number from 1 to 6)\n"
        "- `--no-commit`: offer the fixes as a patch, make no commits\n"
        "- `--no-apply`: list the agreed fixes, change nothing\n"
        "- `--no-comment`: report in the check run alone\n"
        "- `--with-police`: let a third reviewer raise findings, without a vote\n"
        '- `--rationale "…"`: why the change is as it is (a text in quotation marks)\n'
        f"- `--a AGENT`: who sits as lowy {AGENT}\n"
        f"- `--b AGENT`: who sits as hickey {AGENT}"
    ),
    "code-debate": (
        f"`/code-debate …` argues one subject in a document. {LATER}\n\n{PEERS}"
        "- `A|B`: fill this seat alone, the other stays open; before a quoted subject or alone on its line\n"
        f"- `<subject>`: the subject, {PROMPT}"
    ),
    "status": f"`/codex-debate status` says how the debate here stands. {LATER} It has no flags.",
    "stop": f"`/codex-debate stop` ends the debate here. {LATER} It has no flags.",
    "retry": f"`/codex-debate retry` starts the last debate here again. {LATER} It has no flags.",
    "push": f"`/codex-debate push` puts the agreed commits on the branch. {LATER} It has no flags.",
    "approve": (
        "`/codex-debate approve SHA` allows an outsider's commit.\n\n"
        "- `SHA`: the commit that you have read: 7 to 40 hex digits, the beginning of its name"
    ),
    "config": f"`/codex-debate config` shows the settings and where each comes from. {LATER} It has no flags.",
    "help": (
        "`/codex-debate help` lists the commands; `help review` lists the flags of one.\n\n"
        "- `<command>`: the command to explain"
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb(verb: str) -> None:
    text = help_text(Help(verb=verb), max_rounds=6)
    assert text == HELP[verb]
    for name in VERBS[verb].options.model_fields:
        shown = {"number": "<pr>", "sha": "SHA", "verb": "<command>", "seat": "A|B", "prompt": "- `<"}
        assert shown.get(name, "--" + name.rstrip("_").replace("_", "-")) in text
    assert "scripted" not in text
    assert ("AGENT" in text) == all(agent in text for agent in COMMENT_AGENTS)


@pytest.mark.parametrize("verb", VERBS)
def test_what_the_help_tells_to_write_can_be_read(verb: str) -> None:
    found = read(usage(verb).replace(" …", " x").replace("SHA", "97636d1"))
    assert isinstance(found, Command)
    assert found.verb == verb


# ---- threats.md, inputs 36 to 56 ------------------------------------------------------------------------------------
# 40 to 43, 52 and 54 are decided where the event and its pull request are known: test_comments.py and others.

REVIEW = "/codex-debate review"


def ignored(text: str) -> bool:
    return read(text) is None


def refused(text: str) -> bool:
    return isinstance(read(text), Refusal)


def started(text: str) -> bool:
    return isinstance(read(text), Command)


INPUTS: list[tuple[int, Callable[[str], bool], str]] = [
    *((36, ignored, text) for text in (f"> {REVIEW}", f"> > {REVIEW}", f"Mona wrote:\n> {REVIEW}", f"> a\n{REVIEW}")),
    *((37, ignored, text) for text in (f"```\n{REVIEW}\n```", f"~~~\n{REVIEW}", f"    {REVIEW}", f"`{REVIEW}`")),
    *((38, ignored, text) for text in (f"<!-- {REVIEW} -->", f"<!--\n\n{REVIEW}\n\n-->", f"<b>{REVIEW}</b>")),
    *((38, ignored, text) for text in (f"<details>\n\n{REVIEW}\n\n</details>", f"<div>\n{REVIEW}\n</div>")),
    *((39, ignored, text) for text in (f"please {REVIEW}", f"# {REVIEW}", f"{REVIEW}\n===", f"- {REVIEW}")),
    *((39, ignored, text) for text in (f"[{REVIEW}](x)", f"| {REVIEW} |\n| - |", f"{REVIEW} | a\n-|-")),
    *((44, ignored, text) for text in ("\uff0fcodex-debate review", "/codex-d\u0435bate review", f"\u202e{REVIEW}")),
    *((44, ignored, text) for text in ("/codex-de\u200bbate review", f"\u200b{REVIEW}", f"\u2067{REVIEW}\u2069")),
    *((45, ignored, text) for text in ("/CODEX-DEBATE review", "/Codex-Debate", f"\ufeff{REVIEW}")),
    *((45, started, text) for text in (f"{REVIEW}  \t", f"  {REVIEW}", f"{REVIEW}\r\n", f"a\r\n\r\n{REVIEW}\r\nb")),
    *((46, refused, text) for text in (f"{REVIEW}\n\n{REVIEW}", f"{REVIEW}\n\n/lens-debate", f"{REVIEW}\n{REVIEW}")),
    *((46, refused, text) for text in (f"/codex-debate answer x\n\ny\n\n{REVIEW}", f"{REVIEW}\r\r/codex-debate help")),
    *((47, refused, f"{REVIEW} {text}") for text in ("x" * 60_000, "--x " * 10_000, "--base=" + "y" * 60_000)),
    *((47, refused, f"{REVIEW} {text}") for text in ('"' * 60_000, '--rationale "' + "y" * 9000 + '"', "“" * 60_000)),
    (47, refused, "/codex-debate answer " + "--x " * 10_000),
    (47, ignored, ">" * 60_000 + REVIEW),
    (48, started, f'{REVIEW} --rationale "$(touch /tmp/x); `id` | nc"'),
    (49, refused, f"{REVIEW} --base=--upload-pack=touch /tmp/x"),
    (49, refused, f'{REVIEW} --base="--upload-pack=touch /tmp/x"'),
    (50, refused, f"{REVIEW} --base=--output=/tmp/x"),
    *((51, refused, f"{REVIEW} --base={name}") for name in ("-x", "a..b", "a...b", "@{-1}", "HEAD~1", ":/t", "^x")),
    *((51, refused, f"{REVIEW} --base={name}") for name in ("x^{/r}", "refs/pull/1/head", "x.lock", "x/", "//")),
    *((51, refused, f"{REVIEW} --base={name}") for name in ("a\x00b", "x" * 300, "main:refs/heads/x", "+main")),
    *((51, refused, f"/lens-debate --base={name}") for name in ("-x", "a..b", "@{-1}", "refs/pull/1/head", "+main")),
    (53, started, f"{REVIEW} --base=v1.0"),
    *((53, refused, f"{REVIEW} --base={name}") for name in ("refs/tags/v1.0", "refs/heads/v1.0")),
    (55, started, "/codex-debate answer " + "x" * PROMPT_LIMIT),
    (55, started, "/codex-debate answer\n\n" + "some words\n" * 3990),
    (55, refused, "/codex-debate answer\n\n" + "x\n" * (PROMPT_LIMIT // 2)),
    (55, refused, "/codex-debate answer " + "x" * (PROMPT_LIMIT + 1)),
    (55, refused, "/codex-debate answer " + "x" * 65_536),
    (55, refused, "/codex-debate answer\n\n" + "🙂\n" * (65_536 // 2)),
    *((56, refused, f'{REVIEW} --rationale "a{end}b"') for end in ("\n", "\r\n", "\r")),
    *((56, started, f'{REVIEW} --rationale "a{end}b"') for end in ("\x1b[31m", "\x0b", "\u2028", "\x85", "\x00")),
]


def name_of(value: object) -> str:
    return getattr(value, "__name__", "") or ascii(value)[:40]


@pytest.mark.threat("T4", 36, 37, 38, 39, 44, 45, 46, 47, 48, 49, 50, 51, 53, 55, 56)
@pytest.mark.parametrize(("number", "outcome", "text"), INPUTS, ids=name_of)
def test_command_corpus(number: int, outcome: Callable[[str], bool], text: str) -> None:
    assert outcome(text), number


@pytest.mark.threat(51)
def test_input_51_a_line_that_ends_within_a_name() -> None:
    """What is left is the name of a branch, and is looked up as one; a name that holds the end is never made."""
    assert options(f"{REVIEW} --base=a\nb") == Review(base="a")
    assert refused(f'{REVIEW} --base="a\nb"')


def test_every_input_that_the_parser_decides_has_its_row() -> None:
    decided = {*range(36, 40), *range(44, 52), 53, 55, 56}
    assert {number for number, _, _ in INPUTS} == decided


@pytest.mark.threat(47)
def test_input_47_gets_one_short_answer_that_does_not_repeat_it() -> None:
    for number, _, text in INPUTS:
        if number == 47 and not ignored(text):
            reply = refusal(text)
            assert len(reply) < 250
            assert not re.search(r"x{9}|y{9}|\"{9}|“{9}|(--x ){2}", reply)


@pytest.mark.threat(47)
def test_input_47_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[int] = []

    def counted(text: str, place: int) -> tuple[grammar.Token, int] | None:
        words.append(place)
        return read_word(text, place)

    read_word = grammar.word
    monkeypatch.setattr(grammar, "word", counted)
    for number, _, text in INPUTS:
        if number == 47:
            words.clear()
            read(text)
            assert len(words) <= 2
    read(f"{REVIEW} {'--no-commit ' * 100}")
    assert len(words) == 2, "the first flag that is repeated ends it"


@pytest.mark.threat(48)
def test_input_48_is_kept_as_text() -> None:
    text = options(f'{REVIEW} --rationale "$(touch /tmp/x); `id` | nc"')
    assert text == Review(rationale="$(touch /tmp/x); `id` | nc")


@pytest.mark.threat(56)
def test_input_56_leaves_nothing_that_breaks_a_line() -> None:
    for number, outcome, text in INPUTS:
        if number == 56 and outcome is started:
            found = options(text)
            assert isinstance(found, Review)
            assert re.fullmatch("a[ \ufffd]?b", found.rationale)


def test_a_comment_above_the_limit_is_not_searched_to_its_end() -> None:
    assert refusal(f"{REVIEW}\n\n" + "x" * COMMENT_LIMIT).startswith("The comment is longer than 65,536 characters;")
    assert ignored("x" * COMMENT_LIMIT + f"\n\n{REVIEW}")
    assert started(f"{REVIEW}\n\n" + "x" * (COMMENT_LIMIT - len(REVIEW) - 2))


def test_a_command_line_above_the_limit() -> None:
    line = f'{REVIEW} --rationale "{"x" * (LINE_LIMIT - len(REVIEW) - 15)}"'
    assert len(line) == LINE_LIMIT
    assert started(line)
    assert started(line + " ")
    assert refusal(line.replace("xx", "xxx", 1)).startswith("The command is longer than 8,000 characters;")


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
