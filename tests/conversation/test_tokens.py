"""Counting items, and head and tail of long texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, digest_item
from open_webui_openrouter_pipe.conversation.tokens import (
    TokenCounter,
    TokenCounts,
    join_ends,
    truncate_to_tokens,
)
from tests.support.chats import answer, call, output, reasoning, user


class FakeTokenizer:
    """One token a character; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> Sequence[int]:
        self.asked.append(text)
        return range(len(text))


def test_an_item_is_counted_once() -> None:
    """The second time, the count is cached, whatever the id."""
    tokenizer = FakeTokenizer()
    counter = TokenCounter(ContentCache(), tokenizer)
    counts = [counter.entry(digest_item(answer("abc", name))) for name in "12"]
    assert (counts, tokenizer.asked) == ([TokenCounts(text=7)] * 2, ["abc"])


@pytest.mark.parametrize(
    ("item", "counts"),
    [
        (user("hello"), TokenCounts(text=9)),
        (answer("bonjour"), TokenCounts(text=11)),
        (call("1", "{}", "f"), TokenCounts(text=14)),
        (output("1", "好好好"), TokenCounts(text=13)),
        (reasoning("A" * 4000), TokenCounts(sealed=(3000 - 650) // 4 + 4)),
        (
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "why"}]},
            TokenCounts(text=7),
        ),
        ({"type": "web_search_call", "id": "w"}, TokenCounts(text=42 - 4 + 4)),
    ],
)
def test_each_kind_of_item_has_its_rule(item: Any, counts: TokenCounts) -> None:
    """Messages, calls, outputs and reasoning by their own rule; anything else by its fields."""
    assert TokenCounter(ContentCache(), FakeTokenizer()).item(item) == counts


def test_media_are_counted_by_their_rule() -> None:
    """Base64 never reaches the tokenizer."""
    tokenizer = FakeTokenizer()
    parts: Any = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "detail": "low", "image_url": "data:image/png;base64," + "A" * 100_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 64_000, "format": "mp3"}},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
    ]
    counted = TokenCounter(ContentCache(), tokenizer, "openai").item(
        {"type": "message", "role": "user", "content": parts}
    )
    assert counted == TokenCounts(text=8, media=85 + 96 + 5)
    assert tokenizer.asked == ["look", "hello"]


def test_counts_are_added_kind_by_kind() -> None:
    """Each kind is billed by a rule of its own."""
    assert TokenCounts(1, 2, 3).plus(TokenCounts(10, 20, 30)) == TokenCounts(11, 22, 33)


def test_tools_are_counted() -> None:
    """Each definition by its JSON."""
    tool = {"type": "function", "name": "f", "parameters": {}}
    assert TokenCounter(ContentCache(), FakeTokenizer()).tools([tool, tool]) == TokenCounts(text=2 * (51 + 8))


def test_a_tool_is_not_mistaken_for_one_that_is_gone() -> None:
    """A counter knows its tools again; a later one may stand where an earlier one stood in memory."""
    counter = TokenCounter(ContentCache(), FakeTokenizer())
    counts = [counter.tools([{"name": "x" * length}]).text for length in range(20)]
    assert counts == list(range(counts[0], counts[0] + 20))


def test_where_a_tokenizer_fails_the_estimate_counts() -> None:
    """There is always a count."""

    def fail(text: str) -> Sequence[int]:
        raise ValueError(text)

    counts = {TokenCounter(ContentCache(), each).text("hello world") for each in (fail, None)}
    assert len(counts) == 1
    assert min(counts) > 0


def test_a_huge_text_reaches_the_tokenizer_in_pieces() -> None:
    """No piece is long enough to harm a tokenizer, and together they are the text."""
    tokenizer = FakeTokenizer()
    assert TokenCounter(ContentCache(), tokenizer).text("ab" * 100_000) == 200_000
    assert "".join(tokenizer.asked) == "ab" * 100_000
    assert max(map(len, tokenizer.asked)) <= 32_768


def test_the_middle_is_replaced_by_its_size() -> None:
    """Head and tail stay; where nothing lies between them, nothing is said."""
    assert join_ends("ab", 5, "hij") == "ab\n[... 5 characters omitted ...]\nhij"
    assert join_ends("", 5_000, "") == "\n[... 5,000 characters omitted ...]\n"
    assert join_ends("ab", 0, "c") == "abc"


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
