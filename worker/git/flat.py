"""A mirror's small blobs, uncompressed in one file, so that the next checkout need not unpack them again.

It is a cache and no more: named by object ids, made from the mirror's own objects, and begun anew when it has grown
too large. Unpacking 20,000 blobs costs more than writing the files. Several processes may use it at once.

`flat.index` holds the generation (8 bytes), then for each blob its id, and where it begins and ends in the file
`flat.<generation>`. A record is written when its bytes are certainly on the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path

MAX_BLOB = 128 * 1024
"""Bytes of a blob, at most: a larger one takes hardly longer to unpack than to copy."""
MAX_FLAT = 1024**3

_GENERATION = struct.Struct(">Q")
_RECORD = struct.Struct(">40sQQ")


class Flat:
    """The cache of one mirror, as it was when it was opened or last extended. Reading from several threads is fine."""

    def __init__(self, mirror: Path) -> None:
        self._mirror = mirror
        self._index = mirror / "flat.index"
        self._places: dict[bytes, tuple[int, int]] = {}
        self._generation = 0
        self._read_to = 0
        self._view = memoryview(b"")
        self._map: mmap.mmap | None = None
        self._load()

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._places

    def read(self, oid: bytes) -> memoryview:
        """Return a blob's bytes. Raises KeyError."""
        start, end = self._places[oid]
        return self._view[start:end]

    def extend(self, blobs: Iterable[tuple[bytes, bytes]]) -> None:
        """Add blobs: id and bytes, each at most MAX_BLOB."""
        lock = os.open(self._mirror / "flat.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._append(blobs, self._begin())
        finally:
            os.close(lock)
        self._load()

    def close(self) -> None:
        """Release the file; nothing is in the cache any more."""
        self._places = {}
        self._generation = self._read_to = 0
        self._unmap()

    def _unmap(self) -> None:
        self._view.release()
        if self._map is not None:
            self._map.close()
            self._map = None

    def _data(self, generation: int) -> Path:
        return self._mirror / f"flat.{generation}"

    def _begin(self) -> int:
        """Return the generation to add to: a new one where there is none, or where the last one has grown too large."""
        with contextlib.suppress(FileNotFoundError, struct.error):
            (generation,) = _GENERATION.unpack(self._index.read_bytes()[: _GENERATION.size])
            data = self._data(generation)
            if data.stat().st_size <= MAX_FLAT:
                return int(generation)
            data.unlink()  # who reads it keeps what it has
        generation = int.from_bytes(os.urandom(6), "big") + 1
        self._data(generation).touch(0o600)
        fresh = self._index.with_suffix(".new")
        fresh.write_bytes(_GENERATION.pack(generation))
        fresh.replace(self._index)
        return generation

    def _append(self, blobs: Iterable[tuple[bytes, bytes]], generation: int) -> None:
        records = []
        with self._data(generation).open("ab") as file:
            at = file.tell()
            for oid, raw in blobs:
                file.write(raw)
                records.append(_RECORD.pack(oid, at, at := at + len(raw)))
            file.flush()
            os.fdatasync(file.fileno())
        with self._index.open("r+b") as index:
            end = index.seek(0, os.SEEK_END)
            index.seek(end - (end - _GENERATION.size) % _RECORD.size)  # what a crash left half written
            index.write(b"".join(records))

    def _load(self) -> None:
        """Read the records that are new; all of them where the file was begun anew."""
        with contextlib.suppress(FileNotFoundError, struct.error), self._index.open("rb") as index:
            (generation,) = _GENERATION.unpack(index.read(_GENERATION.size))
            if generation != self._generation:
                self.close()
            index.seek(max(self._read_to, _GENERATION.size))
            raw = index.read()
            raw = raw[: len(raw) // _RECORD.size * _RECORD.size]
            with self._data(generation).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if not size:
                    return
                self._unmap()
                self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            self._view = memoryview(self._map)
            places = {oid: (start, end) for oid, start, end in _RECORD.iter_unpack(raw) if end <= size}
            self._places.update(places)
            self._generation = generation
            self._read_to = max(self._read_to, _GENERATION.size) + len(raw)
