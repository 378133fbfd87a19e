"""What must not be shown: the shapes of secrets, and characters that a reader cannot see.

Pure functions over text, for logs, comments, check runs, commit messages and briefs. They clean what is shown; they are
no defence against an agent that wants a secret out (the sandbox and the gateway are): a key in pieces passes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

REDACTED = "[redacted]"
"""What stands where a secret stood."""

UNSEEN = "\N{REPLACEMENT CHARACTER}"
"""What stands where a run of hidden characters stood."""


class Shape(NamedTuple):
    """What a kind of secret looks like."""

    kind: str
    """In plain words, with its article: ``a GitHub token``."""
    begins: tuple[str, ...]
    """One of these stands where the pattern matches: a text that holds none of them need not be searched."""
    pattern: re.Pattern[str]
    sure: bool = True
    """Nothing else looks like this. False: names of other things may, too."""


def _shape(kind: str, begins: str, pattern: str, *, sure: bool = True) -> Shape:
    return Shape(kind, tuple(begins.split()), re.compile(pattern, re.DOTALL), sure)


# Behind the escape of a newline or the like a word begins, too: so it is in JSON, and where Python shows a text.
_ESCAPED = r"(?<=\\[abfnrtv])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})"
_WORD = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})"
_PEM = "-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"

# Each takes linear time: no part that repeats stands beside another of the same characters, but for a token's last one.
SHAPES: tuple[Shape, ...] = (
    # PEM private keys of every kind (RFC 7468); one that is cut off reaches to the end of the text.
    _shape("a private key", "-----BEGIN", _PEM.format("BEGIN") + ".*?(?:" + _PEM.format("END") + r"|\Z)"),
    # GitHub: ghp_, gho_, ghu_, ghs_, ghr_. Since 2026 ghs_<app>_<jwt>, with dots and dashes and of any length:
    # docs.github.com, "Create an installation access token for an app"; changelog of 2026-04-24.
    _shape("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD + r"gh[opusr]_[A-Za-z0-9._-]{19,}[A-Za-z0-9_-]"),
    # GitHub, fine-grained personal access tokens (changelog of 2022-10-18).
    _shape("a GitHub token", "github_pat_", _WORD + r"github_pat_[A-Za-z0-9_]{20,}"),
    # Anthropic and OpenAI keys: sk-ant-…, sk-proj-…, sk-svcacct-…, sk-…. Classes of style sheets begin so, too.
    _shape("an Anthropic key", "sk-ant-", _WORD + r"sk-ant-[A-Za-z0-9_-]{8,}", sure=False),
    _shape("an API key", "sk-", _WORD + r"sk-[A-Za-z0-9_-]{20,}", sure=False),
    # AWS access key ids: long-lived AKIA and temporary ASIA (IAM user guide, "IAM identifiers").
    _shape("an AWS access key", "AKIA ASIA", _WORD + r"A(?:KIA|SIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    # GitLab, Slack, Google and npm, as their own scanners describe them.
    _shape("a GitLab token", "glpat-", _WORD + r"glpat-[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-]"),
    _shape("a Slack token", "xox", _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _shape("a Google API key", "AIza", _WORD + r"AIza[A-Za-z0-9_-]{35}"),
    _shape("an npm token", "npm_", _WORD + r"npm_[A-Za-z0-9]{36}"),
    # Slack, addresses of incoming webhooks: docs.slack.dev, "Sending messages using incoming webhooks".
    _shape(
        "a Slack webhook address",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/-]{20,}",
    ),
    # Discord, addresses of webhooks: an id and a token (docs.discord.com, "Webhook Resource"; 68 letters as seen).
    _shape(
        "a Discord webhook address",
        "discord.com/ discordapp.com/",
        r"discord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks/[0-9]{15,25}/[A-Za-z0-9_-]{60,}",
    ),
    # Stripe, secret and restricted keys of live mode (docs.stripe.com, "API keys"). Those of test mode move no money.
    _shape("a Stripe key", "sk_live_ rk_live_", _WORD + r"[sr]k_live_[A-Za-z0-9]{16,}"),
    # Stripe, signing secrets of webhooks (docs.stripe.com, "Receive Stripe events": 32 letters in those seen).
    _shape("a Stripe signing secret", "whsec_", _WORD + r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    # age, identities of X25519: 32 bytes in Bech32 (its specification, "The X25519 recipient type").
    _shape("an age key", "AGE-SECRET-KEY-1", _WORD + r"AGE-SECRET-KEY-1[0-9A-Z]{58}(?![0-9A-Za-z])"),
    # Hugging Face, user access tokens (hub documentation, "User access tokens"; 34 letters in those seen).
    _shape("a Hugging Face token", "hf_", _WORD + r"hf_[A-Za-z0-9]{30,}"),
    # PyPI: `pypi-` and a macaroon, which is base64 of version 2 and a location (warehouse, docs of API tokens).
    _shape("a PyPI token", "pypi-AgE", _WORD + r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    # SendGrid: 69 characters in three parts (twilio.com/docs/sendgrid, "API Keys").
    _shape("a SendGrid key", "SG.", _WORD + r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    # DigitalOcean: personal, OAuth and refresh tokens (its announcement of token prefixes, April 2022).
    _shape("a DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", _WORD + r"do[opr]_v1_[0-9a-f]{64}"),
    # Shopify: 32 hexadecimal digits behind a prefix (shopify.dev, changelog of 2020-04-01 and of app secret keys).
    _shape("a Shopify token", "shpat_ shpca_ shppa_ shpss_", _WORD + r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    # Azure storage, the key in a connection string: 64 bytes in base64 (learn.microsoft.com, "Configure Azure
    # Storage connection strings").
    _shape("an Azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    # Google, client secrets of OAuth (as its own scanner describes them). Keys of service accounts are PEM.
    _shape("a Google client secret", "GOCSPX-", _WORD + r"GOCSPX-[A-Za-z0-9_-]{28}"),
    # Any JSON web token (RFC 7519): its two first parts are base64 of `{"`.
    _shape(
        "a JSON web token",
        "eyJ",
        rf"(?:(?<![A-Za-z0-9_.-])|{_ESCAPED})eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*",
    ),
)
"""The shapes that secrets are known by."""

_CREDENTIALS = re.compile(
    # `https://name:secret@host`: the name and the host stay, since they say what was meant.
    r"(?P<before>://[^\s/:@]{0,256}:)[^\s/@]{1,4096}(?=@)"
    # The value of an Authorization header.
    r"|(?P<header>\bauthorization:\s{0,8}(?:basic|bearer|token)\s{1,8})[A-Za-z0-9._~+/=-]{8,}",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return `text` with `REDACTED` in place of everything that has the shape of a secret. Twice is once."""
    for shape in SHAPES:
        if any(begin in text for begin in shape.begins):
            text = shape.pattern.sub(REDACTED, text)
    return _CREDENTIALS.sub(lambda found: (found["before"] or found["header"]) + REDACTED, text)


