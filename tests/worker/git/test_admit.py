"""What of an author's result may enter git: the attacks, and the honest changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.git.conftest import Round
from worker.debate.flow import Refusal
from worker.git import RefMissing, entries, git
from worker.git import admit as room
from worker.git.admit import AdmitRules, Admitted, RoundRefused, admit
from worker.git.mirror import Mirror
from worker.git.tree import materialise


def path_of(folder: Path, name: bytes) -> Path:
    return folder / os.fsdecode(name)


async def test_an_untouched_folder_is_the_same_tree(round_: Round) -> None:
    """What was never written comes back byte for byte (decisions.md 2.5)."""
    admitted = await round_.admit()
    assert admitted == Admitted(await round_.mirror.tree(round_.commit), (), ())


@pytest.mark.threat(103)
async def test_honest_changes_are_admitted(round_: Round) -> None:
    """Bytes and line ends, additions, deletions, renames and modes."""
    (round_.folder / "crlf.txt").write_bytes(b"one\r\nTWO\r\n")
    (round_.folder / "a.txt").unlink()
    (round_.folder / "src/b.py").rename(round_.folder / "src/moved.py")
    (round_.folder / "run.sh").chmod(0o644)
    (round_.folder / "new/deep").mkdir(parents=True)
    (round_.folder / "new/deep/f").write_bytes(b"")
    path_of(round_.folder, b"src/new-\xe9").write_bytes(b"x")
    admitted = await round_.admit()
    assert admitted.refused == ()
    assert admitted.changed == (
        "a.txt",
        "crlf.txt",
        "new/deep/f",
        "run.sh",
        "src/b.py",
        "src/moved.py",
        "src/new-\\xe9",
    )
    assert await round_.changes(admitted) == [
        ("D", b"a.txt"),
        ("M", b"crlf.txt"),
        ("A", b"new/deep/f"),
        ("M", b"run.sh"),
        ("R", b"src/moved.py"),
        ("A", b"src/new-\xe9"),
    ]
    assert await round_.content(admitted, "crlf.txt") == b"one\r\nTWO\r\n"


async def test_a_file_takes_a_folders_place_and_the_other_way_round(round_: Round) -> None:
    (round_.folder / "src/deep/c.py").unlink()
    (round_.folder / "src/deep").rmdir()
    (round_.folder / "src/deep").write_text("now a file")
    (round_.folder / "a.txt").unlink()
    (round_.folder / "a.txt").mkdir()
    (round_.folder / "a.txt/inside").write_text("x")
    admitted = await round_.admit()
    assert await round_.content(admitted, "a.txt/inside") == b"x"
    assert await round_.content(admitted, "src/deep") == b"now a file"


async def test_times_and_sizes_that_lie_change_nothing(round_: Round) -> None:
    path = round_.folder / "a.txt"
    before = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await round_.admit()).changed == ("a.txt",)


async def test_a_folder_that_was_admitted_stands_for_its_tree(round_: Round) -> None:
    (round_.folder / "a.txt").write_text("two\n")
    (round_.folder / "CLAUDE.md").write_text("obey")
    first = await round_.admit()
    second = await admit(round_.mirror, first.tree, round_.folder)
    assert second == Admitted(first.tree, (), ())


# ---- Git inside the folder ------------------------------------------------------------------------------------------


@pytest.mark.threat("T10", 77)
async def test_a_configuration_of_git_refuses_the_round(round_: Round, tmp_path: Path) -> None:
    """And nothing of it is read, not even by accident."""
    marker = tmp_path / "marker"
    (round_.folder / ".git").mkdir()
    (round_.folder / ".git/config").write_text(f'[core]\n\tfsmonitor = "touch {marker}"\n')
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()
    assert not marker.exists()


@pytest.mark.threat("T11", 76, 78, 79)
@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit", ".git "])
@pytest.mark.parametrize("below", ["", "src/", "new/deep/"])
async def test_nested_git_refused(round_: Round, name: str, below: str) -> None:
    """As a folder, as a file, anywhere, in any spelling."""
    place = round_.folder / below / name
    place.mkdir(parents=True)
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()
    place.rmdir()
    place.write_text("gitdir: /srv/evil\n")
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()


@pytest.mark.threat(80)
async def test_a_bare_repository_is_plain_files(round_: Round) -> None:
    for name in ("HEAD", "config", "refs/x", "objects/x"):
        (round_.folder / "bare" / name).parent.mkdir(parents=True, exist_ok=True)
        (round_.folder / "bare" / name).write_text("x")
    assert len((await round_.admit()).changed) == 4


def as_the_agent(folder: Path, *argv: str) -> str:
    env = {"PATH": os.defpath, "HOME": str(folder)}
    env |= {f"GIT_{who}_{what}": "agent" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(
        ["git", *argv], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.threat(136)
async def test_commits_and_pushes_of_the_agent_have_no_effect(round_: Round, tmp_path: Path) -> None:
    """A repository of the agent's own refuses the round; once it is gone, all that was done with it is gone, too."""
    refs = await git(round_.mirror.path, "for-each-ref")
    (round_.folder / "a.txt").write_text("two\n")
    as_the_agent(tmp_path, "init", "-q", "--bare", "elsewhere.git")
    as_the_agent(round_.folder, "init", "-q", "-b", "main", ".")
    as_the_agent(round_.folder, "add", "a.txt")
    as_the_agent(round_.folder, "commit", "-q", "-m", "mine")
    as_the_agent(round_.folder, "remote", "add", "origin", str(tmp_path / "elsewhere.git"))
    as_the_agent(round_.folder, "push", "-q", "origin", "main")
    mine = as_the_agent(round_.folder, "rev-parse", "main")
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()
    shutil.rmtree(round_.folder / ".git")
    admitted = await round_.admit()
    assert await round_.changes(admitted) == [("M", b"a.txt")]
    assert await git(round_.mirror.path, "for-each-ref") == refs
    with pytest.raises(RefMissing):
        await round_.mirror.resolve(mine)


