"""Process settings: the one place that reads the environment (interface.md 2).

It owns the names, defaults and limits of every setting and the sentence that a wrong one is answered with. It never
prints a secret, and it never decides what a setting means for a debate.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.config import AGENT_NAMES, OPERATOR_AGENTS

PREFIX = "CODEX_DEBATE_"
UNPREFIXED = ("github_", "redis_", "openai_", "anthropic_")
"""Settings whose name begins so carry no prefix of ours: they are other people's words."""

USER_AGENT = "codex-debate"
"""What this program calls itself when it asks somebody. GitHub answers nobody who gives no name (docs.github.com,
"Getting started with the REST API")."""

WEBHOOK_SECRET_LENGTH = 32
"""Characters of the shortest webhook secret that is accepted (threats.md T1)."""

LAST_PORT = 65535
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine."""
_LOOPBACK = re.compile(r"^http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")
_ASCII = re.compile(r"[!-~]+")
_PLACE = re.compile(r"([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,9}))?", re.ASCII)
"""A host and its port, as they stand in an address."""
_REDIS = ("redis://", "rediss://", "unix://")
_GLOB = re.compile(r"^[A-Za-z0-9._*?\[\]-]+(/[A-Za-z0-9._*?\[\]-]+)?$")

Port = Annotated[int, Field(ge=0, le=LAST_PORT)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[int, Field(ge=1)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SettingsError(Exception):
    """Settings that cannot be used. ``sentences`` says for each fault what is wrong and how to repair it."""

    def __init__(self, sentences: tuple[str, ...]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def variable(field: str) -> str:
    """Return the environment variable of a field: ``port`` is ``CODEX_DEBATE_PORT``."""
    name = field.upper()
    return name if field.startswith(UNPREFIXED) else PREFIX + name


def _state_dir() -> Path:
    """Return the folder for state that the XDG base directory specification names."""
    home = os.environ.get("XDG_STATE_HOME") or ""
    root = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return root / "codex-debate"


class _Environment(PydanticBaseSettingsSource):
    """Reads exactly the variables of interface.md 2. An empty one counts as absent, as in an unedited env file."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - its signature
        return os.environ.get(variable(field_name)) or None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {name: os.environ.get(variable(name), "") for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value.strip()}


