"""Each oracle by itself: what it lets pass, and what it does not."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles import leftovers, published, records, refs
from oracles.calls import on_this_machine
from oracles.leftovers import Count
from oracles.refs import ZEROS, Move
from oracles.violations import Violation, complaint

from deploy.standin import CheckRun, Request

ROOT = Path(__file__).parents[2]
WHY = "it is planted"
PLANTED = """
from pathlib import Path

from oracles import leftovers
from oracles.violations import Violation

SYSTEM = Path(__file__).parent / "system"
leftovers.SYSTEM = (SYSTEM,)


def test_a_violation(court) -> None:
    court.found.append(Violation("O7", "it is planted"))


def test_a_file_of_the_system() -> None:
    SYSTEM.mkdir()
    (SYSTEM / "new").touch()


def test_a_file_in_the_home() -> None:
    (Path.home() / "new").touch()
"""
"""Tests that do what must not be, of which nothing else fails."""


# ---- O2 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O2")
def test_a_mount_that_is_left_is_found(tmp_path: Path) -> None:
    """Any mount of this machine stands for one: not everybody may make one."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    deepest = max(map(Path, mounts), key=lambda mount: len(mount.parts))
    assert f"a mount below {deepest}" in leftovers.remains(deepest)
    assert list(leftovers.remains(tmp_path)) == []


# ---- O3 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O3")
def test_a_file_that_is_new_gone_or_changed_is_found(tmp_path: Path, home: Path) -> None:
    assert Path.home() == home, "the worker's home is watched"
    names = ("same", "gone", "grown", "opened", "rewritten", "__pycache__/a.pyc")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = leftovers.listing([tmp_path])
    assert list(leftovers.differences(before, leftovers.listing([tmp_path]))) == []
    (tmp_path / "gone").unlink()
    (tmp_path / "grown").write_text("12")
    (tmp_path / "opened").chmod(stat.S_ISUID | 0o755)
    about = (tmp_path / "rewritten").stat()
    (tmp_path / "rewritten").write_text("2")
    os.utime(tmp_path / "rewritten", ns=(about.st_atime_ns, about.st_mtime_ns))
    (tmp_path / "__pycache__" / "a.pyc").write_text("12")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new").write_text("1")
    found = list(leftovers.differences(before, leftovers.listing([tmp_path])))
    said = ("deep/new is new", "gone is gone", "grown has changed", "opened has changed", "rewritten has changed")
    assert found == [f"{tmp_path}/{each}" for each in said]


# ---- O4 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O4")
def test_a_check_run_may_be_completed_again_where_nobody_knew() -> None:
    run = CheckRun(7, 1, 1, "codex-debate", "a" * 40, status="completed", conclusion="success", external_id="r")
    body = {"status": "completed", "conclusion": "success"}
    lost = Request("PATCH", "/repos/o/r/check-runs/7", {}, body, status=None, fault="drop after the effect")
    never = Request("PATCH", "/repositories/1/check-runs/7", {}, body, status=502, fault="502 before the effect")
    last = Request("PATCH", "/repositories/1/check-runs/7", {}, body, status=200)
    other = Request("PATCH", "/repos/o/r/check-runs/8", {}, body, status=200)
    assert list(published.check_runs([never, lost, last, other], [run])) == []
    assert list(published.check_runs([last, last], [run])) == ["check run 7 (r) was completed 2 times"]
    lost.body = body | {"conclusion": "failure"}
    assert list(published.check_runs([lost, last], [run])) == ["check run 7 (r) got several conclusions"]


