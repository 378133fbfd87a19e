"""Secrets lose their place in a text, and nothing in it is hidden from a reader."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.redact import REDACTED, SHAPES, UNSEEN, quotable, redact, visible, whole

SECRETS = [
    "ghp_" + "a1B2" * 9,
    "ghs_" + "a1B2" * 9,
    "ghs_123_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjMifQ.c2lnbmF0dXJl-with_dashes",
    "gho_" + "x" * 36,
    "github_pat_" + "11ABCDEFG0" * 4,
    "sk-ant-api03-" + "Zz9-_" * 6,
    "sk-proj-" + "abcDEF123_" * 3,
    "sk-" + "a" * 48,
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdef",
    "AIza" + "b" * 35,
    "glpat-" + "c" * 20,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "npm_" + "a1B2" * 9,
    "hooks.slack.com/services/" + "T00000000/B00000000/" + "a1B2" * 6,
    "sk_" + "live_" + "a1B2" * 6,
    "rk_" + "live_" + "a1B2" * 25,
    "hf_" + "aBcDeFg" * 5,
    "pypi-" + "AgEIcHlwaS5vcmc" + "Zz9-_" * 30,
    "SG." + "a" * 22 + "." + "b-" * 21 + "b",
    "dop_v1_" + "0f" * 32,
    "doo_v1_" + "0f" * 32,
    "dor_v1_" + "0f" * 32,
    *(kind + "0f" * 16 for kind in ("shpat_", "shpca_", "shppa_", "shpss_")),
    "AccountKey=" + "a1+/" * 21 + "ab" + "==",
    "GOCSPX-" + "a1B-" * 7,
    *(f"discord{app}/webhooks/123456789012345678/" + "a1B-" * 17 for app in (".com/api", "app.com/api/v10")),
    "whsec_" + "a1B2" * 8,
    "AGE-SECRET-KEY-1" + "QZ" * 29,
]


def test_every_shape_is_tried_and_begins_as_it_says() -> None:
    tried = {shape.kind for secret in SECRETS for shape in SHAPES if shape.pattern.search(secret)}
    assert tried == {shape.kind for shape in SHAPES} - {"a private key"}
    for secret in SECRETS:
        for shape in SHAPES:
            found = shape.pattern.search(secret)
            assert found is None or found[0].startswith(shape.begins)
    assert not any(shape.kind.endswith(".") or not shape.kind.startswith(("a ", "an ")) for shape in SHAPES)


@pytest.mark.threat("T25", 122, 151)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around",
    ["{}", "the key is {}.", "KEY={}\nnext", "`{}`", '"{}",', "({})", "a\\n{}", "a\\u000a{}", "a\\x0a{}\\n"],
)
def test_a_token_is_redacted_wherever_it_stands(secret: str, around: str) -> None:
    assert redact(around.format(secret)) == around.format(REDACTED)


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
def test_a_private_key_is_redacted_whole(kind: str) -> None:
    key = f"-----BEGIN {kind}PRIVATE KEY-----\nMIIEow\nabc=\n-----END {kind}PRIVATE KEY-----"
    assert redact(f"a\n{key}\nb\n{key}\nc") == f"a\n{REDACTED}\nb\n{REDACTED}\nc"


def test_a_token_behind_a_name_and_a_stroke_is_redacted() -> None:
    assert redact(f"KEY_{SECRETS[2]} _{SECRETS[0]}") == f"KEY_{REDACTED} _{REDACTED}"


def test_a_private_key_that_is_cut_off_is_redacted_to_the_end() -> None:
    assert redact("a -----BEGIN PRIVATE KEY-----\nMIIEow\nabc") == f"a {REDACTED}"


def test_a_password_in_an_address_goes_and_the_address_stays() -> None:
    told = redact("https://x-access-token:abc.def-1@github.com/o/r.git and redis://:secret@127.0.0.1/0")
    assert told == f"https://x-access-token:{REDACTED}@github.com/o/r.git and redis://:{REDACTED}@127.0.0.1/0"
    assert redact("Authorization: Bearer abcdefgh12") == f"Authorization: Bearer {REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "task-queue-with-a-long-kebab-name",
        "ask-ant-colony",
        "sk-learn",
        "ghs_short",
        "hf_hub_download_of_a_whole_snapshot_folder",
        "sk_test_a1B2a1B2a1B2a1B2a1B2a1B2",
        "SG.a.b and dop_v1_x and shpat_x",
        "https://hooks.slack.com/services/",
        "DefaultEndpointsProtocol=https;AccountKey=$KEY;",
        "AKIA",
        "a commit 5d4463e4d4f1501e8d93e1be5f4ac721224aab11",
        "-----BEGIN CERTIFICATE-----",
        "host:port and path/to:12",
        "https://github.com/o/r/blob/main/a.py#L1",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.threat(146, 147, 150)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x0bb\u2028c\u2029d\x85e\x0cf", "a b c d e f"),
        ("a\u202eb\u2066c", f"a{UNSEEN}b{UNSEEN}c"),
        ("a\u200b\u200d\ufeffb", f"a{UNSEEN}b"),
        ("a\U000e0041\U000e0042b", f"a{UNSEEN}b"),
        ("a\x00\x07b", f"a{UNSEEN}b"),
        ("a\ud800b", f"a{UNSEEN}b"),
        ("a\u00adb\u3164c", f"a{UNSEEN}b{UNSEEN}c"),
        ("a\ufe0f\ufe0e\ufe0fb", f"a\ufe0f{UNSEEN}b"),
    ],
)
def test_what_a_reader_cannot_see_goes_or_is_marked(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["plain\ttext\n", "⚠️ naïve 日本語 עברית", "👩🏽 ok", "x² ± 1"])
def test_what_a_reader_sees_stays(text: str) -> None:
    assert visible(text) == text


@given(st.text(st.characters(codec=None), max_size=60))
def test_nothing_hidden_is_left_and_twice_is_once(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert shown.encode().decode() == shown
    assert not any(unicodedata.category(each) in {"Cf", "Cs"} and each not in _VISIBLE_FORMATS for each in shown)
    assert not any(unicodedata.category(each) == "Cc" and each not in "\n\t" for each in shown)
    assert redact(redact(text)) == redact(text)


_VISIBLE_FORMATS = {
    chr(each) for each in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)
} | {chr(each) for each in range(0x13430, 0x13440)}
"""Format characters that have a shape: Arabic, Syriac and Kaithi number signs, Egyptian joiners."""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Bad\r\n\n\tthing.", "Bad thing."),
        ("no `model` here", "no 'model' here"),
        ("a key sk-proj-abcdefghijklmnopqrstuv", f"a key {REDACTED}"),
        ("a key sk-proj-abcdefghi\x1b[0mjklmnopqrstuv", f"a key {REDACTED}"),
        ("\x1b[31mred\u202e\ud800", f"red{UNSEEN}"),
        (" \n", ""),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        ("x" * 38 + " xx", "x" * 38 + "…"),
        ("x" * 30 + " sk-proj-abcdefghijklmnopqrstuv", "x" * 30 + " [redacte…"),
    ],
)
def test_foreign_words_become_one_line_for_backticks(said: str, line: str) -> None:
    assert quotable(said, 40) == line


def test_whole_text_can_be_written_and_is_else_as_it_was() -> None:
    assert whole("a\ud800b \u202e \U0001f600") == "a\ufffdb \u202e \U0001f600"
    assert whole("\ud83d\ude00") == "\U0001f600"


@pytest.mark.threat(127, 146)
@pytest.mark.parametrize("begin", ["\x9d", "\x90", "\x1b", "\x1b]", "\x9b", "\x9d" + "a" * 8000])
def test_a_run_of_beginnings_is_gone_through_once(begin: str) -> None:
    """Where each was gone through again this test would not end."""
    text = begin * (4_000_000 // len(begin))
    assert set(visible(text)) <= {UNSEEN, "a", "]"}
