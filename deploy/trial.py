"""`codex-debate try`: one debate on this machine, from the slash command to the rendered result.

It owns the order of a trial: look at the repository, start the machine, open the pull request, write the command, show
the debate, keep the branch, tell the end. The pipeline is the real one; nothing here knows how a debate is led.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bot import commands
from bot.settings import Settings
from bot.statuses import TABLE, Status
from bot.telemetry import configure
from deploy.ending import CommitLine, Result, ending, plain_end, taking, tilde
from deploy.layout import Drawn
from deploy.machine import OWNER, STATE, Machine, machine
from deploy.pricing import prices
from deploy.seats import seats, tools
from deploy.source import NoDebate, Source, keep_branch, look, sample_source, take_branch
from deploy.standin import Repo
from deploy.view import Display, Progress, View, load
from worker.main import Supplies

POLL_SECONDS = 0.05
"""Between two looks at how the run stands."""
KEPT_SECONDS = 24 * 3600.0
"""For so long a trial's branch and comment are kept (interface.md 1)."""
LOG_NAME = "log.jsonl"
KEPT_NAME = "kept"
"""Marks a trial that is kept for longer (`--keep`)."""
PREFIX = "codex-debate-"
"""Begins the name of a trial's working folder."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked on the command line."""

    repo: Path | None = None
    base: str | None = None
    head: str | None = None
    reviewer: str | None = None
    author: str | None = None
    command: str = "/codex-debate review"
    keep: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a trial: a debate that ended, or a reply to a command that started none."""

    comment: str = ""
    """The comment as posted, or the reply."""
    refused: bool = False
    """The command was answered with 😕."""
    run: str = ""
    status: str = ""
    progress: Progress | None = None
    check: dict[str, str] | None = None
    commits: tuple[CommitLine, ...] = ()
    branch: str = ""
    """The debate's branch in the kept repository; empty where there is no commit."""
    folder: Path | None = None
    """What is kept of the debate."""
    seconds: float = 0.0
    """From the command to the end."""


async def attempt(wish: Wish, settings: Settings) -> int:
    """Debate, tell the end, and return the exit status.

    `settings` gives the state folder and the keys that are set. Raises `NoDebate` where nothing can be debated, and
    what `deploy.machine.machine` raises.
    """
    if shutil.which("git") is None:
        raise NoDebate("git is not installed, or not on the PATH.\nInstall it, then try again")
    if commands.parse(wish.command, max_rounds=settings.max_rounds) is None:
        raise NoDebate(
            "the text of --command holds no command.\nFor example: --command '/codex-debate review --max-rounds 3'"
        )
    if settings.isolation == "none" and wish.repo is None:
        raise NoDebate(
            "CODEX_DEBATE_ISOLATION=none goes only with a repository of your own.\n"
            "Name it with --repo, or take the setting away"
        )
    kept = settings.state_dir / "try"
    await asyncio.to_thread(_make_room, kept)
    work = await asyncio.to_thread(_make_work)
    try:
        source = await _source(wish, work)
        with (work / LOG_NAME).open("w", encoding="utf-8") as log:
            configure("json", stream=log)
            seated = await seats(wish.reviewer, wish.author, settings, folder=work / STATE)
            view = View(source=_where(source), left_out=_left_out(source), note=_note(seated.note, settings))
            display = Display(Console(stderr=True), view)
            supplies = Supplies(prices(settings.state_dir), tools(settings, work / STATE))
            async with machine(work, supplies=supplies, reviewer=seated.reviewer, author=seated.author) as running:
                repo = await _offer(running, source)
                with display:
                    told = await _debate(running, repo, source, wish.command, display)
                told = await _keep(told, kept, work, repo=repo, wish=wish)
        failed = await _take(told, source, wish)
        await _tell(told, source, replace(wish, keep=wish.keep and failed is None))
        if failed is not None:
            raise failed
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    if not told.run:
        return 1 if told.refused else 0
    return TABLE[Status(told.status)].exit_code


# ---- The debate -----------------------------------------------------------------------------------------------------


async def _source(wish: Wish, work: Path) -> Source:
    if wish.repo is None:
        if wish.base or wish.head:
            raise NoDebate("--base and --head need --repo.\nFor example: codex-debate try --repo . --base main")
        return await sample_source(work / "sample")
    return await look(wish.repo, base=wish.base, head=wish.head)


