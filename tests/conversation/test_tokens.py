"""Counting items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, digest_item
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, TokenCounts
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
    first, again = (
        counter.entry(digest_item(answer("abc", "1"))),
        counter.entry(digest_item(answer("abc", "2"))),
    )
    assert (first, again, tokenizer.asked) == (TokenCounts(text=7), TokenCounts(text=7), ["abc"])


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

    assert (
        TokenCounter(ContentCache(), fail).text("hello world")
        == TokenCounter(ContentCache()).text("hello world")
        > 0
    )


def test_a_huge_text_reaches_the_tokenizer_in_pieces() -> None:
    """No piece is long enough to harm a tokenizer, and together they are the text."""
    tokenizer = FakeTokenizer()
    assert TokenCounter(ContentCache(), tokenizer).text("ab" * 100_000) == 200_000
    assert "".join(tokenizer.asked) == "ab" * 100_000
    assert max(map(len, tokenizer.asked)) <= 32_768
