"""The rules of the house: what stands where, who may know what, and how large a thing may grow."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from bot.commands import VERBS, available, help_text
from bot.config import AGENT_NAMES
from bot.options import Help
from worker.agents import AGENTS
from worker.protocols import PROTOCOLS

ROOT = Path(__file__).parent.parent
PACKAGES = ("bot", "worker", "deploy")
TOP_LEVEL = {"pyproject.toml", "bot", "worker", "tests", "deploy", "app.yml", "README.md", "LICENSE"}
FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 50, 5
FORBIDDEN_NAMES = {"utils", "helpers", "manager", "base", "common"}

MODULES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "sample" not in path.relative_to(ROOT).parts
)
PURE = [
    path
    for path in MODULES
    if path.parts[:2] in {("worker", "debate"), ("worker", "outputs")}
    or (
        path.parts[0] == "bot"
        and path.stem
        in {
            *("events", "payload", "commands", "arguments", "options", "grammar", "policy", "request"),
            *("config", "statuses", "replies", "check_runs", "redact", "rules", "yaml_lines", "intents"),
        }
    )
]
INSIDE = {path.as_posix() for path in MODULES if path.parts[:2] == ("worker", "inside")}
"""Programs of their own, which run on a sandbox's Python."""
IMPURE_IMPORTS = {"asyncio", "os", "subprocess", "socket", "time", "random", "aiohttp", "redis", "arq"}
SHARED_GROUND = {
    "worker/debate": {"flow", "task", "findings", "codecs", "brief", "shown", "document"},
    "worker/outputs": {
        "report",
        "markdown",
        "writer",
        "words",
        "terms",
        "story",
        "parts",
        "patch",
        "advice",
        "headline",
    },
    "worker/agents": set[str](),
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """Every module that a file imports, wherever the import stands, as its dotted parts."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: imports are absolute"
            yield tuple(node.module.split("."))
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


def importers(name: str) -> set[str]:
    return {path.as_posix() for path in MODULES for parts in imports(path) if parts[0] == name}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_top_level_is_the_given_one() -> None:
    tracked = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert tracked - {"dist", "build"} == TOP_LEVEL


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_file_keeps_to_its_size_and_says_what_it_is(path: Path) -> None:
    lines = (ROOT / path).read_text("utf-8").splitlines()
    assert len(lines) <= FILE_LINES
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(tree(path)), "a module says what it owns"
    for function in functions(path):
        end = function.end_lineno or function.lineno
        assert end - function.lineno < FUNCTION_LINES, f"{function.name} is too long"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_function_takes_few_parameters_and_names_all_after_the_second(path: Path) -> None:
    for function in functions(path):
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        own = [each for each in positional if each not in {"self", "cls"}]
        # What GitHub's library, aiohttp or click calls has the shape that they call.
        inherited = any(isinstance(each, ast.Call | ast.Attribute | ast.Name) for each in function.decorator_list)
        if inherited or function.name.startswith("_request"):
            continue
        assert len(own) + len(function.args.kwonlyargs) <= PARAMETERS, f"{function.name} takes too many"


@pytest.mark.parametrize("path", [path for path in MODULES if path.parts[0] != "deploy"], ids=str)
def test_a_module_has_a_test_file(path: Path) -> None:
    if path.stem == "__init__":
        return
    assert (ROOT / "tests" / path.parent / f"test_{path.name}").exists(), "a module has a test file of its name"


def says_it_is_pure(path: Path) -> bool:
    return "Pure." in (ast.get_docstring(tree(path)) or "")


@pytest.mark.parametrize("path", sorted({*PURE, *filter(says_it_is_pure, MODULES)}), ids=str)
def test_a_pure_room_imports_nothing_that_acts(path: Path) -> None:
    assert not {parts[0] for parts in imports(path)} & IMPURE_IMPORTS


def test_what_runs_inside_a_sandbox_needs_the_standard_library_alone() -> None:
    assert len(INSIDE) > 2
    for path in map(Path, INSIDE):
        assert {parts[0] for parts in imports(path)} <= sys.stdlib_module_names


def test_there_are_pure_rooms() -> None:
    assert len(PURE) > 15


def test_imports_go_one_way() -> None:
    for path in MODULES:
        known = {parts[0] for parts in imports(path)}
        if path.parts[0] == "bot":
            assert not known & {"worker", "deploy", "tests"}, path
        if path.parts[0] == "worker":
            assert not known & {"deploy", "tests"}, path
        if path.parts[0] == "deploy":
            assert "tests" not in known, path


def test_redis_and_arq_are_known_in_one_room() -> None:
    rooms = {"bot/main.py", "worker/main.py", "deploy/store.py"}
    for path in importers("redis") | importers("arq"):
        assert path.startswith("bot/store/") or path in rooms, path


def test_github_is_known_in_one_room() -> None:
    assert {path.rsplit("/", 1)[0] for path in importers("gidgethub")} <= {"bot/github"}


def test_programs_are_started_in_one_place() -> None:
    starting = {"Popen", "create_subprocess_exec", "create_subprocess_shell", "posix_spawn"}
    of_os = {"system", "execv", "execvpe", "fork"}
    starters = {
        path.as_posix()
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr in starting or (node.func.attr in of_os and ast.unparse(node.func.value) == "os"))
    }
    # The stand-in streams git over HTTP and gives its hook pipes: there git serves, and is not run to its end. What
    # runs inside a sandbox has nothing of ours to call.
    assert starters - INSIDE == {"worker/process.py", "deploy/standin/git_http.py"}


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        path.as_posix()
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and ast.unparse(node.value) == "os"
    }
    assert readers - INSIDE == {"bot/settings.py"}


def test_git_is_called_in_one_room_besides_the_stand_in_and_try() -> None:
    callers = {
        path.as_posix()
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and node.value == "git" and path.parts[0] != "deploy"
    }
    assert callers <= {"worker/git/__init__.py"}


@pytest.mark.parametrize("room", SHARED_GROUND)
def test_protocols_agents_and_outputs_never_import_their_siblings(room: str) -> None:
    parts = tuple(room.split("/"))
    plugins = [path for path in MODULES if path.parts[:2] == parts and path.stem != "__init__"]
    assert plugins
    for path in plugins:
        for known in imports(path):
            if known[:2] == parts and len(known) > 2 and (ROOT / room / f"{known[2]}.py").exists():
                allowed = SHARED_GROUND[room] | {path.stem}
                assert known[2] in allowed, f"{path} imports its sibling {known[2]}"


def test_no_flow_forgets_its_yield_from() -> None:
    """`yield ask(…)` would send a generator to the runner: a step's helper is always used with `yield from`."""
    helpers = {"ask", "edit", "note", "fork"}
    for path in (each for each in MODULES if each.parts[:2] == ("worker", "debate") and each.stem != "flow"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Yield):
                pytest.fail(f"{path}:{node.lineno}: a protocol yields only through the helpers of flow.py")
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                name = ast.unparse(node.value.func)
                assert name not in helpers, f"{path}:{node.lineno}: {name}(…) without yield from does nothing"


def test_the_tables_hold_what_is_there() -> None:
    """A plug-in is a module and a row (house.md 5.4), and the agents' names are those that the bot knows."""
    assert tuple(AGENTS) == AGENT_NAMES
    for name, agent in AGENTS.items():
        assert agent.name == name
        assert inspect.iscoroutinefunction(agent.take_turn)
    for protocol in PROTOCOLS.values():
        assert inspect.isgeneratorfunction(protocol.flow)


def test_the_readme_lists_the_commands_as_help_does() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    told = readme.partition("<!-- commands:")[2].partition("<!-- end of commands -->")[0]
    shown = [line for line in told.splitlines() if line.startswith("- ")]
    replies = [help_text(Help(), max_rounds=12), help_text(Help(verb="review"), max_rounds=12)]
    assert shown == [line for reply in replies for line in reply.splitlines() if line.startswith("- ")]
    (later,) = re.findall(r"^The other debates and controls .*$", readme, re.MULTILINE)
    assert set(re.findall(r"`/?([a-z-]+)`", later)) == {name for name in VERBS if not available(name)}


def test_ci_calls_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.count("```sh test\n") == 1
    assert "README.md" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_the_workflow_calls_the_gate() -> None:
    assert "- run: .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
