"""Prompt caching and its arithmetic."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.standin.cache import CachedModel, CacheRule, Prices, PromptCache, Segment, Usage

PRICES = Prices(Decimal(10), Decimal(40), Decimal(1), Decimal(12), Decimal(20))
AUTOMATIC = CachedModel("auto", PRICES, CacheRule("automatic", minimum_tokens=1024, block_tokens=128))
BILLED = CachedModel("billed", PRICES, CacheRule("automatic", writes_billed=True))
EXPLICIT = CachedModel("explicit", PRICES, CacheRule("explicit", minimum_tokens=1024, writes_billed=True))


def text(tokens: int, *, first: int = 0, marked: bool = False) -> Segment:
    """A segment of running numbers."""
    return Segment(tuple(range(first, first + tokens)), breakpoint=marked)


def test_an_automatic_cache_reads_whole_blocks_of_the_common_prefix() -> None:
    """1500 tokens are 11 blocks of 128; a prompt that parts ways at 1300 shares 10 of them."""
    cache = PromptCache()
    first = cache.account(AUTOMATIC, "s", [text(1500)], 0)
    again = cache.account(AUTOMATIC, "s", [text(1500), text(500, first=9000)], 1)
    parted = cache.account(AUTOMATIC, "s", [text(1300), text(700, first=7000)], 2)
    assert [first, again, parted] == [
        Usage(1500, 0, 0, Decimal(15000)),
        Usage(2000, 1408, 0, Decimal(5920 + 1408)),
        Usage(2000, 1280, 0, Decimal(7200 + 1280)),
    ]


def test_the_border_between_segments_does_not_matter_to_an_automatic_cache() -> None:
    """It compares tokens, however they are grouped."""
    cache = PromptCache()
    cache.account(AUTOMATIC, "s", [text(1000), text(1000, first=1000)], 0)
    assert cache.account(AUTOMATIC, "s", [text(2000)], 1).cached_tokens == 1920


@pytest.mark.parametrize(("tokens", "cached"), [(1023, 0), (1024, 1024)])
def test_nothing_below_the_minimum_is_cached(tokens: int, cached: int) -> None:
    """The minimum itself is enough."""
    cache = PromptCache()
    cache.account(AUTOMATIC, "s", [text(tokens)], 0)
    assert cache.account(AUTOMATIC, "s", [text(tokens)], 1).cached_tokens == cached


def test_sessions_and_models_share_nothing() -> None:
    """Another conversation, or another model, starts cold."""
    cache = PromptCache()
    cache.account(AUTOMATIC, "s", [text(2000)], 0)
    assert cache.account(AUTOMATIC, "t", [text(2000)], 1).cached_tokens == 0
    assert cache.account(BILLED, "s", [text(2000)], 1).cached_tokens == 0


def test_entries_expire_and_reads_renew_them() -> None:
    """Five minutes count from the last use."""
    cache = PromptCache()
    times = [0.0, 299.0, 598.0, 898.0]
    read = [cache.account(AUTOMATIC, "s", [text(1024)], now).cached_tokens for now in times]
    assert read == [0, 1024, 1024, 0]


def test_billed_writes_cost_their_own_price() -> None:
    """New whole blocks are written, the rest is plain input."""
    cache = PromptCache()
    first = cache.account(BILLED, "s", [text(1100)], 0)
    second = cache.account(BILLED, "s", [text(1300)], 1)
    assert [first, second] == [
        Usage(1100, 0, 1024, Decimal(76 * 10 + 1024 * 12)),
        Usage(1300, 1024, 256, Decimal(20 * 10 + 1024 + 256 * 12)),
    ]


def test_an_explicit_cache_needs_breakpoints() -> None:
    """Without one, nothing is read or written."""
    cache = PromptCache()
    usages = [cache.account(EXPLICIT, "s", [text(5000)], now) for now in (0, 1)]
    assert usages == [Usage(5000, 0, 0, Decimal(50000))] * 2


def test_an_explicit_cache_reads_an_earlier_breakpoint_and_writes_up_to_the_last() -> None:
    """The turn before is read, the new turn written, what follows the breakpoint is plain input."""
    cache = PromptCache()
    first = cache.account(EXPLICIT, "s", [text(2000, marked=True)], 0)
    second = cache.account(EXPLICIT, "s", [text(2000), text(300, first=5000, marked=True), text(50)], 1)
    assert [first, second] == [
        Usage(2000, 0, 2000, Decimal(24000)),
        Usage(2350, 2000, 300, Decimal(50 * 10 + 2000 + 300 * 12)),
    ]


@pytest.mark.parametrize(("between", "cached"), [(19, 2000), (20, 0)])
def test_an_explicit_cache_looks_back_twenty_blocks(between: int, cached: int) -> None:
    """An entry further back than that is not found."""
    cache = PromptCache()
    cache.account(EXPLICIT, "s", [text(2000, marked=True)], 0)
    later = [text(2000), *(text(10) for _ in range(between)), text(10, marked=True)]
    assert cache.account(EXPLICIT, "s", later, 1).cached_tokens == cached


def test_only_the_last_four_breakpoints_count() -> None:
    """A fifth one further ahead writes no entry."""
    cache = PromptCache()
    cache.account(EXPLICIT, "s", [text(2000, marked=True), *[text(10, marked=True)] * 4], 0)
    assert cache.account(EXPLICIT, "s", [text(2000, marked=True)], 1).cached_tokens == 0


def test_long_lived_writes_have_the_long_price() -> None:
    """An hour costs more than five minutes, and lasts."""
    model = CachedModel("long", PRICES, CacheRule("explicit", ttl_seconds=3600, writes_billed=True))
    cache = PromptCache()
    usages = [cache.account(model, "s", [text(2000, marked=True)], now) for now in (0, 3599)]
    assert usages == [Usage(2000, 0, 2000, Decimal(40000)), Usage(2000, 2000, 0, Decimal(2000))]


def test_missing_cache_prices_are_the_input_price() -> None:
    """A model that names no price for reads bills them as input."""
    model = CachedModel("plain", Prices(Decimal(10)), CacheRule("automatic"))
    cache = PromptCache()
    costs = [cache.account(model, "s", [text(1024)], now).input_cost for now in (0, 1)]
    assert costs == [Decimal(10240), Decimal(10240)]


def test_no_rule_means_no_cache() -> None:
    """Some providers cache nothing."""
    model = CachedModel("none", PRICES, CacheRule("none"))
    cache = PromptCache()
    usages = [cache.account(model, "s", [text(5000, marked=True)], now) for now in (0, 1)]
    assert usages == [Usage(5000, 0, 0, Decimal(50000))] * 2


def test_a_cleared_cache_is_cold() -> None:
    """Clearing forgets all sessions."""
    cache = PromptCache()
    cache.account(AUTOMATIC, "s", [text(2000)], 0)
    cache.clear()
    assert cache.account(AUTOMATIC, "s", [text(2000)], 1).cached_tokens == 0


@given(shared=st.integers(0, 3000), own=st.integers(0, 1500))
def test_reads_never_exceed_the_common_prefix(shared: int, own: int) -> None:
    """Reads are the common prefix, rounded down to whole blocks, or nothing below the minimum."""
    cache = PromptCache()
    cache.account(AUTOMATIC, "s", [text(shared), text(own, first=10_000)], 0)
    usage = cache.account(AUTOMATIC, "s", [text(shared), text(own, first=20_000)], 1)
    blocks = shared // 128 * 128
    assert usage.cached_tokens == (blocks if blocks >= 1024 else 0)


def test_an_explicit_cache_knows_a_block_only_with_its_key() -> None:
    """Another key keeps what stands before the block, and nothing from it on."""
    cache = PromptCache()

    def cached(key: bytes) -> int:
        chat = Segment(tuple(range(1000)), keyed_with=key)
        prompt = [text(2000, marked=True), chat, text(500, marked=True)]
        return cache.account(EXPLICIT, "s", prompt, 0).cached_tokens

    assert [cached(key) for key in (b"auto", b"auto", b"none", b"auto")] == [0, 3500, 2000, 3500]
