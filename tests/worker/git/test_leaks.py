"""What is taken for a secret, and what is not."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.git.leaks import GIVEN, OWN, Leak, encodings, find_secrets, present

VALUE = "Zx81kQp0Vb7Tn2Lw9Rc4Hs6"
"""A value as a program draws it."""
SAMPLE = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)
"""The token that jwt.io shows."""


@pytest.mark.threat("T25", 123)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ghs_123_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjMifQ.c2lnbmF0dXJl-with_dashes", "a GitHub token"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "a GitHub token"),
        ("sk-ant-api03-Zx81kQp0Vb7T_n2Lw9Rc4Hs6", "an Anthropic key"),
        ("sk-proj-Zx81kQp0Vb7T_n2Lw9Rc4Hs6", "an API key"),
        ("AKIAQ3EGZ7WJ2NRSXK4B", "an AWS access key"),
        (
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n",
            "a private key",
        ),
        ('"-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEAuEPzOUE+kiEH1WLiMeBytTEF8x", ', "a private key"),
        (
            '-----BEGIN PRIVATE KEY-----\n" +\n"MIIEvQIBADANBgkq" +\n"hkiG9w0BAQEFAASC" +\n"BKcwggSjAgEAAoIB"',
            "a private key",
        ),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a.example.com", "a GitHub token"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4aEXAMPLE", "a GitHub token"),
        ("sk-proj-xxxx-Zx81kQp0Vb7T4n2Lw9Rc4Hs6", "an API key"),
    ],
)
@pytest.mark.parametrize("around", [b"%b", b"key = '%b'\n", b"\x00\xff\x00%b\x00\xfe", b"\xef\xbb\xbf%b\r\n"])
def test_a_shape_is_found_in_any_file(text: str, kind: str, around: bytes) -> None:
    assert [leak.kind for leak in find_secrets(around % text.encode()).values()] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "if '-----BEGIN PRIVATE KEY-----' in text:\n    raise ValueError(the_key_is_not_where_it_should_be)\n",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF",
        "AKIAIOSFODNN7EXAMPLE",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "-----BEGIN PRIVATE KEY-----'); // docs/authentication/certificates, InvalidKeySpecException, NoSuchAlgorithm,",
        "-----BEGIN PRIVATE KEY-----') throws InvalidKeySpecException, NoSuchAlgorithmException, CertificateException",
        f"Bearer {SAMPLE}",
        ".sk-folding-cube-wrapper-2 .sk-ant-colony-container { color: red }",
        "ask-proj-Zx81kQp0Vb7Tn2Lw9Rc4Hs6",
    ],
)
def test_what_only_resembles_a_secret_is_none(text: str) -> None:
    assert find_secrets(text.encode()) == {}


# ---- Values given to a name -----------------------------------------------------------------------------------------


@pytest.mark.threat("T25", 123)
@pytest.mark.parametrize(
    "line",
    [
        'password = "{}"',
        "DB_PASSWORD={}",
        "export CLIENT_SECRET='{}'",
        "  api-key: {}  # for the build",
        '{{"apiKey": "{}", "x": 1}}',
        '"{{\\"access_token\\": \\"{}\\"}}"',
        'const API_KEY: string = "{}";',
        "let private_key: &str = b`{}`",
        'token := "{}"',
        "config['secret'] = '{}'",
        ':passwd => "{}",',
        "<password>{}</password>",
        'setToken("{}")',
        "secret_access_key={}=",
        "website_password = '{}'",
        "site_secret: {}",
        "sync_password={}",
        "next_secret={}",
        "postgres://app:{}@db.internal:5432/app",
        "curl -H 'Authorization: Bearer {}'",
        '"authorization": "basic {}="',
    ],
)
def test_a_value_that_is_given_to_such_a_name_is_found(line: str) -> None:
    text = line.format(VALUE)
    assert find_secrets(b"first\n" + text.encode() + b"\nlast") == {VALUE + "=" * ("=" in text[-2:]): Leak(2, GIVEN)}


@pytest.mark.parametrize(
    "text",
    [
        f"integrity = '{VALUE}'",  # another name
        f"nextPageToken: '{VALUE}'",
        f"csrf-token={VALUE}",
        f"encrypted_password: '{VALUE}'",
        f"https://pkg.internal/{VALUE}:8200@latest",
        "postgres://app:postgres2postgres2postgres2@localhost/app",
        "postgres://app:your_Zx81kQp0Vb-7Tn2Lw9Rc4Hs6@localhost/app",
        "Bearer AuthenticationMiddleware2Factory",
        "token = '5d4463e4d4f1501e8d93e1be5f4ac721224aab11'",
        "token: 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        "password = ${DB_PASSWORD_OF_2026_PRODUCTION}",
        "password: {{ vault_2026_database_password_Xy }}",
        "secret = os.environ.get8SecretsOf2026_xYz",
        "token = request.session2.tokens9Xy.value7Qq",
        "token = read_token_from_the_Environment2(path)",
        "secret_file = /run/secrets/Prod2026/database_Qx7",
        "secret = projects/web-2026/Secrets/database/Password",
        "secret_url = https://vault.internal:8200/v1/Qx7Zy8Wv9Ut0Sr1",
        "password_field = 'user-password-confirmation-field-2'",
        "TOKEN_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'",
        "api_key = 'your-Api_Key7Qx-goes8Here'",
        "secret_file = /Qx7/Zy8Wv9/Ut0Sr1Kp2Lm3",
        "token = 'wzwzwzwzwzwzwzwzwzwzwzwzwzwz1'",
        "token = 'correct horse battery staple 4 ever and ever'",
        "token = 'Zx81kQp0'",
        "hash = 'sha512-Zx81kQp0Vb7Tn2Lw9Rc4Hs6'",
        "tokenizer(Zx81kQp0Vb7Tn2Lw9Rc4Hs6.encode)",
    ],
)
def test_a_reference_a_path_a_hash_or_words_are_none(text: str) -> None:
    assert find_secrets(text.encode()) == {}


@pytest.mark.threat("T25", 123)
@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_text_of_two_bytes_a_letter_is_read_as_well(coding: str) -> None:
    raw = f"first line\npassword = '{VALUE}'\nkey = 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'\n".encode(coding)
    found = find_secrets(raw, encodings(["first line"]))
    assert [*found.values()] == [Leak(1, OWN), Leak(2, GIVEN), Leak(3, "a GitHub token")]
    assert present(raw, [*found]) == found.keys()


def test_where_programs_write_the_values_only_shapes_count() -> None:
    raw = f'token = "{VALUE}"\nkey = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"\n'.encode()
    assert {leak.kind for leak in find_secrets(raw).values()} == {GIVEN, "a GitHub token"}
    assert {leak.kind for leak in find_secrets(raw, names=False).values()} == {"a GitHub token"}


def test_a_value_counts_once_under_the_name_of_its_shape() -> None:
    token = "npm_Zx81kQp0Vb7Tn2Lw9Rc4Hs6Zx81kQp0Vb7Tn2L3m"[:40]
    assert find_secrets(f"token = '{token}'\n{token}".encode()) == {token: Leak(1, "an npm token")}


# ---- The worker's own -----------------------------------------------------------------------------------------------

SECRET = "a plain pass-phrase, öffentlich nicht"


@pytest.mark.threat("T25", 123)
@given(st.binary(max_size=9), st.binary(max_size=9), st.booleans(), st.text(min_size=8))
def test_what_the_worker_knows_is_found_as_it_is_and_in_base64(
    before: bytes, after: bytes, url: bool, secret: str
) -> None:
    secret = "K" + secret.encode("utf-8", "replace").decode() + "."
    raw = before + secret.encode() + after
    coded = (base64.urlsafe_b64encode if url else base64.b64encode)(raw)
    own = encodings([secret])
    for file in (raw, b"\x00" + coded + b"\n"):
        assert OWN in {leak.kind for leak in find_secrets(file, own).values()}


def test_what_the_worker_knows_is_found_nowhere_else() -> None:
    own = encodings([SECRET])
    assert find_secrets(base64.b64encode(b"a plain pass-phrase, that is another one") + SECRET[:-1].encode(), own) == {}
    assert encodings([]) == ()


def test_a_secret_that_would_be_everywhere_is_not_sought() -> None:
    assert encodings(["", "  ", "x", "1234567"]) == ()
    assert encodings([" 12345678\n"])[0] == "12345678"


def test_values_are_also_found_where_they_look_like_nothing() -> None:
    assert present(b"x = f(b'\xff" + VALUE.encode() + b".')", [VALUE, "other"]) == {VALUE}