class Settings(BaseSettings):
    """All settings of one process. Read from the environment; keywords go before it."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    github_app_id: str = ""
    """The App's id or client id."""
    github_app_private_key: SecretStr = SecretStr("")
    """The App's private key, PEM."""
    github_app_private_key_file: Path | None = None
    """Where the private key lies, instead of the key itself."""
    github_webhook_secret: SecretStr = SecretStr("")
    """The App's webhook secret: at least 32 characters. The receiver refuses to start without it."""
    github_api_url: str = "https://api.github.com"
    """Base of the REST API; ``https://HOST/api/v3`` for GitHub Enterprise Server."""
    github_server_url: str = "https://github.com"
    """Base of web pages and git."""
    redis_url: str | None = None
    """``redis://``, ``rediss://`` or ``unix://``; without it the store is our own, under the state folder."""
    openai_api_key: SecretStr | None = None
    """The codex agent's key."""
    openai_base_url: str | None = None
    """The codex agent's upstream; the provider's own without it."""
    anthropic_api_key: SecretStr | None = None
    """The claude agent's key."""
    anthropic_base_url: str | None = None
    """The claude agent's upstream; the provider's own without it."""
    host: str = "127.0.0.1"
    """Address that the receiver listens on."""
    port: Port = 8000
    """Port that the receiver listens on; 0 takes a free one."""
    metrics_port: Port | None = None
    """A worker's own port for ``/metrics`` and ``/healthz``; none without it."""
    public_url: str | None = None
    """Where people reach the receiver."""
    state_dir: Annotated[Path, AfterValidator(Path.absolute)] = Field(default_factory=_state_dir)
    """Store, mirrors, run folders, pinned tools."""
    reviewer: str = "codex"
    """The agent that reviews by default."""
    author: str = "claude"
    """The agent that writes by default."""
    codex_model: str | None = None
    """The codex agent's model; the program's own without it."""
    claude_model: str | None = None
    """The claude agent's model; the program's own without it."""
    concurrency: Count = 4
    """Runs at once per worker."""
    isolation: Literal["full", "none"] = "full"
    """``full``: no agent starts without it. ``none``: only together with `try` on the user's own repository."""
    max_rounds: Count = 12
    """Ceiling of rounds for every debate that has no smaller one."""
    turn_seconds: Seconds = 1800
    """Ceiling of one turn, in seconds."""
    run_seconds: Seconds = 10800
    """Ceiling of one run, in seconds."""
    run_budget_usd: Dollars = 10.0
    """Ceiling of one run, in US dollars."""
    day_budget_usd: Dollars = 100.0
    """Ceiling of one installation and day (UTC), in US dollars."""
    bots: tuple[int, ...] = ()
    """Numeric user ids of bots that may command. The list is their permission: GitHub tells none of an App's bot."""
    allow: tuple[str, ...] = ()
    """Owners or ``owner/repo`` globs that may use this server; empty: the App owner's account only."""
    config: Path | None = None
    """The operator's layer of the repository configuration, YAML."""
    keep_days: Count = 30
    """Days that records and logs are kept."""
    log: Literal["json", "console"] | None = None
    """How log lines are written; without it ``console`` on a terminal and ``json`` off one."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings calls it so
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take keywords first and then the environment: no dotenv file, no secrets folder, no guessed names."""
        return init_settings, _Environment(settings_cls)

    @field_validator("bots", "allow", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Split a list on commas and white space."""
        return tuple(part for part in re.split(r"[,\s]+", value) if part) if isinstance(value, str) else value

    @field_validator("bots")
    @classmethod
    def _numbers(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(number < 1 for number in value):
            raise ValueError("user ids are positive numbers")
        return value

    @field_validator("allow")
    @classmethod
    def _globs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for glob in value:
            if not _GLOB.match(glob):
                raise ValueError("each entry is an owner or owner/repo, with * where any name may stand")
        return value

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every secret that these settings hold."""
        values = [value.get_secret_value() for _, value in self if isinstance(value, SecretStr)]
        return tuple(value for value in values if value)

    @field_validator("github_app_private_key")
    @classmethod
    def _pem(cls, value: SecretStr) -> SecretStr:
        # Env files cannot hold line ends, so the two characters \n stand for one there.
        text = value.get_secret_value().replace("\\n", "\n").strip()
        if text and "PRIVATE KEY-----" not in text:
            raise ValueError("it is not a PEM private key; paste the file that GitHub gave when the key was made")
        return SecretStr(text + "\n" if text else "")

    @field_validator("github_webhook_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < WEBHOOK_SECRET_LENGTH:
            raise ValueError(f"it has fewer than {WEBHOOK_SECRET_LENGTH} characters; make a longer one")
        return value

    @field_validator("github_api_url", "github_server_url", "openai_base_url", "anthropic_base_url", "public_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and (fault := _fault(value)):
            raise ValueError(fault)
        return value.rstrip("/") if value is not None else None

    @field_validator("openai_api_key", "anthropic_api_key")
    @classmethod
    def _one_line(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]*", value.get_secret_value()):
            raise ValueError(
                "a key is one line without spaces; look for a line end or a quotation mark that came along"
            )
        return value

    @field_validator("anthropic_base_url")
    @classmethod
    def _without_version(cls, value: str | None) -> str | None:
        if value is not None and value.endswith("/v1"):
            raise ValueError("leave out the /v1 at its end, which the program adds itself")
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(_REDIS):
            raise ValueError("it must begin with redis://, rediss:// or unix://")
        return value

    @field_validator("reviewer", "author")
    @classmethod
    def _agent(cls, value: str) -> str:
        name, colon, _ = value.partition(":")
        if name not in AGENT_NAMES:
            raise ValueError(f"there is no such agent; the agents are {', '.join(AGENT_NAMES)}")
        if colon and name not in OPERATOR_AGENTS:
            raise ValueError(f"{name} is named without anything behind a colon")
        return value


def _fault(address: str) -> str:
    """Return why an address cannot be one that paths are put behind; empty where it can."""
    if not _ASCII.fullmatch(address):
        return "an address is ASCII and has no spaces; a host with other letters is written as xn--…"
    # A token sent over plain HTTP is everybody's: only this machine may be spoken to so.
    if not address.startswith("https://") and not _LOOPBACK.match(address):
        return "it must be an https:// address"
    if "?" in address or "#" in address:
        return "leave out what begins with ? or #: paths are put behind the address"
    place = address.partition("://")[2].partition("/")[0]
    if "@" in place:
        return "leave out the user and the password before the @"
    parts = _PLACE.fullmatch(place)
    if parts is None or not 1 <= int(parts["port"] or LAST_PORT) <= LAST_PORT:
        return f"it names no host, or a port that is none from 1 to {LAST_PORT}"
    return ""


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address, or None: it is reached directly.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` mean what they mean to other programs, in either case. This machine
    is never asked for through a proxy, which could not reach it.
    """
    parts = urlsplit(url)
    if not parts.hostname or parts.hostname in LOOPBACK:
        return None
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def authorities() -> tuple[str | None, str | None]:
    """Return ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, which OpenSSL reads too: the operator's own authorities."""
    return os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None


def load_settings(*, receiver: bool = True) -> Settings:
    """Return the settings of this process, the private key read from its file where one is named.

    `receiver` says whether this process takes webhooks: a worker needs no webhook secret. Raises `SettingsError` with
    one sentence for each fault, which names the variable and the repair and shows no value.
    """
    return _complete(local_settings(), receiver=receiver)


def local_settings(**over: Any) -> Settings:  # noqa: ANN401 - any setting
    """Return the settings of a process that serves no App of its own: nothing has to be set.

    `over` stands before the environment. Raises `SettingsError` with one sentence for each fault.
    """
    try:
        return Settings(**over)
    except ValidationError as error:
        raise SettingsError(tuple(_sentence(fault) for fault in error.errors())) from None


def _sentence(fault: Any) -> str:  # noqa: ANN401 - pydantic's own shape of a fault
    """Return the sentence for one fault that pydantic found."""
    field = str(fault["loc"][0])
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{variable(field)} cannot be used: {message[:1].lower()}{message[1:]}."


def _complete(settings: Settings, *, receiver: bool) -> Settings:
    """Return the settings with the key in place. Raises `SettingsError` where a needed one is absent."""
    faults = []
    key, file = settings.github_app_private_key, settings.github_app_private_key_file
    if key.get_secret_value() and file:
        faults.append("GITHUB_APP_PRIVATE_KEY and GITHUB_APP_PRIVATE_KEY_FILE are both set: keep one of them.")
    elif file:
        try:
            settings = Settings(**{**settings.model_dump(), **_key_of(file)})
        except (OSError, UnicodeDecodeError):
            faults.append("GITHUB_APP_PRIVATE_KEY_FILE cannot be read: name a file that this user may read.")
        except ValidationError:
            faults.append("GITHUB_APP_PRIVATE_KEY_FILE holds no PEM private key: name the file that GitHub gave.")
    elif not key.get_secret_value():
        faults.append("GITHUB_APP_PRIVATE_KEY is not set: set it, or GITHUB_APP_PRIVATE_KEY_FILE, to the App's key.")
    if not settings.github_app_id:
        faults.append("GITHUB_APP_ID is not set: take it from the App's settings page.")
    if receiver and not settings.github_webhook_secret.get_secret_value():
        faults.append(
            f"GITHUB_WEBHOOK_SECRET is not set: make one of at least {WEBHOOK_SECRET_LENGTH} characters and set it "
            "here and on the App's settings page."
        )
    if faults:
        raise SettingsError(tuple(faults))
    return settings


def _key_of(file: Path) -> dict[str, Any]:
    return {"github_app_private_key": SecretStr(file.read_text("ascii")), "github_app_private_key_file": None}
