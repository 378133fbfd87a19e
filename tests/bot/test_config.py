"""Agents' names, and the repository's file: what it says, what it leaves open, and the sentence for each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import AGENT_NAMES, COMMENT_AGENTS, LATER, Auto, BadConfig, Config, parse
from bot.rules import ACTIONS


def test_a_comment_may_not_name_the_scripted_agent() -> None:
    assert AGENT_NAMES == ("codex", "claude", "lint", "scripted")
    assert COMMENT_AGENTS == ("codex", "claude", "lint")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "auto: {}\n"])
def test_nothing_starts_by_itself_unless_the_file_says_so(text: str) -> None:
    assert parse(text.encode()) == Config() == Config(auto=Auto(on=(), drafts=False, base=("*",)))


def test_what_a_file_says() -> None:
    raw = b'auto: {on: [opened, ready_for_review, reopened], drafts: true, base: [main, "release/*"]}\n'
    assert parse(raw) == Config(
        auto=Auto(on=("opened", "ready_for_review", "reopened"), drafts=True, base=("main", "release/*"))
    )


@pytest.mark.threat("T24")
def test_a_file_may_protect_paths() -> None:
    assert parse(b"protect: ['migrations/**', 'CHANGES.md']\n") == Config(protect=("migrations/**", "CHANGES.md"))
    for wrong in (
        b"protect: migrations\n",
        b"protect: ['']\n",
        b"protect: [1]\n",
        b"protect: ['!a']\n",
        b"protect: ['./a']\n",
        b"protect: ['~/a']\n",
        b"protect: ['a ']\n",
        b"protect: ['*.{a,b}']\n",
        b"protect: ['a/../b']\n",
        b"protect: ['a//b']\n",
        b"protect: ['/']\n",
        b"protect: ['a\\\\b']\n",
        b"protect: [" + b"a," * 101 + b"]\n",
    ):
        assert parse(wrong) == BadConfig(
            1, "`protect` takes a list of at most 100 paths from the root, `*` for any characters"
        )


def test_the_readme_shows_a_file_that_is_read_and_names_the_defaults() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    shown = parse(readme.partition("```yaml\n")[2].partition("```")[0].encode())
    assert isinstance(shown, Config)
    assert set(shown.auto.on) == ACTIONS
    assert shown.auto.model_copy(update={"on": ()}) == Auto()


@pytest.mark.parametrize(
    ("globs", "branch", "covered"),
    [
        (("*",), "any/thing", True),
        (("main",), "main", True),
        (("main",), "Main", False),
        (("main",), "mainline", False),
        (("release/*",), "release/2.1", True),
        (("release/*",), "release", False),
        (("a", "b"), "b", True),
        ((), "main", False),
    ],
)
def test_the_bases(globs: tuple[str, ...], branch: str, covered: bool) -> None:
    assert Auto(base=globs).covers(branch) is covered


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("auto:\n  on: opened\n", 2, "`auto.on` takes a list of `opened`, `reopened`, `ready_for_review`"),
        ("auto:\n  on:\n  - closed\n", 3, "`auto.on` takes a list of `opened`, `reopened`, `ready_for_review`"),
        ("auto:\n  on: [1]\n", 2, "`auto.on` takes a list of `opened`, `reopened`, `ready_for_review`"),
        ("auto:\n  on: {opened: true}\n", 2, "`auto.on` takes a list of `opened`, `reopened`, `ready_for_review`"),
        ("auto:\n  drafts: no\n", 2, "`auto.drafts` takes `true` or `false`"),
        ("auto:\n  drafts: 1\n", 2, "`auto.drafts` takes `true` or `false`"),
        ("auto:\n  base: main\n", 2, "`auto.base` takes a list of branches, `*` for any characters"),
        ("auto:\n  base: [main, 5]\n", 2, "`auto.base` takes a list of branches, `*` for any characters"),
        ('auto:\n  base: [""]\n', 2, "`auto.base` takes a list of branches, `*` for any characters"),
        ("auto: yes\n", 1, "`auto` takes a section with the keys `on`, `drafts` and `base`"),
        ("auto:\n", 1, "`auto` takes a section with the keys `on`, `drafts` and `base`"),
        ("\nautos: {}\n", 2, "there is no key `autos`; perhaps you meant `auto`"),
        ("auto:\n  draft: true\n", 2, "there is no key `auto.draft`; perhaps you meant `auto.drafts`"),
        ("drafts: true\n", 1, "there is no key `drafts`; perhaps you meant `auto.drafts`"),
        ("quux: 1\n", 1, "there is no key `quux`"),
        ("- auto\n", 1, "the file holds no keys, such as `auto:`"),
        ("auto\n", 1, "the file holds no keys, such as `auto:`"),
        ("auto: {\n", 2, "this is not YAML (expected the node content, but found stream end)"),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_nearest_right_key(text: str, line: int, fault: str) -> None:
    found = parse(text.encode())
    assert isinstance(found, BadConfig)
    assert found.line == line
    if "not YAML" in fault:
        assert found.fault.startswith("this is not YAML")
    else:
        assert found.fault == fault


def test_of_several_faults_the_first_is_told() -> None:
    found = parse(b"auto:\n  drafts: 3\n  on: 5\nother: 1\n")
    assert isinstance(found, BadConfig)
    assert found.line == 2


@pytest.mark.parametrize("name", sorted(LATER))
def test_what_this_version_does_not_read_is_refused_rather_than_passed_over(name: str) -> None:
    top, _, below = name.partition(".")
    found = parse(f"{top}: {{{below}: 1}}\n".encode() if below else f"{top}: 1\n".encode())
    assert found == BadConfig(1, f"`{name}` is not in this version")


def test_a_key_that_a_person_wrote_comes_back_as_code_only() -> None:
    found = parse(b'"`@octocat` <b>#1": 1\n')
    assert isinstance(found, BadConfig)
    assert found.fault == "there is no key `@\u200boctocat <b>#\u200b1`"
