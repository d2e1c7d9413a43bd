"""Prices: bills, what will be cached, forecasts, and how amounts are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.money.prefix import NOTHING_SENT, Digests, LastRequest, expected_input
from open_webui_openrouter_pipe.money.prices import CacheRule, Prices, dollars, next_input
from open_webui_openrouter_pipe.responses.effects import Usage
from tests.support.rows import rows

PRICES = Prices(input=3e-6, output=15e-6, read=0.3e-6, write=3.75e-6, write_long=6e-6)
CLAUDE = CacheRule("explicit", bills_writes=True)
GPT = CacheRule("automatic")
RULES = {"by blocks": GPT, "at breakpoints": CLAUDE, "never": CacheRule("none")}
TABLES = Path(__file__).parent / "money.txt"
SIZES = (1000, 2500, 4000, 4600)


def request(tools: int, *items: int, breakpoints: Sequence[int] = ()) -> Digests:
    """A request of a tool and of items with these names."""
    sizes = SIZES[: 1 + len(items)]
    return replace(NOTHING_SENT, tools=[tools], items=items, tokens=sizes, breakpoints=breakpoints)


def sent(digests: Digests, billed: int, at: float = 0.0, rule: CacheRule = CLAUDE) -> LastRequest:
    """A request that was billed as so many tokens."""
    return LastRequest(digests, "m", "m", PRICES, rule, Usage(billed), was_read_once=True, sent_seconds=at)


def test_the_bill_is_the_truth_and_otherwise_the_prices() -> None:
    """What was not billed is computed: plain, cached and written input, output, the request itself, searches."""
    usage = Usage(1000, cached_tokens=400, cache_write_tokens=500, output_tokens=10)
    prices = replace(PRICES, request=0.01, search=0.005)
    computed = 100 * 3e-6 + 400 * 0.3e-6 + 500 * 3.75e-6 + 10 * 15e-6 + 0.01 + 2 * 0.005
    assert prices.cost(usage, searches=2) == pytest.approx(computed)
    assert prices.cost(usage, searches=2, long=True) == pytest.approx(computed + 500 * 2.25e-6)
    assert prices.cost(replace(usage, cost=0.5)) == 0.5


def test_prices_that_are_missing_are_those_of_plain_input() -> None:
    """As OpenRouter bills them; a model without any price costs nothing."""
    usage = Usage(1000, cached_tokens=400, cache_write_tokens=500, output_tokens=10)
    assert Prices(input=1e-6).cost(usage) == pytest.approx(0.001)
    assert Prices().cost(usage) == 0


@pytest.mark.parametrize(
    ("model", "prices", "rule"),
    [
        ("anthropic/claude-sonnet-4.5", PRICES, CLAUDE),
        ("~anthropic/claude-opus-4.5", PRICES, replace(CLAUDE, minimum_tokens=4096)),
        ("openai/gpt-5.2", Prices(input=1e-6, read=1e-7), GPT),
        ("deepseek/deepseek-v3.2", Prices(1e-6, read=1e-7), CacheRule("automatic", 64, 64)),
        ("google/gemini-3-pro", Prices(1e-6, read=1e-7), CacheRule("automatic", 4096, 256)),
        ("mistralai/mistral-large", Prices(input=1e-6), CacheRule("none")),
        ("alibaba/qwen3-max", Prices(1e-6, read=1e-7, write=1e-6), replace(CLAUDE, bills_writes=False)),
    ],
)
def test_each_vendor_has_its_rule(model: str, prices: Prices, rule: CacheRule) -> None:
    """One without a price for cached reads does not cache; an hour is kept where it is asked for."""
    assert CacheRule.of(model, prices) == rule
    kept_long = CacheRule.of(model, prices, long=True).kept_seconds
    assert (rule.kept_seconds, kept_long) == (300, 300 if rule.kind == "none" else 3600)


@pytest.mark.parametrize(("rule", "last", "breakpoints", "now", "expected"), rows(TABLES, "forecasts", RULES))
def test_what_a_request_will_be_billed_as(
    rule: CacheRule, last: list[Any] | None, breakpoints: list[int], now: float, expected: list[int]
) -> None:
    """By what it shares with the last one, as long as that is kept, and by what the provider counted then."""
    pieces = request(1, 2, 3, 4, breakpoints=breakpoints)
    before = sent(request(*last[0], breakpoints=last[1]), last[2]) if last else None
    assert expected_input(pieces, rule, before, now_seconds=now) == Usage(*expected)


def test_the_next_request_reads_the_last_answer_too() -> None:
    """Warm, what was sent is read from the cache; cold, all of it is read or written anew."""
    bill = Usage(5000, output_tokens=960)
    assert next_input(bill, CLAUDE, is_cached=True) == Usage(6000, 5000, 1000)
    assert next_input(bill, CLAUDE, is_cached=False) == Usage(6000, 0, 6000)
    assert next_input(bill, GPT, is_cached=True) == Usage(6000, 4992)


@given(
    names=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    earlier=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    step=st.integers(1, 5000),
    billed=st.integers(0, 100_000),
    rule=st.sampled_from([GPT, CLAUDE, CacheRule("none"), replace(GPT, bills_writes=True)]),
)
def test_a_forecast_is_always_a_possible_bill(
    names: list[int], earlier: list[int], step: int, billed: int, rule: CacheRule
) -> None:
    """No more is cached and written than there is, whatever was sent before."""

    def digests(of: list[int]) -> Digests:
        sizes = [step * (at + 1) for at in range(len(of))]
        ends = [len(of) - 1]
        return replace(NOTHING_SENT, tools=of[:1], items=of[1:], tokens=sizes, breakpoints=ends)

    usage = expected_input(digests(names), rule, sent(digests(earlier), billed, rule=rule), now_seconds=1)
    assert usage.cached_tokens >= 0
    assert usage.cache_write_tokens >= 0
    assert usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens


@pytest.mark.parametrize(("amount", "text"), rows(TABLES, "amounts"))
def test_amounts_have_two_digits_that_count(amount: float, text: str) -> None:
    """And never fewer than cents."""
    assert dollars(amount) == text