# ---- O5 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("## Debate\n\n<details open>\n<summary>a</summary>\n\n- **b** `@c` #x\n\n</details>", []),
        ("| a |\n|:-:|\n| b<br>c |", []),
        ("[a](http://ours/o/r/blob/x) `http://evil.example` @\u2060a #\u20601", []),
        ("![](http://ours/o/r/x.png)", ["<img>"]),
        ("[a](http://evil.example)", ["a link to http://evil.example"]),
        ("[a](javascript:alert)", ["a link to javascript:alert"]),
        ("[a](//evil.example)", ["a link to //evil.example"]),
        ("see www.evil.example", ["a link to http://www.evil.example"]),
        ("<a@b.example>", ["a link to mailto:a@b.example", "a call, @b"]),
        ("a\n\n<a href='http://ours/x'>b</a>", ["<a> as HTML"]),
        ("<em>a</em>", ["<em> as HTML"]),
        ("<h1>a</h1>", ["<h1>"]),
        ("# a", ["<h1>"]),
        ("<details onclick=x>\n\n</details>", ["<details onclick=x>"]),
        ("<details>\n\na", ["<details> is not closed"]),
        ("a\n\n</details>\n\nb", ["</details> closes nothing"]),
        ("<script>x</script>", []),  # GitHub shows it
        ("a  \nb", []),
        ("<svg onload=x>", ["<svg>", "<svg onload=x>", "<svg> is not closed"]),
        ("<!-- a -->", ["the comment ' a '"]),
        ("- [x] a", ["<input>", "<input type=checkbox>", "<input checked=>", "<input disabled=>"]),
        ("hello @user, fixes #1 and GH-2", ["a call, @user", "a call, #1", "a call, GH-2"]),
        ("a[^1]\n\n[^1]: b", ["<section>", "<sup>"]),
    ],
)
def test_what_is_alive_in_a_text_is_found(text: str, said: list[str]) -> None:
    found = list(published.alive(text, lambda link: link.startswith("http://ours/")))
    assert found == said if not said else set(said) <= set(found), found


@pytest.mark.threat("O5")
def test_a_second_comment_of_a_run_is_found() -> None:
    one, two, folded = "## Debate: a\n\nrun `aaaaaaaa`", "## Debate: a\n\nrun `bbbbbbbb`", "## Debate: a\n\nfolded"
    assert list(published.results([folded, one, "run `bbbbbbbb`"], ["aaaaaaaa", "bbbbbbbb"])) == []
    assert list(published.results([one, one, two], ["aaaaaaaa", "bbbbbbbb"])) == ["2 comments of run aaaaaaaa"]
    assert list(published.results([folded, one], ["aaaaaaaa"])) == ["1 folded comments besides those of 1 of 1 runs"]


# ---- O6 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O6")
def test_a_run_moves_its_own_branch_and_forward() -> None:
    base, one, two, aside = (character * 40 for character in "abcd")
    held = refs.Repository({}, {one: (base,), two: (one,), aside: ()}, b"")
    own = "refs/heads/codex-debate/pr-1/r"
    runs = {"r": CheckRun(7, 1, 1, "codex-debate", base, external_id="r")}

    def found(*moves: Move, repo: int = 1) -> list[str]:
        return [each.replace(own, "OWN") for each in refs.moved(moves, runs, repo, held)]

    def by_app(old: str, new: str, ref: str = own) -> Move:
        return Move(ref, old, new, by_app=True)

    first, second = by_app(ZEROS, one), by_app(one, two)
    assert found(first, second, by_app(two, ZEROS), Move("refs/heads/main", base, two, by_app=False)) == []
    assert found(first, repo=2) == ["the App moved OWN, which is no branch of a run of this repository"]
    assert found(by_app(ZEROS, one, "refs/heads/codex-debate/pr-1/s")) != []
    assert found(by_app(ZEROS, one, "refs/heads/feature")) != []
    assert found(by_app(ZEROS, aside)) == [f"OWN was moved to {aside}, which does not follow what was there"]
    assert found(first, by_app(one, aside)) == [f"OWN was moved to {aside}, which does not follow what was there"]
    assert found(first, by_app(base, two)) == [f"OWN was moved from {base}, which nobody recorded"]
    assert "run r moved" in found(first, by_app(ZEROS, two, own.replace("pr-1", "pr-2")))[0]


# ---- O7 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O7")
def test_a_delivery_without_an_end_is_found() -> None:
    said: list[dict[str, Any]] = [
        {"event": "delivery", "name": "issue_comment", "delivery": "1", "answer": "Accepted."},
        {"event": "delivery", "name": "issue_comment", "delivery": "2", "answer": "Accepted."},
        {"event": "delivery", "name": "push", "delivery": "3", "answer": "Accepted: nothing to do."},
        {"event": "event waits", "name": "issue_comment", "delivery": "2"},
        {"event": "event", "name": "issue_comment", "delivery": "1", "outcome": "refused"},
    ]
    assert list(records.endless(said)) == ["delivery 2 (issue_comment) was accepted and has no end"]


