"""The bounded memory."""

from __future__ import annotations

from open_webui_openrouter_pipe.conversation.content_cache import ContentCache


def test_a_value_is_made_once_while_it_is_remembered() -> None:
    """Asking again gives the value that was made first."""
    recent: ContentCache[int] = ContentCache(4)
    assert [recent.get_or_compute(b"a", lambda: 1), recent.get_or_compute(b"a", lambda: 2)] == [1, 1]


def test_what_is_asked_for_stays_and_the_rest_is_forgotten() -> None:
    """However much passes through, at most the limit is held, and what is used again and again is kept."""
    recent: ContentCache[int] = ContentCache(10)
    for number in range(1000):
        recent.put(b"%d" % number, number)
        assert recent.get_or_compute(b"used", lambda: -1) == -1
        assert len(recent) <= 10
    assert recent.get(b"0") is None
    assert recent.get(b"999") == 999
