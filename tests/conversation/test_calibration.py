"""Learning what a model's provider bills for our tokens."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from scripts.benchmarks.context import measure_calibration

WINDOW_TOKENS = 200_000
SIZE = 20_000


def after(*bills: tuple[int, float], before: Calibration | None = None) -> Calibration:
    """What bills teach: each of a counted text, and of so many tokens for it."""
    calibration = before or Calibration()
    for counted_tokens, billed_tokens in bills:
        calibration = calibration.observed(TokenCounts(counted_tokens), round(billed_tokens))
    return calibration


def learned(*ratios: float, before: Calibration | None = None, counted_tokens: int = SIZE) -> Calibration:
    """What bills of such requests teach that are these times as large as counted."""
    return after(*((counted_tokens, counted_tokens * ratio) for ratio in ratios), before=before)


def lost_share(calibration: Calibration) -> float:
    """The share of a large window that the calibration takes away."""
    return calibration.upper_tokens(TokenCounts(WINDOW_TOKENS)) / WINDOW_TOKENS - 1


def test_nothing_is_corrected_before_anything_is_seen() -> None:
    """The plain count decides: no room is kept for a tokenizer that may never come."""
    assert Calibration().upper_tokens(TokenCounts(1000, media=7, sealed=5)) == 1012


@pytest.mark.parametrize("counted_tokens", [400, 800, 2_000, 3_999])
def test_small_requests_move_the_constant_alone(counted_tokens: int) -> None:
    """Thirty short chats with 350 hidden tokens take 350 tokens of a large window, not a share of it."""
    calibration = after(*[(counted_tokens, counted_tokens + 350)] * 30)
    assert calibration.constant_tokens == pytest.approx(350, abs=1)
    assert (calibration.ratio, calibration.bills) == (1.0, 0)
    assert lost_share(calibration) <= 0.02


def test_a_request_of_4000_tokens_moves_the_ratio() -> None:
    """From there on a bill tells more of the tokenizer than of the constant."""
    calibration = learned(1.4, 1.4, counted_tokens=4_000)
    assert (calibration.ratio, calibration.constant_tokens) == (1.4, 0)


def test_the_constant_is_not_taken_for_a_coarse_tokenizer() -> None:
    """What short chats have shown to be hidden is no longer seen in the ratio of longer ones."""
    short = after(*[(400, 750)] * 30)
    assert after(*[(5_000, 5_350)] * 30, before=short).ratio == pytest.approx(1.0, abs=0.001)


def test_the_constant_is_bounded() -> None:
    """Whatever small requests are billed, a large window loses half a per cent."""
    assert after(*[(3_000, 9_000)] * 30).constant_tokens == 1_000
    assert after(*[(3_000, 100)] * 30).constant_tokens == 0


@pytest.mark.parametrize("good_bills", [0, 1, 20])
@pytest.mark.parametrize("counted_tokens", [300, 50_000])
def test_a_single_absurd_bill_moves_nothing(counted_tokens: int, good_bills: int) -> None:
    """Be it the first or a later one, of a small or of a large request; exact ones after it find nothing to repair."""
    good = [(50_000, 50_000)] * good_bills
    absurd = after(*good, (counted_tokens, 2.47 * counted_tokens))
    assert (absurd.ratio, absurd.constant_tokens) == (1.0, 0)
    for exact_bills in range(8):
        repaired = after(*[(50_000, 50_000)] * exact_bills, before=absurd)
        assert repaired.upper_ratio <= 1.03


def test_two_absurd_bills_are_forgotten_after_two_exact_ones() -> None:
    """Two equal bills are believed, and so are the next two."""
    absurd = learned(1.0, 1.0, 2.4, 2.4, counted_tokens=50_000)
    assert absurd.ratio == pytest.approx(2.4)
    assert learned(1.0, 1.0, before=absurd, counted_tokens=50_000).upper_ratio == pytest.approx(1.03)


def test_bills_that_alternate_teach_nothing() -> None:
    """Each second one is for something else than the input."""
    assert learned(*[1.0, 1.6] * 15).ratio == 1.0


@pytest.mark.parametrize(
    ("ratios", "ratio", "upper"),
    [
        ([1.4], 1.0, 1.03),
        ([1.4] * 2, 1.4, 1.43),
        ([1.4] * 10, 1.4, 1.43),
        ([1.0] * 10 + [2.4], 1.0, 1.03),
        ([1.0] * 10 + [1.3] * 3, 1.3, 1.33),
        ([1.2, 1.3, 1.2, 1.3, 1.2, 1.3], 1.20, 1.38),
    ],
    ids=["one bill", "two bills", "equal bills", "an outlier", "a change", "inexact"],
)
def test_bills_move_the_ratio_and_its_bound(ratios: list[float], ratio: float, upper: float) -> None:
    """Two exact bills are believed at once; inexact ones are averaged, with room for how far they stray."""
    calibration = learned(*ratios)
    assert calibration.ratio == pytest.approx(ratio, abs=0.03)
    assert calibration.upper_ratio == pytest.approx(upper, abs=0.05)


def test_large_bills_weigh_more() -> None:
    """Against 50,000 known tokens, one of 10,000 has a sixth of the weight, one of 100,000 half."""
    known = learned(*[1.0] * 9, counted_tokens=50_000)
    assert learned(1.25, 1.20, before=known, counted_tokens=10_000).ratio == pytest.approx(1 + 0.2 / 6)
    assert learned(1.25, 1.20, before=known, counted_tokens=100_000).ratio == pytest.approx(1 + 0.2 / 2)


@pytest.mark.parametrize(("bills", "upper"), [(5, 1.0), (6, 0.69), (12, 0.69)])
def test_a_ratio_below_one_is_believed_from_the_sixth_bill_on(bills: int, upper: float) -> None:
    """Until then the plain count decides; too little room is mended by the next bill, too much by a refusal."""
    assert learned(*[0.66] * bills).upper_ratio == pytest.approx(upper, abs=0.001)


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
    counts, calibration = TokenCounts(10_000, media=3_000, sealed=2_000), Calibration()
    for _ in range(2):
        calibration = calibration.observed(counts, 15_000 + 4_000)
    assert calibration.ratio == pytest.approx(1.4)
    known = Calibration(constant_tokens=40, ratio=1.4, bills=9)
    assert known.upper_tokens(TokenCounts(100, media=7, sealed=5)) == 40 + 143 + 12


def test_the_state_survives_as_json() -> None:
    """What was learned is the same after writing and reading; what cannot be read is a fresh calibration."""
    calibration = after((400, 600), (400, 600), (9_000, 12_000), (9_000, 13_000))
    state = calibration.as_json()
    assert Calibration.from_json(json.loads(json.dumps(state))) == calibration
    broken = [{}, {"ratio": 1.2, "deviation": 0.1, "seen": 3}]
    broken += [{**state, "ratio": value} for value in ("x", math.nan, 9.0)] + [{**state, "deviation": None}]
    assert [Calibration.from_json(each) for each in broken] == [Calibration()] * len(broken)


@given(st.lists(st.tuples(*[st.integers(0, 100_000)] * 3, st.integers(0, 10**6)), max_size=20))
def test_the_ratio_stays_in_its_range(bills: list[tuple[int, ...]]) -> None:
    """Whatever is billed; and the upper bound is not below it."""
    calibration = Calibration()
    for *counts, billed_tokens in bills:
        calibration = calibration.observed(TokenCounts(*counts), billed_tokens)
    assert 0.4 <= calibration.ratio <= 2.5
    assert 0 <= calibration.constant_tokens <= 1_000
    assert calibration.upper_ratio >= calibration.ratio
