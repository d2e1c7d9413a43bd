"""The estimate: close to a real vocabulary, and safe on what it was not made for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.context.estimate import estimate_tokens
from scripts.benchmarks.context import sample_texts, vocabulary

KINDS = sorted(sample_texts())


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimate_is_close_to_the_vocabulary(kind: str) -> None:
    """At most 5 % under and 10 % over o200k_base, for each kind of text."""
    encode = vocabulary("o200k_base")
    if encode is None:
        pytest.skip("no vocabulary in tiktoken's cache directory")
    text = sample_texts()[kind]
    assert 0.95 <= estimate_tokens(text) / len(encode(text)) <= 1.10


@given(st.text(), st.text())
def test_two_texts_cost_about_as_much_together_as_apart(first: str, second: str) -> None:
    """The estimate is a sum over the text: joining can change it only where the texts meet."""
    together, apart = estimate_tokens(first + second), estimate_tokens(first) + estimate_tokens(second)
    assert estimate_tokens(first + second) >= 0
    assert abs(together - apart) <= 4 + 0.6 * min(len(first), len(second))


@pytest.mark.parametrize(
    ("text", "least"),
    [("", 0), ("a", 1), ("\udc80", 1), ("ACGT" * 500, 800), ("9" * 3000, 1000), ("deadBEEF0123" * 100, 600)],
)
def test_odd_texts_are_not_taken_for_nothing(text: str, least: int) -> None:
    """Lone surrogates are counted, and long runs without a word cost as much as their length demands."""
    assert estimate_tokens(text) >= least
