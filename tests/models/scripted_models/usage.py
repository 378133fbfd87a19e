"""How many tokens a request and its answer are, and how many of them repeat what its session asked before.

No tokenizer: four bytes are one token, so that a count is the same everywhere and can be told in advance. What is
counted is what the model reads, in the order in which the APIs cache it, cut into segments: a segment is repeated whole
or not at all. Only the same session's earlier requests count; the real APIs are kinder, they also share between
sessions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BYTES_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call or of several. `input` is everything read, `cached` and `written` are parts of it."""

    input: int = 0
    cached: int = 0
    """What repeats an earlier request."""
    written: int = 0
    """What was not cached and is from now on; only Anthropic tells this apart."""
    output: int = 0
    calls: int = 1

    @property
    def uncached(self) -> int:
        """What had to be read anew."""
        return self.input - self.cached

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            cached=self.cached + other.cached,
            written=self.written + other.written,
            output=self.output + other.output,
            calls=self.calls + other.calls,
        )


NOTHING = Usage(calls=0)


@dataclass(frozen=True)
class Segment:
    """A piece of what a model reads; `marked` where the program asks the API to cache up to here."""

    content: bytes
    marked: bool = False


def tokens(content: bytes) -> int:
    """Return how many tokens some bytes are, rounded up."""
    return -(-len(content) // BYTES_PER_TOKEN)


@dataclass
class Cache:
    """What each session has asked."""

    _asked: dict[str, list[tuple[bytes, ...]]] = field(default_factory=dict)

    def read(self, session: str, segments: tuple[Segment, ...]) -> Usage:
        """Count a request against the longest of its session's that it repeats, and keep it. The output is not told."""
        contents = tuple(segment.content for segment in segments)
        earlier = self._asked.setdefault(session, [])
        repeated = max((_repeated(each, contents) for each in earlier), default=0)
        earlier[:] = [each for each in earlier if contents[: len(each)] != each]
        earlier.append(contents)
        marked = max((number for number, segment in enumerate(segments, 1) if segment.marked), default=0)
        whole, cached = _total(contents), _total(contents[:repeated])
        return Usage(input=whole, cached=cached, written=max(0, _total(contents[:marked]) - cached))


def _repeated(earlier: tuple[bytes, ...], now: tuple[bytes, ...]) -> int:
    """Return how many segments two requests have in common from the beginning."""
    for number, (one, other) in enumerate(zip(earlier, now, strict=False)):
        if one != other:
            return number
    return min(len(earlier), len(now))


def _total(contents: tuple[bytes, ...]) -> int:
    return tokens(b"".join(contents))