async def _offer(running: Machine, source: Source) -> Repo:
    """Put the two commits on the stand-in, as branches of a repository."""
    branches = {source.base_sha: source.base, source.head_sha: source.head}
    return await running.github.create_repository(
        f"{OWNER}/{source.name}", source.repo, default_branch=source.base, source_refs=branches
    )


async def _debate(running: Machine, repo: Repo, source: Source, command: str, display: Display) -> Told:
    """Open the pull request, write the command, and show what comes of it until it has ended."""
    github = running.github
    # The command starts the debate here, whatever the repository's own file says about opened pull requests.
    github.events.discard("pull_request")
    number = await github.open_pull_request(repo, source.head, source.base, source.title, source.body, author=OWNER)
    comment = await github.comment(repo, number, command, OWNER)
    run, shown = "", ""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        reactions = {each.content for each in github.reactions(comment)}
        replies = [each.body for each in github.comments(repo, number) if each.by_app]
        if not run:
            checks = github.check_runs(repo)
            run = checks[-1].external_id or "" if checks else ""
            if not run and replies:
                return Told(comment="\n\n".join(replies), refused="confused" in reactions)
            continue
        state = await running.store.runs.state(run)
        raw = await running.store.runs.progress(run) or ""
        # Before the checkout there is nothing to show yet but the run's name.
        if raw not in {"", shown} and (load(raw).files or state.status is not None):
            display.show(load(raw))
            shown = raw
        if state.status is not None:
            return await _ended(running, repo, number, run=run, raw=raw, status=state.status)


async def _ended(running: Machine, repo: Repo, number: int, **facts: str) -> Told:
    """Gather what stands on the stand-in when a run has ended."""
    github, run = running.github, facts["run"]
    (check,) = (each for each in github.check_runs(repo) if each.external_id == run)
    ref = f"refs/heads/codex-debate/pr-{number}/{run}"
    tip = await github.read_ref(repo, ref)
    commits = await github.log(repo, ref, since=check.head_sha) if tip else []
    progress = load(facts["raw"])
    return Told(
        comment="\n\n".join(each.body for each in github.comments(repo, number) if each.by_app),
        run=run,
        status=facts["status"],
        progress=progress,
        seconds=time.time() - progress.started,
        check={"title": check.title or "", "summary": check.summary or "", "conclusion": check.conclusion or ""},
        commits=tuple(CommitLine(_round_of(each.body), each.sha, each.subject) for each in reversed(commits)),
        branch=ref if tip else "",
    )


def _round_of(body: str) -> int:
    """Return the round that a commit names in its trailers."""
    found = [line.partition(": ")[2] for line in body.splitlines() if line.startswith("Debate-Round: ")]
    return int(found[-1]) if found else 0


# ---- After ----------------------------------------------------------------------------------------------------------


async def _keep(told: Told, kept: Path, work: Path, *, repo: Repo, wish: Wish) -> Told:
    """Keep the branch, the comment and, with them, the log of a debate for a day."""
    if not told.run:
        return told
    folder = kept / told.run
    branch = f"codex-debate/{told.run}"
    if told.branch:
        await keep_branch(folder, repo.path, ref=told.branch, branch=branch, commits=len(told.commits))
    await asyncio.to_thread(_write, folder, told, work / LOG_NAME)
    if wish.keep:
        await asyncio.to_thread((folder / KEPT_NAME).touch)
    return replace(told, branch=branch if told.branch else "", folder=folder)


async def _take(told: Told, source: Source, wish: Wish) -> NoDebate | None:
    """Fetch the branch into the person's repository, where they want it; return why that could not be."""
    if not wish.keep or not told.branch or told.folder is None or source.is_sample:
        return None
    try:
        await take_branch(source, told.folder, told.branch)
    except NoDebate as failed:
        return failed
    return None


def _write(folder: Path, told: Told, log: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "comment.md").write_text(told.comment, encoding="utf-8")
    check = told.check or {}
    (folder / "check.md").write_text(f"# {check.get('title', '')}\n\n{check.get('summary', '')}\n", encoding="utf-8")
    shutil.copyfile(log, folder / LOG_NAME)


