"""What a push asks for, as git writes it, and what git is told about each ref. Pure.

The formats are those of https://git-scm.com/docs/pack-protocol (reference updates) and of the `proc-receive` hook in
https://git-scm.com/docs/githooks.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.standin.record import RefUpdate

COMMANDS_CAP = 1024 * 1024
"""Bytes of commands that are read of one push."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a ref. `refusal` is git's short reason, `words` are lines for people; None lets it through."""

    refusal: str | None = None
    words: tuple[str, ...] = ()


class Commands:
    """Reads the commands at the beginning of a push's body, which comes in pieces."""

    def __init__(self) -> None:
        self.updates: tuple[RefUpdate, ...] | None = None
        """None until the last command has been seen; empty where there is none, or what comes is no push."""
        self._found: list[RefUpdate] = []
        self._rest = b""
        self._seen = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the body."""
        if self.updates is not None:
            return
        self._rest += chunk
        self._seen += len(chunk)
        while self.updates is None and len(self._rest) >= 4:
            length = _length(self._rest[:4])
            if length == 0:
                self.updates = tuple(self._found)
            elif length is None or self._seen > COMMANDS_CAP:
                self.updates = ()
            elif len(self._rest) < length:
                return
            else:
                self._command(self._rest[4:length])
                self._rest = self._rest[length:]

    def _command(self, line: bytes) -> None:
        # The first command is followed by what the client can do; `shallow` lines are no commands.
        words = line.partition(b"\0")[0].rstrip(b"\n").decode("utf-8", "surrogateescape").split(" ", 2)
        if len(words) == 3:
            self._found.append(RefUpdate(ref=words[2], old=words[0], new=words[1]))


def _length(head: bytes) -> int | None:
    """Return a packet's length, its own four bytes included; 0 for a flush packet, None for what is no packet."""
    try:
        length = int(head, 16)
    except ValueError:
        return None
    return length if length == 0 or length >= 4 else None


def report(verdicts: list[tuple[RefUpdate, Verdict]]) -> bytes:
    """Return lines for the hook: those that begin with ``!`` are for people, the others are packets for git."""
    lines: list[bytes] = []
    for update, verdict in verdicts:
        lines += [b"!" + word.encode() for word in verdict.words]
        if verdict.refusal is None:
            lines += [_packet(f"ok {update.ref}"), _packet("option fall-through")]
        else:
            lines.append(_packet(f"ng {update.ref} {verdict.refusal}"))
    return b"".join(line + b"\n" for line in lines)


def _packet(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    # Four for the length itself, one for the newline that ends the line.
    return b"%04x" % (len(data) + 5) + data


def moved(text: bytes) -> tuple[RefUpdate, ...]:
    """Return what the `post-receive` hook was told: the refs that really moved."""
    lines = text.decode("utf-8", "surrogateescape").splitlines()
    return tuple(RefUpdate(ref, old, new) for old, new, ref in (line.split(" ", 2) for line in lines))
