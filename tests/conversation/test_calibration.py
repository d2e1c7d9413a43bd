"""Learning a model's tokenizer from its bills."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from scripts.benchmarks.context import measure_calibration


def learned(*ratios: float, before: Calibration | None = None) -> Calibration:
    """What bills of 1,000 counted tokens teach that are these times as large."""
    calibration = before or Calibration()
    for ratio in ratios:
        calibration = calibration.observed(TokenCounts(1000), round(1000 * ratio))
    return calibration


def test_nothing_is_corrected_before_anything_is_seen() -> None:
    """The plain count is expected, with room of a quarter above it."""
    assert Calibration().ratio == 1.0
    assert Calibration().upper_tokens(TokenCounts(1000)) == 1240


def test_the_first_bill_is_believed() -> None:
    """A tokenizer may be coarser by any factor in the range; there is nothing to average with yet."""
    assert learned(1.4).ratio == pytest.approx(1.4)


def test_five_requests_are_enough() -> None:
    """From the sixth on, 95 % of the errors are at most 5 %, and 99 % of the bills are within the limit."""
    for result in measure_calibration().values():
        assert result["p95_error"] <= 0.05
        assert result["bills_under_upper_bound"] >= 0.99
        assert result["bills_under_limit"] >= 0.99


@pytest.mark.parametrize(
    ("ratios", "ratio", "upper"),
    [
        ([1.4], 1.4, 1.64),
        ([1.4] * 10, 1.4, 1.42),
        ([1.0] * 10 + [2.4], 1.02, 1.08),
        ([1.0] * 10 + [1.3] * 3, 1.16, 1.48),
        ([1.0] * 10 + [1.3] * 10, 1.30, 1.38),
    ],
    ids=["one bill", "equal bills", "an outlier", "a change", "a lasting change"],
)
def test_bills_move_the_ratio_and_its_bound(ratios: list[float], ratio: float, upper: float) -> None:
    """The bound narrows while bills agree; one outlier moves little, a lasting change is followed."""
    calibration = learned(*ratios)
    assert calibration.ratio == pytest.approx(ratio, abs=0.005)
    assert calibration.upper_tokens(TokenCounts(1000)) / 1000 == pytest.approx(upper, abs=0.01)


@pytest.mark.parametrize(
    ("counts", "billed_tokens"),
    [
        (TokenCounts(199), 300),
        (TokenCounts(1000), 0),
        (TokenCounts(1000), 399),
        (TokenCounts(1000), 2501),
        (TokenCounts(1000, media=1001), 2500),
        (TokenCounts(1000, sealed=1001), 2500),
    ],
    ids=["small", "no bill", "too cheap", "too expensive", "mostly media", "mostly sealed"],
)
def test_a_bill_that_says_nothing_of_text_changes_nothing(counts: TokenCounts, billed_tokens: int) -> None:
    """Small requests, missing bills, bills that no tokenizer explains, and requests that are not mostly text."""
    fresh = Calibration()
    assert fresh.observed(counts, billed_tokens) is fresh


def test_only_text_is_scaled() -> None:
    """Media and sealed reasoning are counted by their own rules, in the bill as in the request."""
    counts = TokenCounts(1000, media=300, sealed=200)
    calibration = Calibration().observed(counts, 1500 + 400)
    assert calibration.ratio == pytest.approx(1.4)
    assert Calibration(1.4, 0.05, 9).upper_tokens(TokenCounts(100, media=7, sealed=5)) == 150 + 12


def test_the_state_survives_as_json() -> None:
    """What was learned is the same after writing and reading; what cannot be read is a fresh calibration."""
    calibration = learned(1.3, 1.2)
    state = calibration.as_json()
    assert Calibration.from_json(json.loads(json.dumps(state))) == calibration
    for broken in ({}, {**state, "ratio": "x"}, {**state, "ratio": math.nan}, {**state, "deviation": None}):
        assert Calibration.from_json(broken) == Calibration()


@given(st.lists(st.tuples(*[st.integers(0, 100_000)] * 3, st.integers(0, 10**6)), max_size=20))
def test_the_ratio_stays_in_its_range(bills: list[tuple[int, ...]]) -> None:
    """Whatever is billed; and the upper bound is above it."""
    calibration = Calibration()
    for *counts, billed_tokens in bills:
        calibration = calibration.observed(TokenCounts(*counts), billed_tokens)
    assert 0.4 <= calibration.ratio <= 2.5
    assert calibration.upper_tokens(TokenCounts(1000)) > 1000 * calibration.ratio
