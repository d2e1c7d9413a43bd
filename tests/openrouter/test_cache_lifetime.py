"""How long Anthropic's cache should keep a chat."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.controls import CacheLifetime, cheapest_lifetime

PRICING = {
    "prompt": "0.000003",
    "input_cache_read": "0.0000003",
    "input_cache_write": "0.00000375",
    "input_cache_write_1h": "0.000006",
}
CLAUDE = read_models({"data": [{"id": "anthropic/claude", "pricing": PRICING}]})[0]
MINUTE = 60.0


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ([], "5m"),
        ([10 * MINUTE], "5m"),  # 1.25 + 1.25 + 1.25 against 2 + 0.1 + 2
        ([10 * MINUTE] * 2, "1h"),  # 7.5 against 6.3
        ([MINUTE] * 20, "5m"),
        ([10 * MINUTE] * 5, "1h"),
        ([299.0] * 5, "5m"),
        ([300.0] * 5, "1h"),
        ([3600.0] * 5, "5m"),
        ([24 * 60 * MINUTE] * 9, "5m"),
        ([MINUTE] * 9 + [10 * MINUTE], "1h"),
        ([10 * MINUTE] + [MINUTE] * 9, "5m"),
    ],
)
def test_the_cheaper_one(pauses: list[float], expected: CacheLifetime) -> None:
    """An hour costs more to write, and saves writing all anew after pauses between five minutes and an hour."""
    assert cheapest_lifetime(pauses, CLAUDE) == expected
    assert cheapest_lifetime(pauses, None) == expected


def test_the_price_table_decides() -> None:
    """Where an hour costs ten times as much to write, no such pause pays for it."""
    dear = replace(CLAUDE, price_cache_write_1h=0.0000375)
    assert cheapest_lifetime([10 * MINUTE] * 5, dear) == "5m"


@given(st.lists(st.floats(0, 299) | st.floats(3600, 1e7), max_size=30))
def test_an_hour_never_pays_where_no_pause_needs_it(pauses: list[float]) -> None:
    """Shorter than five minutes, or longer than an hour."""
    assert cheapest_lifetime(pauses, CLAUDE) == "5m"
