"""The table of prices that a worker reckons with: the operator's own, else the one that came with this version."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from bot.settings import SettingsError
from worker.prices import Prices, PricesError, load

NAME = "prices.toml"


def prices(state: Path) -> Prices:
    """Return the table below the state folder, where an operator put one, else ours. Raises `SettingsError`."""
    own = state / NAME
    try:
        text = own.read_text("utf-8") if own.exists() else (files("deploy") / NAME).read_text("utf-8")
        return load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError((f"{own} cannot be read: {error}.",)) from error
    except PricesError as error:
        raise SettingsError((f"{own} cannot be used: {error}. Mend it, or remove it to use ours.",)) from error
