"""Secrets in an author's result: what refuses the round, and what stood there before."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.worker.git.conftest import Round
from worker.git import admit as room
from worker.git import git
from worker.git.admit import AdmitRules, RoundRefused

TOKEN = "ghs_123_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjMifQ.c2lnbmF0dXJl-with_dashes"
"""An installation token in the form that GitHub gives since 2026."""
CLASSIC = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
VALUE = "Zx81kQp0Vb7Tn2Lw9Rc4Hs6"
OWN = "the webhook's own: not a shape"


@pytest.mark.threat("T25", 123)
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (f"one\n\nkey = '{TOKEN}'\n", "line 3 holds what looks like a GitHub token"),
        (f"one\n{CLASSIC}", "line 2 holds what looks like a GitHub token"),
        (f"password: {VALUE}\n", "line 1 holds what looks like a password, key or token"),
        (f"see {OWN}\n", "line 1 holds what looks like a credential of codex-debate itself"),
        (base64.b64encode(f"xx{OWN}".encode()), "line 1 holds what looks like a credential of codex-debate itself"),
        (b"\x89PNG\0\xff\n" + TOKEN.encode() + b"\0", "line 2 holds what looks like a GitHub token"),
    ],
)
@pytest.mark.parametrize("path", ["a.txt", "src/new.py", "uv.lock"])
async def test_token_in_commit(round_: Round, raw: str | bytes, words: str, path: str) -> None:
    """A changed or a new file, text or not: the whole round is refused, in words that do not tell the secret."""
    objects = await git(round_.mirror.path, "count-objects", "-v")
    (round_.folder / "run.sh").write_text("honest\n")
    (round_.folder / path).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    if path == "uv.lock" and "password" in words:
        assert len((await round_.admit(secrets=(OWN,))).changed) == 2, "a program gives names to what it draws"
        return
    with pytest.raises(RoundRefused) as caught:
        await round_.admit(secrets=(OWN,))
    assert caught.value.reason == f"`{path}` {words}"
    assert await git(round_.mirror.path, "count-objects", "-v") == objects


@pytest.mark.threat("T25")
async def test_a_token_in_a_name_refuses_the_round(round_: Round) -> None:
    (round_.folder / CLASSIC).write_text("")
    with pytest.raises(RoundRefused) as caught:
        await round_.admit()
    assert caught.value.reason == "the name of a changed file holds what looks like a GitHub token"


async def test_a_name_cannot_leave_its_quotation_marks(round_: Round) -> None:
    (round_.folder / "a`b").write_text(TOKEN)
    with pytest.raises(RoundRefused, match=r"^`a'b` line 1 holds"):
        await round_.admit()


def test_what_the_worker_knows_is_not_printed() -> None:
    assert OWN not in repr(AdmitRules(secrets=(OWN,)))


# ---- What stood there before ----------------------------------------------------------------------------------------

HELD = {
    b"tests/key.txt": f"a\n{TOKEN}\n".encode(),
    b"tests/more.py": f"x = '{VALUE}'\npassword = '{VALUE[::-1]}'\n".encode(),
    b"keys/" + CLASSIC.encode(): b"one\n",
    b"other.py": b"x = 1\n",
    b"sub": ("160000", b"1" * 40),
}


@pytest.mark.threat("T25", 123)
async def test_a_secret_that_stood_there_is_no_news(round_of: Any) -> None:
    """Edited around, moved, split over files, and given to a name: the author has not brought it."""
    round_ = await round_of(HELD)
    (round_.folder / "tests/key.txt").write_text(f"first\na\nkey = '{TOKEN}'\n")
    (round_.folder / "tests/more.py").rename(round_.folder / "moved.py")
    (round_.folder / "moved.py").write_text(f"token = '{VALUE}'\n")
    (round_.folder / "split.py").write_text(f"password = '{VALUE[::-1]}'\n")
    (round_.folder / f"keys/{CLASSIC}").rename(round_.folder / f"tests/{CLASSIC}")
    assert len((await round_.admit()).changed) == 6


@pytest.mark.threat("T25", 123)
async def test_a_secret_that_stands_elsewhere_is_news_here(round_of: Any) -> None:
    """Only what the round changes or removes is where a text may come from."""
    round_ = await round_of(HELD)
    (round_.folder / "other.py").write_text(f"key = '{TOKEN}'\n")
    with pytest.raises(RoundRefused, match=r"^`other\.py` line 1 holds what looks like a GitHub token$"):
        await round_.admit()


async def test_a_second_secret_beside_an_old_one_is_news(round_of: Any) -> None:
    round_ = await round_of(HELD)
    (round_.folder / "tests/key.txt").write_text(f"a\n{TOKEN}\n{TOKEN[:-1]}X\n{CLASSIC}\n")
    with pytest.raises(RoundRefused, match=r"^`tests/key\.txt` line 3 holds"):
        await round_.admit()


async def test_a_moved_file_of_many_secrets_is_no_news(round_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; only what is sought besides, where it looks like nothing, has a limit."""
    monkeypatch.setattr(room, "MAX_SOUGHT", 2)
    many = "".join(f"{CLASSIC[:-4]}{number:04}\n" for number in range(300))
    plain = "".join(f"y{number} = '{VALUE}{number}'\n" for number in range(3))
    round_ = await round_of({b"many": many.encode(), b"plain": plain.encode()})
    (round_.folder / "many").rename(round_.folder / "moved")
    assert len((await round_.admit()).changed) == 2
    (round_.folder / "plain").write_text(plain.replace("y0", "token").replace("y1", "token"))
    assert len((await round_.admit()).changed) == 3
    (round_.folder / "plain").write_text(plain.replace("y", "token"))
    with pytest.raises(RoundRefused, match=r"^`plain` line 3 holds"):
        await round_.admit()


async def test_what_is_too_large_to_be_looked_through_holds_nothing(
    round_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_OLD_BYTES", 100)
    round_ = await round_of({b"small": TOKEN.encode(), b"large": TOKEN.encode() + bytes(100)})
    (round_.folder / "small").write_text(f"{TOKEN} ")
    assert len((await round_.admit()).changed) == 1
    (round_.folder / "large").write_text(f"{CLASSIC} {TOKEN}")
    with pytest.raises(RoundRefused, match=r"^`large` line 1 holds"):
        await round_.admit()
