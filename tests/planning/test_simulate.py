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
    assert CachePrices().pays(0.0, 10, 100_000)


@pytest.mark.parametrize(
    ("accrued_cost", "coming_tokens", "pays"),
    [(57_499, 0, False), (57_500, 0, True), (27_500, 299_999, False), (27_500, 300_000, True)],
)
def test_with_a_cheap_cache_a_change_waits(
    accrued_cost: float,
    coming_tokens: int,
    pays: bool,  # noqa: FBT001 - the expected verdict
) -> None:
    """Until what was paid, and will be until there is more to change, is what writing the rest anew costs more."""
    assert CachePrices(0.1, 1.25).pays(accrued_cost, coming_tokens, 50_000) is pays


@pytest.mark.parametrize(("read", "shared"), [(0.1, True), (0.25, True), (0.26, False), (1.0, False)])
def test_a_cheap_cache_is_shared_with_summary_requests(read: float, shared: bool) -> None:  # noqa: FBT001
    """Up to a quarter of the input price, reading the whole chat costs less than reading its old turns alone."""
    assert CachePrices(read, 1.0).shares_cache is shared


def test_prices_are_rounded_to_hundredths_of_the_input() -> None:
    """A small change of a price does not move what was decided before."""
    assert CachePrices.of(3.0, 0.303, 3.762) == CachePrices.of(3.0, 0.3, 3.75) == CachePrices(0.1, 1.25)
