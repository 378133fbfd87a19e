"""Which table of prices a worker reckons with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.settings import SettingsError
from deploy.pricing import NAME, prices
from worker.debate.flow import Tokens

ROW = """
[[price]]
api = "responses"
model = "mine"
input = 7.0
cached_input = 0.5
output = 9.0
source = "our contract"
date = 2026-11-30
"""


def test_ours_knows_the_models_of_both_providers(tmp_path: Path) -> None:
    table = prices(tmp_path)
    for api, model in (("responses", "gpt-6.1-sol"), ("messages", "claude-sonnet-5")):
        assert table.cost(api, model, Tokens(1_000_000, 0, 0)).known


def test_the_operators_own_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(ROW + ROW.replace("responses", "messages"))
    cost = prices(tmp_path).cost("responses", "mine", Tokens(1_000_000, 0, 0))
    assert (cost.usd, cost.known) == (7.0, True)


@pytest.mark.parametrize("text", ["[[price]]\napi = 1\n", "not toml", ROW.replace("7.0", '"seven"')])
def test_one_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(SettingsError) as failed:
        prices(tmp_path)
    (sentence,) = failed.value.sentences
    assert sentence.startswith(f"{tmp_path / NAME} cannot be used: ")
    assert sentence.endswith("Mend it, or remove it to use ours.")


def test_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        prices(tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        prices(tmp_path)
