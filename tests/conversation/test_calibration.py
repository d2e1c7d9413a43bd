"""Learning what a model's provider bills for our tokens."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import MOST_TAUGHT, Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from scripts.benchmarks.context import measure_calibration
from tests.support.rows import rows


def after(bills: str) -> Calibration:
    """What bills teach: how many, of a counted text, and of so many tokens for it."""
    calibration = Calibration()
    for bill in bills.split(", "):
        times, _, counts = bill.rpartition(" x ")
        counted_tokens, billed_tokens = map(int, counts.split(":"))
        for _ in range(int(times or 1)):
            calibration = calibration.observed(TokenCounts(counted_tokens), billed_tokens)
    return calibration


@pytest.mark.parametrize(
    ("title", "bills", "ratio", "upper", "constant_tokens"),
    rows(Path(__file__).with_name("bills.txt"), "bills"),
)
def test_bills_teach_the_ratio_its_bound_and_the_constant(
    title: str, bills: str, ratio: float, upper: float, constant_tokens: float
) -> None:
    """Of small requests what is hidden in each; of large ones how coarse the tokenizer is, once two agree."""
    learned = after(bills)
    found = (learned.ratio, learned.upper_ratio, learned.constant_tokens)
    assert found == pytest.approx((ratio, upper, constant_tokens), abs=0.001, rel=0.001), title


def test_five_requests_are_enough() -> None:
    """From the sixth on, 95 % of the errors are at most 5 %, 99 % of the bills under the bound, and all fit."""
    for result in measure_calibration().values():
        assert result["p95_error"] <= 0.05
        assert result["bills_under_upper_bound"] >= 0.99
        assert result["bills_under_limit"] == 1.0


@pytest.mark.parametrize(
    ("counts", "billed_tokens"),
    [
        (TokenCounts(10_000), 0),
        (TokenCounts(100), 0),
        (TokenCounts(10_000), 3_999),
        (TokenCounts(10_000), 25_001),
        (TokenCounts(10_000, media=10_001), 25_000),
        (TokenCounts(10_000, sealed=10_001), 25_000),
    ],
    ids=["no bill", "no bill, small", "too cheap", "too expensive", "mostly media", "mostly sealed"],
)
def test_a_bill_that_says_nothing_of_text_changes_nothing(counts: TokenCounts, billed_tokens: int) -> None:
    """Missing bills, bills that no tokenizer explains, and requests that are not mostly text."""
    fresh = Calibration()
    assert fresh.observed(counts, billed_tokens) is fresh


def test_only_text_is_scaled() -> None:
    """Media and sealed reasoning are counted by their own rules, in the bill as in the request."""
    counts = TokenCounts(10_000, media=3_000, sealed=2_000)
    learned = Calibration().observed(counts, 19_000).observed(counts, 19_000)
    assert learned.ratio == pytest.approx(1.4)
    known = Calibration(constant_tokens=40, ratio=1.4, bills=9)
    assert known.upper_tokens(TokenCounts(100, media=7, sealed=5)) == 40 + 143 + 12


def test_the_state_survives_as_json() -> None:
    """What was learned is the same after writing and reading; what cannot be read is a fresh calibration."""
    calibration = after("2 x 400:600, 9000:12000, 9000:13000")
    state = calibration.as_json()
    assert Calibration.from_json(json.loads(json.dumps(state))) == calibration
    broken = [{}, {"ratio": 1.2, "deviation": 0.1, "seen": 3}]
    broken += [{**state, "ratio": value} for value in ("x", math.nan, 9.0)] + [{**state, "deviation": None}]
    assert [Calibration.from_json(each) for each in broken] == [Calibration()] * len(broken)


@given(st.lists(st.tuples(*[st.integers(0, 100_000)] * 3, st.integers(0, 10**6)), max_size=20))
def test_the_ratio_stays_in_its_range(bills: list[tuple[int, ...]]) -> None:
    """Whatever is billed; and the upper bound is not below it. Nothing limits a request more than what is said to."""
    calibration = Calibration()
    for *counts, billed_tokens in bills:
        calibration = calibration.observed(TokenCounts(*counts), billed_tokens)
    assert 0.4 <= calibration.ratio <= 2.5
    assert 0 <= calibration.constant_tokens <= 1_000
    assert calibration.ratio <= calibration.upper_ratio <= MOST_TAUGHT.upper_ratio
    assert calibration.constant_tokens <= MOST_TAUGHT.constant_tokens
