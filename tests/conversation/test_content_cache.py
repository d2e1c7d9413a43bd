"""The bounded cache."""

from __future__ import annotations

from open_webui_openrouter_pipe.conversation.conversation import ContentCache


def test_a_cached_value_is_not_computed_again() -> None:
    """Asking again returns the first value."""
    cache: ContentCache[int] = ContentCache(4)
    assert [cache.get_or_compute(b"a", lambda: 1), cache.get_or_compute(b"a", lambda: 2)] == [1, 1]


def test_values_in_use_stay_and_others_are_evicted() -> None:
    """However much passes through, at most the limit is held, and what is used again and again is kept."""
    cache: ContentCache[int] = ContentCache(10)
    for number in range(1000):
        cache.put(b"%d" % number, number)
        assert cache.get_or_compute(b"used", lambda: -1) == -1
        assert len(cache) <= 10
    assert cache.get(b"0") is None
    assert cache.get(b"999") == 999


def test_values_may_count_by_their_size() -> None:
    """At most so much of them is held; one that is larger than half of it displaces the others."""
    cache: ContentCache[str] = ContentCache(100, len)
    for number in range(100):
        cache.put(b"%d" % number, "x" * 20)
    assert len(cache) <= 5
    assert cache.get(b"99") == "x" * 20
    cache.put(b"large", "x" * 90)
    assert cache.get(b"large") == "x" * 90
    cache.put(b"next", "x")
    assert len(cache) <= 3
