"""What must not be shown: the shapes of secrets, and characters that a reader cannot see.

Pure functions over text, for logs, comments, check runs, commit messages and briefs. They clean what is shown; they are
no defence against an agent that wants a secret out (the sandbox and the gateway are): a key in pieces passes.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"
"""What stands where a secret stood."""

UNSEEN = "\N{REPLACEMENT CHARACTER}"
"""What stands where a run of hidden characters stood."""

_WORD = r"(?<![A-Za-z0-9_])"
_PEM = "-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"

SHAPES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(shape, re.DOTALL)
    for shape in (
        # PEM private keys of every kind (RFC 7468); one that is cut off reaches to the end of the text.
        _PEM.format("BEGIN") + ".*?(?:" + _PEM.format("END") + r"|\Z)",
        # GitHub: ghp_, gho_, ghu_, ghs_, ghr_. Since 2026 ghs_<app>_<jwt>, with dots and dashes and of any length:
        # docs.github.com, "Create an installation access token for an app"; changelog of 2026-04-24.
        _WORD + r"gh[opusr]_[A-Za-z0-9._-]{19,}[A-Za-z0-9_-]",
        # GitHub, fine-grained personal access tokens (changelog of 2022-10-18).
        _WORD + r"github_pat_[A-Za-z0-9_]{20,}",
        # Anthropic and OpenAI keys: sk-ant-…, sk-proj-…, sk-svcacct-…, sk-….
        _WORD + r"sk-ant-[A-Za-z0-9_-]{8,}",
        _WORD + r"sk-[A-Za-z0-9_-]{20,}",
        # AWS access key ids: long-lived AKIA and temporary ASIA (IAM user guide, "IAM identifiers").
        _WORD + r"A(?:KIA|SIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        # GitLab, Slack, Google and npm, as their own scanners describe them.
        _WORD + r"glpat-[A-Za-z0-9_.-]{19,}[A-Za-z0-9_-]",
        _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
        _WORD + r"AIza[A-Za-z0-9_-]{35}",
        _WORD + r"npm_[A-Za-z0-9]{36}",
        # Any JSON web token (RFC 7519): its two first parts are base64 of `{"`.
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    )
)

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
        text = shape.sub(REDACTED, text)
    return _CREDENTIALS.sub(lambda found: (found["before"] or found["header"]) + REDACTED, text)


# A terminal's sequences (ECMA-48): operating system commands up to their end, control sequences, two-byte escapes.
_TERMINAL = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,8192}(?:\x07|\x1b\\|\x9c)"
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
