"""The economics of a cached prefix."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.planning.simulate import CachePrices


@pytest.mark.parametrize(
    ("row", "prices"),
    [
        ((3e-6, 3e-7, 3.75e-6), CachePrices(0.1, 1.25)),
        ((2e-6, 5e-7, None), CachePrices(0.25, 1.0)),
        ((2e-6, None, None), CachePrices(1.0, 1.0)),
        ((0.0, 0.0, 0.0), CachePrices(1.0, 1.0)),
        ((None, None, None), CachePrices(1.0, 1.0)),
    ],
)
def test_prices_are_relative_to_plain_input(
    row: tuple[float | None, float | None, float | None], prices: CachePrices
) -> None:
    """Read and write as shares of the input price; without a price for reads there is no cache."""
    assert CachePrices.of(*row) == prices


def test_without_a_cache_a_change_always_pays() -> None:
    """What is not cached costs the same anew, so everything that can be freed is freed at once."""
    prices = CachePrices()
    assert prices.change_cost(100_000, 10) == -10
    assert prices.pays(0.0, prices.change_cost(100_000, 10))


def test_with_a_cheap_cache_a_change_waits() -> None:
    """Two thirds of what the change costs now, more or less, must have been paid for waiting."""
    prices = CachePrices(0.1, 1.25)
    cost = prices.change_cost(70_000, 30_000)
    assert cost == pytest.approx(43_000)
    assert not prices.pays(25_000, cost)
    assert prices.pays(26_000, cost)
    assert prices.waiting_cost(30_000) == pytest.approx(3_000)


@pytest.mark.parametrize(("read", "shared"), [(0.1, True), (0.25, True), (0.26, False), (1.0, False)])
def test_a_cheap_cache_is_shared_with_summary_requests(read: float, shared: bool) -> None:  # noqa: FBT001
    """Up to a quarter of the input price, reading the whole chat costs less than reading its old turns alone."""
    assert CachePrices(read, 1.0).shares_cache is shared


def test_prices_are_rounded_to_hundredths_of_the_input() -> None:
    """A small change of a price does not move what was decided before."""
    assert CachePrices.of(3.0, 0.303, 3.762) == CachePrices.of(3.0, 0.3, 3.75) == CachePrices(0.1, 1.25)