@pytest.mark.threat("T11", 86)
async def test_a_submodule_is_kept_and_never_changed(round_: Round) -> None:
    (round_.folder / "sub").mkdir()
    assert (await round_.admit()).changed == ()
    (round_.folder / "sub/f").write_text("x")
    with pytest.raises(RoundRefused, match="submodule"):
        await round_.admit()


# ---- Links, pipes and other tricks ----------------------------------------------------------------------------------


def swapped(name: str, target: str) -> Callable[[Path, Path], None]:
    def attack(folder: Path, outside: Path) -> None:
        (folder / name).rename(outside / "was-here")
        (folder / name).symlink_to(target)

    return attack


def swapped_itself(folder: Path, outside: Path) -> None:
    folder.rename(outside / "elsewhere")
    folder.symlink_to(outside / "elsewhere")


def linked_from_outside(folder: Path, outside: Path) -> None:
    (outside / "file").write_text("a secret of somebody else")
    os.link(outside / "file", folder / "inside")


def made_a_pipe(folder: Path, outside: Path) -> None:
    (folder / "a.txt").unlink()
    os.mkfifo(folder / "a.txt")


def made_a_socket(folder: Path, outside: Path) -> None:
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as made:
        made.bind("s")


ATTACKS: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "a file for a link to a secret": (swapped("a.txt", "/proc/self/environ"), "a.txt was made or changed into a link"),
    "a file for a link into the tree": (swapped("a.txt", "run.sh"), "a.txt was made or changed into a link"),
    "a link for another": (swapped("link", "../x"), "link was made or changed into a link"),
    "a folder for a link": (swapped("src", "/etc"), "src was made or changed into a link"),
    "the whole folder for a link": (swapped_itself, "cannot be read: Not a directory"),
    "a hard link to a file outside": (linked_from_outside, "inside has a second name"),
    "a hard link within": (lambda folder, _: os.link(folder / "a.txt", folder / "b.txt"), "has a second name"),
    "a pipe for a file": (made_a_pipe, "a.txt is neither a file nor a folder"),
    "a socket": (made_a_socket, "s is neither a file nor a folder"),
}