# ---- O8 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O8")
@pytest.mark.unlike("O8", says=r"socket.getaddrinfo '192.0.2.1'", why=WHY)
@pytest.mark.unlike("O8", says=r"socket.connect '192.0.2.2'", why=WHY)
def test_a_call_to_another_machine_is_found() -> None:
    """The addresses are for documents (RFC 5737): nobody has them."""
    socket.getaddrinfo("192.0.2.1", 80, flags=socket.AI_NUMERICHOST)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.setblocking(False)
        try:
            datagrams.connect(("192.0.2.2", 9))
        except OSError:  # there is no way to it: it was tried all the same
            return


@pytest.mark.threat("O8")
@pytest.mark.unlike("O8", says=r"socket.connect \(0, 0\) of family .*AF_NETLINK", why=WHY)
def test_a_call_over_another_kind_of_socket_is_found(tmp_path: Path) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.connect((0, 0))
    with socket.socket(socket.AF_UNIX) as beside:
        beside.bind(os.fspath(tmp_path / "socket"))
        assert beside.connect_ex(os.fspath(tmp_path / "socket")) != 0, "nobody listens; it is tried all the same"


@pytest.mark.threat("O8")
@pytest.mark.parametrize(
    ("host", "here"),
    [
        *((each, True) for each in ("127.0.0.1", "127.9.9.9", b"127.0.0.1", "::1", "localhost", None)),
        *(
            (each, False)
            for each in ("github.com", b"api.openai.com", "10.0.0.1", "169.254.169.254", "::", "192.0.2.1")
        ),
    ],
)
def test_this_machine_is_told_from_others(host: str | bytes | None, here: bool) -> None:
    assert on_this_machine(host) == here


# ---- O9 -------------------------------------------------------------------------------------------------------------


@pytest.mark.threat("O9")
def test_each_kind_of_growth_is_found() -> None:
    before = Count(10, 10, 10, 1)
    assert list(leftovers.growth(before, Count(20, 20, 20, 1))) == []
    assert list(leftovers.growth(before, Count(50, 50, 50, 2))) == [
        f"{name} grew from {then} to {now}"
        for name, then, now in (("fds", 10, 50), ("threads", 10, 50), ("tasks", 10, 50), ("children", 1, 2))
    ]
    assert leftovers.least(before, Count(9, 11, 8, 1)) == Count(9, 10, 8, 1)


# ---- The court ------------------------------------------------------------------------------------------------------


def marked(*marks: Any) -> Iterator[pytest.Mark]:
    return (each.mark for each in marks)


def test_a_story_says_narrowly_in_what_it_is_unlike() -> None:
    found = [Violation("O7", "an error is logged: a"), Violation("O7", "an error is logged: b"), Violation("O1", "a")]
    mark = pytest.mark.unlike("O7", says=": a$", why=WHY)
    assert complaint(found, marked(mark)) == "O7: an error is logged: b\n  O1: a"
    assert complaint(found[:1], marked(mark)) == ""
    assert "take the mark unlike away" in complaint([], marked(mark))
    assert complaint([], marked()) == ""
    assert "and 1 more" in complaint([Violation("O3", str(number)) for number in range(21)], marked())


@pytest.mark.threat("O3")
def test_what_is_found_fails_the_test_and_what_is_changed_the_session(tmp_path: Path) -> None:
    """The fixtures of this folder are put to tests of a process of its own, whose failures are seen from outside."""
    (tmp_path / "test_planted.py").write_text(PLANTED)
    options = ("-q", "-p", "no:cacheprovider", "-p", "tests.stories.conftest", "-c", ROOT / "pyproject.toml")
    command = (sys.executable, "-m", "pytest", *options, "--basetemp", tmp_path / "inner", tmp_path / "test_planted.py")
    # The plugin is looked for before the settings of pytest say where its modules are.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "stories")))}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "3 passed, 2 errors" in done.stdout, done.stdout + done.stderr
    assert "ERROR at teardown of test_a_violation" in done.stdout
    assert "O7: it is planted" in done.stdout
    for file in (tmp_path / "system" / "new", tmp_path / "inner" / "home0" / "new"):
        assert f"O3: {file} is new" in done.stdout
