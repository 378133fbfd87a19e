"""Settings come from exactly the variables of the table, and a wrong one is named with its repair."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.settings import Settings, SettingsError, authorities, load_settings, local_settings, proxy_of, variable

ROOT = Path(__file__).parents[2]
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----"
SECRET = "s" * 32
NEEDED = {"GITHUB_APP_ID": "1", "GITHUB_APP_PRIVATE_KEY": PEM, "GITHUB_WEBHOOK_SECRET": SECRET}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Start from the needed variables and none besides."""
    for field in Settings.model_fields:
        monkeypatch.delenv(variable(field), raising=False)
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def faults(*, receiver: bool = True) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(receiver=receiver)
    return str(caught.value)


def test_the_needed_ones_are_enough() -> None:
    settings = load_settings()
    assert settings.github_app_id == "1"
    assert settings.github_api_url == "https://api.github.com"
    assert (settings.port, settings.reviewer, settings.author, settings.max_rounds) == (8000, "codex", "claude", 12)
    assert settings.redis_url is None


@pytest.mark.threat("T25")
def test_every_secret_is_known_for_what_it_is(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OPENAI_API_KEY", "sk-one")
    secrets = {field for field, value in Settings.model_fields.items() if "SecretStr" in str(value.annotation)}
    assert secrets == {"github_app_private_key", "github_webhook_secret", "openai_api_key", "anthropic_api_key"}
    assert sorted(load_settings().secrets) == sorted([PEM + "\n", SECRET, "sk-one"])


def test_each_fault_is_one_sentence_with_variable_and_repair(environment: pytest.MonkeyPatch) -> None:
    for name in NEEDED:
        environment.delenv(name)
    said = faults().splitlines()
    assert len(said) == 3
    for name, sentence in zip(
        sorted(NEEDED), sorted(said, key=lambda line: sorted(NEEDED).index(line.split()[0])), strict=True
    ):
        assert sentence.startswith(name)
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_WEBHOOK_SECRET", "s" * 31),
        ("GITHUB_APP_PRIVATE_KEY", "no key"),
        ("GITHUB_API_URL", "http://github.example"),
        ("GITHUB_SERVER_URL", "ftp://github.example"),
        ("REDIS_URL", "localhost:6379"),
        ("CODEX_DEBATE_PORT", "70000"),
        ("CODEX_DEBATE_PORT", "http"),
        ("CODEX_DEBATE_REVIEWER", "bard"),
        ("CODEX_DEBATE_ISOLATION", "some"),
        ("CODEX_DEBATE_MAX_ROUNDS", "0"),
        ("CODEX_DEBATE_RUN_BUDGET_USD", "inf"),
        ("CODEX_DEBATE_BOTS", "1,dependabot[bot]"),
        ("CODEX_DEBATE_BOTS", "-4"),
        ("CODEX_DEBATE_ALLOW", "octo-org/a/b"),
        ("CODEX_DEBATE_LOG", "xml"),
    ],
)
def test_a_wrong_value_is_refused_and_not_shown(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    environment.setenv(name, value)
    said = faults()
    assert said.startswith(name)
    if name in NEEDED:
        assert value not in said


@pytest.mark.parametrize(
    ("address", "repair"),
    [
        ("http://models.example", "must be an https://"),
        ("https:models.example", "must be an https://"),
        ("https://models.example/v1?region=eu", "leave out what begins with [?] or #"),
        ("https://models.example/v1#top", "leave out what begins with [?] or #"),
        ("https://models.example?", "leave out what begins with [?] or #"),
        ("https://me:secret@models.example/v1", "leave out the user and the password"),
        ("https://api.openai.com@models.example", "leave out the user and the password"),
        ("https://models.example:0", "a port that is none from 1 to 65535"),
        ("https://models.example:65536/v1", "a port that is none from 1 to 65535"),
        ("https://models.example:https", "a port that is none from 1 to 65535"),
        ("http://127.0.0.1:99999", "a port that is none from 1 to 65535"),
        ("https://", "it names no host"),
        ("https:///v1", "it names no host"),
        ("https://:8443/v1", "it names no host"),
        ("https://models..example", "it names no host"),
        ("https://models.example\\v1", "it names no host"),
        ("https://[::1", "it names no host"),
        ("https://models.example /v1", "is ASCII and has no spaces"),
        ("https://models.example/v1\n", "is ASCII and has no spaces"),
        ("https://modèles.example", "is ASCII and has no spaces"),
    ],
)
def test_an_address_that_nothing_can_be_put_behind_is_refused(address: str, repair: str) -> None:
    with pytest.raises(SettingsError, match=f"^OPENAI_BASE_URL cannot be used: .*{repair}") as failed:
        local_settings(openai_base_url=address)
    assert "secret" not in str(failed.value)
    assert str(failed.value).endswith(".")


@pytest.mark.parametrize(
    "address",
    [
        "https://models.example",
        "https://xn--modles-6ua.example:8443/a/v1",
        "https://models_1.example:1",
        "https://[2001:db8::1]:65535/v1",
        "http://localhost:8080/v1",
        "http://[::1]:9",
        "https://10.0.0.1/openai/deployments/a%20b",
    ],
)
def test_an_address_is_taken_as_it_stands(address: str) -> None:
    assert local_settings(openai_base_url=f"{address}/").openai_base_url == address


def test_an_empty_secret_refuses_to_start_a_receiver_and_not_a_worker(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GITHUB_WEBHOOK_SECRET", "")
    assert faults().startswith("GITHUB_WEBHOOK_SECRET is not set")
    assert load_settings(receiver=False).github_app_id == "1"


def test_the_key_may_lie_in_a_file(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(PEM)
    environment.setenv("GITHUB_APP_PRIVATE_KEY_FILE", str(tmp_path / "key.pem"))
    assert "are both set" in faults()
    environment.delenv("GITHUB_APP_PRIVATE_KEY")
    assert load_settings().github_app_private_key.get_secret_value() == PEM + "\n"
    environment.setenv("GITHUB_APP_PRIVATE_KEY_FILE", str(tmp_path / "absent.pem"))
    assert "cannot be read" in faults()
    (tmp_path / "key.pem").write_text("nothing")
    environment.setenv("GITHUB_APP_PRIVATE_KEY_FILE", str(tmp_path / "key.pem"))
    assert "holds no PEM private key" in faults()


def test_a_key_on_one_line_gets_its_lines_back(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GITHUB_APP_PRIVATE_KEY", PEM.replace("\n", "\\n"))
    assert load_settings().github_app_private_key.get_secret_value() == PEM + "\n"


def test_lists_are_parted_by_commas_or_blanks(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CODEX_DEBATE_BOTS", "1, 2 3")
    environment.setenv("CODEX_DEBATE_ALLOW", "octo-org,octo-*/tide?")
    settings = load_settings()
    assert settings.bots == (1, 2, 3)
    assert settings.allow == ("octo-org", "octo-*/tide?")


def test_names_without_the_prefix_are_nobodys(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PORT", "1")
    environment.setenv("HOST", "0.0.0.0")  # noqa: S104 - it must not be used
    environment.setenv("CODEX_DEBATE_GITHUB_APP_ID", "2")
    settings = load_settings()
    assert (settings.port, settings.host, settings.github_app_id) == (8000, "127.0.0.1", "1")


def test_keywords_go_before_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CODEX_DEBATE_PORT", "1")
    settings = Settings(port=0, github_webhook_secret=SecretStr(SECRET), github_api_url="http://127.0.0.1:9/api/v3/")
    assert settings.port == 0
    assert settings.github_api_url == "http://127.0.0.1:9/api/v3"


def test_secrets_do_not_print() -> None:
    settings = load_settings()
    shown = f"{settings!r} {settings} {settings.model_dump()}"
    assert SECRET not in shown
    assert "MII" not in shown


def test_the_state_folder_follows_the_desktop_rules(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("XDG_STATE_HOME", str(tmp_path))
    assert load_settings().state_dir == tmp_path / "codex-debate"
    environment.setenv("XDG_STATE_HOME", "relative")
    assert load_settings().state_dir == Path.home() / ".local" / "state" / "codex-debate"


def test_the_example_names_every_setting_and_its_default() -> None:
    text = (ROOT / "deploy" / "example.env").read_text("utf-8")
    entries = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert set(entries) == {variable(field) for field in Settings.model_fields}
    defaults = Settings()
    for field in Settings.model_fields:
        value = entries[variable(field)]
        if value:
            assert str(getattr(defaults, field)).removesuffix(".0") == value, field


def test_the_example_can_be_loaded_as_it_stands(environment: pytest.MonkeyPatch) -> None:
    text = (ROOT / "deploy" / "example.env").read_text("utf-8")
    for name, value in re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE):
        environment.setenv(name, NEEDED.get(name, value))
    assert load_settings().model_dump() == Settings().model_dump()
    assert "HOME" in os.environ


# ---- The way to GitHub ----------------------------------------------------------------------------------------------

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "REQUEST_METHOD")


@pytest.fixture
def without_proxies(environment: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in PROXIES:
        environment.delenv(name, raising=False)
    return environment


@pytest.mark.parametrize("upper", [True, False])
def test_the_usual_variables_name_the_proxy(without_proxies: pytest.MonkeyPatch, upper: bool) -> None:
    names = [name.upper() if upper else name for name in ("https_proxy", "http_proxy", "no_proxy")]
    for name, value in zip(names, ("http://u:p@proxy:3128", "proxy:80", "ghes.example,.corp:8443"), strict=True):
        without_proxies.setenv(name, value)
    assert proxy_of("https://api.github.com") == "http://u:p@proxy:3128"
    assert proxy_of("https://x.corp/api/v3") == "http://u:p@proxy:3128"
    assert proxy_of("http://git.example") == "http://proxy:80"
    for direct in ("https://ghes.example/api/v3", "https://a.ghes.example", "https://x.corp:8443/api/v3"):
        assert proxy_of(direct) is None, direct


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/api/v3", "http://localhost:1", "http://[::1]:2/x", "", "x"])
def test_this_machine_is_reached_directly(without_proxies: pytest.MonkeyPatch, url: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        without_proxies.setenv(name, "http://proxy:3128")
    assert proxy_of(url) is None


def test_without_proxies_and_with_an_asterisk_everything_is(without_proxies: pytest.MonkeyPatch) -> None:
    assert proxy_of("https://api.github.com") is None
    without_proxies.setenv("HTTPS_PROXY", "http://proxy:3128")
    without_proxies.setenv("NO_PROXY", "*")
    assert proxy_of("https://api.github.com") is None


def test_authorities_are_those_that_openssl_reads(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SSL_CERT_FILE", "/etc/company.pem")
    environment.setenv("SSL_CERT_DIR", "")
    assert authorities() == ("/etc/company.pem", None)
    environment.delenv("SSL_CERT_FILE")
    environment.setenv("SSL_CERT_DIR", "/etc/company")
    assert authorities() == (None, "/etc/company")


def test_a_version_at_the_end_of_claudes_address_is_refused() -> None:
    """The program adds it itself; a doubled one would read as a model that is not there."""
    with pytest.raises(SettingsError, match="ANTHROPIC_BASE_URL cannot be used: leave out the /v1 at its end"):
        local_settings(anthropic_base_url="http://127.0.0.1:9/v1/")
    assert local_settings(openai_base_url="http://127.0.0.1:9/v1").openai_base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "sk-\x00", "sk-é"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(
        SettingsError, match="OPENAI_API_KEY cannot be used: a key is one line without spaces"
    ) as failed:
        local_settings(openai_api_key=key)
    assert key not in str(failed.value)


def test_a_relative_state_folder_is_taken_from_where_the_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_settings(state_dir="state").state_dir == tmp_path / "state"
