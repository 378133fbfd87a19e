"""The folder that agents are given besides the tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import worker.git
from worker.debate.task import ChangedFile
from worker.git import GitRefused
from worker.git import brief as room
from worker.git.brief import brief, list_changes
from worker.git.mirror import Mirror

PROGRAM, LINK = "100755", "120000"


class Brief:
    """What `brief` made of two trees."""

    def __init__(self, files: tuple[ChangedFile, ...], folder: Path) -> None:
        self.files = {file.path: file for file in files}
        self.change = (folder / "change.diff").read_bytes()
        self.round = (folder / "round.diff").read_bytes()
        self.list = (folder / "files.txt").read_text()
        self.log = (folder / "log.txt").read_text()


@pytest.fixture
def make(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> Any:
    async def made(old: dict[bytes, Any], new: dict[bytes, Any]) -> Brief:
        base = source.commit(old)
        head = source.commit(new, base)
        await take(base, head)
        return Brief(await brief(mirror, base, head, tmp_path / "brief"), tmp_path / "brief")

    return made


async def test_four_files_say_what_the_change_is(make: Any) -> None:
    made = await make({b"a.py": b"1\n2\n"}, {b"a.py": b"1\n3\n4\n", b"b.py": b"new\n"})
    assert made.files == {
        "a.py": ChangedFile(status="M", path="a.py", size=6, added=2, removed=1),
        "b.py": ChangedFile(status="A", path="b.py", size=4, added=1),
    }
    assert (
        made.list == "M\ta.py\t6\tread\nA\tb.py\t4\tread\ntotal: 2 changed files, 10 bytes; 2 read, 0 cut, 0 skipped\n"
    )
    assert b"-2\n+3\n+4\n" in made.change
    assert made.round == b""
    assert re.fullmatch(r"[0-9a-f]{10} a commit\n", made.log)


async def test_the_last_round_has_a_diff_of_its_own(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    base = source.commit({b"a": b"1\n"})
    head = source.commit({b"a": b"2\n"}, base)
    tip = source.commit({b"a": b"3\n"}, head, message=b"fix: debate round 1\n\nbody\n")
    await take(base, head, tip)
    made = Brief(await brief(mirror, base, tip, tmp_path / "b", head), tmp_path / "b")
    assert b"-1\n+3\n" in made.change
    assert b"-2\n+3\n" in made.round
    assert [line.split(" ", 1)[1] for line in made.log.splitlines()] == ["fix: debate round 1", "a commit"]
    made = Brief(await brief(mirror, base, await mirror.tree(tip), tmp_path / "b", tip), tmp_path / "b")
    assert b"-1\n+3\n" in made.change
    assert made.round == b""
    assert made.log == ""


@pytest.mark.threat(103)
async def test_every_kind_of_change_has_its_line(make: Any) -> None:
    """Deletions, modes, renames, types."""
    same = b"same\n" * 9
    old = {
        b"gone": b"x\n",
        b"mode": b"m\n",
        b"from": same,
        b"type": b"t\n",
        b"edited": b"1\n",
        b"sub": ("160000", b"1" * 40),
    }
    new = {
        b"mode": (PROGRAM, b"m\n"),
        b"to": same,
        b"type": (LINK, b"mode"),
        b"edited": b"2\n",
        b"sub": ("160000", b"2" * 40),
    }
    made = await make(old, new)
    assert {path: (file.status, file.coverage) for path, file in made.files.items()} == {
        "gone": ("D", "read"),
        "mode": ("M", "read"),
        "to": ("R", "read"),
        "type": ("T", "read"),
        "edited": ("M", "read"),
        "sub": ("M", "read"),
    }
    assert made.files["gone"].size == 0
    assert b"rename from from\nrename to to\n" in made.change
    assert b"old mode 100644\nnew mode 100755\n" in made.change
    assert b"-Subproject commit 1111" in made.change


@pytest.mark.threat(103)
@pytest.mark.parametrize("new", [{b"a": b"1\n"}, {}, {b"a": (PROGRAM, b"1\n")}, {b"b": b"1\n"}])
async def test_the_smallest_changes_work(make: Any, new: dict[bytes, Any]) -> None:
    """Nothing, deletions only, mode only, rename only."""
    made = await make({b"a": b"1\n"}, new)
    assert len(made.files) == (0 if new == {b"a": b"1\n"} else 1)
    assert made.list.endswith("read, 0 cut, 0 skipped\n")


@pytest.mark.threat("T23", 82, 84)
@pytest.mark.parametrize("where", [b".gitattributes", b"src/.gitattributes"])
async def test_diff_hiding_attr(mirror: Mirror, source: Any, take: Any, tmp_path: Path, where: bytes) -> None:
    """Whatever the pull request says of its files, the reviewer is shown their text, in both diffs."""
    hiding = b"*.a -diff\n*.b binary\n*.c linguist-generated\n*.d diff=x\n*.e -text -diff\n*.f export-ignore\n"
    hiding += b"*.g working-tree-encoding=UTF-16\n*.h filter=x\n*.i linguist-vendored linguist-language=Text\n"
    names = [b"src/x.%c" % letter for letter in b"abcdefghi"]
    base = source.commit({where: hiding, **dict.fromkeys(names, b"old\n")})
    head = source.commit({where: hiding, **{name: b"payload in %s\n" % name for name in names}}, base)
    await take(base, head)
    made = Brief(await brief(mirror, base, head, tmp_path / "brief", base), tmp_path / "brief")
    for shown in (made.change, made.round):
        assert [line for line in shown.split(b"\n") if b"payload" in line] == [b"+payload in " + name for name in names]
    assert {file.coverage for file in made.files.values()} == {"read"}


async def test_what_is_not_text_is_skipped_and_says_why(make: Any) -> None:
    files = {b"uv.lock": b"v\n", b"pic.png": b"\x89PNG\0\0", b"u16.txt": "hi".encode("utf-16"), b"ok": b"fine\n"}
    made = await make({}, files)
    assert {path: (file.coverage, file.why) for path, file in made.files.items()} == {
        "uv.lock": ("skipped", "generated"),
        "pic.png": ("skipped", "binary"),
        "u16.txt": ("skipped", "binary"),
        "ok": ("read", ""),
    }
    assert made.files["uv.lock"].added == 1
    assert b"diff --git a/ok" in made.change
    assert b"diff --git a/pic" not in made.change
    assert b"[skipped: uv.lock (generated)]\n" in made.change
    assert "A\tuv.lock\t2\tskipped: generated\n" in made.list


async def test_a_file_that_is_not_utf8_is_text_byte_for_byte(make: Any) -> None:
    made = await make({b"a": b"caf\xe9\n"}, {b"a": b"th\xe9\r\n"})
    assert b"-caf\xe9\n+th\xe9\r\n" in made.change
    assert made.files["a"].coverage == "read"


@pytest.mark.threat(97)
async def test_large_diffs_are_cut_and_say_so(make: Any) -> None:
    """5 MB of diff, a line of 3 MB, a bundle."""
    files = {
        b"many": b"".join(b"line %d\n" % n for n in range(30_000)),
        b"one-line": b"x" * 3_000_000 + b"\nand one more\n",
        b"app.min.js": b"y" * 500_000,
        b"too-large": b"z\n" * 3_000_000,
        **{b"part%02d" % n: b"p%d\n" % n * 8_000 for n in range(12)},
        b"zz-small": b"s\n",
    }
    made = await make({}, files)
    why = {path: (file.coverage, file.why) for path, file in made.files.items()}
    assert why["many"] == ("cut", "at 40 kB")
    assert why["one-line"] == ("cut", "a line is too long")
    assert b"+and one more\n" in made.change
    of_line = 1 + 3_000_000 + 1 - room.LINE_BYTES  # a sign before it, and its end
    assert b"[cut: %d more bytes of the diff of one-line]\n" % of_line in made.change
    told = re.search(rb"\+line (\d+)\n\[cut: (\d+) more bytes of the diff of many\]\n", made.change)
    assert told
    assert int(told[2]) == sum(len(b"+line %d\n" % n) for n in range(int(told[1]) + 1, 30_000))
    assert why["app.min.js"] == ("skipped", "generated")
    assert why["too-large"] == ("skipped", "larger than 4 MB")
    assert why["zz-small"] == ("read", ""), "what is small finds room behind what is not"
    assert why["part00"] == ("read", "")
    assert why["part11"] == ("skipped", "beyond 200 kB of diff"), "no line of it was shown"
    assert len(made.change) < 210_000
    assert b"[skipped: part11 (beyond 200 kB of diff: +8000 -0)]\n" in made.change
    assert b"diff --git a/part11" not in made.change
    assert "A\tpart11\t32000\tskipped: beyond 200 kB of diff\n" in made.list
    assert max(map(len, made.change.split(b"\n"))) < 5_000


@pytest.mark.parametrize("first_fits", [True, False])
async def test_of_a_changed_type_the_half_that_fits_is_shown(
    make: Any, monkeypatch: pytest.MonkeyPatch, first_fits: bool
) -> None:
    """It comes as two parts; a file is skipped only where neither is in the diff."""
    text, target = b"t\n" * 9, b"x" * 400
    halves = (text, (LINK, target)) if first_fits else ((LINK, target), text)
    monkeypatch.setattr(room, "DIFF_BYTES", 400)
    made = await make({b"type": halves[0]}, {b"type": halves[1]})
    assert (made.files["type"].coverage, made.files["type"].why) == ("cut", "beyond 200 kB of diff")
    assert made.change.count(b"diff --git") == 1
    monkeypatch.setattr(room, "DIFF_BYTES", 40)
    made = await make({b"type": halves[0]}, {b"type": halves[1]})
    assert made.files["type"].coverage == "skipped"


async def test_many_skipped_files_do_not_fill_the_diff(make: Any) -> None:
    made = await make({}, {b"d%d/uv.lock" % n: b"%d" % n for n in range(300)} | {b"a": b"1\n"})
    assert made.change.count(b"[skipped") == room.NOTES
    assert b"[and 200 more: files.txt names them all]\n" in made.change
    assert b"+1\n" in made.change
    assert made.list.count("\n") == 302


@pytest.mark.threat(105)
async def test_missing_blobs_are_skipped(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    big = {b"big": bytes(21 * 1024 * 1024), b"a": b"1\n"}
    base = source.commit({b"a": b"0\n"})
    head = source.commit(big, base)
    await take(base, head)
    made = Brief(await brief(mirror, base, head, tmp_path / "b"), tmp_path / "b")
    assert (made.files["big"].coverage, made.files["big"].why) == ("skipped", "larger than 20 MB")
    assert b"-0\n+1\n" in made.change


@pytest.mark.threat(81, 101)
async def test_a_pointer_of_lfs_is_plain_text(make: Any) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12\n"
    attributes = {b".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n"}
    made = await make({**attributes, b"a.bin": pointer % (b"1" * 64)}, {**attributes, b"a.bin": pointer % (b"2" * 64)})
    assert b"+oid sha256:2222" in made.change


@pytest.mark.threat(93)
async def test_odd_names_are_shown_escaped(make: Any) -> None:
    names = [b"new\nline", b"esc\x1b[31m", "bidi\u202e".encode(), b"-x", b"latin\xe9", b"tab\t"]
    made = await make({}, {name: b"%s\n" % name.hex().encode() for name in names} | {b"uv.lock": b"x"})
    assert set(made.files) == {"new\\x0aline", "esc\\x1b[31m", "bidi\\u202e", "-x", "latin\\xe9", "tab\\x09", "uv.lock"}
    assert len(made.list.splitlines()) == 8
    assert "\x1b" not in made.list
    assert b"\x1b" not in made.change
    assert made.change.count(b"diff --git ") == 6


@pytest.mark.threat(104)
async def test_odd_commits_are_cut_and_cleaned(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    """A message of a megabyte, a name of ten kilobytes, invalid encodings."""
    tip = base = source.commit({b"a": b"0\n"})
    odd = [
        b"x" * 1_000_000,
        b"\x1b]0;title\x07 red\n\nbody",
        b"\xff\xfe caf\xe9",
        "bidi \u202e x".encode(),
        b"",
        b"\n\n",
    ]
    for number, message in enumerate(odd):
        name = b"\x1b[31m\xff " + b"n" * 10_000 + b" <a@b>"
        tip = source.commit({b"a": b"%d\n" % number}, tip, message=message, author=name)
    head = b"tree %s\nparent %s\nauthor a <b> 1 +0000\ncommitter a <b> 1 +0000\n"
    for encoding in (b"bogus", b"UTF-16"):
        fields = (source.tree({b"a": encoding}).encode(), tip.encode())
        tip = source.put("commit", head % fields + b"encoding " + encoding + b"\n\ncaf\xe9 \x07\n")
    await take(base, tip)
    made = Brief(await brief(mirror, base, tip, tmp_path / "b"), tmp_path / "b")
    lines = made.log.splitlines()
    assert len(lines) == len(odd) + 2
    assert max(map(len, lines)) <= 200
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", made.log)


@pytest.mark.threat(104)
async def test_a_subject_without_a_width_is_not_listed(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.git, "OUTPUT_CAP", 100_000)
    base = source.commit({b"a": b"0\n"})
    tip = source.commit({b"a": b"1\n"}, base, message=b"x" + "\u0301".encode() * 100_000)
    await take(base, tip)
    made = Brief(await brief(mirror, base, tip, tmp_path / "b"), tmp_path / "b")
    assert made.log == "[cut: the subjects of the commits are too long to be listed]\n"
    assert "+1" in made.change.decode()


async def test_a_long_log_is_cut(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOG_LINES", 3)
    tip = base = source.commit({b"a": b"0\n"})
    for number in range(5):
        tip = source.commit({b"a": b"%d\n" % number}, tip)
    await take(base, tip)
    made = Brief(await brief(mirror, base, tip, tmp_path / "b"), tmp_path / "b")
    assert made.log.splitlines()[-1] == "[cut: more than 3 commits]"
    assert len(made.log.splitlines()) == 4


@pytest.mark.threat(95)
async def test_a_change_that_cannot_be_listed_is_refused(
    mirror: Mirror, source: Any, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten million changed paths."""
    monkeypatch.setattr("worker.git.OUTPUT_CAP", 1_000_000)
    base = source.commit({})
    tree = source.tree_of([("100644", b"f%d" % n, source.put("blob", b"")) for n in range(100)])
    for _ in range(2):
        tree = source.tree_of([("40000", b"d%d" % n, tree) for n in range(10)])
    head = source.commit(tree, base)
    await take(base, head)
    with pytest.raises(GitRefused, match="changes more files than can be listed"):
        await list_changes(mirror, base, head)
