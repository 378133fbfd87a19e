"""What a repository and an operator may choose: the agents' names, and the repository's own file. Pure.

Owns the schema of `.github/codex-debate.yml` (interface.md 5) and the sentence for each fault in it. The agents' names
stand here so that the bot can judge a flag without knowing how an agent is started; a test holds them equal to the
worker's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.fields import FieldInfo

from bot.replies import quoted
from bot.yaml_lines import BadYaml, Lined, read

AGENT_NAMES = ("codex", "claude", "lint", "scripted")
"""Every agent that can be named anywhere."""

OPERATOR_AGENTS = frozenset({"scripted"})
"""Agents that only the operator may seat: never a comment, never a repository (decisions.md 3.1)."""

COMMENT_AGENTS = tuple(name for name in AGENT_NAMES if name not in OPERATOR_AGENTS)
"""The agents that a comment may name."""

PATH = ".github/codex-debate.yml"
"""Where a repository has its file."""

LATER = frozenset({"seats", "agents", "push", "checks", "gate", "language", "limits"}) | {
    f"auto.{name}"
    for name in (
        "labels",
        "ignore_labels",
        "ignore_authors",
        "ignore_titles",
        "ignore_paths",
        "debounce",
        "max_files",
        "max_lines",
        "debate",
    )
}
"""Keys of interface.md 5 that this version does not read. They are refused: what is written there would not hold."""

Opening = Literal["opened", "reopened", "ready_for_review"]
"""GitHub's words for what may start a debate by itself."""

Glob = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]


def _from_the_root(glob: str) -> str:
    """Refuse what would protect nothing: other programs' marks, blanks around it, ways that no path of a tree goes."""
    parts = set(glob.strip("/").split("/"))
    if glob != glob.strip() or glob[0] in "!~" or set("\\{}") & {*glob} or parts & {"", ".", ".."}:
        raise ValueError
    return glob


PathGlob = Annotated[Glob, AfterValidator(_from_the_root)]


class _Section(BaseModel):
    """A part of the file. The description of a field is what it takes, to follow "takes"."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Auto(_Section):
    """When a debate starts by itself."""

    on: tuple[Opening, ...] = Field((), strict=False, description="a list of `opened`, `reopened`, `ready_for_review`")
    """What a debate starts at; nothing without it."""
    drafts: bool = Field(default=False, description="`true` or `false`")
    """Drafts are debated, too: by themselves, and when a command asks for it."""
    base: tuple[Glob, ...] = Field(("*",), strict=False, description="a list of branches, `*` for any characters")
    """The branches whose pull requests are debated by themselves."""

    def covers(self, branch: str) -> bool:
        """Return whether pull requests into a branch are debated by themselves."""
        return any(fnmatchcase(branch, glob) for glob in self.base)


class Config(_Section):
    """A repository's file. Without one commands work, and nothing starts by itself."""

    auto: Auto = Field(Auto(), description="a section with the keys `on`, `drafts` and `base`")
    protect: tuple[PathGlob, ...] = Field(
        (),
        strict=False,
        max_length=100,
        description="a list of at most 100 paths from the root, `*` for any characters",
    )
    """Paths that the author may not change, besides the built-in list (threats.md T24)."""


@dataclass(frozen=True, slots=True)
class BadConfig:
    """A file that cannot be used. `fault` is a sentence without its end; `line` counts from 1."""

    line: int
    fault: str


def parse(raw: bytes) -> Config | BadConfig:
    """Return what a repository's file says, or its first fault."""
    try:
        found = read(raw)
    except BadYaml as bad:
        return BadConfig(bad.line, bad.fault)
    if found.value is None:
        return Config()
    if not isinstance(found.value, dict):
        return BadConfig(1, "the file holds no keys, such as `auto:`")
    try:
        return Config.model_validate(found.value)
    except ValidationError as error:
        return min((_fault(each, found) for each in error.errors()), key=lambda each: each.line)


def _fault(error: Any, found: Lined) -> BadConfig:  # noqa: ANN401 - pydantic's own shape of a fault
    path = tuple(error["loc"])
    names = [each for each in path if isinstance(each, str)]
    name, line = ".".join(names), found.line(path)
    if error["type"] != "extra_forbidden":
        return BadConfig(line, f"`{name}` takes {_field(names).description}")
    if name in LATER:
        return BadConfig(line, f"`{name}` is not in this version")
    near = get_close_matches(names[-1][:40], _KEYS, n=1, cutoff=0.6)
    hint = f"; perhaps you meant `{_KEYS[near[0]]}`" if near else ""
    return BadConfig(line, f"there is no key {quoted(name)}{hint}")


def _field(names: list[str]) -> FieldInfo:
    """Return the field of the schema that keys lead to."""
    model: type[BaseModel] = Config
    for name in names[:-1]:
        model = cast("type[BaseModel]", model.model_fields[name].annotation)
    return model.model_fields[names[-1]]


_KEYS = {**{name: name for name in Config.model_fields}, **{name: f"auto.{name}" for name in Auto.model_fields}}
"""Every key of the file by its last word."""
