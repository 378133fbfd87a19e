"""The command `codex-debate` as a person runs it: a program, its output and its exit status."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from deploy.standin import StandIn
from deploy.store import EmbeddedStore

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from deploy.cli import main; main()"]
SECONDS = 90
OUTPUTS = ("stdout", "stderr")
Done: TypeAlias = subprocess.CompletedProcess[str]
Run: TypeAlias = Callable[..., Done]
APP = {
    "GITHUB_APP_ID": "1",
    "GITHUB_APP_PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----",
    "GITHUB_WEBHOOK_SECRET": "x" * 32,
}

KEYS = {"codex": "OPENAI_API_KEY", "claude": "ANTHROPIC_API_KEY"}


def environment(tmp_path: Path, **over: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "LANG": "C.UTF-8",
    } | over


def start(tmp_path: Path, *arguments: str, **over: str) -> Done:
    """Run the program as a person does."""
    (tmp_path / "home").mkdir(exist_ok=True)
    env = environment(tmp_path, **over)
    command = [*PROGRAM, *arguments]
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)


FORGE = """
import json, os, sys
from deploy.cli import main

for line in sys.stdin:
    told = json.loads(line)
    if (child := os.fork()) == 0:
        os.environ.clear()
        os.environ.update(told["env"])
        os.chdir(told["cwd"])
        for number, place in enumerate((os.devnull, "stdout", "stderr")):
            os.dup2(os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["codex-debate", *told["arguments"]]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""The program, imported once: it forks for each run, which spares half a second of imports."""


@pytest.fixture(scope="module")
def forge() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", FORGE]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    with process:
        yield process
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def run(forge: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Return what runs the program to its end, in a process, an environment and a folder of its own."""

    def forked(*arguments: str, **over: str) -> Done:
        assert forge.stdin is not None
        assert forge.stdout is not None
        (tmp_path / "home").mkdir(exist_ok=True)
        told = {"env": environment(tmp_path, **over), "cwd": str(tmp_path), "arguments": arguments}
        forge.stdin.write(json.dumps(told) + "\n")
        forge.stdin.flush()
        code = int(forge.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, *((tmp_path / each).read_text() for each in OUTPUTS))

    return forked


def git(repo: Path, *argv: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(["git", *argv], cwd=repo, env=env, check=True, capture_output=True, text=True).stdout.strip()


def commit(repo: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", message)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository of a person's own: a branch with things to find, and work that is not committed."""
    path = tmp_path / "home" / "tide book"
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path, {"app.py": "x = 1\n", "README.md": "# Tide book\n"}, "Begin")
    git(path, "checkout", "--quiet", "-b", "tides")
    commit(path, {"tides.py": "import os\n\nx = None\nif x == None:\n    print('low')\n"}, "Tides")
    (path / "README.md").write_text("# Not committed\n")
    (path / "notes.txt").write_text("nor this\n")
    return path


def snapshot(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file of a folder: its bytes and when it was last written."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_sample_ends_in_consensus(tmp_path: Path) -> None:
    """A proxy is not asked for this machine."""
    proxy = "http://127.0.0.1:9"
    done = start(tmp_path, "try", "--json", http_proxy=proxy, HTTP_PROXY=proxy)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["conclusion"], told["rounds"]) == ("consensus", "action_required", 3)
    assert [each["subject"][:20] for each in told["commits"]] == ["fix: debate round 1 ", "fix: debate round 2 "]
    assert told["check"]["title"] == "Consensus: 7 fixes wait to be pushed; not read: README.md"
    assert told["check"]["conclusion"] == "action_required"
    assert told["comment"].startswith("## Debate: lint ⇄ lint\n\n✅ **Consensus**")
    assert told["branch"] == f"codex-debate/{told['run']}"
    lacks = [f"{name} has no key: {key} is not set" for name, key in KEYS.items()]
    assert done.stderr.splitlines()[0] == f"lint sits in both seats: {'; '.join(lacks)}."


def test_a_persons_own_repository_stays_byte_for_byte_as_it_was(run: Run, tmp_path: Path, repo: Path) -> None:
    before = snapshot(repo)
    done = run("try", "--repo", str(repo))
    assert done.returncode == 0, done.stderr
    assert snapshot(repo) == before
    assert done.stdout.startswith("## Debate: lint ⇄ lint")
    assert "`tides`" in done.stdout
    lines = done.stderr.splitlines()
    assert " 0:00 left out: 2 uncommitted files, README.md and notes.txt" in lines
    assert any("lint raised 2 findings" in line for line in lines)
    # The last line is the command that brings the branch in.
    command = " ".join(line.strip().removesuffix("\\").strip() for line in lines[-2:])
    assert command.startswith("git -C ~/'tide book' fetch ")
    subprocess.run(["bash", "-c", command], env=environment(tmp_path), check=True, capture_output=True)
    branch = command.rpartition(":")[2]
    assert "import os" not in git(repo, "show", f"{branch}:tides.py")
    assert git(repo, "merge-base", "tides", branch) == git(repo, "rev-parse", "tides")


def test_a_branch_that_cannot_be_kept_does_not_lose_the_debate(run: Run, tmp_path: Path, repo: Path) -> None:
    """The comment and the way to the branch are told, then why it is not there."""
    (repo / ".git" / "refs" / "heads" / "codex-debate").write_text("in the way")
    done = run("try", "--repo", str(repo), "--keep")
    assert done.returncode == 1
    assert "**Consensus**" in done.stdout
    assert "   git -C" in done.stderr
    assert "git fetch failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_keep_brings_the_branch_in_whatever_its_name(run: Run, tmp_path: Path, repo: Path) -> None:
    git(repo, "branch", "--move", "feature/ünïcode_#1")
    done = run("try", "--repo", str(repo), "--keep", "--json")
    assert done.returncode == 0, done.stderr
    assert "feature/ünïcode_#1 into main" in done.stderr
    told = json.loads(done.stdout)
    assert git(repo, "rev-parse", told["branch"]) == told["commits"][-1]["sha"]
    assert done.stderr.splitlines()[-1].endswith(f"on {told['branch']} in ~/tide book.")
    assert git(repo, "status", "--porcelain") == "M README.md\n?? notes.txt"
    folder = tmp_path / "state" / "codex-debate" / "try" / told["run"]
    assert {"comment.md", "check.md", "log.jsonl"} <= {path.name for path in folder.iterdir()}


def test_a_repository_whose_debates_start_by_themselves_is_debated_once(run: Run, repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--force", "main")
    commit(repo, {".github/codex-debate.yml": "auto: {on: [opened]}\n"}, "Debate by itself")
    git(repo, "checkout", "--quiet", "-b", "more")
    commit(repo, {"tides.py": "import os\n"}, "More")
    done = run("try", "--repo", str(repo), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "consensus"
    assert told["comment"].startswith("## Debate:")
    assert "Yours waits" not in told["comment"]
    assert "already running" not in told["comment"]


def test_a_repository_with_a_faulty_file_is_told_its_line(run: Run, repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--force", "main")
    commit(repo, {".github/codex-debate.yml": "auto:\n  onn: [opened]\n"}, "Debate by itself")
    git(repo, "checkout", "--quiet", "-b", "more")
    commit(repo, {"tides.py": "import os\n"}, "More")
    done = run("try", "--repo", str(repo))
    assert done.returncode == 1
    assert "Line 2: there is no key `auto.onn`; perhaps you meant `auto.on`." in done.stdout


def test_a_clean_branch_has_no_commit_to_take(run: Run, repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--force", "-b", "clean", "main")
    commit(repo, {"fine.py": "FINE = 1\n"}, "Fine")
    done = run("try", "--repo", str(repo))
    assert done.returncode == 0
    assert "found nothing to fix" in done.stdout
    assert "git -C" not in done.stderr


def test_a_change_that_lint_cannot_read_is_never_green(run: Run, repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--force", "-b", "script", "main")
    commit(repo, {"app.js": "x = 1\n"}, "Script")
    done = run("try", "--repo", str(repo), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["conclusion"]) == (1, "nothing-to-review", "skipped")
    assert "lint reads *.py or *.pyi only" in told["check"]["title"]


def test_a_repository_of_somebody_else_runs_nothing(run: Run, tmp_path: Path, repo: Path) -> None:
    marker = tmp_path / "marker"
    git(repo, "config", "filter.x.clean", f"touch {marker}; cat")
    (repo / ".git" / "info" / "attributes").write_text("* filter=x\n")
    for path in (repo, *repo.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    done = run("try", "--repo", str(repo))
    assert done.returncode == 1
    assert "belongs to somebody else" in done.stderr
    assert "safe.directory" in done.stderr
    assert not marker.exists()


def test_without_git_it_says_so(run: Run, tmp_path: Path) -> None:
    done = run("try", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("codex-debate: git is not installed")


def test_a_shallow_clone_is_asked_to_be_completed(run: Run, tmp_path: Path, repo: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=tides", repo.as_uri(), str(shallow))
    done = run("try", "--repo", str(shallow))
    assert done.returncode == 1
    assert "fetch --unshallow" in done.stderr


def test_a_branch_that_is_behind_holds_nothing(run: Run, repo: Path) -> None:
    git(repo, "branch", "behind", "main~0")
    git(repo, "checkout", "--quiet", "--force", "main")
    commit(repo, {"more.py": "M = 1\n"}, "More")
    done = run("try", "--repo", str(repo), "--head", "behind")
    assert done.returncode == 1
    assert "holds nothing that its base" in done.stderr


def test_isolation_none_is_for_try_alone(run: Run) -> None:
    done = run("serve", CODEX_DEBATE_ISOLATION="none", **APP)
    assert done.returncode == 1
    assert "goes only with `codex-debate try`" in done.stderr


def test_isolation_none_is_for_a_repository_of_ones_own(run: Run) -> None:
    done = run("try", CODEX_DEBATE_ISOLATION="none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "codex-debate: CODEX_DEBATE_ISOLATION=none goes only with a repository of your own.\n"
        "Name it with --repo, or take the setting away\n"
    )


def test_a_detached_head_and_a_named_base(run: Run, repo: Path) -> None:
    head, base = git(repo, "rev-parse", "tides"), git(repo, "rev-parse", "main")
    git(repo, "checkout", "--quiet", "--force", "--detach", head)
    done = run("try", "--repo", str(repo), "--base", base, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "consensus"


def test_what_a_command_says_without_a_debate(run: Run) -> None:
    done = run("try", "--command", "/codex-debate help")
    assert done.returncode == 0
    assert "`/codex-debate review`" in done.stdout
    done = run("try", "--command", "/codex-debate reviw")
    assert done.returncode == 1
    assert "There is no `reviw`" in done.stdout


def test_a_limit_of_rounds_leaves_it_to_a_person(run: Run) -> None:
    done = run("try", "--json", "--command", "/codex-debate review --max-rounds 1")
    assert done.returncode == 2
    assert json.loads(done.stdout)["status"] == "unresolved"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repo", "nowhere"], "there is no folder"),
        (["--repo", "."], "is no git repository"),
        (["--repo", "REPO", "--base", "nope"], "has no branch or commit 'nope'"),
        (["--repo", "REPO", "--head", "-x"], "has no branch or commit '-x'"),
        (["--repo", "REPO", "--base", "tides"], "are the same commit"),
        (["--base", "main"], "--base and --head need --repo"),
        (["--reviewer", "codex"], "the reviewer, codex, has no key: OPENAI_API_KEY is not set."),
        (["--author", "claude"], "the author, claude, has no key: ANTHROPIC_API_KEY is not set."),
        (["--author", "gpt"], "there is no agent 'gpt'"),
        (["--command", "hello"], "holds no command"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_the_next_step(
    run: Run, repo: Path, arguments: list[str], said: str
) -> None:
    done = run("try", *(str(repo) if each == "REPO" else each for each in arguments))
    assert done.returncode == 1
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("codex-debate: ")
    assert said in done.stderr
    assert rest, "the next step is named"
    assert "Traceback" not in done.stderr


@pytest.mark.threat(146)
def test_a_sentence_holds_nothing_that_a_terminal_would_obey(run: Run) -> None:
    done = run("try", "--repo", "/nonexistent/\x1b]0;title\x07a\x9b2J")
    assert done.stderr.startswith("codex-debate: there is no folder /nonexistent/a.\n")


def test_no_base_is_found(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "home" / "notes"
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=trunk")
    commit(path, {"a.txt": "a\n"}, "Begin")
    done = run("try", "--repo", str(path))
    assert done.returncode == 1
    assert done.stderr == (
        "codex-debate: no base found in ~/notes: it has neither origin/HEAD, main nor master.\n"
        "Give one: codex-debate try --repo ~/notes --base REF\n"
    )


def test_a_repository_without_a_commit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.mkdir()
    git(path, "init", "--quiet")
    done = run("try", "--repo", str(path))
    assert (done.returncode, "has no commit yet" in done.stderr) == (1, True)


def test_a_setting_that_is_wrong_is_named(run: Run) -> None:
    done = run("try", CODEX_DEBATE_MAX_ROUNDS="many")
    assert done.returncode == 1
    assert "CODEX_DEBATE_MAX_ROUNDS cannot be used" in done.stderr


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"reviewer": [{"never_ends": True}], "author": []}))
    seat = f"scripted:{scenario}"
    # A short folder: the store's socket lies below it, and a socket's path has about a hundred bytes.
    with tempfile.TemporaryDirectory() as scratch:
        env = environment(tmp_path, TMPDIR=scratch)
        process = subprocess.Popen(
            [*PROGRAM, "try", "--reviewer", seat, "--author", seat],
            env=env,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            # A test runner may ignore the signal, and its children with it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no thread here
        )
        assert process.stderr is not None
        assert any("is reviewing" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=SECONDS)
        assert (process.returncode, words.splitlines()[-1:]) == (130, ["codex-debate: stopped"])
        assert list(Path(scratch).iterdir()) == []


def test_serve_names_what_is_not_set(run: Run) -> None:
    done = run("serve")
    assert done.returncode == 1
    for name in ("GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET"):
        assert f"{name} is not set" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["bot", "worker"])
def test_one_of_the_two_needs_a_store(run: Run, command: str) -> None:
    done = run(command, **APP)
    assert done.returncode == 1
    assert "REDIS_URL is not set" in done.stderr


async def served(tmp_path: Path, github: StandIn, commands: list[str], **over: str) -> Any:
    """Run server commands against a stand-in, debate once with lint, and return the check run."""
    (tmp_path / "home").mkdir(exist_ok=True)
    env = environment(
        tmp_path,
        GITHUB_APP_ID=github.app_id,
        GITHUB_APP_PRIVATE_KEY=github.app_private_key,
        GITHUB_WEBHOOK_SECRET=github.webhook_secret,
        GITHUB_API_URL=github.api_url,
        GITHUB_SERVER_URL=github.server_url,
        CODEX_DEBATE_REVIEWER="lint",
        CODEX_DEBATE_AUTHOR="lint",
        CODEX_DEBATE_PORT="0",
        CODEX_DEBATE_ALLOW="you",
        **over,
    )
    processes = [
        await asyncio.create_subprocess_exec(*PROGRAM, command, env=env, stderr=asyncio.subprocess.PIPE)
        for command in commands
    ]
    try:
        first = processes[0].stderr
        assert first is not None
        while b"bot started" not in (line := await asyncio.wait_for(first.readline(), SECONDS)):
            assert line, "it ended"
        github.webhook_url = f"http://127.0.0.1:{json.loads(line)['port']}/webhook"
        repo = await github.create_repository("you/app")
        await github.commit(repo, "main", {"a.py": "x = 1\n"})
        await github.commit(repo, "feature", {"a.py": "import os\n\nx = 1\n"}, parent="main")
        number = await github.open_pull_request(repo, "feature")
        await github.comment(repo, number, "/codex-debate review")
        async with asyncio.timeout(SECONDS):
            while not (found := [each for each in github.check_runs(repo) if each.status == "completed"]):
                await asyncio.sleep(0.05)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            await asyncio.wait_for(process.communicate(), SECONDS)
            assert process.returncode == 0
        return found[0]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_serve_brings_its_own_store(tmp_path: Path) -> None:
    async with await StandIn.start(tmp_path / "github") as github:
        check = await served(tmp_path, github, ["serve"])
    assert (check.conclusion, check.title) == ("action_required", "Consensus: 1 fix waits to be pushed")


async def test_bot_and_worker_meet_in_one_redis(tmp_path: Path) -> None:
    async with EmbeddedStore(tmp_path / "store") as url, await StandIn.start(tmp_path / "github") as github:
        check = await served(tmp_path, github, ["bot", "worker"], REDIS_URL=url)
    assert check.conclusion == "action_required"


def test_help_names_every_command(tmp_path: Path) -> None:
    done = start(tmp_path, "--help")
    assert done.returncode == 0
    for command in ("try", "serve", "bot", "worker"):
        assert f"\n  {command} " in done.stdout
