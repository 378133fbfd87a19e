"""Paths: how they are shown, and which are special."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.git.paths import has_controls, is_generated, is_git, is_protected, is_unwritten, join, shown


@pytest.mark.threat(93)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        (b"src/a b.py", "src/a b.py"),
        ("über/日本.md".encode(), "über/日本.md"),
        (b"a\nb\t\x1b[31m", "a\\x0ab\\x09\\x1b[31m"),
        ("evil\u202egpj.exe".encode(), "evil\\u202egpj.exe"),
        (b"latin-\xe9.txt", "latin-\\xe9.txt"),
        (b"-rf", "-rf"),
    ],
)
def test_a_path_is_shown_without_anything_invisible(path: bytes, text: str) -> None:
    assert shown(path) == text


@given(st.binary())
def test_whatever_a_path_is_it_can_be_shown(path: bytes) -> None:
    assert shown(path).isprintable()


@pytest.mark.parametrize("path", [b"a\x00", b"a\nb", b"\x7f", "\u0085".encode(), b"dir\x1b/x"])
def test_control_characters_are_found(path: bytes) -> None:
    assert has_controls(path)


@pytest.mark.parametrize("path", [b"a b", b"\xff\xfe", "é\u202e".encode(), b"-x"])
def test_other_odd_characters_are_none(path: bytes) -> None:
    assert not has_controls(path)


@pytest.mark.threat("T11", 76)
@pytest.mark.parametrize(
    "name",
    [
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b"GIT~1",
        b".git.",
        b".git ",
        b".git. .",
        b".git::$INDEX_ALLOCATION",
        b".git:x",
        b".git\\x",
        b"x\\.GIT\\y",
        ".g\u200cit".encode(),
        ".\u200dgit\ufeff".encode(),
        "\N{FULLWIDTH FULL STOP}git".encode(),
    ],
)
def test_every_spelling_of_git_is_known(name: bytes) -> None:
    assert is_git(name)


@pytest.mark.parametrize("name", [b"git", b".gitignore", b".github", b"git~2", b".gitx", b"x.git", b""])
def test_what_only_resembles_git_is_not_git(name: bytes) -> None:
    assert not is_git(name)


@pytest.mark.parametrize(
    "path",
    [
        b"CLAUDE.md",
        b"docs/agents.md",
        b".claude/settings.json",
        b"a/.Codex/x",
        b".env",
        b".env.local",
        b".gitmodules",
        b".husky/pre-commit",
        b".npmrc",
        b".envrc",
        b".ripgreprc",
        b"sub/.mcp.json",
        b"bunfig.toml",
        b"AGENTS.override.md",
        "AGENT\u017f.md".encode(),
        ".cl\u200caude/x".encode(),
        b"AGENTS.md.",
        b".claude /settings.json",
    ],
)
def test_configuration_of_agents_and_hooks_is_not_written(path: bytes) -> None:
    """Threats 4.4."""
    assert is_unwritten(path)
    assert is_protected(path)


@pytest.mark.threat("T24", 124)
@pytest.mark.parametrize(
    "path",
    b"""
    .github/workflows/x.yml .github./workflows/x.yml .GitHub/x .gitlab/x .forgejo/workflows/x.yml .gitea/workflows/x.yml
    .circleci/config.yml .buildkite/pipeline.yml .semaphore/semaphore.yml .teamcity/settings.kts .woodpecker/x.yml
    .gitlab-ci.yml .travis.yml azure-pipelines.yml appveyor.yml .appveyor.yml bitbucket-pipelines.yml Jenkinsfile
    .drone.yml .drone.star .woodpecker.yml .woodpecker.yaml .cirrus.yml .cirrus.star cloudbuild.yaml buildspec.yml
    bitrise.yml sub/.gitattributes .lfsconfig CODEOWNERS docs/CODEOWNERS
    .devcontainer/devcontainer.json .devcontainer.json .vscode/tasks.json .vscode/mcp.json sub/.vscode/tasks.json
    .pre-commit-config.yaml lefthook.yml .lefthook.toml lefthook-local.json .config/lefthook.yaml .overcommit.yml
    .simple-git-hooks.json .yarnrc .yarnrc.yml .yarnrc.yaml .yarn/plugins/x.cjs .pnpmfile.cjs
    .cursor/x .cursorrules GEMINI.md .gemini/x .aider.conf.yml .windsurf/x .windsurfrules .clinerules/x.md .roo/rules
    .kiro/x .junie/x .opencode/x opencode.json WARP.md .continue/x .amazonq/x .trae/x QWEN.md .goosehints
    """.split(),
)
def test_dangerous_paths_are_protected(path: bytes) -> None:
    assert is_protected(path)
    assert not is_unwritten(path)


@pytest.mark.parametrize("path", [b"src/a.py", b"claude.py", b"environment.yml", b".vscode/settings.json", b"github/x"])
def test_ordinary_paths_are_not(path: bytes) -> None:
    assert not is_protected(path)


@pytest.mark.threat("T24")
@pytest.mark.parametrize(
    ("rule", "held", "free"),
    [
        (
            "migrations/**",
            ["migrations/1.py", "migrations/a/b.py", "migrations"],
            ["src/migrations.py", "migrationsx/a"],
        ),
        ("migrations", ["migrations/1.py", "migrations"], ["migrations.py"]),
        ("migrations/", ["migrations/1.py"], []),
        ("*.sql", ["db/x.sql", "x.sql"], ["x.sqlx"]),
        ("/exact.txt", ["exact.txt"], ["a/exact.txt"]),
        ("**/keys/**", ["keys/a", "a/keys/b/c"], ["monkeys/a"]),
        ("src/**/secrets.py", ["src/secrets.py", "src/a/b/secrets.py"], ["secrets.py", "srcx/secrets.py"]),
        ("a/**/*.sql", ["a/b.sql", "a/c/b.sql"], ["b.sql"]),
        ("**/**/a", ["a", "b/a", "b/c/a"], ["ba"]),
        ("a/*/b", ["a/x/b"], ["a/b"]),
        ("Docs/**", ["docs/x", "DOCS/x"], []),
        ("caf\u00e9/**", ["cafe\u0301/x"], []),
        ("[ab].txt", ["a.txt"], ["c.txt"]),
        ("**", ["a", "a/b"], []),
        ("a.b", ["a.b"], ["axb"]),
        ("a**/b", ["ab", "a/b", "ac/b", "a/c/b/d"], ["acb", "a"]),
        ("***/**/b", ["b", "ab", "a/b"], ["a", "ba"]),
        ("a/**/b*/**/c", ["a/b/c", "a/x/b/x/bx/c/d", "a/b/x/c"], ["a/x/c", "b/c", "a/b/xc"]),
        ("[!a]/?[]]/[x", ["b/c]/[x"], ["a/c]/[x", "b/cx/[x", "b/c]/x"]),
        ("[[]*]", ["[x]"], ["x]", "[x"]),
        ("a[]", ["a[]"], ["a", "a["]),
        ("a[!]", ["a[!]"], ["a", "ab"]),
        ("[**/x]", ["[x]", "[a/x]"], ["x", "*"]),
    ],
)
def test_a_repositorys_own_rules_protect_too(rule: str, held: list[str], free: list[str]) -> None:
    for rules in ((rule,), ("other", rule)):
        assert [each for each in held if not is_protected(each.encode(), rules)] == []
        assert [each for each in free if is_protected(each.encode(), rules)] == []


@pytest.mark.threat("T24")
@pytest.mark.parametrize(
    ("rule", "held", "free"),
    [
        ("*a" * 90 + "b", b"a" * 3000 + b"b", b"a" * 3000),
        ("**/a*/" * 30 + "x", b"a/" * 1400 + b"x", b"a/" * 1400 + b"b"),
        ("**/*a*a*/" * 20 + "x", (b"a" * 45 + b"/") * 60 + b"x", (b"a" * 45 + b"/") * 60 + b"b"),
        ("a**/" * 40 + "x", b"a/" * 1400 + b"x", b"a/" * 1400 + b"b"),
    ],
)
def test_a_rule_of_many_stars_is_tried_in_no_time(rule: str, held: bytes, free: bytes) -> None:
    """Where it was tried in every way this test would not end."""
    assert is_protected(held, (rule,))
    assert not is_protected(free, (rule,))
    assert is_protected(held, (rule,) * 100)


@pytest.mark.parametrize("path", [b"uv.lock", b"web/package-lock.json", b"Cargo.lock", b"dist/app.min.js"])
def test_generated_files_are_known(path: bytes) -> None:
    assert is_generated(path)


@pytest.mark.parametrize("path", [b"lock.py", b"package.json", b"uv.lock/x.py"])
def test_written_files_are_not(path: bytes) -> None:
    assert not is_generated(path)


def test_a_name_in_the_root_has_no_slash() -> None:
    assert (join(b"", b"a"), join(b"b", b"a")) == (b"a", b"b/a")
