"""What models cost: the table that is shipped, how a model finds its row, and what is said of a table that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worker.debate.flow import Tokens
from worker.prices import DEAREST, Cost, Prices, PricesError, load
from worker.relay import APIS

SHIPPED = Path(__file__).parents[2] / "deploy" / "prices.toml"
MILLION = Tokens(1_000_000, 0, 0)


@pytest.fixture(scope="module")
def shipped() -> Prices:
    return load(SHIPPED.read_text("utf-8"))


def row(api: str = "responses", model: str = "m", **over: object) -> str:
    fields: dict[str, object] = {"input": "2.0", "cached_input": "0.2", "output": "10.0", "date": "2026-11-30"}
    fields |= {"api": f'"{api}"', "model": f'"{model}"', "source": '"here"', **over}
    return "[[price]]\n" + "\n".join(f"{name} = {value}" for name, value in fields.items() if value is not None) + "\n"


OTHER = row("messages", "other", input="1.0", output="5.0")


def cost(text: str, model: str, tokens: Tokens = MILLION) -> Cost:
    return load(text + OTHER).cost("responses", model, tokens)


# ---- The table that is shipped --------------------------------------------------------------------------------------


def test_the_shipped_table_has_a_row_for_what_the_agents_run_by_default(shipped: Prices) -> None:
    """agents.md 2.3 and 4.1, and what codex 0.163 lists with `codex debug models --bundled`."""
    known = {
        "responses": ("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-6-astra", "gpt-6-sol"),
        "messages": ("claude-sonnet-5", "claude-opus-5", "claude-haiku-4-5", "claude-opus-5-5", "claude-sonnet-5-5"),
    }
    for api, models in known.items():
        for model in (*models, *(("gpt-6-luna", "gpt-6.1-sol") if api == "responses" else ())):
            assert shipped.cost(api, model, MILLION).known, model


def test_every_shipped_row_says_where_it_is_from(shipped: Prices) -> None:
    for each in shipped.rows:
        assert re.search(r"genai-prices|openai\.com|claude\.com", each.source), each
        assert each.date.year == 2026
        assert 0 <= each.cached_input <= each.input <= each.output
        assert (each.cache_write or each.input) >= each.input
    assert {each.api for each in shipped.rows} == set(APIS)


def test_a_call_costs_what_claude_itself_says_it_costs(shipped: Prices) -> None:
    """The program (2.1.332) told $0.000126 for this usage of claude-sonnet-5, and these for the others."""
    told = {"claude-sonnet-5": 126, "claude-sonnet-5-5": 123, "claude-sonnet-4-6": 189, "claude-opus-5": 315}
    told |= {"claude-opus-5-5": 246, "claude-haiku-4-5-20251001": 63, "claude-fable-5-2": 486}
    for model, micro in told.items():
        usd = shipped.cost("messages", model, Tokens(input=60, cached=30, output=5), 20).usd
        assert round(usd * 1_000_000, 3) == micro, model


def test_a_dollar_is_counted_by_hand(shipped: Prices) -> None:
    tokens = Tokens(input=100_000, cached=60_000, output=10_000)
    found = shipped.cost("responses", "gpt-6.1-sol", tokens, 20_000)
    assert found.usd == pytest.approx((20_000 * 2 + 60_000 * 0.1 + 20_000 * 2.5 + 10_000 * 10) / 1e6)
    hour = shipped.cost("messages", "claude-opus-5", Tokens(input=10_000), 0, 10_000)
    assert hour.usd == pytest.approx(0.1)


# ---- Finding a row --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["m", "m-20260101", "m-2026-01-01", "m@20260101", "m-latest", "m[1m]", "m-20260101[1m]"]
)
def test_snapshots_and_aliases_have_the_price_of_their_model(name: str) -> None:
    assert cost(row(), name) == Cost(2.0)


@pytest.mark.parametrize("name", ["m-pro", "m-5", "m2", "M", "xm", "m-2026", "", "m-20260101-pro"])
def test_what_only_begins_like_a_model_is_another_one(name: str) -> None:
    assert not cost(row(), name).known


def test_the_longest_name_counts() -> None:
    table = row(model="m*", input="9.0") + row(model="m-5", input="3.0") + row(model="m-5-*", input="4.0")
    assert [cost(table, name).usd for name in ("m-4", "m-5", "m-5-20260101", "m-5-5")] == [9.0, 3.0, 4.0, 4.0]


def test_an_unknown_model_counts_as_the_dearest_one_of_its_api_and_says_so() -> None:
    table = row(model="a", input="3.0", output="3.0") + row(model="b", input="1.0", output="30.0")
    assert cost(table, "c", Tokens(1_000_000, 0, 0)) == Cost(3.0, known=False)
    assert cost(table, "c", Tokens(0, 0, 1_000_000)) == Cost(30.0, known=False)
    assert load(table + OTHER).cost("messages", "c", MILLION) == Cost(1.0, known=False)


def test_a_long_call_is_priced_as_a_whole_at_its_own_row() -> None:
    table = row() + row(over="1000", input="4.0")
    assert cost(table, "m", Tokens(1000, 0, 0)).usd == pytest.approx(0.002)
    assert cost(table, "m", Tokens(1001, 0, 0)).usd == pytest.approx(0.004004)
    assert cost(table, "unknown", Tokens(1001, 0, 0)).usd == pytest.approx(0.004004)
    assert cost(table, "unknown", Tokens(1000, 0, 0)).usd == pytest.approx(0.002)


def test_what_is_written_to_the_cache_costs_like_input_where_nothing_else_is_said() -> None:
    plain, dear = load(row() + OTHER), load(row(cache_write="2.5", cache_write_long="4.0") + OTHER)
    assert plain.cost("responses", "m", MILLION, 500_000, 500_000).usd == 2.0
    assert dear.cost("responses", "m", MILLION, 500_000, 500_000).usd == 3.25


def test_counts_that_contradict_each_other_never_make_a_call_cheaper_than_nothing() -> None:
    assert cost(row(), "m", Tokens(10, 1_000_000, 0)).usd == pytest.approx(0.2)


# ---- A table that is wrong ------------------------------------------------------------------------------------------

WRONG = [
    ("x = [", "not TOML"),
    ("x = 1", "holds rows"),
    ("price = 1", "holds rows"),
    (row() + "[other]\nx = 1", "holds rows"),
    (row(output=None), r"row 1 of the prices \(m\), output: Field required"),
    (row(input="-1.0"), r"row 1 of the prices \(m\), input:"),
    (row(input='"2"'), r"row 1 of the prices \(m\), input:"),
    (row(input="inf"), r"row 1 of the prices \(m\), input:"),
    (row(input="10000.01"), r"row 1 of the prices \(m\), input: Input should be less than or equal to 10000"),
    (row(cache_write="1e308"), r"row 1 of the prices \(m\), cache_write:"),
    (row(input="nan"), r"row 1 of the prices \(m\), input:"),
    (row(price="1.0"), r"row 1 of the prices \(m\), price:"),
    (row("chat"), r"row 1 of the prices \(m\), api:"),
    (row(model=""), r"row 1 of the prices \(\), model:"),
    (row(date='"today"'), r"row 1 of the prices \(m\), date:"),
    (row(source=None), r"row 1 of the prices \(m\), source: Field required"),
    (row() + row(), r"row 2 of the prices \(m\), model: an earlier row"),
    (row(over="1000"), r"row 1 of the prices \(m\), over: the model has no row without it"),
    (row("messages"), r"api: one of 'responses' is needed"),
    ("price = [1]", r"row 1 of the prices \(no table\), row:"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_table_is_refused_with_the_row_and_the_field(text: str, words: str) -> None:
    with pytest.raises(PricesError, match=words):
        load(text)


def test_the_dearest_price_is_one() -> None:
    assert DEAREST == 10_000
    assert cost(row(input="10000.0"), "m") == Cost(10_000.0)


def test_whole_numbers_are_prices_too() -> None:
    assert cost(row(input="0", cached_input="0", output="0"), "m") == Cost(0.0)
