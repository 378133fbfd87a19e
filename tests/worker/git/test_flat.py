"""The cache of unpacked blobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.git import flat as room
from worker.git.flat import Flat

A, B, C = (letter * 40 for letter in (b"a", b"b", b"c"))


def test_what_was_added_is_read_also_by_the_next(tmp_path: Path) -> None:
    first = Flat(tmp_path)
    assert A not in first
    first.extend([(A, b"one"), (B, b"")])
    first.extend([(C, b"three")])
    second = Flat(tmp_path)
    for each in (first, second):
        assert [bytes(each.read(oid)) for oid in (A, B, C)] == [b"one", b"", b"three"]
        each.close()


def test_an_unfinished_addition_is_not_seen_and_is_overwritten(tmp_path: Path) -> None:
    """A machine that lost its power while it wrote leaves bytes without a record, and half a record."""
    cache = Flat(tmp_path)
    cache.extend([(A, b"one")])
    (data,) = (path for path in tmp_path.glob("flat.*") if path.suffix[1:].isdigit())
    with data.open("ab") as file:
        file.write(b"half")
    with (tmp_path / "flat.index").open("ab") as file:
        file.write(B[:30])
    cache = Flat(tmp_path)
    assert B not in cache
    cache.extend([(C, b"three")])
    assert bytes(cache.read(C)) == b"three"
    assert bytes(cache.read(A)) == b"one"
    again = Flat(tmp_path)
    assert bytes(again.read(C)) == b"three"
    again.close()
    cache.close()


@pytest.mark.parametrize("content", [b"", b"abc", bytes(8), b"\xff" * 8 + b"x" * 200])
def test_an_index_that_says_nothing_is_an_empty_cache(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "flat.index").write_bytes(content)
    cache = Flat(tmp_path)
    cache.extend([(A, b"one")])
    assert bytes(cache.read(A)) == b"one"
    cache.close()


def test_a_record_beyond_the_file_is_not_believed(tmp_path: Path) -> None:
    cache = Flat(tmp_path)
    cache.extend([(A, b"one"), (B, b"two")])
    (data,) = (path for path in tmp_path.glob("flat.*") if path.suffix[1:].isdigit())
    with data.open("r+b") as file:
        file.truncate(4)
    cache.close()
    cache = Flat(tmp_path)
    assert A in cache
    assert B not in cache
    cache.close()


def test_two_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    one, two = Flat(tmp_path), Flat(tmp_path)
    one.extend([(A, b"one")])
    two.extend([(B, b"two")])
    assert bytes(two.read(A)) == b"one"
    one.close()
    two.close()


def test_too_large_a_cache_begins_anew_and_readers_keep_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Flat(tmp_path)
    reader.extend([(A, b"x" * 1000)])
    monkeypatch.setattr(room, "MAX_FLAT", 500)
    writer = Flat(tmp_path)
    writer.extend([(B, b"two")])
    assert A not in writer
    assert bytes(reader.read(A)) == b"x" * 1000
    assert len(list(tmp_path.glob("flat.*"))) == 3, "data, index and lock: the old file is gone"
    reader.close()
    writer.close()
