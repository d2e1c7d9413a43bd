"""Head and tail of long texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.tokens import truncate_middle, truncate_to_tokens


def test_the_middle_is_replaced_by_its_size() -> None:
    """Head and tail stay; a text that is not longer than both stays as it is."""
    assert truncate_middle("abcdefghij", 2, 3) == "ab\n[... 5 characters omitted ...]\nhij"
    assert truncate_middle("x" * 5_000, 0, 0) == "\n[... 5,000 characters omitted ...]\n"
    assert truncate_middle("abc", 2, 3) == "abc"


def test_a_text_is_truncated_to_tokens() -> None:
    """One token a character here: as much of both ends as fits together with the note, two thirds of it the head."""
    truncated = truncate_to_tokens("a" * 500 + "z" * 500, 100, len)
    head, tail = truncated.count("a") - 4, truncated.count("z")
    assert (len(truncated) <= 100, head, tail) == (True, 41, 22)


def test_a_text_that_fits_stays_whole() -> None:
    """And what has no room even for the note is empty."""
    assert truncate_to_tokens("abc", 3, len) == "abc"
    assert truncate_to_tokens("x" * 1000, 10, len) == ""
    assert truncate_to_tokens("x", 0, len) == ""


@given(st.text(max_size=3000), st.integers(0, 400))
def test_a_truncated_text_is_never_over_the_limit(text: str, max_tokens: int) -> None:
    """Whatever it holds; bytes are the tokens here, so that characters differ in cost."""
    truncated = truncate_to_tokens(text, max_tokens, lambda part: len(part.encode("utf-8", "replace")))
    assert len(truncated.encode("utf-8", "replace")) <= max_tokens
