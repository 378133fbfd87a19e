"""The command `codex-debate`: what it can do, and the one sentence that it says where it cannot.

It reads the command line and composes; what is done is elsewhere. No traceback reaches a person from here.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

import click

from bot.main import run_bot
from bot.redact import redact, visible
from bot.settings import Settings, SettingsError, load_settings, local_settings
from bot.store import Store, StoreAway, StoreRefused
from bot.telemetry import configure
from deploy.pricing import prices
from deploy.source import NoDebate
from deploy.store import EmbeddedStore, StoreFailed
from deploy.trial import Wish, attempt
from worker.main import Supplies, run_worker

SIGNALLED = 128
"""Stands before a signal's number in an exit status, as shells have it."""
INTERRUPTED = SIGNALLED + signal.SIGINT
"""The exit status after Ctrl-C."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="codex-debate", message="codex-debate %(version)s")
def main() -> None:
    """Two coding agents argue about a pull request until they agree.

    Begin with `codex-debate try`: it needs no GitHub, no network and no key.
    """


@main.command("try")
@click.option(
    "--repo",
    type=click.Path(path_type=Path),
    help="A git repository of yours; it is only read. Default: a small sample.",
)
@click.option("--base", metavar="REF", help="What to compare with. Default: origin/HEAD, main or master.")
@click.option("--head", metavar="REF", help="What to review. Default: the current branch, as committed.")
@click.option("--reviewer", metavar="AGENT", help="Who reviews: codex, claude or lint.")
@click.option("--author", metavar="AGENT", help="Who answers and fixes: codex, claude or lint.")
@click.option(
    "--command",
    default="/codex-debate review",
    metavar="TEXT",
    help="The comment to write.  [default: /codex-debate review]",
)
@click.option("--keep", is_flag=True, help="Fetch the debate's branch into your repository.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def try_(**asked: Any) -> None:  # noqa: ANN401 - click's own types, named above
    """Debate a change on this machine.

    Opens a pull request on a GitHub of its own, writes the command, shows the debate, and prints the comment and the
    check run. Exits with 0 on consensus, 2 where a person has to decide, 1 where it could not be done.
    """
    _end(_attempt(Wish(**asked)))


async def _attempt(wish: Wish) -> int:
    """Try, and clean up also where the terminal is closed or the process is asked to end."""
    task, ended = asyncio.current_task(), list[int]()

    def end(number: int) -> None:
        ended.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await attempt(wish, local_settings())
    except asyncio.CancelledError:
        if not ended:
            raise
        return SIGNALLED + ended[0]


@main.command()
def serve() -> None:
    """Run the receiver and a worker on this machine.

    Without REDIS_URL it brings its own store.
    """
    _end(_serve(load_settings, bot=True, worker=True))


@main.command()
def bot() -> None:
    """Run the receiver alone. Needs REDIS_URL."""
    _end(_serve(load_settings, bot=True, worker=False))


@main.command()
def worker() -> None:
    """Run a worker alone. Needs REDIS_URL."""
    _end(_serve(lambda: load_settings(receiver=False), bot=False, worker=True))


async def _serve(read: Callable[[], Settings], *, bot: bool, worker: bool) -> int:
    """Run what is asked for until a signal ends it."""
    settings = read()
    if settings.isolation == "none":
        raise SettingsError(("CODEX_DEBATE_ISOLATION=none goes only with `codex-debate try`: take it away here.",))
    configure(settings.log)
    if settings.redis_url is not None or not (bot and worker):
        if settings.redis_url is None:
            raise SettingsError(
                ("REDIS_URL is not set: name the store, or use `codex-debate serve`, which brings one.",)
            )
        await _run(settings, settings.redis_url, bot=bot, worker=worker)
        return 0
    async with EmbeddedStore(settings.state_dir / "store") as url:
        await _run(settings, url, bot=bot, worker=worker)
    return 0


async def _run(settings: Settings, url: str, *, bot: bool, worker: bool) -> None:
    store = await Store.connect(url, keep_days=settings.keep_days)
    try:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with asyncio.TaskGroup() as group:
            if bot:
                group.create_task(run_bot(settings, store, stop=stop))
            if worker:
                group.create_task(run_worker(settings, store, Supplies(prices(settings.state_dir)), stop=stop))
    finally:
        await store.close()


# ---- The end --------------------------------------------------------------------------------------------------------


def _end(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run to the end and exit. Whatever a person can mend is one sentence and its next step."""
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        click.echo("codex-debate: stopped", err=True)
        code = INTERRUPTED
    except BaseException as error:
        sentences = _sentences(error)
        if not sentences:
            raise
        for sentence in sentences:
            # It may name what git, a path or a branch says.
            click.echo(f"codex-debate: {redact(visible(sentence))}", err=True)
        code = 1
    sys.exit(code)


def _sentences(error: BaseException) -> list[str]:  # noqa: PLR0911 - one return a kind of error
    """Return what to tell a person about an error; nothing where it is a fault of ours."""
    match error:
        case BaseExceptionGroup():
            return [sentence for each in error.exceptions for sentence in _sentences(each)]
        case SettingsError():
            return list(error.sentences)
        case NoDebate() | StoreFailed() | StoreRefused():
            return [str(error)]
        case StoreAway():
            return ["the store does not answer.\nCheck REDIS_URL, and that the server runs"]
        case OSError(errno=errno.EADDRINUSE):
            return ["the receiver's port is in use.\nChoose another one with CODEX_DEBATE_PORT"]
        case OSError():
            return [f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"]
        case _:
            return []
