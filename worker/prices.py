"""What models cost: the table of prices, and the sum that some tokens come to.

The table is TOML (`deploy/prices.toml`, or a file of the operator's own) and is handed in as text. Prices are US
dollars per million tokens. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worker.debate.flow import Tokens

MILLION = 1_000_000
DEAREST = 10_000
"""US dollars per million tokens. A price above it is a slip of the pen: the dearest models cost some hundreds."""
ApiName: TypeAlias = Literal["responses", "messages"]
"""The two model APIs, as `worker.gateway` calls them."""

_SNAPSHOT = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}|latest))?(\[1m\])?")
"""What stands behind a model's name where a dated snapshot or an alias of it is meant: ``gpt-6.1-sol-2026-09-29`` and
``claude-haiku-4-5-20251001`` (both providers' pages of models); claude's ``[1m]`` asks for its long context."""


class PricesError(Exception):
    """A table of prices that cannot be used. ``str(error)`` names the row and the field."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call came to."""

    usd: float
    known: bool = True
    """False: the table has no row for the model, and its API's dearest row was taken."""


Price = Annotated[float, Field(ge=0, le=DEAREST, allow_inf_nan=False, strict=True)]


class Row(BaseModel):
    """The prices of one model, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    api: ApiName
    model: str = Field(min_length=1)
    """The name without a date; with ``*`` at its end, every name that begins so."""
    input: Price
    """What the model reads and its cache has nothing to do with."""
    cached_input: Price
    """What is read from the provider's cache."""
    output: Price
    cache_write: Price | None = None
    """What is read and kept in the cache for some minutes; `input` without it."""
    cache_write_long: Price | None = None
    """What is kept there for an hour or longer; `cache_write` without it."""
    over: int = Field(default=0, ge=0, strict=True)
    """The row is for calls whose input, cached or not, is more than so many tokens."""
    source: str = Field(min_length=1)
    """Where the figures come from."""
    date: dt.date = Field(strict=True)
    """When they were looked up."""

    def is_of(self, model: str) -> bool:
        """Return whether the row is for a model, one of its snapshots or an alias of it."""
        if self.model.endswith("*"):
            return model.startswith(self.model[:-1])
        return model.startswith(self.model) and _SNAPSHOT.fullmatch(model[len(self.model) :]) is not None

    def usd(self, tokens: Tokens, *, cache_write: int, cache_write_long: int) -> float:
        """Return what some tokens cost. The parts that are cached or written are contained in the input."""
        write = self.input if self.cache_write is None else self.cache_write
        write_long = write if self.cache_write_long is None else self.cache_write_long
        plain = max(0, tokens.input - tokens.cached - cache_write - cache_write_long)
        parts = (
            plain * self.input,
            tokens.cached * self.cached_input,
            cache_write * write,
            cache_write_long * write_long,
            tokens.output * self.output,
        )
        return sum(parts) / MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """A table that was checked: each API has a row, and each model of it one for the smallest calls."""

    rows: tuple[Row, ...]

    def cost(self, api: str, model: str, tokens: Tokens, cache_write: int = 0, cache_write_long: int = 0) -> Cost:
        """Return what one call cost. `cache_write` and `cache_write_long` are parts of `tokens.input`.

        An unknown model counts as the dearest one of its API would.
        """
        rows = [row for row in self.rows if row.api == api]
        fitting = [row for row in rows if row.is_of(model)]
        longest = max((len(row.model) for row in fitting), default=0)
        named = [row for row in fitting if len(row.model) == longest]

        def usd(row: Row) -> float:
            return row.usd(tokens, cache_write=cache_write, cache_write_long=cache_write_long)

        if named:
            return Cost(usd(_for_size(named, tokens.input)))
        models = {row.model for row in rows}
        whole = [_for_size([row for row in rows if row.model == name], tokens.input) for name in models]
        return Cost(max((usd(row) for row in whole), default=0.0), known=False)


def load(text: str) -> Prices:
    """Return the table that a TOML text holds, an array of tables ``[[price]]``. Raises `PricesError`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PricesError(f"the table of prices is not TOML: {error}") from error
    found = document.pop("price", None)
    if document or not isinstance(found, list):
        raise PricesError("the table of prices holds rows, each begun by [[price]], and nothing else")
    rows = tuple(_row(number, each) for number, each in enumerate(found, 1))
    _check(rows)
    return Prices(rows)


def _row(number: int, found: object) -> Row:
    try:
        return Row.model_validate(found)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = found.get("model", "without a model") if isinstance(found, dict) else "no table"
        field = ".".join(map(str, fault["loc"])) or "row"
        raise PricesError(f"row {number} of the prices ({name}), {field}: {fault['msg']}") from error


def _check(rows: tuple[Row, ...]) -> None:
    """Raise `PricesError` where rows contradict each other or leave a call without a price."""
    seen: set[tuple[str, str, int]] = set()
    for number, row in enumerate(rows, 1):
        if (row.api, row.model, row.over) in seen:
            raise PricesError(f"row {number} of the prices ({row.model}), model: an earlier row has the same one")
        seen.add((row.api, row.model, row.over))
    for number, row in enumerate(rows, 1):
        if (row.api, row.model, 0) not in seen:
            raise PricesError(f"row {number} of the prices ({row.model}), over: the model has no row without it")
    for api in ("responses", "messages"):
        if not any(row.api == api for row in rows):
            # Without one, an unknown model of this API would cost nothing, and no ceiling would hold.
            raise PricesError(f"the prices have no row, api: one of {api!r} is needed")


def _for_size(rows: list[Row], size: int) -> Row:
    """Return the row of one model for a call of so many tokens of input: a call is priced as a whole."""
    return max((row for row in rows if row.over == 0 or size > row.over), key=lambda row: row.over)
