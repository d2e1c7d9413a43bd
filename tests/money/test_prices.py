"""What requests cost by the list, and what is paid for them: see `prices.txt`, and what was recorded of OpenRouter."""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.money.prices import (
    Prices,
    cache_prices,
    highest,
    paid,
    read_prices,
    tool_parts,
)
from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.effects import Usage, read_usage
from tests.support.rows import rows

TABLES: Final = Path(__file__).with_name("prices.txt")
RECORDED: Final = Path(__file__).parents[1] / "data" / "openrouter"
ROWS: Final = [each["row"] for each in json.loads((RECORDED / "catalogue.json").read_text("utf-8"))["rows"]]
BILLS: Final = json.loads((RECORDED / "usage.json").read_text("utf-8"))
PRICING: Final = {row["id"]: row.get("pricing") for row in ROWS if "id" in row}
NIGHT: Final = {
    "prompt": "0.000001",
    "overrides": [{"utc_start": 2230, "utc_end": 615, "prompt": "0.0000004"}],
}
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONDAY: Final = datetime(2026, 11, 30, tzinfo=UTC)
EXAMPLES: Final = rows(TABLES, "examples", {**PRICING, "NIGHT": NIGHT})
LISTED: Final = Prices(input=1e-6, output=1e-5)


def seconds_of(when: str) -> float | None:
    """A time of the last week of November 2026, None for none in particular."""
    if when in {"", "1h"}:
        return None
    day, clock = when.split()
    hours, minutes = map(int, clock.split(":"))
    return (MONDAY + timedelta(days=DAYS.index(day), hours=hours, minutes=minutes)).timestamp()


@pytest.mark.parametrize(("pricing", "used", "when", "dollars"), EXAMPLES)
def test_each_price_counts_as_openrouter_has_it(
    pricing: Any, used: dict[str, int], when: str, dollars: list[float]
) -> None:
    """By size, hour and day, for text, thinking, audio and pictures, cached or not, and what is paid besides."""
    cost = read_prices(pricing).cost(Usage(**used), seconds=seconds_of(when), long=when == "1h")
    assert [*cost] == pytest.approx(dollars, rel=1e-9, abs=1e-15)
    assert cost.total == pytest.approx(dollars[0] + dollars[2] + dollars[3])


def shape(pricing: Any) -> Any:
    """Which fields it has, and each of its bands."""
    if not isinstance(pricing, dict):
        return None
    bands = [frozenset(entry) for entry in pricing.get("overrides", [])]
    return frozenset(pricing), tuple(bands), pricing.get("prompt") == "-1", pricing.get("prompt") == "0"


def test_there_is_an_example_of_each_shape_that_was_recorded() -> None:
    """Whatever fields and bands a row has."""
    shown = {shape(case.values[0]) for case in EXAMPLES}
    assert {row.get("id", "an endpoint") for row in ROWS if shape(row.get("pricing")) not in shown} == {
        "an endpoint"
    }
    (endpoint,) = [row for row in ROWS if "id" not in row]
    usage = Usage(10_000, cache_write_tokens=8_000, output_tokens=1_000)
    assert read_prices(endpoint["pricing"]).cost(usage, long=True).total == pytest.approx(0.02 + 0.16 + 0.05)


def test_all_recorded_rows_are_read(caplog: pytest.LogCaptureFixture) -> None:
    """Without a warning: those of routers, speech and transcription too; only what is no row has no id."""
    caplog.set_level(logging.DEBUG)
    models = read_models({"data": ROWS}) or {}
    assert [row["id"] for row in ROWS if "id" in row] == [*models]
    assert caplog.records == []
    unknown = {name for name, model in models.items() if not model.prices.are_known}
    assert unknown == {
        "openrouter/auto",
        "openrouter/bodybuilder",
        "openrouter/pareto-code",
        "deepseek/deepseek-v4.1-flash",
        "google/gemini-3.1-flash-tts-preview",
    }
    free = {name for name, model in models.items() if model.is_free}
    assert free == {
        "inclusionai/ling-2.6-1t:free",
        "openai/gpt-oss-120b:free",
        "openrouter/free",
        "openrouter/owl-alpha",
        "tencent/hy3-preview:free",
        "deepgram/flux-tts:free",
    }


@pytest.mark.parametrize(("pricing", "plain", "above"), rows(TABLES, "unreadable"))
def test_what_cannot_be_read_is_left_out(pricing: Any, plain: float | None, above: float | None) -> None:
    """A price, or a band whose condition is not known; the others count."""
    prices = read_prices(pricing)
    noon = (MONDAY + timedelta(hours=12)).timestamp()
    assert (prices.at(0).input, prices.at(1001, noon).input) == (plain, above)


@pytest.mark.parametrize(("bill", "openrouter", "provider"), rows(TABLES, "paid"))
def test_what_is_paid_is_what_was_billed(bill: dict[str, Any], openrouter: float, provider: float) -> None:
    """A bill of nothing, or one that cannot be true, is none; a provider is paid where its key was used."""
    usage = read_usage({**bill, "input_tokens": 1000, "output_tokens": 100})
    assert usage
    assert paid(usage, LISTED.cost(usage).total) == pytest.approx((openrouter, provider))