@pytest.mark.threat("T12", 89, 90, 91)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_import_attacks(round_: Round, tmp_path: Path, attack: str) -> None:
    """Whatever stands in a file's place: the round is refused, nothing is read through it, and nobody waits for it."""
    make, words = ATTACKS[attack]
    (tmp_path / "outside").mkdir()
    objects = await git(round_.mirror.path, "count-objects", "-v")
    make(round_.folder, tmp_path / "outside")
    with pytest.raises(RoundRefused, match=words):
        await round_.admit()
    assert await git(round_.mirror.path, "count-objects", "-v") == objects


@pytest.mark.threat(87)
async def test_a_link_that_was_there_may_stay_or_go_but_not_change(round_: Round) -> None:
    (round_.folder / "link").unlink()
    assert (await round_.admit()).changed == ("link",)
    (round_.folder / "link").symlink_to("a.txt")
    with pytest.raises(RoundRefused, match="link was made or changed"):
        await round_.admit()


async def test_a_link_that_became_a_file_is_a_file(round_: Round) -> None:
    (round_.folder / "link").unlink()
    (round_.folder / "link").write_text("text\n")
    admitted = await round_.admit()
    assert await round_.changes(admitted) == [("T", b"link")]


@pytest.mark.threat("T12", 87)
async def test_the_stand_in_of_a_link_is_put_back(round_: Round) -> None:
    """Decisions 2.5: the small file that stands for a link out of the tree comes back as that link."""
    stand_in = round_.folder / "out"
    assert stand_in.read_text() == "/etc/passwd"
    stand_in.write_text("/etc/shadow")
    stand_in.chmod(0o755)
    (round_.folder / "a.txt").write_text("two\n")
    admitted = await round_.admit()
    assert admitted.changed == ("a.txt",)
    assert admitted.refused == (Refusal("out", room.LINKED),)
    assert stand_in.read_text() == "/etc/passwd"
    assert b"120000 blob" in await git(round_.mirror.path, "ls-tree", admitted.tree, "out")
    stand_in.unlink()
    assert (await round_.admit()).changed == ("a.txt", "out")


@pytest.mark.threat("T12", 91)
@pytest.mark.parametrize("folder", ["", "/dev"])
async def test_what_comes_between_does_not_hold_us(round_: Round, folder: str) -> None:
    """What the listing calls a file is looked at again once it is open: a pipe that nobody writes to, or a device."""
    os.mkfifo(round_.folder / "null")
    walk = room._Walk(await entries.plan(round_.mirror, round_.commit), AdmitRules(), room._Found())
    here = os.open(folder or round_.folder, os.O_RDONLY)
    try:
        with pytest.raises(RoundRefused, match="null is neither a file nor a folder"):
            room._look_at_file(walk, here, b"null", None)
    finally:
        os.close(here)


@pytest.mark.threat(134)
async def test_odd_modes_become_plain_ones(round_: Round) -> None:
    """Set-uid, sticky, group and other bits, and extended attributes where the disk has them, never reach git."""
    (round_.folder / "a.txt").chmod(0o6644)
    (round_.folder / "src/b.py").chmod(0o7777)
    (round_.folder / "new").write_text("x")
    (round_.folder / "new").chmod(0o4711)
    with contextlib.suppress(OSError):
        os.setxattr(round_.folder / "new", "user.trap", b"x")
    admitted = await round_.admit()
    assert admitted.changed == ("new", "src/b.py")
    listed = await git(round_.mirror.path, "ls-tree", "-r", admitted.tree)
    assert {line[:6] for line in listed.splitlines()} == {b"100644", b"100755", b"120000", b"160000"}


# ---- Names ----------------------------------------------------------------------------------------------------------


@pytest.mark.threat(93)
@pytest.mark.parametrize("name", ["new\nline", "esc\x1b[31m", "tab\t", "del\x7f"])
async def test_a_new_name_with_control_characters_refuses_the_round(round_: Round, name: str) -> None:
    """Decisions 2.5."""
    (round_.folder / name).write_text("x")
    with pytest.raises(RoundRefused, match="control characters") as caught:
        await round_.admit()
    assert caught.value.reason.isprintable()


