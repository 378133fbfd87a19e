"""What of an author's result may enter git: the attacks, and the honest changes."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from worker.debate.flow import Refusal
from worker.git import admit as room
from worker.git import entries, git
from worker.git.admit import AdmitRules, Admitted, RoundRefused, admit
from worker.git.brief import list_changes
from worker.git.mirror import Mirror
from worker.git.tree import materialise

PROGRAM, LINK, GITLINK = "100755", "120000", "160000"
FILES: dict[bytes, Any] = {
    b"a.txt": b"one\n",
    b"crlf.txt": b"one\r\ntwo\r\n",
    b"run.sh": (PROGRAM, b"#!/bin/sh\n"),
    b"src/b.py": b"b = 1\n",
    b"src/deep/c.py": b"c = 1\n",
    b"link": (LINK, b"src/b.py"),
    b"out": (LINK, b"/etc/passwd"),
    b"sub": (GITLINK, b"1" * 40),
    b"CLAUDE.md": b"be nice\n",
    b".claude/settings.json": b"{}\n",
    b".github/workflows/ci.yml": b"on: push\n",
    b"bad\nname": b"kept\n",
    b"src/latin-\xe9": b"caf\xe9\n",
}


def path_of(folder: Path, name: bytes) -> Path:
    return folder / os.fsdecode(name)


class Round:
    """A materialised tree that an author works on."""

    def __init__(self, mirror: Mirror, commit: str, folder: Path) -> None:
        self.mirror = mirror
        self.commit = commit
        self.folder = folder

    async def admit(self, **rules: Any) -> Admitted:
        return await admit(self.mirror, self.commit, self.folder, AdmitRules(**rules))

    async def changes(self, admitted: Admitted) -> list[tuple[str, bytes]]:
        """Return what git says that was changed."""
        return [(c.status, c.path) for c in await list_changes(self.mirror, self.commit, admitted.tree)]

    async def content(self, admitted: Admitted, path: str) -> bytes:
        return await git(self.mirror.path, "cat-file", "blob", f"{admitted.tree}:{path}")


@pytest.fixture
async def round_(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> Round:
    commit = await take(source.commit(FILES))
    await materialise(mirror, commit, tmp_path / "tree")
    return Round(mirror, commit, tmp_path / "tree")


async def test_an_untouched_folder_is_the_same_tree(round_: Round) -> None:
    """What was never written comes back byte for byte (decisions.md 2.5)."""
    admitted = await round_.admit()
    assert admitted == Admitted(await round_.mirror.tree(round_.commit), (), ())


async def test_honest_changes_are_admitted(round_: Round) -> None:
    """Input 103 and CRLF: bytes, additions, deletions, renames and modes."""
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


async def test_a_configuration_of_git_refuses_the_round(round_: Round, tmp_path: Path) -> None:
    """Input 77: and nothing of it is read, not even by accident."""
    marker = tmp_path / "marker"
    (round_.folder / ".git").mkdir()
    (round_.folder / ".git/config").write_text(f'[core]\n\tfsmonitor = "touch {marker}"\n')
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()
    assert not marker.exists()


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit", ".git "])
@pytest.mark.parametrize("below", ["", "src/"])
async def test_a_repository_inside_refuses_the_round(round_: Round, name: str, below: str) -> None:
    """Inputs 76, 78 and 79, threat T11: as a folder, as a file, anywhere, in any spelling."""
    place = round_.folder / below / name
    place.mkdir()
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()
    place.rmdir()
    place.write_text("gitdir: /work/evil\n")
    with pytest.raises(RoundRefused, match="a repository inside the repository"):
        await round_.admit()


async def test_a_bare_repository_is_plain_files(round_: Round) -> None:
    """Input 80."""
    for name in ("HEAD", "config", "refs/x", "objects/x"):
        (round_.folder / "bare" / name).parent.mkdir(parents=True, exist_ok=True)
        (round_.folder / "bare" / name).write_text("x")
    assert len((await round_.admit()).changed) == 4


async def test_commits_of_the_agent_have_no_effect(round_: Round) -> None:
    """Input 136: a repository of its own is refused; without one, `git` has nothing to commit to."""
    assert (await round_.admit()).tree == await round_.mirror.tree(round_.commit)
    assert b"refs/run" in await git(round_.mirror.path, "for-each-ref")


async def test_a_submodule_is_kept_and_never_changed(round_: Round) -> None:
    """Input 86."""
    (round_.folder / "sub").mkdir()
    assert (await round_.admit()).changed == ()
    (round_.folder / "sub/f").write_text("x")
    with pytest.raises(RoundRefused, match="submodule"):
        await round_.admit()


# ---- Links, pipes and other tricks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/proc/self/environ", "/etc/passwd", "src/b.py", "../x", "run.sh"])
async def test_a_file_swapped_for_a_link_refuses_the_round(round_: Round, target: str) -> None:
    """Input 89."""
    (round_.folder / "a.txt").unlink()
    (round_.folder / "a.txt").symlink_to(target)
    with pytest.raises(RoundRefused, match=r"a\.txt was made or changed into a link"):
        await round_.admit()


async def test_a_folder_swapped_for_a_link_refuses_the_round(round_: Round) -> None:
    """Input 90."""
    (round_.folder / "src").rename(round_.folder / "elsewhere")
    (round_.folder / "src").symlink_to("/etc")
    with pytest.raises(RoundRefused, match="src was made or changed into a link"):
        await round_.admit()


async def test_the_folder_itself_swapped_for_a_link_refuses_the_round(round_: Round, tmp_path: Path) -> None:
    round_.folder.rename(tmp_path / "elsewhere")
    round_.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RoundRefused):
        await round_.admit()


async def test_a_link_that_was_there_may_stay_or_go_but_not_change(round_: Round) -> None:
    """Input 87."""
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


async def test_a_hard_link_refuses_the_round(round_: Round, tmp_path: Path) -> None:
    """Input 91."""
    (tmp_path / "outside").write_text("secret")
    os.link(tmp_path / "outside", round_.folder / "inside")
    with pytest.raises(RoundRefused, match="inside has a second name"):
        await round_.admit()


async def test_a_pipe_refuses_the_round_and_nobody_waits(round_: Round) -> None:
    """Input 91."""
    os.mkfifo(round_.folder / "src/pipe")
    with pytest.raises(RoundRefused, match="src/pipe is neither a file nor a folder"):
        await round_.admit()


async def test_a_socket_refuses_the_round(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 91."""
    monkeypatch.chdir(round_.folder)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    with pytest.raises(RoundRefused, match="s is neither a file nor a folder"):
        await round_.admit()


