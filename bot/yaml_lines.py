"""YAML text → plain values, with the line of each: for files that people write and that are refused by line. Pure.

Owns what of YAML 1.2 is read (decisions.md 6.4). Anchors, tags of one's own, repeated keys and several documents are
refused: the file comes from a repository, and what two readers could understand in two ways is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bot.replies import quoted

BYTES_LIMIT = 16 * 1024
"""Bytes of the longest file that is read: a hostile one of this size takes half a second."""
DEPTH_LIMIT = 20
"""Levels of the deepest value."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list places that lead to a value."""

_TAG = "tag:yaml.org,2002:"
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BadYaml(Exception):  # noqa: N818 - it names what the text is
    """The text is no YAML that is read. `fault` is a clause for people, to follow the line."""

    line: int
    fault: str


@dataclass(frozen=True, slots=True)
class Lined:
    """A value, and where its parts stand."""

    value: Any
    lines: dict[Path, int]
    """The line of each key or list entry, from 1."""

    def line(self, path: Path) -> int:
        """Return the line of a part, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(raw: bytes) -> Lined:
    """Return what a file says; an empty one says None. Raises `BadYaml`."""
    if len(raw) > BYTES_LIMIT:
        raise BadYaml(1, f"the file has more than {BYTES_LIMIT:,} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadYaml(raw.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text") from None
    if directive := _DIRECTIVE.search(text):
        raise BadYaml(text.count("\n", 0, directive.start()) + 1, "lines that begin with `%` are not read")
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadYaml(1 if mark is None else mark.line + 1, _problem(error)) from None
    except (YAMLError, RecursionError, ValueError):
        raise BadYaml(1, "this is not YAML") from None
    if root is None:
        return Lined(None, {})
    reader = _Reader()
    return Lined(reader.value(root, ()), reader.lines)


def _problem(error: MarkedYAMLError) -> str:
    """Return ruamel.yaml's own words for a fault as code: they may hold characters of the file."""
    return f"this is not YAML: {quoted(error.problem, 100)}" if error.problem else "this is not YAML"


class _Reader:
    """Turns nodes into values, and notes the lines."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self._met: set[int] = set()

    def value(self, node: Node, path: Path) -> Any:  # noqa: ANN401 - YAML has no type of its own
        """Return a node's value. Raises `BadYaml`."""
        line = _line(node)
        self.lines.setdefault(path, line)
        if id(node) in self._met:
            raise BadYaml(line, "anchors and aliases are not read; write the value out")
        self._met.add(id(node))
        if len(path) > DEPTH_LIMIT:
            raise BadYaml(line, "this is nested too deeply")
        match node:
            case MappingNode():
                return {key: self.value(each, (*path, key)) for key, each in self._pairs(node, path)}
            case SequenceNode():
                return [self.value(each, (*path, place)) for place, each in enumerate(node.value)]
            case ScalarNode():
                return _scalar(node)
            case _:  # pragma: no cover - ruamel.yaml makes no other nodes
                raise BadYaml(line, "this is not read")

    def _pairs(self, node: MappingNode, path: Path) -> Iterator[tuple[str, Node]]:
        seen: set[str] = set()
        for key, value in node.value:
            line = _line(key)
            if not isinstance(key, ScalarNode):
                raise BadYaml(line, "a key must be a word")
            if str(key.tag) == f"{_TAG}merge":
                raise BadYaml(line, "`<<` is not read; write the keys out")
            name = str(key.value)
            if name in seen:
                raise BadYaml(line, "this key stands twice")
            seen.add(name)
            self.lines[*path, name] = line
            yield name, value


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _scalar(node: ScalarNode) -> str | int | float | bool | None:
    """Return a scalar as YAML 1.2 means it; dates and the like stay the text that was written."""
    text = str(node.value)
    kind = str(node.tag).removeprefix(_TAG)
    try:
        text.encode()
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return _whole(text)
            case "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            case "str" | "timestamp":
                return text
            case _:
                raise BadYaml(_line(node), "tags are not read; write the value alone")
    except ValueError:
        raise BadYaml(_line(node), "this value is not read") from None


def _whole(text: str) -> int:
    if len(text) > 20:
        raise ValueError("too long")
    digits = text.replace("_", "")
    return int(digits, 0) if digits.lstrip("+-")[:2].lower() in {"0x", "0o"} else int(digits)
