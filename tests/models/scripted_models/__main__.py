"""``python -m scripted_models SCRIPT.json [--port N]``: serve a script until interrupted, and tell what is asked."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import click

from scripted_models.script_file import ScriptError, play_file
from scripted_models.server import ModelServer


async def serve(script: Path, *, port: int) -> None:
    """Serve until the process is asked to end. Raises `ScriptError` and `OSError`."""
    asked_to_end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    async with ModelServer.start(port=port) as models:
        play_file(script, models)
        click.echo(f"OpenAI's API for codex: {models.openai_url}")
        click.echo(f"Anthropic's API for claude: {models.anthropic_url}")
        click.echo("Any key will do. Control-C ends the server.")
        await asked_to_end.wait()


@click.command()
@click.argument("script", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--port", default=0, help="The port of 127.0.0.1; a free one where none is named.")
def main(script: Path, port: int) -> None:
    """Play SCRIPT, a JSON file, as both model APIs."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        asyncio.run(serve(script, port=port))
    except ScriptError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"Port {port} cannot be served ({error.strerror}). Name another one.") from error


if __name__ == "__main__":
    main(prog_name="python -m scripted_models")