def test_nothing_is_billed_where_the_row_is_free_or_nothing_was_used() -> None:
    """An answer from OpenRouter's own cache has a usage of zeros."""
    free, by_request = Prices(input=0.0, output=0.0), Prices(input=1e-6, request=0.01)
    for row, usage in (
        (free, Usage(1000, output_tokens=5)),
        (by_request, Usage()),
        (by_request, Usage(byok_requests=1)),
    ):
        assert paid(usage, row.cost(usage).total) == (0, 0)


# --- what was billed


@pytest.mark.parametrize("bill", [pytest.param(each, id=each["recorded"]) for each in BILLS])
def test_a_recorded_bill_is_what_the_list_says(bill: dict[str, Any]) -> None:
    """Within one percent: of what OpenRouter was paid, or else the provider. What cannot be computed says why."""
    usage = read_usage(bill["usage"])
    if bill.get("reason"):
        assert "row" not in bill
    if usage is None:
        assert bill["reason"] == "there is no usage"
        return
    wire = bill["usage"]
    is_byok = wire.get("is_byok") is True
    upstream = wire.get("cost_details", {}).get("upstream_inference_cost") if is_byok else None
    assert (usage.cost, usage.provider_cost) == (wire.get("cost", 0.0), upstream or 0.0)
    prices = read_prices(bill.get("pricing") or PRICING.get(bill.get("row")))
    if "reason" not in bill:
        assert prices.cost(usage).total == pytest.approx(upstream if is_byok else wire["cost"], rel=0.01)
    elif bill["reason"].startswith("the provider that served"):
        listed = read_prices(PRICING[bill["model"]]).cost(usage).total
        assert listed != pytest.approx(wire["cost"], rel=0.01)


def test_every_recorded_bill_is_listed() -> None:
    """Of twelve exchanges and 29 usages of chats, fourteen are computed."""
    assert Counter(each["recorded"].split()[0] for each in BILLS) == {"exchange": 12, "chat": 29}
    assert [each["recorded"] for each in BILLS] == [
        *(f"exchange {number}" for number in range(12)),
        *(f"chat {number}" for number in range(29)),
    ]
    assert sum("reason" not in each for each in BILLS) == 14


# --- what follows from a row


def test_the_dearest_that_a_row_may_be_is_that_of_its_bands() -> None:
    """Each price by itself; and of several rows, the highest of each."""
    sonnet = read_prices(PRICING["anthropic/claude-sonnet-4"])
    assert sonnet.dearest() == sonnet.at(200_001)
    assert read_prices(NIGHT).dearest().input == 1e-6
    cheaper = Prices(input=1e-6, output=9e-5, request=0.1)
    assert highest([sonnet, cheaper]) == highest([cheaper, sonnet.at(0)])
    assert (highest([sonnet, cheaper]).input, highest([sonnet, cheaper]).output) == (3e-6, 9e-5)
    assert highest([]) == Prices()


@pytest.mark.parametrize(
    ("row", "planned"),
    [
        ("amazon/nova-premier-v1", CachePrices(0.25, 1.0)),
        ("anthropic/claude-sonnet-4", CachePrices(0.1, 1.25, ((200_000, CachePrices(0.2, 2.5)),))),
        ("openai/gpt-6-astra", CachePrices(0.1, 1.25, ((272_000, CachePrices(0.1, 1.25)),))),
        (
            "openai/gpt-6.1-sol-pro",
            CachePrices(0.05, 1.0, ((272_000, CachePrices(0.1, 2.0)), (500_000, CachePrices(0.1, 4.0)))),
        ),
        ("cohere/command-a", CachePrices()),
        ("openrouter/auto", CachePrices()),
    ],
)
def test_plans_know_the_price_bands(row: str, planned: CachePrices) -> None:
    """Beside the plain input of a small request: above 200,000 tokens, all costs twice as much."""
    assert cache_prices(read_prices(PRICING[row])) == planned


def test_plans_do_not_go_by_the_hour() -> None:
    """What was decided in a chat would change with it, and the cached prefix with that."""
    pricing = {**NIGHT, "input_cache_read": "0.0000001"}
    assert cache_prices(read_prices(pricing)) == CachePrices(0.1, 1.0)


COUNTS: Final = [field.name for field in fields(Usage) if "tokens" in field.name]


@given(
    row=st.sampled_from([*PRICING.values()]),
    used=st.fixed_dictionaries({name: st.integers(0, 2_000_000) for name in COUNTS}),
    seconds=st.integers(0, 3_000_000_000),
)
def test_no_usage_costs_less_than_nothing(row: Any, used: dict[str, int], seconds: int) -> None:
    """However odd it is; and reading what is cached is a part of the input."""
    cost = read_prices(row).cost(Usage(**used), seconds=seconds)
    assert min(cost) >= 0
    assert cost.read <= cost.input * (1 + 1e-9)


def test_what_tools_have_cost_is_written_by_those_called_together() -> None:
    """Each group once, with its sum: of several in one request, no bill says what each has cost."""
    paid_for = [(("advisor",), 0.0159), (("web_search", "bash"), 0.017), (("advisor",), 0.0001)]
    assert tool_parts(paid_for) == ["Advisor $0.016", "Web search + bash $0.017"]