async def test_a_pipe_that_comes_between_does_not_hold_us(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 91: what the listing calls a file is looked at again once it is open."""
    os.mkfifo(round_.folder / "pipe")
    walk = room._Walk(await entries.plan(round_.mirror, round_.commit), AdmitRules(), room._Found())
    here = os.open(round_.folder, os.O_RDONLY)
    try:
        with pytest.raises(RoundRefused, match="pipe is neither"):
            room._look_at_file(walk, here, b"pipe", None)
    finally:
        os.close(here)


async def test_odd_modes_become_plain_ones(round_: Round) -> None:
    """Input 134: set-uid, sticky, group and other bits."""
    (round_.folder / "a.txt").chmod(0o6644)
    (round_.folder / "src/b.py").chmod(0o7777)
    (round_.folder / "new").write_text("x")
    (round_.folder / "new").chmod(0o4711)
    admitted = await round_.admit()
    assert admitted.changed == ("new", "src/b.py")
    listed = await git(round_.mirror.path, "ls-tree", "-r", admitted.tree)
    assert {line[:6] for line in listed.splitlines()} == {b"100644", b"100755", b"120000", b"160000"}


# ---- Names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new\nline", "esc\x1b[31m", "tab\t", "del\x7f"])
async def test_a_new_name_with_control_characters_refuses_the_round(round_: Round, name: str) -> None:
    """Input 93, decisions 2.5."""
    (round_.folder / name).write_text("x")
    with pytest.raises(RoundRefused, match="control characters") as caught:
        await round_.admit()
    assert caught.value.reason.isprintable()


async def test_a_name_that_only_git_knows_as_dangerous_refuses_the_round(
    round_: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 76: behind our own rule stands git's."""
    monkeypatch.setattr(room, "is_git", lambda name: False)
    (round_.folder / "src/.git").write_text("x")
    with pytest.raises(RoundRefused, match="git does not take a name"):
        await round_.admit()


async def test_odd_but_harmless_names_are_admitted_and_shown_escaped(round_: Round) -> None:
    """Inputs 92 and 93."""
    for name in (b"-x", "bidi\u202e".encode(), b"raw\xff", b"A.TXT", b"back\\slash", b'quo"te'):
        path_of(round_.folder, name).write_bytes(b"x")
    admitted = await round_.admit()
    assert admitted.changed == ("-x", "A.TXT", "back\\slash", "bidi\\u202e", 'quo"te', "raw\\xff")
    assert [path for _, path in await round_.changes(admitted)] == sorted(
        [b"-x", b"A.TXT", b"back\\slash", "bidi\u202e".encode(), b'quo"te', b"raw\xff"]
    )


# ---- Protected paths ------------------------------------------------------------------------------------------------


async def test_protected_paths_are_put_back_and_the_rest_is_admitted(round_: Round) -> None:
    """Input 124, decisions 2.8."""
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


async def test_deleted_protected_paths_are_put_back(round_: Round) -> None:
    (round_.folder / ".github/workflows/ci.yml").unlink()
    (round_.folder / ".github/workflows").rmdir()
    (round_.folder / ".github").rmdir()
    admitted = await round_.admit()
    assert admitted.tree == await round_.mirror.tree(round_.commit)
    assert [refusal.path for refusal in admitted.refused] == [".github/workflows/ci.yml"]
    assert (round_.folder / ".github/workflows/ci.yml").read_text() == "on: push\n"


async def test_a_file_in_the_place_of_a_protected_folder_makes_room(round_: Round) -> None:
    (round_.folder / ".github/workflows/ci.yml").unlink()
    (round_.folder / ".github/workflows").rmdir()
    (round_.folder / ".github/workflows").write_text("x")
    admitted = await round_.admit()
    assert admitted.changed == ()
    assert (round_.folder / ".github/workflows/ci.yml").read_text() == "on: push\n"


async def test_the_repositorys_own_rules_hold_too(round_: Round) -> None:
    (round_.folder / "src/b.py").write_text("b = 2\n")
    (round_.folder / "link").unlink()
    (round_.folder / "a.txt").write_text("two\n")
    admitted = await round_.admit(protect=("src/**", "link"))
    assert admitted.changed == ("a.txt",)
    assert [refusal.path for refusal in admitted.refused] == ["link", "src/b.py"]
    assert (round_.folder / "link").readlink() == Path("src/b.py")


# ---- Budgets --------------------------------------------------------------------------------------------------------


async def test_too_many_changed_files_refuse_the_round(round_: Round) -> None:
    """Inputs 133 and 135."""
    for number in range(20):
        (round_.folder / f"n{number}").write_text("x")
    with pytest.raises(RoundRefused, match="more than 10 files"):
        await round_.admit(max_files=10)
    assert len((await round_.admit()).changed) == 20


async def test_too_many_removed_files_refuse_the_round(round_: Round) -> None:
    for path in list(round_.folder.iterdir()):
        if path.is_file():
            path.unlink()
    with pytest.raises(RoundRefused, match="more than 2 files"):
        await round_.admit(max_files=2)


async def test_too_many_bytes_refuse_the_round(round_: Round) -> None:
    """Input 131: a sparse file of a terabyte is not read."""
    with (round_.folder / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RoundRefused, match="more than 20 MiB"):
        await round_.admit()


async def test_too_many_and_too_deep_folders_refuse_the_round(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 96."""
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


async def test_a_missing_blob_stays_where_it_is(mirror: Mirror, source: Any, take: Any, tmp_path: Path) -> None:
    """Input 105."""
    commit = await take(source.commit({b"d/big": bytes(21 * 1024 * 1024), b"d/a": b"1\n"}))
    round_ = Round(mirror, commit, tmp_path / "tree")
    await materialise(mirror, commit, round_.folder)
    (round_.folder / "d/a").write_text("2\n")
    (round_.folder / "d/big").write_text("small now\n")
    admitted = await round_.admit()
    assert admitted.changed == ("d/a",)
    assert admitted.refused == (Refusal("d/big", room.UNSEEN),)
    assert [path for _, path in await round_.changes(admitted)] == [b"d/a"]


async def test_a_narrowed_tree_keeps_what_was_not_written(
    mirror: Mirror, source: Any, take: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions 2.3."""
    monkeypatch.setattr(entries, "MAX_ENTRIES", 8)
    files = {b"d%d/f%d" % (folder, n): b"%d\n" % n for folder in range(4) for n in range(3)}
    base = source.commit(files)
    head = source.commit(files | {b"d1/f0": b"changed\n"}, base)
    await take(base, head)
    round_ = Round(mirror, head, tmp_path / "tree")
    await materialise(mirror, head, round_.folder, base=base)
    assert sorted(path.name for path in round_.folder.iterdir()) == ["d1"]
    (round_.folder / "d1/f1").unlink()
    (round_.folder / "d1/f2").write_text("edited\n")
    (round_.folder / "d3").mkdir()
    (round_.folder / "d3/f0").write_text("0\n")  # as it is in the tree
    (round_.folder / "d3/f1").write_text("not what it was\n")
    admitted = await round_.admit(base=base)
    assert admitted.changed == ("d1/f1", "d1/f2", "d3/f1")
    assert await round_.changes(admitted) == [("D", b"d1/f1"), ("M", b"d1/f2"), ("M", b"d3/f1")]