def _note(seats: str, settings: Settings) -> str:
    """Return the first lines: who sits where nobody chose, and that there are no walls."""
    walls = (
        "With no isolation, as you chose, agents run as you on this machine." if settings.isolation == "none" else ""
    )
    return " ".join(filter(None, [seats, walls]))


def _make_work() -> Path:
    """Make a trial's working folder. The sandbox's user may pass through it; what lies in it is nobody else's."""
    work = Path(tempfile.mkdtemp(prefix=PREFIX))
    work.chmod(0o711)
    (work / STATE).mkdir()
    (work / STATE).chmod(0o711)
    for name in ("store", "github"):
        (work / name).mkdir(mode=0o700)
    (work / LOG_NAME).touch(mode=0o600)
    return work


def _make_room(kept: Path) -> None:
    """Make the folder of what is kept, and remove what nobody took in a day: trials, and what killed ones left."""
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (*kept.iterdir(), *Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - KEPT_SECONDS and not (folder / KEPT_NAME).exists():
                shutil.rmtree(folder, ignore_errors=True)


async def _tell(told: Told, source: Source, wish: Wish) -> None:
    """Print the end: JSON, a short rendering on a terminal, or the comment as posted."""
    out = Console()
    if wish.as_json:
        _print(json.dumps(_document(told), ensure_ascii=False, indent=2))
    if told.progress is None or told.check is None:
        if not wish.as_json:
            _print(told.comment)
        return
    result = _result(told, source, wish)
    if out.is_terminal and not wish.as_json:
        out.print()
        out.print(Drawn(lambda look: ending(result, look)))
        for line in taking(result):  # a command must not be broken by us: what it does depends on its line ends
            out.print(line, soft_wrap=True)
        return
    if not wish.as_json:
        _print(told.comment or f"**{told.check['title']}**\n\n{told.check['summary']}")
    # Where the branch was brought in, the first line says so; else it only repeats what `plain_end` told.
    first = 0 if result.kept else 1
    for text in (plain_end(result), *map(str, taking(result)[first:])):
        sys.stderr.write(f"{text}\n")


def _print(text: str) -> None:
    """Print to standard output as UTF-8, whatever the terminal's encoding is: it is what was posted."""
    sys.stdout.buffer.write(text.rstrip("\n").encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()


def _document(told: Told) -> dict[str, Any]:
    """Return what `--json` prints (interface.md 1)."""
    return {
        "run": told.run or None,
        "status": told.status or None,
        "conclusion": told.check["conclusion"] if told.check else None,
        "rounds": len(told.progress.rounds) if told.progress else 0,
        "commits": [{"sha": each.sha, "subject": each.subject} for each in told.commits],
        "comment": told.comment or None,
        "check": told.check,
        "branch": told.branch or None,
    }


def _result(told: Told, source: Source, wish: Wish) -> Result:
    progress, check = told.progress, told.check or {}
    if progress is None:
        raise ValueError("only a debate has an end to tell")
    home = Path.home()
    plain = (progress.badge if told.comment else f"⚠️ {check.get('title', '')}. {check.get('summary', '')}").partition(
        "\n"
    )[0]
    badge, _, words = plain.replace("**", "").replace("`", "").partition(" ")
    first, _, rest = words.partition(". ")
    return Result(
        status=told.status,
        badge=badge,
        headline=first.rstrip(".") + ".",
        remarks=(rest,) if rest else (),
        notes=tuple(f"Outside this pull request: {each}." for each in progress.outside),
        rounds=len(progress.rounds),
        seconds=told.seconds,
        usd=progress.usd,
        conclusion=check.get("conclusion", ""),
        title=check.get("title", ""),
        findings=progress.findings,
        commits=told.commits,
        comment=tilde(told.folder / "comment.md", home) if told.folder and told.comment else "",
        repo="" if source.is_sample else tilde(source.repo, home),
        store=tilde(told.folder, home) if told.folder else "",
        branch=told.branch,
        kept=wish.keep and not source.is_sample,
    )


def _where(source: Source) -> str:
    return "the sample repository" if source.is_sample else tilde(source.repo, Path.home())


def _left_out(source: Source) -> str:
    """Return what of the repository is not debated: ``2 uncommitted files, README.md and notes.txt``."""
    names = list(source.left_out)
    if not names:
        return ""
    shown = names[:3] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    joined = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{len(names)} uncommitted file{'' if len(names) == 1 else 's'}, {joined}"
