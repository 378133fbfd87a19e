"""The one function that starts git: its environment, its names, its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.git import (
    GitFailed,
    GitUnavailable,
    GitUnknown,
    Remote,
    environment,
    full_ref,
    git,
    plain,
    sha,
    unavailable,
)
from worker.git.mirror import Mirror

HOSTILE = [
    "", "main", "-x", "--upload-pack=touch /tmp/x", "--output=F", "refs", "refs/", "refs/heads", "refs/heads/",
    "refs/heads//x", "/refs/heads/x", "refs/heads/x/", "refs/heads/.x", "refs/heads/x.lock", "refs/heads/x.lock/y",
    "refs/heads/a..b", "refs/heads/a b", "refs/heads/a~1", "refs/heads/a^", "refs/heads/a:b", "refs/heads/a?",
    "refs/heads/*", "refs/heads/[a", "refs/heads/a\\b", "refs/heads/a\nb", "refs/heads/a\x7f", "refs/heads/a\0",
    "refs/heads/@{u}",
    "refs/heads/x.", "HEAD", "@", "+refs/heads/a", "refs/heads/a:refs/heads/b", "^refs/heads/a", "refs/heads/\t",
    "refs/heads/" + "x" * 2000, "heads/refs/x", "file:///etc", "refs/heads/a\x1b[31m", ":refs/heads/a",
]  # fmt: skip
FINE = ["refs/heads/main", "refs/heads/-x", "refs/heads/a/b-c_d", "refs/pull/1/head", "refs/heads/refs/heads/main"]


@pytest.mark.threat("T9", 99, 100)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_full_ref_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a full ref name"):
        full_ref(name)


@pytest.mark.threat(100)
@pytest.mark.parametrize("name", [*FINE, "refs/heads/日本"])
def test_a_full_ref_name_passes(name: str) -> None:
    """A branch that is called like a ref is only what it is."""
    assert full_ref(name) == name


@pytest.mark.parametrize("text", ["", "abc", "A" * 40, "--" + "a" * 38, "a" * 40 + "\n", "a" * 64])
def test_only_whole_object_ids_pass(text: str) -> None:
    with pytest.raises(ValueError, match="not an object id"):
        sha(text)


@pytest.mark.threat("T9", 86)
@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c x",
        "file:///srv/x",
        "ssh://-oProxyCommand=x/y",
        "git://h/x",
        "http://example.org/x",
        "-x",
        "a/b",
        "https://token@example.org/x",
        "https://e.org/x y",
        "https://e.org/\nx",
        "HTTPS//",
        "https:x\x00",
    ],
)
def test_addresses_besides_https_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        environment(None, remote=Remote(url))


def test_plain_http_is_for_this_machine_and_for_whom_the_operator_says() -> None:
    for remote in (Remote("http://127.0.0.1:1/x"), Remote("http://[::1]/x"), Remote("http://ghes/x", also=("http",))):
        assert "always" in environment(None, remote=remote).values()


@pytest.mark.threat("T30")
def test_the_credential_is_in_no_argument_and_bound_to_the_server() -> None:
    env = environment(None, remote=Remote("https://github.com/o/r.git", "ghs_x"))
    (number,) = (key.removeprefix("GIT_CONFIG_KEY_") for key, value in env.items() if value.endswith("extraHeader"))
    assert env[f"GIT_CONFIG_KEY_{number}"] == "http.https://github.com/.extraHeader"
    assert env[f"GIT_CONFIG_VALUE_{number}"] == "Authorization: Basic eC1hY2Nlc3MtdG9rZW46Z2hzX3g="


def lines(env: dict[str, str]) -> dict[str, str]:
    numbers = range(int(env["GIT_CONFIG_COUNT"]))
    return {env[f"GIT_CONFIG_KEY_{number}"]: env[f"GIT_CONFIG_VALUE_{number}"] for number in numbers}


def test_the_way_to_the_server_is_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"https_proxy": "http://proxy:3128", "http_proxy": "http://proxy:3128", "no_proxy": ""}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/company.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/etc/company")
    env = environment(None, remote=Remote("https://github.com/o/r.git", "ghs_x"))
    told = lines(env)
    assert told["http.proxy"] == "http://proxy:3128"
    assert (told["http.sslCAInfo"], told["http.sslCAPath"]) == ("/etc/company.pem", "/etc/company")
    assert lines(environment(None, remote=Remote("http://127.0.0.1:1/o/r.git")))["http.proxy"] == ""
    assert "http.proxy" not in lines(environment(Path("/m")))
    assert not {name for name in env if "proxy" in name.lower()}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("fatal: repository 'https://github.com/o/r.git/' not found", GitUnknown),
        ("fatal: Authentication failed for 'https://github.com/o/r.git/'", GitUnknown),
        ("fatal: could not read Username for 'https://github.com': terminal prompts disabled", GitUnknown),
        (
            "fatal: unable to access 'https://github.com/o/r.git/': The requested URL returned error: 502",
            GitUnavailable,
        ),
        ("fatal: unable to access 'https://github.com/o/r.git/': Could not resolve host", GitUnavailable),
        ("it took longer than 900 s", GitUnavailable),
    ],
)
def test_a_server_that_does_not_know_us_is_told_from_one_that_is_away(words: str, kind: type) -> None:
    error = unavailable("fetch", words, code=128)
    assert type(error) is kind
    assert (error.words, error.code) == (words, 128)


@pytest.mark.threat("T10", 99, 105)
def test_the_environment_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "touch x")
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "x")
    env = environment(Path("/m"))
    assert {
        key: env[key] for key in env if key.startswith("GIT_") and "CONFIG_KEY" not in key and "VALUE" not in key
    } == {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_DIR": "/m",
        "GIT_CONFIG_COUNT": env["GIT_CONFIG_COUNT"],
    }
    assert {key for key in env if not key.startswith("GIT_")} == {"PATH", "HOME", "LC_ALL"}


async def test_a_failure_says_what_git_said(mirror: Mirror) -> None:
    with pytest.raises(GitFailed, match="git cat-file failed: fatal: Not a valid object name") as caught:
        await git(mirror.path, "cat-file", "-p", "0" * 40)
    assert caught.value.code == 128


def test_words_are_one_clean_line() -> None:
    assert plain(b"fatal: a\x1b[31m b\r\n\n  hint \x00 c\n\xff") == "fatal: a [31m b; hint   c; \ufffd"
