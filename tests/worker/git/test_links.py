"""Links that stay in a tree, and links that do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.git.links import MAX_FOLLOWED, staying


@pytest.mark.parametrize(
    "target", [b"b", b"./b", b"../d/b", b"b/../c", b"not/there", b"..", b"e/up", b"n" * 255, b"x/" * 1499]
)
def test_a_link_within_the_tree_stays(target: bytes) -> None:
    assert b"d/a" in staying({b"d/a": target, b"d/e/up": b"../.."})


@pytest.mark.threat(87, 88)
@pytest.mark.parametrize(
    "target",
    [
        b"/etc/passwd",
        b"../../x",
        b"/proc/self/environ",
        b"../..",
        b"",
        b"a\0b",
        b"../.git/config",
        b".GIT/x",
        b"e/up/../x",
        b"loop",
        b"a",
        b"out/x",
        b"n" * 256 + b"/../b",
        b"x/" * 1500 + b"../" * 1500 + b"b",
    ],
)
def test_a_link_that_leaves_the_tree_does_not_stay(target: bytes) -> None:
    """Also by way of another link, in a circle, into git's own folder, or to where no file can be."""
    links = {b"d/a": target, b"d/e/up": b"../..", b"d/loop": b"loop", b"d/out": b"../../.."}
    assert b"d/a" not in staying(links)


@pytest.mark.threat(88)
def test_a_long_chain_of_links_ends() -> None:
    links = {b"l%d" % n: b"l%d" % (n + 1) for n in range(5000)}
    assert not staying(links) & {b"l0", b"l4959"}
    assert staying(links) >= {b"l4960", b"l4999"}


class Counted(dict[bytes, bytes]):
    """Links that count how often one is looked for."""

    looks = 0

    def get(self, path: bytes, default: Any = None) -> Any:
        self.looks += 1
        return super().get(path, default)


@pytest.mark.threat(88)
def test_links_that_multiply_each_other_take_no_more_work_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred that each walk eight hundred folders down and up again, forty times over."""
    links = Counted({b"l%d" % n: b"x/" * 800 + b"../" * 800 + b"l%d" % (n + 1) for n in range(41)})
    links |= {b"m%d" % n: links[b"l0"] for n in range(300)} | {b"z": b"a"}
    budget = MAX_FOLLOWED // 16  # for a test in no time
    monkeypatch.setattr("worker.git.links.MAX_FOLLOWED", budget)
    assert staying(links) <= {b"l%d" % n for n in range(1, 41)}, "z is no longer followed"
    assert 0 < links.looks < budget / 4


@pytest.mark.threat(88)
def test_tens_of_thousands_of_ordinary_links_stay() -> None:
    links = {b"node_modules/.bin/program-%d" % n: b"../@scope/package-%d/bin/program.js" % n for n in range(20_000)}
    links |= {b"packages/%d/node_modules/@scope" % n: b"../../../node_modules/@scope" for n in range(20_000)}
    assert staying(links) == links.keys()


PART = st.sampled_from([b"..", b".", b"a", b"b", b"", b"c"])


@given(
    st.dictionaries(st.lists(PART, min_size=1, max_size=3).map(b"/".join), st.lists(PART, max_size=5).map(b"/".join))
)
def test_every_question_about_links_has_an_answer(links: dict[bytes, bytes]) -> None:
    assert staying(links) <= links.keys()