# A terminal's sequences (ECMA-48): operating system commands up to their end, control sequences, two-byte escapes.
_TERMINAL = re.compile(
    # What begins another one ends the search: else a run of such beginnings would be gone through again for each.
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n\x9d\x90\x98\x9e\x9f]{0,8192}+(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|\x1b[ -/]{0,4}[0-Z\\^-~]"
)

_NEWLINE = re.compile(r"\r\n?")
# Characters that some readers take for the end of a line and others do not.
_HALF_NEWLINES = re.compile(r"[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# Unicode 16: control characters besides tab and newline; format characters (bidi, zero width, soft hyphen, tags);
# letters without a shape (Hangul fillers, Khmer inherent vowels); surrogates; variation selectors but for the two that
# choose between text and emoji; noncharacters. `So` and `Co` stay: a reader sees them.
_HIDDEN = re.compile(
    r"(?:[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # A second selector in a row chooses nothing: it can only carry bits.
    r"|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f])+"
)


def visible(text: str) -> str:
    r"""Return `text` as a reader sees it.

    A terminal's sequences are removed, ends of lines become ``\n``, what is only half an end of a line becomes a
    space, and each run of hidden characters (control, bidi, zero width, tags, lone surrogates) becomes one `UNSEEN`.
    The result encodes as UTF-8. Doing it twice changes nothing.
    """
    text = _NEWLINE.sub("\n", _TERMINAL.sub("", text))
    return _HIDDEN.sub(UNSEEN, _HALF_NEWLINES.sub(" ", text))


def quotable(text: str, limit: int) -> str:
    """Return foreign words as they can stand between backticks: one visible line, redacted, of `limit` characters."""
    # A secret may have a terminal's sequence within it: it is sought in what a reader sees.
    line = redact(" ".join(visible(text).split())).replace("`", "'")
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def whole(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD: it then encodes as UTF-8, and is else as it was."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