@pytest.mark.threat("T11", 76)
async def test_a_name_that_only_git_knows_as_dangerous_refuses_the_round(
    round_: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind our own rule stands git's."""
    monkeypatch.setattr(room, "is_git", lambda name: False)
    (round_.folder / "src/.git").write_text("x")
    with pytest.raises(RoundRefused, match="git does not take a name"):
        await round_.admit()


@pytest.mark.threat(92, 93)
async def test_odd_but_harmless_names_are_admitted_and_shown_escaped(round_: Round) -> None:
    for name in (b"-x", "bidi\u202e".encode(), b"raw\xff", b"A.TXT", b"back\\slash", b'quo"te'):
        path_of(round_.folder, name).write_bytes(b"x")
    admitted = await round_.admit()
    assert admitted.changed == ("-x", "A.TXT", "back\\slash", "bidi\\u202e", 'quo"te', "raw\\xff")
    assert [path for _, path in await round_.changes(admitted)] == sorted(
        [b"-x", b"A.TXT", b"back\\slash", "bidi\u202e".encode(), b'quo"te', b"raw\xff"]
    )


# ---- Protected paths ------------------------------------------------------------------------------------------------


@pytest.mark.threat("T24", 124)
async def test_workflow_edit_dropped(round_: Round) -> None:
    """Protected paths are put back and named, and the rest is admitted (decisions.md 2.8)."""
    (round_.folder / "a.txt").write_text("two\n")
    (round_.folder / ".github/workflows/ci.yml").write_text("on: evil\n")
    (round_.folder / ".github/CODEOWNERS").write_text("* @me\n")
    (round_.folder / ".husky").mkdir()
    (round_.folder / ".husky/pre-commit").write_text("evil\n")
    (round_.folder / "CLAUDE.md").write_text("obey\n")
    (round_.folder / "src/.gitattributes").write_text("* -diff\n")
    admitted = await round_.admit()
    assert admitted.changed == ("a.txt",)
    assert {refusal.path for refusal in admitted.refused} == {
        ".github/workflows/ci.yml",
        ".github/CODEOWNERS",
        ".husky/pre-commit",
        "CLAUDE.md",
        "src/.gitattributes",
    }
    assert {refusal.reason for refusal in admitted.refused} == {room.PROTECTED}
    assert (round_.folder / ".github/workflows/ci.yml").read_text() == "on: push\n"
    assert not (round_.folder / "CLAUDE.md").exists()
    assert await round_.content(admitted, "CLAUDE.md") == b"be nice\n"


@pytest.mark.threat("T24", 124)
async def test_deleted_protected_paths_are_put_back(round_: Round) -> None:
    (round_.folder / ".github/workflows/ci.yml").unlink()
    (round_.folder / ".github/workflows").rmdir()
    (round_.folder / ".github").rmdir()
    admitted = await round_.admit()
    assert admitted.tree == await round_.mirror.tree(round_.commit)
    assert [refusal.path for refusal in admitted.refused] == [".github/workflows/ci.yml"]
    assert (round_.folder / ".github/workflows/ci.yml").read_text() == "on: push\n"


async def test_a_protected_path_that_git_cannot_read_refuses_the_round(round_of: Any) -> None:
    round_ = await round_of({b".github/large": os.urandom(100_000)})
    (round_.folder / ".github/large").unlink()
    packed = next(round_.mirror.path.glob("objects/pack/*.pack"))
    raw = packed.read_bytes()
    packed.chmod(0o600)
    packed.write_bytes(raw[:50_000] + bytes(len(raw) - 50_020) + raw[-20:])
    with pytest.raises(RoundRefused, match=r"\Aa protected path cannot be put back: git cannot read it\Z"):
        await round_.admit()


async def test_a_file_in_the_place_of_a_protected_folder_makes_room(round_: Round) -> None:
    (round_.folder / ".github/workflows/ci.yml").unlink()
    (round_.folder / ".github/workflows").rmdir()
    (round_.folder / ".github/workflows").write_text("x")
    admitted = await round_.admit()
    assert admitted.changed == ()
    assert (round_.folder / ".github/workflows/ci.yml").read_text() == "on: push\n"


@pytest.mark.threat("T24")
async def test_the_repositorys_own_rules_hold_too(round_: Round) -> None:
    (round_.folder / "src/b.py").write_text("b = 2\n")
    (round_.folder / "link").unlink()
    (round_.folder / "a.txt").write_text("two\n")
    admitted = await round_.admit(protect=("src/**", "link"))
    assert admitted.changed == ("a.txt",)
    assert [refusal.path for refusal in admitted.refused] == ["link", "src/b.py"]
    assert (round_.folder / "link").readlink() == Path("src/b.py")


# ---- Budgets --------------------------------------------------------------------------------------------------------


@pytest.mark.threat(133, 135)
@pytest.mark.parametrize("kind", ["changed", "new", "tiny ones in many folders"])
async def test_too_many_changed_files_refuse_the_round(round_of: Any, kind: str) -> None:
    """A fix that touches five hundred files is none; as many as a pull request may have that starts by itself pass."""
    files = {b"d%02d/f%d" % (number % 50, number): b"%d\n" % number for number in range(500)}
    round_ = await round_of(files)
    where = {"changed": "d{0:02}/f{1}", "new": "n{1}", "tiny ones in many folders": "t{1}/f"}[kind]
    places = [round_.folder / where.format(number % 50, number) for number in range(500)]
    for place in places[:300]:
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
    assert len((await round_.admit()).changed) == 300
    for place in places[300:]:
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
    with pytest.raises(RoundRefused, match="more than 400 files"):
        await round_.admit()


async def test_too_many_removed_files_refuse_the_round(round_: Round) -> None:
    for path in list(round_.folder.iterdir()):
        if path.is_file():
            path.unlink()
    with pytest.raises(RoundRefused, match="more than 2 files"):
        await round_.admit(max_files=2)


@pytest.mark.threat(131)
async def test_too_many_bytes_refuse_the_round(round_: Round) -> None:
    """A sparse file of a terabyte is not read."""
    with (round_.folder / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RoundRefused, match="more than 20 MiB"):
        await round_.admit()


@pytest.mark.threat(96)
async def test_too_many_and_too_deep_folders_refuse_the_round(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = round_.folder.joinpath(*["d"] * 64)
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    assert len((await round_.admit()).changed) == 1
    (deep / "e").mkdir()
    with pytest.raises(RoundRefused, match="too deep"):
        await round_.admit()
    monkeypatch.setattr(room, "MAX_NEW_FOLDERS", 3)
    with pytest.raises(RoundRefused, match="too many folders"):
        await round_.admit()


async def test_a_file_that_cannot_be_read_refuses_the_round(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(room, "open_folder", deny)
    with pytest.raises(RoundRefused, match="cannot be read: Permission denied"):
        await round_.admit()


# ---- Trees that were not written whole ------------------------------------------------------------------------------


@pytest.mark.threat(105)
async def test_a_missing_blob_stays_where_it_is(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    commit = await take(source.commit({b"d/big": bytes(21 * 1024 * 1024), b"d/a": b"1\n"}))
    round_ = Round(mirror, commit, tmp_path / "tree")
    await materialise(mirror, commit, round_.folder)
    (round_.folder / "d/a").write_text("2\n")
    (round_.folder / "d/big").write_text("small now\n")
    admitted = await round_.admit()
    assert admitted.changed == ("d/a",)
    assert admitted.refused == (Refusal("d/big", room.UNSEEN),)
    assert [path for _, path in await round_.changes(admitted)] == [b"d/a"]


@pytest.mark.threat("T24")
async def test_a_file_cannot_take_the_place_of_a_folder_that_was_not_given_whole(round_of: Any) -> None:
    """With the folder, what the author never saw of it would go."""
    round_ = await round_of({b"d/CLAUDE.md": b"be nice\n", b"d/a": b"1\n"})
    shutil.rmtree(round_.folder / "d")
    (round_.folder / "d").write_text("x")
    with pytest.raises(RoundRefused, match=r"^d stands in the place of what was not given to the author$"):
        await round_.admit()


@pytest.fixture
def narrowed(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[bytes, Any]], Awaitable[tuple[Round, str]]]:
    """Return how a round begins of whose four folders and more the author is given only one, with its base."""
    monkeypatch.setattr(entries, "MAX_ENTRIES", 8)

    async def begin(more: dict[bytes, Any]) -> tuple[Round, str]:
        files = {b"d%d/f%d" % (folder, n): b"%d\n" % n for folder in range(4) for n in range(3)} | more
        base = source.commit(files)
        head = source.commit(files | {b"d1/f0": b"changed\n"}, base)
        await take(base, head)
        await materialise(mirror, head, tmp_path / "tree", base=base)
        return Round(mirror, head, tmp_path / "tree"), base

    return begin


async def test_a_narrowed_tree_keeps_what_was_not_written(mirror: Mirror, narrowed: Any) -> None:
    """Decisions 2.3."""
    round_, base = await narrowed({})
    assert sorted(path.name for path in round_.folder.iterdir()) == ["d1"]
    (round_.folder / "d1/f1").unlink()
    (round_.folder / "d1/f2").write_text("edited\n")
    (round_.folder / "d3").mkdir()
    (round_.folder / "d3/f0").write_text("0\n")  # as it is in the tree
    (round_.folder / "d3/f1").write_text("not what it was\n")
    admitted = await round_.admit(base=base)
    assert admitted.changed == ("d1/f1", "d1/f2")
    assert admitted.refused == (Refusal("d3/f1", "was not given to the author: it was left as it is"),)
    assert await round_.changes(admitted) == [("D", b"d1/f1"), ("M", b"d1/f2")]
    for path in ("d2", "d3/f2/below"):
        await materialise(mirror, round_.commit, round_.folder, base=base)
        (round_.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (round_.folder / path).write_text("in the way\n")
        with pytest.raises(RoundRefused, match="stands in the place of what was not given to the author"):
            await round_.admit(base=base)


@pytest.mark.threat(85, 125)
async def test_a_round_that_leaves_more_than_a_turn_can_be_given_is_refused(narrowed: Any) -> None:
    """In a narrowed tree each folder that the author adds a file to comes whole into the next turn's tree."""
    round_, base = await narrowed({})
    for number in (2, 3):
        (round_.folder / f"d{number}").mkdir()
        (round_.folder / f"d{number}/new").write_text("x\n")
        if number == 2:
            assert (await round_.admit(base=base)).changed == ("d2/new",)
    with pytest.raises(
        RoundRefused, match="the next turn could not be given what it leaves: the folders of its changed"
    ):
        await round_.admit(base=base)


@pytest.mark.threat("T11", "T12", 86, 87, 89)
async def test_in_a_narrowed_tree_nothing_is_written_over_unseen(mirror: Mirror, narrowed: Any) -> None:
    files = {b"lib/link": ("120000", b"d0"), b"ln": ("120000", b"d0"), b"lib/secret.py": b"s\n"}
    round_, base = await narrowed(files | {b"vendor": ("160000", b"1" * 40), b"lib/sub": ("160000", b"2" * 40)})
    (round_.folder / "lib").mkdir()
    for path in ("lib/link", "lib/secret.py", "ln"):
        (round_.folder / path).write_text("written over\n")
    (round_.folder / "d1/f1").write_text("edited\n")
    admitted = await round_.admit(base=base)
    assert await round_.changes(admitted) == [("M", b"d1/f1")]
    assert [each.path for each in admitted.refused] == ["lib/link", "lib/secret.py", "ln"]
    assert not (round_.folder / "lib/secret.py").exists()
    for path in ("vendor", "lib/sub"):
        await materialise(mirror, round_.commit, round_.folder, base=base)
        (round_.folder / path).parent.mkdir(exist_ok=True)
        (round_.folder / path).write_text("in its place\n")
        with pytest.raises(RoundRefused, match="in the place of a submodule"):
            await round_.admit(base=base)


@pytest.mark.threat(93)
async def test_a_path_that_the_next_turn_could_not_hold_refuses_the_round(round_: Round) -> None:
    folder = round_.folder
    for _ in range(13):
        folder /= "x" * 240
        folder.mkdir()
    (folder / "a").write_text("a\n")
    with pytest.raises(RoundRefused, match="is too long for many disks"):
        await round_.admit()
