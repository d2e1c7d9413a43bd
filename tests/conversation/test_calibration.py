"""Learning a model's tokenizer from its bills."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
from scripts.benchmarks.context import calibration_figures

MIXED = [
    TokenCounts(prose=4000, code=500),
    TokenCounts(prose=300, data=6000),
    TokenCounts(wide=3000, code=2000),
    TokenCounts(prose=900),
]


def test_nothing_is_corrected_before_anything_is_seen() -> None:
    """The plain count is expected, and a good deal more admitted as possible."""
    fresh = Calibration()
    assert fresh.expected_tokens(TokenCounts(prose=1000)) == 1000
    assert 1200 < fresh.upper_tokens(TokenCounts(prose=1000)) < 1500


def test_the_classes_are_told_apart() -> None:
    """A tokenizer that is coarse for prose and fine for data is learned as such."""
    learned = Calibration()
    for tally in MIXED * 5:
        learned = learned.observed(
            tally, round(1.4 * tally.prose + tally.code + 0.9 * tally.data + tally.wide)
        )
    assert learned.expected_tokens(TokenCounts(prose=1000)) == pytest.approx(1400, rel=0.02)
    assert learned.expected_tokens(TokenCounts(data=1000)) == pytest.approx(900, rel=0.02)
    assert learned.upper_tokens(TokenCounts(prose=1000)) == pytest.approx(1400, rel=0.06)


def test_five_turns_are_enough() -> None:
    """From the sixth turn on, 95 % of the errors are at most 5 %, and the upper bound holds."""
    for figures in calibration_figures().values():
        assert figures["p95_error"] <= 0.05
        assert figures["bills_under_upper_bound"] >= 0.95


def test_one_absurd_bill_does_not_ruin_what_was_learned() -> None:
    """A bill far beyond the expected moves the weights only so far."""
    learned = Calibration()
    for _ in range(8):
        learned = learned.observed(TokenCounts(prose=1000), 1000)
    assert learned.observed(TokenCounts(prose=1000), 50_000).expected_tokens(TokenCounts(prose=1000)) < 1150


def test_what_teaches_nothing_changes_nothing() -> None:
    """Small requests and missing bills are passed over."""
    fresh = Calibration()
    assert fresh.observed(TokenCounts(prose=50), 90) is fresh
    assert fresh.observed(TokenCounts(prose=5000), 0) is fresh


def test_the_state_survives_as_json() -> None:
    """What was learned is the same after writing and reading; what cannot be read is a new beginning."""
    learned = Calibration().observed(TokenCounts(prose=1000, data=30), 1300)
    state = learned.state()
    assert Calibration.of_state(json.loads(json.dumps(state))) == learned
    for broken in ({}, {**state, "classes": ["prose"]}, {**state, "weights": [1]}, {**state, "noise": "x"}):
        assert Calibration.of_state(broken) == Calibration()


@given(st.lists(st.tuples(*[st.integers(0, 100_000)] * 7, st.integers(0, 10**6)), max_size=20))
def test_whatever_is_billed_the_bound_is_a_bound(bills: list[tuple[int, ...]]) -> None:
    """Expected counts are never negative, and the upper bound is never below them."""
    learned = Calibration()
    for *tally, billed in bills:
        learned = learned.observed(TokenCounts(*tally), billed)
    probe = TokenCounts(prose=1000, data=2000)
    assert 0 <= learned.expected_tokens(probe) <= learned.upper_tokens(probe)
